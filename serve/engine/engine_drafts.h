/* Drafts in the steps of jobs, by the model's own layer for that: each job that writes has its last token and some drafts in a step. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_DRAFTS_H
#define DOPPLER_SERVE_ENGINE_ENGINE_DRAFTS_H

#include "serve/engine/engine_internal.h"

/* engine_drafts.c, where the model has a layer that drafts.  init: gives each slot's sequence what it needs.  make: drafts for the jobs
 * that write, as far as the next step has room for them and they pay.  pick: picks the tokens of a job's rows up to the first draft that
 * is not right.  judge: drops the other rows from the open step, and counts it. */
dop_status dop_engine_drafts_init(dop_engine *e, dop_diag *diag);
void dop_engine_drafts_make(dop_engine *e);
dop_status dop_engine_drafts_pick(dop_job *job, dop_picker *picker, dop_diag *diag);
void dop_engine_drafts_judge(dop_engine *e, const dop_engine_picks *picks, double step_ms);

#endif
