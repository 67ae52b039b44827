/* Converts the model part of manifest.json to facts. A field that is null or missing (older manifests) means "none"; for a
 * multiplier, 1. */
#include "frontend/rdrr/config.h"
#include "base/words.h"
#include "frontend/facts/chat_file.h"
#include "frontend/facts/leftovers.h"
#include "frontend/facts/names.h"
#include "frontend/families/families.h"
#include "frontend/rdrr/manifest.h"
#include "frontend/rdrr/rdrr.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

dop_status
dop_rdrr_open_sections(dop_rdrr *r, dop_rdrr_sections *s)
{
    const struct {
        const dop_json *in;
        const char *key;
        dop_json *out;
    } list[] = {
        {&r->top, "architecture", &s->arch},
        {&r->top, "inference", &s->inference},
        {&s->inference, "attention", &s->attention},
        {&s->inference, "normalization", &s->norm},
        {&s->inference, "ffn", &s->ffn},
        {&s->inference, "rope", &s->rope},
        {&s->inference, "output", &s->output},
        {&s->inference, "layerPattern", &s->pattern},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        DOP_RETURN_IF_ERROR(dop_json_sub(list[i].in, list[i].key, list[i].out));
        if (i < 2 && !list[i].out->object)
            return dop_json_missing(list[i].in, list[i].key);
    }
    return DOP_OK;
}

/* True if the manifest lists a layer of this type. */
static bool
has_layer(const dop_rdrr_sections *s, const char *type)
{
    const json_t *list = dop_json_get(&s->pattern, "layerTypes");
    bool found = false;
    for (size_t i = 0; i < json_array_size(list) && !found; i++) {
        const char *t = json_string_value(json_array_get(list, i));
        found = t && strcmp(t, type) == 0;
    }
    return found;
}

/* Returns the family that the Hugging Face importer reads; NULL: none. */
static const char *
get_rdrr_family(const dop_rdrr *r, const dop_rdrr_sections *s)
{
    const char *type = json_string_value(dop_json_get(&r->top, "modelType"));
    return type && strcmp(type, "gemma4") == 0 ? "gemma4"
           : has_layer(s, "linear_attention")  ? "qwen3_5"
           : has_layer(s, "conv")              ? "lfm2"
                                               : NULL;
}

static dop_status
fail_unsupported_field(const dop_json *j, const char *key, const char *what)
{
    return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s%s: %s is not supported", j->where, key, what);
}

