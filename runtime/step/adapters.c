/* Adapters loaded while a model is open; see adapters.h. */
#include "runtime/step/adapters.h"
#include "base/format/adapter.h"
#include "base/format/control_vector.h"
#include "plan/plan_names.h"
#include "runtime/model/model.h"
#include "runtime/step/step.h"
#include "runtime/step/step_ahead.h"
#include "runtime/step/transfer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

uint32_t
dop_model_adapter_room(const dop_model *model)
{
    return model->plan.model->adapters;
}

const char *
dop_model_adapter(const dop_model *model, uint32_t adapter)
{
    return model->lora.slots && adapter < dop_model_adapter_room(model) ? model->lora.slots[adapter].path : NULL;
}

/* Builds the map of the plan's adapter slots in the arena. Targets are the products, indexed by the TENSORS row of
 * their matrix B. */
static dop_status
make_map(const dop_plan *plan, dop_arena *arena, dop_diag *diag, dop_adapter_map *out)
{
    dop_adapter_place *places = dop_arena_alloc(arena, (plan->n_places + 1) * sizeof *places);
    dop_adapter_target *targets = dop_arena_alloc(arena, (plan->n_tensors + 1) * sizeof *targets);
    if (!places || !targets)
        return DOP_NO_MEMORY(diag);
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_places; i++) {
        const dop_plan_adapter_place *p = &plan->places[i];
        if (p->a == p->b) /* belongs to control vectors */
            continue;
        places[n++] = (dop_adapter_place){.tensor = dop_plan_string(plan, p->tensor),
                                          .target = p->b,
                                          .first = p->first,
                                          .n = p->n,
                                          .start = p->start,
                                          .block = p->block,
                                          .step = p->step,
                                          .total = p->total,
                                          .order = p->order,
                                          .head = p->head};
        targets[p->b] = (dop_adapter_target){.name = dop_plan_string(plan, plan->tensors[p->b].name),
                                             .rows = plan->tensors[p->b].rows,
                                             .cols = plan->tensors[p->a].cols,
                                             .experts = 1};
    }
    dop_adapter_sort_places(places, n);
    *out = (dop_adapter_map){.targets = targets,
                             .n_targets = plan->n_tensors,
                             .places = places,
                             .n_places = n,
                             .archs = dop_plan_string(plan, plan->model->adapter_archs),
                             .tied = plan->model->tied != 0};
    return DOP_OK;
}

/* Returns the TENSORS row of the matrix A that goes with B in row b, or b itself for control vectors. UINT32_MAX:
 * none. */
static uint32_t
a_of(const dop_plan *plan, uint32_t b)
{
    uint32_t i = 0;
    while (i < plan->n_places && plan->places[i].b != b)
        i++;
    return i < plan->n_places ? plan->places[i].a : UINT32_MAX;
}

/* One adapter matrix in host memory: modified there, then written back. */
typedef struct matrix {
    const dop_plan_tensor *t;
    uint16_t *values;
    size_t row; /* values per row, including padding */
} matrix;

static dop_status
fetch_matrix(dop_model *m, uint32_t tensor, dop_diag *diag, matrix *out)
{
    *out = (matrix){.t = &m->plan.tensors[tensor]};
    out->row = (size_t)(out->t->size / out->t->rows / sizeof *out->values);
    out->values = malloc((size_t)out->t->size);
    if (!out->values)
        return DOP_NO_MEMORY(diag);
    return dop_transfer_tensor(m, out->t->slot, out->t->offset, out->values, out->t->size, false, diag);
}

static dop_status
put_back_matrix(dop_model *m, dop_status st, matrix *x, dop_diag *diag)
{
    if (st == DOP_OK)
        st = dop_transfer_tensor(m, x->t->slot, x->t->offset, x->values, x->t->size, true, diag);
    free(x->values);
    return st;
}

