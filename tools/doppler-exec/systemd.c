#include "tools/doppler-exec/systemd.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

dop_status
dop_systemd_listener(const dop_systemd *systemd, dop_diag *diag, int *out_fd)
{
    enum { FIRST = 3 }; /* first descriptor passed by systemd */
    *out_fd = -1;
    if (!systemd->listen_pid || !systemd->listen_fds || atol(systemd->listen_pid) != (long)getpid())
        return DOP_OK;
    const int n = atoi(systemd->listen_fds);
    if (n > 1)
        return DOP_FAIL(diag, DOP_E_USAGE, "--systemd takes one socket, and systemd has passed %d", n);
    *out_fd = n == 1 ? FIRST : -1;
    return DOP_OK;
}

void
dop_systemd_notify(const dop_systemd *systemd, const char *state)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *path = systemd->notify_socket;
    const size_t n = path ? strlen(path) : 0;
    if (n < 2 || n >= sizeof to.sun_path || (*path != '/' && *path != '@'))
        return;
    memcpy(to.sun_path, path, n);
    if (*path == '@') /* abstract socket name */
        to.sun_path[0] = 0;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    const ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&to,
                                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    (void)sent; /* systemd may have stopped listening */
    close(fd);
}
