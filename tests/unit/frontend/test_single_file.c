/* Single files of the published sizes of Stable Diffusion, with tensors but without their values: facts follow from names and shapes, and
 * graphs of all programs find their tensors. */
#include "frontend/adapter_places.h"
#include "frontend/build/build_diffusion.h"
#include "frontend/facts/import.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct sizes {
    const char *name;
    uint32_t context, heads_of[4], depth[4], levels; /* of the U-Net; depth 0: no attention */
    bool linear;                                     /* the first product of attention is a matrix */
    uint32_t text_width, text_layers, text_inner;    /* CLIP's */
    bool open_clip, xl;                              /* xl: a second text encoder of OpenCLIP's bigG */
    uint32_t sample;
} sizes;

static const sizes sd15 = {"sd15", 768, {8, 8, 8, 8}, {1, 1, 1, 0}, 4, false, 768, 12, 3072, false, false, 64},
                   sd21 = {"sd21", 1024, {5, 10, 20, 20}, {1, 1, 1, 0}, 4, true, 1024, 24, 4096, true, false, 96},
                   sdxl = {"sdxl", 2048, {5, 10, 20}, {0, 2, 10}, 3, true, 768, 12, 3072, false, true, 128};

typedef struct file {
    const sizes *s;
    json_t *root;
    uint64_t bytes;
    char dir[64], path[128];
} file;

/* Adds NAME.weight of the shape, and NAME.bias of its first axis. */
__attribute__((format(printf, 6, 7))) static void
add(file *f, uint32_t rank, uint32_t n, uint32_t c, uint32_t taps, const char *format, ...)
{
    char name[256], full[300];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    const uint32_t shape[] = {n, c, taps, taps};
    for (int bias = 0; bias < 2; bias++) {
        json_t *list = json_array();
        uint64_t size = 2;
        for (uint32_t i = 0; i < (bias ? 1 : rank); i++) {
            json_array_append_new(list, json_integer(shape[i]));
            size *= shape[i];
        }
        snprintf(full, sizeof full, "%s.%s", name, bias ? "bias" : "weight");
        json_object_set_new(f->root, full,
                            json_pack("{s:s, s:o, s:[I,I]}", "dtype", "F16", "shape", list, "data_offsets",
                                      (json_int_t)f->bytes, (json_int_t)(f->bytes + size)));
        f->bytes += size;
    }
}

/* Removes a bias, which the tensor's kind lacks. */
static void
no_bias(file *f, const char *format, const char *at, const char *name)
{
    char full[256];
    snprintf(full, sizeof full, format, at, name);
    cr_assert_eq(json_object_del(f->root, full), 0, "%s", full);
}

/* A single tensor. */
static void
add_one(file *f, const char *name, uint32_t n, uint32_t c)
{
    const uint64_t size = 2 * (uint64_t)n * c;
    json_object_set_new(f->root, name,
                        json_pack("{s:s, s:[i,i], s:[I,I]}", "dtype", "F16", "shape", n, c, "data_offsets",
                                  (json_int_t)f->bytes, (json_int_t)(f->bytes + size)));
    f->bytes += size;
}

static void
unet_resnet(file *f, const char *at, uint32_t in, uint32_t out)
{
    add(f, 1, in, 0, 0, "%s.in_layers.0", at);
    add(f, 4, out, in, 3, "%s.in_layers.2", at);
    add(f, 2, out, 4 * 320, 0, "%s.emb_layers.1", at);
    add(f, 1, out, 0, 0, "%s.out_layers.0", at);
    add(f, 4, out, out, 3, "%s.out_layers.3", at);
    if (in != out)
        add(f, 4, out, in, 1, "%s.skip_connection", at);
}

