/* Imports a latent diffusion model from a single safetensors file, which has the tensors of all parts but no configuration.
 * Facts follow from names and shapes. Configuration files in the same folder are read if present, as in repositories with both
 * forms. */
#include "frontend/diffusion/single_file.h"
#include "base/os/system.h"
#include "frontend/diffusion/parts.h"
#include "frontend/facts/leftovers.h"
#include "text/import/tokenizer_hf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NONE = -1 };

typedef struct single {
    dop_draw_reader r;
    dop_st_set all;
    const char *folder;                   /* folder of the file */
    const char *prefix[DOP_DRAW_N_PARTS]; /* prefix of a part's tensor names; NULL: no such part */
    /* text encoder with OpenCLIP names: DOP_DRAW_TEXT (Stable Diffusion 2), DOP_DRAW_TEXT_2 (SDXL), or NONE */
    int open_clip;
    uint32_t layers, vae_levels, text_layers; /* arguments for names.c */
    const char *predicts;                     /* prediction type in diffusers' spelling; NULL: not stated */
} single;

/* ---- tensors ------------------------------------------------------------------------------------------------------------ */

static const char unet_prefix[] = "model.diffusion_model.";

/* Returns the rest of a name after a prefix; NULL: another prefix. */
static const char *
skip_name_prefix(const char *name, const char *prefix)
{
    const size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

__attribute__((format(printf, 2, 3))) static const dop_st_tensor *
find(const dop_st_set *set, const char *format, ...)
{
    char name[256];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return dop_st_find(set, name);
}

/* Returns the length of an axis of a tensor; 0: none. */
static json_int_t
get_axis_length(const dop_st_tensor *t, uint32_t i)
{
    return t && i < t->rank && t->shape[i] <= DOP_MAX_VOCAB ? (json_int_t)t->shape[i] : 0;
}

/* Adds the tensor to a part as q, k and v, a third of its rows each. */
static bool
add_thirds(dop_arena *arena, const dop_st_tensor *t, const char *name, dop_st_set *to)
{
    const char *list = strchr(name, '{'), *rest = strchr(name, '}') + 1;
    for (uint32_t i = 0; i < 3; i++) {
        dop_st_tensor *part = &to->tensors[to->n++];
        *part = *t;
        part->name = dop_arena_printf(arena, "%.*s%c%s", (int)(list - name), name, "qkv"[i], rest);
        part->shape[0] /= 3;
        part->bytes /= 3;
        part->data += i * part->bytes;
        if (!part->name)
            return false;
    }
    return true;
}

static int
compare_single_tensors(const void *a, const void *b)
{
    return strcmp(((const dop_st_tensor *)a)->name, ((const dop_st_tensor *)b)->name);
}

/* Returns the name of a tensor within a part; NULL: not of this part. */
static const char *
name_in(const single *s, int part, const char *name)
{
    dop_arena *arena = s->r.arena;
    const char *rest = s->prefix[part] ? skip_name_prefix(name, s->prefix[part]) : NULL;
    if (!rest)
        return NULL;
    return part == DOP_DRAW_UNET  ? dop_draw_unet_name(arena, rest, s->layers)
           : part == DOP_DRAW_VAE ? dop_draw_vae_name(arena, rest, s->vae_levels)
           : part == s->open_clip ? dop_draw_text_name(arena, rest, s->text_layers, part == DOP_DRAW_TEXT_2)
                                  : rest;
}

/* Transposes a matrix that is stored transposed, in a copy. */
static dop_status
transpose_tensor(const single *s, dop_st_tensor *t)
{
    const uint64_t rows = t->rank == 2 ? t->shape[0] : 0, cols = t->rank == 2 ? t->shape[1] : 0,
                   size = rows && cols ? t->bytes / rows / cols : 0;
    uint8_t *data = dop_arena_alloc(s->r.arena, t->bytes + 1);
    if (!data)
        return dop_draw_no_memory(&s->r);
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t k = 0; k < cols; k++)
            memcpy(data + (k * rows + i) * size, t->data + (i * cols + k) * size, size);
    t->data = data;
    t->shape[0] = cols;
    t->shape[1] = rows;
    return DOP_OK;
}

