#include "base/base.h"

#include "base/foreign.h"
#include "base/os/system.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns the bytes of the character at s if it can affect a terminal or forge log lines: control characters (C0, DEL, C1),
 * bidirectional marks, and line separators.  0: harmless; *out_n is the character's length in bytes. */
static size_t
find_harm(const char *s, size_t *out_n)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0x00, 0x1f}, {0x7f, 0x9f}, {0x61c, 0x61c}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};
    const unsigned char *u = (const unsigned char *)s;
    size_t n = u[0] < 0xc2 ? 1 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
    uint32_t cp = n == 1 ? u[0] : u[0] & (0x7fU >> n);
    for (size_t i = 1; i < n; i++) {
        if ((u[i] & 0xc0) != 0x80) { /* not UTF-8: keep the byte */
            *out_n = 1;
            return 0;
        }
        cp = cp << 6 | (u[i] & 0x3f);
    }
    *out_n = n;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (cp >= ranges[i].first && cp <= ranges[i].last)
            return n;
    return 0;
}

void
dop_make_harmless(char *text, const char *kept)
{
    char *to = text;
    for (const char *from = text; *from;) {
        size_t n;
        if (find_harm(from, &n) > 0 && !strchr(kept, *from)) {
            *to++ = *from == '\n' || *from == '\t' ? ' ' : '?';
        } else {
            memmove(to, from, n);
            to += n;
        }
        from += n;
    }
    *to = 0;
}

/* Makes a message safe to print.  lines: keep line breaks, which the format itself has (source text with a caret below it). */
static void
make_harmless(char *s, bool lines)
{
    size_t n = strlen(s);
    while (n > 0 && (s[n - 1] == '\n' || s[n - 1] == ' '))
        s[--n] = 0;
    dop_make_harmless(s, lines ? "\n" : "");
}

bool
dop_path_is_inside(const char *path)
{
    if (!*path || *path == '/' || strchr(path, '\\') || path[1] == ':') /* also rejects Windows paths */
        return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (!part[2] || part[2] == '/'))
            return false;
    }
    return true;
}

void
dop_free(void *memory)
{
    free(memory);
}

const char *
dop_library_path(void)
{
    static const char here = 0;
    Dl_info info;
    return dladdr(&here, &info) && info.dli_fname ? info.dli_fname : "";
}

const char *
dop_version(void)
{
    return DOP_VERSION;
}

dop_status
dop_fail(dop_diag *diag, const char *src_file, int src_line, dop_status code, const char *path, long line, long column,
         const char *fmt, ...)
{
    if (!diag || diag->code != DOP_OK)
        return code;
    diag->code = code;
    diag->src_file = src_file;
    diag->src_line = src_line;
    diag->line = line;
    diag->column = column;
    snprintf(diag->path, sizeof diag->path, "%s", path ? path : "");
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(diag->message, sizeof diag->message, fmt, ap);
    va_end(ap);
    make_harmless(diag->path, false);
    make_harmless(diag->message, strchr(fmt, '\n') != NULL);
    return code;
}

void
dop_diag_clear(dop_diag *diag)
{
    if (!diag)
        return;
    diag->code = DOP_OK;
    diag->path[0] = diag->message[0] = 0;
    diag->line = diag->column = 0;
    diag->src_file = NULL;
    diag->src_line = 0;
}

dop_status
dop_map_open(const char *path, dop_diag *diag, dop_map *out_map)
{
    dop_status st = DOP_OK;
    memset(out_map, 0, sizeof *out_map);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: do not block on a pipe */
    if (fd < 0)
        return DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot open: %s", strerror(errno));
    struct stat sb;
    if (fstat(fd, &sb) != 0) {
        st = DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot stat: %s", strerror(errno));
        goto error;
    }
    if (!S_ISREG(sb.st_mode)) {
        st = DOP_FAIL_IN(diag, DOP_E_IO, path, "not a regular file");
        goto error;
    }
    if (sb.st_size > 0) {
        void *p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            st = DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot map: %s", strerror(errno));
            goto error;
        }
        out_map->data = p;
        out_map->size = (uint64_t)sb.st_size;
        out_map->path = strdup(path);
        if (!out_map->path) {
            st = DOP_NO_MEMORY(diag);
            dop_map_close(out_map);
        } else if (dop_file_kind_of(p, out_map->size) == DOP_FILE_LFS) {
            st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "%s", dop_file_refusal(DOP_FILE_LFS));
            dop_map_close(out_map);
        }
    }
error:
    close(fd);
    return st;
}

void
dop_map_forget(const dop_map *map)
{
    if (map->data)
        (void)madvise((void *)(uintptr_t)map->data, (size_t)map->size, MADV_DONTNEED); /* best effort */
}

