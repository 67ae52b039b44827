/* Choice of doppler-exec's mode from the options; rejects options that the mode would ignore. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLI_MODES_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLI_MODES_H

#include "tools/doppler-exec/common/cli.h"

/* Finds the mode that the command line asks for. table: its options. Fails with DOP_E_USAGE if the mode would ignore
 * an option. */
dop_status dop_cli_choose(const dop_option *table, size_t n, const dop_cli *cli, const dop_options_given *given,
                          dop_diag *diag, dop_mode_fn **out_mode);

#endif
