/* A model as the server has it: the plan, its text, its engine and its API. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_SERVE_HOST_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_SERVE_HOST_H

#include "base/arena.h"
#include "serve/models.h"
#include "tools/doppler-exec/common/cli.h"

typedef struct dop_hosted dop_hosted;

/* What the options say of every model's API. */
dop_api dop_host_defaults(const dop_cli *cli);
/* Opens a plan; id: the name under which it answers; NULL: its own. */
dop_status dop_host_open(dop_cli *cli, const char *path, const char *id, dop_diag *diag, dop_hosted **out_hosted);
void dop_host_close(dop_hosted *hosted); /* accepts NULL */
dop_api *dop_host_api(dop_hosted *hosted);

/* One of the models that --models names. */
typedef struct dop_host_model {
    dop_cli cli;      /* what doppler-exec would be given for it alone, with the options of the server */
    dop_status st;    /* why it could not be opened, until dop_host_make has heard of it */
    dop_diag why;     /* with st */
    const char *id;   /* of its entry */
    const char *path; /* of its entry; NULL: to be downloaded (cli.hf) */
    /* while its plan is made */
    const atomic_bool *stop;
    const char *step; /* the step that was told last; NULL: none */
    double told_ms;   /* when it was */
} dop_host_model;

/* The models of a folder, or of a YAML file. */
typedef struct dop_host_list {
    dop_models_entry *entries; /* owned, [n] */
    dop_host_model *models;    /* owned, [n] */
    size_t n;
    dop_arena texts; /* what both point to */
} dop_host_list;

/* cli: what all of them are opened and compiled with, unless the file says otherwise. */
dop_status dop_host_list_read(const dop_cli *cli, dop_diag *diag, dop_host_list *out_list);
void dop_host_list_finish(dop_host_list *list); /* accepts a zeroed one */

/* dop_models_how.make and .open of a list, serve_models.c. */
dop_status dop_host_make(dop_host_model *model, const atomic_bool *stop, dop_diag *diag, uint64_t *out_bytes);
dop_status dop_host_open_made(dop_host_model *model, dop_diag *diag, dop_hosted **out_hosted);

#endif
