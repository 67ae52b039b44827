#include "passes/fuse.h"

#include <stdlib.h>

static bool
same_unit(dop_unit a, dop_unit b)
{
    return a.len == b.len && a.units == b.units;
}

bool
dop_region_unit(const dop_region *r, dop_unit *out_unit)
{
    *out_unit = r->info->unit;
    return r->info->has_unit;
}

/* Copies read through an index, not through neighbours: they cost a load like any other. */
static bool
is_load(dop_op op)
{
    return op == DOP_OP_gather || op == DOP_OP_last_row;
}

/* Does node n read a value that region p makes?  Gives it, and whether it comes through a slice. */
static bool
reads_of(const dop_graph *g, const dop_flow *f, dop_node_id n, dop_region_id p, uint32_t nth, dop_node_id *out_value,
         uint32_t *out_src, bool *out_sliced)
{
    const dop_node *x = dop_node_at(g, n);
    for (uint32_t i = 0; i < x->n_srcs; i++) {
        uint32_t start = 0;
        dop_node_id b = dop_node_base(g, x->src[i], &start);
        if (f->owner[b] != p || !dop_region_has(&g->regions[p], b))
            continue;
        if (nth-- == 0) {
            *out_value = b;
            *out_src = i;
            *out_sliced = dop_node_cols(g, x->src[i]) != dop_node_cols(g, b);
            return true;
        }
    }
    return false;
}

/* Nodes that region p makes, and those of region c that are made from them: what an epilogue must find in its own
 * workgroup.  NULL: out of memory. */
static bool *
values_behind(const dop_graph *g, const dop_flow *f, dop_region_id p, const dop_region *c)
{
    bool *made = calloc(g->n_nodes, sizeof *made);
    for (uint32_t i = 0; made && i < g->regions[p].n_nodes; i++)
        made[g->regions[p].nodes[i]] = f->owner[g->regions[p].nodes[i]] == p;
    for (uint32_t i = 0; made && i < c->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, c->nodes[i]);
        for (uint32_t k = 0; k < n->n_srcs; k++)
            made[c->nodes[i]] = made[c->nodes[i]] || made[dop_node_base(g, n->src[k], NULL)];
    }
    return made;
}

/* The nth of those that node n reads, and whether it comes through a slice. */
static bool
reads_made(const dop_graph *g, const bool *made, dop_node_id n, uint32_t nth, dop_node_id *out_value, uint32_t *out_src,
           bool *out_sliced)
{
    const dop_node *x = dop_node_at(g, n);
    for (uint32_t i = 0; i < x->n_srcs; i++) {
        dop_node_id b = dop_node_base(g, x->src[i], NULL);
        if (!made[b] || nth-- > 0)
            continue;
        *out_value = b;
        *out_src = i;
        *out_sliced = dop_node_cols(g, x->src[i]) != dop_node_cols(g, b);
        return true;
    }
    return false;
}

/* Same index space as the producer's value: one row and column of it make one element. */
static dop_reason
check_elementwise_reader(const dop_graph *g, const bool *made, dop_node_id n)
{
    dop_node_id value;
    uint32_t src;
    bool sliced;
    dop_op op = dop_node_at(g, n)->op;
    for (uint32_t i = 0; reads_made(g, made, n, i, &value, &src, &sliced); i++) {
        dop_node_id shape_of = op == DOP_OP_state_write ? dop_node_at(g, n)->src[1] : n;
        if (is_load(op))
            return DOP_REASON_cross_workgroup;
        if (op == DOP_OP_state_write && src != 1)
            return DOP_REASON_state_order;
        if (sliced || dop_node_cols(g, shape_of) != dop_node_cols(g, value) ||
            dop_node_per_token(g, shape_of) != dop_node_per_token(g, value))
            return DOP_REASON_tile_mismatch;
    }
    return DOP_REASON_none;
}

