/* Which job has which sequence, and what ends jobs and frees pages when something is lacking. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_SLOTS_H
#define DOPPLER_SERVE_ENGINE_ENGINE_SLOTS_H

#include "serve/engine/engine_internal.h"

/* While nothing else is to be done: checkpoints of texts that have ended, in host memory and files too.  A text whose sequence another
 * job gets before that has its checkpoint then, and goes to host memory if it is long. */
void dop_engine_end_turns(dop_engine *e);
/* After a step did not find enough pages: makes other jobs release theirs; what they had read of their prompts is read again.
 * False: there is no other job. */
bool dop_engine_make_pages(dop_engine *e);
/* After the device has failed: ends every job before the next step. */
void dop_engine_give_up(dop_engine *e, const dop_diag *diag);
/* Gives free sequences to the first jobs of the queue, as far as there are pages for them. */
void dop_engine_give_sequences(dop_engine *e);
/* Rewinds a slot's sequence; ends a job with an error. */
dop_status dop_slot_rewind(dop_slot *slot, size_t n, dop_diag *diag);
void dop_engine_fail_job(dop_engine *e, dop_job *job, const dop_diag *diag);

#endif