/* Lists the tensors of a part by their names in a directory. */
static dop_status
list_part(single *s, int part)
{
    dop_st_set *to = &s->r.parts.of[part].set;
    const size_t most = 3 * (size_t)s->all.n + 1;
    *to = (dop_st_set){.path = s->r.parts.path};
    to->tensors = dop_arena_alloc(s->r.arena, most * sizeof *to->tensors);
    to->taken = dop_arena_alloc(s->r.arena, most * sizeof *to->taken);
    if (!to->tensors || !to->taken)
        return dop_draw_no_memory(&s->r);
    for (uint32_t i = 0; i < s->all.n; i++) {
        const dop_st_tensor *t = &s->all.tensors[i];
        const char *name = name_in(s, part, t->name);
        if (!name)
            continue;
        if (strchr(name, '{') && (t->rank == 0 || t->shape[0] % 3))
            return dop_st_refuse(t, "is not queries, keys and values", s->r.diag);
        if (strchr(name, '{')) {
            if (!add_thirds(s->r.arena, t, name, to))
                return dop_draw_no_memory(&s->r);
            continue;
        }
        dop_st_tensor *own = &to->tensors[to->n++];
        *own = *t;
        own->name = name;
        if (part == s->open_clip && strcmp(name, "text_projection.weight") == 0 && transpose_tensor(s, own) != DOP_OK)
            return DOP_E_NOMEM;
    }
    qsort(to->tensors, to->n, sizeof *to->tensors, compare_single_tensors);
    for (uint32_t i = 1; i < to->n; i++)
        if (strcmp(to->tensors[i - 1].name, to->tensors[i].name) == 0)
            return DOP_FAIL_IN(s->r.diag, DOP_E_INPUT, s->r.parts.path, "two tensors stand for %s",
                               to->tensors[i].name);
    return DOP_OK;
}

/* ---- configurations ----------------------------------------------------------------------------------------------------- */

/* A configuration being built. failed: out of memory. */
typedef struct config {
    json_t *object;
    bool failed;
} config;

static void
set_config_field(config *c, const char *key, json_t *value)
{
    c->failed |= json_object_set_new(c->object, key, value) != 0;
}

/* Appends to a list; `first`: prepends. */
static void
put_config_item(config *c, const char *key, json_t *value, bool first)
{
    json_t *list = json_object_get(c->object, key);
    if (!list && (list = json_array()))
        set_config_field(c, key, list);
    c->failed |= (first ? json_array_insert_new(list, 0, value) : json_array_append_new(list, value)) != 0;
}

/* Returns a new reference to the result; NULL: out of memory. */
static json_t *
finish_config(config *c)
{
    if (c->failed) {
        json_decref(c->object);
        c->object = NULL;
    }
    return c->object;
}

/* True if the model predicts velocities, as Stable Diffusion 2 for 768 x 768 pixels does. */
static bool
predicts_velocity(const single *s)
{
    const json_t *v = json_object_get(s->r.parts.of[DOP_DRAW_SCHEDULER].config, "prediction_type");
    return json_is_string(v) && strcmp(json_string_value(v), "v_prediction") == 0;
}

/* Returns the length of the second text encoder's pooled vector. */
static json_int_t
get_projection_width(const single *s)
{
    return get_axis_length(find(&s->r.parts.of[DOP_DRAW_TEXT_2].set, "text_projection.weight"), 0);
}

/* Derives the U-Net's configuration. Attention has 8 heads if its first product is a convolution (Stable Diffusion 1),
 * and heads of 64 values if it is a matrix. */
static json_t *
derive_unet_config(const single *s)
{
    enum { HEADS = 8, HEAD = 64 };
    const dop_st_set *set = &s->r.parts.of[DOP_DRAW_UNET].set;
    const dop_st_tensor *key = NULL;
    const json_int_t sample = s->prefix[DOP_DRAW_TEXT_2] ? 128 : predicts_velocity(s) ? 96 : 64;
    config c = {.object = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "_class_name", "UNet2DConditionModel",
                                    "in_channels", get_axis_length(find(set, "conv_in.weight"), 1), "out_channels",
                                    get_axis_length(find(set, "conv_out.weight"), 0), "layers_per_block",
                                    (json_int_t)s->layers, "norm_num_groups", (json_int_t)32, "sample_size", sample)};
    c.failed = !c.object;
    for (uint32_t i = 0; i <= DOP_DRAW_LEVELS; i++) {
        const json_int_t channels = get_axis_length(find(set, "down_blocks.%u.resnets.0.conv1.weight", i), 0);
        const dop_st_tensor *in = find(set, "down_blocks.%u.attentions.0.proj_in.weight", i);
        uint32_t depth = 0;
        if (channels == 0)
            break;
        while (depth < 100 && find(set, "down_blocks.%u.attentions.0.transformer_blocks.%u.norm1.weight", i, depth))
            depth++;
        if (!key)
            key = find(set, "down_blocks.%u.attentions.0.transformer_blocks.0.attn2.to_k.weight", i);
        if (!in) /* of the middle block, if the last level has none */
            in = find(set, "mid_block.attentions.0.proj_in.weight");
        const json_int_t heads = !in || in->rank != 2 ? HEADS : channels < HEAD ? 1 : channels / HEAD;
        put_config_item(&c, "block_out_channels", json_integer(channels), false);
        put_config_item(&c, "transformer_layers_per_block", json_integer(depth ? depth : 1), false);
        put_config_item(&c, "attention_head_dim", json_integer(heads), false);
        put_config_item(&c, "down_block_types", json_string(depth ? "CrossAttnDownBlock2D" : "DownBlock2D"), false);
        put_config_item(&c, "up_block_types", json_string(depth ? "CrossAttnUpBlock2D" : "UpBlock2D"), true);
    }
    set_config_field(&c, "cross_attention_dim", json_integer(get_axis_length(key, 1)));
    const json_int_t added = get_axis_length(find(set, "add_embedding.linear_1.weight"), 1);
    if (added) {
        set_config_field(&c, "addition_embed_type", json_string("text_time"));
        set_config_field(&c, "projection_class_embeddings_input_dim", json_integer(added));
        set_config_field(&c, "addition_time_embed_dim", json_integer((added - get_projection_width(s)) / 6));
    }
    return finish_config(&c);
}

