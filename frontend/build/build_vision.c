#include "frontend/build/build_vision.h"
#include "frontend/build/build_activation.h"
#include "frontend/build/builder.h"
#include "ir/graph/graph_add.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

/* Builder state of a vision graph. Layers are the tower's; weights are found by name, not by role. */
typedef struct vision_builder {
    builder base; /* no facts and options of a text model */
    const dop_vision_model *m;
    const dop_vision *v;
    const dop_vision_options *opt;
    dop_node_id positions, sequences, lasts, in_window, window_lasts, turns, table;
} vision_builder;

/* Adds a node stored as opt->act_type (act2) or as f32 (full2). */
static dop_node_id
add_vision_act(vision_builder *b, dop_op op, const char *name, dop_node_id x, dop_node_id y)
{
    return op2(&b->base, op, name, x, y, NULL, b->base.act_type);
}

static dop_node_id
add_vision_f32(vision_builder *b, dop_op op, const char *name, dop_node_id x, dop_node_id y)
{
    return op2(&b->base, op, name, x, y, NULL, DOP_TYPE_none);
}

/* Sets the label of the next nodes. All tower layers share it, because a label's layer number refers to the text
 * model. */
static void
set_vision_label(vision_builder *b, const char *role)
{
    b->base.label = (dop_label){-1, role};
}

static dop_node_id
add_vision_input(vision_builder *b, dop_op op, const char *name, dop_type type, uint32_t cols)
{
    const dop_shape shape = {cols ? 2 : 1, {{1, DOP_SYM_T}, dop_dim_n(cols)}};
    return leaf(&b->base, op, name, name, type, &shape);
}

static const dop_weight *
find_vision_weight(const vision_builder *b, const char *role, const char *suffix)
{
    char place[PLACE], name[64];
    place_of(&b->base, place);
    snprintf(name, sizeof name, "v.%s%s%s", place, role, suffix);
    return dop_weights_find(&b->m->weights, name);
}

/* Adds the leaf of weight v.PLACE ROLE SUFFIX, such as "v.L0.q_bias"; 0: none. */
static dop_node_id
add_vision_weight(vision_builder *b, const char *role, const char *suffix)
{
    const dop_weight *w = find_vision_weight(b, role, suffix);
    return w ? weight_leaf(&b->base, w->name, &b->m->weights, w, b->opt->types) : 0;
}

/* Clamps x to the bounds of a product's input (`out` 0) or result (1). */
static dop_node_id
clamp_product(vision_builder *b, const char *role, uint32_t out, dop_node_id x)
{
    const dop_weight *w = find_vision_weight(b, role, "_clip");
    for (uint32_t i = 0; w && i < 2; i++) {
        char name[48];
        float bound;
        memcpy(&bound, w->data + (2 * out + i) * sizeof bound, sizeof bound);
        snprintf(name, sizeof name, "%s_%s%u", role, i ? "most" : "least", out);
        if (fabsf(bound) < FLT_MAX)
            x = op1(&b->base, i ? DOP_OP_at_most : DOP_OP_at_least, name, x, &(dop_attr){.f = (double)bound},
                    b->base.act_type);
    }
    return x;
}

/* Returns x times the matrix of a role, plus its bias if any. */
static dop_node_id
build_vision_product(vision_builder *b, const char *role, dop_node_id x)
{
    char name[48];
    const dop_node_id w = add_vision_weight(b, role, ""), bias = add_vision_weight(b, role, "_bias");
    snprintf(name, sizeof name, "%s_b", role);
    x = add_vision_act(b, DOP_OP_matmul, role, clamp_product(b, role, 0, x), w);
    x = bias ? add_vision_act(b, DOP_OP_add, name, x, bias) : x;
    return clamp_product(b, role, 1, x);
}

/* Applies the norm of a role to x; returns x if the norm has no weights. */
static dop_node_id
apply_vision_norm(vision_builder *b, const char *role, dop_node_id x, double eps, double sum, dop_type type)
{
    const dop_node_id w = add_vision_weight(b, role, ""), bias = w ? add_vision_weight(b, role, "_bias") : 0;
    const dop_want want = {.type = type};
    if (!w)
        return x;
    if (bias)
        return add_node(&b->base, DOP_OP_layernorm, role, (dop_node_id[]){x, w, bias}, 3, &(dop_attr){.f = eps}, &want);
    return add_node(&b->base, DOP_OP_rmsnorm, role, (dop_node_id[]){x, w}, 2, (dop_attr[]){{.f = eps}, {.f = sum}},
                    &want);
}