static dop_reason
join_row(const dop_graph *g, const bool *made, dop_region_id p, const dop_region *c)
{
    dop_unit unit;
    if (!dop_region_unit(&g->regions[p], &unit))
        return DOP_REASON_template_limit;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        dop_node_id n = c->nodes[i], value;
        uint32_t src;
        bool sliced;
        dop_op op = dop_node_at(g, n)->op;
        for (uint32_t k = 0; reads_made(g, made, n, k, &value, &src, &sliced); k++) {
            if (is_load(op))
                return DOP_REASON_cross_workgroup;
            if (op == DOP_OP_state_write && src != 1)
                return DOP_REASON_state_order;
            if (sliced)
                return DOP_REASON_tile_mismatch;
        }
        dop_unit u = dop_node_unit(g, n);
        if (dop_op_of(op)->reach == DOP_REACH_ELEM && u.len == 1 && u.units == 1)
            continue; /* arithmetic on a statistic */
        if (dop_node_at(g, n)->shape.rank == 1)
            continue; /* arithmetic on a weight vector: the same for every unit */
        if (!same_unit(u, unit)) {
            bool wider = dop_node_reach(g, n) == DOP_REACH_ROW && unit.units > 1;
            return wider ? DOP_REASON_reduction_barrier : DOP_REASON_tile_mismatch;
        }
    }
    return DOP_REASON_none;
}

static dop_reason
join_matmul(const dop_graph *g, const bool *made, dop_region_id p, const dop_region *c)
{
    const dop_region *reg = &g->regions[p];
    uint32_t matmuls = 0;
    for (uint32_t i = 0; i < reg->n_nodes; i++)
        matmuls += dop_node_at(g, reg->nodes[i])->op == DOP_OP_matmul;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        dop_node_id n = c->nodes[i];
        dop_op op = dop_node_at(g, n)->op;
        dop_reach reach = dop_node_reach(g, n);
        if (op == DOP_OP_argmax_part && reg->tpl == DOP_TPL_gemv && matmuls == 1)
            continue; /* a partial result of the rows this workgroup makes */
        if (reach == DOP_REACH_ROW)
            return DOP_REASON_reduction_barrier;
        if (reach == DOP_REACH_DIMS || reach == DOP_REACH_HEAD)
            return DOP_REASON_tile_mismatch;
        dop_reason r = check_elementwise_reader(g, made, n);
        if (r != DOP_REASON_none)
            return r;
        /* Sources that the region does not make are read at the same index too: no wider than the product. */
        if (reach == DOP_REACH_ALL && !is_load(op))
            return DOP_REASON_template_limit;
    }
    return DOP_REASON_none;
}

static dop_reason
join_elementwise(const dop_graph *g, const bool *made, dop_region_id p, const dop_region *c)
{
    dop_node_id first = g->regions[p].nodes[0];
    if (dop_node_at(g, first)->op == DOP_OP_state_write)
        return DOP_REASON_state_order;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        dop_node_id n = c->nodes[i];
        dop_node_id shape_of = dop_node_at(g, n)->op == DOP_OP_state_write ? dop_node_at(g, n)->src[1] : n;
        dop_reason r = check_elementwise_reader(g, made, n);
        if (r != DOP_REASON_none)
            return r;
        if (dop_node_cols(g, shape_of) != dop_node_cols(g, first))
            return DOP_REASON_tile_mismatch;
    }
    return DOP_REASON_none;
}

/* The merge of cache splits: by the last workgroup of a KV head to finish, where workgroups may tell each other so. */
static dop_reason
join_splits(const dop_pass_ctx *cx, const dop_graph *g, dop_region_id p, const dop_region *c)
{
    dop_node_id split = g->regions[p].info->root;
    if (c->n_nodes != 1 || dop_node_at(g, c->nodes[0])->op != DOP_OP_attn_combine)
        return DOP_REASON_template_limit;
    uint32_t kv_heads = dop_node_at(g, dop_node_at(g, split)->src[1])->shape.dim[1].mul;
    if (dop_node_base(g, dop_node_at(g, c->nodes[0])->src[0], NULL) != split || !cx->target->merges ||
        kv_heads > DOP_MAX_MERGES)
        return DOP_REASON_cross_workgroup;
    return DOP_REASON_none;
}

