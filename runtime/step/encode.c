/* The program `encode`, and embeddings from hidden states; see encode.h. */
#include "runtime/step/encode.h"
#include "plan/plan_names.h"
#include "runtime/model/model.h"
#include "runtime/model/model_used.h"
#include "runtime/parts/lead/ranks.h"
#include "runtime/step/program.h"
#include "runtime/step/sequence.h"
#include "runtime/step/step.h"
#include "runtime/step/step_ahead.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const dop_plan_program *
encoder_of(const dop_model *m)
{
    return dop_plan_program_of(&m->plan, DOP_SCHED_ENCODE);
}

static uint32_t
find_largest_encode(const dop_model *m)
{
    uint32_t n;
    const uint32_t *of = dop_used_of(&m->used, DOP_SCHED_ENCODE, DOP_ORDER_BARRIERS, &n);
    return n > 0 ? m->plan.schedules[of[n - 1]].max_rows : 0;
}

static uint32_t
count_encode_rows(const dop_model *m)
{
    const uint32_t rows = find_largest_encode(m);
    return rows < m->plan.model->ctx ? rows : m->plan.model->ctx;
}

static dop_pooling
pooling_of(const dop_plan_program *p)
{
    static const dop_pooling kinds[] = {[DOP_POOL_CLS] = DOP_POOLING_CLS,
                                        [DOP_POOL_MEAN] = DOP_POOLING_MEAN,
                                        [DOP_POOL_LAST] = DOP_POOLING_LAST,
                                        [DOP_POOL_END] = DOP_POOLING_END};
    return kinds[p->pool];
}

static bool
has_image_program(const dop_model *m)
{
    return dop_plan_program_of(&m->plan, DOP_SCHED_IMAGE) != NULL;
}

bool
dop_model_program(const dop_model *model, uint32_t number, dop_program_facts *out_facts)
{
    const dop_plan_program *p = encoder_of(model);
    if (!p && number == 0 && has_image_program(model)) {
        dop_image_facts(model, out_facts);
        return true;
    }
    if (!p || number > 0)
        return false;
    *out_facts = (dop_program_facts){.name = dop_plan_string(&model->plan, p->name),
                                     .width = p->width,
                                     .max_rows = count_encode_rows(model),
                                     .n_types = p->n_types,
                                     .classes = p->classes,
                                     .pooling = pooling_of(p),
                                     .normalized = p->normalized};
    return true;
}

/* Arguments of a call. The texts follow one another in `ids`. */
typedef struct job {
    dop_model *m;
    const dop_plan_program *p;
    const uint32_t *ids, *types; /* types NULL: all 0 */
    const uint32_t *lengths;
    size_t n_texts;
    dop_pooling pooling;
    float *rows, *vectors; /* NULL: not requested */
    double *sums;          /* [width] scratch for mean pooling */
} job;

/* Returns the row of the end-of-text token: the one with end_id, or the largest id if it is not set (as
 * CLIPTextTransformer does). */
static uint32_t
find_end_row(const dop_plan_program *p, const uint32_t *ids, uint32_t n)
{
    uint32_t at = 0;
    if (p->pool != DOP_POOL_END)
        return n - 1;
    for (uint32_t r = 1; r < n; r++)
        if (p->end_id == UINT32_MAX ? ids[r] > ids[at] : ids[r] == p->end_id && ids[at] != p->end_id)
            at = r;
    return at;
}

/* Computes the vector of a text from its ids [n] and rows [n, width]. */
static dop_status
pool_text_rows(const job *j, const uint32_t *ids, const float *rows, uint32_t n, dop_diag *diag, float *out)
{
    const uint32_t width = j->p->width;
    if (j->pooling == DOP_POOLING_MEAN) {
        memset(j->sums, 0, width * sizeof *j->sums);
        for (uint32_t r = 0; r < n; r++)
            for (uint32_t i = 0; i < width; i++)
                j->sums[i] += (double)rows[(size_t)r * width + i];
        for (uint32_t i = 0; i < width; i++)
            out[i] = (float)(j->sums[i] / n);
    } else {
        const uint32_t at = j->pooling == DOP_POOLING_CLS   ? 0
                            : j->pooling == DOP_POOLING_END ? find_end_row(j->p, ids, n)
                                                            : n - 1;
        memcpy(out, rows + (size_t)at * width, width * sizeof *out);
    }
    return dop_vector_normalize(j->m, out, width, j->p->normalized, diag);
}

