#include "frontend/build/build_diffusion.h"
#include "frontend/build/build_activation.h"
#include "frontend/build/builder.h"
#include "ir/graph/graph_add.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAME = 96 };

/* A picture at some resolution: rows of `channels` values, `rows` of them for each row of T. */
typedef struct plane {
    dop_node_id id;
    uint32_t rows, width, height, channels;
} plane;

/* Builder state of a diffusion model's graph. Weights are found by name, not by role. */
typedef struct draw_builder {
    builder base; /* no facts and options of a text model */
    const dop_diffusion *d;
    const dop_weights *weights;
    const dop_diffusion_options *opt;
    uint32_t groups;      /* groups of the next group norms */
    dop_node_id time;     /* timestep embedding after its activation, [1, 4 times]; 0: residual blocks read none */
    dop_node_id sequence; /* sequence of the text, [1] */
    dop_node_id places[DOP_DRAW_LEVELS], lasts[DOP_DRAW_LEVELS];
    plane skips[DOP_DRAW_LEVELS * 5];
    uint32_t n_skips;
} draw_builder;

__attribute__((format(printf, 2, 3))) static const char *format_graph_name(draw_builder *b, const char *format, ...);

/* Formats a string in the graph's arena. */
static const char *
format_graph_name(draw_builder *b, const char *format, ...)
{
    char text[2 * NAME];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *s = dop_arena_strdup(b->base.g->arena, text);
    if (!s && b->base.status == DOP_OK)
        b->base.status = DOP_NO_MEMORY(b->base.diag);
    return s ? s : "";
}

/* ---- nodes -------------------------------------------------------------------------------------------------------------- */

static dop_node_id
add_draw_act(draw_builder *b, dop_op op, const char *name, dop_node_id x, dop_node_id y)
{
    return op2(&b->base, op, name, x, y, NULL, b->base.act_type);
}

static dop_node_id
add_draw_input(draw_builder *b, const char *name, dop_type type, uint32_t rows, uint32_t cols)
{
    const dop_shape shape = {cols ? 2 : 1, {{rows ? rows : 1, rows ? DOP_SYM_T : DOP_SYM_1}, dop_dim_n(cols)}};
    return leaf(&b->base, DOP_OP_received, name, name, type, &shape);
}

/* Adds the leaf of a weight with this shape (rows 0: a vector). Fails if it is missing or has another shape. */
static dop_node_id
add_draw_weight(draw_builder *b, const char *name, uint32_t rows, uint32_t cols)
{
    if (b->base.status != DOP_OK)
        return 0;
    const dop_weight *w = dop_weights_find(b->weights, name);
    if (!w)
        b->base.status = DOP_FAIL(b->base.diag, DOP_E_INPUT, "the model has no tensor %s", name);
    else if (w->rank != (rows ? 2 : 1) || w->cols != cols || (rows && w->rows != rows))
        b->base.status = DOP_FAIL(b->base.diag, DOP_E_INPUT, "tensor %s is %u x %u; its place needs %u x %u", w->source,
                                  w->rank > 1 ? w->rows : 1, w->cols, rows ? rows : 1, cols);
    return b->base.status == DOP_OK ? weight_leaf(&b->base, w->name, b->weights, w, b->opt->types) : 0;
}

static bool
has_draw_weight(const draw_builder *b, const char *name)
{
    return dop_weights_find(b->weights, name) != NULL;
}

/* True for projections to attention heads, which have no bias in some models; all others have one. */
static bool
may_lack_bias(const char *name)
{
    const char *last = strrchr(name, '.');
    return last && (strcmp(last, ".to_q") == 0 || strcmp(last, ".to_k") == 0 || strcmp(last, ".to_v") == 0);
}

/* Returns x [.., cols] times the matrix `name` of n rows, plus its bias. */
static dop_node_id
build_draw_product(draw_builder *b, const char *name, dop_node_id x, uint32_t cols, uint32_t n)
{
    const char *bias = format_graph_name(b, "%s_bias", name);
    const dop_node_id y =
        add_draw_act(b, DOP_OP_matmul, format_graph_name(b, "%s.y", name), x, add_draw_weight(b, name, n, cols));
    return may_lack_bias(name) && !has_draw_weight(b, bias)
               ? y
               : add_draw_act(b, DOP_OP_add, format_graph_name(b, "%s.b", name), y, add_draw_weight(b, bias, 0, n));
}