/* Fails for unknown members, and for fields that request an unsupported feature, if they are set (not null, false or 0). */
static dop_status
refuse_rdrr_fields(dop_rdrr *r, const dop_rdrr_sections *s)
{
    const struct {
        const dop_json *j;
        const char *words; /* members that are not keys of facts.def */
    } known[] = {
        {&r->top,
         "version modelId modelType quantization quantizationInfo artifactIdentity weightsRef architecture moeConfig "
         "inference shards tensors tensorsFile tensorCount groups totalSize hashAlgorithm blake3Full eos_token_id "
         "image_token_id audio_token_id video_token_id visionArchitecture config conversion metadata tokenizer "
         "integrityExtensions provenance optimizations runtimeOptimizations"},
        {&s->arch, "linearNormMode"},
        {&s->inference, "schema attention normalization ffn rope output layerPattern chatTemplate supportsEmbedding "
                        "supportsSequence supportsRerank supportsTranscription supportsVision rerank session execution "
                        "sessionDefaults largeWeights kernelPath defaultKernelPath pipeline"},
        {&s->attention, "queryKeyNormType queryKeyNormAxis valueNorm attentionBias attentionOutputGate outputGateType"},
        {&s->norm, "type"},
        {&s->ffn, "activation branchMode swigluLimit"},
        {&s->rope, "mropeInterleaved mropeSection ropeScalingType ropeLocalScalingType longropeShortFactor "
                   "longropeLongFactor"},
        {&s->output, "embeddingTranspose embeddingPostprocessor"},
        {&s->pattern, "type globalPattern period offset layerTypes"},
    };
    const struct {
        const dop_json *j;
        const char *key, *what, *family; /* family: the only one that supports it; NULL: none */
    } list[] = {
        {&r->top, "moeConfig", "a mixture of experts", NULL},
        {&s->arch, "linearNumKeyHeads", "linear attention", "qwen3_5"},
        {&s->arch, "hiddenSizePerLayerInput", "an input per layer", "gemma4"},
        {&s->arch, "numKvSharedLayers", "sharing of key/value caches between layers", "gemma4"},
        {&s->arch, "globalHeadDim", "another head dimension in global layers", "gemma4"},
        {&s->arch, "numGlobalKeyValueHeads", "another number of key/value heads in global layers", "gemma4"},
        {&s->attention, "valueNorm", "a norm on values", "gemma4"},
        {&s->attention, "attentionOutputGate", "a gate on the attention output", "qwen3_5"},
        {&s->attention, "outputGateType", "a gate on the attention output", "qwen3_5"},
        {&s->ffn, "useDoubleWideMlp", "a double-wide feed-forward part", "gemma4"},
        {&s->ffn, "swigluLimit", "a limit on the activation", NULL},
        {&s->inference, "pipeline", "a pipeline of its own", NULL},
    };
    const struct {
        const dop_json *j;
        const char *key, *words;
    } values[] = {
        {&r->top, "modelType", "transformer gemma4 embedding"},
        {&s->norm, "type", "rmsnorm"},
        {&s->attention, "queryKeyNormType", "rmsnorm"},
        {&s->attention, "queryKeyNormAxis", "head projection"},
        {&s->arch, "linearNormMode", "shared"},
    };
    bool causal = true;
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&s->attention, DOP_RDRR(causal), true, &causal));
    if (!causal && !dop_json_has(&s->output, "embeddingPostprocessor"))
        return fail_unsupported_field(&s->attention, "causal", "attention in both directions");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        DOP_RETURN_IF_ERROR(dop_rdrr_known(known[i].j, known[i].words));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const char *value = NULL;
        DOP_RETURN_IF_ERROR(dop_json_str_or(values[i].j, values[i].key, NULL, &value));
        if (value && !dop_has_word(values[i].words, value))
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s%s \"%.60s\" is not supported; known: %s",
                               values[i].j->where, values[i].key, value, values[i].words);
    }
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const json_t *v = dop_json_get(list[i].j, list[i].key);
        if (v && !json_is_false(v) && !(json_is_number(v) && json_number_value(v) == 0.0) &&
            !(r->family && list[i].family && strcmp(r->family, list[i].family) == 0))
            return fail_unsupported_field(list[i].j, list[i].key, list[i].what);
    }
    return DOP_OK;
}

static dop_status
read_rdrr_sizes(dop_rdrr *r, const dop_rdrr_sections *s)
{
    dop_arch *a = &r->model->arch;
    dop_attention *t = &r->layer.mixers[0].attn;
    DOP_RETURN_IF_ERROR(dop_fact_u32(&s->arch, DOP_RDRR(layers), &a->n_layers));
    DOP_RETURN_IF_ERROR(dop_fact_u32(&s->arch, DOP_RDRR(hidden), &a->hidden));
    DOP_RETURN_IF_ERROR(dop_fact_u32(&s->arch, DOP_RDRR(ffn_width), &r->layer.ffn.width));
    DOP_RETURN_IF_ERROR(dop_fact_u32(&s->arch, DOP_RDRR(heads), &t->n_heads));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&s->arch, DOP_RDRR(kv_heads), t->n_heads, &t->n_kv_heads));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&s->arch, DOP_RDRR(head_dim), 0, &t->head_dim));
    DOP_RETURN_IF_ERROR(dop_fact_u32(&s->arch, DOP_RDRR(vocab), &a->vocab));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&s->output, DOP_RDRR(embedded_vocab), a->vocab, &a->vocab));
    DOP_RETURN_IF_ERROR(dop_fact_u32(&s->arch, DOP_RDRR(ctx), &a->ctx_train));
    if (t->head_dim == 0 && a->hidden % t->n_heads != 0)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path,
                           "architecture.hiddenSize %u is not divisible by numAttentionHeads %u", a->hidden,
                           t->n_heads);
    t->head_dim = t->head_dim ? t->head_dim : a->hidden / t->n_heads;
    return DOP_OK;
}

/* ---- layer patterns ----------------------------------------------------------------------------------------------- */

