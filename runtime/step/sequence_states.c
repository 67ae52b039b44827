/* Creates, destroys, forks and rewinds sequences; see sequence_states.h. */
#include "runtime/step/sequence_states.h"
#include "plan/plan_names.h"
#include "runtime/parts/lead/ranks.h"
#include "runtime/step/adapters.h"
#include "runtime/step/restore_point.h"
#include "runtime/step/sequence_pages.h"
#include "runtime/step/speculator.h"
#include "runtime/step/step.h"
#include "runtime/step/step_ahead.h"
#include "runtime/step/transfer.h"

#include <stdlib.h>
#include <string.h>

static dop_status
no_place(const dop_model *m, dop_diag *diag)
{
    uint32_t n = m->plan.model->n_sequences;
    if (n == 1)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path,
                           "the plan holds one sequence at a time, and there is one: destroy it first, or compile with "
                           "`sequences`");
    return DOP_FAIL_IN(
        diag, DOP_E_INPUT, m->plan.path,
        "the plan holds %u sequences at a time, and there are as many: destroy one first, or compile with "
        "more `sequences`",
        n);
}

dop_status
dop_sequence_create(dop_model *model, dop_diag *diag, dop_sequence **out_sequence)
{
    dop_diag_clear(diag);
    dop_model *m = model;
    uint32_t place = 0;
    *out_sequence = NULL;
    DOP_DRIVE(model, diag);
    if (!dop_plan_steps(&m->plan))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path,
                           "the model encodes texts and gives no tokens: use `dop_program_run`");
    while (place < m->plan.model->n_sequences && m->sequences[place])
        place++;
    if (place == m->plan.model->n_sequences)
        return no_place(m, diag);
    dop_sequence *s = calloc(1, sizeof *s);
    if (!s)
        return DOP_NO_MEMORY(diag);
    s->model = m;
    s->place = place;
    s->wanted = UINT32_MAX;
    dop_sequence_kept(s, UINT32_MAX, 0);
    s->tokens = calloc((size_t)m->plan.model->ctx + 1, sizeof *s->tokens);
    dop_status st = s->tokens ? DOP_OK : DOP_NO_MEMORY(diag);
    if (st == DOP_OK)
        st = dop_sampler_init(&s->sampler, m->plan.model->vocab, diag);
    if (st == DOP_OK && m->states_used[place] && (st = dop_step_none_open(m, diag)) == DOP_OK &&
        (st = dop_step_drain(m, diag)) == DOP_OK)
        st = dop_sequence_empty(s, diag);
    if (st == DOP_OK && m->lora.factors_set[place] && (st = dop_step_none_open(m, diag)) == DOP_OK &&
        (st = dop_step_drain(m, diag)) == DOP_OK)
        st = dop_adapters_apply(s, NULL, 0, diag);
    if (st != DOP_OK) {
        dop_sequence_destroy(s);
        return st;
    }
    m->sequences[place] = s;
    m->n_sequences++;
    m->states_used[place] = true;
    *out_sequence = s;
    return DOP_OK;
}

void
dop_sequence_destroy(dop_sequence *sequence)
{
    if (!sequence || dop_driver_is_forked(&sequence->model->loader.driver))
        return;
    dop_model *m = sequence->model;
    if (m->sequences[sequence->place] == sequence) {
        if (dop_step_runs(m, sequence))
            (void)dop_step_drain(m, NULL); /* the next call reports a lost device again */
        if (dop_step_has(&m->step, sequence))
            dop_step_rollback(m);
        dop_sequence_note(sequence);
        dop_pages_keep(&m->pages, sequence->place, 0);
        m->sequences[sequence->place] = NULL;
        m->n_sequences--;
    }
    dop_speculator_end(sequence);
    dop_head_destroy(sequence);
    dop_sampler_finish(&sequence->sampler);
    free(sequence->mask);
    free(sequence->masked_logits);
    dop_prefix_finish(&sequence->prefix);
    free(sequence->tokens);
    free(sequence);
}

