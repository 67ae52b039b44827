/* POSIX file functions on Windows: UTF-8 names, binary files, 64-bit sizes, and files that can be removed and
 * replaced while open. */
#include "base/os/windows/posix.h"
#include "base/os/windows/wide.h"

#include <stdarg.h>

static HANDLE
handle_of(int fd)
{
    const intptr_t h = fd >= 0 ? _get_osfhandle(fd) : -1;
    if (h == -1)
        errno = EBADF;
    return (HANDLE)h;
}

/* Returns a CRT descriptor for a handle; closes the handle on failure. */
static int
fd_of(HANDLE h, int flags)
{
    const int fd =
        _open_osfhandle((intptr_t)h, (flags & (O_APPEND | O_RDONLY | O_RDWR | O_WRONLY)) | _O_BINARY | _O_NOINHERIT);
    if (fd < 0)
        CloseHandle(h);
    return fd;
}

int
open(const char *path, int flags, ...)
{
    const int direction = flags & (O_RDONLY | O_WRONLY | O_RDWR);
    const DWORD access = direction == O_RDONLY   ? GENERIC_READ
                         : direction == O_WRONLY ? GENERIC_WRITE
                                                 : GENERIC_READ | GENERIC_WRITE;
    const DWORD how = !(flags & O_CREAT) ? (flags & O_TRUNC ? TRUNCATE_EXISTING : OPEN_EXISTING)
                      : flags & O_EXCL   ? CREATE_NEW
                      : flags & O_TRUNC  ? CREATE_ALWAYS
                                         : OPEN_ALWAYS;
    /* FILE_FLAG_BACKUP_SEMANTICS is required for folders.  With O_NOFOLLOW a link itself is opened, and then refused. */
    const DWORD attributes =
        FILE_ATTRIBUTE_NORMAL | FILE_FLAG_BACKUP_SEMANTICS | (flags & O_NOFOLLOW ? FILE_FLAG_OPEN_REPARSE_POINT : 0);
    if (flags & O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    wchar_t *wide = dop_windows_path(path);
    if (!wide)
        return -1;
    HANDLE h =
        CreateFileW(wide, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, how, attributes, NULL);
    free(wide);
    if (h == INVALID_HANDLE_VALUE)
        return dop_windows_fail();
    BY_HANDLE_FILE_INFORMATION info;
    const bool known = GetFileInformationByHandle(h, &info) != 0;
    const bool folder = known && (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY);
    const int wrong = known && (flags & O_NOFOLLOW) && (info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) ? ELOOP
                      : (flags & O_DIRECTORY) && !folder                                                      ? ENOTDIR
                      : folder && direction != O_RDONLY                                                       ? EISDIR
                                                                                                              : 0;
    if (wrong) {
        CloseHandle(h);
        errno = wrong;
        return -1;
    }
    return fd_of(h, flags);
}

FILE *
fopen(const char *path, const char *mode)
{
    const bool plus = strchr(mode, '+') != NULL;
    const int direction = plus ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    const int how = mode[0] == 'r' ? 0 : mode[0] == 'w' ? O_CREAT | O_TRUNC : O_CREAT | O_APPEND;
    const int fd = open(path, direction | how | (strchr(mode, 'x') ? O_EXCL : 0), 0666);
    const char plain[4] = {mode[0], 'b', plus ? '+' : 0, 0};
    FILE *f = fd < 0 ? NULL : fdopen(fd, plain);
    if (fd >= 0 && !f)
        close(fd);
    return f;
}

/* Returns the path of a name relative to an open folder.  NULL with errno on failure; freed by the caller. */
static char *
below(int folder, const char *path)
{
    if (folder == AT_FDCWD || path[0] == '/' || path[0] == '\\' || (path[0] && path[1] == ':'))
        return strdup(path);
    HANDLE h = handle_of(folder);
    char *name = h == INVALID_HANDLE_VALUE ? NULL : dop_windows_name_of(h), *whole = NULL;
    if (name && asprintf(&whole, "%s/%s", name, path) < 0)
        whole = NULL;
    free(name);
    return whole;
}

int
openat(int folder, const char *path, int flags, ...)
{
    char *name = below(folder, path);
    const int fd = name ? open(name, flags, 0666) : -1;
    free(name);
    return fd;
}

static struct timespec
time_of(LARGE_INTEGER t)
{
    const int64_t from_1601 = 116444736000000000; /* 1601 to 1970, in units of 100 ns */
    const int64_t at = t.QuadPart - from_1601;
    return (struct timespec){.tv_sec = at / 10000000, .tv_nsec = (long)(at % 10000000 * 100)};
}

static int
stat_of(HANDLE h, struct stat *out)
{
    BY_HANDLE_FILE_INFORMATION info;
    FILE_BASIC_INFO times;
    FILE_STANDARD_INFO sizes;
    memset(out, 0, sizeof *out);
    const DWORD type = GetFileType(h);
    if (type == FILE_TYPE_CHAR || type == FILE_TYPE_PIPE) {
        out->st_mode = (type == FILE_TYPE_CHAR ? S_IFCHR : S_IFIFO) | 0666;
        out->st_nlink = 1;
        return 0;
    }
    if (!GetFileInformationByHandle(h, &info) ||
        !GetFileInformationByHandleEx(h, FileBasicInfo, &times, sizeof times) ||
        !GetFileInformationByHandleEx(h, FileStandardInfo, &sizes, sizeof sizes))
        return dop_windows_fail();
    const DWORD a = info.dwFileAttributes;
    out->st_dev = info.dwVolumeSerialNumber;
    out->st_ino = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;
    out->st_mode = a & FILE_ATTRIBUTE_REPARSE_POINT ? S_IFLNK | 0777
                   : a & FILE_ATTRIBUTE_DIRECTORY   ? S_IFDIR | 0755
                   : a & FILE_ATTRIBUTE_READONLY    ? S_IFREG | 0444
                                                    : S_IFREG | 0644;
    out->st_nlink = info.nNumberOfLinks;
    out->st_size = sizes.EndOfFile.QuadPart;
    out->st_blocks = sizes.AllocationSize.QuadPart / 512;
    out->st_mtim = time_of(times.LastWriteTime);
    out->st_atim = time_of(times.LastAccessTime);
    out->st_ctim = time_of(times.ChangeTime);
    return 0;
}

static int
stat_path(const char *path, bool follow, struct stat *out)
{
    wchar_t *wide = dop_windows_path(path);
    if (!wide)
        return -1;
    HANDLE h =
        CreateFileW(wide, FILE_READ_ATTRIBUTES, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                    OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | (follow ? 0 : FILE_FLAG_OPEN_REPARSE_POINT), NULL);
    free(wide);
    if (h == INVALID_HANDLE_VALUE)
        return dop_windows_fail();
    int bad = stat_of(h, out);
    if (!bad && follow && S_ISLNK(out->st_mode)) /* a file that its file system stores elsewhere */
        out->st_mode = S_IFREG | 0644;
    CloseHandle(h);
    return bad;
}

int
stat(const char *path, struct stat *out)
{
    return stat_path(path, true, out);
}

int
lstat(const char *path, struct stat *out)
{
    return stat_path(path, false, out);
}

int
fstat(int fd, struct stat *out)
{
    HANDLE h = handle_of(fd);
    return h == INVALID_HANDLE_VALUE ? -1 : stat_of(h, out);
}

int
fstatat(int folder, const char *path, struct stat *out, int flags)
{
    char *name = below(folder, path);
    const int bad = name ? stat_path(name, !(flags & AT_SYMLINK_NOFOLLOW), out) : -1;
    free(name);
    return bad;
}

int
access(const char *path, int mode)
{
    struct stat sb;
    if (stat(path, &sb) != 0)
        return -1;
    if ((mode & W_OK) && !S_ISDIR(sb.st_mode) && !(sb.st_mode & S_IWUSR)) {
        errno = EACCES;
        return -1;
    }
    return 0;
}

/* Calls a Windows function with a path. */
static int
with_path(const char *path, BOOL(WINAPI *call)(const wchar_t *))
{
    wchar_t *wide = dop_windows_path(path);
    const int bad = !wide ? -1 : call(wide) ? 0 : dop_windows_fail();
    free(wide);
    return bad;
}

int
unlink(const char *path)
{
    return with_path(path, DeleteFileW);
}

int
rmdir(const char *path)
{
    return with_path(path, RemoveDirectoryW);
}

int
unlinkat(int folder, const char *path, int flags)
{
    char *name = below(folder, path);
    const int bad = !name ? -1 : flags & AT_REMOVEDIR ? rmdir(name) : unlink(name);
    free(name);
    return bad;
}

static BOOL WINAPI
make_folder(const wchar_t *path)
{
    return CreateDirectoryW(path, NULL);
}

int
mkdir(const char *path, unsigned mode)
{
    (void)mode;
    return with_path(path, make_folder);
}

int
rename(const char *from, const char *to)
{
    wchar_t *a = dop_windows_path(from), *b = dop_windows_path(to);
    const int bad = !a || !b ? -1 : MoveFileExW(a, b, MOVEFILE_REPLACE_EXISTING) ? 0 : dop_windows_fail();
    free(a);
    free(b);
    return bad;
}

int
linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    char *a = below(from_folder, from), *b = below(to_folder, to);
    wchar_t *wide_a = a ? dop_windows_path(a) : NULL, *wide_b = b ? dop_windows_path(b) : NULL;
    (void)flags;
    const int bad = !wide_a || !wide_b ? -1 : CreateHardLinkW(wide_b, wide_a, NULL) ? 0 : dop_windows_fail();
    free(a);
    free(b);
    free(wide_a);
    free(wide_b);
    return bad;
}

