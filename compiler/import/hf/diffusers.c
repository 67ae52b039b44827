/* Directories of diffusers: model_index.json, and a folder for each part.  Facts and weights of the U-Net and the decoder; the text
 * encoder is imported as any other encoder.  Format: https://huggingface.co/docs/diffusers (section "Model files and layouts"). */
#include "base/format/safetensors.h"
#include "base/read/json_util.h"
#include "compiler/import/hf/tensor.h"
#include "compiler/import/text/tokenizer_files.h"
#include "compiler/model/diffusion.h"
#include "compiler/model/import.h"
#include "compiler/model/leftovers.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct reader {
    const char *dir;
    dop_arena *arena;
    dop_diag *diag;
    dop_checkpoint *m;
    dop_diffusion *d;
    const char *pad; /* text of the token that fills texts up; NULL: not known yet */
} reader;

typedef dop_status (*read_fn)(reader *r, const dop_json *config);

static dop_status
no_memory(const reader *r)
{
    return DOP_FAIL(r->diag, DOP_E_NOMEM, "out of host memory");
}

/* Opens DIR/FILE, an object, and reads it. */
static dop_status
read_config(reader *r, const char *file, read_fn read)
{
    json_t *root = NULL;
    dop_json j;
    const char *path = dop_arena_printf(r->arena, "%s/%s", r->dir, file);
    if (!path)
        return no_memory(r);
    dop_status st = dop_json_decode_file(&(dop_json_how){.path = path}, r->diag, &root);
    if (st == DOP_OK)
        st = dop_json_root(root, path, r->diag, &j);
    if (st == DOP_OK)
        st = read(r, &j);
    json_decref(root);
    return st;
}

static dop_status
refuse(const dop_json *j, const char *key, const char *value)
{
    return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s \"%.60s\" is not supported", key, value);
}

/* A field that must have one of the values, separated by "|", where it is there. */
static dop_status
expect(const dop_json *j, const char *key, const char *values)
{
    const char *is = NULL;
    const json_t *v = dop_json_get(j, key);
    if (!v)
        return DOP_OK;
    dop_status st = dop_json_str_or(j, key, NULL, &is);
    for (const char *at = values; st == DOP_OK && is; at += strcspn(at, "|") + 1) {
        const size_t n = strcspn(at, "|");
        if (strlen(is) == n && strncmp(is, at, n) == 0)
            return DOP_OK;
        if (!at[n])
            break;
    }
    return st == DOP_OK ? refuse(j, key, is ? is : "") : st;
}

/* A number for each level: one for all, or a list. */
static dop_status
each_level(const reader *r, const dop_json *j, const char *key, uint32_t otherwise, uint32_t n, uint32_t *out)
{
    const double *list = NULL;
    uint32_t count = 0, one = 0;
    if (!json_is_array(dop_json_get(j, key))) {
        dop_status st = dop_json_u32_or(j, key, 1, DOP_MAX_WIDTH, otherwise, &one);
        for (uint32_t i = 0; i < n; i++)
            out[i] = one;
        return st;
    }
    dop_status st = dop_json_f64_list(j, key, 1, DOP_MAX_WIDTH, r->arena, &list, &count);
    if (st == DOP_OK && count != n)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s has %u values for %u levels", key, count, n);
    for (uint32_t i = 0; st == DOP_OK && i < n; i++)
        out[i] = (uint32_t)list[i];
    return st;
}

static dop_status
read_channels(const reader *r, const dop_json *j, uint32_t *out_n, uint32_t out[DOP_DRAW_LEVELS])
{
    const json_t *list = dop_json_get(j, "block_out_channels");
    *out_n = json_is_array(list) ? (uint32_t)json_array_size(list) : 0;
    if (*out_n == 0 || *out_n > DOP_DRAW_LEVELS)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "block_out_channels is no list of 1 to %d levels",
                           DOP_DRAW_LEVELS);
    return each_level(r, j, "block_out_channels", 0, *out_n, out);
}

