/* A model as the server has it: the plan, its text, its engine and its API. */
#ifndef DOPPLER_RUNTIME_PROGRAM_SERVE_HOST_H
#define DOPPLER_RUNTIME_PROGRAM_SERVE_HOST_H

#include "runtime/program/common/cli.h"
#include "runtime/serve/models.h"

typedef struct dop_hosted dop_hosted;

/* What the options say of every model's API. */
dop_api dop_host_defaults(const dop_cli *cli);
/* Opens a plan; id: the name under which it answers; NULL: its own. */
dop_status dop_host_open(dop_cli *cli, const char *path, const char *id, dop_diag *diag, dop_hosted **out_hosted);
void dop_host_close(dop_hosted *hosted); /* accepts NULL */
dop_api *dop_host_api(dop_hosted *hosted);

/* The models that --models names: those of a folder, or of a YAML file. */
typedef struct dop_host_list {
    dop_models_entry *entries; /* owned, [n] */
    size_t n;
} dop_host_list;

dop_status dop_host_list_read(const char *path, dop_diag *diag, dop_host_list *out_list);
void dop_host_list_finish(dop_host_list *list); /* accepts a zeroed one */

#endif