dop_status
dop_fuse_may_epilogue(dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer,
                      dop_reason *out_reason, dop_template *out_tpl)
{
    const dop_graph *g = f->g;
    const dop_region *p = &g->regions[producer], *c = &g->regions[consumer];
    *out_tpl = p->tpl;
    *out_reason = DOP_REASON_disabled;
    if (dop_fuse_disabled(cx, g, producer, consumer))
        return DOP_OK;
    *out_reason = DOP_REASON_template_limit;
    bool partial = c->tpl == DOP_TPL_argmax && dop_node_at(g, c->nodes[c->n_nodes - 1])->op == DOP_OP_argmax_part;
    if (c->tpl != DOP_TPL_elementwise && c->tpl != DOP_TPL_row && !partial) {
        if (c->tpl == DOP_TPL_gemv || c->tpl == DOP_TPL_matmul || c->tpl == DOP_TPL_attention)
            *out_reason = DOP_REASON_reduction_barrier;
        return DOP_OK;
    }
    bool *made = values_behind(g, f, producer, c);
    if (!made)
        return DOP_FAIL(cx->diag, DOP_E_NOMEM, "out of memory");
    switch (p->tpl) {
    case DOP_TPL_row:
        *out_reason = join_row(g, made, producer, c);
        break;
    case DOP_TPL_gemv:
    case DOP_TPL_matmul:
        *out_reason = join_matmul(g, made, producer, c);
        break;
    case DOP_TPL_elementwise:
        if (c->tpl == DOP_TPL_elementwise)
            *out_reason = join_elementwise(g, made, producer, c);
        break;
    case DOP_TPL_attention:
        if (c->tpl == DOP_TPL_elementwise && dop_node_at(g, p->info->root)->op == DOP_OP_attention)
            *out_reason = join_elementwise(g, made, producer, c);
        else if (c->tpl == DOP_TPL_elementwise)
            *out_reason = join_splits(cx, g, producer, c);
        break;
    default:
        break;
    }
    free(made);
    if (*out_reason == DOP_REASON_none && p->tpl != DOP_TPL_row &&
        dop_fuse_registers(g, p, c, p->tpl) > cx->target->registers)
        *out_reason = DOP_REASON_registers;
    if (*out_reason == DOP_REASON_none && dop_fuse_too_many_buffers(cx, f, producer, consumer, false))
        *out_reason = DOP_REASON_arguments;
    if (*out_reason != DOP_REASON_none)
        return DOP_OK;
    bool around = false;
    dop_status st = dop_flow_path_around(f, producer, consumer, cx->diag, &around);
    if (around)
        *out_reason = DOP_REASON_cycle;
    return st;
}

bool
dop_fuse_fits_shared(const dop_target *t, uint32_t len)
{
    return (uint64_t)len * 4 <= (uint64_t)t->shared_bytes / 4 * 3;
}

/* Is `value` used by region c as the activation side of a matmul, or as an element-wise operand? */
static dop_reason
matmul_hole(const dop_pass_ctx *cx, const dop_flow *f, const dop_region *p, dop_region_id producer, const dop_region *c)
{
    const dop_graph *g = f->g;
    bool combines = false;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        combines = combines || dop_node_at(g, p->nodes[i])->op == DOP_OP_attn_combine;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        dop_node_id value;
        uint32_t src;
        bool sliced;
        for (uint32_t k = 0; reads_of(g, f, c->nodes[i], producer, k, &value, &src, &sliced); k++) {
            const dop_node *n = dop_node_at(g, c->nodes[i]);
            if (n->op == DOP_OP_matmul && src != 0)
                return DOP_REASON_template_limit;
            if (combines && c->tpl == DOP_TPL_matmul)
                return DOP_REASON_cost;
            if (combines && n->op == DOP_OP_matmul && !dop_fuse_fits_shared(cx->target, dop_node_cols(g, n->src[0])))
                return DOP_REASON_shared_memory;
        }
    }
    return DOP_REASON_none;
}