/* Which levels have attention: `with` and `without` are the names of their blocks. */
static dop_status
read_blocks(const dop_json *j, const char *key, const char *with, const char *without, uint32_t n, bool *out)
{
    const json_t *list = dop_json_get(j, key);
    if (!json_is_array(list) || json_array_size(list) != n)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s is no list of %u levels", key, n);
    for (uint32_t i = 0; i < n; i++) {
        const json_t *name = json_array_get(list, i);
        const char *is = json_is_string(name) ? json_string_value(name) : "";
        out[i] = with && strcmp(is, with) == 0;
        if (!out[i] && strcmp(is, without) != 0)
            return refuse(j, key, is);
    }
    return DOP_OK;
}

/* ---- facts -------------------------------------------------------------------------------------------------------------- */

/* Refuses a U-Net that computes something else than dop_build_denoise(). */
static dop_status
check_unet(const dop_json *j)
{
    static const struct {
        const char *key, *values;
    } texts[] = {{"_class_name", "UNet2DConditionModel"},
                 {"act_fn", "silu|swish"},
                 {"mid_block_type", "UNetMidBlock2DCrossAttn"},
                 {"resnet_time_scale_shift", "default"},
                 {"time_embedding_type", "positional"}};
    static const char *const absent[] = {"addition_embed_type",   "class_embed_type",  "encoder_hid_dim_type",
                                         "time_embedding_act_fn", "timestep_post_act", "cross_attention_norm",
                                         "num_class_embeds",      "time_cond_proj_dim"};
    static const char *const off[] = {"center_input_sample", "dual_cross_attention", "only_cross_attention",
                                      "class_embeddings_concat", "resnet_skip_time_act"};
    dop_status st = DOP_OK;
    for (size_t i = 0; st == DOP_OK && i < sizeof texts / sizeof *texts; i++)
        st = expect(j, texts[i].key, texts[i].values);
    for (size_t i = 0; st == DOP_OK && i < sizeof absent / sizeof *absent; i++)
        if (dop_json_has(j, absent[i]))
            st = DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "a U-Net with %s is not supported", absent[i]);
    for (size_t i = 0; st == DOP_OK && i < sizeof off / sizeof *off; i++)
        if (dop_json_has(j, off[i]) && !json_is_false(dop_json_get(j, off[i])))
            st = DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "a U-Net with %s is not supported", off[i]);
    return st;
}

static dop_status
read_unet(reader *r, const dop_json *j)
{
    dop_diffusion *d = r->d;
    uint32_t channels[DOP_DRAW_LEVELS], heads[DOP_DRAW_LEVELS], depth[DOP_DRAW_LEVELS], out = 0;
    bool down[DOP_DRAW_LEVELS], up[DOP_DRAW_LEVELS];
    dop_status st = check_unet(j);
    if (st == DOP_OK)
        st = read_channels(r, j, &d->n_levels, channels);
    const uint32_t n = d->n_levels;
    if (st == DOP_OK) /* published files call the number of heads attention_head_dim */
        st = each_level(r, j, dop_json_has(j, "num_attention_heads") ? "num_attention_heads" : "attention_head_dim", 8,
                        n, heads);
    if (st == DOP_OK)
        st = each_level(r, j, "transformer_layers_per_block", 1, n, depth);
    if (st == DOP_OK)
        st = read_blocks(j, "down_block_types", "CrossAttnDownBlock2D", "DownBlock2D", n, down);
    if (st == DOP_OK)
        st = read_blocks(j, "up_block_types", "CrossAttnUpBlock2D", "UpBlock2D", n, up);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "layers_per_block", 1, 4, 2, &d->layers);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "norm_num_groups", 1, DOP_MAX_WIDTH, 32, &d->groups);
    if (st == DOP_OK)
        st = dop_json_f64_or(j, "norm_eps", 0, 1, 1e-5, &d->eps);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "in_channels", 1, 64, 4, &d->latents);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "out_channels", 1, 64, 4, &out);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "cross_attention_dim", 1, DOP_MAX_WIDTH, 1280, &d->context);
    if (st == DOP_OK)
        st = dop_json_bool_or(j, "flip_sin_to_cos", true, &d->cosine_first);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "freq_shift", 0, 1, 0, &d->shift);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "sample_size", 1, 1024, 64, &d->sample);
    if (st != DOP_OK)
        return st;
    if (out != d->latents)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path,
                           "a U-Net that reads %u values of a place and gives %u is not supported", d->latents, out);
    for (uint32_t i = 0; i < n; i++) {
        d->levels[i] = (dop_unet_level){channels[i], heads[i], depth[i], down[i], up[n - 1 - i], i + 1 == n};
        if (channels[i] % d->groups || channels[i] % heads[i] || channels[i] % 4)
            return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%u channels do not make %u groups or %u heads",
                               channels[i], d->groups, heads[i]);
    }
    return DOP_OK;
}