static dop_status
read_custom_pattern(dop_rdrr *r, const dop_json *j, bool *sliding)
{
    const json_t *list = dop_json_get(j, "layerTypes");
    const uint32_t n = r->model->arch.n_layers;
    if (!json_is_array(list) || json_array_size(list) != n)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%slayerTypes is not a list of %u layer types", j->where, n);
    for (uint32_t i = 0; i < n; i++) {
        const char *type = json_string_value(json_array_get(list, i));
        sliding[i] = type && strcmp(type, "sliding_attention") == 0;
        if (!r->family && !sliding[i] && (!type || strcmp(type, "full_attention") != 0))
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path,
                               "%slayerTypes[%u]: %.60s layers are not supported; known: full_attention, "
                               "sliding_attention",
                               j->where, i, type ? type : "unnamed");
    }
    return DOP_OK;
}

static dop_status
read_rdrr_pattern(dop_rdrr *r, const dop_json *j, bool *sliding, bool *out_uniform)
{
    const uint32_t n = r->model->arch.n_layers;
    const char *type = NULL, *global = NULL;
    uint32_t period = 0, offset = 0;
    DOP_RETURN_IF_ERROR(dop_json_str_or(j, "type", "uniform", &type));
    *out_uniform = strcmp(type, "uniform") == 0;
    if (strcmp(type, "custom") == 0 || strcmp(type, "explicit") == 0)
        return read_custom_pattern(r, j, sliding);
    if (*out_uniform) {
        for (uint32_t i = 0; i < n; i++)
            sliding[i] = true; /* takes effect only with a window */
        return DOP_OK;
    }
    if (strcmp(type, "alternating") == 0) {
        DOP_RETURN_IF_ERROR(dop_json_str_or(j, "globalPattern", "odd", &global));
        if (strcmp(global, "odd") != 0 && strcmp(global, "even") != 0)
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%sglobalPattern \"%.40s\" is not odd or even", j->where,
                               global);
        for (uint32_t i = 0; i < n; i++)
            sliding[i] = (i % 2 == 1) != (strcmp(global, "odd") == 0);
        return DOP_OK;
    }
    if (strcmp(type, "every_n") != 0)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path,
                           "%stype \"%.40s\" is not supported; known: uniform, alternating, every_n, custom", j->where,
                           type);
    DOP_RETURN_IF_ERROR(dop_json_u32(j, "period", 1, DOP_MAX_LAYERS, &period));
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, "offset", 0, DOP_MAX_LAYERS, 0, &offset));
    for (uint32_t i = 0; i < n; i++)
        sliding[i] = i % period != offset % period;
    return DOP_OK;
}

/* ---- rotary ------------------------------------------------------------------------------------------------------- */

/* Field names of a rotary embedding: one set for all layers, one for sliding layers. */
typedef struct rope_keys {
    const char *type;
    const dop_fact_key *theta, *factor, *partial, *base_dim, *beta_fast, *beta_slow, *original;
} rope_keys;

static const rope_keys keys_global = {"ropeScalingType",       DOP_RDRR(theta),         DOP_RDRR(rope_factor),
                                      DOP_RDRR(rotated_share), DOP_RDRR(rope_base_dim), DOP_RDRR(beta_fast),
                                      DOP_RDRR(beta_slow),     DOP_RDRR(rope_ctx)};
static const rope_keys keys_local = {"ropeLocalScalingType",          DOP_RDRR(theta_sliding),
                                     DOP_RDRR(rope_factor_sliding),   DOP_RDRR(rotated_share_sliding),
                                     DOP_RDRR(rope_base_dim_sliding), DOP_RDRR(beta_fast_sliding),
                                     DOP_RDRR(beta_slow_sliding),     DOP_RDRR(rope_ctx_sliding)};

