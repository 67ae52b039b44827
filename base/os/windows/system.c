/* POSIX memory mapping, libraries, processes and signals on Windows. */
#include "base/os/windows/posix.h"
#include "base/os/windows/wide.h"

/* RtlGenRandom, under the name that advapi32 exports. */
BOOLEAN NTAPI SystemFunction036(void *out, ULONG n);

void *
mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    const bool writes = (protection & PROT_WRITE) != 0;
    void *p = NULL;
    (void)at;
    if (flags & MAP_ANONYMOUS) {
        /* Pages use no physical memory before first access, but are committed. */
        p = VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    } else {
        const intptr_t h = _get_osfhandle(fd);
        HANDLE mapping =
            h == -1 ? NULL
                    : CreateFileMappingW((HANDLE)h, NULL,
                                         writes && (flags & MAP_SHARED) ? PAGE_READWRITE : PAGE_READONLY, 0, 0, NULL);
        const DWORD view = !writes ? FILE_MAP_READ : flags & MAP_SHARED ? FILE_MAP_WRITE : FILE_MAP_COPY;
        if (mapping) {
            p = MapViewOfFile(mapping, view, (DWORD)((uint64_t)offset >> 32), (DWORD)offset, size);
            CloseHandle(mapping); /* the view keeps the mapping open */
        }
    }
    if (!p)
        dop_windows_fail();
    return p ? p : MAP_FAILED;
}

int
munmap(void *at, size_t size)
{
    MEMORY_BASIC_INFORMATION info;
    (void)size;
    if (!VirtualQuery(at, &info, sizeof info))
        return dop_windows_fail();
    return (info.Type == MEM_MAPPED ? UnmapViewOfFile(at) : VirtualFree(at, 0, MEM_RELEASE)) ? 0 : dop_windows_fail();
}

/* MADV_DONTNEED removes pages from the working set; other advice is ignored. */
int
madvise(void *at, size_t size, int advice)
{
    if (advice == MADV_DONTNEED)
        (void)VirtualUnlock(at, size); /* on unlocked pages it only removes them from the working set */
    return 0;
}

static _Thread_local char library_error[1200];

void *
dlopen(const char *name, int flags)
{
    (void)flags;
    /* NAME.so and NAME.so.0 stand for NAME.dll, next to the program. */
    char plain[1024];
    const char *ending = strstr(name, ".so");
    snprintf(plain, sizeof plain, "%.*s.dll", ending ? (int)(ending - name) : (int)strlen(name), name);
    wchar_t *wide = dop_windows_wide(plain);
    HMODULE library = wide ? LoadLibraryW(wide) : NULL;
    free(wide);
    snprintf(library_error, sizeof library_error, "%s: cannot be loaded", plain);
    return library;
}

void *
dlsym(void *library, const char *name)
{
    const FARPROC f = GetProcAddress(library ? library : GetModuleHandleW(NULL), name);
    void *at;
    memcpy(&at, &f, sizeof at);
    snprintf(library_error, sizeof library_error, "%s: not in the library", name);
    return at;
}

int
dlclose(void *library)
{
    return FreeLibrary(library) ? 0 : -1;
}

char *
dlerror(void)
{
    return library_error[0] ? library_error : NULL;
}

int
dladdr(const void *at, Dl_info *out)
{
    static _Thread_local char name[4096];
    wchar_t wide[2048];
    HMODULE module;
    if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, at,
                            &module))
        return 0;
    const DWORD n = GetModuleFileNameW(module, wide, sizeof wide / sizeof *wide);
    char *utf8 = n > 0 && n < sizeof wide / sizeof *wide ? dop_windows_narrow(wide) : NULL;
    if (!utf8)
        return 0;
    snprintf(name, sizeof name, "%s", utf8);
    free(utf8);
    for (char *c = name; *c; c++)
        *c = *c == '\\' ? '/' : *c;
    *out = (Dl_info){name, module};
    return 1;
}

long
sysconf(int what)
{
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    switch (what) {
    case _SC_NPROCESSORS_ONLN:
        return (long)system.dwNumberOfProcessors;
    case _SC_PAGESIZE:
        return (long)system.dwPageSize;
    default:
        errno = EINVAL;
        return -1;
    }
}

ssize_t
getrandom(void *out, size_t n, unsigned flags)
{
    (void)flags;
    if (SystemFunction036(out, (ULONG)n))
        return (ssize_t)n;
    errno = EIO;
    return -1;
}

char *
getenv(const char *name)
{
    /* Returned strings are never freed, because POSIX callers keep them. */
    static struct {
        char *name, *value; /* owned */
    } known[64];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char *here = strcmp(name, "HOME") == 0 ? "USERPROFILE" : name;
    wchar_t *wide = dop_windows_wide(here);
    const wchar_t *value = wide ? _wgetenv(wide) : NULL;
    char *utf8 = value ? dop_windows_narrow(value) : NULL, *result = utf8;
    free(wide);
    if (!utf8)
        return NULL;
    if (here != name)
        for (char *c = utf8; *c; c++)
            *c = *c == '\\' ? '/' : *c;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!known[i].name) {
            known[i].name = strdup(name);
            known[i].value = utf8;
            break;
        }
        if (strcmp(known[i].name, name) == 0 && strcmp(known[i].value, utf8) == 0) {
            free(utf8);
            result = known[i].value;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int
sigaction(int number, const struct sigaction *how, struct sigaction *before)
{
    void (*was)(int) = SIG_DFL;
    if (number == SIGINT || number == SIGTERM)
        was = signal(number, how ? how->sa_handler : SIG_DFL);
    if (before)
        *before = (struct sigaction){.sa_handler = was};
    return was == SIG_ERR ? -1 : 0;
}

int
sigemptyset(sigset_t *set)
{
    *set = 0;
    return 0;
}

int
sigfillset(sigset_t *set)
{
    *set = -1;
    return 0;
}

int
sigaddset(sigset_t *set, int number)
{
    *set |= 1 << number;
    return 0;
}

int
pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    (void)how;
    (void)set;
    if (before)
        *before = 0;
    return 0; /* Ctrl-C is handled on a separate thread */
}

int
pause(void)
{
    for (;;)
        Sleep(INFINITE);
}

int
kill(int pid, int number)
{
    HANDLE process = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, (DWORD)pid);
    (void)number;
    if (process) {
        DWORD code = 0;
        const bool runs = GetExitCodeProcess(process, &code) && code == STILL_ACTIVE;
        CloseHandle(process);
        if (runs)
            return 0;
    } else if (GetLastError() == ERROR_ACCESS_DENIED) {
        return 0;
    }
    errno = ESRCH;
    return -1;
}
