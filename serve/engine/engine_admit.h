/* Admission to the queue. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_ADMIT_H
#define DOPPLER_SERVE_ENGINE_ENGINE_ADMIT_H

#include "serve/engine/engine.h"

/* Under the lock: makes room in the queue for the n jobs of a request. Returns false if there is no room. */
bool dop_engine_admit(dop_engine *e, const dop_job_request *requests, uint32_t n);
/* Under the lock: removes a waiting job from the queue. */
void dop_engine_leave_queue(dop_engine *e, dop_job *job);

#endif
