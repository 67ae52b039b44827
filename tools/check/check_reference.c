/* Reference results of a case: the interpreter runs the region, and products are computed here. */
#include "ir/graph/access.h"
#include "plan/plan_names.h"
#include "tools/check/check_run.h"
#include "tools/check/check_weights.h"

#include "ir/region/region.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool
is_product(const dop_graph *g, dop_node_id id)
{
    return dop_op_of(dop_node_at(g, id)->op)->root == DOP_ROOT_product;
}

/* Returns the plan's matrix that the node multiplies by or gathers rows of, or 0. The interpreter handles several
 * matrices (experts, heads) itself, as it decodes only those that it reads, but it does not round activations. */
static dop_node_id
find_matrix_node(const dop_check_run *run, dop_node_id id)
{
    const dop_graph *g = run->g;
    bool product = is_product(g, id);
    const dop_access *a = dop_node_access(g, id, 0);
    bool copies = a->axis[DOP_AXIS_row] == DOP_ACCESS_at && a->axis[DOP_AXIS_col] == DOP_ACCESS_same;
    dop_node_id matrix = product || copies ? dop_node_at(g, id)->src[product] : 0;
    const uint32_t most = run->rounds ? 3 : 2;
    return matrix && dop_node_at(g, matrix)->op == DOP_OP_weight && dop_node_at(g, matrix)->shape.rank <= most ? matrix
                                                                                                               : 0;
}

/* Returns the number of columns per compared block, so that heads and rotary pairs stay whole. Returns 0 if an
 * output needs whole rows, or columns of the product with other indices. */
static uint32_t
find_column_block(const dop_check_run *run)
{
    const dop_graph *g = run->g;
    const dop_region *r = run->r;
    const dop_product_facts *a = &r->info->product;
    uint32_t block = 64;
    if (!a->n_parts || dop_region_part(r, dop_node_base(g, a->act, NULL)) < a->n_parts)
        return 0;
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        dop_node_id id = r->nodes[i];
        const dop_node *n = dop_node_at(g, id);
        dop_extent extent = dop_node_extent(g, id);
        if (a->part_of[i] == a->n_parts || is_product(g, id))
            continue;
        if (extent == DOP_EXTENT_row || extent == DOP_EXTENT_all || dop_node_gathers(g, id))
            return 0;
        for (uint32_t k = 0; k < n->n_srcs; k++) {
            uint32_t start;
            if (dop_region_part(r, dop_node_base(g, n->src[k], &start)) < a->n_parts && start > 0)
                return 0;
        }
        uint32_t head = n->shape.rank == 3 ? n->shape.dim[2].mul : 1;
        if (head > 1 && block != 64 && block != head)
            return 0;
        block = head > 1 ? head : block;
    }
    return block;
}

static void
choose_columns(const dop_check_run *run, const dop_plan_tensor *w, uint32_t n, bool *want)
{
    uint32_t block = find_column_block(run);
    double affordable = DOP_CHECK_PRODUCTS / ((double)run->n_samples * w->cols);
    /* A per-head product after the others reads values that depend on all columns. */
    memset(want, block == 0 || affordable >= n || run->r->info->tail.id, n);
    if (want[0])
        return;
    uint32_t blocks = dop_div_up_u32(n, block), some = (uint32_t)(affordable / block);
    some = some < 2 ? 2 : some > blocks ? blocks : some;
    for (uint32_t i = 0; i < some; i++) {
        uint32_t b = some == 1 ? 0 : (uint32_t)((uint64_t)i * (blocks - 1) / (some - 1));
        for (uint32_t c = b * block; c < n && c < (b + 1) * block; c++)
            want[c] = true;
    }
}

static float *
take_leaf(dop_check_run *run, uint64_t n, dop_diag *diag)
{
    float *p = run->n_leaves < DOP_CHECK_LEAVES && n <= SIZE_MAX / sizeof *p ? calloc((size_t)n, sizeof *p) : NULL;
    if (!p)
        (void)DOP_NO_MEMORY(diag);
    else
        run->leaves[run->n_leaves++] = p;
    return p;
}

