/* Recurrent mixers in config.json: sizes, multipliers and layers. Field names and defaults as in transformers'
 * configuration_mamba2.py, configuration_falcon_h1.py, configuration_lfm2.py and configuration_qwen3_5.py. */
#include "frontend/hf/recurrent.h"
#include "base/words.h"
#include "frontend/hf/hf.h"
#include "frontend/hf/keys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static dop_status
read_size_or_default(const dop_hf *hf, const dop_size_field *f, uint32_t max, uint32_t *out)
{
    if (!f->key)
        return DOP_OK;
    char first[64];
    const char *key = dop_hf_key(hf, f->key, first, sizeof first);
    return f->otherwise ? dop_json_u32_or(&hf->cfg, key, 1, max, f->otherwise, out)
                        : dop_json_u32(&hf->cfg, key, 1, max, out);
}

/* Checks that a stated total width of all heads equals n_heads * head_dim. */
static dop_status
check_width(const dop_hf *hf, const dop_recurrent *s)
{
    const dop_hf_recurrent *r = hf->family->recurrent;
    uint32_t width = 0, expand = 2;
    dop_status st = r->width ? dop_json_u32_or(&hf->cfg, r->width, 1, DOP_MAX_WIDTH, 0, &width) : DOP_OK;
    if (st == DOP_OK && r->expand)
        st = dop_json_u32_or(&hf->cfg, r->expand, 1, 64, 2, &expand);
    if (st != DOP_OK || (!r->width && !r->expand) || r->selective)
        return st;
    const char *key = width ? r->width : r->expand;
    width = width ? width : expand * hf->model->arch.hidden;
    if ((uint64_t)s->n_heads * s->head_dim == width)
        return DOP_OK;
    return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s asks for %u values, but %u heads of %u have %llu",
                       hf->cfg.where, key, width, s->n_heads, s->head_dim,
                       (unsigned long long)s->n_heads * s->head_dim);
}

/* Fails for fields of Mamba-2 that the graph builder does not support. */
static dop_status
refuse_mixer_fields(const dop_hf *hf)
{
    /* dt is never negative, so a lower limit of 0 has no effect. */
    const json_t *limit = dop_json_get(&hf->cfg, "time_step_limit");
    double low = 0, high = 0;
    const bool known =
        dop_json_number(json_array_get(limit, 0), &low) && dop_json_number(json_array_get(limit, 1), &high);
    if (limit && (!known || low > 0 || !(high >= 1e30)))
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                           "%stime_step_limit other than 0 and infinity is not supported", hf->cfg.where);
    return DOP_OK;
}

/* Falcon-H1: reads whether Mamba-2's norm over all heads exists, and whether it is applied before or after the gate. */
static dop_status
read_norm(const dop_hf *hf, double eps, dop_recurrent *s)
{
    bool norm = false, first = true;
    dop_status st = dop_fact_flag_or(&hf->cfg, DOP_HF(scan_norm), false, &norm);
    if (st == DOP_OK)
        st = dop_fact_flag_or(&hf->cfg, DOP_HF(scan_norm_first), true, &first);
    if (st != DOP_OK || !norm || s->norm.kind != DOP_NORM_NONE)
        return st;
    s->norm = (dop_norm){.kind = DOP_NORM_RMS, .eps = eps};
    s->norm_rows = true;
    s->norm_groups = s->n_groups > 1;
    s->norm_first = first;
    return s->n_heads % s->n_groups == 0
               ? DOP_OK
               : DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%smamba_n_groups is %u, which does not divide %u heads",
                             hf->cfg.where, s->n_groups, s->n_heads);
}

