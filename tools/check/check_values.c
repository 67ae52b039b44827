#include "tools/check/check_values.h"

#include "ir/graph/cache_row.h"
#include "tools/check/check.h"
#include "tools/check/check_random.h"

#include <math.h>
#include <string.h>

/* Returns the number of cache splits used for the query at `pos` (ops.def). */
static uint32_t
used_splits(const dop_graph *g, dop_node_id split, uint32_t pos)
{
    const dop_reach reach = dop_attention_reach(g, split);
    const uint32_t top = (uint32_t)dop_node_i(g, split, DOP_A_top);
    uint32_t n = pos + 1 - dop_reach_first(&reach, pos);
    n = top && n > top ? top : n;
    return dop_split_count(g, split, n);
}

typedef void split_fn(void *user, float *part, uint32_t dim, bool used);

static void
each_split(const dop_check_fill *f, float *values, split_fn *fn, void *user)
{
    const dop_node *n = dop_node_at(f->g, f->id);
    uint32_t splits = (uint32_t)dop_node_i(f->g, f->id, DOP_A_splits);
    uint32_t parts = n->shape.dim[1].mul, size = n->shape.dim[2].mul;
    for (uint32_t t = 0; t < f->rows; t++) {
        uint32_t used = used_splits(f->g, f->id, f->first_pos + t);
        for (uint32_t i = 0; i < parts; i++)
            fn(user, values + ((uint64_t)t * parts + i) * size, size - 2, i % splits < used);
    }
}

static void
fill_split(void *user, float *part, uint32_t dim, bool used)
{
    dop_check_random *r = user;
    float sum = used ? 1.0f + 63.0f * dop_check_uniform(r) : 0.0f;
    for (uint32_t i = 0; i < dim; i++)
        part[i] = used ? sum * dop_check_normal(r) : 0.0f;
    part[dim] = used ? 2.0f * dop_check_normal(r) : -1e30f;
    part[dim + 1] = sum;
}

static void
poison_split(void *user, float *part, uint32_t dim, bool used)
{
    (void)user;
    for (uint32_t i = 0; i < dim + 2 && !used; i++)
        part[i] = NAN;
}

void
dop_check_poison_splits(const dop_check_fill *fill, float *values)
{
    each_split(fill, values, poison_split, NULL);
}

/* Fills pairs of a maximum and its index, with ties between parts. The last of several parts is unused. */
static void
fill_argmax_parts(dop_check_random *r, const dop_check_fill *f, float *out)
{
    uint32_t parts = dop_node_at(f->g, f->id)->shape.dim[1].mul;
    for (uint32_t i = 0; i < f->rows * parts; i++) {
        bool unused = parts > 1 && i % parts == parts - 1;
        out[2 * i] = unused ? -INFINITY : roundf(2 * dop_check_normal(r)) / 2;
        out[2 * i + 1] = unused ? 0 : (float)(i % parts * 64 + dop_check_u32(r) % 64);
    }
}

/* Returns the source index of a value in a recurrence (scan), or the number of sources if it is not one. */
static uint32_t
source_of_scan(const dop_graph *g, dop_node_id id)
{
    for (dop_node_id i = id + 1; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < dop_node_at(g, i)->n_srcs && dop_op_of(dop_node_at(g, i)->op)->root == DOP_ROOT_scan;
             k++)
            if (dop_node_base(g, dop_node_at(g, i)->src[k], NULL) == id)
                return k;
    return DOP_MAX_SRCS;
}

void
dop_check_fill_choice(dop_check_random *r, const dop_graph *g, dop_node_id id, uint32_t rows, float *out)
{
    const uint32_t k = dop_node_cols(g, id), n = dop_node_cols(g, dop_node_at(g, id)->src[0]);
    for (uint32_t t = 0; t < rows; t++)
        for (uint32_t j = 0; j < k; j++) {
            float *row = out + (uint64_t)t * k;
            uint32_t pick = dop_check_u32(r) % n;
            for (uint32_t i = 0; i < j; i++)
                if (row[i] == (float)pick) { /* duplicate: tries the next id, compares from the start */
                    pick = (pick + 1) % n;
                    i = UINT32_MAX;
                }
            row[j] = (float)pick;
        }
}

/* Fills ascending positions up to each row's own: all of them if they fit, otherwise a random subset. */
static void
fill_positions(dop_check_random *r, const dop_check_fill *f, float *out)
{
    const uint32_t k = dop_node_cols(f->g, f->id), none = dop_node_cols(f->g, dop_node_at(f->g, f->id)->src[0]);
    for (uint32_t t = 0; t < f->rows; t++) {
        uint32_t n = f->first_pos + t + 1, j = 0;
        for (uint32_t p = 0; p < n && j < k; p++)
            if (dop_check_u32(r) % (n - p) < k - j)
                out[(uint64_t)t * k + j++] = (float)p;
        while (j < k)
            out[(uint64_t)t * k + j++] = (float)none;
    }
}

/* Fills row numbers that a program receives, valid for their users: rows of a table, or windows from the step's
 * first row to the row itself. Attention positions are those of one text, even if a table holds their rows. */
