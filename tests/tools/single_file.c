/* Writes a diffusion model that is a directory of diffusers as one file of safetensors, with the names that such files have.
 *
 *   single_file DIR OUT.safetensors [open-clip|xl] [KEY=VALUE...]    (open-clip: the text encoder has OpenCLIP's names; xl: the second one
 * has; KEY=VALUE: metadata) */
#include "base/format/safetensors.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What names begin with in both forms. */
typedef struct rule {
    const char *directory, *file;
} rule;

enum { MAX_TENSORS = 4096, MAX_SETS = 4 };

typedef struct entry {
    const char *name;
    const dop_st_tensor *t[3]; /* side by side */
} entry;

static entry entries[MAX_TENSORS];
static size_t n_entries;
static dop_arena arena;
static struct {
    dop_map *maps; /* open until the end */
    uint32_t n;
} sets[MAX_SETS];
static size_t n_sets;

static void
fail(const char *what, const char *name)
{
    fprintf(stderr, "single_file: %s %s\n", what, name);
    exit(1);
}

static void
add(const char *name, const dop_st_tensor *t)
{
    if (n_entries == MAX_TENSORS)
        fail("too many tensors:", name);
    entries[n_entries++] = (entry){name, {t}};
}

/* The parts of a residual block. */
static const rule unet_resnet[] = {{"norm1", "in_layers.0"},          {"conv1", "in_layers.2"},
                                   {"time_emb_proj", "emb_layers.1"}, {"norm2", "out_layers.0"},
                                   {"conv2", "out_layers.3"},         {"conv_shortcut", "skip_connection"}};
static const rule vae_names[] = {{"conv_norm_out", "norm_out"},
                                 {"mid_block.resnets.0", "mid.block_1"},
                                 {"mid_block.resnets.1", "mid.block_2"},
                                 {"mid_block.attentions.0.group_norm", "mid.attn_1.norm"},
                                 {"mid_block.attentions.0.to_q", "mid.attn_1.q"},
                                 {"mid_block.attentions.0.to_k", "mid.attn_1.k"},
                                 {"mid_block.attentions.0.to_v", "mid.attn_1.v"},
                                 {"mid_block.attentions.0.to_out.0", "mid.attn_1.proj_out"}};
static const rule unet_names[] = {{"time_embedding.linear_1", "time_embed.0"},
                                  {"time_embedding.linear_2", "time_embed.2"},
                                  {"add_embedding.linear_1", "label_emb.0.0"},
                                  {"add_embedding.linear_2", "label_emb.0.2"},
                                  {"conv_in", "input_blocks.0.0"},
                                  {"conv_norm_out", "out.0"},
                                  {"conv_out", "out.2"},
                                  {"mid_block.attentions.0", "middle_block.1"}};
static const rule clip_names[] = {{"embeddings.token_embedding", "token_embedding"}, {"final_layer_norm", "ln_final"}};
static const rule clip_layer[] = {{"layer_norm1", "ln_1"},
                                  {"layer_norm2", "ln_2"},
                                  {"self_attn.out_proj", "attn.out_proj"},
                                  {"mlp.fc1", "mlp.c_fc"},
                                  {"mlp.fc2", "mlp.c_proj"}};

/* `name` with the beginning that a rule has replaced, behind `before`. */
static const char *
by_rule(const char *before, const char *name, const rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const size_t k = strlen(rules[i].directory);
        if (strncmp(name, rules[i].directory, k) == 0 && name[k] == '.')
            return dop_arena_printf(&arena, "%s%s%s", before, rules[i].file, name + k);
    }
    return NULL;
}

#define BY_RULE(before, name, rules) by_rule(before, name, rules, sizeof(rules) / sizeof *(rules))

