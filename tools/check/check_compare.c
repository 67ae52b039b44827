/* Comparison of a case's outputs with the reference. */
#include "tools/check/check_compare.h"

#include "ir/graph/cache_row.h"
#include "ir/graph/dims.h"
#include "ir/region/region.h"
#include "plan/plan_names.h"
#include "tools/check/check_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
dop_check_picks(const dop_graph *g, dop_node_id id)
{
    return dop_op_of(dop_node_at(g, id)->op)->root == DOP_ROOT_argmax && !dop_node_is(g, id, DOP_PARTIAL);
}

/* Error bound of f32 kernels, derived from their arithmetic: sums of about 10^4 products, and exponentials and
 * divisions as precise as Vulkan requires. In standard deviations of the output, or relative for values larger than
 * that. */
static const double error_bound = 1e-4;
/* Error bound of kernels that round factors to f16 (matrix units; long rows in shared memory): 2^-12 for each
 * factor; the worst of about 10^5 sums is at five standard deviations. */
static const double narrow_bound = 3e-3;
/* Error bound of kernels that round activations to 8 bits. The reference rounds them too, but about one in 10^4
 * rounds the other way: an error of 1/100 of its size times a weight. Measured: 4e-3 in rows of 2048. */
static const double rounded_bound = 6e-3;

/* Returns the number of f16 roundings that add up in attention: weights and values (none if values are f16), and
 * scores, whose error grows with the scale. Kernels halve the queries if that width is 2 or more. */
static double
count_attention_roundings(const dop_graph *g, dop_node_id attn)
{
    const dop_node *a = dop_node_at(g, attn), *keys = dop_node_at(g, a->src[1]);
    const double width = dop_node_f(g, attn, DOP_A_scale) * sqrt(keys->shape.dim[keys->shape.rank - 1].mul);
    return fmin(fmax(width, 1), 2) + (keys->type == DOP_TYPE_f32);
}

double
dop_check_bound(uint32_t rounding, const dop_graph *g, const dop_region *r)
{
    /* Rounding errors of products that meet in one output add up (gate times up). */
    const dop_node_id attn = r->info->attn.root;
    const double narrow = narrow_bound * (r->info->product.n_mats ? r->info->product.most_mats
                                          : attn                  ? count_attention_roundings(g, attn)
                                                                  : 1);
    if (rounding == DOP_ROUNDING_none)
        return error_bound;
    return rounding == DOP_ROUNDING_i8 && narrow < rounded_bound ? rounded_bound : narrow;
}

/* True if the node is an output of the region that writes cache rows. */
static bool
stores_cache_rows(const dop_check_run *run, dop_node_id id)
{
    const dop_graph *g = run->g;
    bool out = false;
    for (uint32_t i = 0; i < run->r->n_outs; i++)
        out = out || run->r->outs[i] == id;
    return out && dop_node_is(g, id, DOP_EFFECT) && dop_shape_appends(&dop_node_at(g, dop_storage_node(g, id))->shape);
}

/* Finds the buffer of a region output, with the kernel's values. Fails if the plan has none. */
static dop_status
find_out(dop_check_run *run, dop_node_id id, const dop_check_buffer **out)
{
    *out = dop_check_buffer_of(run, id);
    return *out && (*out)->got
               ? DOP_OK
               : DOP_FAIL_IN(run->diag, DOP_E_INPUT, run->plan->path,
                             "the plan is damaged: dispatch %s makes %%%s and has no argument for it",
                             dop_plan_string(run->plan, run->c->dispatch->label), dop_node_at(run->g, id)->name);
}

/* Relative distance of neighboring f16 values: both sides may round to different neighbors. */
static const double f16_step = 1.0 / 1024, f16_tiny = 1.0 / 16777216;

