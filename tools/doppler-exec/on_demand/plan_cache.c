#include "tools/doppler-exec/on_demand/plan_cache.h"

#include "base/os/system.h"
#include "base/progress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum {
    KEY_DIGITS = 32,
    DEVICE_DIGITS = 16,
    MOST_FILES = 4096 /* maximum number of cached digests */,
    MOST_AVOIDED = 512 /* maximum bytes of the list */
};

static const char plan_ending[] = ".plan";

/* Creates a folder and its parents. Returns 0 or errno. */
static int
make_cache_folders(const char *dir)
{
    char *path = strdup(dir);
    if (!path)
        return ENOMEM;
    int error = 0;
    for (char *p = path + 1; *p; p++)
        if (dop_is_slash(*p)) {
            *p = 0;
            (void)mkdir(path, 0777);
            *p = '/';
        }
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        error = errno;
    free(path);
    return error;
}

static dop_status
cannot_keep(const dop_plan_cache *cache, dop_diag *diag)
{
    return DOP_FAIL_IN(diag, DOP_E_IO, cache->dir,
                       "plans of models cannot be kept here: %s; name another folder with --cache-dir",
                       strerror(cache->error));
}

dop_status
dop_plan_cache_open(const char *cache_dir, uint64_t limit, dop_diag *diag, dop_plan_cache *out)
{
    char *lock = NULL;
    *out = (dop_plan_cache){.lock = -1, .limit = limit};
    if (asprintf(&out->dir, "%s/plans", cache_dir) < 0)
        out->dir = NULL;
    if (asprintf(&out->files, "%s/plans/files", cache_dir) < 0)
        out->files = NULL;
    if (!out->dir || !out->files || asprintf(&lock, "%s/lock", out->dir) < 0) {
        dop_plan_cache_close(out);
        return DOP_NO_MEMORY(diag);
    }
    int error = make_cache_folders(out->files);
    if (!error && (out->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666)) < 0)
        error = errno;
    free(lock);
    out->error = error;
    if (!error || ((error == EROFS || error == EACCES) && access(out->dir, R_OK | X_OK) == 0))
        return DOP_OK;
    dop_status st = cannot_keep(out, diag);
    dop_plan_cache_close(out);
    return st;
}

void
dop_plan_cache_close(dop_plan_cache *cache)
{
    if (cache->dir && cache->lock >= 0)
        close(cache->lock);
    free(cache->dir);
    free(cache->files);
    *cache = (dop_plan_cache){.lock = -1};
}

char *
dop_plan_cache_path(const dop_plan_cache *cache, const dop_cache_key *key, const dop_cache_device *device)
{
    char *path;
    return asprintf(&path, "%s/%s-%s%s", cache->dir, key->text, device->text, plan_ending) < 0 ? NULL : path;
}

/* True for the name of a plan in this cache. */
static bool
is_entry(const char *name)
{
    const size_t n = strlen(name);
    return n == KEY_DIGITS + 1 + DEVICE_DIGITS + sizeof plan_ending - 1 && name[KEY_DIGITS] == '-' &&
           strspn(name, "0123456789abcdef") == KEY_DIGITS &&
           strspn(name + KEY_DIGITS + 1, "0123456789abcdef") == DEVICE_DIGITS &&
           strcmp(name + n - sizeof plan_ending + 1, plan_ending) == 0;
}

static bool
is_later_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

bool
dop_plan_cache_last(const dop_plan_cache *cache, const dop_cache_key *key, dop_cache_device *out_device)
{
    struct timespec best = {0};
    bool found = false;
    DIR *d = opendir(cache->dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat sb;
        if (!is_entry(e->d_name) || strncmp(e->d_name, key->text, KEY_DIGITS) != 0 ||
            fstatat(dirfd(d), e->d_name, &sb, 0) != 0 || (found && !is_later_time(&sb.st_mtim, &best)))
            continue;
        best = sb.st_mtim;
        found = true;
        memcpy(out_device->text, e->d_name + KEY_DIGITS + 1, DEVICE_DIGITS);
        out_device->text[DEVICE_DIGITS] = 0;
    }
    if (d)
        closedir(d);
    return found;
}

