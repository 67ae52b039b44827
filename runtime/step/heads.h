/* Draft layer of a plan (multi-token prediction): updates its states and makes drafts. */
#ifndef DOPPLER_RUNTIME_STEP_HEADS_H
#define DOPPLER_RUNTIME_STEP_HEADS_H

#include <doppler/doppler.h>

/* True if the plan has a draft layer, and schedules that check drafts. */
bool dop_model_drafts(const dop_model *model);

#endif