/* Computes queries or keys: projection, norm, heads, RoPE. */
static dop_node_id
build_rotated_heads(vision_builder *b, const char *role, dop_node_id x)
{
    char name[24], norm[24];
    const dop_vision *v = b->v;
    x = build_vision_product(b, role, x);
    snprintf(norm, sizeof norm, "%s_norm", role);
    snprintf(name, sizeof name, "%s_h", role);
    const dop_weight *w = find_vision_weight(b, norm, "");
    const bool each = w && w->cols == v->head_dim; /* per-head norm */
    if (!each)
        x = apply_vision_norm(b, norm, x, v->eps, 0, b->base.act_type);
    x = reshape(&b->base, name, x, v->heads, v->head_dim);
    if (each)
        x = apply_vision_norm(b, norm, x, v->eps, 0, b->base.act_type);
    if (v->rope_theta == 0)
        return x;
    snprintf(name, sizeof name, "%s_r", role);
    const dop_attr attrs[] = {{.i = v->head_dim}, {.i = 0}, {.i = DOP_STEP_EDGE}};
    return add_node(&b->base, DOP_OP_rope, name, (dop_node_id[]){x, b->turns, b->table}, 3, attrs,
                    &(dop_want){.type = b->base.act_type});
}

/* Builds a layer's attention branch: each row attends to all rows of its tile, or of its window. */
static dop_node_id
build_vision_attention(vision_builder *b, uint32_t layer, dop_node_id x)
{
    const dop_vision *v = b->v;
    const bool windowed = v->windowed[layer] && b->in_window;
    const attention_attrs how = {.scale = v->scale > 0 ? v->scale : 1 / sqrt(v->head_dim), .mask = DOP_MASK_full};
    const dop_norm plain = {.kind = DOP_NORM_RMS, .eps = v->eps};
    set_vision_label(b, "qkv");
    x = apply_vision_norm(b, "norm1", x, v->eps, 0, b->base.act_type);
    const dop_node_id q = build_rotated_heads(b, "q", x), k = build_rotated_heads(b, "k", x);
    dop_node_id values = reshape(&b->base, "v_h", build_vision_product(b, "v", x), v->heads, v->head_dim);
    if (v->norm_values)
        values = plain_norm(&b->base, "v_norm", &plain, values);
    const dop_node_id srcs[] = {
        q, k, values, windowed ? b->in_window : b->positions, b->sequences, windowed ? b->window_lasts : b->lasts};
    set_vision_label(b, "attn");
    x = add_attention(&b->base, srcs, 6, &how);
    set_vision_label(b, "o");
    return build_vision_product(b, "o", reshape(&b->base, "attn_row", x, 0, v->heads * v->head_dim));
}

static dop_node_id
build_vision_ffn(vision_builder *b, dop_node_id x)
{
    set_vision_label(b, "ffn_up");
    x = apply_vision_norm(b, "norm2", x, b->v->eps, 0, b->base.act_type);
    dop_node_id gated = build_vision_product(b, "up", x);
    if (find_vision_weight(b, "gate", "")) {
        const dop_node_id up = gated;
        gated =
            add_vision_act(b, DOP_OP_mul, "gated",
                           dop_build_activation(&b->base, b->v->act, "act", build_vision_product(b, "gate", x)), up);
    } else {
        gated = dop_build_activation(&b->base, b->v->act, "act", gated);
    }
    set_vision_label(b, "ffn_down");
    return build_vision_product(b, "down", gated);
}

