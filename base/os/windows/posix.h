/* POSIX functions that MinGW-w64 lacks, or has only with code page names, text mode files or 32-bit sizes.  The Windows build includes
 * this header before every file (CMakeLists.txt), so that no other file depends on the system.  Macros rename functions that Windows
 * also has.  File names are UTF-8; `/` and `\` separate folders; files are binary.  base/os/windows/include has stand-ins for missing
 * headers. */
#ifndef DOPPLER_BASE_OS_WINDOWS_POSIX_H
#define DOPPLER_BASE_OS_WINDOWS_POSIX_H

#include <direct.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <locale.h>
#include <math.h>
#include <process.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#define tell dop_windows_tell /* frees the name `tell`, which is not in POSIX */

/* ---- files: windows/files.c ------------------------------------------------------------------------------------------ */
#ifndef O_CLOEXEC
#define O_CLOEXEC 0x01000000
#endif
#define O_NONBLOCK 0 /* Windows pipes are not in the file system */
#define O_NOFOLLOW 0x02000000
#define O_DIRECTORY 0x04000000
#define O_TMPFILE 0x08000000 /* fails with EOPNOTSUPP */
#define AT_FDCWD (-100)
#define AT_SYMLINK_NOFOLLOW 0x100
#define AT_SYMLINK_FOLLOW 0x400
#define AT_REMOVEDIR 0x200
#define F_GETFD 1
#define F_OFD_SETLK 37 /* Windows locks belong to handles, like open file description locks */
#define F_OFD_SETLKW 38
#define F_RDLCK 0
#define F_WRLCK 1
#define F_UNLCK 2
#define S_IFLNK 0120000
#define S_IFSOCK 0140000
#undef S_ISLNK
#define S_ISLNK(mode) (((mode)&S_IFMT) == S_IFLNK)
#define S_ISSOCK(mode) (((mode)&S_IFMT) == S_IFSOCK)
#define S_ISVTX 01000
#ifndef S_IRWXG
#define S_IRGRP 040
#define S_IWGRP 020
#define S_IXGRP 010
#define S_IRWXG 070
#define S_IROTH 04
#define S_IWOTH 02
#define S_IXOTH 01
#define S_IRWXO 07
#endif

typedef uint64_t dop_windows_device;
typedef uint64_t dop_windows_inode;
typedef uint32_t dop_windows_user;
#define dev_t dop_windows_device
#define ino_t dop_windows_inode
#define uid_t dop_windows_user

struct dop_windows_stat {
    dev_t st_dev; /* volume serial number */
    ino_t st_ino; /* file index on the volume */
    uint32_t st_mode, st_nlink;
    uid_t st_uid, st_gid; /* always 0 */
    off_t st_size;        /* bytes */
    int64_t st_blocks;    /* in units of 512 bytes */
    struct timespec st_mtim, st_atim, st_ctim;
};
#undef st_mtime
#undef st_atime
#undef st_ctime
#define st_mtime st_mtim.tv_sec
#define st_atime st_atim.tv_sec
#define st_ctime st_ctim.tv_sec
#undef stat
#undef fstat
#define stat dop_windows_stat
#define fstat dop_windows_fstat
#define lstat dop_windows_lstat
#define fstatat dop_windows_fstatat
int stat(const char *path, struct stat *out);
int lstat(const char *path, struct stat *out);
int fstat(int fd, struct stat *out);
int fstatat(int folder, const char *path, struct stat *out, int flags);

