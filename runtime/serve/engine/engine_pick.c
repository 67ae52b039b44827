#include "base/spans.h"
#include "runtime/serve/engine/engine_internal.h"
#include "runtime/text/grammar/grammar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool
adds_to_logits(const dop_job_request *r)
{
    return r->n_biases || r->presence != 0 || r->frequency != 0;
}

bool
dop_job_needs_logits(const dop_engine *e, const dop_job *job)
{
    const dop_job_request *r = &job->request;
    const bool draws = e->draws && r->sampling.repeat_penalty == 1.0f;
    return r->logprobs || adds_to_logits(r) || (!draws && !dop_sampling_is_greedy(&r->sampling));
}

dop_status
dop_job_ready_pick(dop_engine *e, dop_job *job, dop_diag *diag)
{
    struct dop_matcher *matcher = job->request.matcher;
    const bool on_device = !dop_job_needs_logits(e, job), masks = matcher && on_device;
    if (on_device && !dop_sampling_is_greedy(&job->request.sampling))
        dop_sequence_set_sampling(e->slots[job->slot].sequence, &job->request.sampling);
    if (masks && !job->mask && !(job->mask = dop_matcher_mask(matcher, diag)))
        return diag->code;
    job->mask_ready |= masks;
    dop_status st = dop_sequence_set_mask(e->slots[job->slot].sequence, masks ? job->mask : NULL, diag);
    if (st != DOP_E_INPUT)
        return st;
    job->by_request = true;
    dop_diag_clear(diag);
    return DOP_FAIL(diag, DOP_E_INPUT, "no token of the vocabulary goes on with what the grammar wants next");
}

dop_status
dop_job_prepare(dop_engine *e, dop_job *job, uint64_t steps, dop_diag *diag)
{
    struct dop_matcher *matcher = job->request.matcher;
    if (!matcher || job->mask_ready)
        return DOP_OK;
    dop_status st = dop_matcher_prepare(matcher, steps, diag, &job->mask_ready);
    if (st == DOP_OK && job->mask_ready && !dop_job_needs_logits(e, job))
        job->mask = dop_matcher_mask(matcher, diag);
    return st;
}

static void
note_probabilities(dop_job *job, const float *logits, uint32_t vocab)
{
    dop_job_token *t = &job->token;
    double sum = dop_logits_log_sum(logits, vocab);
    uint32_t ids[DOP_JOB_MAX_TOP];
    t->n_top = job->request.n_top < vocab ? job->request.n_top : vocab;
    dop_logits_top(logits, vocab, t->n_top, ids);
    for (uint32_t i = 0; i < t->n_top; i++)
        t->top[i] = (dop_top){ids[i], (float)((double)logits[ids[i]] - sum)};
    t->pick = (dop_top){job->pick, (float)((double)logits[job->pick] - sum)};
}

/* Subtracts the penalties of tokens that the job has written from their logits. */
static void
penalize(const dop_job *job, float *logits)
{
    const dop_job_request *r = &job->request;
    if (r->presence == 0 && r->frequency == 0)
        return;
    for (uint32_t i = 0; i < job->n_written; i++)
        logits[job->written[i]] -= r->frequency + (job->is_new[i] ? r->presence : 0);
}

static dop_status
change_logits(dop_job *job, float *logits, uint32_t vocab, dop_diag *diag)
{
    const dop_job_request *r = &job->request;
    dop_status st = DOP_OK;
    for (size_t i = 0; i < r->n_biases; i++)
        logits[r->biases[i].id] += r->biases[i].by;
    penalize(job, logits);
    if (r->matcher)
        st = dop_matcher_apply(r->matcher, logits, vocab, diag);
    job->by_request |= st == DOP_E_INPUT;
    return st;
}