dop_status
dop_sequence_empty(dop_sequence *sequence, dop_diag *diag)
{
    dop_sequence *s = sequence;
    dop_replay *r = &s->model->replay;
    uint64_t ticket;
    dop_sequence_note(s);
    dop_pages_keep(&s->model->pages, s->place, 0);
    s->n_fed = s->n_written = 0;
    dop_sequence_kept(s, UINT32_MAX, 0);
    s->logits = NULL;
    if (s->model->plan.model->n_sequences > 1)
        return dop_transfer_clear(s->model, s->place, diag);
    DOP_RETURN_IF_ERROR(dop_ranks_order(s->model, DOP_ORDER_CLEAR, (uint32_t[]){DOP_CLEAR_STATE}, 1, diag));
    DOP_RETURN_IF_ERROR(dop_replay_clear(r, DOP_CLEAR_STATE, diag, &ticket));
    return dop_replay_wait(r, ticket, diag);
}

dop_status
dop_sequence_keep_rings(dop_sequence *sequence, uint32_t next, dop_diag *diag)
{
    uint32_t rewind = sequence->model->plan.model->rewind, end = sequence->n_written;
    bool lost = rewind != DOP_PLAN_NO_RINGS && end > next && end - next > rewind;
    return lost ? dop_sequence_fall_back(sequence, next, diag) : DOP_OK;
}

/* Returns the longest usable checkpoint of at most the first n tokens; NULL: none. */
static dop_restore_point *
checkpoint_of(dop_sequence *s, uint32_t n)
{
    const uint32_t most = n < s->n_fed ? n : s->n_fed, *keys = dop_prefix_keys(&s->prefix, s->tokens, most);
    return keys ? dop_restore_point_find(s->model, s->prefix.seed, keys, most, most) : NULL;
}

dop_status
dop_sequence_fall_back(dop_sequence *sequence, uint32_t n, dop_diag *diag)
{
    dop_sequence *s = sequence;
    dop_restore_point *c = checkpoint_of(s, n);
    if (!c)
        return dop_sequence_empty(s, diag);
    dop_sequence_note(s);
    dop_status st = dop_restore_point_take(s, c, false, diag);
    if (st == DOP_OK)
        dop_sequence_trim(s);
    else
        s->n_fed = 0;
    return st;
}

dop_status
dop_sequence_go_back(dop_sequence *sequence, uint32_t n, dop_diag *diag)
{
    dop_sequence *s = sequence;
    if (s->n_fed <= n)
        return DOP_OK;
    const uint32_t to = dop_sequence_version(s, n);
    if (s->model->plan.replaces) {
        const dop_restore_point *c = checkpoint_of(s, n);
        if (to == UINT32_MAX || (c && c->n > to))
            return dop_sequence_fall_back(s, n, diag);
    }
    dop_sequence_note(s);
    if (s->model->plan.replaces) {
        const uint32_t by = s->n_kept - to + 1;
        dop_step_move_states(s->model, s->place, -(int32_t)by);
        s->n_fed = to;
        dop_sequence_kept(s, s->n_each >= by ? to - 1 : UINT32_MAX, s->n_each >= by ? s->n_each - by : 0);
    } else {
        s->n_fed = n;
    }
    dop_sequence_trim(s);
    return DOP_OK;
}

dop_status
dop_sequence_settle(dop_sequence *sequence, dop_diag *diag)
{
    dop_speculator_forget(sequence->speculator);
    return sequence->n_fed > sequence->n_tokens ? dop_sequence_go_back(sequence, sequence->n_tokens, diag) : DOP_OK;
}

/* Call before states of a sequence are changed. Fails while a step is open or one with this sequence is in flight. */
static dop_status
be_still(const dop_sequence *s, dop_diag *diag)
{
    DOP_RETURN_IF_ERROR(dop_step_none_has(s->model, s, diag));
    return dop_step_drain(s->model, diag);
}