/* Mamba's selective scan: reads the number of channels and the rank of dt (default: hidden / 16). */
static dop_status
read_hf_selective(const dop_hf *hf, dop_recurrent *s)
{
    const dop_hf_recurrent *r = hf->family->recurrent;
    const uint32_t hidden = hf->model->arch.hidden;
    uint32_t expand = 2;
    dop_status st = dop_json_u32_or(&hf->cfg, r->expand, 1, 64, 2, &expand);
    s->n_heads = expand * hidden;
    s->head_dim = s->n_groups = 1;
    const json_t *rank = dop_json_get(&hf->cfg, r->dt_rank.key);
    s->dt_rank = dop_div_up_u32(hidden, 16);
    if (st == DOP_OK && rank && !json_is_string(rank)) /* "auto" is the default */
        st = dop_json_u32(&hf->cfg, r->dt_rank.key, 1, DOP_MAX_WIDTH, &s->dt_rank);
    return st;
}

/* Reads which projections have biases. The short convolution has one key for all of its biases. */
static dop_status
read_mixer_biases(const dop_hf *hf, dop_recurrent *s)
{
    bool one = false, other = false;
    dop_status st = DOP_OK;
    if (s->n_heads == 0) {
        s->bias_in = s->bias_out = s->conv_bias;
        return DOP_OK;
    }
    if (s->delta)
        return DOP_OK;
    if ((st = dop_fact_flag_or(&hf->cfg, DOP_HF(scan_bias), false, &one)) == DOP_OK)
        st = dop_fact_flag_or(&hf->cfg, DOP_HF(scan_out_bias), false, &other);
    s->bias_in = one || other;
    one = s->bias_in;
    if (st == DOP_OK && dop_json_has(&hf->cfg, DOP_HF(projectors_bias)->key))
        st = dop_fact_flag_or(&hf->cfg, DOP_HF(projectors_bias), false, &one);
    s->bias_out = one;
    return st;
}

static dop_status
read_number_list(const dop_hf *hf, const char *key, uint32_t n, double *out)
{
    const double *list = NULL;
    uint32_t got = 0;
    dop_status st = DOP_OK;
    DOP_TRY(dop_json_f64_list(&hf->cfg, key, -1e6, 1e6, hf->arena, &list, &got));
    if (list && got != n)
        DOP_TRY(DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s has %u entries, expected %u", hf->cfg.where, key,
                            got, n));
error:
    for (uint32_t i = 0; i < n; i++)
        out[i] = st == DOP_OK && list ? list[i] : 1;
    return st;
}

/* Falcon-H1: reads its multipliers; those before and after a projection without bias become one factor. */
static dop_status
read_mixer_multipliers(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    dop_mixer *attn = &hf->layer.mixers[0], *ssm = &hf->layer.mixers[1];
    double attn_in = 1, key = 1, ssm_in = 1, zones[5], mlp[2];
    const struct {
        const dop_fact_key *fact;
        double *out;
    } fields[] = {{DOP_HF(embed_scale), &a->embed_scale},
                  {DOP_HF(head_scale), &a->logit_scale},
                  {DOP_HF(attention_in_scale), &attn_in},
                  {DOP_HF(attention_out_scale), &attn->scale},
                  {DOP_HF(key_scale), &key},
                  {DOP_HF(scan_in_scale), &ssm_in},
                  {DOP_HF(scan_out_scale), &ssm->scale}};
    dop_status st = DOP_OK;
    for (size_t i = 0; st == DOP_OK && i < sizeof fields / sizeof *fields; i++)
        st = dop_json_f64_or(&hf->cfg, fields[i].fact->key, -1e6, 1e6, 1, fields[i].out);
    if (st == DOP_OK)
        st = read_number_list(hf, "ssm_multipliers", 5, zones);
    if (st == DOP_OK)
        st = read_number_list(hf, "mlp_multipliers", 2, mlp);
    if (st != DOP_OK)
        return st;
    if (attn->attn.bias_q && attn_in != 1)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                           "%sattention_in_multiplier with attention_bias is not supported", hf->cfg.where);
    attn->attn.scale *= attn_in * attn_in * key;
    attn->scale *= attn_in;
    if (ssm->rec.bias_in) { /* the input's multiplier does not apply to the bias, so it stays on the input */
        ssm->rec.in_scale = ssm_in;
        ssm_in = 1;
    }
    ssm->rec.gate_scale = ssm_in * zones[0];
    ssm->rec.value_scale = ssm_in * zones[1];
    ssm->rec.key_scale = ssm_in * zones[2];
    ssm->rec.query_scale = ssm_in * zones[3];
    ssm->rec.dt_scale = ssm_in * zones[4];
    hf->layer.ffn.gate_scale = mlp[0];
    hf->layer.ffn.scale = mlp[1];
    return DOP_OK;
}