bool
dop_plan_cache_use(const char *path)
{
    if (access(path, R_OK) != 0)
        return false;
    (void)utimensat(AT_FDCWD, path, NULL, 0); /* a read-only cache keeps no order of use */
    return true;
}

/* Locks or unlocks the key's byte in the lock file. Open file description locks also work between threads. */
static int
change_lock(const dop_plan_cache *cache, const dop_cache_key *key, int command, short type)
{
    char digits[9];
    snprintf(digits, sizeof digits, "%.8s", key->text);
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)strtoul(digits, NULL, 16), .l_len = 1};
    int result;
    do
        result = fcntl(cache->lock, command, &lock);
    while (result != 0 && errno == EINTR);
    return result;
}

dop_status
dop_plan_cache_lock(const dop_plan_cache *cache, const dop_cache_key *key, const dop_progress *progress, dop_diag *diag,
                    bool *out_waited)
{
    const struct timespec pause = {.tv_nsec =
                                       20 * 1000 * 1000}; /* polls, because a blocking wait could not be cancelled */
    *out_waited = false;
    if (cache->error)
        return cannot_keep(cache, diag);
    while (change_lock(cache, key, F_OFD_SETLK, F_WRLCK) != 0) {
        if (errno != EAGAIN && errno != EACCES)
            return DOP_FAIL_IN(diag, DOP_E_IO, cache->dir, "cannot lock the folder: %s", strerror(errno));
        if (!dop_progress_report(progress, "waiting", 0, 0))
            return DOP_CANCELLED(diag);
        *out_waited = true;
        nanosleep(&pause, NULL);
    }
    return DOP_OK;
}

void
dop_plan_cache_unlock(const dop_plan_cache *cache, const dop_cache_key *key)
{
    (void)change_lock(cache, key, F_OFD_SETLK, F_UNLCK);
}

/* Returns the path of a plan's entry for --cache-list. */
static char *
make_text_path(const char *path)
{
    char *text = strdup(path);
    if (text)
        memcpy(text + strlen(text) - sizeof plan_ending + 1, ".txt", sizeof ".txt");
    return text;
}

/* Removes the contents of a folder of the cache. Removes links without following them. */
static void
empty_folder(int at, const char *name, int depth, uint64_t *io_bytes)
{
    enum { MOST_DEPTH = 16 };
    const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0)
        close(fd);
    for (struct dirent *e; d && depth < MOST_DEPTH && (e = readdir(d));) {
        struct stat sb;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fstatat(dirfd(d), e->d_name, &sb, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISDIR(sb.st_mode)) {
            empty_folder(dirfd(d), e->d_name, depth + 1, io_bytes);
            (void)unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
        } else if (unlinkat(dirfd(d), e->d_name, 0) == 0) {
            *io_bytes += (uint64_t)sb.st_blocks * 512;
        }
    }
    if (d)
        closedir(d);
}

void
dop_plan_cache_remove(const char *path)
{
    uint64_t bytes = 0;
    char *text = make_text_path(path);
    if (unlink(path) != 0 && errno == EISDIR) {
        empty_folder(AT_FDCWD, path, 0, &bytes);
        (void)rmdir(path);
    }
    if (text)
        (void)unlink(text);
    free(text);
}

dop_status
dop_plan_cache_describe(const char *path, const char *model, const char *options, const char *device, dop_diag *diag)
{
    dop_buf all = {0};
    char *to = make_text_path(path);
    const char *const lines[] = {model, options, device};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        for (const char *c = lines[i]; *c;
             c++) /* replaces control characters of file names, as the list has one line per entry */
            dop_buf_append(&all, (unsigned char)*c < 0x20 || *c == 0x7f ? "?" : c, 1);
        dop_buf_puts(&all, "\n");
    }
    dop_status st = to && !all.failed ? dop_write_file(to, all.data, all.size, diag) : DOP_NO_MEMORY(diag);
    free(to);
    dop_buf_finish(&all);
    return st;
}

