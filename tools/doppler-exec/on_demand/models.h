/* Models in the place of plans: doppler-exec compiles them into its cache of plans, and runs what is there. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_MODELS_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_MODELS_H

#include "tools/doppler-exec/common/cli.h"

/* Replaces each model among the plans of the command line (also those of --draft and --compare) by its plan, which is compiled where
 * there is none.  Which device will run it is not known yet, as asking takes longer than all else: the plan is the one that was used
 * last, and dop_open_options.chosen compares the device.  DOP_E_USAGE: options of a compilation, and no model, nor a list of them
 * (--models). */
dop_status dop_cli_models_take(dop_cli *cli, const dop_option *table, size_t n, const dop_options_given *given,
                               dop_diag *diag);
/* DOP_E_USAGE: there are options of a compilation, where there is nothing to compile. */
dop_status dop_cli_models_refuse(const dop_cli *cli, dop_diag *diag);
/* After a mode has failed: is it worth running it again?  It is where the device is another one than that of the plan, or the plan is
 * damaged or gone; then there is another plan, unless *io_st says why not.  Otherwise names the model instead of its plan in *diag. */
bool dop_cli_models_again(dop_cli *cli, dop_status *io_st, dop_diag *diag);
/* What the command line calls a plan: its model, or the plan itself. */
const char *dop_cli_models_name(const dop_cli *cli, const char *plan);
/* The size of the models' files. */
uint64_t dop_cli_models_bytes(const dop_cli *cli);
void dop_cli_models_finish(dop_cli *cli); /* accepts one without models */

dop_mode_fn dop_mode_cache_list, dop_mode_cache_clear;

#endif
