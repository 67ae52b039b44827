/* How long each stage of a persistent dispatch takes.  Stages overlap and tell no time, but a dispatch can be ended
 * early: it goes through as many rows of the table of stages as an argument says.  So it runs with one stage, with
 * two, and so on to all of them, over and over; what one stage more takes is its share, and the shares add up to the
 * whole.  Weights that a stage requests ahead of its turn count where they are waited for. */
#ifndef DOPPLER_TOOLS_PROFILE_PROFILE_STAGES_H
#define DOPPLER_TOOLS_PROFILE_PROFILE_STAGES_H

#include "tools/profile/profile.h"

/* profile_stages.c: the stages of persistent dispatches, which the profile then lists like dispatches.  They are measured before
 * dop_profile_stop, while the model is idle, and only if its decode steps are persistent.  Afterwards the sequence's states are
 * no longer valid for further tokens.  Errors: host memory, the device. */
dop_status dop_profile_stages(dop_profile *profile, dop_model *model, dop_diag *diag);
/* How many dispatches a replay of the schedule has, and the index of dispatch number i among the plan's. */
uint32_t dop_profile_n_dispatches(const dop_profile *profile, uint32_t schedule);
uint32_t dop_profile_dispatch(const dop_profile *profile, uint32_t schedule, uint32_t i);
/* Replaces the time of a persistent dispatch by those of its stages; dop_profile_stop calls it. */
dop_status dop_profile_cut_stages(dop_profile *profile, dop_diag *diag);

#endif