char *
realpath(const char *path, char *out)
{
    (void)out;
    wchar_t *wide = dop_windows_path(path);
    if (!wide)
        return NULL;
    HANDLE h = CreateFileW(wide, FILE_READ_ATTRIBUTES, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                           OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    free(wide);
    if (h == INVALID_HANDLE_VALUE) {
        dop_windows_fail();
        return NULL;
    }
    char *name = dop_windows_name_of(h);
    CloseHandle(h);
    return name;
}

/* Returns the full path that a link resolves to; Windows does not return the link's own text. */
ssize_t
readlink(const char *path, char *out, size_t cap)
{
    char *name = realpath(path, NULL);
    if (!name)
        return -1;
    const size_t n = strlen(name) < cap ? strlen(name) : cap;
    memcpy(out, name, n);
    free(name);
    return (ssize_t)n;
}

static unsigned
at_once(size_t n)
{
    return n < 1u << 30 ? (unsigned)n : 1u << 30;
}

ssize_t
read(int fd, void *out, size_t n)
{
    return _read(fd, out, at_once(n));
}

ssize_t
write(int fd, const void *bytes, size_t n)
{
    return _write(fd, bytes, at_once(n));
}

/* True if the descriptor is a console; false for NUL and other devices. */
int
isatty(int fd)
{
    DWORD mode;
    const intptr_t h = _get_osfhandle(fd);
    return h != -1 && GetConsoleMode((HANDLE)h, &mode);
}

int
fsync(int fd)
{
    return _commit(fd);
}

int
fchmod(int fd, unsigned mode)
{
    (void)fd;
    (void)mode; /* files in a user's folder belong to the user */
    return 0;
}

int
chmod(const char *path, unsigned mode)
{
    wchar_t *wide = dop_windows_path(path);
    const int bad = wide ? _wchmod(wide, mode & S_IWUSR ? _S_IREAD | _S_IWRITE : _S_IREAD) : -1;
    free(wide);
    return bad;
}

int
ftruncate(int fd, off_t size)
{
    FILE_END_OF_FILE_INFO end = {.EndOfFile.QuadPart = size};
    HANDLE h = handle_of(fd);
    if (h == INVALID_HANDLE_VALUE)
        return -1;
    return SetFileInformationByHandle(h, FileEndOfFileInfo, &end, sizeof end) ? 0 : dop_windows_fail();
}

ssize_t
pread(int fd, void *out, size_t n, off_t at)
{
    OVERLAPPED where = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32)};
    DWORD done = 0;
    HANDLE h = handle_of(fd);
    if (h == INVALID_HANDLE_VALUE)
        return -1;
    if (!ReadFile(h, out, at_once(n), &done, &where) && GetLastError() != ERROR_HANDLE_EOF)
        return dop_windows_fail();
    return done;
}

