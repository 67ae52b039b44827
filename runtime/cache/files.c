#include "runtime/cache/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Limits: bytes queued for writing; age in seconds after which a killed process's temporary file is removed (STALE_S);
 * files written between two surveys of the folder (OFTEN). */
static const uint64_t most_waiting = 4ull << 30;
enum { STALE_S = 600, OFTEN = 32 };
static const char ending[] = ".states";

typedef struct order {
    struct order *next;
    dop_snapshot_key key;
    dop_snapshot *snapshot;
} order;

struct dop_files {
    char *folder;
    uint64_t bound;
    dop_snapshot_plan plan;
    struct timespec seen; /* modification time of the folder when it was last listed */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* guards the following fields */
    pthread_cond_t changed;
    order *first, *last;
    bool ends;
    dop_files_counts counts;
};

/* --- snapshots ------------------------------------------------------------------------------------------------------------ */

dop_snapshot *
dop_snapshot_create(uint64_t size)
{
    dop_snapshot *x = malloc(sizeof *x);
    uint8_t *bytes = x ? malloc(size ? size : 1) : NULL;
    if (!bytes) {
        free(x);
        return NULL;
    }
    atomic_init(&x->refs, 1);
    x->size = size;
    x->bytes = bytes;
    return x;
}

dop_snapshot *
dop_snapshot_hold(dop_snapshot *snapshot)
{
    atomic_fetch_add(&snapshot->refs, 1);
    return snapshot;
}

void
dop_snapshot_release(dop_snapshot *snapshot)
{
    if (!snapshot || atomic_fetch_sub(&snapshot->refs, 1) > 1)
        return;
    free(snapshot->bytes);
    free(snapshot);
}

/* --- names ------------------------------------------------------------------------------------------------------------- */

/* PLAN-FROM-TO-KIND-DIGEST.states, with hexadecimal numbers: plan and layout combined, positions, r or p, 128 bits. */
void
dop_file_name(const dop_snapshot_plan *plan, const dop_snapshot_key *key, char out[DOP_FILE_NAME])
{
    snprintf(out, DOP_FILE_NAME, "%016" PRIx64 "-%08x-%08x-%c-%016" PRIx64 "%016" PRIx64 "%s",
             plan->plan ^ (plan->layout << 1 | plan->layout >> 63), key->from, key->to, key->whole ? 'p' : 'r',
             key->digest[1], key->digest[0], ending);
}

bool
dop_file_name_read(const dop_snapshot_plan *plan, const char *name, dop_snapshot_key *out_key)
{
    char again[DOP_FILE_NAME], kind;
    unsigned long long of, high, low;
    unsigned from, to;
    if (strlen(name) >= DOP_FILE_NAME ||
        sscanf(name, "%16llx-%8x-%8x-%c-%16llx%16llx", &of, &from, &to, &kind, &high, &low) != 6)
        return false;
    *out_key = (dop_snapshot_key){.digest = {low, high}, .from = from, .to = to, .whole = kind == 'p'};
    dop_file_name(plan, out_key, again);
    return strcmp(name, again) == 0 && from <= to && to <= plan->ctx;
}

static char *
make_file_path(const dop_files *f, const char *name)
{
    char *path;
    return asprintf(&path, "%s/%s", f->folder, name) < 0 ? NULL : path;
}

/* --- size limit
 * --------------------------------------------------------------------------------------------------------- */

typedef struct old_file {
    char name[DOP_FILE_NAME];
    struct timespec used;
    uint64_t size;
} old_file;

static int
older_first(const void *x, const void *y)
{
    const old_file *a = x, *b = y;
    if (a->used.tv_sec != b->used.tv_sec)
        return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
    return a->used.tv_nsec < b->used.tv_nsec ? -1 : a->used.tv_nsec > b->used.tv_nsec;
}

static bool
name_ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Lists the files of the folder and their total size. Removes leftovers of killed processes. */
static old_file *
survey_folder(const dop_files *f, size_t *out_n, uint64_t *out_bytes)
{
    DIR *d = opendir(f->folder);
    old_file *files = NULL;
    size_t cap = 0;
    *out_n = 0;
    *out_bytes = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat sb;
        const char *tmp = strstr(e->d_name, ".states.tmp.");
        if (fstatat(dirfd(d), e->d_name, &sb, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(sb.st_mode))
            continue;
        if (tmp && time(NULL) - sb.st_mtime > STALE_S)
            (void)unlinkat(dirfd(d), e->d_name, 0);
        const size_t n = strlen(e->d_name);
        if (tmp || !name_ends_with(e->d_name, ending) || n >= DOP_FILE_NAME)
            continue;
        if (*out_n == cap) {
            cap = cap ? 2 * cap : 64;
            old_file *p = realloc(files, cap * sizeof *p);
            if (!p)
                break;
            files = p;
        }
        old_file *x = &files[(*out_n)++];
        memcpy(x->name, e->d_name, n + 1);
        x->used = sb.st_mtim;
        x->size = (uint64_t)sb.st_size;
        *out_bytes += x->size;
    }
    if (d)
        closedir(d);
    return files;
}

