/* Tensor names in originally published single files of latent diffusion models, and in diffusers directories. Single-file names
 * follow https://github.com/CompVis/latent-diffusion, and OpenCLIP for Stable Diffusion 2's text encoder. */
#include "frontend/diffusion/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pair {
    const char *file, *directory;
} pair;

/* Replaces the beginning of a name that equals the first of a pair by the second; NULL: no match. */
static const char *
replace_name_start(dop_arena *arena, const char *before, const char *name, const pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const size_t k = strlen(pairs[i].file);
        if (strncmp(name, pairs[i].file, k) == 0 && (!name[k] || name[k] == '.'))
            return dop_arena_printf(arena, "%s%s%s", before, pairs[i].directory, name + k);
    }
    return NULL;
}

/* Parses "PREFIX<number>." at *io_name and advances past it; false: no match. */
static bool
take_numbered_prefix(const char **io_name, const char *prefix, uint32_t *out)
{
    const size_t k = strlen(prefix);
    const char *at = *io_name + k;
    if (strncmp(*io_name, prefix, k) != 0 || *at < '0' || *at > '9')
        return false;
    char *end;
    const unsigned long number = strtoul(at, &end, 10);
    if (*end != '.' || number > 1000)
        return false;
    *out = (uint32_t)number;
    *io_name = end + 1;
    return true;
}

#define RENAMED(arena, before, name, pairs) \
    replace_name_start(arena, before, name, pairs, sizeof(pairs) / sizeof *(pairs))

static const pair unet_others[] = {{"time_embed.0", "time_embedding.linear_1"},
                                   {"time_embed.2", "time_embedding.linear_2"},
                                   {"label_emb.0.0", "add_embedding.linear_1"},
                                   {"label_emb.0.2", "add_embedding.linear_2"},
                                   {"input_blocks.0.0", "conv_in"},
                                   {"out.0", "conv_norm_out"},
                                   {"out.2", "conv_out"}};
static const pair unet_blocks[] = {{"in_layers.0", "norm1"},          {"in_layers.2", "conv1"},
                                   {"out_layers.0", "norm2"},         {"out_layers.3", "conv2"},
                                   {"emb_layers.1", "time_emb_proj"}, {"skip_connection", "conv_shortcut"}};

/* Returns the name of a residual block's tensor, or of an attention block's, which is the same in both forms. */
static const char *
name_unet_block(dop_arena *arena, const char *block, const char *attention, const char *name)
{
    const char *own = RENAMED(arena, block, name, unet_blocks);
    return own || !attention ? own : dop_arena_printf(arena, "%s%s", attention, name);
}

const char *
dop_draw_unet_name(dop_arena *arena, const char *name, uint32_t layers)
{
    char block[64], attention[64];
    uint32_t i, part;
    const char *own = RENAMED(arena, "", name, unet_others), *at = name;
    if (own)
        return own;
    if (take_numbered_prefix(&at, "middle_block.", &part)) {
        snprintf(block, sizeof block, "mid_block.resnets.%u.", part / 2);
        return name_unet_block(arena, block, part == 1 ? "mid_block.attentions.0." : NULL, at);
    }
    const bool down = take_numbered_prefix(&at, "input_blocks.", &i);
    if (!down && !take_numbered_prefix(&at, "output_blocks.", &i))
        return NULL;
    if ((down && i == 0) || !take_numbered_prefix(&at, "", &part))
        return NULL;
    const uint32_t n = layers + 1, level = down ? (i - 1) / n : i / n, k = down ? (i - 1) % n : i % n;
    const char *way = down ? "down" : "up";
    if (strncmp(at, down ? "op." : "conv.", down ? 3 : 5) == 0)
        return dop_arena_printf(arena, "%s_blocks.%u.%ssamplers.0.conv.%s", way, level, way, strchr(at, '.') + 1);
    snprintf(block, sizeof block, "%s_blocks.%u.resnets.%u.", way, level, k);
    snprintf(attention, sizeof attention, "%s_blocks.%u.attentions.%u.", way, level, k);
    return name_unet_block(arena, block, part == 1 ? attention : NULL, at);
}