void
dop_map_close(dop_map *map)
{
    if (map->data)
        munmap((void *)(uintptr_t)map->data, (size_t)map->size);
    free(map->path);
    memset(map, 0, sizeof *map);
}

static _Thread_local uint64_t buf_failures;

uint64_t
dop_buf_failures(void)
{
    return buf_failures;
}

static bool
buf_fail(dop_buf *b)
{
    b->failed = true;
    buf_failures++;
    return false;
}

static bool
buf_reserve(dop_buf *b, size_t extra)
{
    if (b->failed)
        return false;
    if (extra > SIZE_MAX / 4 - b->size)
        return buf_fail(b);
    size_t need = b->size + extra + 1;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap : 256;
    while (cap < need)
        cap *= 2;
    char *p = realloc(b->data, cap);
    if (!p)
        return buf_fail(b);
    b->data = p;
    b->cap = cap;
    return true;
}

void
dop_buf_append(dop_buf *b, const void *bytes, size_t n)
{
    if (!buf_reserve(b, n))
        return;
    if (n)
        memcpy(b->data + b->size, bytes, n);
    b->size += n;
    b->data[b->size] = 0;
}

void
dop_buf_puts(dop_buf *b, const char *s)
{
    dop_buf_append(b, s, strlen(s));
}

void
dop_buf_vprintf(dop_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n >= 0 && buf_reserve(b, (size_t)n)) {
        vsnprintf(b->data + b->size, (size_t)n + 1, fmt, again);
        b->size += (size_t)n;
    }
    va_end(again);
}

void
dop_buf_printf(dop_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    dop_buf_vprintf(b, fmt, ap);
    va_end(ap);
}

void
dop_buf_zeros(dop_buf *b, size_t n)
{
    if (!buf_reserve(b, n))
        return;
    memset(b->data + b->size, 0, n + 1);
    b->size += n;
}

const char *
dop_buf_text(const dop_buf *b)
{
    return b->data ? b->data : "";
}

void
dop_buf_finish(dop_buf *b)
{
    free(b->data);
    memset(b, 0, sizeof *b);
}

/* Opens an unnamed file (O_TMPFILE) in the folder of path.  -1: not supported by the file system, or /proc, which is needed to name the
 * file later, is missing. */
static int
open_nameless(const char *path)
{
    const char *slash = dop_path_slash(path);
    char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    int fd = folder && access("/proc/self/fd", X_OK) == 0 ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
    free(folder);
    return fd;
}

/* True if a symbolic link may be followed for writing.  Same rule as fs.protected_symlinks, which the kernel applies only to links that
 * it follows itself.  In a sticky world-writable folder (/tmp), the link must belong to the process's user or to the folder's owner. */
static bool
may_follow(const char *link, const struct stat *of_link)
{
    struct stat folder;
    const char *slash = dop_path_slash(link);
    char *name = slash ? strndup(link, slash == link ? 1 : (size_t)(slash - link)) : strdup(".");
    const bool known = name && stat(name, &folder) == 0;
    free(name);
    if (known && (!(folder.st_mode & S_ISVTX) || !(folder.st_mode & S_IWOTH) || of_link->st_uid == geteuid() ||
                  of_link->st_uid == folder.st_uid))
        return true;
    errno = EACCES;
    return false;
}

/* Resolves a chain of symbolic links at the end of a path; returns a copy of the path if it is not a link.  The target need not exist.
 * NULL with errno on failure. */
static char *
follow_links(const char *path)
{
    char *at = strdup(path);
    struct stat sb;
    for (int i = 0; at && lstat(at, &sb) == 0 && S_ISLNK(sb.st_mode); i++) {
        char target[4096] = "", *next = NULL;
        const char *slash = dop_path_slash(at);
        ssize_t len = readlink(at, target, sizeof target);
        bool ok = i < 40 && len > 0 && (size_t)len < sizeof target;
        int folder = slash ? (int)(slash + 1 - at) : 0;
        if (!may_follow(at, &sb)) {
            free(at);
            errno = EACCES;
            return NULL;
        }
        if (i == 40)
            errno = ELOOP;
        else if (!ok && len >= 0)
            errno = ENAMETOOLONG;
        if (ok && asprintf(&next, "%.*s%.*s", dop_path_is_absolute(target) ? 0 : folder, at, (int)len, target) < 0)
            next = NULL;
        free(at);
        at = next;
    }
    return at;
}

/* True if `final` itself is the file that `sb` describes.  False for links such as those of /proc/self/fd, whose text need not be a
 * path. */
static bool
is_same_file(const char *final, const struct stat *sb)
{
    struct stat x;
    return lstat(final, &x) == 0 && x.st_dev == sb->st_dev && x.st_ino == sb->st_ino;
}

