/* Lifecycle of a job. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_JOB_H
#define DOPPLER_SERVE_ENGINE_ENGINE_JOB_H

#include "serve/engine/engine.h"

/* Under the lock: updates the engine's snapshot `view`. */
void dop_engine_publish(dop_engine *e);
void dop_engine_enqueue(dop_engine *e, dop_job *job);
/* Under the lock: assigns a new job its turn for fair queueing. */
void dop_engine_give_turn(dop_engine *e, dop_job *job);

/* Functions of engine_job.c. */
dop_job *dop_job_make(const dop_engine *e, const dop_job_request *request); /* returns NULL if memory runs out */
void dop_job_free(dop_job *job);                                            /* accepts NULL */
/* Under the lock: appends the sampled token, and ends the job if its text is complete. */
void dop_job_write(dop_engine *e, dop_job *job, double now_ms);
/* Under the lock: returns why an incomplete job must end now, or DOP_JOB_GOES_ON. */
dop_job_end dop_job_ends_now(const dop_engine *e, const dop_job *job, double now_ms);
/* Under the lock: ends the job. */
void dop_job_finish(dop_engine *e, dop_job *job, dop_job_end end, const dop_diag *diag);

#endif