static void
note_value_error(dop_check_run *run, double error, dop_node_id id, uint32_t token, uint32_t col, double got,
                 double want)
{
    dop_check_result *res = run->result;
    bool worse = !(error <= res->error); /* true for NaN, too */
    res->values++;
    if (!worse)
        return;
    res->error = isnan(error) ? INFINITY : error;
    res->miss = res->miss || !(error <= res->bound);
    snprintf(res->where, sizeof res->where, "%%%s token %u of %u at position %u column %u: %.9g instead of %.9g",
             dop_node_at(run->g, id)->name, token, run->c->n_tokens, run->c->pos + token, col, got, want);
}

static void
note_wrong_result(dop_check_run *run, const char *what, double got, double want)
{
    dop_check_result *res = run->result;
    res->values++;
    res->miss = true;
    res->error = INFINITY;
    snprintf(res->where, sizeof res->where, "%s: %.9g instead of %.9g", what, got, want);
}

/* Returns the standard deviation of the computed values, at least 1/100 of their size. */
static double
get_standard_deviation(const float *x, uint64_t n)
{
    double sum = 0, squares = 0, count = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            continue;
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
        count++;
    }
    if (count == 0)
        return 1;
    double rms = sqrt(squares / count), var = squares / count - sum / count * (sum / count);
    double s = var > 0 ? sqrt(var) : 0;
    s = s < rms / 100 ? rms / 100 : s;
    return s > 1e-30 ? s : 1e-30;
}

/* Returns the difference of two values beyond one rounding step of the storage type. */
static double
get_value_difference(dop_type type, double got, double want)
{
    double d = fabs(got - want), allowed = type == DOP_TYPE_f16 ? f16_step * fabs(want) + f16_tiny : 0;
    if (isnan(d))
        return INFINITY;
    return d > allowed ? d - allowed : 0;
}

/* Compares indices, which must be equal. */
static dop_status
compare_ids(dop_check_run *run, dop_node_id id, const dop_check_buffer *b, const dop_tensor *ref)
{
    for (uint64_t i = 0; i < ref->count; i++) {
        uint32_t t = dop_check_row(run, id, i / b->cols);
        double want = (double)(float)ref->u[i], got = (double)b->got[(uint64_t)t * b->cols + i % b->cols];
        note_value_error(run, got == want ? 0 : INFINITY, id, t, (uint32_t)(i % b->cols), got, want);
    }
    return DOP_OK;
}

static dop_status
compare_values(dop_check_run *run, dop_node_id id, const dop_check_buffer *b, const dop_tensor *ref)
{
    bool tokens = dop_node_per_token(run->g, id);
    uint64_t rows = ref->count / b->cols;
    double scale = get_standard_deviation(ref->f, ref->count);
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t t = tokens ? dop_check_row(run, id, i) : i;
        for (uint32_t c = 0; c < b->cols; c++) {
            double want = (double)ref->f[(uint64_t)i * b->cols + c], got = (double)b->got[(uint64_t)t * b->cols + c];
            /* Relative error for values beyond one deviation: gated products have large values, whose rounding error
             * grows. */
            if (isfinite(want))
                note_value_error(run, get_value_difference(b->type, got, want) / fmax(scale, fabs(want)), id, t, c, got,
                                 want);
        }
    }
    return DOP_OK;
}

/* Returns the difference of two values of a cache block beyond one rounding step. Both sides may round to
 * neighboring values, which is rare; *flips counts these cases. */
static double
difference_in_block(dop_type type, const float *block, double got, double want, uint64_t *flips)
{
    double d = fabs(got - want) - f16_step * fabs(want), step = (double)dop_cache_step(type, block);
    if (!(d > step / 2))
        return isnan(d) ? (double)INFINITY : 0;
    ++*flips;
    return d > step * (1 + f16_step) ? d - step : 0;
}

static dop_status
take_cache_rows(dop_check_run *run, dop_node_id id, const dop_check_buffer *b)
{
    float *values = calloc((size_t)dop_node_rows(run->g, id, 1) * b->cols, sizeof *values);
    if (!values)
        return DOP_NO_MEMORY(run->diag);
    memcpy(values, b->got, (size_t)b->rows * b->cols * sizeof *values);
    dop_status st = dop_interp_set(run->it, id, values, run->diag);
    free(values);
    return st;
}