/* Returns the path of a device's list of kernels to avoid. The file has two lines: the release, and the names
 * separated by commas. */
static char *
avoid_path(const dop_plan_cache *cache, const dop_cache_device *device)
{
    char *path;
    return asprintf(&path, "%s/%s.avoid", cache->dir, device->text) < 0 ? NULL : path;
}

void
dop_plan_cache_avoided(const dop_plan_cache *cache, const dop_cache_device *device, const char *release, dop_buf *out)
{
    char *path = avoid_path(cache, device);
    const size_t skip = strlen(release) + 1;
    dop_map map = {0};
    if (path && dop_map_open(path, NULL, &map) == DOP_OK && map.size > skip + 1 && map.size - skip <= MOST_AVOIDED &&
        memcmp(map.data, release, skip - 1) == 0 && map.data[skip - 1] == '\n' && map.data[map.size - 1] == '\n') {
        const char *names = (const char *)map.data + skip;
        const size_t n = (size_t)map.size - skip - 1;
        size_t good = 0;
        while (good < n && names[good] && strchr("abcdefghijklmnopqrstuvwxyz0123456789_,", names[good]))
            good++;
        if (good == n)
            dop_buf_append(out, names, n);
    }
    dop_map_close(&map);
    free(path);
}

dop_status
dop_plan_cache_avoid(const dop_plan_cache *cache, const dop_cache_device *device, const char *release,
                     const char *names, dop_diag *diag)
{
    dop_buf text = {0};
    char *path = avoid_path(cache, device);
    dop_buf_printf(&text, "%s\n%s\n", release, names);
    dop_status st = path && !text.failed ? dop_write_file(path, text.data, text.size, diag) : DOP_NO_MEMORY(diag);
    free(path);
    dop_buf_finish(&text);
    return st;
}

/* --- listing and trimming
 * ------------------------------------------------------------------------------------------ */

typedef struct entry {
    char name[KEY_DIGITS + DEVICE_DIGITS + 8];
    uint64_t bytes;
    struct timespec used;
} entry;

typedef struct entries {
    entry *list; /* owned; least recently used first */
    size_t n, cap;
    uint64_t bytes;
} entries;

static int
by_use(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return is_later_time(&x->used, &y->used) ? 1 : is_later_time(&y->used, &x->used) ? -1 : strcmp(x->name, y->name);
}

/* True for a temporary file NAME.tmp.PID of a process that has ended. */
static bool
is_left(const char *name)
{
    const char *tmp = strstr(name, ".tmp.");
    char *end = NULL;
    const long pid = tmp ? strtol(tmp + 5, &end, 10) : 0;
    return tmp && pid > 0 && *end == 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

static entries
list_entries(const char *dir)
{
    entries all = {0};
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat sb;
        if (is_left(e->d_name))
            (void)unlinkat(dirfd(d), e->d_name, 0);
        if (!is_entry(e->d_name) || fstatat(dirfd(d), e->d_name, &sb, 0) != 0)
            continue;
        if (all.n == all.cap) {
            const size_t cap = all.cap ? 2 * all.cap : 64;
            entry *list = realloc(all.list, cap * sizeof *list);
            if (!list)
                break;
            all.list = list;
            all.cap = cap;
        }
        entry *x = &all.list[all.n++];
        *x = (entry){.bytes = (uint64_t)sb.st_blocks * 512, .used = sb.st_mtim};
        memcpy(x->name, e->d_name, strlen(e->d_name) + 1);
        all.bytes += x->bytes;
    }
    if (d)
        closedir(d);
    if (all.n > 1)
        qsort(all.list, all.n, sizeof *all.list, by_use);
    return all;
}

/* Removes all digests if there are too many. They are computed again when needed. */
static void
trim_files(const char *dir)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    while (d && readdir(d))
        n++;
    if (d && n > MOST_FILES) {
        rewinddir(d);
        for (struct dirent *e; (e = readdir(d));)
            if (e->d_name[0] != '.')
                (void)unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d)
        closedir(d);
}

