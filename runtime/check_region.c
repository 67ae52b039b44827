/* One case: values to the device, the dispatch, and the reference for the same values. */
#include "runtime/check_region.h"

#include "ir/cache_row.h"
#include "ir/region.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double max_products = 1e8; /* multiplications of one case that the host does */

bool
dop_check_uses_position(const dop_graph *g, const dop_region *r)
{
    for (uint32_t i = 0; i < r->info->n_reads; i++) {
        dop_node_id id = r->info->reads[i];
        if (dop_node_at(g, id)->op == DOP_OP_attn_split || /* which parts there are depends on it */
            (dop_node_is_input(g, id) && strcmp(dop_node_s(g, id, DOP_A_name), "positions") == 0))
            return true;
    }
    return false;
}

bool
dop_check_uses_parity(const dop_graph *g, const dop_region *r)
{
    bool uses = false;
    for (uint32_t i = 0; i < r->info->n_reads; i++) {
        const dop_node *n = dop_node_at(g, dop_storage_node(g, r->info->reads[i]));
        uses = uses || (n->op == DOP_OP_state && !dop_shape_appends(&n->shape));
    }
    for (uint32_t i = 0; i < r->n_nodes; i++)
        uses = uses || (dop_check_picks(g, r->nodes[i]) && dop_graph_replaces(g));
    return uses;
}

static bool
is_product(const dop_graph *g, dop_node_id id)
{
    return dop_op_of(dop_node_at(g, id)->op)->root == DOP_ROOT_product;
}

/* The matrix of the plan that the node multiplies with, or whose rows it copies; 0: neither.  Of several, of experts or of heads,
 * the interpreter takes those that it reads; but it does not round activations. */
static dop_node_id
matrix_of(const dop_check_run *run, dop_node_id id)
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

/* --- which tokens and columns ---------------------------------------------------------------------------------------- */

/* Does anything depend on other rows of the step than its own? */
static bool
reads_rows(const dop_graph *g, const dop_region *r)
{
    for (uint32_t i = 0; i < r->n_nodes; i++)
        for (uint32_t k = 0; k < dop_node_at(g, r->nodes[i])->n_srcs; k++) {
            uint8_t row = dop_node_access(g, r->nodes[i], k)->axis[DOP_AXIS_row];
            bool state = dop_node_is(g, r->nodes[i], DOP_EFFECT) && dop_node_at(g, r->nodes[i])->n_srcs == 3;
            if (row == DOP_ACCESS_few || row == DOP_ACCESS_all || state)
                return true;
        }
    return false;
}

static void
choose_samples(dop_check_run *run)
{
    const dop_graph *g = run->g;
    uint32_t t = run->c->n_tokens, n = t < DOP_CHECK_SAMPLES ? t : DOP_CHECK_SAMPLES;
    const dop_analysis *a = run->r->info;
    if (a->attention) {
        double each = 3.0 * dop_node_cols(g, dop_node_at(g, a->attention)->src[0]) * (run->c->pos + t);
        while (n > 2 && each * n > max_products)
            n--;
    }
    if (a->n_writes || reads_rows(g, run->r)) /* every token of the step is read by others */
        n = t;
    run->n_samples = n;
    for (uint32_t i = 0; i < n; i++)
        run->sample[i] = n == 1 ? t - 1 : (uint32_t)((uint64_t)i * (t - 1) / (n - 1));
    for (uint32_t i = 0; i < n; i++) {
        run->step_positions[i] = run->before.rows[run->sample[i]].position;
        run->step_sequences[i] = run->before.rows[run->sample[i]].sequence;
        run->step_ids[i] = run->before.rows[run->sample[i]].token;
    }
}

/* Columns are compared in blocks, so that heads and rotary pairs stay whole; 0: an output needs whole rows, or columns of
 * other numbers than its own. */
