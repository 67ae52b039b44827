/* Times of the stages of a persistent dispatch. Stages overlap and have no timestamps of their own, but an argument
 * limits how many rows of the stage table run. The dispatch runs with 1, 2, ... n_stages stages, several times; the
 * additional time of each stage is its share. Prefetched weights count for the stage that waits for them. */
#ifndef DOPPLER_TOOLS_PROFILE_PROFILE_STAGES_H
#define DOPPLER_TOOLS_PROFILE_PROFILE_STAGES_H

#include "tools/profile/profile.h"

/* profile_stages.c: measures the stages of persistent dispatches, which the profile then lists like dispatches. Call
 * before dop_profile_stop with an idle model; does nothing unless decode steps are persistent. Invalidates the
 * sequence's states. Fails on errors of host memory or device. */
dop_status dop_profile_stages(dop_profile *profile, dop_model *model, dop_diag *diag);
/* Return the number of dispatches in a replay of the schedule, and the plan's index of dispatch i. */
uint32_t dop_profile_n_dispatches(const dop_profile *profile, uint32_t schedule);
uint32_t dop_profile_dispatch(const dop_profile *profile, uint32_t schedule, uint32_t i);
/* Replaces the time of a persistent dispatch with those of its stages; called by dop_profile_stop. */
dop_status dop_profile_cut_stages(dop_profile *profile, dop_diag *diag);

#endif