/* Returns a power of two that equalizes the magnitudes of A and B, so that small values keep their precision in f16. */
static float
balance_ranks(const dop_adapter_part *p, double scale, uint32_t cols)
{
    float a = 0, b = 0;
    for (size_t i = 0; i < (size_t)p->rank * cols; i++)
        a = fmaxf(a, fabsf(p->a[i]));
    for (size_t i = 0; i < (size_t)p->n * p->rank; i++)
        b = fmaxf(b, (float)fabs(scale * (double)p->b[i]));
    return a > 0 && b > 0 ? exp2f(roundf(0.5f * log2f(b / a))) : 1;
}

/* Writes the n parts of one product into the ranks of a slot. Unused ranks of the slot become zeros. */
static dop_status
write_product(dop_model *m, uint32_t slot, const dop_adapter_part *parts, uint32_t n, uint32_t b_row, dop_diag *diag)
{
    const uint32_t most = m->plan.model->adapter_rank, from = slot * most;
    matrix a, b;
    dop_status st = fetch_matrix(m, a_of(&m->plan, b_row), diag, &a);
    for (uint32_t r = 0; r < most && st == DOP_OK; r++)
        memset(a.values + (from + r) * a.row, 0, a.row * sizeof *a.values);
    dop_status second = fetch_matrix(m, b_row, diag, &b);
    for (uint32_t r = 0; second == DOP_OK && r < b.t->rows; r++)
        memset(b.values + r * b.row + from, 0, most * sizeof *b.values);
    st = st == DOP_OK ? second : st;
    uint32_t at = from;
    for (uint32_t i = 0; i < n && st == DOP_OK; at += parts[i++].rank) {
        const dop_adapter_part *p = &parts[i];
        const double scale = p->scale / m->lora.slots[slot].scale;
        const float by = balance_ranks(p, scale, a.t->cols);
        for (uint32_t r = 0; r < p->rank; r++)
            for (uint32_t k = 0; k < a.t->cols; k++)
                a.values[(at + r) * a.row + k] = dop_f32_to_f16(p->a[(size_t)r * a.t->cols + k] * by);
        for (uint32_t o = 0; o < p->n; o++)
            for (uint32_t r = 0; r < p->rank; r++)
                b.values[(p->first + o) * b.row + at + r] =
                    dop_f32_to_f16((float)(scale * (double)p->b[(size_t)o * p->rank + r]) / by);
    }
    st = put_back_matrix(m, st, &a, diag);
    return put_back_matrix(m, st, &b, diag);
}

/* Writes the direction of a control vector into the ranks of a slot; NULL writes zeros. It is divided by the slot's
 * scale, which is at least its largest value. If the slot has two ranks, the second one stores the f16 rounding error
 * of each value. */
static dop_status
write_direction(dop_model *m, uint32_t slot, const float *direction, uint32_t row, dop_diag *diag)
{
    const uint32_t most = m->plan.model->adapter_rank, from = slot * most;
    matrix b;
    dop_status st = fetch_matrix(m, row, diag, &b);
    for (uint32_t r = 0; st == DOP_OK && r < b.t->rows; r++) {
        uint16_t *at = b.values + r * b.row + from;
        memset(at, 0, most * sizeof *at);
        if (!direction)
            continue;
        const float v = (float)((double)direction[r] / m->lora.slots[slot].scale);
        at[0] = dop_f32_to_f16(v);
        if (most > 1)
            at[1] = dop_f32_to_f16(v - dop_f16_to_f32(at[0]));
    }
    return put_back_matrix(m, st, &b, diag);
}

static int
by_target(const void *x, const void *y)
{
    const dop_adapter_part *a = x, *b = y;
    return a->target != b->target ? (a->target < b->target ? -1 : 1) : a->first < b->first ? -1 : a->first > b->first;
}

/* Checks that an adapter fits the slot, before anything is written. */
static dop_status
check_adapter_parts(const dop_model *m, const char *path, const dop_adapter *x, dop_diag *diag)
{
    const uint32_t most = m->plan.model->adapter_rank;
    for (uint32_t i = 0, sum = 0; i < x->n_parts; i++) {
        const dop_adapter_part *p = &x->parts[i];
        sum = i > 0 && x->parts[i - 1].target == p->target ? sum + p->rank : p->rank;
        if (p->whole || p->lengths)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "%s: %s can only be merged, by `dop_compile_options.loras`",
                               p->tensor,
                               p->whole ? "a matrix that replaces the model's" : "a magnitude vector (DoRA)");
        if (sum > most)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                               "%s: a rank of %u, and the plan has room for %u: compile with a larger `rank`",
                               p->tensor, sum, most);
    }
    return DOP_OK;
}