static dop_reason
check_prologue(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer)
{
    const dop_graph *g = f->g;
    const dop_region *p = &g->regions[producer], *c = &g->regions[consumer];
    if (p->tpl != DOP_TPL_elementwise)
        return DOP_REASON_template_limit;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (dop_op_of(dop_node_at(g, p->nodes[i])->op)->traits & DOP_EFFECT)
            return DOP_REASON_state_order;
    dop_node_id value;
    uint32_t src;
    bool sliced;
    switch (c->tpl) {
    case DOP_TPL_elementwise:
    case DOP_TPL_row:
        return DOP_REASON_none;
    case DOP_TPL_gemv:
    case DOP_TPL_matmul:
        return matmul_hole(cx, f, p, producer, c);
    case DOP_TPL_attention:
        for (uint32_t i = 0; i < c->n_nodes; i++) {
            dop_op op = dop_node_at(g, c->nodes[i])->op;
            for (uint32_t k = 0; reads_of(g, f, c->nodes[i], producer, k, &value, &src, &sliced); k++)
                if ((op == DOP_OP_attention || op == DOP_OP_attn_split) && src != 0)
                    return DOP_REASON_template_limit;
        }
        return DOP_REASON_none;
    case DOP_TPL_argmax:
        return dop_node_at(g, c->nodes[c->n_nodes - 1])->op == DOP_OP_argmax_merge ? DOP_REASON_template_limit
                                                                                   : DOP_REASON_none;
    default:
        return DOP_REASON_template_limit;
    }
}

dop_reason
dop_fuse_may_prologue(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer)
{
    const dop_graph *g = f->g;
    const dop_region *p = &g->regions[producer], *c = &g->regions[consumer];
    if (dop_fuse_disabled(cx, g, producer, consumer))
        return DOP_REASON_disabled;
    dop_reason why = check_prologue(cx, f, producer, consumer);
    if (why == DOP_REASON_none && dop_fuse_registers(g, p, c, c->tpl) > cx->target->registers)
        why = DOP_REASON_registers;
    if (why == DOP_REASON_none && dop_fuse_too_many_buffers(cx, f, producer, consumer, true))
        why = DOP_REASON_arguments;
    return why;
}

bool
dop_fuse_feeds(const dop_graph *g, const dop_region *c, dop_node_id value, dop_node_id id)
{
    dop_node_id b = dop_node_base(g, id, NULL);
    if (b == value)
        return true;
    if (!dop_region_has(c, b))
        return false;
    const dop_node *n = dop_node_at(g, b);
    if (n->op == DOP_OP_matmul)
        return false;
    for (uint32_t i = 0; i < n->n_srcs; i++)
        if (dop_fuse_feeds(g, c, value, n->src[i]))
            return true;
    return false;
}

static dop_reason
stage_into_matmul(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer,
                  dop_unit unit)
{
    const dop_graph *g = f->g;
    const dop_region *p = &g->regions[producer], *c = &g->regions[consumer];
    dop_node_id mm = 0;
    for (uint32_t i = 0; i < c->n_nodes && !mm; i++)
        if (dop_node_at(g, c->nodes[i])->op == DOP_OP_matmul)
            mm = c->nodes[i];
    dop_node_id act = mm ? dop_node_at(g, mm)->src[0] : 0;
    if (!mm || unit.units != 1 || unit.len != dop_node_cols(g, act))
        return DOP_REASON_tile_mismatch;
    bool scalar = true; /* every value that c reads is a statistic and is wanted after the sum only */
    for (uint32_t i = 0; i < p->n_outs; i++) {
        dop_op op = dop_node_at(g, p->outs[i])->op;
        if (op == DOP_OP_state_write)
            return DOP_REASON_state_order;
        /* The load phase makes the rows that the product reads, no others: not all of them for the last one. */
        if (g->max_t > 1 && dop_node_per_token(g, p->outs[i]) != dop_node_per_token(g, mm))
            return DOP_REASON_tile_mismatch;
        scalar = scalar && op == DOP_OP_row_rms && p->n_outs == 1 && !dop_fuse_feeds(g, c, p->outs[i], act);
    }
    if (c->tpl == DOP_TPL_matmul)
        return scalar ? DOP_REASON_none : DOP_REASON_tile_mismatch;
    if (!scalar && !dop_fuse_fits_shared(cx->target, unit.len))
        return DOP_REASON_shared_memory;
    return DOP_REASON_none;
}

