/* Runs jobs with a task instead of text (dop_job_task), one at a time and between two steps. */
#include "serve/engine/engine_task.h"
#include "base/os/clock.h"
#include "serve/engine/engine_internal.h"
#include "serve/engine/engine_job.h"
#include "serve/engine/engine_slots.h"

bool
dop_job_advance(dop_engine *engine, dop_job *job, uint32_t at, uint32_t of)
{
    const double now = dop_now_ms();
    dop_engine_lock(engine);
    const bool wanted = dop_job_ends_now(engine, job, now) == DOP_JOB_GOES_ON;
    job->task_at = at;
    job->task_of = of;
    if (job->first_ms == 0)
        job->first_ms = now;
    job->last_ms = now;
    if (wanted && job->request.wake && !job->request.wake_at_end)
        job->request.wake(job->request.user);
    dop_engine_unlock(engine);
    return wanted;
}

uint32_t
dop_job_sequences(dop_engine *engine, const dop_job *job, dop_sequence **out_sequences, uint32_t most)
{
    uint32_t n = 0;
    out_sequences[n++] = engine->slots[job->slot].sequence;
    for (uint32_t i = 0; i < engine->n_slots && n < most; i++)
        if (!engine->slots[i].job && !engine->slots[i].flies)
            out_sequences[n++] = engine->slots[i].sequence;
    return n;
}

void
dop_engine_do_task(dop_engine *e, dop_job *job)
{
    dop_diag diag = {0};
    const dop_job_task *task = &job->request.task;
    dop_status st = task->run(task->state, e->model, e, job, &diag);
    if (st == DOP_E_DEVICE)
        dop_engine_give_up(e, &diag);
    dop_engine_lock(e);
    dop_job_end why = st == DOP_OK ? DOP_JOB_END_TOKEN : DOP_JOB_FAILED;
    if (st == DOP_E_CANCELLED)
        why = dop_job_ends_now(e, job, dop_now_ms());
    if (why == DOP_JOB_GOES_ON)
        why = DOP_JOB_FAILED;
    dop_job_finish(e, job, why, st == DOP_OK ? NULL : &diag);
    if (job->released)
        dop_job_free(job);
    dop_engine_unlock(e);
}
