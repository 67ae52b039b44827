/* Common parts of all kinds of attention: RoPE, caches, and the op itself. */
#include "frontend/build/build_attention.h"

#include "frontend/build/builder.h"
#include "ir/graph/cache_row.h"
#include "ir/graph/dims.h"

dop_node_id
dop_build_rotated(builder *b, const dop_attention *t, const char *name, bool interleaved, dop_node_id x)
{
    if (t->rope < 0 || !x)
        return x;
    const dop_rope *r = &b->a->ropes[t->rope];
    dop_attr attrs[] = {{.i = r->dims}, {.i = interleaved}, {.i = dop_rope_low(b->opt->max_s)}};
    dop_want want = {.type = b->act_type};
    const dop_node_id srcs[] = {x, b->pos, b->ropes[t->rope], b->shift, b->turns, b->places[t->rope]};
    return add_node(b, DOP_OP_rope, name, srcs, b->places[t->rope] ? 6 : 3, attrs, &want);
}

/* Returns the number of positions in a layer's cache: the context, or a ring buffer if attention has a window. The ring holds the
 * window, the rows added by a step, and rows that may be dropped again. Its size is a multiple of 16, because matrix units read
 * 16 contiguous positions. */
static dop_dim
get_cache_rows(const builder *b, const dop_attention *t)
{
    enum { DROPPED = 64, TILE = 16 };
    const uint32_t sees = t->chunk && (!t->window || t->chunk < t->window) ? t->chunk : t->window;
    const uint64_t rows = dop_align_u64((uint64_t)sees + b->opt->max_rows + DROPPED, TILE);
    if (sees == 0 || b->opt->max_rows == 0 || rows >= b->opt->max_s)
        return (dop_dim){1, DOP_SYM_S};
    return (dop_dim){(uint32_t)rows, DOP_SYM_R};
}

/* Returns the cache of a layer and role, as it was before the step. */
static dop_node_id
add_kept_cache(builder *b, int32_t layer, const dop_attention *t, const char *role, uint32_t dim)
{
    char name[48], node_name[64];
    dop_shape shape = {4, {{1, DOP_SYM_Q}, get_cache_rows(b, t), dop_dim_n(t->n_kv_heads), dop_dim_n(dim)}};
    snprintf(name, sizeof name, "L%d.%s", (int)layer, role);
    snprintf(node_name, sizeof node_name, "s.%s", name);
    dop_type type = strcmp(role, "v") == 0 && b->opt->v_type != DOP_TYPE_none ? b->opt->v_type : b->opt->kv_type;
    if (dop_cache_blocks(type) && !dop_shape_blocks(&shape, type) && b->status == DOP_OK)
        b->status =
            DOP_FAIL(b->diag, DOP_E_INPUT,
                     "a %s cache has blocks of %d values, and what layer %d keeps as %s has heads of %u values, "
                     "no multiple of that: use `kv` f16",
                     dop_type_of(type)->name, DOP_CACHE_BLOCK, (int)layer, role, dim);
    return leaf(b, DOP_OP_state, node_name, name, type, &shape);
}

/* Appends x to a cache of the layer. The result becomes an output of the graph. */
dop_node_id
dop_build_cache(builder *b, const dop_attention *t, const char *role, dop_node_id x, uint32_t dim)
{
    char name[48];
    const dop_node_id old = add_kept_cache(b, b->layer, t, role, dim);
    snprintf(name, sizeof name, "%s_cache", role);
    dop_node_id id = add_node(b, DOP_OP_state_write, name, (dop_node_id[]){old, x, b->pos, b->seq}, 4, NULL, NULL);
    b->states[b->n_states++] = id;
    return id;
}

void
dop_build_shared_caches(builder *b, const dop_attention *t, dop_node_id out[2])
{
    dop_node_id *of = b->caches[t->shares - 1];
    if (!of[0]) { /* the layer belongs to another program */
        const int32_t layer = (int32_t)t->shares - 1;
        of[0] = add_kept_cache(b, layer, t, "k", t->head_dim);
        of[1] = add_kept_cache(b, layer, t, "v", dop_value_dim(t));
    }
    out[0] = of[0];
    out[1] = of[1];
}

/* Returns the temperature of each row, a factor on its queries, [T,1,1]. */
dop_node_id
dop_build_temper(builder *b)
{
    dop_node_id x = op2(b, DOP_OP_gather, "temper_p", b->temper, b->pos, NULL, DOP_TYPE_none);
    return reshape(b, "temper_h", x, 1, 1);
}

dop_node_id
dop_build_attention(builder *b, const dop_attention *t, dop_node_id q, dop_node_id k, dop_node_id v, dop_node_id chosen)
{
    dop_node_id srcs[7] = {q, k, v, b->pos, b->seq, weight(b, DOP_W_sinks)};
    if (t->relative)
        srcs[5] = b->relative;
    uint32_t n_srcs = srcs[5] ? 6 : 5;
    const bool blocks = !t->both && b->picture_lasts && (t->window || !b->m->vision->sees_near);
    if (t->both || blocks)
        srcs[n_srcs++] = blocks ? b->picture_lasts : b->lasts;
    if (chosen)
        srcs[n_srcs++] = chosen;
    /* A window or chunk as long as the cache is ignored. */
    const uint32_t window = t->window < b->opt->max_s ? t->window : 0, chunk = t->chunk < b->opt->max_s ? t->chunk : 0;
    const attention_attrs how = {.scale = t->scale,
                                 .cap = t->softcap,
                                 .window = window,
                                 .chunk = chunk,
                                 .alibi = t->alibi,
                                 .alibi_root = t->alibi && t->alibi_scaled ? t->head_dim : 0,
                                 .mask = t->both  ? DOP_MASK_full
                                         : blocks ? DOP_MASK_segments
                                                  : DOP_MASK_causal,
                                 .relative = t->relative ? b->a->encoder.relative.most : 0,
                                 .top = chosen ? t->index.top : 0};
    return add_attention(b, srcs, n_srcs, &how);
}
