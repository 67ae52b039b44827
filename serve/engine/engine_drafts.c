/* Speculative decoding with the model's own draft layer: a step has the last token and some drafts of each decoding
 * job. */
#include "serve/engine/engine_drafts.h"
#include "base/os/clock.h"
#include "runtime/step/heads.h"
#include "runtime/step/speculator.h"
#include "runtime/step/step_ahead.h"
#include "serve/engine/engine_internal.h"
#include "text/grammar/grammar.h"

#include <string.h>

dop_status
dop_engine_drafts_init(dop_engine *e, dop_diag *diag)
{
    dop_status st = DOP_OK;
    e->drafts = !e->encodes && e->n_groups == 1 && dop_model_drafts(e->model);
    for (uint32_t i = 0; i < e->n_slots && e->drafts; i++)
        DOP_TRY(dop_head_create(e->slots[i].sequence, diag));
error:
    if (e->drafts)
        dop_speculation_policy(e->model, &e->policy);
    return st;
}

/* True if the job is decoding and can get several tokens from one step. Jobs with a grammar cannot: the mask of a
 * token depends on the token before it. */
static bool
may_job_draft(const dop_engine *e, const dop_job *job)
{
    return job && job->phase == DOP_JOB_WRITES && !job->gen.matcher && !job->gen.logprobs &&
           job->gen.n_written + 1 < job->request.max_tokens && e->slots[job->slot].sequence->head;
}

void
dop_engine_drafts_make(dop_engine *e)
{
    enum { MOST_AGAIN = 4 }; /* maximum recomputed rows per job, for models whose steps replace states */
    dop_draft_ask asks[DOP_DRAFT_EACH];
    dop_diag diag = {0};
    uint32_t n = 0, n_writers = 0, steps = 0;
    bool pays;
    e->draft_ms = 0;
    for (uint32_t i = 0; i < e->n_slots; i++) {
        dop_job *job = e->slots[i].job;
        if (!job)
            continue;
        job->n_drafts = 0;
        n_writers += job->phase == DOP_JOB_WRITES;
    }
    if (!e->drafts || n_writers == 0 || n_writers > e->max_rows / 2)
        return;
    for (uint32_t i = 0; i < e->n_slots; i++)
        dop_head_rest(e->slots[i].sequence, &e->policy);
    if (e->policy.wait > 0) {
        e->policy.wait--;
        return;
    }
    const uint32_t room = e->max_rows / n_writers - 1, most = room < DOP_JOB_DRAFTS ? room : DOP_JOB_DRAFTS,
                   each = dop_draft_policy_share(&e->policy, n_writers, most, &pays);
    for (uint32_t i = 0; i < e->n_slots && n < DOP_DRAFT_EACH; i++) {
        dop_job *job = e->slots[i].job;
        if (!may_job_draft(e, job))
            continue;
        dop_sequence *s = e->slots[i].sequence;
        const uint32_t known = dop_job_tokens(job), left = job->request.max_tokens - job->gen.n_written - 1;
        if (known + each >= e->facts.ctx || s->n_tokens > known || known - s->n_tokens > MOST_AGAIN)
            continue;
        memcpy(s->tokens + s->n_tokens, job->tokens_of + s->n_tokens, (known - s->n_tokens) * sizeof *s->tokens);
        asks[n++] =
            (dop_draft_ask){.sequence = s, .known = known, .most = each < left ? each : left, .ids = job->drafts};
    }
    const double start = dop_now_ms();
    if (n == 0 || dop_step_drain(e->model, &diag) != DOP_OK || dop_heads_draft(e->model, asks, n, &diag) != DOP_OK)
        return; /* if the device is lost, the next step reports it */
    for (uint32_t i = 0, k = 0; i < e->n_slots && k < n; i++)
        if (e->slots[i].job && e->slots[i].sequence == asks[k].sequence) {
            e->slots[i].job->n_drafts = asks[k].n;
            steps = asks[k].n > steps ? asks[k].n : steps;
            k++;
        }
    e->draft_ms = steps > 0 ? (dop_now_ms() - start) / steps : 0;
}

static bool
is_generation_end(const dop_generation *g, uint32_t id)
{
    for (uint32_t i = 0; i < g->n_end_ids; i++)
        if (g->end_ids[i] == id)
            return true;
    return false;
}

dop_status
dop_engine_drafts_pick(dop_job *job, dop_picker *picker, dop_diag *diag)
{
    const uint32_t n = dop_job_tokens(job);
    dop_status st = DOP_OK;
    bool right = true;
    job->n_picks = 0;
    for (uint32_t i = 0; i <= job->n_drafts && right && st == DOP_OK; i++) {
        st = dop_generation_pick(&job->gen, job->row + i, picker, job->tokens_of, n + i, diag);
        if (st != DOP_OK)
            break;
        const uint32_t id = job->picks[job->n_picks++] = job->gen.pick;
        right = i < job->n_drafts && id == job->drafts[i] && !is_generation_end(&job->gen, id);
        if (right)
            job->tokens_of[n + i] = id;
    }
    return job->n_picks > 0 ? DOP_OK : st; /* a failure after an accepted draft is reported by the next step */
}

void
dop_engine_drafts_judge(dop_engine *e, const dop_engine_picks *picks, double step_ms)
{
    dop_draft_round round = {.rows = e->n_rows, .judged = true, .step_ms = step_ms, .draft_ms = e->draft_ms};
    uint32_t ended = 0;
    bool writes = e->drafts;
    if (!e->drafts)
        return;
    for (uint32_t i = 0; i < picks->n; i++) {
        const dop_job *job = picks->jobs[i];
        writes = writes && job->phase == DOP_JOB_WRITES;
        if (job->n_drafts == 0 || job->n_picks == 0)
            continue;
        const dop_sequence *s = e->slots[job->slot].sequence;
        dop_step_keep(e->model, s, dop_job_tokens(job) - s->n_tokens + job->n_picks - 1);
        round.drafts += job->n_drafts;
        round.accepted += job->n_picks - 1;
        ended += job->n_picks <= job->n_drafts;
    }
    if (writes && picks->n > 0)
        dop_draft_policy_shared(&e->policy, &round, picks->n, ended);
    dop_engine_lock(e);
    e->metrics.drafted += round.drafts;
    e->metrics.accepted += round.accepted;
    dop_engine_unlock(e);
}