#define flock dop_windows_flock
struct flock {
    short l_type, l_whence;
    off_t l_start, l_len; /* bytes */
    int l_pid;
};
#define open dop_windows_open
#define openat dop_windows_openat
#define fopen dop_windows_fopen
#define fcntl dop_windows_fcntl
#define access dop_windows_access
#define unlink dop_windows_unlink
#define unlinkat dop_windows_unlinkat
#define rmdir dop_windows_rmdir
#define rename dop_windows_rename
#define mkdir dop_windows_mkdir
#define linkat dop_windows_linkat
#define readlink dop_windows_readlink
#define realpath dop_windows_realpath
#define read dop_windows_read
#define write dop_windows_write
#undef isatty
#define isatty dop_windows_isatty
#define fsync dop_windows_fsync
#define fdatasync dop_windows_fsync
#define fchmod dop_windows_fchmod
#define chmod dop_windows_chmod
#undef ftruncate
#define ftruncate dop_windows_ftruncate
#define pread dop_windows_pread
#define futimens dop_windows_futimens
#define utimensat dop_windows_utimensat
#define geteuid dop_windows_geteuid
#define UTIME_NOW (-1)
int open(const char *path, int flags, ...);
int openat(int folder, const char *path, int flags, ...);
FILE *fopen(const char *path, const char *mode);
int fcntl(int fd, int command, ...);
int access(const char *path, int mode);
int unlink(const char *path);
int unlinkat(int folder, const char *path, int flags);
int rmdir(const char *path);
int rename(const char *from, const char *to);
int mkdir(const char *path, unsigned mode);
int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags);
ssize_t readlink(const char *path, char *out, size_t cap);
char *realpath(const char *path, char *out); /* out must be NULL */
ssize_t read(int fd, void *out, size_t n);
ssize_t write(int fd, const void *bytes, size_t n);
int isatty(int fd);
int fsync(int fd);
int fchmod(int fd, unsigned mode);
int chmod(const char *path, unsigned mode);
int ftruncate(int fd, off_t size);
ssize_t pread(int fd, void *out, size_t n, off_t at);
int futimens(int fd, const struct timespec times[2]);
int utimensat(int folder, const char *path, const struct timespec times[2], int flags);
uid_t geteuid(void);

#define LOCK_SH 1
#define LOCK_EX 2
#define LOCK_NB 4
#define LOCK_UN 8
/* Locks one byte far after the end of any file.  Locking a folder always succeeds, without a lock. */
int flock(int fd, int how);

#define statvfs dop_windows_statvfs
struct statvfs {
    uint64_t f_bsize, f_frsize;           /* bytes */
    uint64_t f_blocks, f_bfree, f_bavail; /* in units of f_frsize */
};
int statvfs(const char *path, struct statvfs *out);

/* ---- folders: windows/folders.c --------------------------------------------------------------------------------------- */
typedef struct dop_windows_folder dop_windows_folder;
struct dop_windows_entry {
    char d_name[1024]; /* UTF-8 */
};
#define DIR dop_windows_folder
#define dirent dop_windows_entry
#define opendir dop_windows_opendir
#define fdopendir dop_windows_fdopendir
#define readdir dop_windows_readdir
#define rewinddir dop_windows_rewinddir
#define closedir dop_windows_closedir
#define dirfd dop_windows_dirfd
#define scandir dop_windows_scandir
#define alphasort dop_windows_alphasort
DIR *opendir(const char *path);
DIR *fdopendir(int fd);
struct dirent *readdir(DIR *d);
void rewinddir(DIR *d);
int closedir(DIR *d);
int dirfd(DIR *d);
int scandir(const char *path, struct dirent ***out_list, int (*want)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **));
int alphasort(const struct dirent **a, const struct dirent **b);

/* ---- memory, libraries and processes: windows/system.c ---------------------------------------------------------------- */
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_SHARED 1
#define MAP_PRIVATE 2
#define MAP_ANONYMOUS 0x20
#define MAP_NORESERVE 0x4000
#define MAP_FAILED ((void *)-1)
#define MADV_DONTNEED 4
#define MADV_WILLNEED 3
#define MADV_SEQUENTIAL 2
#define MADV_RANDOM 1
#define mmap dop_windows_mmap
#define munmap dop_windows_munmap
#define madvise dop_windows_madvise
/* offset must be a multiple of 64 KiB. */
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int munmap(void *at, size_t size);
int madvise(void *at, size_t size, int advice);

#define RTLD_NOW 2
#define RTLD_LOCAL 0
#define RTLD_GLOBAL 0x100
#define RTLD_DEFAULT ((void *)0)
typedef struct Dl_info {
    const char *dli_fname; /* path of the library or program; valid until the thread's next call */
    void *dli_fbase;
} Dl_info;
#define dlopen dop_windows_dlopen
#define dlsym dop_windows_dlsym
#define dlclose dop_windows_dlclose
#define dlerror dop_windows_dlerror
#define dladdr dop_windows_dladdr
void *dlopen(const char *name, int flags);
void *dlsym(void *library, const char *name);
int dlclose(void *library);
char *dlerror(void);
int dladdr(const void *at, Dl_info *out);