static dop_node_id
build_vision_layer(vision_builder *b, uint32_t i, dop_node_id x)
{
    b->base.layer = (int32_t)i;
    dop_node_id y = build_vision_attention(b, i, x), by = add_vision_weight(b, "scale1", "");
    y = apply_vision_norm(b, "after1", y, b->v->eps, 0, b->base.act_type);
    x = add_vision_f32(b, DOP_OP_add, "x_a", x, by ? add_vision_f32(b, DOP_OP_mul, "attn_s", y, by) : y);
    y = apply_vision_norm(b, "after2", build_vision_ffn(b, x), b->v->eps, 0, b->base.act_type);
    by = add_vision_weight(b, "scale2", "");
    x = add_vision_f32(b, DOP_OP_add, "x", x, by ? add_vision_f32(b, DOP_OP_mul, "ffn_s", y, by) : y);
    b->base.layer = -1;
    return x;
}

/* Builds the initial residual stream: patch embeddings plus position embeddings. A convolution with stride equal to its size is a
 * product per patch. */
static dop_node_id
embed_patches(vision_builder *b)
{
    const dop_vision *v = b->v;
    dop_node_id patches = add_vision_input(b, DOP_OP_received, "patches", DOP_TYPE_f32, v->row_values);
    if (v->centered) {
        patches = op1(&b->base, DOP_OP_scale, "patches_2", patches, &(dop_attr){.f = 2}, DOP_TYPE_none);
        patches = op1(&b->base, DOP_OP_offset, "patches_c", patches, &(dop_attr){.f = -1}, DOP_TYPE_none);
    }
    const dop_node_id bias = add_vision_weight(b, "patch", "_bias");
    dop_node_id x = add_vision_f32(b, DOP_OP_matmul, "patch", patches, add_vision_weight(b, "patch", ""));
    x = bias ? add_vision_f32(b, DOP_OP_add, "patch_b", x, bias) : x;
    if (v->places == DOP_PLACES_TABLE) {
        const dop_node_id at = add_vision_input(b, DOP_OP_received, "places", DOP_TYPE_u32, 0);
        x = add_vision_f32(b, DOP_OP_add, "placed", x,
                           add_vision_f32(b, DOP_OP_gather, "place", add_vision_weight(b, "pos", ""), at));
    } else if (v->places == DOP_PLACES_CORNERS) {
        const dop_node_id at = add_vision_input(b, DOP_OP_received, "corners", DOP_TYPE_u32, 4);
        const dop_node_id shares = add_vision_input(b, DOP_OP_received, "shares", DOP_TYPE_f32, 4);
        const dop_node_id four = add_vision_f32(b, DOP_OP_gather, "four", add_vision_weight(b, "pos", ""), at);
        x = add_vision_f32(b, DOP_OP_add, "placed", x, add_vision_f32(b, DOP_OP_weighted_sum, "place", four, shares));
    }
    if (v->places == DOP_PLACES_AXES) {
        const dop_node_id at = add_vision_input(b, DOP_OP_received, "axes", DOP_TYPE_u32, 2);
        const dop_node_id two =
            reshape(&b->base, "two_row", add_vision_f32(b, DOP_OP_gather, "two", add_vision_weight(b, "pos", ""), at),
                    0, 2 * v->hidden);
        x = add_vision_f32(b, DOP_OP_add, "placed_x", x, slice(&b->base, "place_x", two, 0, v->hidden));
        x = add_vision_f32(b, DOP_OP_add, "placed", x, slice(&b->base, "place_y", two, v->hidden, v->hidden));
    }
    if (v->places == DOP_PLACES_RESAMPLED) {
        const dop_node_id mix = add_vision_input(b, DOP_OP_received, "resampling", DOP_TYPE_f32, v->n_places);
        x = add_vision_f32(b, DOP_OP_add, "placed", x,
                           add_vision_f32(b, DOP_OP_matmul, "place", mix, add_vision_weight(b, "pos", "")));
    }
    return apply_vision_norm(b, "pre_norm", x, v->eps, 0, DOP_TYPE_f32);
}

static void
add_vision_output(vision_builder *b, dop_node_id x)
{
    if (b->base.status == DOP_OK)
        b->base.status = dop_graph_output(b->base.g, x, b->base.diag);
}