static dop_status
find_adapter_slot(dop_model *m, dop_diag *diag, uint32_t *out_slot)
{
    const uint32_t n = dop_model_adapter_room(m);
    uint32_t i = 0;
    if (n == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path,
                           "the plan has no room for adapters: compile with `adapters` and `rank`, or merge them by "
                           "`dop_compile_options.loras`");
    if (!m->lora.slots && !(m->lora.slots = calloc(n, sizeof *m->lora.slots)))
        return DOP_NO_MEMORY(diag);
    while (i < n && m->lora.slots[i].path)
        i++;
    *out_slot = i;
    return i < n ? DOP_OK
                 : DOP_FAIL_IN(diag, DOP_E_FULL, m->plan.path,
                               "the plan has room for %u adapters, and as many are loaded: unload one, or compile with "
                               "more `adapters`",
                               n);
}

/* Writes the parts of x into a slot, and zeros its ranks in all other products. */
static dop_status
write_adapter_parts(dop_model *m, uint32_t slot, const dop_adapter *x, dop_diag *diag)
{
    for (uint32_t t = 0; t < m->plan.n_tensors; t++) {
        uint32_t first = 0, n = 0;
        while (first < x->n_parts && x->parts[first].target != t)
            first++;
        while (first + n < x->n_parts && x->parts[first + n].target == t)
            n++;
        const uint32_t a = a_of(&m->plan, t);
        if (a == t && m->lora.slots[slot].written)
            DOP_RETURN_IF_ERROR(write_direction(m, slot, NULL, t, diag));
        else if (n > 0 || (m->lora.slots[slot].written && a != UINT32_MAX))
            DOP_RETURN_IF_ERROR(write_product(m, slot, x->parts + first, n, t, diag));
    }
    return DOP_OK;
}

/* Sets the slot's scale to the largest value of a control vector, rounded up to a power of two. */
static void
set_scale(dop_model *m, uint32_t slot, const dop_control *x, uint32_t width)
{
    float most = 0;
    for (uint32_t i = 0; i < x->n; i++)
        for (uint32_t k = 0; k < width; k++)
            most = fmaxf(most, fabsf(x->directions[i].values[k]));
    m->lora.slots[slot].scale = most > 0 ? exp2(ceil(log2((double)most))) : 1;
}

/* Clears a slot and writes the directions of a control vector into it. If several are for one layer, the last one is
 * used. */
static dop_status
write_control(dop_model *m, uint32_t slot, const dop_control *x, dop_diag *diag)
{
    dop_status st = write_adapter_parts(m, slot, &(dop_adapter){0}, diag);
    set_scale(m, slot, x, m->plan.model->hidden);
    for (uint32_t i = 0; i < m->plan.n_places && st == DOP_OK; i++) {
        const dop_plan_adapter_place *p = &m->plan.places[i];
        for (uint32_t k = x->n; p->a == p->b && k-- > 0;)
            if (x->directions[k].layer == p->start) {
                st = write_direction(m, slot, x->directions[k].values, p->b, diag);
                break;
            }
    }
    return st;
}

/* Reads a control vector for the layers that can hold its directions. */
static dop_status
read_control(const dop_model *m, const char *path, uint32_t first, uint32_t last, dop_arena *arena, dop_diag *diag,
             dop_control *out)
{
    dop_control_want want = {.width = m->plan.model->hidden, .first = first, .last = last};
    for (uint32_t i = 0; i < m->plan.n_places; i++)
        want.layers = m->plan.places[i].a == m->plan.places[i].b ? m->plan.places[i].total : want.layers;
    *out = (dop_control){0};
    return want.layers
               ? dop_control_read(path, &want, arena, diag, out)
               : DOP_FAIL_IN(diag, DOP_E_INPUT, path, "control vectors are not supported for this family of models");
}