static json_t *
derive_vae_config(const single *s)
{
    const dop_st_set *set = &s->r.parts.of[DOP_DRAW_VAE].set;
    uint32_t layers = 0;
    while (layers < 8 && find(set, "decoder.up_blocks.0.resnets.%u.conv1.weight", layers + 1))
        layers++;
    config c = {.object = json_pack("{s:s, s:I, s:I, s:I, s:I, s:f}", "_class_name", "AutoencoderKL", "latent_channels",
                                    get_axis_length(find(set, "decoder.conv_in.weight"), 1), "out_channels",
                                    get_axis_length(find(set, "decoder.conv_out.weight"), 0), "layers_per_block",
                                    (json_int_t)layers, "norm_num_groups", (json_int_t)32, "scaling_factor",
                                    s->prefix[DOP_DRAW_TEXT_2] ? 0.13025 : 0.18215)};
    c.failed = !c.object;
    for (uint32_t i = 0; i < s->vae_levels; i++) {
        const dop_st_tensor *t = find(set, "decoder.up_blocks.%u.resnets.0.conv1.weight", i);
        put_config_item(&c, "block_out_channels", json_integer(get_axis_length(t, 0)), true);
        put_config_item(&c, "up_block_types", json_string("UpDecoderBlock2D"), false);
    }
    return finish_config(&c);
}

/* Derives a text encoder's configuration; heads have 64 values. */
static json_t *
derive_encoder_config(const single *s, int part)
{
    enum { HEAD = 64 };
    const dop_st_set *set = &s->r.parts.of[part].set;
    const char *in = find(set, "text_model.embeddings.token_embedding.weight") ? "text_model." : "";
    const char *act = part == s->open_clip ? "gelu" : "quick_gelu";
    const dop_st_tensor *tokens = find(set, "%sembeddings.token_embedding.weight", in);
    const json_int_t width = get_axis_length(tokens, 1);
    uint32_t layers = 0;
    while (layers < DOP_MAX_LAYERS && find(set, "%sencoder.layers.%u.mlp.fc1.weight", in, layers))
        layers++;
    config c = {.object = json_pack("{s:[s], s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "architectures", "CLIPTextModel",
                                    "model_type", "clip_text_model", "hidden_act", act, "hidden_size", width,
                                    "intermediate_size",
                                    get_axis_length(find(set, "%sencoder.layers.0.mlp.fc1.weight", in), 0),
                                    "num_hidden_layers", (json_int_t)layers, "num_attention_heads",
                                    width < HEAD ? (json_int_t)1 : width / HEAD, "max_position_embeddings",
                                    get_axis_length(find(set, "%sembeddings.position_embedding.weight", in), 0),
                                    "vocab_size", get_axis_length(tokens, 0))};
    c.failed = !c.object;
    if (get_projection_width(s))
        set_config_field(&c, "projection_dim", json_integer(get_projection_width(s)));
    return finish_config(&c);
}

static json_t *
derive_text_config(const single *s)
{
    return derive_encoder_config(s, DOP_DRAW_TEXT);
}

static json_t *
derive_text_2_config(const single *s)
{
    return derive_encoder_config(s, DOP_DRAW_TEXT_2);
}