/* Compares the cache rows that this step writes, and checks that no other row changed. The reference then continues
 * with the kernel's values: both sides may round a value differently, and that difference would hide errors of later
 * results. */
static dop_status
compare_cache(dop_check_run *run, dop_node_id id)
{
    const dop_check_buffer *b;
    const dop_tensor *ref;
    dop_status st = find_out(run, id, &b);
    if (st == DOP_OK)
        st = dop_interp_eval(run->it, id, run->diag, &ref);
    if (st != DOP_OK)
        return st;
    double scale = 0;
    uint64_t flips = 0, compared = 0;
    const bool blocks = dop_cache_blocks(b->type);
    const uint32_t held = dop_cache_rows(run->g, id), first = run->c->pos % held;
    for (uint32_t i = 0; i < run->n_samples; i++)
        scale += get_standard_deviation(ref->f + (uint64_t)(run->step_positions[i] % held) * b->cols, b->cols) /
                 run->n_samples;
    for (uint32_t row = 0; row < b->rows; row++) {
        uint32_t i = 0,
                 p = run->c->pos + (row + held - first) % held; /* the position that a step would write to this row */
        while (i < run->n_samples && run->step_positions[i] != p)
            i++;
        bool inside = p < run->c->pos + run->c->n_tokens;
        if (inside && i == run->n_samples)
            continue;
        for (uint32_t c = 0; c < b->cols; c++) {
            uint64_t at = (uint64_t)row * b->cols + c;
            double got = (double)b->got[at], want = (double)(inside ? ref->f[at] : b->sent[at]);
            if (inside && isfinite(want))
                note_value_error(
                    run,
                    (blocks ? difference_in_block(b->type, ref->f + at - c % DOP_CACHE_BLOCK, got, want, &flips)
                            : get_value_difference(b->type, got, want)) /
                        scale,
                    id, p - run->c->pos, c, got, want);
            else if (!inside && b->got[at] != b->sent[at])
                note_wrong_result(run, "a cache row of another position was changed", got, want);
            compared += inside;
        }
    }
    if (flips > 1 + compared / 32)
        note_wrong_result(run, "values of a cache's blocks that are rounded to a neighbour", (double)flips, 0);
    return take_cache_rows(run, id, b);
}

/* Compares the copy of a replace state that the step writes. The current copy must be unchanged, so that the step
 * can run again; so must all copies of other sequences (the step's rows belong to sequence 0). */
static dop_status
compare_replaced(dop_check_run *run, dop_node_id id, const dop_check_buffer *b, const dop_tensor *ref)
{
    uint64_t made = dop_check_copy(run, b, id), current = dop_check_copy(run, b, dop_node_at(run->g, id)->src[0]);
    uint64_t count = (uint64_t)b->rows * b->cols, defined = b->cols;
    double scale = get_standard_deviation(ref->f, defined);
    for (uint64_t i = 0; i < count; i++) {
        double got = (double)b->got[made + i], want = (double)ref->f[i], was = (double)b->sent[current + i];
        if (i < defined && isfinite(want))
            note_value_error(run, get_value_difference(b->type, got, want) / fmax(scale, fabs(want)), id, 0,
                             (uint32_t)(i % b->cols), got, want);
        if (b->got[current + i] != b->sent[current + i])
            note_wrong_result(run, "the state that a step replaces was changed", (double)b->got[current + i], was);
        if (i >= defined && memcmp(&b->got[made + i], &b->sent[made + i], sizeof *b->got) != 0)
            note_wrong_result(run, "the state of a sequence without rows was changed", got, (double)b->sent[made + i]);
    }
    return DOP_OK;
}