/* Reads Qwen3.5's activation of the mixer's gate; attention's gate is always a sigmoid (vLLM,
 * qwen_gdn_linear_attn.py). */
static dop_status
read_gate_type(const dop_hf *hf, const char *key, dop_recurrent *s)
{
    const char *type = NULL;
    dop_status st = dop_json_str_or(&hf->cfg, key, "silu", &type);
    if (st != DOP_OK)
        return st;
    s->gate_sigmoid = strcmp(type, "sigmoid") == 0;
    if (s->gate_sigmoid || strcmp(type, "silu") == 0 || strcmp(type, "swish") == 0)
        return DOP_OK;
    return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s \"%.40s\" is not supported; known: silu, swish, sigmoid",
                       hf->cfg.where, key, type);
}

dop_status
dop_hf_read_recurrent(dop_hf *hf)
{
    const dop_hf_recurrent *r = hf->family->recurrent;
    dop_mixer *m = &hf->layer.mixers[1];
    dop_recurrent *s = &m->rec;
    double eps = 0;
    if (!r)
        return DOP_OK;
    *m = (dop_mixer){.kind = r->kind, .scale = 1, .rec = dop_family_recurrent(r)};
    DOP_RETURN_IF_ERROR(refuse_mixer_fields(hf));
    DOP_RETURN_IF_ERROR(dop_json_f64_or(&hf->cfg, hf->family->keys->eps, 0, 1, hf->family->eps, &eps));
    s->norm = r->norm ? (dop_norm){.kind = DOP_NORM_RMS, .eps = eps} : (dop_norm){0};
    DOP_RETURN_IF_ERROR(read_size_or_default(hf, &r->taps, DOP_MAX_TAPS, &s->taps));
    DOP_RETURN_IF_ERROR(read_size_or_default(hf, &r->heads, DOP_MAX_HEADS, &s->n_heads));
    DOP_RETURN_IF_ERROR(read_size_or_default(hf, &r->head_dim, DOP_MAX_HEAD_DIM, &s->head_dim));
    DOP_RETURN_IF_ERROR(read_size_or_default(hf, &r->groups, DOP_MAX_HEADS, &s->n_groups));
    DOP_RETURN_IF_ERROR(read_size_or_default(hf, &r->state_dim, DOP_MAX_HEAD_DIM, &s->state_dim));
    if (r->selective)
        DOP_RETURN_IF_ERROR(read_hf_selective(hf, s));
    if (r->small_norms)
        s->dt_norm = s->key_norm = s->query_norm = (dop_norm){.kind = DOP_NORM_RMS, .eps = eps};
    if (r->norm && r->norm_eps > 0)
        s->norm.eps = r->norm_eps;
    if (r->low_rank_gate) {
        s->dt_rank = s->gate_rank = s->head_dim;
        s->n_groups = s->n_heads;
        s->state_dim = s->head_dim;
    }
    bool doubles = r->doubles_beta != NULL;
    if (doubles)
        DOP_RETURN_IF_ERROR(dop_json_bool_or(&hf->cfg, r->doubles_beta, true, &doubles));
    s->beta_scale = doubles ? 2 : 1;
    if (r->gate_type)
        DOP_RETURN_IF_ERROR(read_gate_type(hf, r->gate_type, s));
    if (r->kind == DOP_MIXER_SSM)
        DOP_RETURN_IF_ERROR(read_norm(hf, eps, s));
    s->conv_bias = r->conv_bias.otherwise;
    if (r->conv_bias.key)
        DOP_RETURN_IF_ERROR(dop_json_bool_or(&hf->cfg, r->conv_bias.key, r->conv_bias.otherwise, &s->conv_bias));
    DOP_RETURN_IF_ERROR(read_mixer_biases(hf, s));
    DOP_RETURN_IF_ERROR(check_width(hf, s));
    if (s->n_heads && !r->own_act && hf->layer.ffn.act != DOP_ACT_SILU)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s of a recurrent layer must be silu", hf->cfg.where,
                           hf->family->keys->act);
    if (r->multipliers)
        DOP_RETURN_IF_ERROR(read_mixer_multipliers(hf));
    return DOP_OK;
}