#define _SC_NPROCESSORS_ONLN 84
#define _SC_PAGESIZE 30
#define _SC_PAGE_SIZE 30
#define sysconf dop_windows_sysconf
long sysconf(int what);
#define getrandom dop_windows_getrandom
ssize_t getrandom(void *out, size_t n, unsigned flags);

/* Returns an environment variable in UTF-8; HOME is the user's profile folder. */
char *dop_windows_getenv(const char *name);
#define getenv dop_windows_getenv

/* ---- signals: Windows has only Ctrl-C --------------------------------------------------------------------------------- */
#define SIGHUP 1
#define SIGBUS 7
#define SIGUSR1 10
#define SIGPIPE 13
#define SIGXFSZ 25
#define SA_RESTART 0x10000000
#define SA_SIGINFO 4
#define SIG_BLOCK 0
#define SIG_UNBLOCK 1
#define SIG_SETMASK 2
#define sigaction dop_windows_sigaction
#define sigemptyset dop_windows_sigemptyset
#define sigfillset dop_windows_sigfillset
#define sigaddset dop_windows_sigaddset
#define kill dop_windows_kill
#define pause dop_windows_pause
struct sigaction {
    void (*sa_handler)(int number);
    int sa_flags;
    int sa_mask;
};
typedef int dop_windows_signals;
#define sigset_t dop_windows_signals
int sigaction(int number, const struct sigaction *how, struct sigaction *before);
int sigemptyset(sigset_t *set);
int sigfillset(sigset_t *set);
int sigaddset(sigset_t *set, int number);
#undef pthread_sigmask
#define pthread_sigmask dop_windows_sigmask
int pthread_sigmask(int how, const sigset_t *set, sigset_t *before);
int pause(void);
int kill(int pid, int number); /* only number 0: ESRCH if no process has the id */

/* ---- text: windows/text.c --------------------------------------------------------------------------------------------- */
#define memmem dop_windows_memmem
#define memrchr dop_windows_memrchr
#define strndup dop_windows_strndup
#define strchrnul dop_windows_strchrnul
#define strsep dop_windows_strsep
#define stpcpy dop_windows_stpcpy
#define strcasestr dop_windows_strcasestr
#define getline dop_windows_getline
#define fnmatch dop_windows_fnmatch
void *memmem(const void *in, size_t n, const void *what, size_t m);
void *memrchr(const void *in, int byte, size_t n);
char *strndup(const char *text, size_t n);
char *strchrnul(const char *text, int byte);
char *strsep(char **io_at, const char *separators);
char *stpcpy(char *to, const char *from);
char *strcasestr(const char *in, const char *what);
ssize_t getline(char **io_line, size_t *io_cap, FILE *f);
#define FNM_NOMATCH 1
#define FNM_PATHNAME 1
int fnmatch(const char *pattern, const char *text, int flags); /* flags must be 0 */
#undef gmtime_r
#define gmtime_r dop_windows_gmtime_r
#undef localtime_r
#define localtime_r dop_windows_localtime_r
struct tm *gmtime_r(const time_t *at, struct tm *out);
struct tm *localtime_r(const time_t *at, struct tm *out);

/* MinGW-w64's macros narrow double to float, in branches that are not taken. */
#undef isnan
#undef isinf
#undef isfinite
#undef signbit
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)

/* Number formatting always uses the C locale, because no program here sets another one. */
typedef const void *locale_t;
#define LC_ALL_MASK 0x3f
#define LC_NUMERIC_MASK 0x10
#define newlocale(mask, name, base) ((locale_t) "C")
#define freelocale(locale) ((void)(locale))
static inline locale_t
uselocale(locale_t locale)
{
    return locale;
}
#define strtod_l(text, end, locale) ((void)(locale), strtod(text, end))

/* ---- start: windows/start.c ------------------------------------------------------------------------------------------- */
/* Entry point of programs, with UTF-8 arguments and binary standard streams. */
#define main dop_windows_main
int main(int argc, char **argv);

#endif
