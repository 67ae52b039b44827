/* Rows of steps that are image features instead of tokens; see features.h. */
#include "runtime/step/features.h"
#include "base/parallel.h"
#include "plan/plan_names.h"
#include "runtime/model/part.h"

#include <stdlib.h>
#include <string.h>

/* Feature ids stay below the keys of image rows in the prefix cache (runtime/model/prefix.h). */
static const uint32_t ids_end = 0xc0000000u;

static const dop_features *
find_features(const dop_model *m, uint32_t id)
{
    const dop_features *f = id >= m->plan.model->vocab ? m->pictures.list : NULL;
    while (f && (id < f->first || id - f->first >= f->n))
        f = f->next;
    return f;
}

bool
dop_features_has(const dop_model *model, uint32_t id)
{
    return find_features(model, id) != NULL;
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

/* True if any schedule has this input. */
static bool
receives_value(const dop_model *m, const char *name)
{
    for (uint32_t i = 0; i < m->plan.n_crossings; i++)
        if (strcmp(dop_plan_string(&m->plan, m->plan.crossings[i].name), name) == 0)
            return true;
    return false;
}

/* Checks that the plan accepts n features, as an image of height x width features. */
static dop_status
check_feature_grid(const dop_model *m, uint32_t n, uint32_t height, uint32_t width, dop_diag *diag)
{
    if (dop_model_features_depth(m) == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path, "the plan takes no rows of features");
    if (n == 0 || (height && (uint64_t)height * width != n) || height >= DOP_STEP_EDGE || width >= DOP_STEP_EDGE)
        return DOP_FAIL(diag, DOP_E_INPUT, "%u features are not %u x %u", n, height, width);
    if (!height && receives_value(m, "picture_turns"))
        return DOP_FAIL(diag, DOP_E_INPUT, "features of this model have a place: rows and columns are needed");
    if (n > ids_end - m->plan.model->vocab - m->pictures.n)
        return DOP_FAIL(diag, DOP_E_FULL, "the model has had too many pictures since it was opened");
    return DOP_OK;
}

dop_status
dop_features_take(dop_model *m, float **io_rows, uint32_t n, uint32_t height, uint32_t width, dop_diag *diag,
                  uint32_t *out_first)
{
    dop_status st = check_feature_grid(m, n, height, width, diag);
    dop_features *f = st == DOP_OK ? calloc(1, sizeof *f) : NULL;
    *out_first = 0;
    if (!f)
        return st == DOP_OK ? DOP_NO_MEMORY(diag) : st;
    *f = (dop_features){.next = m->pictures.list,
                        .first = m->plan.model->vocab + m->pictures.n,
                        .n = n,
                        .height = height,
                        .width = width,
                        .together = receives_value(m, "picture_lasts"),
                        .rows = *io_rows};
    *io_rows = NULL;
    m->pictures.list = f;
    m->pictures.n += n;
    *out_first = f->first;
    return DOP_OK;
}

dop_status
dop_features_add(dop_model *model, const float *rows, uint32_t n, uint32_t height, uint32_t width, dop_diag *diag,
                 uint32_t *out_first)
{
    dop_diag_clear(diag);
    *out_first = 0;
    const uint64_t values = (uint64_t)dop_model_features_depth(model) * n * model->plan.model->hidden;
    dop_status st = check_feature_grid(model, n, height, width, diag);
    if (st != DOP_OK)
        return st;
    float *own = values < SIZE_MAX / sizeof *own ? malloc((size_t)values * sizeof *own) : NULL;
    if (!own)
        return DOP_NO_MEMORY(diag);
    memcpy(own, rows, (size_t)values * sizeof *own);
    st = dop_features_take(model, &own, n, height, width, diag, out_first);
    free(own);
    return st;
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
    const dop_features *f = find_features(model, tokens[next]);
    const uint32_t row = f ? tokens[next] - f->first : 0;
    if (!f || !f->together || row == 0 || tokens[next - 1] != tokens[next] - 1)
        return take;
    return row < take ? take - row : 0;
}

/* --- inputs of a step
 * ------------------------------------------------------------------------------------------------ */

/* Iterator over a sequence's tokens that tracks the multi-axis position of the current one. */
typedef struct walk {
    const dop_model *m;
    const dop_features *f; /* feature object of the token; NULL: text */
    uint32_t last;         /* current token */
    uint32_t time;         /* time coordinate of the row */
    uint32_t next;         /* time coordinate of the next text token or image */
    uint32_t row;          /* row of the token in its features */
} walk;

static void
step_token_walk(walk *w, uint32_t token)
{
    const uint32_t before = w->last;
    w->last = token;
    if (token < w->m->plan.model->vocab) {
        w->f = NULL;
        w->time = w->next++;
        return;
    }
    if (!w->f || token != before + 1 || token - w->f->first >= w->f->n) { /* another image begins */
        w->f = find_features(w->m, token);
        w->time = w->next;
        if (w->f)
            w->next += w->f->height > w->f->width ? w->f->height : w->f->width;
    }
    w->row = w->f ? token - w->f->first : 0;
}

static dop_part_value
find_part_value(const dop_part_value *in, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(in[i].name, name) == 0)
            return in[i];
    return (dop_part_value){0};
}

