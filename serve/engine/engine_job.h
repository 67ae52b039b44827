/* A job from being made to its end. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_JOB_H
#define DOPPLER_SERVE_ENGINE_ENGINE_JOB_H

#include "serve/engine/engine.h"

/* Under the lock: brings the engine's view up to date. */
void dop_engine_publish(dop_engine *e);
void dop_engine_enqueue(dop_engine *e, dop_job *job);
/* Under the lock: gives a new job its turn among those of its client and of others. */
void dop_engine_give_turn(dop_engine *e, dop_job *job);

/* engine_job.c */
dop_job *dop_job_make(const dop_engine *e, const dop_job_request *request); /* NULL: out of memory */
void dop_job_free(dop_job *job);                                            /* accepts NULL */
/* Under the lock: appends the pick, and ends the job if it must. */
void dop_job_write(dop_engine *e, dop_job *job, double now_ms);
/* Under the lock: why a job must end now although it is not complete; DOP_JOB_GOES_ON: it need not. */
dop_job_end dop_job_ends_now(const dop_engine *e, const dop_job *job, double now_ms);
/* Under the lock: ends the job. */
void dop_job_finish(dop_engine *e, dop_job *job, dop_job_end end, const dop_diag *diag);

#endif
