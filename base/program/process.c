#include "base/program/process.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static const char *program_name; /* global, for the signal handler */
/* set while a thread reports a fault; other faulting threads wait for the exit */
static atomic_flag reporting = ATOMIC_FLAG_INIT;

/* Finds the file mapped at an address in /proc/self/maps; "" if none.  Lines are FROM-TO FLAGS OFFSET DEVICE INODE NAME.
 * Async-signal-safe: uses system calls only. */
static void
find_mapped(uintptr_t at, char *out, size_t cap)
{
    char chunk[1024];
    uintptr_t bounds[2] = {0, 0};
    int field = 0; /* 0, 1: FROM, TO; 2: before NAME; 3: NAME */
    size_t len = 0;
    bool found = false;
    ssize_t n = 1;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && !found && (n = read(fd, chunk, sizeof chunk)) > 0)
        for (ssize_t i = 0; i < n && !found; i++) {
            char c = chunk[i];
            if (c == '\n') {
                found = at >= bounds[0] && at < bounds[1];
                len = found ? len : 0;
                bounds[0] = bounds[1] = 0;
                field = 0;
            } else if (field < 2 && dop_hex_digit(c) >= 0) {
                bounds[field] = bounds[field] * 16 + (uintptr_t)dop_hex_digit(c);
            } else if (field < 2) {
                field++;
            } else if ((field == 3 || c == '/') && len + 1 < cap) {
                field = 3;
                out[len++] = c;
            }
        }
    if (fd >= 0)
        close(fd);
    out[found ? len : 0] = 0;
}

/* True if a mapping's name is a file's, not that of driver or system memory. */
static bool
is_mapped_file(const char *name)
{
    static const char shared[] = "/dev/shm/", devices[] = "/dev/", memory[] = "/memfd:", segment[] = "/SYSV";
    return strncmp(name, shared, sizeof shared - 1) == 0 ||
           (name[0] == '/' && strncmp(name, devices, sizeof devices - 1) != 0 &&
            strncmp(name, memory, sizeof memory - 1) != 0 && strncmp(name, segment, sizeof segment - 1) != 0);
}

static void
write_stderr(const char *text)
{
    for (size_t n = strlen(text); n > 0;) {
        ssize_t done = write(STDERR_FILENO, text, n);
        if (done <= 0)
            return;
        text += done;
        n -= (size_t)done;
    }
}

static void
handle_bus_error(int number, siginfo_t *info, void *context)
{
    char name[1024] = "";
    (void)context;
    while (atomic_flag_test_and_set(&reporting))
        pause();
    if (info->si_code > 0) /* sent by the kernel for a fault, not by a process */
        find_mapped((uintptr_t)info->si_addr, name, sizeof name);
    if (is_mapped_file(name)) {
        write_stderr(program_name);
        write_stderr(": ");
        write_stderr(name);
        write_stderr(
            ": error: the file was cut short, or its disk failed, while it was in use: run again when it is whole\n");
        _exit(1);
    }
    signal(number, SIG_DFL);
    raise(number); /* delivered when this handler returns */
    atomic_flag_clear(&reporting);
}

const char *
dop_process_name(void)
{
    return program_name ? program_name : "doppler";
}

void
dop_process_prepare(const char *program)
{
    struct sigaction bus = {.sa_sigaction = handle_bus_error, .sa_flags = SA_SIGINFO};
    /* Opens closed standard streams, so that no other file gets their descriptors.  open() returns the lowest free one.  The wrong
     * access mode makes every use fail. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
    (void)signal(SIGXFSZ, SIG_IGN); /* turns file size limits into write errors */
    program_name = program;
    sigemptyset(&bus.sa_mask);
    sigaction(SIGBUS, &bus, NULL);
}