typedef struct received {
    uint32_t *shift, *turns, *lasts; /* by row of the step; NULL: not an input */
    float *rows[DOP_PART_MAX_VALUES];
    uint32_t n_rows; /* number of entries in rows[]: features, then features for single layers */
    dop_replay *replay;
    /* Pending copy: `run` consecutive rows of one image, which end before feature row `row` and before step row
     * `at`. */
    const dop_features *of;
    uint32_t run, row, at;
    uint32_t first, end; /* range of step rows that covers all feature rows */
} received;

static received
received_by(dop_model *m, uint32_t schedule)
{
    dop_part_value in[DOP_PART_MAX_VALUES];
    const uint32_t n = dop_part_inputs(m, schedule, in);
    received r = {.shift = (uint32_t *)(void *)find_part_value(in, n, "picture_shift").bytes,
                  .turns = (uint32_t *)(void *)find_part_value(in, n, "picture_turns").bytes,
                  .lasts = (uint32_t *)(void *)find_part_value(in, n, "picture_lasts").bytes,
                  .replay = &m->replay};
    char name[24] = "features";
    for (uint32_t i = 0; i < DOP_PART_MAX_VALUES; i++) {
        r.rows[i] = (float *)(void *)find_part_value(in, n, name).bytes;
        if (!r.rows[i])
            break;
        r.n_rows = i + 1;
        snprintf(name, sizeof name, "deep%u", i);
    }
    return r;
}

/* Writes a number into an input of the step. In-flight steps read the same memory, so the function waits for them
 * before it changes a value. */
static dop_status
put_step_number(const received *r, const walk *w, uint32_t *to, uint32_t value, dop_diag *diag)
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

/* Copies the pending rows to the step's inputs. */
static void
copy_run(received *r, const walk *w)
{
    const size_t hidden = w->m->plan.model->hidden, n = r->run;
    for (uint32_t i = 0; i < r->n_rows && n > 0; i++)
        dop_parallel_copy(r->rows[i] + (r->at - n) * hidden, r->of->rows + ((size_t)i * r->of->n + r->row - n) * hidden,
                          n * hidden * sizeof(float));
    r->run = 0;
}

/* Adds a feature row, which is row `at` of the step, to the pending copy. */
static void
add_feature_row(received *r, const walk *w, uint32_t at)
{
    if (r->run > 0 && (r->of != w->f || r->row != w->row || r->at != at))
        copy_run(r, w);
    r->of = w->f;
    r->run++;
    r->row = w->row + 1;
    r->at = at + 1;
    r->first = r->end == 0 ? at : r->first;
    r->end = at + 1;
}

static dop_status
write_feature_row(received *r, const walk *w, uint32_t at, uint32_t pos, uint32_t end, dop_diag *diag)
{
    const dop_features *f = w->f;
    const uint32_t left = f ? f->n - 1 - w->row : 0;
    const uint32_t turn = f && f->width ? w->row / f->width * DOP_STEP_EDGE + w->row % f->width : 0;
    if (!f && w->last >= w->m->plan.model->vocab)
        return DOP_FAIL(diag, DOP_E_INPUT, "the features of a picture are gone, and its rows are needed again");
    if (r->lasts && left >= end - pos)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "rows of a picture see one another, and a step has %u of %u: compile with larger `chunks`",
                        end - pos + w->row, f->n);
    if (r->shift)
        DOP_RETURN_IF_ERROR(put_step_number(r, w, &r->shift[at], w->time - pos, diag));
    if (r->turns)
        DOP_RETURN_IF_ERROR(put_step_number(r, w, &r->turns[at], turn, diag));
    if (r->lasts)
        DOP_RETURN_IF_ERROR(put_step_number(r, w, &r->lasts[at], f ? pos + left : 0, diag));
    if (f && r->end == 0)
        /* in-flight steps may still read feature rows */
        DOP_RETURN_IF_ERROR(dop_replay_wait(r->replay, r->replay->submitted, diag));
    if (f)
        add_feature_row(r, w, at);
    return DOP_OK;
}

/* Records and submits the device copy of the step's features, ahead of anything submitted later. */
static dop_status
submit_rows(dop_model *m, uint32_t schedule, const received *r, dop_diag *diag)
{
    VkCommandBuffer commands;
    uint64_t ticket;
    dop_status st = dop_replay_begin(&m->replay, diag, &commands);
    if (st != DOP_OK)
        return st;
    dop_cut_record_features(&m->plan, &m->memory, schedule, r->first, r->end - r->first, commands);
    return dop_replay_end(&m->replay, diag, &ticket);
}

dop_status
dop_features_write(dop_model *model, uint32_t schedule, const dop_sequence_rows *rows, uint32_t n, bool known,
                   dop_diag *diag)
{
    received r = received_by(model, schedule);
    walk w = {.m = model};
    uint32_t at = 0;
    if (r.n_rows == 0)
        return DOP_OK;
    for (uint32_t k = 0; k < n; k++) {
        const dop_sequence *s = rows[k].sequence;
        const uint32_t pos = rows[k].pos, end = pos + rows[k].n;
        w = (walk){.m = model, .next = r.shift ? 0 : pos};
        for (uint32_t p = r.shift ? 0 : pos; p < end; p++) {
            const uint32_t token = known || p < s->n_tokens ? s->tokens[p] : 0;
            step_token_walk(&w, token);
            if (p >= pos)
                DOP_RETURN_IF_ERROR(write_feature_row(&r, &w, at++, p, end, diag));
        }
    }
    if (r.end > 0) {
        copy_run(&r, &w);
        DOP_RETURN_IF_ERROR(submit_rows(model, schedule, &r, diag));
    }
    return DOP_OK;
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
