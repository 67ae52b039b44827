/* Latent attention, and the index of sparse attention. */
#include "frontend/build/build_latent.h"
#include "frontend/build/build_attention.h"
#include "frontend/build/builder.h"

#include <math.h>

/* Returns the list of attended positions of each row; 0: all. The index's queries are projected from x, attention's low-rank
 * query vector; its keys and head weights from the layer's input. A context that is not longer than the list needs no index. */
static dop_node_id
choose_positions(builder *b, const dop_attention *t, dop_node_id x, dop_node_id in)
{
    const dop_indexer *i = &t->index;
    if (!i->top || i->top >= b->opt->max_s)
        return 0;
    if (!i->n_heads)
        return b->chosen;
    set_role(b, "index");
    dop_node_id q = reshape(b, "index_qh", project(b, DOP_W_index_q, x), i->n_heads, i->head_dim);
    dop_node_id k = norm(b, "index_kn", DOP_W_index_k_norm, project(b, DOP_W_index_k, in));
    k = reshape(b, "index_kh", k, 1, i->head_dim);
    q = dop_build_rotated(b, t, "index_qr", i->interleaved, q);
    k = dop_build_cache(b, t, "index", dop_build_rotated(b, t, "index_kr", i->interleaved, k), i->head_dim);
    dop_node_id w = op2(b, DOP_OP_matmul, "index_w", in, weight(b, DOP_W_index_weights), NULL, DOP_TYPE_none);
    const dop_attr scale = {.f = 1 / sqrt((double)i->n_heads * i->head_dim)}, top = {.i = i->top};
    const dop_node_id srcs[] = {q, k, w, b->pos, b->seq};
    dop_node_id scores = add_node(b, DOP_OP_index_scores, "index_s", srcs, 5, &scale, NULL);
    b->chosen = op2(b, DOP_OP_top_positions, "chosen", scores, b->pos, &top, DOP_TYPE_none);
    return b->chosen;
}

/* Multiplies each head of x by its own matrix. */
static dop_node_id
multiply_by_head(builder *b, const char *name, dop_role role, dop_node_id x)
{
    dop_want want = {.type = b->act_type};
    return add_node(b, DOP_OP_matmul_at, name, (dop_node_id[]){x, weight(b, role)}, 2, NULL, &want);
}

/* Multi-head latent attention in absorbed form: the cache holds latent vectors. The key up-projection is applied to the queries,
 * and the value up-projection to attention's result. DeepSeek-V2: https://arxiv.org/abs/2405.04434, section 2.1. */
dop_node_id
dop_build_latent(builder *b, const dop_attention *t, dop_node_id in)
{
    const dop_latent *l = &t->latent;
    const dop_type act = b->act_type;
    const bool pairs = t->rope >= 0 && b->a->ropes[t->rope].interleaved;
    dop_node_id x = l->q_rank ? norm(b, "q_an", DOP_W_q_a_norm, project(b, DOP_W_q_a, in)) : in;
    dop_node_id c = norm(b, "kv_an", DOP_W_kv_a_norm, project(b, DOP_W_kv_a, in));
    dop_node_id kr = project(b, DOP_W_k_rotated, in);
    const dop_node_id chosen = choose_positions(b, t, x, in);
    set_role(b, "q");
    const dop_role plain = l->q_rank ? DOP_W_q_plain : DOP_W_q_whole_plain;
    const dop_role rotated = l->q_rank ? DOP_W_q_rotated : DOP_W_q_whole_rotated;
    dop_node_id qp = reshape(b, "q_plainh", project(b, plain, x), t->n_heads, l->plain);
    dop_node_id qr = reshape(b, "q_rotatedh", project(b, rotated, x), t->n_heads, l->rotated);
    set_role(b, "q_up");
    qp = multiply_by_head(b, "q_up", DOP_W_k_up, qp);
    set_role(b, "attn");
    /* Rotated values come first, as in heads with partial RoPE, so that one kernel handles the whole head. */
    dop_node_id q = dop_build_rotated(b, t, "qr", pairs, op2(b, DOP_OP_concat, "q", qr, qp, NULL, act));
    kr = reshape(b, "k_rotatedh", kr, 1, l->rotated);
    kr = op2(b, DOP_OP_concat, "k", kr, reshape(b, "kv_ah", c, 1, l->rank), NULL, act);
    dop_node_id k = dop_build_cache(b, t, "kv", dop_build_rotated(b, t, "kr", pairs, kr), l->rank + l->rotated);
    if (b->status != DOP_OK)
        return 0;
    dop_want values = {.shape = dop_node_at(b->g, k)->shape};
    values.shape.dim[3] = dop_dim_n(l->rank);
    dop_node_id v = add_node(b, DOP_OP_slice, "v_cache", &k, 1, &(dop_attr){.i = l->rotated}, &values);
    if (t->tempered)
        q = op2(b, DOP_OP_mul, "qt", q, dop_build_temper(b), NULL, act);
    dop_node_id y = dop_build_attention(b, t, q, k, v, chosen);
    set_role(b, "v_up");
    y = multiply_by_head(b, "v_up", DOP_W_v_up, y);
    set_role(b, "o");
    y = reshape(b, "attn_r", y, 0, t->n_heads * l->value_dim);
    return project(b, DOP_W_o, y);
}