/* Reverse of replace_name_start(): from the second of a pair to the first. */
static const char *
restore_name_start(dop_arena *arena, const char *before, const char *name, const pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const size_t k = strlen(pairs[i].directory);
        if (strncmp(name, pairs[i].directory, k) == 0 && (!name[k] || name[k] == '.'))
            return dop_arena_printf(arena, "%s%s%s", before, pairs[i].file, name + k);
    }
    return NULL;
}

const char *
dop_draw_unet_file_name(dop_arena *arena, const char *name, const dop_diffusion *d)
{
    static const char down_end[] = "downsamplers.0.conv", up_end[] = "upsamplers.0.conv";
    const uint32_t n = d->layers + 1;
    char block[64];
    uint32_t level, k;
    const char *own = restore_name_start(arena, "", name, unet_others, sizeof unet_others / sizeof *unet_others),
               *at = name;
    if (own)
        return own;
    if (take_numbered_prefix(&at, "mid_block.attentions.", &k))
        return dop_arena_printf(arena, "middle_block.1.%s", at);
    if (take_numbered_prefix(&at, "mid_block.resnets.", &k)) {
        snprintf(block, sizeof block, "middle_block.%u.", 2 * k);
        return restore_name_start(arena, block, at, unet_blocks, sizeof unet_blocks / sizeof *unet_blocks);
    }
    const bool down = take_numbered_prefix(&at, "down_blocks.", &level);
    if ((!down && !take_numbered_prefix(&at, "up_blocks.", &level)) || level >= d->n_levels)
        return NULL;
    const char *way = down ? "input" : "output";
    if (down && strncmp(at, down_end, sizeof down_end - 1) == 0)
        return dop_arena_printf(arena, "input_blocks.%u.0.op%s", (level + 1) * n, at + sizeof down_end - 1);
    if (!down && strncmp(at, up_end, sizeof up_end - 1) == 0) /* after attention, if the level has it */
        return dop_arena_printf(arena, "output_blocks.%u.%d.conv%s", level * n + d->layers,
                                1 + d->levels[d->n_levels - 1 - level].up, at + sizeof up_end - 1);
    const bool attends = take_numbered_prefix(&at, "attentions.", &k);
    if (!attends && !take_numbered_prefix(&at, "resnets.", &k))
        return NULL;
    snprintf(block, sizeof block, "%s_blocks.%u.%d.", way, level * n + k + down, attends);
    return attends ? dop_arena_printf(arena, "%s%s", block, at)
                   : restore_name_start(arena, block, at, unet_blocks, sizeof unet_blocks / sizeof *unet_blocks);
}

