/* Rows of steps that are no tokens: features of pictures, under ids of their own behind the vocabulary. */
#include "runtime/model/part.h"

#include <stdlib.h>
#include <string.h>

/* Ids of features stay below those that keys of prefix reuse have for rows of pictures (runtime/model/prefix.h). */
static const uint32_t ids_end = 0xc0000000u;

static const dop_features *
find(const dop_model *m, uint32_t id)
{
    const dop_features *f = id >= m->plan.model->vocab ? m->pictures.list : NULL;
    while (f && (id < f->first || id - f->first >= f->n))
        f = f->next;
    return f;
}

bool
dop_features_has(const dop_model *model, uint32_t id)
{
    return find(model, id) != NULL;
}

uint32_t
dop_model_features_depth(const dop_model *model)
{
    uint32_t n = 0;
    const uint32_t decode = model->orders.decode[DOP_ORDER_BARRIERS];
    for (uint32_t i = 0; i < model->plan.n_crossings && dop_plan_steps(&model->plan); i++) {
        const char *name = dop_plan_string(&model->plan, model->plan.crossings[i].name);
        n += model->plan.crossings[i].schedule == decode &&
             (strcmp(name, "features") == 0 || strncmp(name, "deep", 4) == 0);
    }
    return n;
}

/* Does any schedule receive the value? */
static bool
receives(const dop_model *m, const char *name)
{
    for (uint32_t i = 0; i < m->plan.n_crossings; i++)
        if (strcmp(dop_plan_string(&m->plan, m->plan.crossings[i].name), name) == 0)
            return true;
    return false;
}

dop_status
dop_features_add(dop_model *model, const float *rows, uint32_t n, uint32_t height, uint32_t width, dop_diag *diag,
                 uint32_t *out_first)
{
    dop_diag_clear(diag);
    dop_model *m = model;
    const uint32_t depth = dop_model_features_depth(m), vocab = m->plan.model->vocab;
    const uint64_t values = (uint64_t)depth * n * m->plan.model->hidden;
    *out_first = 0;
    if (depth == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path, "the plan takes no rows of features");
    if (n == 0 || (height && (uint64_t)height * width != n) || height >= DOP_STEP_EDGE || width >= DOP_STEP_EDGE)
        return DOP_FAIL(diag, DOP_E_INPUT, "%u features are not %u x %u", n, height, width);
    if (!height && receives(m, "picture_turns"))
        return DOP_FAIL(diag, DOP_E_INPUT, "features of this model have a place: rows and columns are needed");
    if (n > ids_end - vocab - m->pictures.n)
        return DOP_FAIL(diag, DOP_E_FULL, "the model has had too many pictures since it was opened");
    dop_features *f = values < SIZE_MAX / sizeof(float) ? calloc(1, sizeof *f) : NULL;
    if (f)
        f->rows = malloc((size_t)values * sizeof *f->rows);
    if (!f || !f->rows) {
        free(f);
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    memcpy(f->rows, rows, (size_t)values * sizeof *f->rows);
    f->first = vocab + m->pictures.n;
    f->n = n;
    f->height = height;
    f->width = width;
    f->together = receives(m, "picture_lasts");
    f->next = m->pictures.list;
    m->pictures.list = f;
    m->pictures.n += n;
    *out_first = f->first;
    return DOP_OK;
}

void
dop_features_drop(dop_model *model, uint32_t first)
{
    for (dop_features **at = &model->pictures.list; *at; at = &(*at)->next)
        if ((*at)->first == first) {
            dop_features *f = *at;
            *at = f->next;
            free(f->rows);
            free(f);
            return;
        }
}

uint32_t
dop_features_uncut(const dop_model *model, const uint32_t *tokens, uint32_t pos, uint32_t take, uint32_t end)
{
    const uint32_t next = pos + take;
    if (!model->pictures.list || next >= end)
        return take;
    const dop_features *f = find(model, tokens[next]);
    const uint32_t row = f ? tokens[next] - f->first : 0;
    if (!f || !f->together || row == 0 || tokens[next - 1] != tokens[next] - 1)
        return take;
    return row < take ? take - row : 0;
}

/* --- what a step receives -------------------------------------------------------------------------------------------- */

/* Goes through a sequence's tokens and has the place of the last one. */
typedef struct walk {
    const dop_model *m;
    const dop_features *f; /* of the token; NULL: it is text */
    uint32_t last;         /* the token */
    uint32_t time;         /* the row's position in time */
    uint32_t next;         /* that of text behind it */
    uint32_t row;          /* the token's number in its features */
} walk;

static void
step(walk *w, uint32_t token)
{
    const uint32_t before = w->last;
    w->last = token;
    if (token < w->m->plan.model->vocab) {
        w->f = NULL;
        w->time = w->next++;
        return;
    }
    if (!w->f || token != before + 1 || token - w->f->first >= w->f->n) { /* another picture begins */
        w->f = find(w->m, token);
        w->time = w->next;
        if (w->f)
            w->next += w->f->height > w->f->width ? w->f->height : w->f->width;
    }
    w->row = w->f ? token - w->f->first : 0;
}

static dop_part_value
value_of(const dop_part_value *in, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(in[i].name, name) == 0)
            return in[i];
    return (dop_part_value){0};
}

