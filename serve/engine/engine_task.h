/* Runs jobs with a task instead of text (dop_job_task), one at a time and between two steps. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_TASK_H
#define DOPPLER_SERVE_ENGINE_ENGINE_TASK_H

#include "serve/engine/engine.h"

/* Runs the task of a job, and ends the job. */
void dop_engine_do_task(dop_engine *e, dop_job *job);

#endif