static dop_status
read_rdrr_scaling(dop_rdrr *r, const dop_json *j, const rope_keys *k, dop_rope *rope)
{
    static const struct {
        const char *name;
        dop_rope_scaling scaling;
    } kinds[] = {{"default", DOP_ROPE_PLAIN},
                 {"linear", DOP_ROPE_LINEAR},
                 {"yarn", DOP_ROPE_YARN},
                 {"longrope", DOP_ROPE_LONGROPE}};
    const char *type = NULL;
    uint32_t n_short = 0, n_long = 0;
    size_t i = 0;
    DOP_RETURN_IF_ERROR(dop_json_str_or(j, k->type, "default", &type));
    while (i < sizeof kinds / sizeof *kinds && strcmp(kinds[i].name, type) != 0)
        i++;
    if (i == sizeof kinds / sizeof *kinds)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path,
                           "%s%s \"%.40s\" is not supported; known: linear, yarn, longrope", j->where, k->type, type);
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(j, k->factor, 1, &rope->factor));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(j, k->beta_fast, 32, &rope->beta_fast));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(j, k->beta_slow, 1, &rope->beta_slow));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(j, k->original, r->model->arch.ctx_train, &rope->original_ctx));
    rope->scaling = kinds[i].scaling;
    rope->truncate = true;
    if (rope->scaling != DOP_ROPE_LONGROPE)
        return DOP_OK;
    DOP_RETURN_IF_ERROR(
        dop_json_f64_list(j, "longropeShortFactor", 1e-6, 1e6, r->arena, &rope->short_factors, &n_short));
    DOP_RETURN_IF_ERROR(dop_json_f64_list(j, "longropeLongFactor", 1e-6, 1e6, r->arena, &rope->long_factors, &n_long));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(j, DOP_RDRR(rope_ctx_long), rope->original_ctx, &rope->original_ctx));
    rope->n_factors = rope->dims / 2;
    rope->factor = (double)r->model->arch.ctx_train / rope->original_ctx;
    if (n_short != rope->n_factors || n_long != rope->n_factors)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path,
                           "%slongropeShortFactor and longropeLongFactor have %u and %u entries, expected %u", j->where,
                           n_short, n_long, rope->n_factors);
    return DOP_OK;
}

dop_status
dop_rdrr_read_rope(dop_rdrr *r, const dop_json *j, bool local, uint32_t head_dim, dop_rope *rope)
{
    const rope_keys *k = local ? &keys_local : &keys_global;
    double partial = 1;
    uint32_t base_dim = 0;
    *rope = (dop_rope){0};
    DOP_RETURN_IF_ERROR(dop_fact_f64(j, k->theta, &rope->theta));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(j, k->partial, 1, &partial));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(j, DOP_RDRR(interleaved), false, &rope->interleaved));
    rope->dims = (uint32_t)((double)head_dim * partial);
    if (rope->dims == 0 || rope->dims % 2 != 0)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path,
                           "%s%s: %u of %u values of a head turn, expected an even number", j->where, k->partial->key,
                           rope->dims, head_dim);
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(j, k->base_dim, rope->dims, &base_dim));
    if (base_dim != rope->dims && base_dim != head_dim)
        return fail_unsupported_field(j, k->base_dim->key,
                                      "a frequency base other than the rotated values or the head's");
    DOP_RETURN_IF_ERROR(read_rdrr_scaling(r, j, k, rope));
    if (base_dim == rope->dims)
        return DOP_OK;
    if (rope->scaling != DOP_ROPE_PLAIN)
        return fail_unsupported_field(j, k->type, "scaling with the frequencies of a whole head");
    rope->scaling = DOP_ROPE_PROPORTIONAL;
    rope->rotated = rope->dims;
    rope->dims = head_dim;
    return DOP_OK;
}

static dop_status
read_rdrr_layers(dop_rdrr *r, const dop_rdrr_sections *s)
{
    dop_arch *a = &r->model->arch;
    uint32_t window = 0;
    bool *sliding = dop_arena_alloc(r->arena, a->n_layers * sizeof *sliding);
    a->layers = dop_arena_alloc(r->arena, a->n_layers * sizeof *a->layers);
    if (!sliding || !a->layers)
        return DOP_NO_MEMORY(r->diag);
    bool uniform = false;
    DOP_RETURN_IF_ERROR(read_rdrr_pattern(r, &s->pattern, sliding, &uniform));
    r->sliding = sliding;
    if (r->family)
        return DOP_OK;
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&s->attention, DOP_RDRR(window), 0, &window));
    if (r->layer.mixers[0].attn.both && window)
        window = window / 2 + 1; /* positions on each side, including its own */
    DOP_RETURN_IF_ERROR(dop_rdrr_read_rope(r, &s->rope, false, r->layer.mixers[0].attn.head_dim, &a->ropes[0]));
    a->n_ropes = 1;
    const bool local = !uniform && dop_json_has(&s->rope, DOP_RDRR(theta_sliding)->key);
    if (local) {
        DOP_RETURN_IF_ERROR(dop_rdrr_read_rope(r, &s->rope, true, r->layer.mixers[0].attn.head_dim, &a->ropes[1]));
        a->n_ropes = 2;
    }
    for (uint32_t i = 0; i < a->n_layers; i++) {
        a->layers[i] = r->layer;
        a->layers[i].mixers[0].attn.window = sliding[i] ? window : 0;
        a->layers[i].mixers[0].attn.rope = local && sliding[i] ? 1 : 0;
    }
    return DOP_OK;
}