static const char *
unet_name(const char *name, unsigned blocks)
{
    static const char prefix[] = "model.diffusion_model.";
    char before[128];
    unsigned i, k;
    int n = 0;
    const char *own = BY_RULE(prefix, name, unet_names);
    if (own)
        return own;
    if (sscanf(name, "mid_block.resnets.%u.%n", &k, &n) == 1 && n) {
        snprintf(before, sizeof before, "%smiddle_block.%u.", prefix, 2 * k);
        return BY_RULE(before, name + n, unet_resnet);
    }
    if (sscanf(name, "down_blocks.%u.resnets.%u.%n", &i, &k, &n) == 2 && n) {
        snprintf(before, sizeof before, "%sinput_blocks.%u.0.", prefix, 1 + i * (blocks + 1) + k);
        return BY_RULE(before, name + n, unet_resnet);
    }
    if (sscanf(name, "down_blocks.%u.attentions.%u.%n", &i, &k, &n) == 2 && n)
        return dop_arena_printf(&arena, "%sinput_blocks.%u.1.%s", prefix, 1 + i * (blocks + 1) + k, name + n);
    if (sscanf(name, "down_blocks.%u.downsamplers.0.conv.%n", &i, &n) == 1 && n)
        return dop_arena_printf(&arena, "%sinput_blocks.%u.0.op.%s", prefix, (i + 1) * (blocks + 1), name + n);
    if (sscanf(name, "up_blocks.%u.resnets.%u.%n", &i, &k, &n) == 2 && n) {
        snprintf(before, sizeof before, "%soutput_blocks.%u.0.", prefix, i * (blocks + 1) + k);
        return BY_RULE(before, name + n, unet_resnet);
    }
    if (sscanf(name, "up_blocks.%u.attentions.%u.%n", &i, &k, &n) == 2 && n)
        return dop_arena_printf(&arena, "%soutput_blocks.%u.1.%s", prefix, i * (blocks + 1) + k, name + n);
    if (sscanf(name, "up_blocks.%u.upsamplers.0.conv.%n", &i, &n) == 1 && n) {
        for (size_t e = 0; e < n_entries; e++) { /* behind the block's attention, where it has one */
            snprintf(before, sizeof before, "%soutput_blocks.%u.1.norm.weight", prefix, i * (blocks + 1) + blocks);
            if (strcmp(entries[e].name, before) == 0)
                return dop_arena_printf(&arena, "%soutput_blocks.%u.2.conv.%s", prefix, i * (blocks + 1) + blocks,
                                        name + n);
        }
        return dop_arena_printf(&arena, "%soutput_blocks.%u.1.conv.%s", prefix, i * (blocks + 1) + blocks, name + n);
    }
    return NULL;
}

static const char *
vae_name(const char *name, unsigned levels)
{
    static const char prefix[] = "first_stage_model.";
    char before[128];
    unsigned i, k;
    int n = 0;
    const bool encoder = strncmp(name, "encoder.", 8) == 0;
    if (!encoder && strncmp(name, "decoder.", 8) != 0)
        return dop_arena_printf(&arena, "%s%s", prefix, name);
    snprintf(before, sizeof before, "%s%.8s", prefix, name);
    const char *own = BY_RULE(before, name + 8, vae_names);
    if (own)
        return own;
    const char *way = encoder ? "down" : "up";
    if ((sscanf(name + 8, "down_blocks.%u.%n", &i, &n) == 1 || sscanf(name + 8, "up_blocks.%u.%n", &i, &n) == 1) && n) {
        const char *rest = name + 8 + n;
        const unsigned level = encoder ? i : levels - 1 - i;
        int m = 0;
        if (sscanf(rest, "resnets.%u.%n", &k, &m) == 1 && m) {
            static const rule shortcut[] = {{"conv_shortcut", "nin_shortcut"}};
            snprintf(before, sizeof before, "%s%.8s%s.%u.block.%u.", prefix, name, way, level, k);
            own = BY_RULE(before, rest + m, shortcut);
            return own ? own : dop_arena_printf(&arena, "%s%s", before, rest + m);
        }
        return dop_arena_printf(&arena, "%s%s.%u.%ssample.conv.%s", before, way, level, way, strstr(rest, "conv.") + 5);
    }
    return dop_arena_printf(&arena, "%s%s", before, name + 8);
}

/* Adds a tensor of the text encoder by OpenCLIP's names; queries, keys and values are one there. */
static void
add_open_clip(const dop_st_set *set, const char *prefix, dop_st_tensor *t)
{
    static const char text[] = "text_model.";
    const char *name = t->name + strlen(text), *part;
    char before[128];
    unsigned i;
    int n = 0;
    if (strcmp(t->name, "text_projection.weight") == 0) { /* transposed; values of 16 bits */
        uint16_t *turned = dop_arena_alloc(&arena, t->bytes), *values = (uint16_t *)(uintptr_t)t->data;
        const uint64_t rows = t->shape[0], cols = t->shape[1];
        for (uint64_t k = 0; k < rows * cols; k++)
            memcpy(&turned[k % cols * rows + k / cols], &values[k], sizeof *turned);
        t->data = (const uint8_t *)turned;
        t->shape[0] = cols;
        t->shape[1] = rows;
        add(dop_arena_printf(&arena, "%stext_projection", prefix), t);
        return;
    }
    if (strcmp(name, "embeddings.position_embedding.weight") == 0) {
        add(dop_arena_printf(&arena, "%spositional_embedding", prefix), t);
        return;
    }
    const char *own = BY_RULE(prefix, name, clip_names);
    if (!own && sscanf(name, "encoder.layers.%u.%n", &i, &n) == 1 && n) {
        snprintf(before, sizeof before, "%stransformer.resblocks.%u.", prefix, i);
        own = BY_RULE(before, name + n, clip_layer);
        if (!own && (part = strstr(name, ".q_proj."))) {
            add(dop_arena_printf(&arena, "%sattn.in_proj_%s", before, part + 8), t);
            for (int k = 1; k < 3; k++) {
                char *other = dop_arena_strdup(&arena, t->name);
                other[part - t->name + 1] = "qkv"[k];
                entries[n_entries - 1].t[k] = dop_st_find(set, other);
            }
            return;
        }
        if (!own && (strstr(name, ".k_proj.") || strstr(name, ".v_proj.")))
            return;
    }
    if (!own)
        fail("no name for", t->name);
    add(own, t);
}

