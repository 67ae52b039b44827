/* Inspection modes: --info, --disasm, --trace-kernels, --list-devices. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLI_INFO_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLI_INFO_H

#include "tools/doppler-exec/common/cli.h"

dop_status dop_cli_each_part(const dop_cli *cli, dop_part_fn *fn, void *user, dop_diag *diag);

#endif