/* Removes the least recently used files until `more` bytes fit, unless another process is doing so. */
static void
make_folder_room(dop_files *f, uint64_t more)
{
    size_t n;
    uint64_t bytes, removed = 0;
    pthread_mutex_lock(&f->lock);
    /* survey the folder now and then, because others write here, too */
    const bool looks = f->counts.written % OFTEN == 0 || f->counts.bytes + more > f->bound;
    pthread_mutex_unlock(&f->lock);
    if (!looks)
        return;
    int folder = open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || flock(folder, LOCK_EX | LOCK_NB) != 0) {
        if (folder >= 0)
            close(folder);
        return;
    }
    old_file *files = survey_folder(f, &n, &bytes);
    if (files && bytes + more > f->bound) {
        qsort(files, n, sizeof *files, older_first);
        for (size_t i = 0; i < n && bytes + more > f->bound; i++) {
            if (unlinkat(folder, files[i].name, 0) != 0)
                continue;
            bytes -= files[i].size;
            removed++;
        }
    }
    free(files);
    close(folder);
    pthread_mutex_lock(&f->lock);
    f->counts.bytes = bytes;
    f->counts.removed += removed;
    pthread_mutex_unlock(&f->lock);
}

/* --- writing ------------------------------------------------------------------------------------------------------------- */

static bool
write_one(dop_files *f, const order *o)
{
    char name[DOP_FILE_NAME];
    struct stat sb;
    dop_out_file out = {0};
    dop_file_name(&f->plan, &o->key, name);
    char *path = make_file_path(f, name);
    bool good = path && o->snapshot->size <= f->bound;
    if (good && lstat(path, &sb) == 0) { /* another process has written it */
        good = S_ISREG(sb.st_mode) && utimensat(AT_FDCWD, path, NULL, 0) == 0;
    } else if (good) {
        (void)mkdir(f->folder, S_IRWXU); /* the user may have removed the folder to clear the cache */
        make_folder_room(f, o->snapshot->size);
        good = dop_out_file_open(path, NULL, &out) == DOP_OK;
        if (good)
            dop_out_file_keep_private(&out);
        good = good && fwrite(o->snapshot->bytes, 1, o->snapshot->size, out.f) == o->snapshot->size;
        good = dop_out_file_close(&out, good, NULL) == DOP_OK && good;
    }
    free(path);
    return good;
}