bool
dop_hf_adjusts_ffn(const dop_hf *hf)
{
    const dop_hf_recurrent *r = hf->family->recurrent;
    return r && r->adjusts_ffn && dop_json_has(&hf->cfg, DOP_HF(block_width)->key);
}

/* LFM2's first files state the width of an ungated feed-forward part; the gated one is two thirds of it. */
dop_status
dop_hf_adjust_ffn(dop_hf *hf)
{
    const dop_hf_recurrent *r = hf->family->recurrent;
    uint32_t width = hf->layer.ffn.width, multiple = 256;
    bool adjust = true;
    double factor = 1;
    if (!r || !r->adjusts_ffn)
        return DOP_OK;
    dop_status st = dop_fact_u32_or(&hf->cfg, DOP_HF(block_width), width, &width);
    if (st == DOP_OK)
        st = dop_fact_flag_or(&hf->cfg, DOP_HF(block_adjusted), true, &adjust);
    if (st == DOP_OK)
        st = dop_fact_f64_or(&hf->cfg, DOP_HF(block_factor), 1, &factor);
    if (st == DOP_OK)
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(block_multiple), 256, &multiple);
    if (st != DOP_OK)
        return st;
    if (adjust) {
        double w = floor(factor * (double)(uint32_t)(2.0 * width / 3.0));
        width = (uint32_t)ceil(fmin(w, DOP_MAX_WIDTH) / multiple) * multiple;
    }
    hf->layer.ffn.width = width;
    return DOP_OK;
}

bool
dop_hf_recurs(const dop_hf *hf, const char *layer_type)
{
    const dop_hf_recurrent *r = hf->family->recurrent;
    for (unsigned k = 0; r && layer_type && k < 2 && r->layer_types[k]; k++)
        if (strcmp(r->layer_types[k], layer_type) == 0)
            return true;
    return false;
}

/* Finds the recurrent layers if config.json has no layer_types. */
static dop_status
find_default_recurrent(dop_hf *hf, bool *recurs)
{
    const dop_hf_recurrent *r = hf->family->recurrent;
    const uint32_t n = hf->model->arch.n_layers;
    const json_t *list = r->attention_list ? dop_json_get(&hf->cfg, r->attention_list) : NULL;
    uint32_t interval = 0, period = 8, offset = 4;
    if (r->interval)
        DOP_RETURN_IF_ERROR(dop_json_u32_or(&hf->cfg, r->interval, 1, DOP_MAX_LAYERS, 4, &interval));
    if (r->period)
        DOP_RETURN_IF_ERROR(dop_json_u32_or(&hf->cfg, r->period, 1, DOP_MAX_LAYERS, period, &period));
    if (r->period)
        DOP_RETURN_IF_ERROR(dop_json_u32_or(&hf->cfg, r->offset, 0, DOP_MAX_LAYERS, offset, &offset));
    for (uint32_t i = 0; i < n; i++)
        recurs[i] = r->attention_list ? list != NULL
                    : r->period       ? i % period != offset
                                      : !interval || (i + 1) % interval != 0;
    for (size_t k = 0; k < json_array_size(list); k++) {
        const json_t *v = json_array_get(list, k);
        const json_int_t at = json_integer_value(v) - r->counts_from_1;
        if (!json_is_integer(v) || at < 0 || at >= (json_int_t)n)
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s[%zu] is not a layer below %u", hf->cfg.where,
                               r->attention_list, k, n);
        else
            recurs[at] = false;
    }
    return DOP_OK;
}