static dop_reason
stage_into_attention(const dop_flow *f, dop_region_id producer, dop_region_id consumer, dop_unit unit)
{
    const dop_graph *g = f->g;
    const dop_region *p = &g->regions[producer], *c = &g->regions[consumer];
    dop_node_id at = c->info->root;
    const dop_node *n = dop_node_at(g, at);
    uint32_t dim = dop_node_at(g, n->src[0])->shape.dim[2].mul;
    if (g->max_t != 1)
        return DOP_REASON_state_order; /* other workgroups read the rows of this step */
    if (unit.len != dim)
        return DOP_REASON_tile_mismatch;
    for (uint32_t i = 0; i < p->n_outs; i++) {
        bool used = false;
        for (uint32_t s = 0; s < 3; s++)
            used = used || dop_node_base(g, n->src[s], NULL) == p->outs[i];
        if (!used || dop_flow_n_readers(f, p->outs[i]) != 1)
            return DOP_REASON_multiple_readers;
        for (uint32_t k = 0; k < c->n_nodes; k++) /* an epilogue would need what only the load phase has */
            for (uint32_t s = 0; c->nodes[k] != at && s < dop_node_at(g, c->nodes[k])->n_srcs; s++)
                if (dop_node_base(g, dop_node_at(g, c->nodes[k])->src[s], NULL) == p->outs[i])
                    return DOP_REASON_multiple_readers;
    }
    return DOP_REASON_none;
}

/* Load phases have statistics and rotations; the norms in one piece (without split-norms) and softmax have a template of
 * their own only. */
static bool
can_stage(const dop_graph *g, const dop_region *r)
{
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        dop_op op = dop_node_at(g, r->nodes[i])->op;
        if (op == DOP_OP_rmsnorm || op == DOP_OP_layernorm || op == DOP_OP_softmax)
            return false;
    }
    return true;
}

dop_status
dop_fuse_may_stage(dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer,
                   dop_reason *out_reason)
{
    const dop_graph *g = f->g;
    dop_unit unit;
    *out_reason = DOP_REASON_disabled;
    if (dop_fuse_disabled(cx, g, producer, consumer))
        return DOP_OK;
    *out_reason = DOP_REASON_template_limit;
    if (g->regions[producer].tpl != DOP_TPL_row || !dop_region_unit(&g->regions[producer], &unit) ||
        !can_stage(g, &g->regions[producer]))
        return DOP_OK;
    switch (g->regions[consumer].tpl) {
    case DOP_TPL_gemv:
    case DOP_TPL_matmul:
        *out_reason = stage_into_matmul(cx, f, producer, consumer, unit);
        break;
    case DOP_TPL_attention:
        *out_reason = stage_into_attention(f, producer, consumer, unit);
        break;
    default:
        break;
    }
    if (*out_reason == DOP_REASON_none && dop_fuse_too_many_buffers(cx, f, producer, consumer, false))
        *out_reason = DOP_REASON_arguments;
    if (*out_reason != DOP_REASON_none)
        return DOP_OK;
    bool around = false;
    dop_status st = dop_flow_path_around(f, producer, consumer, cx->diag, &around);
    if (around)
        *out_reason = DOP_REASON_cycle;
    return st;
}

dop_status
dop_fuse_log(dop_pass_ctx *cx, const dop_graph *g, dop_region_id producer, dop_region_id consumer, const char *pass,
             dop_reason reason, uint32_t dispatches)
{
    const dop_region *p = &g->regions[producer], *c = &g->regions[consumer];
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, c->nodes[i]);
        if (dop_region_has(p, c->nodes[i]))
            continue;
        for (uint32_t k = 0; k < n->n_srcs; k++) {
            dop_node_id b = dop_node_base(g, n->src[k], NULL);
            if (!dop_region_has(p, b) || dop_region_has(c, b)) /* what c makes itself is no edge between the two */
                continue;
            dop_fusion_event e = {b, c->nodes[i], pass, reason, 2 * dop_node_bytes(g, b), dispatches};
            if (n->op == DOP_OP_state_write || dop_node_is_statistic(g, b))
                e.bytes = dop_node_bytes(g, b);
            if (dop_node_at(g, b)->op == DOP_OP_state_write)
                e.bytes = 2 * dop_node_bytes(g, dop_node_at(g, b)->src[1]);
            dop_status st = dop_fusion_log_add(cx->log, &e, cx->diag);
            if (st != DOP_OK)
                return st;
            dispatches = 0;
        }
    }
    return DOP_OK;
}