static uint32_t
column_block(const dop_check_run *run)
{
    const dop_graph *g = run->g;
    const dop_region *r = run->r;
    const dop_analysis *a = r->info;
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
choose_columns(const dop_check_run *run, const dop_plan_tensor *w, bool *want)
{
    uint32_t block = column_block(run), n = w->rows;
    double affordable = max_products / ((double)run->n_samples * w->cols);
    /* What a head's product behind others reads is made of all of them. */
    memset(want, block == 0 || affordable >= n || run->r->info->tail, n);
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

/* --- the reference ------------------------------------------------------------------------------------------------- */

static float *
take_leaf(dop_check_run *run, uint64_t n, dop_diag *diag)
{
    float *p = run->n_leaves < DOP_CHECK_LEAVES && n <= SIZE_MAX / sizeof *p ? calloc((size_t)n, sizeof *p) : NULL;
    if (!p)
        (void)DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
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
        out->u = strcmp(name, "tokens") == 0      ? run->step_ids
                 : strcmp(name, "positions") == 0 ? run->step_positions
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
    dop_status st = DOP_OK;
    for (uint32_t e = 0; e < w->experts; e++)
        for (uint32_t i = 0; i < w->rows && st == DOP_OK; i++, f += w->cols)
            st = dop_check_weight_row(run->plan, w, e, i, f, diag);
    return st;
}

/* Values of the samples of an outside node. */
static dop_status
set_outside(dop_check_run *run, dop_node_id id)
{
    const dop_graph *g = run->g;
    const dop_check_buffer *b = dop_check_buffer_of(run, id);
    const bool chosen = run->choice && id == dop_node_base(g, run->r->info->ids, NULL);
    const uint32_t cols = dop_node_cols(g, id);
    if (dop_node_at(g, id)->op == DOP_OP_group_rows) /* the interpreter makes them */
        return DOP_OK;
    if (!b && !chosen)
        return DOP_FAIL_IN(run->diag, DOP_E_INPUT, run->plan->path,
                           "the plan is damaged: dispatch %s reads %%%s and has no argument for it",
                           dop_plan_string(run->plan, run->c->dispatch->label), dop_node_at(g, id)->name);
    bool tokens = dop_node_per_token(g, id);
    bool cache = dop_node_is(g, id, DOP_EFFECT);
    uint64_t rows = tokens ? run->n_samples : cache ? dop_node_rows(g, id, 1) : b->rows;
    float *values = calloc((size_t)(rows * cols), sizeof *values);
    if (!values)
        return DOP_FAIL(run->diag, DOP_E_NOMEM, "out of memory");
    const float *sent = chosen ? run->choice : b->sent + dop_check_copy(run, b, id);
    for (uint32_t i = 0; i < (cache ? b->rows : rows); i++)
        memcpy(values + (uint64_t)i * cols, sent + (uint64_t)(tokens ? run->sample[i] : i) * cols,
               cols * sizeof *values);
    dop_status st = dop_interp_set(run->it, id, values, run->diag);
    free(values);
    return st;
}

/* Products and gathered rows, for which the interpreter would decode whole matrices. */
static dop_status
set_matrix_node(dop_check_run *run, dop_node_id id)
{
    const dop_graph *g = run->g;
    const dop_node *n = dop_node_at(g, id);
    bool product = is_product(g, id);
    const dop_plan_tensor *w = dop_check_find_weight(run->plan, dop_node_s(g, matrix_of(run, id), DOP_A_name));
    const dop_tensor *x;
    dop_status st = dop_interp_eval(run->it, n->src[!product], run->diag, &x);
    if (st != DOP_OK)
        return st;
    const bool experts = dop_node_has_experts(g, id);
    uint64_t rows = product ? x->count / (w ? w->cols : 1) : x->count;
    uint64_t cols = product ? dop_product_cols(g, id) : dop_node_cols(g, n->src[0]);
    if (!w || w->cols != (product ? dop_product_depth(g, id) : cols) || (product && w->rows != cols))
        return DOP_FAIL_IN(run->diag, DOP_E_INPUT, run->plan->path, "the plan is damaged: the matrix of %%%s", n->name);
    const uint64_t made = experts ? (uint64_t)run->n_samples * dop_node_cols(g, id) : rows * cols;
    float *out = malloc((size_t)made * sizeof *out);
    bool *want = product ? calloc(w->rows, sizeof *want) : NULL;
    float *acts = product ? malloc((size_t)x->count * sizeof *acts) : NULL;
    if (!out || (product && (!want || !acts))) {
        st = DOP_FAIL(run->diag, DOP_E_NOMEM, "out of memory");
        goto error;
    }
    for (uint64_t i = 0; i < made; i++)
        out[i] = NAN; /* not computed: nothing that is made of it is compared */
    if (product) {
        choose_columns(run, w, want);
        memcpy(acts, x->f, (size_t)x->count * sizeof *acts);
        /* Beside integer products there may be some of floats, and a product of heads behind them takes their values as they are. */
        if (run->rounds && id != run->r->info->tail &&
            dop_type_of(dop_node_at(g, n->src[1])->type)->kind == DOP_KIND_QUANT)
            dop_check_round_rows(acts, rows, w->cols);
        st = experts ? dop_check_experts(run, id, w, acts, want, out)
                     : dop_check_matmul(run->plan, w, 0, acts, (uint32_t)rows, want, out, run->diag);
    }
    const uint32_t first = product ? 0 : (uint32_t)dop_node_i(g, id, DOP_A_first),
                   of = product ? 0 : (uint32_t)dop_node_i(g, id, DOP_A_of);
    for (uint64_t i = 0; i < rows && st == DOP_OK && !product; i++)
        if (of && x->u[i] < of && x->u[i] - first >= w->rows) /* in another part of the table */
            memset(out + i * cols, 0, cols * sizeof *out);
        else
            st = dop_check_weight_row(run->plan, w, 0, x->u[i] - first, out + i * cols, run->diag);
    if (st == DOP_OK)
        st = dop_interp_set(run->it, id, out, run->diag);
error:
    free(out);
    free(want);
    free(acts);
    return st;
}

dop_status
dop_check_reference(dop_check_run *run)
{
    const dop_region *r = run->r;
    dop_graph *g = run->g;
    dop_leaf_provider leaves = {run, leaf_value};
    dop_status st = dop_interp_create(g, run->n_samples, &leaves, run->diag, &run->it);
    if (st != DOP_OK)
        return st;
    dop_interp_round_storage(run->it, true); /* of what cache writes store; other types inside are f32 now */
    for (uint32_t i = 0; i < r->info->n_reads && st == DOP_OK; i++)
        if (!dop_node_is(g, r->info->reads[i], DOP_LEAF) || dop_node_at(g, r->info->reads[i])->op == DOP_OP_received)
            st = set_outside(run, r->info->reads[i]);
    for (uint32_t i = 0; i < r->n_nodes && st == DOP_OK; i++)
        if (matrix_of(run, r->nodes[i]))
            st = set_matrix_node(run, r->nodes[i]);
        else if (dop_check_stores(run, r->nodes[i]))
            st = dop_check_compare_cache(run, r->nodes[i]);
    return st;
}

/* --- the device ------------------------------------------------------------------------------------------------------ */

static bool
is_out(const dop_check_run *run, dop_node_id node)
{
    for (uint32_t i = 0; i < run->r->n_outs; i++)
        if (dop_storage_node(run->g, run->r->outs[i]) == node)
            return true;
    return false;
}

/* Is this outside value what an id is picked from? */
static bool
feeds_argmax(const dop_check_run *run, dop_node_id node)
{
    return run->r->tpl == DOP_TPL_argmax &&
           dop_node_base(run->g, dop_node_at(run->g, run->r->info->root)->src[0], NULL) == node;
}

/* Values of all copies. */
static uint64_t
n_values(const dop_check_buffer *b)
{
    return (uint64_t)b->copies * b->rows * b->cols;
}

static void
fill_buffer(dop_check_run *run, dop_check_buffer *b)
{
    const dop_graph *g = run->g;
    uint64_t n = n_values(b), half = n / 2;
    dop_check_fill fill = {g, b->node, b->rows, run->c->pos, feeds_argmax(run, b->node)};
    if (b->copies == 2) {
        uint64_t current = dop_check_copy(run, b, b->node);
        for (uint64_t i = 0; i < n; i++)
            b->sent[i] = is_out(run, b->node) && i / half != current / half ? NAN : dop_check_normal(&run->random);
    } else if (dop_node_at(g, b->node)->op == DOP_OP_state) {
        uint32_t end = run->c->pos + run->c->n_tokens;
        for (uint64_t i = 0; i < n; i++)
            b->sent[i] = (i < (uint64_t)end * b->cols ? 1.0f : 100.0f) * dop_check_normal(&run->random);
    } else if (!is_out(run, b->node)) {
        dop_node_id chosen = run->choice ? dop_node_base(g, run->r->info->ids, NULL) : 0;
        if (run->choice && dop_node_at(g, b->node)->op == DOP_OP_group_rows)
            dop_check_fill_blocks(run, b->node, b->sent);
        else if (b->node == chosen)
            memcpy(b->sent, run->choice, (size_t)n * sizeof *b->sent);
        else
            dop_check_fill_values(&run->random, &fill, b->sent);
    } else {
        bool split = dop_node_at(g, b->node)->op == DOP_OP_attn_split;
        for (uint64_t i = 0; i < n; i++)
            b->sent[i] = !split ? NAN
                         : i % b->cols % dop_node_at(g, b->node)->shape.dim[2].mul ==
                                 dop_node_at(g, b->node)->shape.dim[2].mul - 2
                             ? -1e30f
                             : 0.0f;
    }
}

/* Values that are encoded together: a row of a cache in blocks, else all. */
static uint64_t
n_together(const dop_check_buffer *b)
{
    return dop_cache_blocks(b->type) ? b->cols : n_values(b);
}

static bool
raw_bytes(const dop_check_run *run, const dop_check_buffer *b, uint64_t *out)
{
    if (!dop_cache_blocks(b->type))
        return dop_type_row_bytes(b->type, n_values(b), out);
    *out = (uint64_t)b->rows * dop_cache_row_bytes(b->type, b->cols);
    return dop_shape_blocks(&dop_node_at(run->g, b->node)->shape, b->type);
}

static void
encode(const dop_check_run *run, const dop_check_buffer *b, float *values, char *raw)
{
    uint64_t n = n_values(b), one = n_together(b), bytes = 0;
    (void)raw_bytes(run, b, &bytes);
    for (uint64_t i = 0; i < n; i += one)
        dop_check_encode(b->type, values + i, one, raw + bytes / (n / one) * (i / one));
}

static void
decode(const dop_check_run *run, const dop_check_buffer *b, const char *raw, float *out)
{
    uint64_t n = n_values(b), one = n_together(b), bytes = 0;
    (void)raw_bytes(run, b, &bytes);
    for (uint64_t i = 0; i < n; i += one)
        dop_check_decode(b->type, raw + bytes / (n / one) * (i / one), one, out + i);
}

static dop_status
send_buffer(dop_check_run *run, dop_check_buffer *b)
{
    const dop_graph *g = run->g;
    uint64_t n = n_values(b), bytes = 0;
    bool poison = dop_node_at(g, b->node)->op == DOP_OP_attn_split && !is_out(run, b->node);
    (void)raw_bytes(run, b, &bytes);
    float *values = malloc((size_t)n * sizeof *values);
    void *raw = malloc((size_t)bytes);
    dop_status st = DOP_OK;
    if (!values || !raw) {
        st = DOP_FAIL(run->diag, DOP_E_NOMEM, "out of memory");
        goto error;
    }
    encode(run, b, b->sent, raw);
    if (poison) {
        memcpy(values, b->sent, (size_t)n * sizeof *values);
        dop_check_poison_splits(&(dop_check_fill){g, b->node, b->rows, run->c->pos, false}, values);
        encode(run, b, values, raw);
    }
    st = dop_check_write(run->c->device, b->arg->slot, b->arg->offset, raw, bytes, run->diag);
error:
    free(values);
    free(raw);
    return st;
}

static dop_status
receive_buffer(dop_check_run *run, dop_check_buffer *b)
{
    uint64_t n = n_values(b), bytes = 0;
    (void)raw_bytes(run, b, &bytes);
    void *raw = malloc((size_t)bytes);
    b->got = malloc((size_t)n * sizeof *b->got);
    dop_status st = raw && b->got ? DOP_OK : DOP_FAIL(run->diag, DOP_E_NOMEM, "out of memory");
    if (st == DOP_OK)
        st = dop_check_read(run->c->device, b->arg->slot, b->arg->offset, raw, bytes, run->diag);
    if (st == DOP_OK)
        decode(run, b, raw, b->got);
    free(raw);
    return st;
}

/* Arguments by the names of their values: weights stay as they are, everything else gets values. */
static dop_status
prepare_buffers(dop_check_run *run)
{
    const dop_graph *g = run->g;
    const dop_plan_dispatch *d = run->c->dispatch;
    for (uint32_t i = 0; i < d->n_args; i++) {
        const dop_plan_arg *a = &run->plan->args[d->first_arg + i];
        const char *name = dop_plan_string(run->plan, a->value);
        dop_node_id id = 1;
        if (a->slot == run->plan->step_slot || a->slot == DOP_ARG_NUMBERS ||
            run->plan->slots[a->slot].kind == DOP_SLOT_COUNTS) /* its counts are zero between dispatches */
            continue;
        while (id < g->n_nodes && strcmp(dop_node_at(g, id)->name, name) != 0)
            id++;
        if (id == g->n_nodes)
            return DOP_FAIL_IN(run->diag, DOP_E_INPUT, run->plan->path,
                               "the plan is damaged: dispatch %s has an argument %%%s that its graph does not have",
                               dop_plan_string(run->plan, d->label), name);
        const dop_node *n = dop_node_at(g, id);
        /* Keys and values may be parts of one row of a cache, which the kernel then reads through two views. */
        if (n->op == DOP_OP_weight || dop_check_buffer_of(run, id))
            continue;
        dop_check_buffer *b = &run->buffers[run->n_buffers++];
        uint64_t rows = dop_node_rows(g, id, g->max_t), bytes = 0;
        if (n->shape.rank == 1 && n->shape.dim[0].sym == DOP_SYM_1)
            rows = 1;
        uint64_t end = (uint64_t)run->c->pos + run->c->n_tokens + 16;
        bool appends = dop_shape_appends(&n->shape);
        if (appends && rows > end)
            rows = end;
        uint32_t copies = n->op == DOP_OP_state && !appends ? 2 : 1;
        *b = (dop_check_buffer){id, a, copies, (uint32_t)rows, dop_node_cols(g, id), run->types[id], NULL, NULL};
        bool known =
            b->type == DOP_TYPE_f32 || b->type == DOP_TYPE_f16 || b->type == DOP_TYPE_u32 || dop_cache_blocks(b->type);
        if (!known || !raw_bytes(run, b, &bytes) || bytes > a->size)
            return DOP_FAIL_IN(run->diag, DOP_E_INPUT, run->plan->path,
                               "the plan is damaged: argument %%%s has no room", name);
        b->sent = malloc((size_t)n_values(b) * sizeof *b->sent);
        if (!b->sent)
            return DOP_FAIL(run->diag, DOP_E_NOMEM, "out of memory");
        fill_buffer(run, b);
        dop_status st = send_buffer(run, b);
        if (st != DOP_OK)
            return st;
    }
    return DOP_OK;
}

/* Picks are counted across the end of the ring. */
static void
prepare_step(dop_check_run *run)
{
    dop_step *s = &run->before;
    s->n_rows = run->c->n_tokens;
    s->n_out = 3 * DOP_STEP_RING - 1;
    for (uint32_t i = 0; i < DOP_STEP_MAX_ROWS; i++)
        s->rows[i] = (dop_row){dop_check_u32(&run->random) % run->plan->model->vocab, run->c->pos + i, 0, 0};
    for (uint32_t i = 0; i < run->g->max_q && i < DOP_STEP_MAX_SEQUENCES; i++)
        s->parity[i] = run->c->parity;
    for (uint32_t i = 0; i < DOP_STEP_RING; i++)
        s->ids[i] = 0xfffffff0u;
}

/* Values inside the region, and views of them, are f32 whatever they would be stored as; what cache writes store is read back,
 * and so are the heads of which there is a product each. */
static void
widen_types(dop_check_run *run)
{
    for (dop_node_id id = 1; id < run->g->n_nodes; id++) {
        const dop_node_id base = dop_node_base(run->g, id, NULL);
        if (dop_node_at(run->g, id)->type == DOP_TYPE_f16 && dop_region_has(run->r, base) &&
            base != run->r->info->tail_of && !dop_node_is(run->g, base, DOP_EFFECT))
            dop_node_at(run->g, id)->type = DOP_TYPE_f32;
    }
}

dop_status
dop_check_run_case(const dop_check_case *c, dop_diag *diag, dop_check_result *result)
{
    dop_status st = DOP_OK;
    dop_check_run *run = calloc(1, sizeof *run);
    dop_type *types = calloc(c->g->n_nodes, sizeof *types);
    if (!run || !types) {
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
        goto error;
    }
    run->c = c;
    run->plan = c->plan;
    run->g = c->g;
    run->r = &c->g->regions[c->dispatch->region];
    run->diag = diag;
    run->result = result;
    run->random.state = c->seed;
    run->rounds = c->plan->kernels[c->dispatch->kernel].rounding == DOP_ROUNDING_i8;
    run->types = types;
    for (dop_node_id id = 1; id < c->g->n_nodes; id++)
        types[id] = dop_node_at(c->g, id)->type;
    widen_types(run);
    prepare_step(run);
    choose_samples(run);
    if ((st = dop_check_choose(run)) != DOP_OK || (st = prepare_buffers(run)) != DOP_OK)
        goto error;
    volatile dop_step *step = dop_replay_step(&c->device->model->replay);
    memcpy((void *)(uintptr_t)step, &run->before, sizeof run->before);
    if ((st = dop_check_dispatch(c->device, c->dispatch, diag)) != DOP_OK)
        goto error;
    memcpy(&run->after, (const void *)(uintptr_t)step, sizeof run->after);
    for (uint32_t i = 0; i < run->n_buffers && st == DOP_OK; i++)
        if (is_out(run, run->buffers[i].node))
            st = receive_buffer(run, &run->buffers[i]);
    if (st == DOP_OK)
        st = dop_check_compare(run);
error:
    for (dop_node_id id = 1; types && run && run->g && id < c->g->n_nodes; id++)
        dop_node_at(c->g, id)->type = types[id];
    for (uint32_t i = 0; run && i < run->n_buffers; i++) {
        free(run->buffers[i].sent);
        free(run->buffers[i].got);
    }
    if (run) {
        dop_interp_destroy(run->it);
        for (uint32_t i = 0; i < run->n_leaves; i++)
            free(run->leaves[i]);
    }
    if (run)
        free(run->choice);
    free(run);
    free(types);
    return st;
}