const char *
dop_draw_vae_name(dop_arena *arena, const char *name, uint32_t levels)
{
    static const pair sides[] = {{"norm_out", "conv_norm_out"},
                                 {"conv_in", "conv_in"},
                                 {"conv_out", "conv_out"},
                                 {"mid.block_1.nin_shortcut", "mid_block.resnets.0.conv_shortcut"},
                                 {"mid.block_1", "mid_block.resnets.0"},
                                 {"mid.block_2", "mid_block.resnets.1"},
                                 {"mid.attn_1.norm", "mid_block.attentions.0.group_norm"},
                                 {"mid.attn_1.q", "mid_block.attentions.0.to_q"},
                                 {"mid.attn_1.k", "mid_block.attentions.0.to_k"},
                                 {"mid.attn_1.v", "mid_block.attentions.0.to_v"},
                                 {"mid.attn_1.proj_out", "mid_block.attentions.0.to_out.0"}};
    static const pair blocks[] = {{"nin_shortcut", "conv_shortcut"},
                                  {"norm1", "norm1"},
                                  {"norm2", "norm2"},
                                  {"conv1", "conv1"},
                                  {"conv2", "conv2"}};
    const bool encoder = strncmp(name, "encoder.", 8) == 0;
    const char *side = encoder ? "encoder." : "decoder.", *way = encoder ? "down" : "up", *at = name + 8;
    char before[64], level_of[16];
    uint32_t i, k;
    if (strncmp(name, "quant_conv.", 11) == 0 || strncmp(name, "post_quant_conv.", 16) == 0)
        return name;
    if (strncmp(name, side, 8) != 0)
        return NULL;
    const char *own = RENAMED(arena, side, at, sides);
    snprintf(level_of, sizeof level_of, "%s.", way);
    if (own || !take_numbered_prefix(&at, level_of, &i) || i >= levels)
        return own;
    const uint32_t level = encoder ? i : levels - 1 - i;
    snprintf(before, sizeof before, "%s%s_blocks.%u.", side, way, level);
    if (take_numbered_prefix(&at, "block.", &k)) {
        snprintf(before, sizeof before, "%s%s_blocks.%u.resnets.%u.", side, way, level, k);
        return RENAMED(arena, before, at, blocks);
    }
    const char *resample = encoder ? "downsample.conv." : "upsample.conv.";
    return strncmp(at, resample, strlen(resample)) == 0
               ? dop_arena_printf(arena, "%s%ssamplers.0.conv.%s", before, way, at + strlen(resample))
               : NULL;
}

const char *
dop_draw_text_name(dop_arena *arena, const char *name, uint32_t layers, bool projected)
{
    static const pair others[] = {{"token_embedding", "text_model.embeddings.token_embedding"},
                                  {"positional_embedding", "text_model.embeddings.position_embedding.weight"},
                                  {"ln_final", "text_model.final_layer_norm"}};
    static const pair parts[] = {{"ln_1", "layer_norm1"},
                                 {"ln_2", "layer_norm2"},
                                 {"attn.out_proj", "self_attn.out_proj"},
                                 {"attn.in_proj_weight", "self_attn.{q,k,v}_proj.weight"},
                                 {"attn.in_proj_bias", "self_attn.{q,k,v}_proj.bias"},
                                 {"mlp.c_fc", "mlp.fc1"},
                                 {"mlp.c_proj", "mlp.fc2"}};
    char before[64];
    uint32_t i;
    if (projected && strcmp(name, "text_projection") == 0)
        return "text_projection.weight";
    if (!take_numbered_prefix(&name, "transformer.resblocks.", &i))
        return RENAMED(arena, "", name, others);
    snprintf(before, sizeof before, "text_model.encoder.layers.%u.", i);
    return i < layers ? RENAMED(arena, before, name, parts) : NULL;
}

/* Joins the words of a name with "_", as sd-scripts does. */
static const char *
join_name_words(dop_arena *arena, const char *before, const char *name)
{
    char *made = name ? dop_arena_printf(arena, "%s%s", before, name) : NULL;
    for (char *c = made; c && *c; c++)
        *c = *c == '.' ? '_' : *c;
    return made;
}

uint32_t
dop_draw_adapter_names(dop_arena *arena, const dop_diffusion *d, const char *module, const char **out)
{
    static const char unet[] = "unet.", first[] = "text_encoder.", second[] = "text_encoder_2.";
    uint32_t n = 0;
    out[n++] = module;
    if (strncmp(module, unet, sizeof unet - 1) == 0) {
        const char *name = module + sizeof unet - 1;
        const char *old = dop_draw_unet_file_name(arena, name, d);
        out[n++] = name;
        out[n++] = join_name_words(arena, "lora_unet_", name);
        if (old)
            out[n++] = join_name_words(arena, "lora_unet_", old);
    } else if (strncmp(module, first, sizeof first - 1) == 0) {
        out[n++] = join_name_words(arena, "lora_te_", module + sizeof first - 1);
        out[n++] = join_name_words(arena, "lora_te1_", module + sizeof first - 1);
    } else if (strncmp(module, second, sizeof second - 1) == 0) {
        out[n++] = join_name_words(arena, "lora_te2_", module + sizeof second - 1);
    }
    return n;
}