static vision_builder
begin_vision_graph(const dop_vision_model *m, const dop_vision_options *opt, const char *name, dop_arena *arena,
                   dop_diag *diag, dop_graph *out_graph)
{
    vision_builder b = {.m = m, .v = &m->facts, .opt = opt};
    b.base = (builder){.g = out_graph, .diag = diag, .label = {-1, ""}, .layer = -1, .act_type = opt->act_type};
    b.base.status = dop_graph_init(out_graph, arena, name, opt->max_t, opt->max_t, diag);
    return b;
}

dop_status
dop_build_vision(const dop_vision_model *m, const dop_vision_options *opt, dop_arena *arena, dop_diag *diag,
                 dop_graph *out_graph)
{
    const dop_vision *v = &m->facts;
    vision_builder b = begin_vision_graph(m, opt, "image", arena, diag, out_graph);
    dop_node_id deep[DOP_VISION_MAX_DEEP] = {0};
    bool windows = false;
    for (uint32_t i = 0; i < v->n_layers; i++)
        windows = windows || v->windowed[i];
    b.positions = add_vision_input(&b, DOP_OP_input, "positions", DOP_TYPE_u32, 0);
    b.sequences = add_vision_input(&b, DOP_OP_input, "sequences", DOP_TYPE_u32, 0);
    b.lasts = add_vision_input(&b, DOP_OP_input, "lasts", DOP_TYPE_u32, 0);
    if (windows) {
        b.in_window = add_vision_input(&b, DOP_OP_received, "in_window", DOP_TYPE_u32, 0);
        b.window_lasts = add_vision_input(&b, DOP_OP_received, "window_lasts", DOP_TYPE_u32, 0);
    }
    if (v->rope_theta > 0) {
        const dop_shape shape = {2, {dop_dim_n(2 * DOP_STEP_EDGE), dop_dim_n(v->head_dim)}};
        b.turns = add_vision_input(&b, DOP_OP_received, "turns", DOP_TYPE_u32, 0);
        b.table = leaf(&b.base, DOP_OP_weight, "v.turns", "v.turns", DOP_TYPE_f32, &shape);
        comes_from(&b.base, b.table, DOP_FROM_TURNS, 0);
    }
    set_vision_label(&b, "patch");
    dop_node_id x = embed_patches(&b);
    for (uint32_t i = 0, n = 0; i < v->n_layers; i++) {
        x = build_vision_layer(&b, i, x);
        if (n < v->n_deep && v->deep[n] == i)
            deep[n++] = x;
    }
    set_vision_label(&b, "rows");
    x = apply_vision_norm(&b, "post_norm", x, v->eps, 0, DOP_TYPE_f32);
    add_vision_output(&b, apply_vision_norm(&b, "row_norm", x, v->merge_eps, v->merge_norm_add, DOP_TYPE_f32));
    for (uint32_t i = 0; i < v->n_deep; i++)
        add_vision_output(&b, deep[i]);
    return b.base.status;
}

/* Builds one of the audio encoder's convolutions, followed by GELU. x: [R, columns] in chunks of `rows` rows; output: a
 * row per `stride` rows. */
static dop_node_id
build_audio_convolution(vision_builder *b, const char *role, dop_node_id x, uint32_t rows, uint32_t stride,
                        dop_type type)
{
    enum { TAPS = 3 };
    char name[32];
    /* In the order of ir/ops.def: width, height, taps, taps_y, stride, dilation, pad, more, up. */
    const dop_attr attrs[] = {{.i = rows}, {.i = 0}, {.i = TAPS}, {.i = 0}, {.i = stride},
                              {.i = 1},    {.i = 1}, {.i = 0},    {.i = 0}};
    snprintf(name, sizeof name, "%s_windows", role);
    x = op1(&b->base, DOP_OP_unfold, name, x, attrs, DOP_TYPE_none);
    x = add_vision_f32(b, DOP_OP_matmul, role, x, add_vision_weight(b, role, ""));
    snprintf(name, sizeof name, "%s_b", role);
    x = add_vision_f32(b, DOP_OP_add, name, x, add_vision_weight(b, role, "_bias"));
    snprintf(name, sizeof name, "%s_act", role);
    return op1(&b->base, DOP_OP_gelu, name, x, NULL, type);
}