/* Compares the partial results of a split cache: the output of each split and the logarithm of its weight. */
static dop_status
compare_splits(dop_check_run *run, dop_node_id id, const dop_check_buffer *b, const dop_tensor *ref)
{
    uint32_t size = dop_node_at(run->g, id)->shape.dim[2].mul, dim = size - 2;
    double squares = 0, count = 0;
    for (uint64_t i = 0; i < ref->count; i += size)
        for (uint32_t d = 0; d < dim && ref->f[i + dim + 1] > 0; d++, count++)
            squares += pow((double)ref->f[i + d] / (double)ref->f[i + dim + 1], 2);
    double scale = count > 0 && squares > 0 ? sqrt(squares / count) : 1;
    for (uint32_t i = 0; i < ref->count / b->cols; i++) {
        for (uint32_t p = 0; p < b->cols; p += size) {
            const float *want = ref->f + (uint64_t)i * b->cols + p;
            const float *got = b->got + (uint64_t)run->sample[i] * b->cols + p;
            if (!(want[dim + 1] > 0))
                continue;
            double sw = (double)want[dim + 1], sg = (double)got[dim + 1];
            double lw = (double)want[dim] + log(sw), lg = (double)got[dim] + log(sg);
            note_value_error(run, get_value_difference(b->type, lg, lw), id, run->sample[i], p + dim, lg, lw);
            for (uint32_t d = 0; d < dim; d++) {
                double vw = (double)want[d] / sw, vg = (double)got[d] / sg;
                note_value_error(run, get_value_difference(b->type, vg, vw) / scale, id, run->sample[i], p + d, vg, vw);
            }
        }
    }
    return DOP_OK;
}

/* Compares the partial results of arg-max, pairs of a value and its index. The kernel chooses the columns of a pair.
 * Each pair must be a value of the row, and the best pair its maximum: the first of equal values, unless the region
 * computes the values itself. */
static dop_status
compare_argmax_parts(dop_check_run *run, dop_node_id id, const dop_check_buffer *b)
{
    const dop_tensor *x;
    dop_node_id src = dop_node_at(run->g, id)->src[0];
    dop_status st = dop_interp_eval(run->it, src, run->diag, &x);
    if (st != DOP_OK)
        return st;
    uint32_t cols = dop_node_cols(run->g, src);
    bool exact = !dop_region_has(run->r, dop_node_base(run->g, src, NULL));
    double scale = get_standard_deviation(x->f, x->count);
    for (uint32_t i = 0; i < x->count / cols; i++) {
        const float *row = x->f + (uint64_t)i * cols;
        uint32_t t = dop_node_per_token(run->g, id) ? run->sample[i] : i, best = 0, picked = UINT32_MAX;
        const float *pairs = b->got + (uint64_t)t * b->cols;
        double top = -INFINITY;
        for (uint32_t c = 1; c < cols; c++)
            best = row[c] > row[best] ? c : best;
        for (uint32_t p = 0; p < b->cols; p += 2) {
            double v = (double)pairs[p], at = (double)pairs[p + 1];
            if (v < -3e38) /* unused */
                continue;
            if (!(at >= 0 && at < cols)) {
                note_wrong_result(run, "a partial arg-max names a column that does not exist", at, cols - 1);
                continue;
            }
            uint32_t c = (uint32_t)at;
            note_value_error(run, fabs(v - (double)row[c]) / scale, id, t, c, v, (double)row[c]);
            if (v > top || (v == top && c < picked)) {
                top = v;
                picked = c;
            }
        }
        if (picked == UINT32_MAX || (exact && picked != best))
            note_wrong_result(run, "partial arg-max: column of the largest value", picked, best);
        else
            note_value_error(run, ((double)row[best] - (double)row[picked]) / scale, id, t, picked, (double)row[picked],
                             (double)row[best]);
    }
    return DOP_OK;
}

