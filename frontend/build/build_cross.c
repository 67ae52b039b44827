/* Cross-attention in a decoder's graph: layers attend to encoder rows, whose keys and values are states. */
#include "frontend/build/build_cross.h"
#include "frontend/build/builder.h"

dop_node_id
dop_build_cross(builder *b, const dop_layer *l, dop_node_id x)
{
    const dop_attention *t = dop_layer_attention(l);
    const attention_attrs how = {.scale = t->scale, .mask = DOP_MASK_cache};
    const dop_type kv = b->opt->kv_type, v = b->opt->v_type != DOP_TYPE_none ? b->opt->v_type : kv;
    set_role(b, "cross_q");
    x = project(b, DOP_W_cross_q, norm(b, "cross_norm", DOP_W_cross_norm, x));
    const dop_node_id srcs[] = {reshape(b, "cross_qh", x, t->n_heads, t->head_dim), cross_state(b, b->a, "k", kv),
                                cross_state(b, b->a, "v", v), b->pos, b->seq};
    set_role(b, "cross_attn");
    x = add_attention_as(b, "cross_attn", srcs, 5, &how);
    set_role(b, "cross_o");
    return project(b, DOP_W_cross_o, reshape(b, "cross_r", x, 0, t->n_heads * t->head_dim));
}