/* Adds the leaf of a decoder weight such as "L0.cross_k", named as in the decoder's own graphs; 0: none. */
static dop_node_id
add_decoder_weight(vision_builder *b, uint32_t layer, const char *role)
{
    char name[32], node[36];
    snprintf(name, sizeof name, "L%u.%s", layer, role);
    snprintf(node, sizeof node, "w.%s", name);
    const dop_weight *w = dop_weights_find(&b->m->weights, name);
    return w ? weight_leaf(&b->base, node, &b->m->weights, w, b->opt->types) : 0;
}

/* Computes the cross-attention keys and values of decoder layer i from the encoder's rows. Writes them to its states,
 * which become outputs. */
static void
fill_cross(vision_builder *b, uint32_t i, dop_node_id rows)
{
    static const struct {
        const char *which, *role, *bias, *heads, *cache;
    } parts[] = {{"k", "cross_k", "cross_k_bias", "cross_k_h", "cross_k_cache"},
                 {"v", "cross_v", "cross_v_bias", "cross_v_h", "cross_v_cache"}};
    const dop_arch *a = b->opt->decoder;
    const dop_attention *t = dop_layer_attention(&a->layers[i]);
    b->base.layer = (int32_t)i;
    set_role(&b->base, "cross_kv");
    for (uint32_t n = 0; n < 2; n++) {
        const dop_type type = n && b->opt->v_type ? b->opt->v_type : b->opt->kv_type;
        const dop_node_id old = cross_state(&b->base, a, parts[n].which, type),
                          bias = add_decoder_weight(b, i, parts[n].bias);
        dop_node_id x = add_vision_act(b, DOP_OP_matmul, parts[n].role, rows, add_decoder_weight(b, i, parts[n].role));
        x = bias ? add_vision_act(b, DOP_OP_add, parts[n].bias, x, bias) : x;
        x = reshape(&b->base, parts[n].heads, x, t->n_kv_heads, t->head_dim);
        const dop_node_id srcs[] = {old, x, b->positions, b->sequences};
        add_vision_output(b, add_node(&b->base, DOP_OP_state_write, parts[n].cache, srcs, 4, NULL, NULL));
    }
    b->base.layer = -1;
}

dop_status
dop_build_audio(const dop_vision_model *m, const dop_vision_options *opt, dop_arena *arena, dop_diag *diag,
                dop_graph *out_graph)
{
    const dop_vision *v = &m->facts;
    vision_builder b = begin_vision_graph(m, opt, "audio", arena, diag, out_graph);
    const dop_shape frames = {2, {{2, DOP_SYM_T}, dop_dim_n(v->bins)}};
    if (opt->max_q > 1)
        out_graph->max_q = opt->max_q;
    b.positions = add_vision_input(&b, DOP_OP_input, "positions", DOP_TYPE_u32, 0);
    b.sequences = add_vision_input(&b, DOP_OP_input, "sequences", DOP_TYPE_u32, 0);
    b.lasts = add_vision_input(&b, DOP_OP_received, "lasts", DOP_TYPE_u32, 0);
    set_role(&b.base, "conv");
    dop_node_id x = leaf(&b.base, DOP_OP_received, "mel", "mel", DOP_TYPE_f32, &frames);
    x = build_audio_convolution(&b, "conv1", x, 2 * v->n_places, 1, b.base.act_type);
    x = build_audio_convolution(&b, "conv2", x, 2 * v->n_places, 2, DOP_TYPE_none);
    x = add_vision_f32(&b, DOP_OP_add, "placed", x,
                       add_vision_f32(&b, DOP_OP_gather, "place", add_vision_weight(&b, "pos", ""), b.positions));
    for (uint32_t i = 0; i < v->n_layers; i++)
        x = build_vision_layer(&b, i, x);
    x = apply_vision_norm(&b, "post_norm", x, v->eps, 0, DOP_TYPE_f32);
    add_vision_output(&b, x);
    for (uint32_t i = 0; i < opt->decoder->n_layers && b.base.status == DOP_OK; i++)
        fill_cross(&b, i, x);
    return b.base.status;
}