void
dop_plan_cache_trim(const dop_plan_cache *cache, uint64_t need, const char *keep)
{
    entries all = list_entries(cache->dir);
    const char *kept = keep ? dop_path_name(keep) : "";
    for (size_t i = 0; i < all.n; i++) {
        struct statvfs disk;
        const bool fits =
            statvfs(cache->dir, &disk) != 0 || (uint64_t)disk.f_bavail * disk.f_frsize > need + (need >> 4);
        char *path;
        if ((all.bytes + need <= cache->limit && (need == 0 || fits)) || strcmp(all.list[i].name, kept) == 0)
            continue;
        if (asprintf(&path, "%s/%s", cache->dir, all.list[i].name) < 0)
            break;
        dop_plan_cache_remove(path);
        free(path);
        all.bytes -= all.list[i].bytes;
    }
    free(all.list);
    trim_files(cache->files);
}

/* Appends a plan's line of --cache-list. */
static void
put_entry(const char *dir, const entry *x, dop_buf *out)
{
    char when[32] = "";
    char *lines[3] = {"?", "", ""}, *rest;
    dop_map map = {0};
    dop_buf path = {0}, text = {0};
    struct tm local;
    if (localtime_r(&x->used.tv_sec, &local))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
    dop_buf_printf(&path, "%s/%.*s.txt", dir, (int)(strlen(x->name) - sizeof plan_ending + 1), x->name);
    if (path.data && dop_map_open(path.data, NULL, &map) == DOP_OK)
        dop_buf_append(&text, map.data, map.size < 65536 ? (size_t)map.size : 65536);
    dop_map_close(&map);
    for (size_t i = 0; i < text.size; i++) /* removes terminal control characters */
        if ((unsigned char)text.data[i] < 0x20 && text.data[i] != '\n')
            text.data[i] = '?';
    rest = text.data;
    for (int i = 0; i < 3 && rest; i++)
        lines[i] = strsep(&rest, "\n");
    dop_buf_printf(out, "%9.1f MB  %s  %s%s%s  %s\n", (double)x->bytes / 1e6, when, lines[0], *lines[1] ? " " : "",
                   lines[1], lines[2]);
    dop_buf_finish(&path);
    dop_buf_finish(&text);
}

dop_status
dop_plan_cache_list(const char *cache_dir, uint64_t limit, dop_diag *diag, dop_buf *out)
{
    char *dir;
    if (asprintf(&dir, "%s/plans", cache_dir) < 0)
        return DOP_NO_MEMORY(diag);
    entries all = list_entries(dir);
    for (size_t i = all.n; i-- > 0;)
        put_entry(dir, &all.list[i], out);
    dop_buf_printf(out, "%zu plan%s, %.1f MB of at most %.1f MB, in %s\n", all.n, all.n == 1 ? "" : "s",
                   (double)all.bytes / 1e6, (double)limit / 1e6, dir);
    free(all.list);
    free(dir);
    return out->failed ? DOP_NO_MEMORY(diag) : DOP_OK;
}

/* --- clearing ------------------------------------------------------------------------------------------------------------------ */

dop_status
dop_cache_clear(const char *cache_dir, bool models, dop_diag *diag, uint64_t *out_bytes)
{
    *out_bytes = 0;
    DIR *d = opendir(cache_dir);
    if (!d && errno != ENOENT)
        return DOP_FAIL_IN(diag, DOP_E_IO, cache_dir, "cannot read the folder: %s", strerror(errno));
    if (!d)
        return DOP_OK;
    empty_folder(dirfd(d), "plans", 0, out_bytes);
    if (models)
        empty_folder(dirfd(d), "models", 0, out_bytes);
    for (struct dirent *e; (e = readdir(d));) {
        struct stat sb;
        if (strncmp(e->d_name, "pipelines-", 10) == 0 && fstatat(dirfd(d), e->d_name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(sb.st_mode) && unlinkat(dirfd(d), e->d_name, 0) == 0)
            *out_bytes += (uint64_t)sb.st_blocks * 512;
    }
    closedir(d);
    return DOP_OK;
}