dop_status
dop_sequence_rewind(dop_sequence *sequence, uint32_t n_tokens, dop_diag *diag)
{
    dop_diag_clear(diag);
    DOP_DRIVE(sequence->model, diag);
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    if (n_tokens > s->n_tokens)
        return DOP_FAIL(diag, DOP_E_INPUT, "the sequence has %u tokens and cannot be rewound to %u", s->n_tokens,
                        n_tokens);
    dop_status st = dop_step_none_has(m, s, diag);
    if (st != DOP_OK)
        return st;
    st = dop_step_drain(m, diag);
    dop_speculator_forget(s->speculator);
    s->n_tokens = n_tokens;
    dop_prefix_rewind(&s->prefix, n_tokens);
    s->logits = NULL;
    if (st == DOP_OK)
        return n_tokens == 0 ? dop_sequence_empty(s, diag) : dop_sequence_go_back(s, n_tokens, diag);
    s->n_fed = s->n_fed < n_tokens ? s->n_fed : n_tokens;
    return st;
}

dop_status
dop_sequence_cut(dop_sequence *sequence, uint32_t first, uint32_t n, dop_diag *diag)
{
    dop_diag_clear(diag);
    DOP_DRIVE(sequence->model, diag);
    dop_sequence *s = sequence;
    if (n > s->n_tokens || first > s->n_tokens - n)
        return DOP_FAIL(diag, DOP_E_INPUT, "the sequence has %u tokens: %u from %u on cannot be cut", s->n_tokens, n,
                        first);
    dop_status st = be_still(s, diag);
    dop_speculator_forget(s->speculator);
    if (st == DOP_OK && n > 0)
        st = first == 0 ? dop_sequence_empty(s, diag) : dop_sequence_go_back(s, first, diag);
    if (st != DOP_OK || n == 0)
        return st;
    memmove(s->tokens + first, s->tokens + first + n, (s->n_tokens - first - n) * sizeof *s->tokens);
    dop_prefix_cut(&s->prefix, first, n);
    s->n_tokens -= n;
    s->logits = NULL;
    return DOP_OK;
}

dop_status
dop_sequence_copy(dop_sequence *to, dop_sequence *from, dop_diag *diag)
{
    dop_diag_clear(diag);
    DOP_DRIVE(to->model, diag);
    if (to->model != from->model)
        return DOP_FAIL(diag, DOP_E_INPUT, "a sequence cannot be copied to one of another model");
    dop_status st = DOP_OK;
    DOP_TRY(be_still(from, diag));
    DOP_TRY(be_still(to, diag));
error:
    if (st != DOP_OK || to == from)
        return st;
    dop_speculator_forget(to->speculator);
    if ((st = dop_sequence_settle(from, diag)) != DOP_OK || (st = dop_sequence_empty(to, diag)) != DOP_OK ||
        (st = dop_prefix_copy(&to->prefix, &from->prefix, diag)) != DOP_OK ||
        (st = dop_adapters_apply(to, from->uses, from->n_uses, diag)) != DOP_OK)
        return st;
    memcpy(to->tokens, from->tokens, from->n_tokens * sizeof *to->tokens);
    to->n_tokens = from->n_tokens;
    if ((st = dop_transfer_copy(to->model, from->place, to->place, from->n_fed, diag)) == DOP_OK) {
        dop_pages_share(&to->model->pages, from->place, to->place, from->n_fed);
        to->n_fed = from->n_fed;
    }
    to->n_written = from->n_written;
    return st;
}

dop_status
dop_sequence_fork(dop_sequence *sequence, dop_diag *diag, dop_sequence **out_sequence)
{
    dop_diag_clear(diag);
    dop_sequence *s = NULL;
    *out_sequence = NULL;
    DOP_DRIVE(sequence->model, diag);
    dop_status st = dop_step_none_open(sequence->model, diag);
    if (st == DOP_OK && (st = dop_sequence_create(sequence->model, diag, &s)) == DOP_OK)
        st = dop_sequence_copy(s, sequence, diag);
    if (st != DOP_OK) {
        dop_sequence_destroy(s);
        return st;
    }
    s->sampler.params = sequence->sampler.params;
    s->pick = sequence->pick;
    s->pick_user = sequence->pick_user;
    *out_sequence = s;
    return DOP_OK;
}

const uint32_t *
dop_sequence_tokens(const dop_sequence *sequence, size_t *out_n)
{
    *out_n = sequence->n_tokens;
    return sequence->tokens;
}