static dop_status
read_vae(reader *r, const dop_json *j)
{
    dop_diffusion *d = r->d;
    bool none[DOP_DRAW_LEVELS];
    uint32_t latents = 0;
    dop_status st = expect(j, "_class_name", "AutoencoderKL");
    if (st == DOP_OK)
        st = expect(j, "act_fn", "silu|swish");
    if (st == DOP_OK)
        st = read_channels(r, j, &d->n_decodes, d->channels);
    if (st == DOP_OK)
        st = read_blocks(j, "up_block_types", NULL, "UpDecoderBlock2D", d->n_decodes, none);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "layers_per_block", 1, 4, 1, &d->decode_layers);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "norm_num_groups", 1, DOP_MAX_WIDTH, 32, &d->decode_groups);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "latent_channels", 1, 64, 4, &latents);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "out_channels", 1, 4, 3, &d->colours);
    if (st == DOP_OK)
        st = dop_json_f64_or(j, "scaling_factor", 1e-6, 1e6, 0.18215, &d->scaling);
    if (st == DOP_OK)
        st = dop_json_f64_or(j, "shift_factor", -1e6, 1e6, 0, &d->moved);
    if (st == DOP_OK && latents != d->latents)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path,
                           "latent_channels is %u, and the U-Net's latents have %u values", latents, d->latents);
    for (uint32_t i = 0; st == DOP_OK && i < d->n_decodes; i++)
        if (d->channels[i] % d->decode_groups || d->channels[i] % 4)
            st = DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%u channels do not make %u groups", d->channels[i],
                             d->decode_groups);
    return st;
}

/* Classes of schedulers: which sampler stands for them, and what they take where the file is silent. */
typedef struct scheduler {
    const char *name;
    dop_draw_method method;
    bool leads; /* times are leading; else evenly spaced from the first to the last */
    bool exact; /* the sampler is the class's own */
} scheduler;

static const scheduler schedulers[] = {{"EulerDiscreteScheduler", DOP_METHOD_EULER, false, true},
                                       {"EulerAncestralDiscreteScheduler", DOP_METHOD_ANCESTRAL, false, true},
                                       {"DDIMScheduler", DOP_METHOD_DDIM, true, true},
                                       {"LCMScheduler", DOP_METHOD_LCM, true, true},
                                       {"PNDMScheduler", DOP_METHOD_EULER, true, false},
                                       {"DDPMScheduler", DOP_METHOD_ANCESTRAL, true, false}};

/* The class of this name; any other is drawn with by Euler's method. */
static scheduler
find_scheduler(const char *name)
{
    for (size_t i = 0; i < sizeof schedulers / sizeof *schedulers; i++)
        if (strcmp(schedulers[i].name, name) == 0)
            return schedulers[i];
    return (scheduler){name, DOP_METHOD_EULER, false, false};
}

/* Says that another sampler stands for the model's, or that its levels are spaced otherwise. */
static dop_status
note_scheduler(reader *r, const char *name, const scheduler *s, bool karras)
{
    static const char *const methods[] = {"euler", "ancestral", "ddim", "lcm"};
    char note[256];
    dop_status st = DOP_OK;
    snprintf(
        note, sizeof note,
        "the model's scheduler is %.60s, for which %s draws, with its times: --sampler of doppler-exec chooses another",
        name, methods[s->method]);
    if (!s->exact && name[0])
        st = dop_checkpoint_note(r->m, note, r->diag);
    if (st == DOP_OK && karras)
        st = dop_checkpoint_note(r->m, "use_karras_sigmas is left out: steps have the times of timestep_spacing",
                                 r->diag);
    return st;
}