static json_t *
derive_scheduler_config(const single *s)
{
    return json_pack("{s:s, s:f, s:f, s:s, s:I, s:s, s:s}", "_class_name", "EulerDiscreteScheduler", "beta_start",
                     0.00085, "beta_end", 0.012, "beta_schedule", "scaled_linear", "steps_offset", (json_int_t)1,
                     "timestep_spacing", "leading", "prediction_type", s->predicts);
}

/* Reads a part's configuration from FOLDER/FILE next to the file; otherwise derives it from the tensors. */
static dop_status
configure_part(single *s, int part, const char *file, json_t *(*derive)(const single *s))
{
    dop_draw_part *p = &s->r.parts.of[part];
    const char *beside = dop_arena_printf(s->r.arena, "%s/%s", s->folder, file);
    if (!beside)
        return dop_draw_no_memory(&s->r);
    p->dir = p->path = s->r.parts.path;
    if (access(beside, F_OK) == 0)
        return dop_draw_open_config(&s->r, part, s->folder, file);
    p->config = derive(s);
    return p->config ? DOP_OK : dop_draw_no_memory(&s->r);
}

/* Finds the prediction type from the file's metadata, or from a marker tensor that tools for such files write. */
static dop_status
find_predicts(single *s, const dop_map *map)
{
    const char *said = NULL;
    dop_status st = dop_st_metadata(s->r.parts.path, map, "modelspec.prediction_type", s->r.arena, s->r.diag, &said);
    if (said && (strcmp(said, "v") == 0 || strcmp(said, "epsilon") == 0))
        s->predicts = *said == 'v' ? "v_prediction" : said;
    else if (dop_st_find(&s->all, "v_pred"))
        s->predicts = "v_prediction";
    else if (s->open_clip != DOP_DRAW_TEXT)
        s->predicts = "epsilon";
    return st;
}

static dop_status
open_scheduler(single *s)
{
    const char *beside = dop_arena_printf(s->r.arena, "%s/scheduler_config.json", s->folder);
    const char *below = dop_arena_printf(s->r.arena, "%s/scheduler/scheduler_config.json", s->folder);
    if (!beside || !below)
        return dop_draw_no_memory(&s->r);
    const bool here = access(beside, F_OK) == 0;
    if (!here && access(below, F_OK) != 0 && !s->predicts) {
        s->predicts = "v_prediction";
        DOP_RETURN_IF_ERROR(
            dop_checkpoint_note(s->r.m,
                                "the file does not say what the model predicts: velocities are assumed, as of Stable "
                                "Diffusion 2.1 for 768x768; of others, put scheduler_config.json beside it",
                                s->r.diag));
    }
    return configure_part(s, DOP_DRAW_SCHEDULER, here ? "scheduler_config.json" : "scheduler/scheduler_config.json",
                          derive_scheduler_config);
}

/* ---- the file ----------------------------------------------------------------------------------------------------------- */

/* Finds the parts, and counts the layers that tensor names depend on. */
static void
count_single_parts(single *s)
{
    enum { ALL_LAYERS = 24 }; /* OpenCLIP ViT-H; Stable Diffusion 2 reads the result of the second to last layer */
    static const char first[] = "transformer.resblocks.0.ln_1.weight", one[] = "cond_stage_model.model.",
                      two[] = "conditioner.embedders.1.model.";
    const bool xl = find(&s->all, "%s%s", two, first), v2 = !xl && find(&s->all, "%s%s", one, first);
    s->prefix[DOP_DRAW_UNET] = unet_prefix;
    s->prefix[DOP_DRAW_VAE] = "first_stage_model.";
    s->prefix[DOP_DRAW_TEXT] = xl ? "conditioner.embedders.0.transformer." : v2 ? one : "cond_stage_model.transformer.";
    s->prefix[DOP_DRAW_TEXT_2] = xl ? two : NULL;
    s->open_clip = xl ? DOP_DRAW_TEXT_2 : v2 ? DOP_DRAW_TEXT : NONE;
    while (find(&s->all, "%sinput_blocks.%u.0.in_layers.0.weight", unet_prefix, s->layers + 1))
        s->layers++;
    while (find(&s->all, "%sdecoder.up.%u.block.0.conv1.weight", s->prefix[DOP_DRAW_VAE], s->vae_levels))
        s->vae_levels++;
    while ((xl || v2) &&
           find(&s->all, "%stransformer.resblocks.%u.ln_1.weight", s->prefix[s->open_clip], s->text_layers))
        s->text_layers++;
    if (v2 && s->text_layers == ALL_LAYERS)
        s->text_layers--;
    s->r.parts.blank_zero = xl;
}