/* Returns a digest that is stable between runs, because stored states are found by it. */
static uint64_t
digest_adapter(const dop_plan *plan, const dop_adapter *x)
{
    uint64_t h = 0;
    for (uint32_t i = 0; i < x->n_parts; i++) {
        const dop_adapter_part *p = &x->parts[i];
        const uint32_t cols = plan->tensors[a_of(plan, p->target)].cols;
        const double facts[] = {p->target, p->first, p->n, p->rank, p->scale};
        h = XXH3_64bits_withSeed(facts, sizeof facts, h);
        h = XXH3_64bits_withSeed(p->a, (size_t)p->rank * cols * sizeof *p->a, h);
        h = XXH3_64bits_withSeed(p->b, (size_t)p->n * p->rank * sizeof *p->b, h);
    }
    return h;
}

static uint64_t
control_digest(const dop_control *x, uint32_t width)
{
    uint64_t h = 1;
    for (uint32_t i = 0; i < x->n; i++)
        h = XXH3_64bits_withSeed(x->directions[i].values, width * sizeof *x->directions[i].values,
                                 h ^ x->directions[i].layer);
    return h;
}

/* Writes a low-rank adapter into a slot. *out_digest identifies it. */
static dop_status
load_ranks(dop_model *m, const char *path, uint32_t slot, dop_arena *arena, dop_diag *diag, uint64_t *out_digest)
{
    dop_adapter_map map;
    dop_adapter x = {0};
    dop_status st = make_map(&m->plan, arena, diag, &map);
    if (st == DOP_OK)
        st = dop_adapter_read(path, &map, arena, diag, &x);
    if (st == DOP_OK && x.n_parts)
        qsort(x.parts, x.n_parts, sizeof *x.parts, by_target);
    if (st == DOP_OK)
        st = check_adapter_parts(m, path, &x, diag);
    if (st != DOP_OK)
        return st;
    for (uint32_t i = 0; i < x.n_parts; i++)
        m->lora.slots[slot].scale =
            i == 0 || m->lora.slots[slot].scale == 0 ? x.parts[i].scale : m->lora.slots[slot].scale;
    if (m->lora.slots[slot].scale == 0)
        m->lora.slots[slot].scale = 1;
    st = write_adapter_parts(m, slot, &x, diag);
    m->lora.slots[slot].written = true;
    *out_digest = digest_adapter(&m->plan, &x);
    return st;
}

/* Loads an adapter of any kind. first, last: layers of a control vector. */
static dop_status
load_adapter_slot(dop_model *m, const char *path, bool control, uint32_t first, uint32_t last, dop_diag *diag,
                  uint32_t *out_adapter)
{
    dop_arena arena;
    dop_control x;
    uint32_t slot = 0;
    uint64_t digest = 0;
    char *own = NULL;
    dop_status st = find_adapter_slot(m, diag, &slot);
    if (st == DOP_OK && (st = dop_step_none_open(m, diag)) == DOP_OK)
        st = dop_step_drain(m, diag);
    if (st == DOP_OK) /* for the matrices of all products, and later for the factors of sequences */
        st = dop_transfer_keep_staging(m, diag);
    if (st == DOP_OK && !(own = strdup(path)))
        st = DOP_NO_MEMORY(diag);
    if (st != DOP_OK)
        return st;
    dop_arena_init(&arena);
    if (!control) {
        st = load_ranks(m, path, slot, &arena, diag, &digest);
    } else if ((st = read_control(m, path, first, last, &arena, diag, &x)) == DOP_OK) {
        st = write_control(m, slot, &x, diag);
        m->lora.slots[slot].written = true;
        digest = control_digest(&x, m->plan.model->hidden);
    }
    dop_arena_finish(&arena);
    if (st != DOP_OK) {
        free(own);
        return st;
    }
    m->lora.slots[slot].path = own;
    m->lora.slots[slot].digest = digest;
    *out_adapter = slot;
    return DOP_OK;
}

