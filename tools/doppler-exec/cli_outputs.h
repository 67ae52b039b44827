/* Checks of the files that a run writes, before its work: none of them is one that it reads, and each can be
 * written. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLI_OUTPUTS_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLI_OUTPUTS_H

#include "tools/doppler-exec/common/cli.h"

/* cli_outputs.c: refuses a file to write to that is one to read. */
dop_status dop_cli_refuse_outputs(const dop_cli *cli, dop_diag *diag);
/* Fails if a file to write to cannot be written, as one in a folder that does not exist. */
dop_status dop_cli_try_outputs(const dop_cli *cli, dop_diag *diag);

#endif