/* Writes the rows of texts first .. end - 1 and runs them in one step. */
static dop_status
run_texts(const job *j, size_t first, size_t end, size_t at, uint32_t n_rows, dop_diag *diag)
{
    dop_model *m = j->m;
    const uint32_t schedule = dop_model_schedule_for(m, DOP_SCHED_ENCODE, n_rows), width = j->p->width;
    uint32_t row = 0;
    for (size_t i = first; i < end; i++)
        for (uint32_t k = 0; k < j->lengths[i]; k++, row++)
            dop_replay_write_row(&m->replay, row,
                                 &(dop_row){.token = j->ids[at + row],
                                            .position = k,
                                            .sequence = j->lengths[i] - 1,
                                            .flags = j->types ? j->types[at + row] : 0});
    DOP_RETURN_IF_ERROR(dop_program_step(m, schedule, n_rows, diag));
    const float *rows = dop_model_logits(m, schedule);
    const uint32_t *ids = j->ids + at;
    if (j->rows)
        memcpy(j->rows + at * width, rows, (size_t)n_rows * width * sizeof *rows);
    for (size_t i = first; i < end && j->vectors; i++) {
        DOP_RETURN_IF_ERROR(pool_text_rows(j, ids, rows, j->lengths[i], diag, j->vectors + i * width));
        ids += j->lengths[i];
        rows += (size_t)j->lengths[i] * width;
    }
    return DOP_OK;
}

static dop_status
check_texts(const job *j, size_t n_ids, dop_diag *diag)
{
    const dop_model *m = j->m;
    const uint32_t most = count_encode_rows(m), vocab = m->plan.model->vocab,
                   types = j->p->n_types > 1 ? j->p->n_types : 1;
    size_t sum = 0;
    for (size_t i = 0; i < j->n_texts; i++) {
        if (j->lengths[i] == 0)
            return DOP_FAIL(diag, DOP_E_INPUT, "text %zu has no tokens", i);
        if (j->lengths[i] > most)
            return DOP_FAIL(
                diag, DOP_E_INPUT,
                "text %zu has %u tokens, and this plan encodes at most %u: shorten it, or compile with a larger `ctx`",
                i, j->lengths[i], most);
        sum += j->lengths[i];
    }
    if (sum != n_ids)
        return DOP_FAIL(diag, DOP_E_INPUT, "the texts have %zu tokens together, and %zu are given", sum, n_ids);
    for (size_t i = 0; i < n_ids; i++) {
        if (j->ids[i] >= vocab)
            return DOP_FAIL(diag, DOP_E_INPUT, "token id %u is outside the vocabulary of %u", j->ids[i], vocab);
        if (j->types && j->types[i] >= types)
            return DOP_FAIL(diag, DOP_E_INPUT, "type %u of row %zu is none of the %u that there are", j->types[i], i,
                            types);
    }
    return DOP_OK;
}

static dop_status
run_encode_job(job *j, size_t n_ids, dop_diag *diag)
{
    dop_model *m = j->m;
    const uint32_t most = find_largest_encode(m);
    dop_status st = DOP_OK;
    DOP_TRY(check_texts(j, n_ids, diag));
    DOP_TRY(dop_step_none_open(m, diag));
    DOP_TRY(dop_step_drain(m, diag));
    if (j->pooling == DOP_POOLING_MEAN && !(j->sums = calloc(j->p->width, sizeof *j->sums)))
        DOP_TRY(DOP_NO_MEMORY(diag));
    size_t at = 0;
    for (size_t first = 0, end; first < j->n_texts; first = end) {
        uint32_t n_rows = 0;
        for (end = first; end < j->n_texts && n_rows + j->lengths[end] <= most; end++)
            n_rows += j->lengths[end];
        DOP_TRY(run_texts(j, first, end, at, n_rows, diag));
        at += n_rows;
    }
error:
    free(j->sums);
    return st;
}

static dop_status
check_value_names(const dop_value *values, size_t n, const char *const *known, const char *what, dop_diag *diag)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (known[k] && strcmp(known[k], values[i].name) != 0)
            k++;
        if (!known[k])
            return DOP_FAIL(diag, DOP_E_INPUT, "the program encode has no %s \"%.40s\"", what, values[i].name);
    }
    return DOP_OK;
}

dop_status
dop_program_run(dop_model *model, const char *name, const dop_value *inputs, size_t n_inputs, const dop_value *outputs,
                size_t n_outputs, dop_diag *diag)
{
    static const char *const in[] = {"tokens", "lengths", "types", NULL}, *const out[] = {"rows", "vectors", NULL};
    dop_diag_clear(diag);
    DOP_DRIVE(model, diag);
    const dop_plan_program *p = encoder_of(model);
    if (dop_draws(model, name))
        return dop_draw_run(model, name, inputs, n_inputs, outputs, n_outputs, diag);
    if (has_image_program(model) && strcmp(name, "image") == 0)
        return dop_image_run(model, inputs, n_inputs, outputs, n_outputs, diag);
    if (!p || strcmp(name, dop_plan_string(&model->plan, p->name)) != 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, model->plan.path, "the plan has no program \"%.40s\"%s", name,
                           p                          ? "; it has encode"
                           : has_image_program(model) ? "; it has image"
                                                      : "");
    dop_status st = check_value_names(inputs, n_inputs, in, "input", diag);
    if (st == DOP_OK)
        st = check_value_names(outputs, n_outputs, out, "output", diag);
    if (st != DOP_OK)
        return st;
    const dop_value *tokens = dop_value_find(inputs, n_inputs, "tokens"),
                    *lengths = dop_value_find(inputs, n_inputs, "lengths"),
                    *types = dop_value_find(inputs, n_inputs, "types"),
                    *rows = dop_value_find(outputs, n_outputs, "rows"),
                    *vectors = dop_value_find(outputs, n_outputs, "vectors");
    if (!tokens)
        return DOP_FAIL(diag, DOP_E_INPUT, "the program encode needs the input \"tokens\"");
    const uint32_t one = (uint32_t)tokens->n;
    job j = {.m = model,
             .p = p,
             .ids = tokens->data,
             .types = types ? types->data : NULL,
             .lengths = lengths ? lengths->data : &one,
             .n_texts = lengths ? lengths->n : 1,
             .pooling = pooling_of(p),
             .rows = rows ? rows->data : NULL,
             .vectors = vectors ? vectors->data : NULL};
    if ((st = dop_value_check(types, tokens->n, diag)) != DOP_OK ||
        (st = dop_value_check(rows, tokens->n * p->width, diag)) != DOP_OK ||
        (st = dop_value_check(vectors, j.n_texts * p->width, diag)) != DOP_OK)
        return st;
    return run_encode_job(&j, tokens->n, diag);
}