static dop_status
read_spacing(reader *r, const dop_json *j, const scheduler *s)
{
    const char *spacing = NULL, *predicts = NULL;
    dop_status st = expect(j, "timestep_spacing", "leading|linspace|trailing");
    if (st == DOP_OK)
        st = dop_json_str_or(j, "timestep_spacing", s->leads ? "leading" : "linspace", &spacing);
    if (st == DOP_OK)
        st = expect(j, "prediction_type", "epsilon|v_prediction|sample");
    if (st == DOP_OK)
        st = dop_json_str_or(j, "prediction_type", "epsilon", &predicts);
    if (st != DOP_OK)
        return st;
    r->d->spacing = strcmp(spacing, "leading") == 0    ? DOP_SPACING_LEADING
                    : strcmp(spacing, "linspace") == 0 ? DOP_SPACING_LINSPACE
                                                       : DOP_SPACING_TRAILING;
    r->d->predicts = strcmp(predicts, "epsilon") == 0  ? DOP_PREDICTS_NOISE
                     : strcmp(predicts, "sample") == 0 ? DOP_PREDICTS_LATENTS
                                                       : DOP_PREDICTS_VELOCITY;
    return DOP_OK;
}

static dop_status
read_schedule(reader *r, const dop_json *j)
{
    dop_diffusion *d = r->d;
    const char *betas = NULL, *name = NULL;
    bool to_one = true, karras = false;
    dop_status st = dop_json_str_or(j, "_class_name", "", &name);
    const scheduler s = find_scheduler(name ? name : "");
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "num_train_timesteps", 2, 100000, 1000, &d->train_steps);
    if (st == DOP_OK)
        st = dop_json_f64_or(j, "beta_start", 1e-9, 0.999, 1e-4, &d->beta_first);
    if (st == DOP_OK)
        st = dop_json_f64_or(j, "beta_end", 1e-9, 0.999, 0.02, &d->beta_last);
    if (st == DOP_OK)
        st = expect(j, "beta_schedule", "linear|scaled_linear");
    if (st == DOP_OK)
        st = dop_json_str_or(j, "beta_schedule", "linear", &betas);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "steps_offset", 0, 1000, 0, &d->offset);
    if (st == DOP_OK)
        st = dop_json_bool_or(j, "rescale_betas_zero_snr", false, &d->rescaled);
    if (st == DOP_OK)
        st = dop_json_bool_or(j, "set_alpha_to_one", true, &to_one);
    if (st == DOP_OK)
        st = dop_json_bool_or(j, "use_karras_sigmas", false, &karras);
    if (st == DOP_OK)
        st = read_spacing(r, j, &s);
    if (st != DOP_OK)
        return st;
    d->beta_roots = strcmp(betas, "scaled_linear") == 0;
    d->last_first = !to_one;
    d->method = s.method;
    if (d->rescaled && d->predicts == DOP_PREDICTS_NOISE)
        return DOP_FAIL_IN(
            j->diag, DOP_E_INPUT, j->path,
            "rescale_betas_zero_snr with prediction_type \"epsilon\": noise alone says nothing of a picture");
    return note_scheduler(r, name, &s, karras);
}

/* ---- weights ------------------------------------------------------------------------------------------------------------ */

static bool
ends(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

/* The canonical name of a tensor, PREFIX and the published name, where "weight" is nothing and "bias" is _bias.  Autoencoders of the
 * first release have other names of attention. */
static const char *
canonical(const reader *r, const char *prefix, const char *name, const char *part)
{
    static const struct {
        const char *was, *is;
    } renamed[] = {{".query", ".to_q"}, {".key", ".to_k"}, {".value", ".to_v"}, {".proj_attn", ".to_out.0"}};
    const bool bias = ends(name, ".bias");
    int n = (int)strlen(name) - (bias ? 5 : ends(name, ".weight") ? 7 : 0);
    const char *tail = "";
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        const int k = (int)strlen(renamed[i].was);
        if (n > k && strncmp(name + n - k, renamed[i].was, (size_t)k) == 0) {
            n -= k;
            tail = renamed[i].is;
            break;
        }
    }
    return dop_arena_printf(r->arena, "%s%.*s%s%s%s", prefix, n, name, tail, part, bias ? "_bias" : "");
}

