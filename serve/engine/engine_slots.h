/* Assigns sequences to jobs, and frees pages when they run out. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_SLOTS_H
#define DOPPLER_SERVE_ENGINE_ENGINE_SLOTS_H

#include "serve/engine/engine_internal.h"

/* While the engine is idle: saves checkpoints of ended texts, also to host memory and files. If another job gets the
 * sequence earlier, the checkpoint is made then, and long texts are saved to host memory. */
void dop_engine_end_turns(dop_engine *e);
/* After a step ran out of pages: makes other jobs release theirs; they read their prompts again later. Returns false
 * if there is no other job. */
bool dop_engine_make_pages(dop_engine *e);
/* After the device has failed: marks the engine as broken, so that every job ends before the next step. */
void dop_engine_give_up(dop_engine *e, const dop_diag *diag);
/* Assigns free sequences to the first jobs of the queue, as far as there are pages for them. */
void dop_engine_give_sequences(dop_engine *e);
/* dop_slot_rewind: rewinds the slot's sequence to n tokens. dop_engine_fail_job: ends a job with an error. */
dop_status dop_slot_rewind(dop_slot *slot, size_t n, dop_diag *diag);
void dop_engine_fail_job(dop_engine *e, dop_job *job, const dop_diag *diag);

#endif
