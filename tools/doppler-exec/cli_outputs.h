/* Which files a run writes, and that none of them is one that it reads. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLI_OUTPUTS_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLI_OUTPUTS_H

#include "tools/doppler-exec/common/cli.h"

/* cli_outputs.c: refuses a file to write to that is one to read. */
dop_status dop_cli_refuse_outputs(const dop_cli *cli, dop_diag *diag);

#endif