static void
transformer(file *f, const char *at, uint32_t c, uint32_t depth)
{
    static const char *const without[] = {"attn1.to_q", "attn1.to_k", "attn1.to_v",
                                          "attn2.to_q", "attn2.to_k", "attn2.to_v"};
    add(f, 1, c, 0, 0, "%s.norm", at);
    add(f, f->s->linear ? 2 : 4, c, c, 1, "%s.proj_in", at);
    for (uint32_t i = 0; i < depth; i++) {
        char block[128];
        snprintf(block, sizeof block, "%s.transformer_blocks.%u", at, i);
        for (uint32_t k = 1; k <= 3; k++)
            add(f, 1, c, 0, 0, "%s.norm%u", block, k);
        for (uint32_t k = 0; k < 6; k++) {
            add(f, 2, c, k > 3 ? f->s->context : c, 0, "%s.%s", block, without[k]);
            no_bias(f, "%s.%s.bias", block, without[k]);
        }
        add(f, 2, c, c, 0, "%s.attn1.to_out.0", block);
        add(f, 2, c, c, 0, "%s.attn2.to_out.0", block);
        add(f, 2, 8 * c, c, 0, "%s.ff.net.0.proj", block);
        add(f, 2, c, 4 * c, 0, "%s.ff.net.2", block);
    }
    add(f, f->s->linear ? 2 : 4, c, c, 1, "%s.proj_out", at);
}

static const uint32_t widths[] = {320, 640, 1280, 1280};

static void
unet(file *f)
{
    const sizes *s = f->s;
    uint32_t skips[32], n_skips = 0, at = 1, c = 320;
    char name[128];
#define AT(way, part) \
    (snprintf(name, sizeof name, "model.diffusion_model." way "_blocks.%u.%u", at, (unsigned)(part)), name)
    add(f, 2, 1280, 320, 0, "model.diffusion_model.time_embed.0");
    add(f, 2, 1280, 1280, 0, "model.diffusion_model.time_embed.2");
    add(f, 4, 320, 4, 3, "model.diffusion_model.input_blocks.0.0");
    skips[n_skips++] = 320;
    for (uint32_t i = 0; i < s->levels; i++) {
        for (uint32_t k = 0; k < 2; k++, at++) {
            unet_resnet(f, AT("input", 0), c, widths[i]);
            skips[n_skips++] = c = widths[i];
            if (s->depth[i])
                transformer(f, AT("input", 1), c, s->depth[i]);
        }
        if (i + 1 == s->levels)
            break;
        add(f, 4, c, c, 3, "%s.op", AT("input", 0));
        skips[n_skips++] = c;
        at++;
    }
    unet_resnet(f, "model.diffusion_model.middle_block.0", c, c);
    transformer(f, "model.diffusion_model.middle_block.1", c, s->depth[s->levels - 1] ? s->depth[s->levels - 1] : 1);
    unet_resnet(f, "model.diffusion_model.middle_block.2", c, c);
    at = 0;
    for (uint32_t i = s->levels; i-- > 0;)
        for (uint32_t k = 0; k < 3; k++, at++) {
            uint32_t part = 1;
            unet_resnet(f, AT("output", 0), c + skips[--n_skips], widths[i]);
            c = widths[i];
            if (s->depth[i])
                transformer(f, AT("output", part++), c, s->depth[i]);
            if (k == 2 && i > 0)
                add(f, 4, c, c, 3, "%s.conv", AT("output", part));
        }
    add(f, 1, 320, 0, 0, "model.diffusion_model.out.0");
    add(f, 4, 4, 320, 3, "model.diffusion_model.out.2");
}

static void
vae_resnet(file *f, const char *at, uint32_t in, uint32_t out)
{
    add(f, 1, in, 0, 0, "%s.norm1", at);
    add(f, 4, out, in, 3, "%s.conv1", at);
    add(f, 1, out, 0, 0, "%s.norm2", at);
    add(f, 4, out, out, 3, "%s.conv2", at);
    if (in != out)
        add(f, 4, out, in, 1, "%s.nin_shortcut", at);
}