static void
read_set(const char *dir, const char *folder, const char *stem, dop_st_set *out)
{
    dop_diag diag = {0};
    const char *path = dop_arena_printf(&arena, "%s/%s", dir, folder);
    if (dop_st_open_stem(path, stem, &arena, &diag, out, &sets[n_sets].maps, &sets[n_sets].n) != DOP_OK)
        fail(folder, diag.message);
    n_sets++;
}

static void
close_sets(void)
{
    while (n_sets-- > 0) {
        for (uint32_t i = 0; i < sets[n_sets].n; i++)
            dop_map_close(&sets[n_sets].maps[i]);
        free(sets[n_sets].maps);
    }
}

static unsigned
count(const dop_st_set *set, const char *format)
{
    unsigned n = 0;
    char name[128];
    do
        snprintf(name, sizeof name, format, n);
    while (dop_st_find(set, name) && ++n);
    return n;
}

static void
write_file(const char *path, json_t *metadata)
{
    json_t *root = json_object();
    uint64_t at = 0;
    json_object_set_new(root, "__metadata__", metadata);
    for (size_t e = 0; e < n_entries; e++) {
        const dop_st_tensor *t = entries[e].t[0];
        json_t *shape = json_array(), *ends = json_array();
        const unsigned n = entries[e].t[1] ? 3 : 1;
        for (uint32_t k = 0; k < t->rank; k++)
            json_array_append_new(shape, json_integer((json_int_t)(t->shape[k] * (k ? 1 : n))));
        json_array_append_new(ends, json_integer((json_int_t)at));
        json_array_append_new(ends, json_integer((json_int_t)(at += n * t->bytes)));
        json_object_set_new(root, entries[e].name,
                            json_pack("{s:s, s:o, s:o}", "dtype", t->dtype, "shape", shape, "data_offsets", ends));
    }
    char *text = json_dumps(root, JSON_COMPACT);
    const uint64_t n = strlen(text);
    FILE *f = fopen(path, "wb");
    if (!f)
        fail("cannot write", path);
    fwrite(&n, sizeof n, 1, f);
    fwrite(text, 1, n, f);
    for (size_t e = 0; e < n_entries; e++)
        for (int k = 0; k < 3 && entries[e].t[k]; k++)
            fwrite(entries[e].t[k]->data, 1, entries[e].t[k]->bytes, f);
    if (fclose(f) != 0)
        fail("cannot write", path);
    free(text);
    json_decref(root);
}

int
main(int argc, char **argv)
{
    dop_st_set unet, vae, text, text_2;
    json_t *metadata = json_object();
    bool open_clip = false, xl = false;
    if (argc < 3)
        return 2;
    for (int i = 3; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        open_clip |= strcmp(argv[i], "open-clip") == 0;
        xl |= strcmp(argv[i], "xl") == 0;
        if (value)
            json_object_set_new(metadata, (*value = 0, argv[i]), json_string(value + 1));
    }
    dop_arena_init(&arena);
    read_set(argv[1], "unet", "diffusion_pytorch_model", &unet);
    read_set(argv[1], "vae", "diffusion_pytorch_model", &vae);
    read_set(argv[1], "text_encoder", "model", &text);
    const unsigned blocks = count(&unet, "down_blocks.0.resnets.%u.conv1.weight"),
                   levels = count(&vae, "decoder.up_blocks.%u.resnets.0.conv1.weight");
    for (uint32_t i = 0; i < unet.n; i++) {
        const char *name = unet_name(unet.tensors[i].name, blocks);
        add(name ? name : (fail("no name for", unet.tensors[i].name), ""), &unet.tensors[i]);
    }
    for (uint32_t i = 0; i < vae.n; i++)
        add(vae_name(vae.tensors[i].name, levels), &vae.tensors[i]);
    for (uint32_t i = 0; i < text.n; i++)
        if (open_clip)
            add_open_clip(&text, "cond_stage_model.model.", &text.tensors[i]);
        else
            add(dop_arena_printf(&arena, "%s.transformer.%s", xl ? "conditioner.embedders.0" : "cond_stage_model",
                                 text.tensors[i].name),
                &text.tensors[i]);
    if (xl)
        read_set(argv[1], "text_encoder_2", "model", &text_2);
    for (uint32_t i = 0; xl && i < text_2.n; i++)
        add_open_clip(&text_2, "conditioner.embedders.1.model.", &text_2.tensors[i]);
    write_file(argv[2], metadata);
    close_sets();
    dop_arena_finish(&arena);
    return 0;
}
