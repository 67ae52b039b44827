/* --json-schema, --grammar and --json-mode: structured output. */
#ifndef DOPPLER_RUNTIME_PROGRAM_CLIENT_CLI_CONSTRAINT_H
#define DOPPLER_RUNTIME_PROGRAM_CLIENT_CLI_CONSTRAINT_H

#include "runtime/program/client/cli_generate.h"

#include <doppler/constraint.h>

typedef struct dop_cli_constraint {
    dop_constraint *shape;
    dop_constraint_matcher *shaper;
} dop_cli_constraint;

/* Does the command line ask for one? */
bool dop_cli_wants_shape(const dop_cli *cli);
/* The generation's sequence picks only what the shape allows from now on. */
dop_status dop_cli_constraint_start(const dop_cli *cli, dop_generation *gen, dop_diag *diag,
                                    dop_cli_constraint *out_shape);
void dop_cli_constraint_finish(dop_cli_constraint *shape); /* accepts a zeroed one */

#endif