static void
vae_half(file *f, const char *half, bool encoder)
{
    static const uint32_t w[] = {128, 256, 512, 512};
    static const char *const attn[] = {"q", "k", "v", "proj_out"};
    char name[128];
    uint32_t c = encoder ? 128 : 512;
    add(f, 4, c, encoder ? 3 : 4, 3, "%s.conv_in", half);
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t i = encoder ? j : 3 - j;
        for (uint32_t k = 0; k < (encoder ? 2 : 3); k++) {
            snprintf(name, sizeof name, "%s.%s.%u.block.%u", half, encoder ? "down" : "up", i, k);
            vae_resnet(f, name, c, w[i]);
            c = w[i];
        }
        if (j < 3)
            add(f, 4, c, c, 3, "%s.%s.%u.%s.conv", half, encoder ? "down" : "up", i,
                encoder ? "downsample" : "upsample");
    }
    snprintf(name, sizeof name, "%s.mid.block_1", half);
    vae_resnet(f, name, 512, 512);
    snprintf(name, sizeof name, "%s.mid.block_2", half);
    vae_resnet(f, name, 512, 512);
    add(f, 1, 512, 0, 0, "%s.mid.attn_1.norm", half);
    for (size_t i = 0; i < 4; i++)
        add(f, 4, 512, 512, 1, "%s.mid.attn_1.%s", half, attn[i]);
    add(f, 1, c, 0, 0, "%s.norm_out", half);
    add(f, 4, encoder ? 8 : 3, c, 3, "%s.conv_out", half);
}

static void
clip(file *f, const char *at, uint32_t w, uint32_t layers, uint32_t inner)
{
    static const char *const names[] = {"q_proj", "k_proj", "v_proj", "out_proj"};
    char name[256];
    snprintf(name, sizeof name, "%s.embeddings.token_embedding.weight", at);
    add_one(f, name, 49408, w);
    snprintf(name, sizeof name, "%s.embeddings.position_embedding.weight", at);
    add_one(f, name, 77, w);
    for (uint32_t i = 0; i < layers; i++) {
        for (size_t k = 0; k < 4; k++)
            add(f, 2, w, w, 0, "%s.encoder.layers.%u.self_attn.%s", at, i, names[k]);
        add(f, 1, w, 0, 0, "%s.encoder.layers.%u.layer_norm1", at, i);
        add(f, 1, w, 0, 0, "%s.encoder.layers.%u.layer_norm2", at, i);
        add(f, 2, inner, w, 0, "%s.encoder.layers.%u.mlp.fc1", at, i);
        add(f, 2, w, inner, 0, "%s.encoder.layers.%u.mlp.fc2", at, i);
    }
    add(f, 1, w, 0, 0, "%s.final_layer_norm", at);
}

static void
open_clip(file *f, const char *at, uint32_t w, uint32_t layers, uint32_t inner)
{
    char name[256];
    snprintf(name, sizeof name, "%s.token_embedding.weight", at);
    add_one(f, name, 49408, w);
    snprintf(name, sizeof name, "%s.positional_embedding", at);
    add_one(f, name, 77, w);
    snprintf(name, sizeof name, "%s.text_projection", at);
    add_one(f, name, w, w);
    for (uint32_t i = 0; i < layers; i++) {
        const char *const block = "transformer.resblocks";
        add(f, 1, w, 0, 0, "%s.%s.%u.ln_1", at, block, i);
        add(f, 1, w, 0, 0, "%s.%s.%u.ln_2", at, block, i);
        add(f, 2, 3 * w, w, 0, "%s.%s.%u.attn.in_proj", at, block, i);
        for (int bias = 0; bias < 2; bias++) { /* in_proj_weight, not in_proj.weight */
            char was[256], is[256];
            const char *const part = bias ? "bias" : "weight";
            snprintf(was, sizeof was, "%s.%s.%u.attn.in_proj.%s", at, block, i, part);
            snprintf(is, sizeof is, "%s.%s.%u.attn.in_proj_%s", at, block, i, part);
            json_object_set(f->root, is, json_object_get(f->root, was));
            json_object_del(f->root, was);
        }
        add(f, 2, w, w, 0, "%s.%s.%u.attn.out_proj", at, block, i);
        add(f, 2, inner, w, 0, "%s.%s.%u.mlp.c_fc", at, block, i);
        add(f, 2, w, inner, 0, "%s.%s.%u.mlp.c_proj", at, block, i);
    }
    add(f, 1, w, 0, 0, "%s.ln_final", at);
}

