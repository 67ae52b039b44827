/* split-kv: flash decoding, which splits the attention of a single token over the cache.  One workgroup per KV head would leave
 * most of a device idle.  The merge of the splits is a separate node, which can be fused into the prologue of the output
 * projection.  Software devices have expensive workgroups and few cores, so nothing is split there. */
#include "passes/rewrite.h"

static dop_status
split_attention(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id)
{
    const dop_graph *g = rw->from;
    const dop_node *o = dop_node_at(g, old);
    if (o->op != DOP_OP_attention || dop_node_i(g, old, DOP_A_mask) != DOP_MASK_causal || !dop_attention_cached(g, old))
        return DOP_OK;
    uint32_t kv_heads = dop_cache_heads(g, o->src[1]);
    uint32_t splits = rw->cx->target->cores / kv_heads;
    if (splits > rw->cx->target->schedule.split_most)
        splits = rw->cx->target->schedule.split_most;
    if (splits < 2)
        return DOP_OK;
    dop_node_id srcs[DOP_MAX_SRCS], part;
    for (uint32_t i = 0; i < o->n_srcs; i++)
        srcs[i] = rw->map[o->src[i]];
    dop_attr attrs[] = {{.f = dop_node_f(g, old, DOP_A_scale)}, {.i = dop_node_i(g, old, DOP_A_window)},
                        {.f = dop_node_f(g, old, DOP_A_cap)},   {.i = splits},
                        {.i = rw->cx->target->split_whole},     {.i = rw->cx->target->split_least},
                        {.i = dop_node_i(g, old, DOP_A_chunk)}, {.i = dop_node_i(g, old, DOP_A_alibi)},
                        {.i = dop_node_i(g, old, DOP_A_top)},   {.i = dop_node_i(g, old, DOP_A_alibi_root)}};
    dop_status st = dop_rewrite_add(rw, old, "part", DOP_OP_attn_split, srcs, o->n_srcs, attrs, NULL, &part);
    if (st != DOP_OK)
        return st;
    rw->changed = true;
    dop_attr n_splits = {.i = splits};
    dop_want want = {o->type, o->shape};
    return dop_rewrite_add(rw, old, NULL, DOP_OP_attn_combine, &part, 1, &n_splits, &want, out_id);
}

dop_status
dop_pass_split_kv(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    if (g->max_t != 1 || cx->target->cpu)
        return DOP_OK;
    return dop_rewrite_graph(cx, g, split_attention, NULL, changed);
}