/* Adds rows first .. first + n - 1 of a tensor.  A convolution's tensor is [outputs, channels, height, width], and its weight has the
 * channels of each tap one after the other. */
static dop_status
add_weight(const reader *r, const char *prefix, const dop_st_tensor *t, const char *part, uint64_t first, uint64_t n)
{
    const dop_type_info *type = dop_type_of(dop_hf_type(t));
    uint64_t cols = 1;
    for (uint32_t i = 1; i < t->rank; i++)
        if (!dop_mul_u64(cols, t->shape[i], &cols) || cols > UINT32_MAX)
            return dop_st_refuse(t, "is too large", r->diag);
    const uint64_t taps = t->rank == 4 ? t->shape[2] * t->shape[3] : 1;
    if (cols == 0 || n == 0 || n > UINT32_MAX)
        return dop_st_refuse(t, "is empty or too large", r->diag);
    dop_weight w = {.name = canonical(r, prefix, t->name, part),
                    .type = dop_hf_type(t),
                    .rank = t->rank > 1 ? 2 : 1,
                    .rows = t->rank > 1 ? (uint32_t)n : 1,
                    .cols = (uint32_t)(t->rank > 1 ? cols : n),
                    .data = t->data + first * cols * type->bytes,
                    .row_stride = (t->rank > 1 ? cols : n) * type->bytes,
                    .col_stride = taps > 1 ? type->bytes : 0,
                    .taps = taps > 1 ? (uint32_t)taps : 0,
                    .source = t->name};
    return w.name ? dop_weights_add(&r->m->weights, &w, r->arena, r->diag) : no_memory(r);
}

static dop_status
add_tensor(const reader *r, const char *prefix, const dop_st_tensor *t)
{
    const dop_type type = dop_hf_type(t);
    if (t->rank == 0 || t->rank == 3 || t->rank > 4 ||
        (type != DOP_TYPE_f32 && type != DOP_TYPE_f16 && type != DOP_TYPE_bf16))
        return dop_st_refuse(t, "is no matrix, vector or convolution of floats", r->diag);
    if (!strstr(t->name, ".net.0.proj."))
        return add_weight(r, prefix, t, "", 0, t->shape[0]);
    const uint64_t half = t->shape[0] / 2; /* values, then gates */
    dop_status st = add_weight(r, prefix, t, ".up", 0, half);
    return st == DOP_OK ? add_weight(r, prefix, t, ".gate", half, t->shape[0] - half) : st;
}

/* Adds the tensors of DIR/FOLDER. */
static dop_status
add_folder(reader *r, const char *folder, const char *prefix)
{
    static const char *const stems[] = {"diffusion_pytorch_model", "diffusion_pytorch_model.fp16"};
    dop_st_set set = {0};
    dop_map *maps = NULL;
    uint32_t n_maps = 0;
    const char *dir = dop_arena_printf(r->arena, "%s/%s", r->dir, folder);
    const char *half = dop_arena_printf(r->arena, "%s/%s/%s.safetensors", r->dir, folder, stems[1]);
    const char *full = dop_arena_printf(r->arena, "%s/%s/%s.safetensors", r->dir, folder, stems[0]);
    if (!dir || !half || !full)
        return no_memory(r);
    const bool halves = access(full, F_OK) != 0 && access(half, F_OK) == 0;
    dop_status st = dop_st_open_stem(dir, stems[halves], r->arena, r->diag, &set, &maps, &n_maps);
    const dop_status kept = dop_weights_keep(&r->m->weights, maps, n_maps, r->diag);
    st = st == DOP_OK ? kept : st;
    for (uint32_t i = 0; st == DOP_OK && i < set.n; i++) {
        r->d->encodes |= strcmp(folder, "vae") == 0 && strcmp(set.tensors[i].name, "encoder.conv_in.weight") == 0;
        st = add_tensor(r, prefix, &set.tensors[i]);
    }
    return st;
}

