/* Checks of output files before a run: none may also be an input, and each must be writable. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLI_OUTPUTS_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLI_OUTPUTS_H

#include "tools/doppler-exec/common/cli.h"

/* cli_outputs.c: fails if an output file is also an input. */
dop_status dop_cli_refuse_outputs(const dop_cli *cli, dop_diag *diag);
/* Fails if an output file cannot be written, for example in a folder that does not exist. */
dop_status dop_cli_try_outputs(const dop_cli *cli, dop_diag *diag);

#endif
