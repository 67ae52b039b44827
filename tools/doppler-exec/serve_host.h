/* Hosted model of the server: plan, text, engine and API. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_SERVE_HOST_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_SERVE_HOST_H

#include "base/arena.h"
#include "serve/models.h"
#include "tools/doppler-exec/common/cli.h"

typedef struct dop_hosted dop_hosted;

/* Returns API settings that the options set for every model. */
dop_api dop_host_defaults(const dop_cli *cli);
/* Opens a plan. id: the model's name in the API; NULL: the plan's own. */
dop_status dop_host_open(dop_cli *cli, const char *path, const char *id, dop_diag *diag, dop_hosted **out_hosted);
void dop_host_close(dop_hosted *hosted); /* accepts NULL */
dop_api *dop_host_api(dop_hosted *hosted);

/* Model named by --models. */
typedef struct dop_host_model {
    dop_cli cli;      /* options of this model alone, combined with the server's */
    dop_status st;    /* reason why it could not be opened, until dop_host_make reports it */
    dop_diag why;     /* details of st */
    const char *id;   /* from its entry */
    const char *path; /* from its entry; NULL: to be downloaded (cli.hf) */
    /* while its plan is being made: */
    const atomic_bool *stop;
    const char *step; /* compilation step reported last; NULL: none */
    double told_ms;   /* time of that report */
} dop_host_model;

/* List of models from a folder or a YAML file. */
typedef struct dop_host_list {
    dop_models_entry *entries; /* owned, [n] */
    dop_host_model *models;    /* owned, [n] */
    size_t n;
    dop_arena texts; /* storage of the strings of both */
} dop_host_list;

/* Reads the list that --models names. cli: default options for opening and compiling; entries of the file override
 * them. */
dop_status dop_host_list_read(const dop_cli *cli, dop_diag *diag, dop_host_list *out_list);
void dop_host_list_finish(dop_host_list *list); /* accepts a zeroed list */

/* Callbacks dop_models_how.make and .open for a list; see serve_models.c. */
dop_status dop_host_make(dop_host_model *model, const atomic_bool *stop, dop_diag *diag, uint64_t *out_bytes);
dop_status dop_host_open_made(dop_host_model *model, dop_diag *diag, dop_hosted **out_hosted);

#endif
