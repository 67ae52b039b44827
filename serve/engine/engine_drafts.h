/* Speculative decoding with the model's own draft layer: a step has the last token and some drafts of each decoding
 * job. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_DRAFTS_H
#define DOPPLER_SERVE_ENGINE_ENGINE_DRAFTS_H

#include "serve/engine/engine_internal.h"

/* Speculative decoding, if the model has a draft layer. _init: prepares each slot's sequence. _make: drafts tokens
 * for the decoding jobs, as far as they fit the next step and pay off. _pick: samples a job's rows up to the first
 * rejected draft. _judge: drops rejected rows from the open step and counts the drafts. */
dop_status dop_engine_drafts_init(dop_engine *e, dop_diag *diag);
void dop_engine_drafts_make(dop_engine *e);
dop_status dop_engine_drafts_pick(dop_job *job, dop_picker *picker, dop_diag *diag);
void dop_engine_drafts_judge(dop_engine *e, const dop_engine_picks *picks, double step_ms);

#endif