static int
set_time(HANDLE h)
{
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    return SetFileTime(h, NULL, &now, &now) ? 0 : dop_windows_fail();
}

/* Sets both times to the current time; other times are not supported. */
int
futimens(int fd, const struct timespec times[2])
{
    HANDLE h = handle_of(fd);
    (void)times;
    return h == INVALID_HANDLE_VALUE ? -1 : set_time(h);
}

int
utimensat(int folder, const char *path, const struct timespec times[2], int flags)
{
    char *name = below(folder, path);
    wchar_t *wide = name ? dop_windows_path(name) : NULL;
    (void)times;
    (void)flags;
    free(name);
    if (!wide)
        return -1;
    HANDLE h = CreateFileW(wide, FILE_WRITE_ATTRIBUTES, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                           OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    free(wide);
    if (h == INVALID_HANDLE_VALUE)
        return dop_windows_fail();
    const int bad = set_time(h);
    CloseHandle(h);
    return bad;
}

uid_t
geteuid(void)
{
    return 0;
}

/* Locks or unlocks a byte range of a file. */
static int
lock(HANDLE h, uint64_t at, uint64_t n, bool unlock, DWORD flags)
{
    OVERLAPPED where = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32)};
    const DWORD low = (DWORD)n, high = (DWORD)(n >> 32);
    if (unlock ? UnlockFileEx(h, 0, low, high, &where) : LockFileEx(h, flags, 0, low, high, &where))
        return 0;
    if (unlock && GetLastError() == ERROR_NOT_LOCKED)
        return 0;
    return dop_windows_fail();
}

