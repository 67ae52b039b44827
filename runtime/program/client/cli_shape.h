/* --json-schema, --grammar and --json-mode: structured output. */
#ifndef DOPPLER_RUNTIME_PROGRAM_CLIENT_CLI_SHAPE_H
#define DOPPLER_RUNTIME_PROGRAM_CLIENT_CLI_SHAPE_H

#include "runtime/program/client/cli_generate.h"

#include <doppler/shape.h>

typedef struct dop_cli_shape {
    dop_shape *shape;
    dop_shaper *shaper;
} dop_cli_shape;

/* Does the command line ask for one? */
bool dop_cli_wants_shape(const dop_cli *cli);
/* The generation's sequence picks only what the shape allows from now on. */
dop_status dop_cli_shape_start(const dop_cli *cli, dop_generation *gen, dop_diag *diag, dop_cli_shape *out_shape);
void dop_cli_shape_finish(dop_cli_shape *shape); /* accepts a zeroed one */

#endif