static void
fill_received(dop_check_random *r, const dop_check_fill *f, float *out)
{
    const uint32_t cols = dop_node_cols(f->g, f->id);
    uint32_t below = 0;
    bool counts = false;
    for (dop_node_id i = f->id + 1; i < f->g->n_nodes && !counts; i++) {
        const dop_node *n = dop_node_at(f->g, i);
        counts = dop_op_of(n->op)->root == DOP_ROOT_attention && n->src[3] == f->id;
        if (below)
            continue;
        if (n->op == DOP_OP_rope && n->n_srcs > 5 && n->src[4] == f->id) {
            const uint32_t edge = dop_node_at(f->g, n->src[5])->shape.dim[0].mul / 2;
            below = edge * edge;
        }
        if (n->op == DOP_OP_rope && n->n_srcs > 3 && n->src[3] == f->id)
            below = 1; /* positions must stay within their table */
        if (n->n_srcs < 2 || dop_node_base(f->g, n->src[1], NULL) != f->id)
            continue;
        const uint32_t low = n->op == DOP_OP_rope ? (uint32_t)dop_node_i(f->g, i, DOP_A_low) : 0;
        const dop_node *table = dop_node_at(f->g, n->src[n->op == DOP_OP_rope ? 2 : 0]);
        below = low ? low * (table->shape.dim[0].mul - low) : table->shape.dim[0].mul;
    }
    for (uint64_t i = 0; i < (uint64_t)f->rows * cols; i++)
        out[i] = (float)(below && !counts ? dop_check_u32(r) % below : (uint32_t)(i / cols));
}

void
dop_check_fill_values(dop_check_random *r, const dop_check_fill *fill, float *out)
{
    dop_op op = dop_node_at(fill->g, fill->id)->op;
    uint64_t n = (uint64_t)fill->rows * dop_node_cols(fill->g, fill->id);
    if (op == DOP_OP_attn_split) {
        each_split(fill, out, fill_split, r);
        return;
    }
    if (op == DOP_OP_received && dop_node_at(fill->g, fill->id)->type == DOP_TYPE_u32) {
        fill_received(r, fill, out);
        return;
    }
    if (op == DOP_OP_argmax_part) {
        fill_argmax_parts(r, fill, out);
        return;
    }
    if (op == DOP_OP_moments) { /* triples: count, mean, sum of squared deviations */
        for (uint64_t i = 0; i < n; i++)
            out[i] = i % 3 == 0 ? 64 : i % 3 == 1 ? dop_check_normal(r) : 64 * (0.5f + dop_check_uniform(r));
        return;
    }
    if (op == DOP_OP_top_positions) {
        fill_positions(r, fill, out);
        return;
    }
    if (op == DOP_OP_top_k) {
        dop_check_fill_choice(r, fill->g, fill->id, fill->rows, out);
        return;
    }
    bool positive = op == DOP_OP_row_rms || op == DOP_OP_row_istd || op == DOP_OP_exp || op == DOP_OP_softplus ||
                    (op == DOP_OP_at_least && dop_node_f(fill->g, fill->id, DOP_A_by) >= 0);
    /* Keeps states of recurrences from growing: decay factors below 1, keys of about unit length. */
    uint32_t source = source_of_scan(fill->g, fill->id);
    bool fades = source == 3 || source == 6 || op == DOP_OP_sigmoid;
    const dop_shape *shape = &dop_node_at(fill->g, fill->id)->shape;
    float by = source == 1 ? 1.0f / sqrtf((float)shape->dim[shape->rank - 1].mul) : 1.0f;
    for (uint64_t i = 0; i < n; i++) {
        float x = fades ? dop_check_uniform(r) : positive ? 0.5f + dop_check_uniform(r) : by * dop_check_normal(r);
        out[i] = fill->ties ? roundf(2 * x) / 2 : x;
    }
}

void
dop_check_encode(dop_type type, float *values, uint64_t n, void *out)
{
    uint32_t *u = out;
    if (dop_cache_blocks(type)) {
        dop_cache_row_encode(type, values, (uint32_t)n, out);
        dop_cache_row_decode(type, out, (uint32_t)n, values);
        return;
    }
    for (uint64_t i = 0; i < n && type == DOP_TYPE_u32; i++)
        u[i] = values[i] < 4294967296.0f ? (uint32_t)values[i] : UINT32_MAX;
    if (type == DOP_TYPE_u32)
        return;
    if (type != DOP_TYPE_f16) {
        memcpy(out, values, n * sizeof *values);
        return;
    }
    uint16_t *h = out;
    for (uint64_t i = 0; i < n; i++) {
        h[i] = dop_f32_to_f16(values[i]);
        values[i] = dop_f16_to_f32(h[i]);
    }
}

void
dop_check_decode(dop_type type, const void *bytes, uint64_t n, float *out)
{
    const uint32_t *u = bytes;
    if (type == DOP_TYPE_u32)
        for (uint64_t i = 0; i < n; i++)
            out[i] = (float)u[i];
    else if (type == DOP_TYPE_f16)
        dop_decode_row(type, bytes, n, out);
    else if (dop_cache_blocks(type))
        dop_cache_row_decode(type, bytes, (uint32_t)n, out);
    else
        memcpy(out, bytes, n * sizeof *out);
}