static dop_node_id
build_draw_layer_norm(draw_builder *b, const char *name, dop_node_id x, uint32_t cols)
{
    const dop_node_id srcs[] = {x, add_draw_weight(b, name, 0, cols),
                                add_draw_weight(b, format_graph_name(b, "%s_bias", name), 0, cols)};
    return add_node(&b->base, DOP_OP_layernorm, format_graph_name(b, "%s.y", name), srcs, 3, &(dop_attr){.f = 1e-5},
                    &(dop_want){.type = b->base.act_type});
}

/* Builds a 3 x 3 convolution, with windows that start `pad` positions before their own. stride 2: of every second position; up 2:
 * of x upsampled by two. */
static plane
build_convolution_from(draw_builder *b, const char *name, plane x, uint32_t n, uint32_t stride, uint32_t up,
                       uint32_t pad)
{
    enum { TAPS = 3 };
    plane y = {.rows = x.rows * up * up / (stride * stride),
               .width = x.width * up / stride,
               .height = x.height * up / stride,
               .channels = n};
    const dop_node *from = dop_node_at(b->base.g, x.id);
    if (from->op != DOP_OP_received &&
        from->type != b->base.act_type) /* otherwise every tap would read the wider values again */
        x.id = op1(&b->base, DOP_OP_cast, format_graph_name(b, "%s.in", name), x.id, NULL, b->base.act_type);
    /* in the order of ir/ops.def */
    const dop_attr attrs[] = {{.i = x.width}, {.i = x.height}, {.i = TAPS}, {.i = TAPS},           {.i = stride},
                              {.i = 1},       {.i = pad},      {.i = !pad}, {.i = up > 1 ? up : 0}};
    y.id = add_node(&b->base, DOP_OP_unfold, format_graph_name(b, "%s.windows", name), &x.id, 1, attrs,
                    &(dop_want){.type = b->base.act_type});
    y.id = build_draw_product(b, name, y.id, TAPS * TAPS * x.channels, n);
    return y;
}

static plane
build_draw_convolution(draw_builder *b, const char *name, plane x, uint32_t n, uint32_t stride, uint32_t up)
{
    return build_convolution_from(b, name, x, n, stride, up, 1);
}

/* Group norm of x: over all positions, the channels of a group get mean 0 and variance 1. */
static plane
build_group_norm(draw_builder *b, const char *name, plane x, double eps)
{
    enum { ROWS = 256, PARTS = 64 }; /* minimum rows per part; maximum parts */
    const uint64_t rows = (uint64_t)x.width * x.height, parts = (rows + ROWS - 1) / ROWS;
    const dop_attr split[] = {{.i = (int64_t)(parts < PARTS ? parts : PARTS)}, {.i = b->groups}};
    const dop_node_id moments =
        add_node(&b->base, DOP_OP_moments, format_graph_name(b, "%s.parts", name), &x.id, 1, split, NULL);
    const dop_node_id srcs[] = {moments, add_draw_weight(b, name, 0, x.channels),
                                add_draw_weight(b, format_graph_name(b, "%s_bias", name), 0, x.channels)};
    const dop_node_id by = add_node(&b->base, DOP_OP_moments_norm, format_graph_name(b, "%s.by", name), srcs, 3,
                                    &(dop_attr){.f = eps}, NULL);
    const dop_want row = {.shape = {2, {dop_dim_n(1), dop_dim_n(x.channels)}}};
    const dop_node_id scale = add_node(&b->base, DOP_OP_slice, format_graph_name(b, "%s.scale", name), &by, 1,
                                       &(dop_attr){.i = 0}, &row),
                      shift = add_node(&b->base, DOP_OP_slice, format_graph_name(b, "%s.shift", name), &by, 1,
                                       &(dop_attr){.i = x.channels}, &row);
    x.id = add_draw_act(b, DOP_OP_mul, format_graph_name(b, "%s.scaled", name), x.id, scale);
    x.id = add_draw_act(b, DOP_OP_add, format_graph_name(b, "%s.y", name), x.id, shift);
    return x;
}

static dop_node_id
add_silu(draw_builder *b, const char *name, dop_node_id x)
{
    return op1(&b->base, DOP_OP_silu, name, x, NULL, b->base.act_type);
}

