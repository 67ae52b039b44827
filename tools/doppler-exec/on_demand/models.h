/* Models in place of plans: doppler-exec compiles them into its plan cache and runs the cached plans. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_MODELS_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_MODELS_H

#include "tools/doppler-exec/common/cli.h"

/* Replaces each model among the plans (also of --draft and --compare) with its plan, compiled if missing. Device
 * detection is slow, so it uses the plan used last; dop_open_options.chosen compares its device later. Returns
 * DOP_E_USAGE for compile options without a model or --models. */
dop_status dop_cli_models_take(dop_cli *cli, const dop_option *table, size_t n, const dop_options_given *given,
                               dop_diag *diag);
/* Returns DOP_E_USAGE if there are compile options but nothing to compile. */
dop_status dop_cli_models_refuse(const dop_cli *cli, dop_diag *diag);
/* Decides if a failed mode should run again: if the plan is for another device, is damaged or gone, or has kernels
 * that the driver rejected. A new plan is then in place, unless *io_st reports an error. Otherwise *diag names the
 * model instead of its plan. After a success, only stores the kernels to avoid. */
bool dop_cli_models_again(dop_cli *cli, dop_status *io_st, dop_diag *diag);
/* Returns the command line's name of a plan: its model, or the plan's path. */
const char *dop_cli_models_name(const dop_cli *cli, const char *plan);
/* Returns the total size of the models' files in bytes. */
uint64_t dop_cli_models_bytes(const dop_cli *cli);
void dop_cli_models_finish(dop_cli *cli); /* accepts a struct without models */

dop_mode_fn dop_mode_cache_list, dop_mode_cache_clear;

#endif