/* Returns the kind of layer i, from layers_block_type or from hybrid_override_pattern, which has a character per layer; NULL:
 * neither, or unknown. */
static const char *
get_block_kind(const dop_hf *hf, uint32_t i)
{
    static const struct {
        const char *names, *kind;
    } kinds[] = {{"linear_attention mamba M", "mixer"},
                 {"full_attention attention *", "attention"},
                 {"mlp -", "dense"},
                 {"moe E", "experts"}};
    const json_t *list = dop_json_get(&hf->cfg, "layers_block_type");
    const char *pattern = json_string_value(dop_json_get(&hf->cfg, "hybrid_override_pattern"));
    const char one[2] = {!list && pattern && i < strlen(pattern) ? pattern[i] : '\0', '\0'};
    const char *name = list ? json_string_value(json_array_get(list, i)) : one;
    for (size_t k = 0; name && *name && k < sizeof kinds / sizeof *kinds; k++)
        if (dop_has_word(kinds[k].names, name))
            return kinds[k].kind;
    return NULL;
}

bool
dop_hf_lacks_experts(const dop_hf *hf)
{
    bool some = false;
    for (uint32_t i = 0; i < hf->model->arch.n_layers; i++) {
        const char *kind = get_block_kind(hf, i);
        some = some || (kind && strcmp(kind, "experts") == 0);
    }
    return hf->family->recurrent && hf->family->recurrent->blocks && !some;
}

bool
dop_hf_counts_blocks(const dop_hf *hf, uint32_t *out_n)
{
    const json_t *list = dop_json_get(&hf->cfg, "layers_block_type");
    const char *pattern = json_string_value(dop_json_get(&hf->cfg, "hybrid_override_pattern"));
    if (!hf->family->recurrent || !hf->family->recurrent->blocks || (!list && !pattern))
        return false;
    const size_t n = list ? json_array_size(list) : strlen(pattern);
    *out_n = n < DOP_MAX_LAYERS ? (uint32_t)n : DOP_MAX_LAYERS + 1; /* out of range: dop_arch_check() fails */
    return true;
}

/* Nemotron-H: gives every layer its only part, a mixer or a feed-forward part. */
static dop_status
settle_blocks(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    for (uint32_t i = 0; i < a->n_layers; i++) {
        dop_layer *y = &a->layers[i];
        const char *kind = get_block_kind(hf, i);
        if (!kind)
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                               "%slayers_block_type[%u] (or hybrid_override_pattern) is not the kind of a layer: "
                               "linear_attention, full_attention, mlp or moe",
                               hf->cfg.where, i);
        const bool mixes = strcmp(kind, "mixer") == 0, attends = strcmp(kind, "attention") == 0;
        if (mixes)
            y->mixers[0] = y->mixers[1];
        y->mixers[1] = (dop_mixer){.scale = 1};
        if (!mixes && !attends) {
            y->mixers[0] = y->mixers[1];
            y->n_mixers = 0;
            y->attn_norm = (dop_norm){0};
        }
        if (mixes || attends) {
            y->ffn.kind = DOP_FFN_NONE;
            y->ffn_norm = (dop_norm){0};
        } else if (strcmp(kind, "dense") == 0) {
            y->ffn.kind = DOP_FFN_DENSE;
        }
    }
    return DOP_OK;
}

/* Zamba 2 (Zamba2HybridLayer, Zamba2AttentionDecoderLayer): reads dop_side and assigns it to the layers with a shared
 * block. */
