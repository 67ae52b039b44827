/* Masks of allowed token ids; see sequence_mask.h. */
#include "runtime/step/sequence_mask.h"
#include "plan/plan_names.h"
#include "runtime/model/model.h"
#include "runtime/step/sequence_states.h"
#include "runtime/step/step.h"
#include "runtime/step/step_ahead.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t
count_mask_words(const dop_sequence *s)
{
    return dop_div_up_u32(s->model->plan.model->vocab, 32);
}

static dop_status
check_mask(const dop_sequence *s, const uint32_t *mask, dop_diag *diag)
{
    const uint32_t n = count_mask_words(s), rest = s->model->plan.model->vocab % 32;
    for (uint32_t w = 0; w < n; w++)
        if (mask[w] & (w + 1 == n && rest ? (1u << rest) - 1 : UINT32_MAX))
            return DOP_OK;
    return DOP_FAIL(diag, DOP_E_INPUT, "the mask allows no token");
}

dop_status
dop_sequence_set_mask(dop_sequence *sequence, const uint32_t *mask, dop_diag *diag)
{
    dop_diag_clear(diag);
    DOP_DRIVE(sequence->model, diag);
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    const size_t size = count_mask_words(s) * sizeof *mask;
    if (!mask ? !s->masked : s->masked && memcmp(s->mask, mask, size) == 0)
        return DOP_OK;
    dop_status st = dop_step_none_has(m, s, diag);
    if (st == DOP_OK && mask)
        st = check_mask(s, mask, diag);
    if (st == DOP_OK && (dop_step_runs(m, s) || s->speculator)) /* picks in flight used the old mask */
        st = dop_step_drain(m, diag);
    if (st == DOP_OK && s->speculator)
        st = dop_sequence_settle(s, diag);
    if (st == DOP_OK && mask && !s->mask) {
        s->mask = calloc(1, size);
        s->masked_logits = malloc(m->plan.model->vocab * sizeof *s->masked_logits);
        if (!s->mask || !s->masked_logits)
            st = DOP_NO_MEMORY(diag);
    }
    if (st != DOP_OK)
        return st;
    if (mask && memcmp(s->mask, mask, size) != 0) {
        uint8_t *step = dop_memory_host(&m->memory, m->plan.step_slot);
        memcpy(step + dop_plan_mask_offset(&m->plan, s->place), mask, size);
        memcpy(s->mask, mask, size);
    }
    s->masked = mask != NULL;
    return DOP_OK;
}

const float *
dop_sequence_masked(dop_sequence *sequence, const float *logits)
{
    dop_sequence *s = sequence;
    const uint32_t vocab = s->model->plan.model->vocab;
    if (!s->masked)
        return logits;
    for (uint32_t i = 0; i < vocab; i++)
        s->masked_logits[i] = s->mask[i / 32] >> i % 32 & 1 ? logits[i] : -INFINITY;
    return s->masked_logits;
}

uint32_t
dop_sequence_largest(const dop_sequence *sequence, const float *logits)
{
    const uint32_t vocab = sequence->model->plan.model->vocab;
    uint32_t best = dop_logits_largest(logits, vocab);
    if (!sequence->masked || best == UINT32_MAX)
        return best;
    best = UINT32_MAX;
    for (uint32_t w = 0; w < count_mask_words(sequence); w++)
        for (uint32_t bits = sequence->mask[w]; bits != 0; bits &= bits - 1) {
            const uint32_t id = w * 32 + (uint32_t)__builtin_ctz(bits);
            if (id < vocab && (best == UINT32_MAX || logits[id] > logits[best]))
                best = id;
        }
    return best;
}
