/* Facts of a latent diffusion model, from the configurations of U-Net, autoencoder and scheduler in diffusers format:
 * https://huggingface.co/docs/diffusers (section "Model files and layouts"). */
#include "frontend/diffusion/parts.h"
#include "frontend/facts/leftovers.h"
#include "frontend/facts/names.h"

#include <stdio.h>
#include <string.h>

static dop_status
refuse_draw_value(const dop_json *j, const char *key, const char *value)
{
    return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s \"%.60s\" is not supported", key, value);
}

/* Fails if a field is present with none of the values, separated by "|". */
static dop_status
expect_any_of(const dop_json *j, const char *key, const char *values)
{
    const char *is = NULL;
    const json_t *v = dop_json_get(j, key);
    if (!v)
        return DOP_OK;
    DOP_RETURN_IF_ERROR(dop_json_str_or(j, key, NULL, &is));
    for (const char *at = values; is; at += strcspn(at, "|") + 1) {
        const size_t n = strcspn(at, "|");
        if (strlen(is) == n && strncmp(is, at, n) == 0)
            return DOP_OK;
        if (!at[n])
            break;
    }
    return refuse_draw_value(j, key, is ? is : "");
}

/* Reads a number per level: one for all, or a list. */
static dop_status
read_level_numbers(const dop_draw_reader *r, const dop_json *j, const char *key, uint32_t otherwise, uint32_t n,
                   uint32_t *out)
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
read_channels(const dop_draw_reader *r, const dop_json *j, uint32_t *out_n, uint32_t out[DOP_DRAW_LEVELS])
{
    const json_t *list = dop_json_get(j, "block_out_channels");
    *out_n = json_is_array(list) ? (uint32_t)json_array_size(list) : 0;
    if (*out_n == 0 || *out_n > DOP_DRAW_LEVELS)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "block_out_channels is no list of 1 to %d levels",
                           DOP_DRAW_LEVELS);
    return read_level_numbers(r, j, "block_out_channels", 0, *out_n, out);
}

/* Reads which levels have attention, from the block names `with` and `without`. */
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
            return refuse_draw_value(j, key, is);
    }
    return DOP_OK;
}

/* ---- facts -------------------------------------------------------------------------------------------------------------- */

/* Fails for a U-Net that dop_build_denoise() does not support. */
static dop_status
check_unet(const dop_json *j)
{
    static const struct {
        const char *key, *values;
    } texts[] = {{"_class_name", "UNet2DConditionModel"},       {"act_fn", "silu|swish"},
                 {"mid_block_type", "UNetMidBlock2DCrossAttn"}, {"resnet_time_scale_shift", "default"},
                 {"time_embedding_type", "positional"},         {"addition_embed_type", "text_time"}};
    static const char *const absent[] = {"class_embed_type",  "encoder_hid_dim_type", "time_embedding_act_fn",
                                         "timestep_post_act", "cross_attention_norm", "num_class_embeds",
                                         "time_cond_proj_dim"};
    static const char *const off[] = {"center_input_sample", "dual_cross_attention", "only_cross_attention",
                                      "class_embeddings_concat", "resnet_skip_time_act"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        DOP_RETURN_IF_ERROR(expect_any_of(j, texts[i].key, texts[i].values));
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (dop_json_has(j, absent[i]))
            return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "a U-Net with %s is not supported", absent[i]);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (dop_json_has(j, off[i]) && !json_is_false(dop_json_get(j, off[i])))
            return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "a U-Net with %s is not supported", off[i]);
    return DOP_OK;
}