dop_status
dop_job_pick(dop_engine *e, dop_job *job, uint32_t worker, dop_diag *diag)
{
    const dop_job_request *r = &job->request;
    uint32_t vocab = e->facts.vocab;
    dop_status st = DOP_OK;
    if (!dop_job_needs_logits(e, job)) {
        if (dop_sampling_is_greedy(&r->sampling))
            job->pick = dop_step_pick(e->model, job->row);
        else
            st = dop_step_sample(e->model, job->row, diag, &job->pick);
        job->mask = NULL;
        job->mask_ready = false;
        return st == DOP_OK && r->matcher ? dop_matcher_accept(r->matcher, job->pick, diag) : st;
    }
    const float *logits = dop_step_logits(e->model, job->row), *from = logits;
    if (dop_logits_largest(logits, vocab) == UINT32_MAX)
        return DOP_FAIL(diag, DOP_E_INPUT, "the model's logits are not finite after %zu tokens",
                        r->n_prompt + job->n_written);
    if (adds_to_logits(r) || r->matcher) {
        memcpy(e->scratch[worker], logits, (size_t)vocab * sizeof(float));
        if ((st = change_logits(job, e->scratch[worker], vocab, diag)) != DOP_OK)
            return st;
        from = e->scratch[worker];
    }
    dop_sampler *s = &e->samplers[worker];
    s->params = r->sampling;
    job->pick = dop_sampler_pick(s, from, job->tokens_of, r->n_prompt + job->n_written, NULL);
    if (r->logprobs)
        note_probabilities(job, logits, vocab);
    job->mask_ready = false;
    return r->matcher ? dop_matcher_accept(r->matcher, job->pick, diag) : DOP_OK;
}

void
dop_job_finish(dop_engine *e, dop_job *job, dop_job_end end, const dop_diag *diag)
{
    if (job->phase == DOP_JOB_READS || job->phase == DOP_JOB_WRITES) {
        e->slots[job->slot].job = NULL;
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
keep_token(dop_job *job)
{
    if (!job->request.logprobs)
        return true;
    if (job->n_tokens == job->cap_tokens) {
        uint32_t cap = job->cap_tokens ? 2 * job->cap_tokens : 64;
        dop_job_token *p = realloc(job->tokens, cap * sizeof *p);
        if (!p)
            return false;
        job->tokens = p;
        job->cap_tokens = cap;
    }
    job->tokens[job->n_tokens] = job->token;
    return true;
}

static void
note_written(dop_job *job)
{
    bool is_new = job->request.presence != 0;
    for (uint32_t i = 0; i < job->n_written && is_new; i++)
        is_new = job->written[i] != job->pick;
    job->is_new[job->n_written] = is_new;
    job->written[job->n_written++] = job->pick;
}

static bool
is_end(const dop_engine *e, uint32_t id)
{
    for (uint32_t i = 0; i < e->facts.n_end_ids; i++)
        if (e->facts.end_ids[i] == id)
            return true;
    return false;
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
    note_written(job);
    if (!keep_token(job)) {
        DOP_FAIL(&diag, DOP_E_NOMEM, "out of memory");
        dop_job_finish(e, job, DOP_JOB_FAILED, &diag);
        return;
    }
    job->n_tokens++;
    bool ends = !job->request.ignore_end && is_end(e, job->pick);
    dop_job_end end = ends ? DOP_JOB_END_TOKEN : DOP_JOB_GOES_ON;
    /* A model may have more ids than the tokenizer has tokens.  An id that is no token has no text. */
    bool is_token = job->pick < dop_tokenizer_vocab_size(e->tok);
    if (!ends && is_token && dop_job_show(job, &job->pick, &diag) != DOP_OK)
        end = DOP_JOB_FAILED;
    else if (job->output.stopped)
        end = DOP_JOB_STOP_TEXT;
    else if (!ends && job->request.matcher && dop_matcher_must_end(job->request.matcher))
        end = DOP_JOB_END_TOKEN;
    else if (!ends && job->n_written == job->request.max_tokens)
        end = DOP_JOB_LENGTH;
    if ((end == DOP_JOB_END_TOKEN || end == DOP_JOB_LENGTH) && dop_job_show(job, NULL, &diag) != DOP_OK)
        end = DOP_JOB_FAILED;
    if (end != DOP_JOB_GOES_ON)
        dop_job_finish(e, job, end, &diag);
    else if (job->request.wake && !job->request.wake_at_end)
        job->request.wake(job->request.user);
}