dop_status
dop_adapter_load(dop_model *model, const char *path, dop_diag *diag, uint32_t *out_adapter)
{
    dop_diag_clear(diag);
    DOP_DRIVE(model, diag);
    return load_adapter_slot(model, path, dop_control_is(path), 1, UINT32_MAX, diag, out_adapter);
}

dop_status
dop_control_vector_load(dop_model *model, const char *path, uint32_t first, uint32_t last, dop_diag *diag,
                        uint32_t *out_adapter)
{
    dop_diag_clear(diag);
    DOP_DRIVE(model, diag);
    return load_adapter_slot(model, path, true, first, last, diag, out_adapter);
}

dop_status
dop_adapter_unload(dop_model *model, uint32_t adapter, dop_diag *diag)
{
    dop_diag_clear(diag);
    DOP_DRIVE(model, diag);
    dop_model *m = model;
    if (!dop_model_adapter(m, adapter))
        return DOP_FAIL(diag, DOP_E_INPUT, "there is no adapter %u", adapter);
    for (uint32_t i = 0; i < DOP_STEP_MAX_SEQUENCES; i++)
        for (uint32_t k = 0; m->sequences[i] && k < m->sequences[i]->n_uses; k++)
            if (m->sequences[i]->uses[k].adapter == adapter)
                return DOP_FAIL(diag, DOP_E_USAGE, "adapter %u is used by a sequence", adapter);
    free(m->lora.slots[adapter].path);
    m->lora.slots[adapter].path = NULL;
    return DOP_OK;
}

void
dop_adapters_finish(dop_model *model)
{
    for (uint32_t i = 0; model->lora.slots && i < dop_model_adapter_room(model); i++)
        free(model->lora.slots[i].path);
    free(model->lora.slots);
    model->lora.slots = NULL;
}

/* ---- sequences ------------------------------------------------------------------------------------------------------ */

/* Writes a sequence's factor for each adapter rank, followed by the numbers of its adapters. */
static dop_status
write_factors(dop_model *m, uint32_t place, const dop_adapter_use *uses, uint32_t n, dop_diag *diag)
{
    const dop_plan_tensor *t = &m->plan.tensors[m->plan.model->adapter_factors];
    const uint32_t most = m->plan.model->adapter_rank;
    const uint64_t row = t->size / t->rows;
    float *values = calloc((size_t)row, 1);
    if (!values)
        return DOP_NO_MEMORY(diag);
    float *numbers = values + t->cols - m->plan.model->adapter_uses;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < most; r++)
            values[uses[i].adapter * most + r] += (float)((double)uses[i].scale * m->lora.slots[uses[i].adapter].scale);
    for (uint32_t i = 0, n_numbers = 0; i < n; i++) { /* each adapter only once */
        const float number = (float)(uses[i].adapter + 1);
        uint32_t k = 0;
        while (k < n_numbers && numbers[k] != number)
            k++;
        if (k == n_numbers && k < m->plan.model->adapter_uses)
            numbers[n_numbers++] = number;
    }
    dop_status st = dop_transfer_tensor(m, t->slot, t->offset + place * row, values, row, true, diag);
    free(values);
    return st;
}

uint64_t
dop_adapters_name(const dop_model *m, const dop_adapter_use *uses, uint32_t n)
{
    uint64_t h = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct {
            uint64_t digest;
            float scale;
            uint32_t zero;
        } one = {m->lora.slots[uses[i].adapter].digest, uses[i].scale, 0};
        h = XXH3_64bits_withSeed(&one, sizeof one, h);
    }
    return n && h == 0 ? 1 : h;
}

dop_status
dop_adapters_apply(dop_sequence *sequence, const dop_adapter_use *uses, uint32_t n, dop_diag *diag)
{
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    dop_status st = n > 0 || m->lora.factors_set[s->place] ? write_factors(m, s->place, uses, n, diag) : DOP_OK;
    if (st != DOP_OK)
        return st;
    if (n)
        memmove(s->uses, uses, n * sizeof *uses);
    s->n_uses = n;
    s->adapters = dop_adapters_name(m, uses, n);
    s->prefix.seed = s->adapters;
    m->lora.factors_set[s->place] = n > 0;
    return DOP_OK;
}
