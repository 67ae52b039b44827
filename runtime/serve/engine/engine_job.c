/* Making, looking at and freeing a job. */
#include "base/spans.h"
#include "runtime/serve/engine/engine_internal.h"
#include "runtime/text/grammar/grammar.h"

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
dop_job_free(dop_job *job)
{
    if (!job)
        return;
    dop_matcher_destroy(job->request.matcher);
    dop_output_finish(&job->output);
    dop_buf_finish(&job->piece);
    dop_texts_finish(&job->stops);
    free(job->stop_bytes);
    free(job->tokens_of);
    free(job->biases);
    free(job->embedding);
    free(job->tokens);
    free(job);
}

static void *
copy(const void *bytes, size_t n)
{
    void *p = malloc(n ? n : 1);
    if (p && n)
        memcpy(p, bytes, n);
    return p;
}

static bool
copy_stops(dop_job *job, const dop_job_request *r)
{
    size_t size = 1, at = 0;
    for (size_t i = 0; i < r->n_stops; i++)
        size += strlen(r->stops[i]) + 1;
    if (!(job->stop_bytes = malloc(size)))
        return false;
    for (size_t i = 0; i < r->n_stops; i++) {
        size_t n = strlen(r->stops[i]) + 1;
        memcpy(job->stop_bytes + at, r->stops[i], n);
        if (dop_texts_push(&job->stops, job->stop_bytes + at, NULL) != DOP_OK)
            return false;
        at += n;
    }
    return true;
}

dop_job *
dop_job_make(const dop_engine *e, const dop_job_request *r)
{
    dop_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->request = *r;
    job->request.matcher = NULL; /* the caller keeps it unless this succeeds */
    job->tokens_of = malloc((r->n_prompt + r->max_tokens + 1) * sizeof *job->tokens_of);
    job->biases = copy(r->sampling.biases, r->sampling.n_biases * sizeof *r->sampling.biases);
    job->n_embedding = r->embeds ? dop_model_embedding_size(e->model) : 0;
    if (!job->tokens_of || !job->biases || !copy_stops(job, r)) {
        dop_job_free(job);
        return NULL;
    }
    memcpy(job->tokens_of, r->prompt, r->n_prompt * sizeof *r->prompt);
    job->written = job->tokens_of + r->n_prompt;
    job->request.prompt = job->tokens_of;
    job->request.sampling.biases = job->biases;
    job->request.sampling.penalty_from = (uint32_t)r->n_prompt;
    job->request.stops = NULL;
    dop_output_init(&job->output, &job->stops);
    dop_text_stream_init(&job->stream, e->tok,
                         DOP_DECODE_CONTINUE | (r->keep_special ? 0 : (unsigned)DOP_DECODE_SKIP_SPECIAL));
    job->submitted_ms = dop_now_ms();
    job->deadline_ms = r->time_limit_s > 0 ? job->submitted_ms + r->time_limit_s * 1e3 : 0;
    return job;
}

dop_status
dop_job_show(dop_job *job, const uint32_t *id, dop_diag *diag)
{
    dop_status st = DOP_OK;
    size_t from;
    if (job->output.stopped)
        return DOP_OK;
    job->piece.size = 0;
    if (id)
        st = dop_text_stream_push(&job->stream, *id, diag, &job->piece);
    else
        dop_text_stream_flush(&job->stream, &job->piece);
    if (st == DOP_OK && job->piece.failed)
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if (st == DOP_OK)
        st = dop_output_push(&job->output, job->piece.data, job->piece.size, diag, &from);
    return st == DOP_OK && !id ? dop_output_end(&job->output, diag, &from) : st;
}

dop_job_state
dop_job_look(const dop_job *job)
{
    return (dop_job_state){
        .end = job->end,
        .diag = &job->diag,
        .by_request = job->by_request || job->diag.code == DOP_E_LIMIT || job->diag.code == DOP_E_FULL,
        .text = job->output.text.size ? job->output.text.data : "",
        .n_text = job->output.text.size,
        .tokens = job->tokens,
        .n_tokens = job->n_tokens,
        .embedding = job->embedding,
        .n_embedding = job->n_embedding,
        .n_prompt = (uint32_t)job->request.n_prompt,
        .n_reused = job->n_reused,
        .submitted_ms = job->submitted_ms,
        .first_ms = job->first_ms,
        .last_ms = job->last_ms,
    };
}
