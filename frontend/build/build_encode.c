/* Parts for encoder graphs: inputs about whole texts, token types, and dense layers after the final norm. */
#include "frontend/build/build_encode.h"
#include "frontend/build/build_activation.h"
#include "frontend/build/builder.h"

#include <math.h>

void
dop_build_encode_inputs(builder *b)
{
    const dop_encoder *e = &b->a->encoder;
    const dop_shape ids = {1, {{1, DOP_SYM_T}}};
    bool both = false;
    if (!b->opt->encodes)
        return;
    for (uint32_t i = 0; i < b->a->n_layers; i++) {
        const dop_attention *t = dop_layer_attention(&b->a->layers[i]);
        both = both || (t && t->both);
    }
    if (both)
        b->lasts = leaf(b, DOP_OP_input, "last", "lasts", DOP_TYPE_u32, &ids);
    if (e->n_types > 1)
        b->types = leaf(b, DOP_OP_input, "type", "types", DOP_TYPE_u32, &ids);
    if (e->relative.buckets) {
        const dop_shape table = {
            2, {dop_dim_n(dop_layer_attention(&b->a->layers[0])->n_heads), dop_dim_n(2 * e->relative.most + 1)}};
        b->relative =
            comes_from(b, leaf(b, DOP_OP_weight, "relative", "relative", DOP_TYPE_f32, &table), DOP_FROM_RELATIVE, 0);
    }
}

dop_node_id
dop_build_types(builder *b, dop_node_id x)
{
    const uint32_t n = b->a->encoder.n_types;
    if (n == 0)
        return x;
    dop_node_id w = weight(b, DOP_W_type_embed);
    if (n > 1) {
        w = op2(b, DOP_OP_gather, "type_emb", w, b->types, NULL, DOP_TYPE_none);
    } else {
        const dop_want one = {.shape = {1, {dop_dim_n(b->a->hidden)}}};
        w = add_node(b, DOP_OP_reshape, "type_emb", &w, 1, NULL, &one);
    }
    return op2(b, DOP_OP_add, "emb_t", x, w, NULL, DOP_TYPE_none);
}

dop_node_id
dop_build_dense(builder *b, dop_node_id x)
{
    static const dop_role roles[] = {DOP_W_dense1, DOP_W_dense2, DOP_W_dense3},
                          norms[] = {DOP_W_dense1_norm, DOP_W_dense2_norm, DOP_W_dense3_norm};
    const dop_encoder *e = &b->a->encoder;
    for (uint32_t i = 0; i < e->n_dense; i++) {
        char name[24];
        x = project(b, roles[i], x);
        snprintf(name, sizeof name, "dense%u_a", i + 1);
        if (e->dense[i].active)
            x = dop_build_activation(b, e->dense[i].act, name, x);
        snprintf(name, sizeof name, "dense%u_n", i + 1);
        x = norm(b, name, norms[i], x);
    }
    return x;
}

/* Returns the bucket of a distance, computed like T5Attention._relative_position_bucket, also in f32. Half of the buckets are for
 * keys after the query. In each half, half of the buckets are for single distances, the others for growing ranges. */
static uint32_t
get_relative_bucket(const dop_relative *r, int32_t distance)
{
    const uint32_t half = r->buckets / 2, single = half / 2, n = (uint32_t)(distance < 0 ? -distance : distance);
    uint32_t b = n;
    if (n >= single) {
        const float part = logf((float)n / (float)single) / (float)log((double)r->most / single);
        b = single + (uint32_t)(part * (float)(half - single));
        b = b < half - 1 ? b : half - 1;
    }
    return (distance > 0 ? half : 0) + b;
}

void
dop_relative_table(const dop_relative *r, const float *learned, uint32_t heads, float *out_table)
{
    const int32_t most = (int32_t)r->most;
    for (uint32_t h = 0; h < heads; h++)
        for (int32_t d = -most; d <= most; d++)
            *out_table++ = learned[get_relative_bucket(r, d) * heads + h];
}
