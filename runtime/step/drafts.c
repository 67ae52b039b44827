/* Makes drafts: from earlier occurrences of the same tokens, from the plan's draft layer, from a smaller model, or from
 * the caller. */
#include "runtime/step/sequence.h"
#include "runtime/step/speculator.h"

#include <string.h>

/* --- smaller model
 * --------------------------------------------------------------------------------------------------- */

static dop_status
ask_model(dop_sequence *s, uint32_t most, dop_diag *diag)
{
    dop_speculator *p = s->speculator;
    dop_sequence *d = p->how.draft;
    uint32_t same = 0, ctx = d->model->plan.model->ctx;
    if (s->n_tokens + 1 >= ctx)
        return DOP_OK;
    most = most < ctx - s->n_tokens ? most : ctx - s->n_tokens;
    while (same < d->n_tokens && same < s->n_tokens && d->tokens[same] == s->tokens[same])
        same++;
    dop_sequence_set_sampling(d, &s->sampler.params); /* including the seed: see judge_row in speculate.c */
    dop_status st = same < d->n_tokens ? dop_sequence_rewind(d, same, diag) : DOP_OK;
    if (st != DOP_OK)
        return st;
    dop_sequence_expect(d, most);
    if (same < s->n_tokens)
        st = dop_sequence_feed(d, s->tokens + same, s->n_tokens - same, diag);
    for (; p->n_drafts < most && st == DOP_OK; p->n_drafts++)
        if ((st = dop_sequence_next_plain(d, diag, &p->drafts[p->n_drafts])) != DOP_OK)
            return st;
    return st;
}

/* --- any source
 * ------------------------------------------------------------------------------------------------------ */

bool
dop_drafts_likely(dop_sequence *sequence)
{
    dop_speculator *p = sequence->speculator;
    return p->how.fn || p->how.draft || p->how.own ||
           (p->ngrams.n && dop_ngrams_find(&p->ngrams, sequence->tokens, sequence->n_tokens));
}

dop_status
dop_drafts_make(dop_sequence *sequence, uint32_t most, dop_diag *diag)
{
    dop_sequence *s = sequence;
    dop_speculator *p = s->speculator;
    uint32_t vocab = s->model->plan.model->vocab, end;
    p->n_drafts = 0;
    if (p->how.fn && p->how.own) {
        dop_status st = dop_head_draft(s, most, diag, p->drafts, &p->n_drafts);
        if (st != DOP_OK)
            return st;
    }
    if (p->how.fn) {
        dop_status st = p->how.fn(p->how.user, s->tokens, s->n_tokens, most, diag, p->drafts, &p->n_drafts);
        p->n_drafts = st != DOP_OK ? 0 : p->n_drafts < most ? p->n_drafts : most;
        if (st != DOP_OK)
            return st;
    }
    if (p->n_drafts == 0 && p->ngrams.n && (end = dop_ngrams_find(&p->ngrams, s->tokens, s->n_tokens)) > 0)
        for (; p->n_drafts < most;
             end++) /* past the end of the text, continue with the drafts themselves: the text may be periodic */
            p->drafts[p->n_drafts++] = end < s->n_tokens ? s->tokens[end] : p->drafts[end - s->n_tokens];
    for (uint32_t i = 0; i < p->n_drafts; i++) /* drafts must be tokens, not ids of features */
        if (p->drafts[i] >= s->model->plan.model->vocab)
            p->n_drafts = i;
    if (p->n_drafts == 0 && p->how.own) {
        dop_status st = dop_head_draft(s, most, diag, p->drafts, &p->n_drafts);
        if (st != DOP_OK)
            return st;
    }
    if (p->n_drafts == 0 && p->how.draft) {
        dop_status st = ask_model(s, most, diag);
        if (st != DOP_OK)
            return st;
    }
    for (uint32_t i = 0; i < p->n_drafts; i++)
        if (p->drafts[i] >= vocab)
            p->n_drafts = i;
    return DOP_OK;
}
