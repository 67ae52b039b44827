#include "runtime/step/step_rows.h"
#include "serve/engine/engine_admit.h"
#include "serve/engine/engine_drafts.h"
#include "serve/engine/engine_internal.h"
#include "serve/engine/engine_job.h"
#include "serve/engine/engine_run.h"

#include "runtime/model/model.h"
#include "runtime/step/stored.h"
#include "text/grammar/grammar.h"

#include <doppler/draw.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static dop_status
allocate_engine_arrays(dop_engine *e, uint32_t threads, dop_diag *diag)
{
    uint32_t vocab = e->facts.vocab;
    e->n_threads = threads ? threads : dop_cores();
    if (e->n_threads > DOP_ENGINE_MAX_THREADS)
        e->n_threads = DOP_ENGINE_MAX_THREADS;
    if (e->n_threads > e->n_slots)
        e->n_threads = e->n_slots;
    e->slots = calloc(e->n_slots, sizeof *e->slots);
    e->rows = calloc(e->max_step_rows, sizeof *e->rows);
    bool good = e->slots && e->rows;
    for (uint32_t i = 0; i < DOP_ENGINE_MAX_GROUPS && e->n_groups > 1 && good; i++) {
        e->groups[i].rows = calloc(e->max_step_rows, sizeof *e->rows);
        good = e->groups[i].rows != NULL;
    }
    for (uint32_t i = 0; i < e->n_threads && good; i++) {
        good = dop_picker_init(&e->pickers[i], vocab, NULL) == DOP_OK;
    }
    return good ? DOP_OK : DOP_NO_MEMORY(diag);
}

/* Starts the engine's thread with all signals blocked, so that only the program's own threads receive signals. */
static dop_status
start_engine_thread(dop_engine *e, dop_diag *diag)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    e->started = pthread_create(&e->thread, NULL, dop_engine_run, e) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return e->started ? DOP_OK : DOP_FAIL(diag, DOP_E_IO, "cannot start a thread for the engine");
}

dop_status
dop_engine_create(dop_model *model, const dop_tokenizer *tok, const dop_engine_options *options, dop_diag *diag,
                  dop_engine **out_engine)
{
    dop_engine *e = calloc(1, sizeof *e);
    *out_engine = NULL;
    if (!e)
        return DOP_NO_MEMORY(diag);
    pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_init(&e->view_lock, NULL);
    pthread_cond_init(&e->work, NULL);
    e->model = model;
    e->tok = tok;
    dop_model_facts(model, &e->facts);
    e->max_queue = options->max_queue ? options->max_queue : 256;
    dop_program_facts program;
    e->encodes = dop_model_program(model, 0, &program) && program.merge == 0;
    dop_draw_facts draws;
    e->n_slots = !e->encodes                           ? e->facts.n_sequences
                 : dop_model_draw_facts(model, &draws) ? 1 /* images are drawn one at a time */
                                                       : (uint32_t)DOP_ENGINE_TEXTS;
    e->metrics.sequences = e->view.metrics.sequences = e->n_slots;
    e->max_rows = dop_model_max_rows_of_several(model);
    e->max_chunk = dop_model_max_rows(model, false);
    e->max_step_rows = (e->max_rows > e->max_chunk ? e->max_rows : e->max_chunk) + e->n_slots;
    e->n_groups = dop_step_groups(model, e->n_slots);
    dop_status st = allocate_engine_arrays(e, options->threads, diag);
    for (uint32_t i = 0; i < e->n_slots && st == DOP_OK && !e->encodes; i++)
        st = dop_sequence_create(model, diag, &e->slots[i].sequence);
    if (st == DOP_OK)
        st = dop_engine_drafts_init(e, diag);
    if (st == DOP_OK)
        st = start_engine_thread(e, diag);
    if (st == DOP_OK)
        *out_engine = e;
    else
        dop_engine_destroy(e);
    return st;
}

void
dop_engine_stop(dop_engine *engine, double grace_s)
{
    dop_engine *e = engine;
    dop_engine_lock(e);
    e->stopped = true;
    e->stop_ms = dop_now_ms() + grace_s * 1e3;
    pthread_cond_broadcast(&e->work);
    dop_engine_unlock(e);
}

bool
dop_engine_is_idle(dop_engine *engine)
{
    dop_engine_lock(engine);
    bool idle = engine->metrics.running == 0 && engine->n_waiting == 0;
    dop_engine_unlock(engine);
    return idle;
}