/* Returns the residual stream x plus y. */
static plane
add_planes(draw_builder *b, const char *name, plane x, plane y)
{
    y.id = op2(&b->base, DOP_OP_add, name, x.id, y.id, NULL, DOP_TYPE_none);
    return y;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------- */

/* Builds a residual block: norm, activation and convolution, twice, with the timestep embedding added in between. */
static plane
build_resnet_block(draw_builder *b, const char *at, plane x, uint32_t n, double eps)
{
    plane y = build_group_norm(b, format_graph_name(b, "%s.norm1", at), x, eps);
    y.id = add_silu(b, format_graph_name(b, "%s.act1", at), y.id);
    y = build_draw_convolution(b, format_graph_name(b, "%s.conv1", at), y, n, 1, 1);
    if (b->time)
        y.id = add_draw_act(
            b, DOP_OP_add, format_graph_name(b, "%s.timed", at), y.id,
            build_draw_product(b, format_graph_name(b, "%s.time_emb_proj", at), b->time, 4 * dop_unet_times(b->d), n));
    y = build_group_norm(b, format_graph_name(b, "%s.norm2", at), y, eps);
    y.id = add_silu(b, format_graph_name(b, "%s.act2", at), y.id);
    y = build_draw_convolution(b, format_graph_name(b, "%s.conv2", at), y, n, 1, 1);
    if (x.channels != n)
        x.id = build_draw_product(b, format_graph_name(b, "%s.conv_shortcut", at), x.id, x.channels, n);
    return add_planes(b, format_graph_name(b, "%s.out", at), x, y);
}

static dop_node_id
split_draw_heads(draw_builder *b, const char *name, dop_node_id x, plane p, uint32_t heads)
{
    const dop_want want = {.shape = {3, {{p.rows, DOP_SYM_T}, dop_dim_n(heads), dop_dim_n(p.channels / heads)}}};
    return add_node(&b->base, DOP_OP_reshape, name, &x, 1, NULL, &want);
}

/* Builds attention of every picture position to all positions of the picture, or to the rows of the text (states k,
 * v). */
static dop_node_id
build_draw_attention(draw_builder *b, const char *at, dop_node_id q, dop_node_id k, dop_node_id v, plane p,
                     uint32_t heads, uint32_t level, bool text)
{
    const attention_attrs how = {.scale = 1 / sqrt((double)p.channels / heads),
                                 .mask = text ? DOP_MASK_cache : DOP_MASK_full};
    const dop_node_id srcs[] = {q, k, v, b->places[level], b->sequence, b->lasts[level]};
    const dop_node_id y = add_attention_as(&b->base, format_graph_name(b, "%s.attn", at), srcs, text ? 5 : 6, &how);
    const dop_want rows = {.shape = {2, {{p.rows, DOP_SYM_T}, dop_dim_n(p.channels)}}};
    return add_node(&b->base, DOP_OP_reshape, format_graph_name(b, "%s.row", at), &y, 1, NULL, &rows);
}

static dop_node_id
build_self_attention(draw_builder *b, const char *at, dop_node_id x, plane p, uint32_t heads, uint32_t level)
{
    static const char *const names[] = {"to_q", "to_k", "to_v"};
    dop_node_id qkv[3];
    for (size_t i = 0; i < 3; i++) {
        const char *name = format_graph_name(b, "%s.%s", at, names[i]);
        qkv[i] = split_draw_heads(b, format_graph_name(b, "%s.h", name),
                                  build_draw_product(b, name, x, p.channels, p.channels), p, heads);
    }
    x = build_draw_attention(b, at, qkv[0], qkv[1], qkv[2], p, heads, level, false);
    return build_draw_product(b, format_graph_name(b, "%s.to_out.0", at), x, p.channels, p.channels);
}

/* Returns the state of keys or values that a cross-attention layer reads. */
static dop_node_id
add_text_cache(draw_builder *b, const char *name, uint32_t channels, uint32_t heads)
{
    const dop_shape shape = {
        4, {{1, DOP_SYM_Q}, {b->opt->context_rows, DOP_SYM_R}, dop_dim_n(heads), dop_dim_n(channels / heads)}};
    return leaf(&b->base, DOP_OP_state, format_graph_name(b, "s.%s", name), name, b->opt->kv_type, &shape);
}

static dop_node_id
build_text_attention(draw_builder *b, const char *at, dop_node_id x, plane p, uint32_t heads, uint32_t level)
{
    const char *name = format_graph_name(b, "%s.to_q", at);
    const dop_node_id q = split_draw_heads(b, format_graph_name(b, "%s.h", name),
                                           build_draw_product(b, name, x, p.channels, p.channels), p, heads);
    x = build_draw_attention(b, at, q, add_text_cache(b, format_graph_name(b, "%s.k", at), p.channels, heads),
                             add_text_cache(b, format_graph_name(b, "%s.v", at), p.channels, heads), p, heads, level,
                             true);
    return build_draw_product(b, format_graph_name(b, "%s.to_out.0", at), x, p.channels, p.channels);
}

/* Builds a feed-forward part with GELU gate (GEGLU, https://arxiv.org/abs/2002.05202). */
static dop_node_id
build_geglu(draw_builder *b, const char *at, dop_node_id x, uint32_t channels)
{
    const uint32_t inner = 4 * channels;
    const dop_node_id up = build_draw_product(b, format_graph_name(b, "%s.net.0.proj.up", at), x, channels, inner);
    dop_node_id gate = build_draw_product(b, format_graph_name(b, "%s.net.0.proj.gate", at), x, channels, inner);
    gate = op1(&b->base, DOP_OP_gelu, format_graph_name(b, "%s.act", at), gate, NULL, b->base.act_type);
    return build_draw_product(b, format_graph_name(b, "%s.net.2", at),
                              add_draw_act(b, DOP_OP_mul, format_graph_name(b, "%s.gated", at), up, gate), inner,
                              channels);
}

/* Builds transformer blocks over picture positions, between two projections. */
static plane
build_draw_transformer(draw_builder *b, const char *at, plane x, uint32_t level)
{
    const dop_unet_level *l = &b->d->levels[level];
    const uint32_t c = x.channels;
    plane y = build_group_norm(b, format_graph_name(b, "%s.norm", at), x, 1e-6);
    y.id = build_draw_product(b, format_graph_name(b, "%s.proj_in", at), y.id, c, c);
    for (uint32_t i = 0; i < l->depth && b->base.status == DOP_OK; i++) {
        const char *block = format_graph_name(b, "%s.transformer_blocks.%u", at, i);
        for (uint32_t part = 1; part <= 3; part++) {
            dop_node_id z = build_draw_layer_norm(b, format_graph_name(b, "%s.norm%u", block, part), y.id, c);
            const char *name =
                part < 3 ? format_graph_name(b, "%s.attn%u", block, part) : format_graph_name(b, "%s.ff", block);
            z = part == 1   ? build_self_attention(b, name, z, y, l->heads, level)
                : part == 2 ? build_text_attention(b, name, z, y, l->heads, level)
                            : build_geglu(b, name, z, c);
            y.id = op2(&b->base, DOP_OP_add, format_graph_name(b, "%s.x%u", block, part), y.id, z, NULL, DOP_TYPE_none);
        }
    }
    y.id = build_draw_product(b, format_graph_name(b, "%s.proj_out", at), y.id, c, c);
    return add_planes(b, format_graph_name(b, "%s.out", at), x, y);
}

/* Concatenates the channels of x and y. */
static plane
concat_planes(draw_builder *b, const char *name, plane x, plane y)
{
    x.id = add_draw_act(b, DOP_OP_concat, name, x.id, y.id);
    x.channels += y.channels;
    return x;
}

static void
append_skip_plane(draw_builder *b, plane x)
{
    if (b->n_skips < sizeof b->skips / sizeof *b->skips)
        b->skips[b->n_skips++] = x;
    else if (b->base.status == DOP_OK)
        b->base.status = DOP_FAIL(b->base.diag, DOP_E_INPUT, "the U-Net has more blocks than are supported");
}

static plane
build_unet_down(draw_builder *b, plane x)
{
    const dop_diffusion *d = b->d;
    append_skip_plane(b, x);
    for (uint32_t i = 0; i < d->n_levels; i++) {
        const dop_unet_level *l = &d->levels[i];
        for (uint32_t k = 0; k < d->layers; k++) {
            x = build_resnet_block(b, format_graph_name(b, "unet.down_blocks.%u.resnets.%u", i, k), x, l->channels,
                                   d->eps);
            if (l->down)
                x = build_draw_transformer(b, format_graph_name(b, "unet.down_blocks.%u.attentions.%u", i, k), x, i);
            append_skip_plane(b, x);
        }
        if (i + 1 == d->n_levels)
            break;
        x = build_draw_convolution(b, format_graph_name(b, "unet.down_blocks.%u.downsamplers.0.conv", i), x,
                                   l->channels, 2, 1);
        append_skip_plane(b, x);
    }
    return x;
}

static plane
build_unet_up(draw_builder *b, plane x)
{
    const dop_diffusion *d = b->d;
    for (uint32_t j = 0; j < d->n_levels; j++) {
        const uint32_t i = d->n_levels - 1 - j;
        const dop_unet_level *l = &d->levels[i];
        for (uint32_t k = 0; k <= d->layers && b->n_skips > 0; k++) {
            x = concat_planes(b, format_graph_name(b, "unet.up_blocks.%u.both.%u", j, k), x, b->skips[--b->n_skips]);
            x = build_resnet_block(b, format_graph_name(b, "unet.up_blocks.%u.resnets.%u", j, k), x, l->channels,
                                   d->eps);
            if (l->up)
                x = build_draw_transformer(b, format_graph_name(b, "unet.up_blocks.%u.attentions.%u", j, k), x, i);
        }
        if (i > 0)
            x = build_draw_convolution(b, format_graph_name(b, "unet.up_blocks.%u.upsamplers.0.conv", j), x,
                                       l->channels, 1, 2);
    }
    return x;
}

/* ---- graphs ------------------------------------------------------------------------------------------------------------- */

static draw_builder
begin_draw_graph(const dop_diffusion *d, const dop_weights *weights, const dop_diffusion_options *opt, const char *name,
                 uint32_t max_t, uint32_t most, uint32_t groups, dop_arena *arena, dop_diag *diag, dop_graph *out_graph)
{
    draw_builder b = {.d = d, .weights = weights, .opt = opt, .groups = groups};
    b.base = (builder){.g = out_graph, .diag = diag, .label = {-1, ""}, .layer = -1, .act_type = opt->act_type};
    b.base.status = dop_graph_init(out_graph, arena, name, max_t, most, diag);
    if (opt->sequences > 1)
        out_graph->max_q = opt->sequences;
    const dop_shape one = {1, {dop_dim_n(1)}};
    b.sequence = leaf(&b.base, DOP_OP_input, "sequences", "sequences", DOP_TYPE_u32, &one);
    return b;
}

static void
add_draw_output(draw_builder *b, dop_node_id x)
{
    if (b->base.status == DOP_OK)
        b->base.status = dop_graph_output(b->base.g, x, b->base.diag);
}

static void
add_draw_output_f32(draw_builder *b, dop_node_id x)
{
    add_draw_output(b, op1(&b->base, DOP_OP_cast, "out", x, NULL, DOP_TYPE_f32));
}

/* Builds group norm, SiLU and the final convolution. */
static plane
build_last_convolution(draw_builder *b, const char *at, plane x, uint32_t n, double eps)
{
    x = build_group_norm(b, format_graph_name(b, "%s.conv_norm_out", at), x, eps);
    x.id = add_silu(b, format_graph_name(b, "%s.conv_act", at), x.id);
    return build_draw_convolution(b, format_graph_name(b, "%s.conv_out", at), x, n, 1, 1);
}

/* Adds the inputs for attention within a picture at a resolution. */
static void
add_place_inputs(draw_builder *b, uint32_t level, uint32_t rows)
{
    b->places[level] = add_draw_input(b, format_graph_name(b, "places%u", level), DOP_TYPE_u32, rows, 0);
    b->lasts[level] = add_draw_input(b, format_graph_name(b, "lasts%u", level), DOP_TYPE_u32, rows, 0);
}

dop_status
dop_build_denoise(const dop_diffusion *d, const dop_weights *weights, const dop_diffusion_options *opt,
                  dop_arena *arena, dop_diag *diag, dop_graph *out_graph)
{
    const uint32_t down = d->n_levels - 1, most = 1u << (2 * down), times = dop_unet_times(d);
    draw_builder b = begin_draw_graph(d, weights, opt, "denoise", (opt->width >> down) * (opt->height >> down),
                                      opt->width * opt->height, d->groups, arena, diag, out_graph);
    plane x = {.rows = most, .width = opt->width, .height = opt->height, .channels = d->latents};
    x.id = add_draw_input(&b, "latents", DOP_TYPE_f32, x.rows, x.channels);
    dop_node_id time = add_draw_input(&b, "time", DOP_TYPE_f32, 0, times);
    for (uint32_t i = 0; i < d->n_levels; i++)
        if (d->levels[i].down || d->levels[i].up || (i == down && d->levels[i].on))
            add_place_inputs(&b, i, most >> (2 * i));
    time = add_silu(&b, "time1", build_draw_product(&b, "unet.time_embedding.linear_1", time, times, 4 * times));
    time = build_draw_product(&b, "unet.time_embedding.linear_2", time, 4 * times, 4 * times);
    if (d->added) {
        dop_node_id added = add_draw_input(&b, "added", DOP_TYPE_f32, 0, d->added);
        added =
            add_silu(&b, "added1", build_draw_product(&b, "unet.add_embedding.linear_1", added, d->added, 4 * times));
        time = add_draw_act(&b, DOP_OP_add, "timed_and_added", time,
                            build_draw_product(&b, "unet.add_embedding.linear_2", added, 4 * times, 4 * times));
    }
    b.time = add_silu(&b, "time2", time);
    x = build_draw_convolution(&b, "unet.conv_in", x, d->levels[0].channels, 1, 1);
    x = build_unet_down(&b, x);
    x = build_resnet_block(&b, "unet.mid_block.resnets.0", x, x.channels, d->eps);
    if (d->levels[down].on)
        x = build_draw_transformer(&b, "unet.mid_block.attentions.0", x, down);
    x = build_resnet_block(&b, "unet.mid_block.resnets.1", x, x.channels, d->eps);
    x = build_unet_up(&b, x);
    add_draw_output_f32(&b, build_last_convolution(&b, "unet", x, d->latents, d->eps).id);
    return b.base.status;
}

/* Appends the text's keys or values to the state that a cross-attention layer reads. */
static void
add_text_state(draw_builder *b, const char *at, const char *role, dop_node_id x, const dop_unet_level *l)
{
    const char *name = format_graph_name(b, "%s.%s", at, role);
    dop_node_id y = build_draw_product(b, format_graph_name(b, "%s.to_%s", at, role), x, b->d->context, l->channels);
    const plane rows = {.rows = 1, .channels = l->channels};
    y = split_draw_heads(b, format_graph_name(b, "%s.h", name), y, rows, l->heads);
    const dop_node_id srcs[] = {add_text_cache(b, name, l->channels, l->heads), y, b->places[0], b->sequence};
    add_draw_output(
        b, add_node(&b->base, DOP_OP_state_write, format_graph_name(b, "%s.written", name), srcs, 4, NULL, NULL));
}

static void
add_text_states(draw_builder *b, const char *at, dop_node_id x, const dop_unet_level *l)
{
    for (uint32_t i = 0; i < l->depth; i++) {
        const char *block = format_graph_name(b, "%s.transformer_blocks.%u.attn2", at, i);
        add_text_state(b, block, "k", x, l);
        add_text_state(b, block, "v", x, l);
    }
}

dop_status
dop_build_context(const dop_diffusion *d, const dop_weights *weights, const dop_diffusion_options *opt,
                  dop_arena *arena, dop_diag *diag, dop_graph *out_graph)
{
    draw_builder b = begin_draw_graph(d, weights, opt, "context", opt->context_rows, opt->context_rows, d->groups,
                                      arena, diag, out_graph);
    const dop_shape shape = {1, {{1, DOP_SYM_T}}};
    const dop_node_id x = add_draw_input(&b, "context", DOP_TYPE_f32, 1, d->context);
    b.places[0] = leaf(&b.base, DOP_OP_input, "positions", "positions", DOP_TYPE_u32, &shape);
    for (uint32_t i = 0; i < d->n_levels; i++)
        for (uint32_t k = 0; k < d->layers && d->levels[i].down; k++)
            add_text_states(&b, format_graph_name(&b, "unet.down_blocks.%u.attentions.%u", i, k), x, &d->levels[i]);
    if (d->levels[d->n_levels - 1].on)
        add_text_states(&b, "unet.mid_block.attentions.0", x, &d->levels[d->n_levels - 1]);
    for (uint32_t i = 0; i < d->n_levels; i++)
        for (uint32_t k = 0; k <= d->layers && d->levels[i].up; k++)
            add_text_states(&b, format_graph_name(&b, "unet.up_blocks.%u.attentions.%u", d->n_levels - 1 - i, k), x,
                            &d->levels[i]);
    return b.base.status;
}

/* Builds a causal layer of CLIP's text encoder. */
static dop_node_id
build_clip_layer(draw_builder *b, uint32_t i, dop_node_id x, dop_node_id places)
{
    static const char *const names[] = {"q_proj", "k_proj", "v_proj"};
    const dop_draw_text *t = &b->d->text_2;
    const plane rows = {.rows = 1, .channels = t->width};
    const char *at = format_graph_name(b, "text_2.text_model.encoder.layers.%u", i);
    const attention_attrs how = {.scale = 1 / sqrt((double)t->width / t->heads), .mask = DOP_MASK_causal};
    const dop_want want = {.shape = {2, {{1, DOP_SYM_T}, dop_dim_n(t->width)}}};
    dop_node_id y = build_draw_layer_norm(b, format_graph_name(b, "%s.layer_norm1", at), x, t->width),
                srcs[5] = {0, 0, 0, places, b->sequence};
    for (size_t k = 0; k < 3; k++) {
        const char *name = format_graph_name(b, "%s.self_attn.%s", at, names[k]);
        srcs[k] = split_draw_heads(b, format_graph_name(b, "%s.h", name),
                                   build_draw_product(b, name, y, t->width, t->width), rows, t->heads);
    }
    y = add_attention_as(&b->base, format_graph_name(b, "%s.attn", at), srcs, 5, &how);
    y = add_node(&b->base, DOP_OP_reshape, format_graph_name(b, "%s.row", at), &y, 1, NULL, &want);
    y = build_draw_product(b, format_graph_name(b, "%s.self_attn.out_proj", at), y, t->width, t->width);
    x = op2(&b->base, DOP_OP_add, format_graph_name(b, "%s.x1", at), x, y, NULL, DOP_TYPE_none);
    y = build_draw_layer_norm(b, format_graph_name(b, "%s.layer_norm2", at), x, t->width);
    y = build_draw_product(b, format_graph_name(b, "%s.mlp.fc1", at), y, t->width, t->inner);
    y = dop_build_activation(&b->base, t->act, format_graph_name(b, "%s.act", at), y);
    y = build_draw_product(b, format_graph_name(b, "%s.mlp.fc2", at), y, t->inner, t->width);
    return op2(&b->base, DOP_OP_add, format_graph_name(b, "%s.x2", at), x, y, NULL, DOP_TYPE_none);
}

dop_status
dop_build_text_2(const dop_diffusion *d, const dop_weights *weights, const dop_diffusion_options *opt, dop_arena *arena,
                 dop_diag *diag, dop_graph *out_graph)
{
    static const char model[] = "text_2.text_model";
    const dop_draw_text *t = &d->text_2;
    draw_builder b = begin_draw_graph(d, weights, opt, "encode_2", opt->context_rows, opt->context_rows, d->groups,
                                      arena, diag, out_graph);
    const char *table = format_graph_name(&b, "%s.embeddings.token_embedding", model);
    const dop_weight *w = dop_weights_find(weights, table);
    const dop_node_id ids = add_draw_input(&b, "tokens", DOP_TYPE_u32, 1, 0),
                      places = add_draw_input(&b, "places0", DOP_TYPE_u32, 1, 0);
    const dop_node_id tokens = add_draw_weight(&b, table, w ? w->rows : 1, t->width),
                      at = add_draw_weight(&b, format_graph_name(&b, "%s.embeddings.position_embedding", model),
                                           opt->context_rows, t->width);
    dop_node_id x = op2(&b.base, DOP_OP_gather, "token", tokens, ids, NULL, DOP_TYPE_f32);
    x = op2(&b.base, DOP_OP_add, "placed", x, op2(&b.base, DOP_OP_gather, "place", at, places, NULL, DOP_TYPE_f32),
            NULL, DOP_TYPE_f32);
    for (uint32_t i = 0; i + 1 < t->layers; i++)
        x = build_clip_layer(&b, i, x, places);
    dop_node_id last = build_clip_layer(&b, t->layers - 1, x, places);
    last = build_draw_layer_norm(&b, format_graph_name(&b, "%s.final_layer_norm", model), last, t->width);
    last = add_draw_act(&b, DOP_OP_matmul, "projected", last,
                        add_draw_weight(&b, "text_2.text_projection", t->projection, t->width));
    add_draw_output_f32(&b, op2(&b.base, DOP_OP_concat, "rows", x, last, NULL, DOP_TYPE_f32));
    return b.base.status;
}

/* Builds the middle of the encoder or decoder half: single-head attention between two residual blocks. */
static plane
build_vae_middle(draw_builder *b, const char *half, plane x)
{
    const char *at = format_graph_name(b, "%s.mid_block.attentions.0", half);
    x = build_resnet_block(b, format_graph_name(b, "%s.mid_block.resnets.0", half), x, x.channels, 1e-6);
    plane y = build_group_norm(b, format_graph_name(b, "%s.group_norm", at), x, 1e-6);
    y.id = build_self_attention(b, at, y.id, y, 1, 0);
    x = add_planes(b, format_graph_name(b, "%s.out", at), x, y);
    return build_resnet_block(b, format_graph_name(b, "%s.mid_block.resnets.1", half), x, x.channels, 1e-6);
}

dop_status
dop_build_decode(const dop_diffusion *d, const dop_weights *weights, const dop_diffusion_options *opt, dop_arena *arena,
                 dop_diag *diag, dop_graph *out_graph)
{
    const uint32_t down = d->n_levels - 1, most = 1u << (2 * down);
    draw_builder b = begin_draw_graph(d, weights, opt, "decode", (opt->width >> down) * (opt->height >> down),
                                      opt->width * opt->height, d->decode_groups, arena, diag, out_graph);
    plane x = {.rows = most, .width = opt->width, .height = opt->height, .channels = d->latents};
    x.id = add_draw_input(&b, "latents", DOP_TYPE_f32, most, d->latents);
    add_place_inputs(&b, 0, most);
    if (has_draw_weight(&b, "vae.post_quant_conv"))
        x.id = build_draw_product(&b, "vae.post_quant_conv", x.id, d->latents, d->latents);
    x = build_draw_convolution(&b, "vae.decoder.conv_in", x, d->channels[d->n_decodes - 1], 1, 1);
    x = build_vae_middle(&b, "vae.decoder", x);
    for (uint32_t j = 0; j < d->n_decodes; j++) {
        const uint32_t i = d->n_decodes - 1 - j;
        for (uint32_t k = 0; k <= d->decode_layers; k++)
            x = build_resnet_block(&b, format_graph_name(&b, "vae.decoder.up_blocks.%u.resnets.%u", j, k), x,
                                   d->channels[i], 1e-6);
        if (i > 0)
            x = build_draw_convolution(&b, format_graph_name(&b, "vae.decoder.up_blocks.%u.upsamplers.0.conv", j), x,
                                       x.channels, 1, 2);
    }
    add_draw_output_f32(&b, build_last_convolution(&b, "vae.decoder", x, d->colours, 1e-6).id);
    return b.base.status;
}

dop_status
dop_build_encode_picture(const dop_diffusion *d, const dop_weights *weights, const dop_diffusion_options *opt,
                         dop_arena *arena, dop_diag *diag, dop_graph *out_graph)
{
    const uint32_t down = d->n_levels - 1, most = 1u << (2 * down), halvings = d->n_decodes - 1;
    draw_builder b = begin_draw_graph(d, weights, opt, "encode_picture", (opt->width >> down) * (opt->height >> down),
                                      opt->width * opt->height, d->decode_groups, arena, diag, out_graph);
    plane x = {.rows = most << (2 * halvings),
               .width = opt->width << halvings,
               .height = opt->height << halvings,
               .channels = d->colours};
    x.id = add_draw_input(&b, "pixels", DOP_TYPE_f32, x.rows, d->colours);
    add_place_inputs(&b, 0, most);
    x = build_draw_convolution(&b, "vae.encoder.conv_in", x, d->channels[0], 1, 1);
    for (uint32_t i = 0; i < d->n_decodes; i++) {
        for (uint32_t k = 0; k < d->decode_layers; k++)
            x = build_resnet_block(&b, format_graph_name(&b, "vae.encoder.down_blocks.%u.resnets.%u", i, k), x,
                                   d->channels[i], 1e-6);
        if (i + 1 < d->n_decodes) /* windows extend one position past the right and lower edge */
            x = build_convolution_from(&b, format_graph_name(&b, "vae.encoder.down_blocks.%u.downsamplers.0.conv", i),
                                       x, x.channels, 2, 1, 0);
    }
    x = build_vae_middle(&b, "vae.encoder", x);
    x = build_last_convolution(&b, "vae.encoder", x, 2 * d->latents, 1e-6);
    if (has_draw_weight(&b, "vae.quant_conv"))
        x.id = build_draw_product(&b, "vae.quant_conv", x.id, 2 * d->latents, 2 * d->latents);
    add_draw_output_f32(&b, x.id);
    return b.base.status;
}
