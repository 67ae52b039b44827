/* Structured output: --json-schema, --grammar and --json-mode. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_CONSTRAINT_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_CONSTRAINT_H

#include "tools/doppler-exec/client/cli_generate.h"

typedef struct dop_cli_constraint {
    dop_constraint *shape;
    dop_constraint_matcher *matcher;
} dop_cli_constraint;

/* True if the command line constrains the output. */
bool dop_cli_wants_shape(const dop_cli *cli);
/* Compiles the constraint of the command line and applies it to the next text of the generation. */
dop_status dop_cli_constraint_start(const dop_cli *cli, dop_cli_generation *gen, dop_diag *diag,
                                    dop_cli_constraint *out_shape);
void dop_cli_constraint_finish(dop_cli_constraint *shape); /* accepts a zeroed struct */

#endif