dop_status
dop_out_file_open(const char *path, dop_diag *diag, dop_out_file *out_output)
{
    struct stat sb;
    dop_out_file o = {.path = path};
    memset(out_output, 0, sizeof *out_output);
    bool exists = stat(path, &sb) == 0;
    o.final = follow_links(path);
    if (!o.final)
        return DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot write: %s", strerror(errno));
    if (exists && (!S_ISREG(sb.st_mode) || !is_same_file(o.final, &sb))) {
        o.f = fopen(path, "wbe");
    } else {
        if (asprintf(&o.tmp, "%s.tmp.%ld", o.final, (long)getpid()) < 0) {
            free(o.final);
            return DOP_NO_MEMORY(diag);
        }
        int fd = open_nameless(o.final);
        o.has_name = fd < 0;
        if (o.has_name) {
            unlink(o.tmp); /* left by an earlier process with this PID */
            fd = open(o.tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        }
        o.f = fd >= 0 ? fdopen(fd, "wb") : NULL;
        if (!o.f && fd >= 0)
            close(fd);
    }
    if (!o.f) {
        dop_status st = DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot write: %s", strerror(errno));
        free(o.tmp);
        free(o.final);
        return st;
    }
    *out_output = o;
    return DOP_OK;
}

dop_status
dop_out_file_try(const char *path, dop_diag *diag)
{
    struct stat sb;
    dop_out_file o;
    if (stat(path, &sb) == 0 && !S_ISREG(sb.st_mode))
        return S_ISDIR(sb.st_mode) ? DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot write: %s", strerror(EISDIR)) : DOP_OK;
    const dop_status st = dop_out_file_open(path, diag, &o);
    return st == DOP_OK ? dop_out_file_close(&o, false, diag) : st;
}

void
dop_out_file_keep_private(dop_out_file *output)
{
    if (output->f && output->tmp)
        (void)fchmod(fileno(output->f), S_IRUSR | S_IWUSR);
}

dop_status
dop_out_file_close(dop_out_file *o, bool ok, dop_diag *diag)
{
    dop_status st = DOP_OK;
    if (!o->f)
        return DOP_OK;
    bool done = fflush(o->f) == 0 && !ferror(o->f);
    if (ok && done && o->tmp && !o->has_name) {
        char name[64];
        snprintf(name, sizeof name, "/proc/self/fd/%d", fileno(o->f));
        unlink(o->tmp); /* left by an earlier process with this PID */
        done = o->has_name = linkat(AT_FDCWD, name, AT_FDCWD, o->tmp, AT_SYMLINK_FOLLOW) == 0;
    }
    done = fclose(o->f) == 0 && done;
    if (ok && (!done || (o->tmp && rename(o->tmp, o->final) != 0)))
        st = DOP_FAIL_IN(diag, DOP_E_IO, o->path, "cannot write: %s", strerror(errno));
    if (o->tmp && o->has_name && (!ok || st != DOP_OK))
        unlink(o->tmp);
    free(o->tmp);
    free(o->final);
    memset(o, 0, sizeof *o);
    return st;
}

dop_status
dop_write_file(const char *path, const void *data, size_t size, dop_diag *diag)
{
    dop_out_file o;
    dop_status st = dop_out_file_open(path, diag, &o);
    if (st == DOP_OK && size && fwrite(data, 1, size, o.f) != size)
        st = DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot write: %s", strerror(errno));
    dop_status closed = dop_out_file_close(&o, st == DOP_OK, diag);
    return st == DOP_OK ? closed : st;
}

float
dop_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

uint16_t
dop_f32_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u) /* NaN stays NaN */
        return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float
dop_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = (h >> 10) & 31u, man = h & 1023u, u;
    if (exp == 31) {
        u = sign | 0x7f800000u | (man << 13);
    } else if (exp == 0) {
        float v = (float)man * 0x1p-24f; /* subnormal: exact in f32 */
        return sign ? -v : v;
    } else {
        u = sign | ((exp + 112u) << 23) | (man << 13);
    }
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

uint16_t
dop_f32_to_f16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    uint32_t sign = (u >> 16) & 0x8000u;
    uint32_t a = u & 0x7fffffffu;
    if (a > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (a >= 0x477ff000u) /* rounds to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (a < 0x38800000u) { /* subnormal or zero: let the FPU round at 2^-24 */
        float v;
        memcpy(&v, &a, sizeof v);
        v += 0.5f; /* ulp of [0.5, 1) is 2^-24, the f16 subnormal step */
        uint32_t r;
        memcpy(&r, &v, sizeof r);
        return (uint16_t)(sign | (r - 0x3f000000u));
    }
    a += 0xfffu + ((a >> 13) & 1u);
    return (uint16_t)(sign | ((a - 0x38000000u) >> 13));
}