/* Mean pooling: averages the n parts of `width` values of each row. */
static dop_node_id
average_parts(vision_builder *b, dop_node_id x, uint32_t n, uint32_t width)
{
    dop_node_id sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "part%u", i);
        const dop_node_id part = slice(&b->base, name, x, i * width, width);
        snprintf(name, sizeof name, "sum%u", i);
        sum = i == 0 ? part : add_vision_f32(b, DOP_OP_add, name, sum, part);
    }
    return op1(&b->base, DOP_OP_scale, "mean", sum, &(dop_attr){.f = 1.0 / n}, DOP_TYPE_none);
}

/* Prepares the pooled mean of a feature's patches for the projector: scales, shifts and normalizes it. */
static dop_node_id
normalize_pooled(vision_builder *b, dop_node_id x)
{
    const dop_vision *v = b->v;
    const dop_norm plain = {.kind = DOP_NORM_RMS, .eps = v->merge_eps};
    const dop_node_id shift = add_vision_weight(b, "std_shift", ""), by = add_vision_weight(b, "std_scale", "");
    if (v->pool_scale > 0)
        x = op1(&b->base, DOP_OP_scale, "mean_s", x, &(dop_attr){.f = v->pool_scale}, DOP_TYPE_none);
    if (shift)
        x = add_vision_f32(b, DOP_OP_sub, "mean_m", x, shift);
    if (by)
        x = add_vision_f32(b, DOP_OP_mul, "mean_d", x, by);
    return v->merge_plain ? plain_norm(&b->base, "norm", &plain, x) : x;
}

/* Adds the features of a tower output: 0, or 1 + n for layer deep[n]. */
static void
add_features(vision_builder *b, uint32_t output)
{
    const dop_vision *v = b->v;
    const uint32_t parts = v->merge * v->merge;
    char rows[24] = "rows";
    if (output > 0 && b->opt->together)
        snprintf(rows, sizeof rows, "deep%u", output - 1);
    dop_node_id x = add_vision_input(b, DOP_OP_received, rows, DOP_TYPE_f32, parts * v->hidden);
    if (output > 0)
        snprintf(b->base.place, sizeof b->base.place, "D%u.", output - 1);
    set_vision_label(b, "merge");
    if (v->pool)
        x = normalize_pooled(b, average_parts(b, x, parts, v->hidden));
    x = apply_vision_norm(b, "norm", x, v->merge_eps, v->merge_norm_add, b->base.act_type);
    if (find_vision_weight(b, "merge", ""))
        x = build_vision_product(b, "merge", x);
    x = build_vision_product(b, "linear1", x);
    if (find_vision_weight(b, "linear2", ""))
        x = build_vision_product(b, "linear2", dop_build_activation(&b->base, v->merge_act, "merge_act", x));
    add_vision_output(b, op1(&b->base, DOP_OP_cast, "out", x, NULL, DOP_TYPE_f32));
    b->base.place[0] = 0;
}

dop_status
dop_build_features(const dop_vision_model *m, uint32_t output, const dop_vision_options *opt, dop_arena *arena,
                   dop_diag *diag, dop_graph *out_graph)
{
    vision_builder b = begin_vision_graph(m, opt, output ? "deep" : "features", arena, diag, out_graph);
    add_features(&b, output);
    for (uint32_t i = 0; opt->together && i < b.v->n_deep; i++)
        add_features(&b, 1 + i);
    return b.base.status;
}

void
dop_vision_turns(const dop_vision *v, float *out_table)
{
    const uint32_t half = v->head_dim / 2, quarter = half / 2;
    for (uint32_t i = 0; i < 2 * DOP_STEP_EDGE; i++) {
        const bool row = i >= DOP_STEP_EDGE;
        for (uint32_t k = 0; k < half; k++) {
            const uint32_t f = k % quarter; /* half of the pairs rotate by row, then half by column */
            const double exponent = v->rope_apart ? (2.0 * (2 * f + (k >= quarter))) / v->head_dim : 2.0 * f / half;
            const double angle = (k < quarter) == row ? (i % DOP_STEP_EDGE) * pow(v->rope_theta, -exponent) : 0;
            out_table[(uint64_t)i * v->head_dim + k] = (float)cos(angle);
            out_table[(uint64_t)i * v->head_dim + half + k] = (float)sin(angle);
        }
    }
}