/* Compares the step record, which must be unchanged or, after an arg-max, advanced by one pick. */
static dop_status
compare_step(dop_check_run *run)
{
    const dop_step *b = &run->before, *a = &run->after;
    dop_step want = *b;
    for (uint32_t i = 0; i < run->r->n_nodes; i++) {
        if (!dop_check_picks(run->g, run->r->nodes[i]))
            continue;
        const dop_tensor *id;
        dop_status st = dop_interp_eval(run->it, run->r->nodes[i], run->diag, &id);
        if (st != DOP_OK)
            return st;
        if (run->g->max_t > 1 && dop_node_at(run->g, run->r->nodes[i])->shape.dim[0].sym == DOP_SYM_T) {
            /* every row has a pick; the reference has those of the samples */
            memcpy(want.ids, a->ids, run->c->n_tokens * sizeof *want.ids);
            memcpy(want.margins, a->margins, sizeof want.margins);
            for (uint32_t k = 0; k < id->count && k < run->n_samples; k++)
                want.ids[run->sample[k]] = id->u[k];
            run->result->values += id->count;
            continue;
        }
        want.rows[0] = b->rows[b->n_rows - 1];
        want.ids[b->n_out % DOP_STEP_RING] = want.rows[0].token = id->u[0];
        want.n_out++;
        want.rows[0].position += !run->g->stays;
        want.n_rows = 1;
        if (dop_graph_replaces(run->g)) /* all rows belong to sequence 0 */
            want.parity[0] = (want.parity[0] + 1) % run->plan->model->state_copies;
    }
    if (a->flags & DOP_STEP_STALLED)
        note_wrong_result(run, "step record: a wait ran out", a->flags, 0);
    else if (a->rows[0].token != want.rows[0].token)
        note_wrong_result(run, "step record: id picked", a->rows[0].token, want.rows[0].token);
    else if (a->rows[0].position != want.rows[0].position)
        note_wrong_result(run, "step record: position", a->rows[0].position, want.rows[0].position);
    else if (a->n_rows != want.n_rows)
        note_wrong_result(run, "step record: rows", a->n_rows, want.n_rows);
    else if (a->n_out != want.n_out)
        note_wrong_result(run, "step record: ids picked", a->n_out, want.n_out);
    else if (a->parity[0] != want.parity[0])
        note_wrong_result(run, "step record: parity", a->parity[0], want.parity[0]);
    else if (memcmp(a, &want, sizeof want) != 0)
        note_wrong_result(run, "step record: bytes that should be as they were", 1, 0);
    else if (want.n_out != b->n_out)
        run->result->values++;
    return DOP_OK;
}

dop_status
dop_check_compare(dop_check_run *run)
{
    const dop_graph *g = run->g;
    uint64_t before = run->result->values;
    dop_status st = dop_check_reference_open(run);
    for (uint32_t i = 0; i < run->r->n_nodes && st == DOP_OK; i++) {
        st = dop_check_reference_node(run, run->r->nodes[i]);
        if (st == DOP_OK && stores_cache_rows(run, run->r->nodes[i]))
            st = compare_cache(run, run->r->nodes[i]);
    }
    for (uint32_t i = 0; i < run->r->n_outs && st == DOP_OK; i++) {
        dop_node_id id = run->r->outs[i];
        const dop_check_buffer *b;
        dop_op op = dop_node_at(g, id)->op;
        const dop_tensor *ref = NULL;
        if (dop_check_picks(g, id))
            continue;
        if (id == run->r->info->attn.root && run->r->info->attn.merged)
            continue;                   /* partial results, private to the workgroups of this dispatch */
        if (stores_cache_rows(run, id)) /* already compared, before other values */
            continue;
        if ((st = find_out(run, id, &b)) != DOP_OK)
            break;
        if (op == DOP_OP_argmax_part) {
            st = compare_argmax_parts(run, id, b);
            continue;
        }
        if ((st = dop_interp_eval(run->it, id, run->diag, &ref)) != DOP_OK)
            break;
        if (dop_node_is(g, id, DOP_EFFECT))
            st = compare_replaced(run, id, b, ref);
        else if (op == DOP_OP_attn_split)
            st = compare_splits(run, id, b, ref);
        else
            st = ref->u ? compare_ids(run, id, b, ref) : compare_values(run, id, b, ref);
    }
    if (st == DOP_OK)
        st = compare_step(run);
    if (st == DOP_OK && run->result->values == before)
        note_wrong_result(run, "nothing of this kernel could be compared", 0, 0);
    return st;
}