/* Reads the additional conditioning of the timestep embedding. */
static dop_status
read_added_conditioning(dop_diffusion *d, const dop_json *j)
{
    enum { SIZES = 6 };
    if (!dop_json_has(j, "addition_embed_type"))
        return DOP_OK;
    dop_status st = dop_json_u32(j, "addition_time_embed_dim", 2, 4096, &d->size_values);
    if (st == DOP_OK)
        st = dop_json_u32(j, "projection_class_embeddings_input_dim", 1, DOP_MAX_WIDTH, &d->added);
    if (st != DOP_OK)
        return st;
    if (d->size_values % 2 || d->added != d->text_2.projection + SIZES * d->size_values || !d->text_2.width)
        return DOP_FAIL_IN(
            j->diag, DOP_E_INPUT, j->path,
            "projection_class_embeddings_input_dim is %u; %u values of a text and %d sizes of %u values each "
            "make %u (a refiner is not supported)",
            d->added, d->text_2.projection, SIZES, d->size_values, d->text_2.projection + SIZES * d->size_values);
    return DOP_OK;
}

dop_status
dop_draw_read_text_2(dop_draw_reader *r, const dop_json *j)
{
    dop_draw_text *t = &r->d->text_2;
    const char *act = NULL;
    double eps = 0;
    uint32_t rows = 0;
    dop_status st = dop_json_u32(j, "hidden_size", 4, DOP_MAX_WIDTH, &t->width);
    if (st == DOP_OK)
        st = dop_json_u32(j, "num_hidden_layers", 2, DOP_MAX_LAYERS, &t->layers);
    if (st == DOP_OK)
        st = dop_json_u32(j, "num_attention_heads", 1, DOP_MAX_WIDTH, &t->heads);
    if (st == DOP_OK)
        st = dop_json_u32(j, "intermediate_size", 4, DOP_MAX_WIDTH, &t->inner);
    if (st == DOP_OK)
        st = dop_json_u32(j, "projection_dim", 4, DOP_MAX_WIDTH, &t->projection);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "max_position_embeddings", 1, DOP_MAX_WIDTH, 77, &rows);
    if (st == DOP_OK)
        st = dop_json_f64_or(j, "layer_norm_eps", 0, 1, 1e-5, &eps);
    if (st == DOP_OK)
        st = dop_json_str_or(j, "hidden_act", "quick_gelu", &act);
    if (st != DOP_OK)
        return st;
    if (!dop_act_by_name(act, &t->act) || (t->act != DOP_ACT_GELU && t->act != DOP_ACT_QUICK_GELU))
        return refuse_draw_value(j, "hidden_act", act);
    if (rows != r->m->arch.ctx_train)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "texts of %u tokens, of %u in the first text encoder", rows,
                           r->m->arch.ctx_train);
    if (t->width % t->heads || t->width / t->heads % 4 || eps < 0.99e-5 || eps > 1.01e-5)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path,
                           "a second text encoder with %u heads of %u values, or another layer_norm_eps than 1e-05, is "
                           "not supported",
                           t->heads, t->width / t->heads);
    return DOP_OK;
}

dop_status
dop_draw_read_unet(dop_draw_reader *r, const dop_json *j)
{
    dop_diffusion *d = r->d;
    uint32_t channels[DOP_DRAW_LEVELS], heads[DOP_DRAW_LEVELS], depth[DOP_DRAW_LEVELS], out = 0;
    bool down[DOP_DRAW_LEVELS], up[DOP_DRAW_LEVELS];
    dop_status st = check_unet(j);
    if (st == DOP_OK)
        st = read_channels(r, j, &d->n_levels, channels);
    const uint32_t n = d->n_levels;
    if (st == DOP_OK) /* published files state the number of heads as attention_head_dim */
        st = read_level_numbers(
            r, j, dop_json_has(j, "num_attention_heads") ? "num_attention_heads" : "attention_head_dim", 8, n, heads);
    if (st == DOP_OK)
        st = read_level_numbers(r, j, "transformer_layers_per_block", 1, n, depth);
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
    if (st == DOP_OK)
        st = read_added_conditioning(d, j);
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

dop_status
dop_draw_read_vae(dop_draw_reader *r, const dop_json *j)
{
    dop_diffusion *d = r->d;
    bool none[DOP_DRAW_LEVELS];
    uint32_t latents = 0;
    DOP_RETURN_IF_ERROR(expect_any_of(j, "_class_name", "AutoencoderKL"));
    DOP_RETURN_IF_ERROR(expect_any_of(j, "act_fn", "silu|swish"));
    DOP_RETURN_IF_ERROR(read_channels(r, j, &d->n_decodes, d->channels));
    DOP_RETURN_IF_ERROR(read_blocks(j, "up_block_types", NULL, "UpDecoderBlock2D", d->n_decodes, none));
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, "layers_per_block", 1, 4, 1, &d->decode_layers));
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, "norm_num_groups", 1, DOP_MAX_WIDTH, 32, &d->decode_groups));
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, "latent_channels", 1, 64, 4, &latents));
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, "out_channels", 1, 4, 3, &d->colours));
    DOP_RETURN_IF_ERROR(dop_json_f64_or(j, "scaling_factor", 1e-6, 1e6, 0.18215, &d->scaling));
    DOP_RETURN_IF_ERROR(dop_json_f64_or(j, "shift_factor", -1e6, 1e6, 0, &d->moved));
    if (latents != d->latents)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path,
                           "latent_channels is %u, and the U-Net's latents have %u values", latents, d->latents);
    for (uint32_t i = 0; i < d->n_decodes; i++)
        if (d->channels[i] % d->decode_groups || d->channels[i] % 4)
            return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%u channels do not make %u groups", d->channels[i],
                               d->decode_groups);
    return DOP_OK;
}

