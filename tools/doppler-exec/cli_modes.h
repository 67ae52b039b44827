/* Finds out what doppler-exec is asked to do, and refuses options that this would ignore. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLI_MODES_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLI_MODES_H

#include "tools/doppler-exec/common/cli.h"

/* The mode that the command line asks for.  table: its options.  DOP_E_USAGE: an option that this mode would ignore. */
dop_status dop_cli_choose(const dop_option *table, size_t n, const dop_cli *cli, const dop_options_given *given,
                          dop_diag *diag, dop_mode_fn **out_mode);

#endif
