/* Embeddings: hidden states of a sequence's tokens, pooled and normalized. */
#include "runtime/model/model.h"

#include <math.h>
#include <string.h>

uint32_t
dop_model_embedding_size(const dop_model *model)
{
    const dop_plan_program *p = dop_plan_program_of(&model->plan, DOP_SCHED_ENCODE);
    return p                                                                 ? p->width
           : dop_model_schedule_for(model, DOP_SCHED_EMBED, 1) != UINT32_MAX ? model->plan.model->hidden
                                                                             : 0;
}

/* Euclidean length 1, as vectors are compared.  Sums are in double; a vector of zeros stays as it is. */
dop_status
dop_vector_normalize(const dop_model *model, float *v, uint32_t n, bool scale, dop_diag *diag)
{
    double squares = 0;
    for (uint32_t i = 0; i < n; i++)
        squares += (double)v[i] * (double)v[i];
    if (!isfinite(squares))
        return DOP_FAIL_IN(
            diag, DOP_E_INPUT, model->plan.path,
            "the hidden states are not finite: a weight is not, or values grow past what they are stored "
            "as; compile with --act f32 --kv f32, or look at the weights");
    double by = squares > 0 && scale ? 1 / sqrt(squares) : 1;
    for (uint32_t i = 0; i < n; i++)
        v[i] = (float)((double)v[i] * by);
    return DOP_OK;
}

/* The next tokens of the sequence that are not in its states, and their hidden states: rows [*out_take, hidden]. */
static dop_status
run_piece(dop_sequence *s, uint32_t schedule, dop_diag *diag, uint32_t *out_take, const float **out_rows)
{
    dop_model *m = s->model;
    uint32_t most = m->plan.schedules[schedule].max_rows, left = s->n_tokens - s->n_fed, ran = schedule;
    most = m->max_chunk && m->max_chunk < most ? m->max_chunk : most;
    *out_take = left < most ? left : most;
    dop_status st = dop_step_finish(s, *out_take, s->n_fed, DOP_FORM_READ, &ran, diag);
    if (st != DOP_OK)
        return st;
    *out_rows = dop_model_logits(m, schedule);
    return DOP_OK;
}

/* Tokens before the last of the sequence are fed with schedules for prompts, which compute only states. */
static dop_status
feed_all_but(dop_sequence *s, uint32_t rest, dop_diag *diag)
{
    uint32_t n = s->n_tokens;
    s->n_tokens = n > rest ? n - rest : 0;
    s->n_tokens = s->n_tokens > s->n_fed ? s->n_tokens : s->n_fed;
    dop_status st = dop_sequence_catch_up(s, diag);
    s->n_tokens = n;
    return st;
}

dop_status
dop_sequence_embed(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_pooling pooling, dop_diag *diag,
                   float *out_vector)
{
    dop_diag_clear(diag);
    DOP_DRIVE(sequence->model, diag);
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    uint32_t schedule = dop_model_schedule_for(m, DOP_SCHED_EMBED, 1), hidden = m->plan.model->hidden, take = 0;
    const float *rows = NULL;
    if (schedule == UINT32_MAX)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path,
                           "the plan gives no hidden states: compile it with --embed (and open it without no_scoring)");
    if (n == 0)
        return DOP_FAIL(diag, DOP_E_INPUT, "nothing to embed: there are no tokens");
    dop_status st = dop_sequence_make_room(s, ids, n, diag);
    if (st == DOP_OK)
        st = dop_sequence_catch_up(s, diag);
    if (st != DOP_OK)
        return st;
    const uint32_t start = s->n_tokens;
    memcpy(s->tokens + s->n_tokens, ids, n * sizeof *ids);
    s->n_tokens += (uint32_t)n;
    s->logits = NULL;
    memset(out_vector, 0, hidden * sizeof *out_vector);
    const bool last = pooling != DOP_POOLING_MEAN && pooling != DOP_POOLING_CLS;
    if (last)
        st = feed_all_but(s, m->plan.schedules[schedule].max_rows, diag);
    while (st == DOP_OK && s->n_fed < s->n_tokens) {
        if ((st = run_piece(s, schedule, diag, &take, &rows)) != DOP_OK)
            return st;
        for (uint32_t r = 0; r < take && pooling == DOP_POOLING_MEAN; r++)
            for (uint32_t i = 0; i < hidden; i++)
                out_vector[i] += rows[(size_t)r * hidden + i] / (float)n;
        if (pooling == DOP_POOLING_CLS && s->n_fed - take == start)
            memcpy(out_vector, rows, hidden * sizeof *out_vector);
    }
    if (st == DOP_OK && last)
        memcpy(out_vector, rows + (size_t)(take - 1) * hidden, hidden * sizeof *out_vector);
    return st == DOP_OK ? dop_vector_normalize(m, out_vector, hidden, true, diag) : st;
}
