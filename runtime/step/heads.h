/* The layer of a plan that drafts: rows of its states, and drafts. */
#ifndef DOPPLER_RUNTIME_STEP_HEADS_H
#define DOPPLER_RUNTIME_STEP_HEADS_H

#include <doppler/doppler.h>

/* Does the plan have a layer that drafts, and schedules that check drafts? */
bool dop_model_drafts(const dop_model *model);

#endif
