/* Lifecycle of a job. */
#include "serve/engine/engine_job.h"
#include "base/os/clock.h"
#include "serve/engine/engine_internal.h"
#include "text/grammar/grammar.h"

#include <stdlib.h>
#include <string.h>

void
dop_engine_lock(dop_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
}

void
dop_engine_publish(dop_engine *e)
{
    pthread_mutex_lock(&e->view_lock);
    uint64_t answers[DOP_METRIC_STATUSES];
    memcpy(answers, e->view.metrics.answers, sizeof answers);
    e->view.metrics = e->metrics;
    memcpy(e->view.metrics.answers, answers, sizeof answers);
    e->view.metrics.waiting = e->n_waiting;
    for (uint32_t i = 0; i < e->n_slots && e->slots && i < DOP_ENGINE_MAX_SLOTS; i++) {
        const dop_job *job = e->slots[i].job;
        dop_slot_facts facts = {.works = job != NULL};
        if (job) {
            const dop_job_state s = dop_job_look(job);
            facts.n_prompt = s.n_prompt;
            facts.n_reused = s.n_reused;
            facts.n_written = s.n_tokens;
        }
        e->view.slots[i] = facts;
    }
    if (e->broken && !e->view.broken) {
        e->view.diag = e->diag;
        e->view.broken = true;
    }
    pthread_mutex_unlock(&e->view_lock);
}

void
dop_engine_unlock(dop_engine *engine)
{
    dop_engine_publish(engine);
    pthread_mutex_unlock(&engine->lock);
}

void
dop_engine_enqueue(dop_engine *e, dop_job *job)
{
    dop_job **at = &e->first;
    const int priority = job->request.priority;
    /* Fast path: most jobs go to the end of the queue. */
    if (e->last &&
        (e->last->request.priority > priority || (e->last->request.priority == priority && e->last->turn <= job->turn)))
        at = &e->last->next;
    while (*at &&
           ((*at)->request.priority > priority || ((*at)->request.priority == priority && (*at)->turn <= job->turn)))
        at = &(*at)->next;
    job->next = *at;
    *at = job;
    if (!job->next)
        e->last = job;
    e->n_waiting++;
}

void
dop_engine_give_turn(dop_engine *e, dop_job *job)
{
    enum { GUESSED = 256 }; /* assumed maximum length of an answer in tokens: its real length is not known */
    double *last = &e->turns.clients[job->request.client % DOP_ENGINE_CLIENTS];
    const bool unknown = job->request.max_tokens > GUESSED || job->request.task.run;
    const uint32_t most = unknown ? (uint32_t)GUESSED : job->request.max_tokens;
    job->turn = *last > e->turns.now ? *last : e->turns.now;
    *last = job->turn + (double)job->request.n_prompt + (double)most;
}

void
dop_job_free(dop_job *job)
{
    if (!job)
        return;
    dop_matcher_destroy(job->gen.matcher);
    dop_generation_finish(&job->gen);
    for (uint32_t i = 0; i < job->request.n_images && job->images; i++)
        dop_image_close(job->images[i]);
    free(job->images);
    free(job->tokens_of);
    free(job->embedding);
    free(job->tokens);
    free(job->scored);
    if (job->request.task.finish)
        job->request.task.finish(job->request.task.state);
    free(job);
}

dop_job *
dop_job_make(const dop_engine *e, const dop_job_request *r)
{
    dop_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->request = *r;
    job->request.task.finish = NULL; /* set when the job is submitted */
    job->tokens_of = malloc((r->n_prompt + 2 * (size_t)r->max_tokens + 1) * sizeof *job->tokens_of);
    job->n_embedding = r->embeds ? dop_model_embedding_size(e->model) : 0;
    const dop_generation_options how = {.sampling = &r->sampling,
                                        .stops = r->stops,
                                        .n_stops = r->n_stops,
                                        .max_tokens = r->max_tokens,
                                        .n_top = r->n_top,
                                        .ignore_end = r->ignore_end,
                                        .keep_special = r->keep_special};
    if (r->scores)
        job->scored = calloc(r->n_prompt * (1 + (size_t)r->n_top), sizeof *job->scored);
    /* The caller owns the matcher until the job is submitted. */
    if (r->n_images > 0 && (job->images = calloc(r->n_images, sizeof *job->images)))
        for (uint32_t i = 0; i < r->n_images; i++)
            job->images[i] = dop_image_share(r->images[i]);
    if ((r->n_images > 0 && !job->images) || !job->tokens_of || (r->scores && !job->scored) ||
        dop_generation_init(&job->gen, e->model, e->tok, NULL, &how, NULL) != DOP_OK) {
        dop_job_free(job);
        return NULL;
    }
    if (r->n_prompt > 0)
        memcpy(job->tokens_of, r->prompt, r->n_prompt * sizeof *r->prompt);
    job->written = job->tokens_of + r->n_prompt;
    job->text_ends = job->written + r->max_tokens;
    job->request.prompt = job->tokens_of;
    job->gen.sampling.penalty_from = (uint32_t)r->n_prompt;
    job->request.sampling = job->gen.sampling;
    job->request.stops = NULL;
    job->request.matcher = NULL;
    job->submitted_ms = dop_now_ms();
    job->deadline_ms = r->time_limit_s > 0 ? job->submitted_ms + r->time_limit_s * 1e3 : 0;
    return job;
}

