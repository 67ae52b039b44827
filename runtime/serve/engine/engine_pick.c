#include "base/spans.h"
#include "runtime/serve/engine/engine_internal.h"
#include "runtime/text/grammar/grammar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    bool finite = true;
    if (r->matcher) { /* what it forbids is not finite */
        finite = dop_logits_largest(logits, vocab) != UINT32_MAX;
        memcpy(e->scratch[worker], logits, (size_t)vocab * sizeof(float));
        if ((st = dop_matcher_apply(r->matcher, e->scratch[worker], vocab, diag)) != DOP_OK) {
            job->by_request |= st == DOP_E_INPUT;
            return st;
        }
        from = e->scratch[worker];
    }
    dop_sampler *s = &e->samplers[worker];
    s->params = r->sampling;
    job->pick = dop_sampler_pick(s, from, job->tokens_of, r->n_prompt + job->n_written, NULL);
    if (!finite || (!r->matcher && s->bad))
        return DOP_FAIL(diag, DOP_E_INPUT, "the model's logits are not finite after %zu tokens",
                        r->n_prompt + job->n_written);
    if (r->sampling.logprobs) {
        dop_job_token *t = &job->token;
        t->n_top = r->n_top < vocab ? r->n_top : vocab;
        dop_logits_logprobs(logits, vocab, job->pick, t->n_top, &t->pick, t->top);
    }
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
    if (!job->request.sampling.logprobs)
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
    job->written[job->n_written++] = job->pick;
    if (!keep_token(job)) {
        DOP_FAIL(&diag, DOP_E_NOMEM, "out of memory");
        dop_job_finish(e, job, DOP_JOB_FAILED, &diag);
        return;
    }
    job->n_tokens++;
    static const dop_job_end ends[] = {[DOP_END_NOT_YET] = DOP_JOB_GOES_ON,
                                       [DOP_END_ID] = DOP_JOB_END_TOKEN,
                                       [DOP_END_STOP_TEXT] = DOP_JOB_STOP_TEXT,
                                       [DOP_END_CONSTRAINT] = DOP_JOB_END_TOKEN,
                                       [DOP_END_LENGTH] = DOP_JOB_LENGTH};
    const dop_job_request *r = &job->request;
    const dop_ending ending = {e->facts.end_ids, r->ignore_end ? 0 : e->facts.n_end_ids, r->max_tokens};
    /* A model may have more ids than the tokenizer has tokens.  An id that is no token has no text. */
    const bool is_token = job->pick < dop_tokenizer_vocab_size(e->tok) && !dop_ending_has(&ending, job->pick);
    const bool shown = !is_token || dop_job_show(job, &job->pick, &diag) == DOP_OK;
    const bool complete = r->matcher && dop_matcher_must_end(r->matcher);
    dop_job_end end =
        shown ? ends[dop_output_ends(&job->output, &ending, job->pick, job->n_written, complete)] : DOP_JOB_FAILED;
    if ((end == DOP_JOB_END_TOKEN || end == DOP_JOB_LENGTH) && dop_job_show(job, NULL, &diag) != DOP_OK)
        end = DOP_JOB_FAILED;
    if (end != DOP_JOB_GOES_ON)
        dop_job_finish(e, job, end, &diag);
    else if (job->request.wake && !job->request.wake_at_end)
        job->request.wake(job->request.user);
}