/* Writes the header; what follows it is a hole. */
static void
write_file(file *f)
{
    char *text = json_dumps(f->root, JSON_COMPACT), tokenizer[600], link[600];
    const uint64_t n = strlen(text);
    snprintf(f->dir, sizeof f->dir, "/tmp/dop_single_XXXXXX");
    cr_assert_not_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof f->path, "%s/model.safetensors", f->dir);
    FILE *out = fopen(f->path, "wb");
    cr_assert_not_null(out);
    cr_assert(fwrite(&n, sizeof n, 1, out) == 1 && fwrite(text, 1, n, out) == n && fclose(out) == 0);
    cr_assert_eq(truncate(f->path, (off_t)(8 + n + f->bytes)), 0);
    snprintf(tokenizer, sizeof tokenizer, "%s/tests/diffusion/sd15/tokenizer", DOP_SOURCE_DIR);
    snprintf(link, sizeof link, "%s/tokenizer", f->dir);
    cr_assert_eq(symlink(tokenizer, link), 0);
    free(text);
}

static void
file_open(file *f, const sizes *s)
{
    *f = (file){.s = s, .root = json_object()};
    unet(f);
    vae_half(f, "first_stage_model.encoder", true);
    vae_half(f, "first_stage_model.decoder", false);
    add(f, 4, 8, 8, 1, "first_stage_model.quant_conv");
    add(f, 4, 4, 4, 1, "first_stage_model.post_quant_conv");
    if (s->xl) {
        clip(f, "conditioner.embedders.0.transformer.text_model", s->text_width, s->text_layers, s->text_inner);
        open_clip(f, "conditioner.embedders.1.model", 1280, 32, 5120);
        add(f, 2, 1280, 2816, 0, "model.diffusion_model.label_emb.0.0");
        add(f, 2, 1280, 1280, 0, "model.diffusion_model.label_emb.0.2");
    } else if (s->open_clip)
        open_clip(f, "cond_stage_model.model", s->text_width, s->text_layers, s->text_inner);
    else
        clip(f, "cond_stage_model.transformer.text_model", s->text_width, s->text_layers, s->text_inner);
    add_one(f, "model_ema.decay", 1, 1);
    add_one(f, "alphas_cumprod", 1, 1000);
    write_file(f);
}

static void
file_close(file *f)
{
    char link[600];
    snprintf(link, sizeof link, "%s/tokenizer", f->dir);
    cr_assert(unlink(f->path) == 0 && unlink(link) == 0 && rmdir(f->dir) == 0);
    json_decref(f->root);
}

/* Is there a place for adapters under this name? */
static bool
has_place(const dop_adapter_map *map, const char *name, bool leads_somewhere)
{
    for (uint32_t i = 0; i < map->n_places; i++)
        if (strcmp(map->places[i].tensor, name) == 0)
            return (map->places[i].target != DOP_ADAPTER_NOWHERE) == leads_somewhere;
    return false;
}

/* Adapters find every matrix and convolution of the U-Net by the name in the file, its words joined by "_", and text encoders' by
 * diffusers' names. */
static void
has_places(const file *f, const dop_checkpoint *m)
{
    static const char prefix[] = "model.diffusion_model.";
    char name[300];
    const char *key;
    json_t *value;
    uint32_t n = 0;
    dop_arena arena;
    dop_diag diag = {0};
    dop_adapter_map map;
    dop_arena_init(&arena);
    cr_assert_eq(dop_adapter_places(m, &arena, &diag, &map), DOP_OK, "%s", diag.message);
    json_object_foreach(f->root, key, value)
    {
        const size_t len = strlen(key);
        if (strncmp(key, prefix, sizeof prefix - 1) != 0 || json_array_size(json_object_get(value, "shape")) < 2)
            continue;
        snprintf(name, sizeof name, "lora_unet_%.*s", (int)(len - sizeof prefix + 1 - strlen(".weight")),
                 key + sizeof prefix - 1);
        for (char *c = name; *c; c++)
            *c = *c == '.' ? '_' : *c;
        cr_assert(has_place(&map, name, true), "%s: %s", f->s->name, name);
        n++;
    }
    cr_assert_gt(n, 200);
    cr_assert(has_place(&map, "unet.mid_block.attentions.0.transformer_blocks.0.ff.net.0.proj", true));
    cr_assert(has_place(&map, "lora_unet_up_blocks_1_upsamplers_0_conv", true));
    cr_assert(has_place(&map, "text_encoder.text_model.encoder.layers.10.mlp.fc1", true));
    cr_assert_eq(has_place(&map, "lora_te1_text_model_encoder_layers_11_mlp_fc1", false), f->s->xl);
    cr_assert_eq(has_place(&map, "lora_te2_text_model_encoder_layers_31_self_attn_q_proj", true), f->s->xl);
    dop_arena_finish(&arena);
}