dop_job_end
dop_job_ends_now(const dop_engine *e, const dop_job *job, double now_ms)
{
    if (job->released)
        return DOP_JOB_CANCELLED;
    if (e->broken)
        return DOP_JOB_FAILED;
    if (job->enough)
        return DOP_JOB_STOP_TEXT;
    if (e->stopped && (job->phase == DOP_JOB_WAITS || now_ms >= e->stop_ms))
        return DOP_JOB_SHUTDOWN;
    if (job->deadline_ms > 0 && now_ms >= job->deadline_ms)
        return DOP_JOB_TIMEOUT;
    return DOP_JOB_GOES_ON;
}

void
dop_job_finish(dop_engine *e, dop_job *job, dop_job_end end, const dop_diag *diag)
{
    if (job->phase == DOP_JOB_READS || job->phase == DOP_JOB_WRITES) {
        e->slots[job->slot].job = NULL;
        e->slots[job->slot].ended = !job->request.embeds && !job->request.task.run;
        e->metrics.running--;
    }
    job->phase = DOP_JOB_ENDED;
    job->end = end;
    if (diag)
        job->diag = *diag;
    e->metrics.jobs[end]++;
    dop_histogram_add(&e->metrics.duration, (dop_now_ms() - job->submitted_ms) / 1e3);
    if (job->request.wake)
        job->request.wake(job->request.user);
}

static bool
store_token_logprobs(dop_job *job)
{
    const dop_generation *g = &job->gen;
    const uint32_t n = g->n_written;
    if (!g->logprobs)
        return true;
    if (n == job->cap_tokens) {
        uint32_t cap = job->cap_tokens ? 2 * job->cap_tokens : 64;
        dop_job_token *p = realloc(job->tokens, cap * sizeof *p);
        if (!p)
            return false;
        job->tokens = p;
        job->cap_tokens = cap;
    }
    dop_job_token *t = &job->tokens[n];
    t->n_top = g->n_top;
    t->pick = g->logprobs[0];
    memcpy(t->top, &g->logprobs[1], g->n_top * sizeof *t->top);
    return true;
}

void
dop_job_write(dop_engine *e, dop_job *job, double now_ms)
{
    dop_diag diag = {0};
    if (job->first_ms == 0) {
        job->first_ms = now_ms;
        dop_histogram_add(&e->metrics.first_token, (now_ms - job->submitted_ms) / 1e3);
    } else {
        dop_histogram_add(&e->metrics.per_token, (now_ms - job->last_ms) / 1e3);
    }
    job->last_ms = now_ms;
    e->metrics.written_tokens++;
    const uint32_t n = job->gen.n_written;
    job->written[n] = job->gen.pick;
    static const dop_job_end ends[] = {[DOP_END_NOT_YET] = DOP_JOB_GOES_ON,
                                       [DOP_END_ID] = DOP_JOB_END_TOKEN,
                                       [DOP_END_STOP_TEXT] = DOP_JOB_STOP_TEXT,
                                       [DOP_END_CONSTRAINT] = DOP_JOB_END_TOKEN,
                                       [DOP_END_LENGTH] = DOP_JOB_LENGTH};
    dop_end why = DOP_END_NOT_YET;
    size_t from;
    dop_status st =
        store_token_logprobs(job) ? dop_generation_write(&job->gen, &diag, &from, &why) : DOP_NO_MEMORY(&diag);
    job->text_ends[n] = (uint32_t)job->gen.output.text.size;
    if (st != DOP_OK || why != DOP_END_NOT_YET)
        dop_job_finish(e, job, st == DOP_OK ? ends[why] : DOP_JOB_FAILED, &diag);
    else if (job->request.wake && !job->request.wake_at_end)
        job->request.wake(job->request.user);
}

dop_job_state
dop_job_look(const dop_job *job)
{
    return (dop_job_state){
        .end = job->end,
        .diag = &job->diag,
        .by_request = job->gen.refused || (job->request.task.run && job->diag.code == DOP_E_INPUT) ||
                      job->diag.code == DOP_E_LIMIT || job->diag.code == DOP_E_FULL,
        .text = job->gen.output.text.size ? job->gen.output.text.data : "",
        .n_text = job->gen.output.text.size,
        .stop = job->gen.output.stopped ? job->gen.output.stops[job->gen.output.stop] : NULL,
        .stop_index = job->gen.output.stop,
        .tokens = job->tokens,
        .n_tokens = job->gen.n_written,
        .text_ends = job->text_ends,
        .scored = job->scored,
        .embedding = job->embedding,
        .n_embedding = job->n_embedding,
        .task = job->request.task.state,
        .task_at = job->task_at,
        .task_of = job->task_of,
        .n_prompt = (uint32_t)job->request.n_prompt,
        .n_reused = job->n_reused,
        .submitted_ms = job->submitted_ms,
        .first_ms = job->first_ms,
        .last_ms = job->last_ms,
    };
}