static dop_status
leaf_value(void *user, const dop_graph *g, dop_node_id leaf, uint32_t t, dop_tensor *out, dop_diag *diag)
{
    dop_check_run *run = user;
    const dop_node *n = dop_node_at(g, leaf);
    const char *name = dop_node_s(g, leaf, DOP_A_name);
    (void)t;
    if (n->op == DOP_OP_input) {
        out->u = n->input == DOP_INPUT_tokens      ? run->step_ids
                 : n->input == DOP_INPUT_positions ? run->step_positions
                 : n->input == DOP_INPUT_types     ? run->step_types
                                                   : run->step_sequences;
        return DOP_OK;
    }
    float *f = take_leaf(run, out->count, diag);
    if (!f)
        return DOP_E_NOMEM;
    out->f = f;
    if (n->op == DOP_OP_state) {
        const dop_check_buffer *b = dop_check_buffer_of(run, leaf);
        if (b)
            memcpy(f, b->sent + dop_check_copy(run, b, leaf), (size_t)b->rows * b->cols * sizeof *f);
        return DOP_OK;
    }
    const dop_plan_tensor *w = dop_check_find_weight(run->plan, name);
    if (!w || (uint64_t)w->rows * w->cols * w->experts != out->count)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, run->plan->path, "the plan is damaged: no weight %s of %llu values", name,
                           (unsigned long long)out->count);
    for (uint32_t e = 0; e < w->experts; e++)
        for (uint32_t i = 0; i < w->rows; i++, f += w->cols)
            DOP_RETURN_IF_ERROR(dop_check_weight_row(run->plan, w, e, i, f, diag));
    return DOP_OK;
}

/* True for the row positions of attention over a whole cache, which are not read. */
static bool
is_unread_position(const dop_check_run *run, dop_node_id id)
{
    const dop_node_id root = run->r->info->root;
    const dop_node *n = dop_node_at(run->g, root);
    return dop_op_of(n->op)->root == DOP_ROOT_attention && n->src[3] == id &&
           dop_attention_reach(run->g, root).mask == DOP_MASK_cache;
}

static dop_status
set_zeros(dop_check_run *run, dop_node_id id)
{
    float *zeros = calloc((size_t)dop_node_rows(run->g, id, run->n_samples), sizeof *zeros);
    dop_status st = zeros ? dop_interp_set(run->it, id, zeros, run->diag) : DOP_NO_MEMORY(run->diag);
    free(zeros);
    return st;
}

/* Sets the samples' values of a node outside the region in the interpreter. */
static dop_status
set_outside(dop_check_run *run, dop_node_id id)
{
    const dop_graph *g = run->g;
    const dop_check_buffer *b = dop_check_buffer_of(run, id);
    const bool chosen = run->choice && id == dop_node_base(g, run->r->info->experts.ids, NULL);
    const uint32_t cols = dop_node_cols(g, id);
    if (dop_node_at(g, id)->op == DOP_OP_group_rows) /* computed by the interpreter */
        return DOP_OK;
    if (!b && !chosen && is_unread_position(run, id))
        return set_zeros(run, id);
    if (!b && !chosen)
        return DOP_FAIL_IN(run->diag, DOP_E_INPUT, run->plan->path,
                           "the plan is damaged: dispatch %s reads %%%s and has no argument for it",
                           dop_plan_string(run->plan, run->c->dispatch->label), dop_node_at(g, id)->name);
    bool tokens = dop_node_per_token(g, id);
    bool cache = dop_node_is(g, id, DOP_EFFECT);
    uint64_t rows = tokens  ? (uint64_t)run->n_samples * dop_node_row_multiple(g, id)
                    : cache ? dop_node_rows(g, id, 1)
                            : b->rows;
    float *values = calloc((size_t)(rows * cols), sizeof *values);
    if (!values)
        return DOP_NO_MEMORY(run->diag);
    const float *sent = chosen ? run->choice : b->sent + dop_check_copy(run, b, id);
    for (uint32_t i = 0; i < (cache ? b->rows : rows); i++)
        memcpy(values + (uint64_t)i * cols, sent + (uint64_t)(tokens ? dop_check_row(run, id, i) : i) * cols,
               cols * sizeof *values);
    dop_status st = dop_interp_set(run->it, id, values, run->diag);
    free(values);
    return st;
}