typedef struct received {
    uint32_t *shift, *turns, *lasts; /* by row of the step; NULL: not received */
    float *rows[DOP_PART_MAX_VALUES];
    uint32_t n_rows; /* features, then those for single layers */
    dop_replay *replay;
} received;

static received
received_by(dop_model *m, uint32_t schedule)
{
    dop_part_value in[DOP_PART_MAX_VALUES];
    const uint32_t n = dop_part_inputs(m, schedule, in);
    received r = {(uint32_t *)(void *)value_of(in, n, "picture_shift").bytes,
                  (uint32_t *)(void *)value_of(in, n, "picture_turns").bytes,
                  (uint32_t *)(void *)value_of(in, n, "picture_lasts").bytes,
                  {NULL},
                  0,
                  &m->replay};
    char name[24] = "features";
    for (uint32_t i = 0; i < DOP_PART_MAX_VALUES; i++) {
        r.rows[i] = (float *)(void *)value_of(in, n, name).bytes;
        if (!r.rows[i])
            break;
        r.n_rows = i + 1;
        snprintf(name, sizeof name, "deep%u", i);
    }
    return r;
}

/* Writes a number that the step receives.  What is in flight reads this memory too, in another order where it is a step of another size:
 * it has to end before anything changes. */
static dop_status
put(const received *r, const walk *w, uint32_t *to, uint32_t value, dop_diag *diag)
{
    const dop_in_flight *flight = &w->m->flight;
    dop_status st = DOP_OK;
    if (*to == value)
        return DOP_OK;
    if (flight->n)
        st = dop_replay_wait(r->replay, flight->steps[flight->n - 1].ticket, diag);
    *to = st == DOP_OK ? value : *to;
    return st;
}

static dop_status
write_row(const received *r, const walk *w, uint32_t at, uint32_t pos, uint32_t end, dop_diag *diag)
{
    const dop_features *f = w->f;
    const uint32_t hidden = w->m->plan.model->hidden, left = f ? f->n - 1 - w->row : 0;
    const uint32_t turn = f && f->width ? w->row / f->width * DOP_STEP_EDGE + w->row % f->width : 0;
    dop_status st = DOP_OK;
    if (!f && w->last >= w->m->plan.model->vocab)
        return DOP_FAIL(diag, DOP_E_INPUT, "the features of a picture are gone, and its rows are needed again");
    if (r->lasts && left >= end - pos)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "rows of a picture see one another, and a step has %u of %u: compile with larger --chunks",
                        end - pos + w->row, f->n);
    if (r->shift)
        st = put(r, w, &r->shift[at], w->time - pos, diag);
    if (st == DOP_OK && r->turns)
        st = put(r, w, &r->turns[at], turn, diag);
    if (st == DOP_OK && r->lasts)
        st = put(r, w, &r->lasts[at], f ? pos + left : 0, diag);
    for (uint32_t i = 0; f && st == DOP_OK && i < r->n_rows; i++)
        memcpy(r->rows[i] + (size_t)at * hidden, f->rows + ((size_t)i * f->n + w->row) * hidden,
               hidden * sizeof(float));
    return st;
}

dop_status
dop_features_write(dop_model *model, uint32_t schedule, const dop_sequence_rows *rows, uint32_t n, bool known,
                   dop_diag *diag)
{
    received r = received_by(model, schedule);
    dop_status st = DOP_OK;
    uint32_t at = 0;
    if (r.n_rows == 0)
        return DOP_OK;
    for (uint32_t k = 0; k < n && st == DOP_OK; k++) {
        const dop_sequence *s = rows[k].sequence;
        const uint32_t pos = rows[k].pos, end = pos + rows[k].n;
        walk w = {.m = model, .next = r.shift ? 0 : pos};
        for (uint32_t p = r.shift ? 0 : pos; p < end && st == DOP_OK; p++) {
            const uint32_t token = known || p < s->n_tokens ? s->tokens[p] : 0;
            step(&w, token);
            if (p >= pos)
                st = write_row(&r, &w, at++, p, end, diag);
        }
    }
    return st;
}

uint32_t
dop_features_whole(const dop_model *model, const uint32_t *tokens, uint32_t pos, uint32_t n, uint32_t end,
                   uint32_t most)
{
    const uint32_t whole = dop_features_uncut(model, tokens, pos, n, end);
    if (whole > 0 || n == 0)
        return whole;
    for (uint32_t more = n + 1; more <= most && pos + more <= end; more++)
        if (dop_features_uncut(model, tokens, pos, more, end) == more)
            return more;
    return n;
}