int
flock(int fd, int how)
{
    HANDLE h = handle_of(fd);
    BY_HANDLE_FILE_INFORMATION info;
    if (h == INVALID_HANDLE_VALUE)
        return -1;
    if (GetFileInformationByHandle(h, &info) && (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY))
        return 0;
    const DWORD flags =
        (how & LOCK_EX ? LOCKFILE_EXCLUSIVE_LOCK : 0u) | (how & LOCK_NB ? LOCKFILE_FAIL_IMMEDIATELY : 0u);
    /* A POSIX lock replaces the lock that the descriptor holds. */
    (void)lock(h, UINT64_C(1) << 62, 1, true, 0);
    return how & LOCK_UN ? 0 : lock(h, UINT64_C(1) << 62, 1, false, flags);
}

int
fcntl(int fd, int command, ...)
{
    HANDLE h = handle_of(fd);
    if (h == INVALID_HANDLE_VALUE)
        return -1;
    if (command == F_GETFD)
        return 0;
    va_list ap;
    va_start(ap, command);
    const struct flock *l = va_arg(ap, struct flock *);
    va_end(ap);
    const DWORD flags = (l->l_type == F_WRLCK ? LOCKFILE_EXCLUSIVE_LOCK : 0u) |
                        (command == F_OFD_SETLK ? LOCKFILE_FAIL_IMMEDIATELY : 0u);
    return lock(h, (uint64_t)l->l_start, l->l_len ? (uint64_t)l->l_len : UINT64_C(1) << 62, l->l_type == F_UNLCK,
                flags);
}

int
statvfs(const char *path, struct statvfs *out)
{
    ULARGE_INTEGER free_to_user, all, unused;
    wchar_t *wide = dop_windows_path(path);
    const int bad = !wide ? -1 : GetDiskFreeSpaceExW(wide, &free_to_user, &all, &unused) ? 0 : dop_windows_fail();
    free(wide);
    if (!bad)
        *out = (struct statvfs){.f_bsize = 1,
                                .f_frsize = 1,
                                .f_blocks = all.QuadPart,
                                .f_bfree = unused.QuadPart,
                                .f_bavail = free_to_user.QuadPart};
    return bad;
}