/* ---- the rest ----------------------------------------------------------------------------------------------------- */

/* Reads the norms of a layer. If there is another norm before or after the feed-forward part, post_attention_layernorm is the
 * norm of attention's result; otherwise it is the norm before the feed-forward part. */
static dop_status
read_rdrr_norms(dop_rdrr *r, const dop_rdrr_sections *s)
{
    dop_layer *y = &r->layer;
    dop_attention *t = &y->mixers[0].attn;
    bool add = false, post_attn = true, pre_ffn = false, post_ffn = false, qk = false;
    double eps = 0;
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(&s->norm, DOP_RDRR(rms_eps), 1e-5, &eps));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&s->norm, DOP_RDRR(norm_add_1), false, &add));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&s->norm, DOP_RDRR(post_attn_norm), true, &post_attn));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&s->norm, DOP_RDRR(pre_ffn_norm), false, &pre_ffn));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&s->norm, DOP_RDRR(post_ffn_norm), false, &post_ffn));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&s->attention, DOP_RDRR(qk_norm_used), false, &qk));
    const dop_norm rms = {.kind = DOP_NORM_RMS}, none = {0};
    y->attn_norm = y->ffn_norm = pre_ffn || !post_ffn ? rms : none;
    y->post_attn_norm = (pre_ffn ? post_attn : post_ffn) ? rms : none;
    y->post_ffn_norm = post_ffn ? rms : none;
    t->q_norm = t->k_norm = qk ? rms : none;
    r->more_names = pre_ffn || post_ffn ? dop_hf_names_sandwich : NULL;
    const dop_rdrr_tensor *q_norm = dop_rdrr_find_in_layer(r, "self_attn.q_norm.weight");
    const uint64_t row = (uint64_t)t->n_heads * t->head_dim;
    t->norm_rows = q_norm && t->n_heads > 1 && q_norm->rank == 1 && q_norm->shape[0] == row;
    const char *axis = json_string_value(dop_json_get(&s->attention, "queryKeyNormAxis"));
    if (axis)
        t->norm_rows = strcmp(axis, "projection") == 0;
    dop_set_norms(&r->model->arch, y, eps, add ? 1 : 0);
    return DOP_OK;
}

static dop_status
read_ffn(dop_rdrr *r, const dop_rdrr_sections *s)
{
    dop_ffn *f = &r->layer.ffn;
    const char *name = NULL, *mode = NULL;
    DOP_RETURN_IF_ERROR(dop_json_str_or(&s->ffn, "activation", "silu", &name));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&s->ffn, DOP_RDRR(ffn_gated), true, &f->gated));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&s->ffn, "branchMode", "auto", &mode));
    if (strcmp(mode, "auto") != 0 && strcmp(mode, "dense") != 0)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%sbranchMode \"%.40s\" is not supported; known: auto, dense",
                           s->ffn.where, mode);
    if (!dop_act_by_rdrr_name(name, &f->act))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%sactivation \"%.40s\" is not supported", s->ffn.where,
                           name);
    return DOP_OK;
}

