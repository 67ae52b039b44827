/* Pictures in a text model's graph: rows that are vision features, bidirectional attention within a picture, and multimodal
 * RoPE. */
#include "frontend/build/build_pictures.h"
#include "frontend/build/build_vision.h"
#include "frontend/build/builder.h"

#include <math.h>

static dop_node_id
add_row_number_input(builder *b, const char *name)
{
    const dop_shape ids = {1, {{1, DOP_SYM_T}}};
    return leaf(b, DOP_OP_received, name, name, DOP_TYPE_u32, &ids);
}

static dop_node_id
add_feature_input(builder *b, const char *name)
{
    const dop_shape rows = {2, {dop_dim_n(b->g->max_t), dop_dim_n(b->a->hidden)}};
    return leaf(b, DOP_OP_received, name, name, DOP_TYPE_f32, &rows);
}

void
dop_build_picture_inputs(builder *b)
{
    const dop_vision *v = b->m->vision;
    bool turned = false;
    if (!b->opt->pictures || b->opt->drafts)
        return;
    for (uint32_t i = 0; i < b->a->n_ropes; i++)
        turned = turned || (b->ropes[i] && dop_rope_sectioned(&b->a->ropes[i]));
    if (turned) { /* first, so that its offset is the same for every step size */
        b->shift = add_row_number_input(b, "picture_shift");
        b->turns = add_row_number_input(b, "picture_turns");
    }
    if (v->sees_all && b->opt->phase != DOP_PHASE_DECODE)
        b->picture_lasts = add_row_number_input(b, "picture_lasts");
    b->features = add_feature_input(b, "features");
    for (uint32_t i = 0; i < v->n_deep && i < b->a->n_layers; i++) {
        char name[24];
        snprintf(name, sizeof name, "deep%u", i);
        b->deep[i] = add_feature_input(b, name);
    }
    for (uint32_t i = 0; i < b->a->n_ropes && turned; i++) {
        char name[24];
        const dop_shape table = {2, {dop_dim_n(2 * DOP_STEP_EDGE), dop_dim_n(b->a->ropes[i].dims)}};
        snprintf(name, sizeof name, "rope.%u.places", i);
        if (b->ropes[i] && dop_rope_sectioned(&b->a->ropes[i]))
            b->places[i] = comes_from(b, leaf(b, DOP_OP_weight, name, name, DOP_TYPE_f32, &table), DOP_FROM_PLACES, i);
    }
}

/* Adds picture rows to x; they are zero for text tokens. */
static dop_node_id
add_picture_rows(builder *b, const char *name, const char *sum, dop_node_id rows, dop_node_id x)
{
    const dop_attr of[] = {{.i = b->a->vocab}, {.i = (int64_t)b->a->vocab + b->g->max_t}};
    return op2(b, DOP_OP_add, sum, x, op2(b, DOP_OP_gather, name, rows, b->tok, of, DOP_TYPE_none), NULL,
               DOP_TYPE_none);
}

dop_node_id
dop_build_features_of(builder *b, dop_node_id x)
{
    return b->features ? add_picture_rows(b, "picture", "emb_f", b->features, x) : x;
}

dop_node_id
dop_build_inputs_of(builder *b, dop_node_id x)
{
    const dop_weight *pad = b->features ? dop_weights_find(&b->m->weights, "v.input_pad") : NULL;
    if (!pad)
        return x;
    /* 1 in picture rows, 0 in text rows. */
    const uint32_t rows = b->g->max_t;
    const dop_shape column = {2, {dop_dim_n(rows), dop_dim_n(1)}};
    const dop_attr of[] = {{.i = b->a->vocab}, {.i = (int64_t)b->a->vocab + rows}};
    dop_node_id ones =
        comes_from(b, leaf(b, DOP_OP_weight, "ones", "ones", DOP_TYPE_f32, &column), DOP_FROM_ONES, rows);
    dop_node_id is = op2(b, DOP_OP_gather, "picture_is", ones, b->tok, of, DOP_TYPE_none);
    dop_node_id own = weight_leaf(b, "w.input_pad", &b->m->weights, pad, b->opt->types);
    own = op2(b, DOP_OP_mul, "input_pad", is, own, NULL, DOP_TYPE_none);
    return op2(b, DOP_OP_add, "input_own", x, own, NULL, DOP_TYPE_none);
}

dop_node_id
dop_build_deep(builder *b, uint32_t layer, dop_node_id x)
{
    char name[32], sum[24];
    if (layer >= DOP_VISION_MAX_DEEP || !b->deep[layer])
        return x;
    snprintf(name, sizeof name, "picture%u", layer + 1);
    snprintf(sum, sizeof sum, "x%ud", layer + 1);
    return add_picture_rows(b, name, sum, b->deep[layer], x);
}

/* Returns whether pair i rotates by picture row (1), column (2), or by time: 0. */
static uint32_t
get_pair_section(const dop_rope *r, uint32_t i)
{
    if (!r->sections_mixed)
        return i < r->sections[0] ? 0 : i < r->sections[0] + r->sections[1] ? 1 : 2;
    const uint32_t k = i % 3;
    return k > 0 && i < 3 * r->sections[k] ? k : 0;
}

dop_status
dop_rope_places(const dop_rope *r, uint32_t n_pos, float *out_table, dop_diag *diag)
{
    const uint32_t half = r->dims / 2;
    for (uint32_t i = 0; i < half; i++) {
        double freq = 0;
        dop_status st = dop_rope_frequency(r, i, n_pos, diag, &freq);
        if (st != DOP_OK)
            return st;
        for (uint32_t k = 0; k < 2 * DOP_STEP_EDGE; k++) {
            const double angle =
                get_pair_section(r, i) == (k < DOP_STEP_EDGE ? 2u : 1u) ? (k % DOP_STEP_EDGE) * freq : 0;
            out_table[(size_t)k * r->dims + i] = (float)cos(angle);
            out_table[(size_t)k * r->dims + half + i] = (float)sin(angle);
        }
    }
    return DOP_OK;
}