/* The text of the token that fills texts up: tokenizer_config.json's, else special_tokens_map.json's. */
static dop_status
read_pad(reader *r, const dop_json *j)
{
    const json_t *v = dop_json_get(j, "pad_token");
    const char *text = json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
    if (text && !r->pad && !(r->pad = dop_arena_strdup(r->arena, text)))
        return no_memory(r);
    return DOP_OK;
}

/* Its id, by the tokenizer itself; without a text, the end of texts fills them up. */
static dop_status
find_pad(reader *r)
{
    char dir[1024];
    dop_tokenizer *tok = NULL;
    snprintf(dir, sizeof dir, "%s/tokenizer", r->dir);
    dop_status st = DOP_OK;
    static const char *const files[] = {"tokenizer/tokenizer_config.json", "tokenizer/special_tokens_map.json"};
    for (size_t i = 0; i < 2 && st == DOP_OK; i++) {
        const char *path = dop_arena_printf(r->arena, "%s/%s", r->dir, files[i]);
        if (!path)
            return no_memory(r);
        if (access(path, F_OK) == 0)
            st = read_config(r, files[i], read_pad);
    }
    if (st == DOP_OK)
        st = dop_tokenizer_from_hf_dir(dir, r->diag, &tok);
    if (st != DOP_OK)
        return st;
    const char *pad = r->pad ? r->pad : "<|endoftext|>";
    r->d->pad = dop_tokenizer_find(tok, pad, strlen(pad));
    if (r->d->pad == DOP_NO_TOKEN)
        st = DOP_FAIL_IN(r->diag, DOP_E_INPUT, dir, "the tokenizer has no token %s, which fills texts up", pad);
    dop_tokenizer_destroy(tok);
    return st;
}

/* The tokenizer has a folder of its own. */
static dop_status
find_tokenizer(reader *r)
{
    dop_buf path = {0};
    const char *dir = dop_arena_printf(r->arena, "%s/tokenizer", r->dir);
    if (dir && dop_tokenizer_find_file(dir, &path))
        r->m->tokenizer_json_path = dop_arena_strdup(r->arena, path.data);
    const bool failed = !dir || path.failed;
    dop_buf_finish(&path);
    if (failed)
        return no_memory(r);
    return r->m->tokenizer_json_path ? DOP_OK : DOP_FAIL_IN(r->diag, DOP_E_INPUT, dir, "there is no tokenizer here");
}

dop_status
dop_import_diffusers(const char *dir, dop_diag *diag, dop_checkpoint *m)
{
    reader r = {.dir = dir, .arena = m->arena, .diag = diag, .m = m};
    r.d = dop_arena_alloc(m->arena, sizeof *r.d);
    const char *text = dop_arena_printf(m->arena, "%s/text_encoder", dir);
    if (!r.d || !text)
        return no_memory(&r);
    *r.d = (dop_diffusion){0};
    dop_status st = dop_import_hf(text, diag, m);
    if (st == DOP_OK)
        st = find_tokenizer(&r);
    if (st == DOP_OK)
        st = find_pad(&r);
    if (st == DOP_OK)
        st = read_config(&r, "unet/config.json", read_unet);
    if (st == DOP_OK)
        st = read_config(&r, "vae/config.json", read_vae);
    if (st == DOP_OK)
        st = read_config(&r, "scheduler/scheduler_config.json", read_schedule);
    if (st == DOP_OK && r.d->context != m->arch.hidden)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, dir, "the U-Net reads rows of %u values, and the text encoder gives %u",
                         r.d->context, m->arch.hidden);
    if (st == DOP_OK)
        st = add_folder(&r, "unet", "unet.");
    if (st == DOP_OK)
        st = add_folder(&r, "vae", "vae.");
    if (st == DOP_OK)
        st = dop_weights_seal(&m->weights, diag);
    m->diffusion = r.d;
    return st;
}
