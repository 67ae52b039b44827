/* Log-probabilities of prompt tokens. */
#include "serve/engine/engine_score.h"
#include "runtime/model/model.h"
#include "serve/engine/engine_internal.h"
#include "serve/engine/engine_slots.h"

#include <string.h>

/* Logits of consecutive prompt positions; each row predicts the next prompt token. */
typedef struct scoring {
    dop_engine *e;
    dop_job *job;
    uint32_t from; /* index of the prompt token whose logits are in the first row */
    const float *rows;
} scoring;

static dop_status
score_prompt_row(void *user, uint32_t worker, uint32_t index, dop_diag *diag)
{
    scoring *s = user;
    const uint32_t n_top = s->job->request.n_top, vocab = s->e->facts.vocab, at = s->from + index;
    dop_logprob *out = s->job->scored + (size_t)at * (1 + n_top);
    (void)worker, (void)diag;
    dop_logits_logprobs(s->rows + (size_t)index * vocab, vocab, s->job->tokens_of[at + 1], n_top, out, out + 1);
    return DOP_OK;
}

/* dop_logits_fn: scores rows of logits on several threads. */
static dop_status
score_prompt_rows(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag)
{
    scoring s = *(scoring *)user;
    s.from += (uint32_t)first;
    s.rows = rows;
    return dop_parallel_for((uint32_t)n_rows, s.e->n_threads, score_prompt_row, &s, diag);
}

void
dop_engine_score(dop_engine *e, dop_job *job)
{
    dop_diag diag = {0};
    dop_slot *slot = &e->slots[job->slot];
    const bool begins = job->n_read == UINT32_MAX;
    dop_status st = begins ? dop_slot_rewind(slot, 0, &diag) : DOP_OK;
    if (begins && st == DOP_OK) {
        job->n_read = 0;
        dop_engine_lock(e);
        e->metrics.prompt_tokens += job->request.n_prompt;
        dop_engine_unlock(e);
    }
    const uint32_t left = (uint32_t)job->request.n_prompt - 1 - (begins ? 0 : job->n_read);
    const uint32_t take = left < e->max_chunk ? left : e->max_chunk;
    scoring s = {.e = e, .job = job, .from = job->n_read};
    if (st == DOP_OK)
        st = dop_sequence_score(slot->sequence, job->tokens_of + job->n_read, take, score_prompt_rows, &s, &diag);
    if (st == DOP_OK) {
        job->n_read += take;
        return;
    }
    if (st == DOP_E_FULL && dop_slot_rewind(slot, job->n_read, NULL) == DOP_OK && dop_engine_make_pages(e))
        return; /* retried once pages are free */
    if (st == DOP_E_DEVICE)
        dop_engine_give_up(e, &diag);
    dop_engine_fail_job(e, job, &diag);
}