static dop_status
read_output(dop_rdrr *r, const dop_rdrr_sections *s)
{
    dop_arch *a = &r->model->arch;
    dop_attention *t = &r->layer.mixers[0].attn;
    double query = t->head_dim;
    bool scale = false;
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&s->output, DOP_RDRR(tied), false, &a->tied));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&s->output, DOP_RDRR(embed_root), false, &scale));
    if (scale)
        a->embed_scale = (double)sqrtf((float)a->hidden);
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(&s->output, DOP_RDRR(embed_scale), a->embed_scale, &a->embed_scale));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(&s->output, DOP_RDRR(logit_scale), 1, &a->logit_scale));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(&s->output, DOP_RDRR(logit_softcap), 0, &a->logit_softcap));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(&s->pattern, DOP_RDRR(residual_scale), 1, &r->layer.residual_scale));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(&s->attention, DOP_RDRR(softcap), 0, &t->softcap));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(&s->attention, DOP_RDRR(query_scalar), query, &query));
    t->scale = 1 / sqrt(query);
    t->bias_q = dop_rdrr_find_in_layer(r, "self_attn.q_proj.bias");
    t->bias_k = dop_rdrr_find_in_layer(r, "self_attn.k_proj.bias");
    t->bias_v = dop_rdrr_find_in_layer(r, "self_attn.v_proj.bias");
    t->bias_o = dop_rdrr_find_in_layer(r, "self_attn.o_proj.bias");
    r->layer.ffn.bias = dop_rdrr_find_in_layer(r, "mlp.down_proj.bias");
    return DOP_OK;
}

/* Reads the embedding head: pooling, projections, normalization. */
static dop_status
read_embedding(dop_rdrr *r, const dop_rdrr_sections *s)
{
    dop_arch *a = &r->model->arch;
    dop_encoder *e = &a->encoder;
    dop_json j;
    const char *pool = NULL, *normalize = NULL, *type = json_string_value(dop_json_get(&r->top, "modelType"));
    bool causal = true, with_prompt = true;
    DOP_RETURN_IF_ERROR(dop_json_sub(&s->output, "embeddingPostprocessor", &j));
    if (!j.object)
        return type && strcmp(type, "embedding") == 0 ? dop_json_missing(&s->output, "embeddingPostprocessor") : DOP_OK;
    DOP_RETURN_IF_ERROR(dop_rdrr_known(&j, "poolingMode includePrompt projections normalize"));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&j, "poolingMode", "", &pool));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&j, "normalize", NULL, &normalize));
    DOP_RETURN_IF_ERROR(dop_json_bool_or(&j, "includePrompt", true, &with_prompt));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&s->attention, DOP_RDRR(causal), true, &causal));
    if (!dop_has_word("mean last", pool) || (normalize && strcmp(normalize, "l2") != 0) || !with_prompt || r->family)
        return DOP_FAIL_IN(
            r->diag, DOP_E_INPUT, r->path,
            "%s: only poolingMode mean or last, includePrompt true and normalize l2 or null are supported",
            "inference.output.embeddingPostprocessor");
    e->used = true;
    e->pool = strcmp(pool, "mean") == 0 ? DOP_BY_MEAN : DOP_BY_LAST;
    e->normalized = normalize != NULL;
    r->layer.mixers[0].attn.both = !causal;
    const json_t *list = dop_json_get(&j, "projections");
    for (size_t i = 0; i < json_array_size(list); i++) {
        dop_json p = {.object = json_array_get(list, i), .path = r->path, .diag = r->diag};
        const char *act = NULL;
        uint32_t in = 0;
        snprintf(p.where, sizeof p.where, "%.40sprojections[%zu].", j.where, i);
        if (i == DOP_MAX_DENSE || !json_is_object(p.object))
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%sprojections is not a list of at most %d objects",
                               j.where, DOP_MAX_DENSE);
        DOP_RETURN_IF_ERROR(dop_rdrr_known(&p, "weightTensor biasTensor inputSize outputSize activation"));
        DOP_RETURN_IF_ERROR(dop_json_str_or(&p, "weightTensor", NULL, &r->dense[i][0]));
        if (!r->dense[i][0])
            return dop_json_missing(&p, "weightTensor");
        DOP_RETURN_IF_ERROR(dop_json_str_or(&p, "biasTensor", NULL, &r->dense[i][1]));
        DOP_RETURN_IF_ERROR(dop_json_str_or(&p, "activation", "identity", &act));
        DOP_RETURN_IF_ERROR(dop_json_u32(&p, "inputSize", dop_dense_in(e, a->hidden, e->n_dense),
                                         dop_dense_in(e, a->hidden, e->n_dense), &in));
        DOP_RETURN_IF_ERROR(dop_json_u32(&p, "outputSize", 1, DOP_MAX_WIDTH, &e->dense[i].width));
        if (strcmp(act, "identity") != 0)
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path,
                               "%sactivation \"%.40s\" is not supported; known: identity", p.where, act);
        e->dense[i].bias = r->dense[i][1] != NULL;
        e->n_dense++;
    }
    return DOP_OK;
}