static dop_status
settle_hybrid(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    const json_t *list = dop_json_get(&hf->cfg, "layers_block_type");
    dop_side side = {.act = hf->layer.ffn.act, .norm = hf->layer.attn_norm, .ffn_norm = hf->layer.attn_norm};
    uint32_t blocks = 1, n = 0;
    bool adapted = false, biased = false;
    double least = 0.001;
    DOP_RETURN_IF_ERROR(dop_json_u32(&hf->cfg, "intermediate_size", 1, DOP_MAX_WIDTH, &side.width));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(shared_block_rank), 128, &side.rank));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(shared_blocks), 1, &blocks));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&hf->cfg, DOP_HF(shared_block_adapted), false, &adapted));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&hf->cfg, DOP_HF(shared_block_bias), false, &biased));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(&hf->cfg, DOP_HF(scan_least_dt), least, &least));
    if (biased)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%sadd_bias_linear is not supported", hf->cfg.where);
    if (json_array_size(list) != a->n_layers)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%slayers_block_type is not a list of %u entries",
                           hf->cfg.where, a->n_layers);
    for (uint32_t i = 0; i < a->n_layers; i++) {
        dop_layer *y = &a->layers[i];
        const char *kind = json_string_value(json_array_get(list, i));
        y->mixers[1].rec.dt_least = least;
        if (!kind || strcmp(kind, "hybrid") != 0) {
            y->mixers[0] = y->mixers[1];
            y->mixers[1] = (dop_mixer){.scale = 1};
            continue;
        }
        y->n_mixers = 2;
        y->side = side;
        y->side.index = n;
        y->side.block = n++ % blocks;
        y->mixers[0].attn.wide = true;
        y->mixers[0].attn.adapter = adapted ? side.rank : 0;
        y->mixers[0].attn.scale *= sqrt(2);
    }
    return DOP_OK;
}

dop_status
dop_hf_settle_mixers(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    const dop_hf_recurrent *r = hf->family->recurrent;
    if (r && r->blocks)
        return settle_blocks(hf);
    if (r && r->hybrid)
        return settle_hybrid(hf);
    const json_t *types = dop_json_get(&hf->cfg, "layer_types");
    bool *recurs = dop_arena_alloc(hf->arena, a->n_layers * sizeof *recurs);
    if (!recurs)
        return DOP_NO_MEMORY(hf->diag);
    if (r && types && r->layer_types[0])
        /* layer_types was already checked */
        for (uint32_t i = 0; i < a->n_layers; i++)
            recurs[i] = dop_hf_recurs(hf, json_string_value(json_array_get(types, i)));
    else if (r)
        DOP_RETURN_IF_ERROR(find_default_recurrent(hf, recurs));
    for (uint32_t i = 0; r && i < a->n_layers; i++) {
        dop_layer *y = &a->layers[i];
        if (recurs[i] && r->pre_norm) {
            y->attn_norm = y->ffn_norm = y->post_ffn_norm;
            y->post_attn_norm = y->post_ffn_norm = (dop_norm){0};
        }
        if (recurs[i] && r->beside)
            y->n_mixers = 2;
        else if (recurs[i])
            y->mixers[0] = y->mixers[1];
        if (y->n_mixers == 1)
            y->mixers[1] = (dop_mixer){.scale = 1};
    }
    return DOP_OK;
}

dop_status
dop_hf_positions(const dop_hf *hf, bool *rotates)
{
    const dop_hf_recurrent *r = hf->family->recurrent;
    const char *how = "rope";
    bool rope = true;
    if (r && r->hybrid) {
        dop_status ok = dop_fact_flag_or(&hf->cfg, DOP_HF(shared_block_rotates), false, &rope);
        for (uint32_t i = 0; i < hf->model->arch.n_layers; i++)
            rotates[i] = rope;
        return ok;
    }
    if (r && r->positions)
        DOP_RETURN_IF_ERROR(dop_json_str_or(&hf->cfg, r->positions, "nope", &how));
    for (uint32_t i = 0; i < hf->model->arch.n_layers; i++)
        rotates[i] = rotates[i] && strcmp(how, "rope") == 0;
    return DOP_OK;
}