/* Scheduler classes: sampler to use, and defaults. */
typedef struct scheduler {
    const char *name;
    dop_draw_method method;
    bool leads; /* leading timestep spacing; otherwise evenly spaced from first to last */
    bool exact; /* the sampler is exactly the class's own */
} scheduler;

static const scheduler schedulers[] = {{"EulerDiscreteScheduler", DOP_METHOD_EULER, false, true},
                                       {"EulerAncestralDiscreteScheduler", DOP_METHOD_ANCESTRAL, false, true},
                                       {"DDIMScheduler", DOP_METHOD_DDIM, true, true},
                                       {"LCMScheduler", DOP_METHOD_LCM, true, true},
                                       {"PNDMScheduler", DOP_METHOD_EULER, true, false},
                                       {"DDPMScheduler", DOP_METHOD_ANCESTRAL, true, false}};

/* Finds a scheduler class by name; unknown ones use Euler's method. */
static scheduler
find_scheduler(const char *name)
{
    for (size_t i = 0; i < sizeof schedulers / sizeof *schedulers; i++)
        if (strcmp(schedulers[i].name, name) == 0)
            return schedulers[i];
    return (scheduler){name, DOP_METHOD_EULER, false, false};
}

/* Adds a note if another sampler replaces the model's, or if its noise levels are spaced differently. */
static dop_status
note_scheduler(dop_draw_reader *r, const char *name, const scheduler *s, bool karras)
{
    static const char *const methods[] = {"euler", "ancestral", "ddim", "lcm"};
    char note[256];
    snprintf(
        note, sizeof note,
        "the model's scheduler is %.60s, for which %s draws, with its times: doppler-exec --sampler chooses another",
        name, methods[s->method]);
    if (!s->exact && name[0])
        DOP_RETURN_IF_ERROR(dop_checkpoint_note(r->m, note, r->diag));
    if (karras)
        DOP_RETURN_IF_ERROR(dop_checkpoint_note(
            r->m, "use_karras_sigmas is left out: steps have the times of timestep_spacing", r->diag));
    return DOP_OK;
}

static dop_status
read_spacing(dop_draw_reader *r, const dop_json *j, const scheduler *s)
{
    const char *spacing = NULL, *predicts = NULL;
    dop_status st = expect_any_of(j, "timestep_spacing", "leading|linspace|trailing");
    if (st == DOP_OK)
        st = dop_json_str_or(j, "timestep_spacing", s->leads ? "leading" : "linspace", &spacing);
    if (st == DOP_OK)
        st = expect_any_of(j, "prediction_type", "epsilon|v_prediction|sample");
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

dop_status
dop_draw_read_schedule(dop_draw_reader *r, const dop_json *j)
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
        st = expect_any_of(j, "beta_schedule", "linear|scaled_linear");
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