/* Computes a product or gathered rows without the interpreter, which would decode whole matrices. */
static dop_status
set_matrix_node(dop_check_run *run, dop_node_id id)
{
    const dop_graph *g = run->g;
    const dop_node *n = dop_node_at(g, id);
    bool product = is_product(g, id);
    const dop_plan_tensor *w = dop_check_find_weight(run->plan, dop_node_s(g, find_matrix_node(run, id), DOP_A_name));
    const dop_tensor *x;
    dop_status st = dop_interp_eval(run->it, n->src[!product], run->diag, &x);
    if (st != DOP_OK)
        return st;
    const bool experts = dop_node_has_experts(g, id);
    uint64_t rows = product ? x->count / (w ? w->cols : 1) : x->count;
    uint64_t cols = product ? dop_product_cols(g, id) : dop_node_cols(g, n->src[0]);
    if (!w || w->cols != (product ? dop_product_depth(g, id) : cols) ||
        (product && (experts ? w->rows != cols : w->rows < cols)))
        return DOP_FAIL_IN(run->diag, DOP_E_INPUT, run->plan->path, "the plan is damaged: the matrix of %%%s", n->name);
    const uint32_t n_cols = (uint32_t)cols; /* of a product: number of matrix rows that it reads */
    const uint64_t made = experts ? (uint64_t)run->n_samples * dop_node_cols(g, id) : rows * cols;
    float *out = malloc((size_t)made * sizeof *out);
    bool *want = product ? calloc(n_cols, sizeof *want) : NULL;
    float *activations = product ? malloc((size_t)x->count * sizeof *activations) : NULL;
    if (!out || (product && (!want || !activations))) {
        st = DOP_NO_MEMORY(run->diag);
        goto error;
    }
    for (uint64_t i = 0; i < made; i++)
        out[i] = NAN; /* not computed; values that depend on it are not compared */
    if (product) {
        choose_columns(run, w, n_cols, want);
        memcpy(activations, x->f, (size_t)x->count * sizeof *activations);
        /* Products of float weights and per-head products use activations without 8-bit rounding, even next to
         * integer products. */
        if (run->rounds && id != run->r->info->tail.id &&
            dop_type_of(dop_node_at(g, n->src[1])->type)->kind == DOP_KIND_QUANT)
            dop_check_round_rows(activations, rows, w->cols);
        st = experts ? dop_check_experts(run, id, w, activations, want, out)
                     : dop_check_matmul(run->plan, w, 0, n_cols, activations, (uint32_t)rows, want, out, run->diag);
    }
    const uint32_t first = product ? 0 : (uint32_t)dop_node_i(g, id, DOP_A_first),
                   of = product ? 0 : (uint32_t)dop_node_i(g, id, DOP_A_of);
    for (uint64_t i = 0; i < rows && st == DOP_OK && !product; i++)
        if (of && x->u[i] < of && x->u[i] - first >= w->rows) /* row belongs to another part of the table */
            memset(out + i * cols, 0, cols * sizeof *out);
        else
            st = dop_check_weight_row(run->plan, w, 0, x->u[i] - first, out + i * cols, run->diag);
    if (st == DOP_OK)
        st = dop_interp_set(run->it, id, out, run->diag);
error:
    free(out);
    free(want);
    free(activations);
    return st;
}

dop_status
dop_check_reference_open(dop_check_run *run)
{
    const dop_region *r = run->r;
    dop_graph *g = run->g;
    dop_leaf_provider leaves = {run, leaf_value};
    DOP_RETURN_IF_ERROR(dop_interp_create(g, run->n_samples, &leaves, run->diag, &run->it));
    /* Rounds the values stored by cache writes; other values inside the region are f32. */
    dop_interp_round_storage(run->it, true);
    for (uint32_t i = 0; i < r->info->n_reads; i++)
        if (!dop_node_is(g, r->info->reads[i], DOP_LEAF) || dop_node_at(g, r->info->reads[i])->op == DOP_OP_received)
            DOP_RETURN_IF_ERROR(set_outside(run, r->info->reads[i]));
    return DOP_OK;
}

dop_status
dop_check_reference_node(dop_check_run *run, dop_node_id id)
{
    return find_matrix_node(run, id) ? set_matrix_node(run, id) : DOP_OK;
}