static void *
write_queued_files(void *user)
{
    dop_files *f = user;
    make_folder_room(f, 0); /* the limit may be lower than last time */
    pthread_mutex_lock(&f->lock);
    for (;;) {
        while (!f->first && !f->ends)
            pthread_cond_wait(&f->changed, &f->lock);
        order *o = f->first;
        if (!o)
            break;
        f->first = o->next;
        if (!f->first)
            f->last = NULL;
        pthread_mutex_unlock(&f->lock);
        const bool good = write_one(f, o);
        pthread_mutex_lock(&f->lock);
        f->counts.waiting -= o->snapshot->size;
        f->counts.written += good;
        f->counts.failed += !good;
        f->counts.bytes += good ? o->snapshot->size : 0;
        dop_snapshot_release(o->snapshot);
        free(o);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

void
dop_files_touch(dop_files *files, const dop_snapshot_key *key)
{
    char name[DOP_FILE_NAME];
    dop_file_name(&files->plan, key, name);
    char *path = make_file_path(files, name);
    if (path)
        (void)utimensat(AT_FDCWD, path, NULL, 0);
    free(path);
}

void
dop_files_write(dop_files *files, const dop_snapshot_key *key, dop_snapshot *snapshot)
{
    dop_files *f = files;
    order *o = malloc(sizeof *o);
    pthread_mutex_lock(&f->lock);
    const bool room = o && f->started && f->counts.waiting + snapshot->size <= most_waiting;
    if (room) {
        *o = (order){.key = *key, .snapshot = dop_snapshot_hold(snapshot)};
        f->counts.waiting += snapshot->size;
        if (f->last)
            f->last->next = o;
        else
            f->first = o;
        f->last = o;
        pthread_cond_signal(&f->changed);
    } else {
        f->counts.failed++;
    }
    pthread_mutex_unlock(&f->lock);
    if (!room)
        free(o);
}

/* --- reading ------------------------------------------------------------------------------------------------------------- */

bool
dop_files_list(dop_files *files, dop_files_fn *fn, void *user)
{
    dop_files *f = files;
    struct stat sb;
    size_t n;
    uint64_t bytes;
    if (stat(f->folder, &sb) != 0)
        sb.st_mtim = (struct timespec){0}; /* the folder is gone, and so are its files */
    if (sb.st_mtim.tv_sec == f->seen.tv_sec && sb.st_mtim.tv_nsec == f->seen.tv_nsec)
        return false;
    f->seen = sb.st_mtim;
    old_file *list = survey_folder(f, &n, &bytes);
    for (size_t i = 0; i < n; i++) {
        dop_snapshot_key key;
        if (dop_file_name_read(&f->plan, list[i].name, &key))
            fn(user, &key, list[i].size);
    }
    free(list);
    pthread_mutex_lock(&f->lock);
    f->counts.bytes = bytes;
    pthread_mutex_unlock(&f->lock);
    return true;
}

/* Reads a whole open file. It cannot change meanwhile, because files are only replaced as a whole. */
static dop_snapshot *
read_whole(int fd, uint64_t most)
{
    struct stat sb;
    if (fstat(fd, &sb) != 0 || !S_ISREG(sb.st_mode) || sb.st_size <= 0 || (uint64_t)sb.st_size > most)
        return NULL;
    dop_snapshot *x = dop_snapshot_create((uint64_t)sb.st_size);
    for (uint64_t at = 0; x && at < x->size;) {
        const ssize_t n = read(fd, x->bytes + at, x->size - at);
        if (n > 0) {
            at += (uint64_t)n;
        } else if (n == 0 || errno != EINTR) {
            dop_snapshot_release(x);
            x = NULL;
        }
    }
    return x;
}

dop_snapshot *
dop_files_read(dop_files *files, const dop_snapshot_key *key, dop_snapshot_head *out_head)
{
    dop_files *f = files;
    char name[DOP_FILE_NAME];
    dop_file_name(&f->plan, key, name);
    char *path = make_file_path(f, name);
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    dop_snapshot *x = fd >= 0 ? read_whole(fd, f->bound) : NULL;
    const uint32_t kind = DOP_SNAPSHOT_CACHED | DOP_SNAPSHOT_ROWS | (key->whole ? (uint32_t)DOP_SNAPSHOT_WHOLE : 0);
    bool good = x && dop_snapshot_check(x->bytes, x->size, &f->plan, "", NULL, out_head) == DOP_OK &&
                out_head->flags == kind && out_head->from == key->from && out_head->to == key->to &&
                out_head->key[0] == key->digest[0] && out_head->key[1] == key->digest[1];
    if (good)
        (void)futimens(fd, NULL); /* mark it as used now */
    else if (x)
        (void)unlink(path);
    if (!good) {
        dop_snapshot_release(x);
        x = NULL;
    }
    if (fd >= 0)
        close(fd);
    free(path);
    pthread_mutex_lock(&f->lock);
    f->counts.read += good;
    f->counts.failed += !good;
    pthread_mutex_unlock(&f->lock);
    return x;
}

dop_files_counts
dop_files_count(dop_files *files)
{
    pthread_mutex_lock(&files->lock);
    const dop_files_counts counts = files->counts;
    pthread_mutex_unlock(&files->lock);
    return counts;
}

/* --- opening ------------------------------------------------------------------------------------------------------------- */

/* Starts the writer thread with all signals blocked; the program's threads handle them. */
static bool
start_file_writer(dop_files *f)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    f->started = pthread_create(&f->thread, NULL, write_queued_files, f) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return f->started;
}

dop_status
dop_files_open(const char *folder, uint64_t bound, const dop_snapshot_plan *plan, dop_diag *diag, dop_files **out_files)
{
    struct stat sb;
    *out_files = NULL;
    if (mkdir(folder, S_IRWXU) != 0 && errno != EEXIST)
        return DOP_FAIL_IN(diag, DOP_E_IO, folder, "cannot create the folder: %s", strerror(errno));
    if (stat(folder, &sb) != 0 || !S_ISDIR(sb.st_mode) || access(folder, R_OK | W_OK | X_OK) != 0)
        return DOP_FAIL_IN(diag, DOP_E_IO, folder, "prompts cannot be kept here: %s",
                           errno && !S_ISDIR(sb.st_mode) ? "it is no folder" : strerror(errno));
    dop_files *f = calloc(1, sizeof *f);
    if (!f || !(f->folder = strdup(folder))) {
        free(f);
        return DOP_NO_MEMORY(diag);
    }
    f->bound = bound;
    f->plan = *plan;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    if (!start_file_writer(f)) {
        dop_files_close(f);
        return DOP_FAIL(diag, DOP_E_IO, "cannot start a thread for files of prompts");
    }
    *out_files = f;
    return DOP_OK;
}

void
dop_files_close(dop_files *files)
{
    dop_files *f = files;
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->ends = true;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
    if (f->started)
        pthread_join(f->thread, NULL);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->changed);
    free(f->folder);
    free(f);
}