void
dop_engine_destroy(dop_engine *engine)
{
    dop_engine *e = engine;
    if (!e)
        return;
    if (e->started) {
        dop_engine_stop(e, 0);
        pthread_join(e->thread, NULL);
    }
    for (uint32_t i = 0; i < e->n_slots && e->slots; i++)
        dop_sequence_destroy(e->slots[i].sequence);
    for (uint32_t i = 0; i < DOP_ENGINE_MAX_THREADS; i++)
        dop_picker_finish(&e->pickers[i]);
    for (uint32_t i = 0; i < DOP_ENGINE_MAX_GROUPS; i++)
        free(e->groups[i].rows);
    free(e->slots);
    free(e->rows);
    pthread_mutex_destroy(&e->lock);
    pthread_mutex_destroy(&e->view_lock);
    pthread_cond_destroy(&e->work);
    free(e);
}

dop_submit
dop_engine_submit(dop_engine *engine, const dop_job_request *requests, uint32_t n, dop_diag *diag, dop_job **out_jobs)
{
    dop_engine *e = engine;
    dop_submit result = DOP_SUBMIT_OK;
    uint32_t made = 0;
    while (made < n && (out_jobs[made] = dop_job_make(e, &requests[made])) != NULL)
        made++;
    if (made < n) {
        DOP_NO_MEMORY(diag);
        result = DOP_SUBMIT_FAILED;
    }
    dop_engine_lock(e);
    if (result == DOP_SUBMIT_OK && e->broken) {
        *diag = e->diag;
        result = DOP_SUBMIT_FAILED;
    } else if (result == DOP_SUBMIT_OK && e->stopped) {
        result = DOP_SUBMIT_STOPPED;
    } else if (result == DOP_SUBMIT_OK && !dop_engine_admit(e, requests, n)) {
        e->metrics.refused += n;
        result = DOP_SUBMIT_QUEUE_FULL;
    }
    e->n_submitted++;
    for (uint32_t i = 0; i < made && result == DOP_SUBMIT_OK; i++) {
        dop_job *job = out_jobs[i];
        job->gen.matcher = requests[i].matcher;
        job->request.task.finish = requests[i].task.finish;
        job->leads = i == 0;
        job->number = e->n_submitted;
        dop_engine_give_turn(e, job);
        dop_engine_enqueue(e, job);
    }
    pthread_cond_signal(&e->work);
    dop_engine_unlock(e);
    for (uint32_t i = 0; i < made && result != DOP_SUBMIT_OK; i++)
        dop_job_free(out_jobs[i]);
    return result;
}

void
dop_job_release(dop_engine *engine, dop_job *job)
{
    if (!job)
        return;
    dop_engine_lock(engine);
    job->released = true;
    job->request.wake = NULL;
    bool ours = job->phase == DOP_JOB_ENDED;
    if (job->phase == DOP_JOB_WAITS) {
        dop_engine_leave_queue(engine, job);
        dop_job_finish(engine, job, DOP_JOB_CANCELLED, NULL);
        ours = true;
    }
    dop_engine_unlock(engine);
    if (ours) /* otherwise the engine's thread frees the job before its next step */
        dop_job_free(job);
}

void
dop_job_stop(dop_engine *engine, dop_job *job)
{
    dop_engine_lock(engine);
    job->enough = true;
    dop_engine_unlock(engine);
}

dop_metrics
dop_engine_metrics(dop_engine *engine)
{
    pthread_mutex_lock(&engine->view_lock);
    dop_metrics m = engine->view.metrics;
    pthread_mutex_unlock(&engine->view_lock);
    const dop_files_counts files =
        /* counted by the thread that writes files, even while the engine is idle */
        dop_stored_count_files(engine->model);
    m.files_written = files.written;
    m.files_removed = files.removed;
    m.file_bytes = files.bytes;
    return m;
}

uint32_t
dop_engine_slots(dop_engine *engine, dop_slot_facts out_slots[DOP_ENGINE_MAX_SLOTS])
{
    const uint32_t n = engine->n_slots < DOP_ENGINE_MAX_SLOTS ? engine->n_slots : (uint32_t)DOP_ENGINE_MAX_SLOTS;
    pthread_mutex_lock(&engine->view_lock);
    memcpy(out_slots, engine->view.slots, n * sizeof *out_slots);
    pthread_mutex_unlock(&engine->view_lock);
    return n;
}

void
dop_engine_count_answer(dop_engine *engine, unsigned status)
{
    pthread_mutex_lock(&engine->view_lock);
    if (status / 100 < DOP_METRIC_STATUSES)
        engine->view.metrics.answers[status / 100]++;
    pthread_mutex_unlock(&engine->view_lock);
}

bool
dop_engine_is_broken(dop_engine *engine, dop_diag *out_diag)
{
    pthread_mutex_lock(&engine->view_lock);
    bool broken = engine->view.broken;
    if (broken)
        *out_diag = engine->view.diag;
    pthread_mutex_unlock(&engine->view_lock);
    return broken;
}
