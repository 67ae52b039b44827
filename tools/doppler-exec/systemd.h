/* systemd protocols for services: socket activation (sd_listen_fds(3)) and state notification (sd_notify(3)). */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_SYSTEMD_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_SYSTEMD_H

#include "base/base.h"

/* Environment variables set by systemd; NULL if absent. */
typedef struct dop_systemd {
    const char *notify_socket, *listen_pid, *listen_fds;
} dop_systemd;

/* Gets the listening socket that systemd passed to this process; *out_fd is -1 if there is none. More than one is
 * DOP_E_USAGE. */
dop_status dop_systemd_listener(const dop_systemd *systemd, dop_diag *diag, int *out_fd);
/* Reports state to systemd, as NAME=VALUE lines such as READY=1. Does nothing if systemd does not expect it. */
void dop_systemd_notify(const dop_systemd *systemd, const char *state);

#endif
