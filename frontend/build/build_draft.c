/* Parts for drafting layers: logits over part of the vocabulary; for EAGLE-3 drafters (dop_eagle) also the collection of the
 * model's residual streams, their embedding and their head. */
#include "frontend/build/build_draft.h"
#include "frontend/build/builder.h"

/* Returns the model's EAGLE drafter; NULL: none. */
static const dop_eagle *
get_eagle(const dop_arch *a)
{
    return a->drafts && a->layers[a->n_layers].eagle.vocab ? &a->layers[a->n_layers].eagle : NULL;
}

void
dop_build_tap(builder *b, uint32_t i, dop_node_id x)
{
    const dop_eagle *e = b->opt->sends ? get_eagle(b->a) : NULL;
    for (uint32_t k = 0; e && k < e->n; k++)
        if (e->from[k] == i)
            b->joined[k] = x;
}

/* Concatenates the streams, [T, n * hidden], in f32 because values of a stream may exceed the range of f16. */
static dop_node_id
concat_joined_streams(builder *b, const dop_eagle *e)
{
    dop_node_id x = b->joined[0];
    for (uint32_t k = 1; k < e->n; k++) {
        char name[24];
        snprintf(name, sizeof name, "join_%u", k + 1);
        x = op2(b, DOP_OP_concat, name, x, b->joined[k], NULL, DOP_TYPE_none);
    }
    return x;
}

dop_node_id
dop_build_joined(builder *b, dop_node_id x)
{
    const dop_eagle *e = get_eagle(b->a);
    if (!e)
        return x;
    b->layer = (int32_t)b->a->n_layers;
    set_role(b, "draft_join");
    x = concat_joined_streams(b, e);
    if (e->each_norm.kind != DOP_NORM_NONE) {
        x = plain_norm(b, "join_eu", &e->each_norm, reshape(b, "join_h", x, e->n, b->a->hidden));
        x = reshape(b, "join_r", x, 0, e->n * b->a->hidden);
        x = op2(b, DOP_OP_mul, "join_e", x, weight(b, DOP_W_draft_each_norm), NULL, b->act_type);
    }
    x = norm(b, "join_n", DOP_W_draft_join_norm, x);
    x = op2(b, DOP_OP_matmul, "join", x, weight(b, DOP_W_draft_join), NULL, DOP_TYPE_none);
    b->layer = -1;
    set_role(b, DOP_ROLE_HEAD);
    return x;
}

dop_node_id
dop_build_draft_embed(builder *b)
{
    const dop_eagle *e = get_eagle(b->a);
    if (!e || !e->embeds)
        return b->embed = weight(b, DOP_W_embed);
    b->layer = (int32_t)b->a->n_layers;
    const dop_node_id w = weight(b, DOP_W_draft_embed);
    b->layer = -1;
    return w;
}

dop_node_id
dop_build_draft_logits(builder *b, dop_node_id x, dop_node_id *out_list)
{
    const dop_eagle *e = get_eagle(b->a);
    b->layer = (int32_t)b->a->n_layers;
    dop_node_id w = e->head ? weight(b, DOP_W_draft_head) : 0;
    *out_list = weight(b, DOP_W_draft_ids);
    b->layer = -1;
    if (!w && !b->a->tied)
        w = weight(b, DOP_W_lm_head);
    else if (!w)
        w = b->embed ? b->embed : weight(b, DOP_W_embed);
    return op2(b, DOP_OP_matmul, "logits", x, w, NULL, DOP_TYPE_none);
}

dop_node_id
dop_build_output(builder *b, dop_node_id x, dop_node_id w)
{
    const uint32_t ids = b->opt->drafts ? b->opt->draft_ids : 0;
    if (!ids || b->status != DOP_OK)
        return op2(b, DOP_OP_matmul, "logits", x, w, NULL, DOP_TYPE_none);
    const dop_want part = {DOP_TYPE_f32, {2, {dop_node_at(b->g, x)->shape.dim[0], dop_dim_n(ids)}}};
    return add_node(b, DOP_OP_matmul, "logits", (dop_node_id[]){x, w}, 2, NULL, &part);
}