static void
is_model(const sizes *s)
{
    static dop_status (*const builds[])(const dop_diffusion *d, const dop_weights *weights,
                                        const dop_diffusion_options *opt, dop_arena *arena, dop_diag *diag,
                                        dop_graph *out_graph) = {dop_build_context, dop_build_denoise, dop_build_decode,
                                                                 dop_build_encode_picture, dop_build_text_2};
    file f;
    dop_arena arena;
    dop_diag diag = {0};
    dop_checkpoint m;
    dop_arena_init(&arena);
    file_open(&f, s);
    dop_status st = dop_checkpoint_load(f.path, &arena, &diag, &m);
    cr_assert_eq(st, DOP_OK, "%s: %s", s->name, diag.message);
    const dop_diffusion *d = m.diffusion;
    cr_assert_not_null(d);
    cr_assert_eq(d->n_levels, s->levels);
    for (uint32_t i = 0; i < s->levels; i++) {
        const dop_unet_level *l = &d->levels[i];
        cr_assert(l->channels == widths[i] && l->heads == s->heads_of[i] && l->depth == (s->depth[i] ? s->depth[i] : 1),
                  "%s: level %u: %u channels, %u heads, depth %u", s->name, i, l->channels, l->heads, l->depth);
        cr_assert(l->down == (s->depth[i] > 0) && l->up == l->down);
    }
    cr_assert(d->context == s->context && d->layers == 2 && d->groups == 32 && d->latents == 4 && d->colours == 3);
    cr_assert(d->n_decodes == 4 && d->channels[0] == 128 && d->channels[3] == 512 && d->decode_layers == 2 &&
              d->encodes);
    cr_assert(m.arch.hidden == s->text_width && m.arch.vocab == 49408 && m.arch.ctx_train == 77);
    const dop_diffusion_options opt = {.width = 64,
                                       .height = 64,
                                       .context_rows = 77,
                                       .sequences = 2,
                                       .act_type = DOP_TYPE_f32,
                                       .kv_type = DOP_TYPE_f16};
    for (size_t i = 0; i < sizeof builds / sizeof *builds - !s->xl; i++) {
        dop_graph g;
        st = builds[i](d, &m.weights, &opt, &arena, &diag, &g);
        cr_assert_eq(st, DOP_OK, "%s: %s", s->name, diag.message);
    }
    cr_assert_eq(d->sample, s->sample);
    cr_assert_eq(d->pad, s->open_clip ? 0u : 513u);
    if (s == &sd21) { /* the last layer is not used, and what the model predicts is not known */
        cr_assert(m.arch.n_layers == 23 && d->predicts == DOP_PREDICTS_VELOCITY);
        cr_assert(m.note && strstr(m.note, "velocities are assumed"), "%s", m.note);
    } else {
        cr_assert(m.arch.n_layers == s->text_layers - s->xl && d->predicts == DOP_PREDICTS_NOISE);
    }
    if (s->xl) {
        const dop_draw_text *t = &d->text_2;
        cr_assert(t->width == 1280 && t->layers == 32 && t->heads == 20 && t->inner == 5120 && t->projection == 1280);
        cr_assert(t->act == DOP_ACT_GELU && t->pad == 0 && d->added == 2816 && d->size_values == 256 && d->blank_zero);
        cr_assert(m.arch.final_norm.kind == DOP_NORM_NONE && fabs(d->scaling - 0.13025) < 1e-9);
    }
    has_places(&f, &m);
    dop_checkpoint_finish(&m);
    dop_arena_finish(&arena);
    file_close(&f);
}

Test(single_file, stable_diffusion_1)
{
    is_model(&sd15);
}

Test(single_file, stable_diffusion_2)
{
    is_model(&sd21);
}

Test(single_file, stable_diffusion_xl)
{
    is_model(&sdxl);
}