static dop_status
read_rdrr_text(dop_rdrr *r, const dop_rdrr_sections *s)
{
    dop_checkpoint *m = r->model;
    dop_json tok, chat;
    const char *file = NULL, *type = NULL, *id = NULL;
    uint32_t n_bos = 0;
    int64_t bos = -1;
    bool enabled = true;
    DOP_RETURN_IF_ERROR(
        dop_json_ids(&r->top, "eos_token_id", m->arch.vocab, DOP_MAX_END_IDS, m->arch.end_ids, &m->arch.n_end_ids));
    DOP_RETURN_IF_ERROR(dop_json_sub(&r->top, "tokenizer", &tok));
    DOP_RETURN_IF_ERROR(dop_json_ids(&tok, "bosTokenId", m->arch.vocab, 1, &bos, &n_bos));
    if (m->arch.n_end_ids == 0)
        DOP_RETURN_IF_ERROR(
            dop_json_ids(&tok, "eosTokenId", m->arch.vocab, DOP_MAX_END_IDS, m->arch.end_ids, &m->arch.n_end_ids));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&tok, "file", "tokenizer.json", &file));
    DOP_RETURN_IF_ERROR(dop_json_sub(&s->inference, "chatTemplate", &chat));
    DOP_RETURN_IF_ERROR(dop_json_bool_or(&chat, "enabled", true, &enabled));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&chat, "type", NULL, &type));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&r->top, "modelId", NULL, &id));
    m->arch.bos_id = n_bos ? bos : -1;
    if (dop_json_has(&s->inference, "rerank"))
        DOP_RETURN_IF_ERROR(dop_checkpoint_note(m, "inference.rerank is not used: the plan gives logits", r->diag));
    if (strchr(file, '/') || file[0] == '.' || !dop_path_is_inside(file))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "tokenizer.file \"%.100s\" is not a plain file name", file);
    char *path = dop_arena_printf(r->arena, "%s/%s", r->dir, file);
    if (!path)
        return DOP_NO_MEMORY(r->diag);
    dop_map probe;
    if (dop_map_open(path, NULL, &probe) == DOP_OK)
        m->tokenizer_json_path = path;
    dop_map_close(&probe);
    if (enabled && type)
        m->chat_type = dop_arena_strdup(r->arena, type);
    if (id && !strchr(id, '/'))
        m->name = dop_arena_strdup(r->arena, id);
    return dop_import_chat_template(r->dir, m, r->diag);
}

static bool
has_rdrr_tensor(void *user, const char *name)
{
    return dop_rdrr_find(user, name) != NULL;
}

dop_status
dop_rdrr_config(dop_rdrr *r)
{
    dop_rdrr_sections s;
    dop_arch *a = &r->model->arch;
    dop_arch_defaults(a, &r->layer);
    snprintf(a->family, sizeof a->family, "rdrr");
    r->prefix = dop_hf_prefix(has_rdrr_tensor, r, "embed_tokens.weight", "model.");
    DOP_RETURN_IF_ERROR(dop_rdrr_open_sections(r, &s));
    r->family = get_rdrr_family(r, &s);
    DOP_RETURN_IF_ERROR(refuse_rdrr_fields(r, &s));
    DOP_RETURN_IF_ERROR(read_rdrr_sizes(r, &s));
    DOP_RETURN_IF_ERROR(read_rdrr_norms(r, &s));
    DOP_RETURN_IF_ERROR(read_ffn(r, &s));
    DOP_RETURN_IF_ERROR(read_output(r, &s));
    DOP_RETURN_IF_ERROR(read_embedding(r, &s));
    DOP_RETURN_IF_ERROR(read_rdrr_text(r, &s));
    r->stated = *a;
    return read_rdrr_layers(r, &s);
}
