/* systemd's two protocols for services: sockets that it has opened for them (sd_listen_fds(3)), and what they tell
 * it (sd_notify(3)). */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_SYSTEMD_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_SYSTEMD_H

#include "base/base.h"

/* What systemd has put into the environment of the process; NULL: it has not. */
typedef struct dop_systemd {
    const char *notify_socket, *listen_pid, *listen_fds;
} dop_systemd;

/* The socket that systemd listens on for this process; *out_fd is -1 where there is none.  Several are DOP_E_USAGE. */
dop_status dop_systemd_listener(const dop_systemd *systemd, dop_diag *diag, int *out_fd);
/* Tells systemd the state, lines of NAME=VALUE such as READY=1; does nothing where it does not ask. */
void dop_systemd_notify(const dop_systemd *systemd, const char *state);

#endif