/* Embeds all texts with the program, as one list. */
static dop_status
embed_by_program(dop_model *m, const dop_token_text *texts, size_t n, dop_pooling pooling, dop_diag *diag, float *out)
{
    const dop_plan_program *p = encoder_of(m);
    size_t n_ids = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        n_ids += texts[i].n;
    uint32_t *ids = calloc(2 * n_ids + n + 1, sizeof *ids), *types = ids + n_ids, *lengths = types + n_ids;
    if (!ids)
        return DOP_NO_MEMORY(diag);
    for (size_t i = 0; i < n; at += texts[i++].n) {
        lengths[i] = texts[i].n;
        if (texts[i].n)
            memcpy(ids + at, texts[i].ids, texts[i].n * sizeof *ids);
        for (uint32_t k = texts[i].second; k < texts[i].n && p->n_types > 1; k++)
            types[at + k] = 1;
    }
    job j = {.m = m,
             .p = p,
             .ids = ids,
             .types = types,
             .lengths = lengths,
             .n_texts = n,
             .pooling = pooling == DOP_POOLING_MODEL || p->classes ? pooling_of(p) : pooling,
             .vectors = out};
    dop_status st = run_encode_job(&j, n_ids, diag);
    free(ids);
    return st;
}

static dop_status
unknown_pooling(dop_pooling pooling, dop_diag *diag)
{
    return DOP_FAIL(diag, DOP_E_USAGE, "there is no pooling %d", (int)pooling);
}

dop_status
dop_model_embed(dop_model *model, const dop_token_text *texts, size_t n, dop_pooling pooling, dop_diag *diag,
                float *out_vectors)
{
    dop_diag_clear(diag);
    DOP_DRIVE(model, diag);
    dop_sequence *s = NULL;
    const uint32_t size = dop_model_embedding_size(model);
    if ((unsigned)pooling > DOP_POOLING_END)
        return unknown_pooling(pooling, diag);
    if (encoder_of(model))
        return embed_by_program(model, texts, n, pooling, diag, out_vectors);
    dop_status st = DOP_OK;
    DOP_TRY(dop_sequence_create(model, diag, &s));
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            DOP_TRY(dop_sequence_rewind(s, 0, diag));
        DOP_TRY(dop_sequence_embed(s, texts[i].ids, texts[i].n, pooling, diag, out_vectors + i * size));
    }
error:
    dop_sequence_destroy(s);
    return st;
}

float
dop_relevance(const float *scores, uint32_t n)
{
    return n == 2 ? (float)(1 / (1 + exp((double)scores[0] - (double)scores[1]))) : scores[0];
}

uint32_t
dop_model_embedding_size(const dop_model *model)
{
    const dop_plan_program *p = dop_plan_program_of(&model->plan, DOP_SCHED_ENCODE);
    return p                                                                 ? p->width
           : dop_model_schedule_for(model, DOP_SCHED_EMBED, 1) != UINT32_MAX ? model->plan.model->hidden
                                                                             : 0;
}

/* Sums are in double; a zero vector stays as it is. */
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
            "as; compile with `act` f32 and `kv` f32, or look at the weights");
    double by = squares > 0 && scale ? 1 / sqrt(squares) : 1;
    for (uint32_t i = 0; i < n; i++)
        v[i] = (float)((double)v[i] * by);
    return DOP_OK;
}

/* Runs the next unfed tokens of the sequence and returns their hidden states, rows [*out_take, hidden]. */
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

/* Feeds all tokens but the last `rest` with prompt schedules, which compute only states. */
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
    if ((unsigned)pooling > DOP_POOLING_END)
        return unknown_pooling(pooling, diag);
    uint32_t schedule = dop_model_schedule_for(m, DOP_SCHED_EMBED, 1), hidden = m->plan.model->hidden, take = 0;
    const float *rows = NULL;
    if (schedule == UINT32_MAX)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path,
                           "the plan gives no hidden states: compile it with `embed` (and open it without no_scoring)");
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