/* Checks that all parts are in the file. */
static dop_status
check_all_parts(const single *s)
{
    static const struct {
        int part;
        const char *tensor, *what;
    } parts[] = {{DOP_DRAW_UNET, "conv_in.weight", "no U-Net of a known form (model.diffusion_model)"},
                 {DOP_DRAW_VAE, "decoder.conv_in.weight", "no autoencoder (first_stage_model)"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!dop_st_find(&s->r.parts.of[parts[i].part].set, parts[i].tensor))
            return DOP_FAIL_IN(s->r.diag, DOP_E_INPUT, s->r.parts.path, "a single file with %s", parts[i].what);
    return s->r.parts.of[DOP_DRAW_TEXT].set.n > 0
               ? DOP_OK
               : DOP_FAIL_IN(s->r.diag, DOP_E_INPUT, s->r.parts.path,
                             "a single file with no text encoder of a known form (cond_stage_model, conditioner)");
}

/* Finds the tokenizer next to the file: in the folder "tokenizer", or in the file's own folder. */
static dop_status
find_single_tokenizer(single *s)
{
    const char *const folders[] = {dop_arena_printf(s->r.arena, "%s/tokenizer", s->folder), s->folder};
    bool found = false, failed = !folders[0];
    s->r.parts.pad = s->open_clip == DOP_DRAW_TEXT ? "!" : "<|endoftext|>"; /* OpenCLIP pads with token 0 */
    s->r.parts.pad_2 = "!";
    for (size_t i = 0; i < 2 && !found && !failed; i++) {
        dop_buf path = {0};
        s->r.parts.tokenizer = s->r.parts.tokenizer_2 = folders[i];
        found = dop_tokenizer_find_file(folders[i], &path);
        failed = path.failed;
        dop_buf_finish(&path);
    }
    if (failed)
        return dop_draw_no_memory(&s->r);
    return found ? DOP_OK
                 : DOP_FAIL_IN(s->r.diag, DOP_E_INPUT, s->r.parts.path,
                               "a single file has no tokenizer: put the folder tokenizer of its model beside it "
                               "(vocab.json and merges.txt, the same for all that have CLIP)");
}

static dop_status
read_single_parts(single *s)
{
    static const struct {
        int part;
        const char *file;
        json_t *(*derive)(const single *s);
    } parts[] = {{DOP_DRAW_TEXT, "text_encoder/config.json", derive_text_config},
                 {DOP_DRAW_TEXT_2, "text_encoder_2/config.json", derive_text_2_config},
                 {DOP_DRAW_UNET, "unet/config.json", derive_unet_config},
                 {DOP_DRAW_VAE, "vae/config.json", derive_vae_config}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        DOP_RETURN_IF_ERROR(list_part(s, parts[i].part));
    DOP_RETURN_IF_ERROR(check_all_parts(s));
    DOP_RETURN_IF_ERROR(find_single_tokenizer(s));
    DOP_RETURN_IF_ERROR(open_scheduler(s));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (s->prefix[parts[i].part])
            DOP_RETURN_IF_ERROR(configure_part(s, parts[i].part, parts[i].file, parts[i].derive));
    return dop_draw_import(&s->r);
}

dop_status
dop_import_single_file(const char *path, dop_diag *diag, dop_checkpoint *m, bool *out_is)
{
    single s = {.r = {.arena = m->arena, .diag = diag, .m = m, .parts = {.path = path}}};
    const char *slash = dop_path_slash(path);
    s.folder = slash ? dop_arena_printf(m->arena, "%.*s", (int)(slash - path) + (slash == path), path) : ".";
    *out_is = false;
    if (!s.folder)
        return dop_draw_no_memory(&s.r);
    dop_map *map = calloc(1, sizeof *map);
    if (!map)
        return dop_draw_no_memory(&s.r);
    dop_status st = dop_map_open(path, diag, map);
    const bool mapped = st == DOP_OK;
    const dop_status kept = dop_weights_keep(&m->weights, map, mapped, diag);
    if (st == DOP_OK)
        st = kept;
    if (st == DOP_OK)
        st = dop_st_parse(path, &m->weights.maps[m->weights.n_maps - 1], m->arena, diag, &s.all);
    for (uint32_t i = 0; st == DOP_OK && i < s.all.n && !*out_is; i++)
        *out_is = skip_name_prefix(s.all.tensors[i].name, unet_prefix) != NULL;
    if (st != DOP_OK || !*out_is)
        return st;
    count_single_parts(&s);
    st = find_predicts(&s, &m->weights.maps[m->weights.n_maps - 1]);
    return dop_draw_finish(&s.r, st == DOP_OK ? read_single_parts(&s) : st);
}
