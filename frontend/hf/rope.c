/* Rotary embeddings in config.json: rope_theta and rope_scaling (old), or rope_parameters (new, possibly per layer type). Field
 * names and defaults as in transformers' modeling_rope_utils.py. */
#include "frontend/hf/rope.h"
#include "frontend/hf/hf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    dop_rope_scaling scaling;
} scalings[] = {
    {"default", DOP_ROPE_PLAIN},
    {"linear", DOP_ROPE_LINEAR},
    {"ntk", DOP_ROPE_LINEAR}, /* with a larger base, see read_hf_rope() */
    {"llama3", DOP_ROPE_LLAMA3},
    {"yarn", DOP_ROPE_YARN},
    {"longrope", DOP_ROPE_LONGROPE},
    {"su", DOP_ROPE_LONGROPE}, /* Phi-3's first name for longrope */
    {"proportional", DOP_ROPE_PROPORTIONAL},
    {"mrope", DOP_ROPE_PLAIN},   /* Qwen2-VL's first files, see read_hf_sections() */
    {"dynamic", DOP_ROPE_PLAIN}, /* within max_position_embeddings, see read_hf_rope() */
};

/* Reads the kind of scaling. ntk: the base grows with the factor. limited: valid only up to max_position_embeddings; beyond,
 * frequencies would change with every token. */
static dop_status
read_hf_scaling(const dop_json *j, dop_rope *r, bool *ntk, bool *limited)
{
    const char *name = NULL;
    double alpha = 0;
    dop_status st = dop_json_str_or(j, "type", "default", &name);
    if (st == DOP_OK)
        st = dop_json_str_or(j, "rope_type", name, &name);
    if (st == DOP_OK)
        st = dop_fact_f64_or(j, DOP_HF(ntk_alpha), 0, &alpha);
    if (st != DOP_OK)
        return st;
    /* HunYuanDenseV1RotaryEmbedding: alpha enlarges the base at any length; read_hf_rope() applies it. */
    if (strcmp(name, "dynamic") == 0 && alpha > 0) {
        r->factor = alpha;
        return DOP_OK;
    }
    for (size_t i = 0; i < sizeof scalings / sizeof *scalings; i++)
        if (strcmp(scalings[i].name, name) == 0) {
            r->scaling = scalings[i].scaling;
            *limited = strcmp(name, "dynamic") == 0;
            *ntk = strcmp(name, "ntk") == 0;
            return DOP_OK;
        }
    return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path,
                       "%srope_type \"%.40s\" is not supported; known: default, linear, ntk, llama3, yarn, longrope, "
                       "proportional",
                       j->where, name);
}

static dop_status
read_factor_list(const dop_hf *hf, const dop_json *j, const char *key, uint32_t expected, const double **out)
{
    uint32_t n = 0;
    DOP_RETURN_IF_ERROR(dop_json_f64_list(j, key, 1e-6, 1e6, hf->arena, out, &n));
    if (!*out)
        DOP_RETURN_IF_ERROR(dop_json_missing(j, key));
    if (n != expected)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path,
                           "%s%s has %u entries, expected %u (half of the rotated values)", j->where, key, n, expected);
    return DOP_OK;
}

/* Reads the context length before scaling, from the scaling object or (Phi-3) next to max_position_embeddings. */
static dop_status
read_original_ctx(const dop_hf *hf, const dop_json *j, dop_rope *r)
{
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(rope_ctx), hf->model->arch.ctx_train, &r->original_ctx));
    return dop_fact_u32_or(j, DOP_HF(rope_ctx), r->original_ctx, &r->original_ctx);
}

static dop_status
read_yarn(const dop_json *j, dop_rope *r)
{
    DOP_RETURN_IF_ERROR(dop_fact_f64(j, DOP_HF(rope_factor), &r->factor));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(j, DOP_HF(beta_fast), 32, &r->beta_fast));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(j, DOP_HF(beta_slow), 1, &r->beta_slow));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(j, DOP_HF(yarn_truncate), true, &r->truncate));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(j, DOP_HF(mscale), 0, &r->mscale));
    return dop_fact_f64_or(j, DOP_HF(mscale_all_dim), 0, &r->mscale_all_dim);
}

/* Reads the fields of the kind of scaling. */
static dop_status
read_parameters(const dop_hf *hf, const dop_json *j, dop_rope *r)
{
    const uint32_t ctx = hf->model->arch.ctx_train;
    dop_status st = DOP_OK;
    r->factor = 1;
    switch (r->scaling) {
    case DOP_ROPE_PLAIN:
        return DOP_OK;
    case DOP_ROPE_LINEAR:
        return dop_fact_f64(j, DOP_HF(rope_factor), &r->factor);
    case DOP_ROPE_PROPORTIONAL:
        return dop_fact_f64_or(j, DOP_HF(rope_factor), 1, &r->factor);
    case DOP_ROPE_LLAMA3:
        st = dop_fact_f64(j, DOP_HF(rope_factor), &r->factor);
        if (st == DOP_OK)
            st = dop_fact_f64(j, DOP_HF(low_freq_factor), &r->low_freq_factor);
        if (st == DOP_OK)
            st = dop_fact_f64(j, DOP_HF(high_freq_factor), &r->high_freq_factor);
        if (st == DOP_OK && r->high_freq_factor < r->low_freq_factor)
            st = DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%shigh_freq_factor %g is below low_freq_factor %g",
                             j->where, r->high_freq_factor, r->low_freq_factor);
        return st == DOP_OK ? read_original_ctx(hf, j, r) : st;
    case DOP_ROPE_YARN:
        st = read_yarn(j, r);
        break;
    case DOP_ROPE_LONGROPE:
        r->n_factors = r->dims / 2;
        st = read_factor_list(hf, j, "short_factor", r->n_factors, &r->short_factors);
        if (st == DOP_OK)
            st = read_factor_list(hf, j, "long_factor", r->n_factors, &r->long_factors);
        break;
    }
    if (st == DOP_OK)
        st = read_original_ctx(hf, j, r);
    if (st == DOP_OK)
        st = dop_fact_f64_or(j, DOP_HF(rope_attention), 0, &r->attention_factor);
    if (st == DOP_OK && r->scaling == DOP_ROPE_LONGROPE) /* only Phi-3.5-MoE states it */
        st = dop_fact_f64_or(j, DOP_HF(long_mscale), r->attention_factor, &r->attention_factor);
    /* longrope: the attention factor follows from the ratio of the context lengths. */
    if (st == DOP_OK && r->scaling == DOP_ROPE_LONGROPE) {
        double ratio = (double)ctx / (double)r->original_ctx;
        st = r->original_ctx != ctx ? DOP_OK : dop_fact_f64_or(j, DOP_HF(rope_factor), 1, &ratio);
        r->factor = ratio;
    }
    return st;
}

/* Checks that a number in both the outermost object (old) and rope_parameters (new) has the same value. */
static dop_status
check_twice(const dop_hf *hf, const dop_json *j, const char *outer, const dop_fact_key *fact)
{
    double a = 0, b = 0;
    if (!dop_json_has(&hf->cfg, outer) || !j->object || !dop_json_has(j, fact->key))
        return DOP_OK;
    DOP_RETURN_IF_ERROR(dop_json_f64(&hf->cfg, outer, fact->least, fact->most, &a));
    DOP_RETURN_IF_ERROR(dop_fact_f64(j, fact, &b));
    if (fabs(a - b) > 1e-6 * a)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s is %g, but %s%s is %g", hf->cfg.where, outer, a,
                           j->where, fact->key, b);
    return DOP_OK;
}

/* Checks that rope_scaling and rope_parameters agree if a file has both. */
static dop_status
check_scaling_twice(const dop_hf *hf, const json_t *old, const json_t *new)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)old, key, v)
    {
        const json_t *other = json_object_get(new, strcmp(key, "type") == 0 ? "rope_type" : key);
        if (!other)
            other = json_object_get(new, key);
        if (json_is_null(v) ||
            (json_is_number(v) ? other && json_number_value(v) == json_number_value(other) : json_equal(v, other)))
            continue;
        char *a = json_dumps(v, JSON_ENCODE_ANY), *b = other ? json_dumps(other, JSON_ENCODE_ANY) : NULL;
        dop_status st = DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                                    "%srope_scaling.%s is %.60s, but rope_parameters, which newer files have instead, "
                                    "says %.60s: keep one of them",
                                    hf->cfg.where, key, a ? a : "?", b ? b : "nothing of it");
        free(a);
        free(b);
        return st;
    }
    return DOP_OK;
}

/* Reads the number of pairs that rotate by each of a row's three positions. */
static dop_status
read_hf_sections(const dop_json *j, dop_rope *r)
{
    const json_t *list = j->object ? dop_json_get(j, "mrope_section") : NULL;
    uint64_t sum = 0;
    if (!list)
        return DOP_OK;
    for (size_t i = 0; i < 3; i++) {
        const json_int_t n = json_integer_value(json_array_get(list, i));
        r->sections[i] = n >= 0 && n <= UINT16_MAX ? (uint32_t)n : UINT16_MAX;
        sum += r->sections[i];
    }
    if (json_array_size(list) != 3 || sum != r->dims / 2)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path,
                           "%smrope_section is not three numbers of pairs with the sum %u", j->where, r->dims / 2);
    return dop_json_bool_or(j, "mrope_interleaved", false, &r->sections_mixed);
}

/* Reads one rotary embedding. `j` may be an absent object, which means no scaling. */
static dop_status
read_hf_rope(const dop_hf *hf, const dop_json *j, double theta, uint32_t head_dim, dop_rope *r)
{
    const dop_family *f = hf->family;
    const char *part = f->keys->partial ? f->keys->partial : DOP_HF(rotated_share)->key;
    const char *base = f->keys->theta ? f->keys->theta : DOP_HF(theta)->key;
    double partial = f->partial > 0 ? f->partial : 1;
    *r = (dop_rope){.interleaved = f->flags & DOP_FAM_ROPE_PAIRS};
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(j, DOP_HF(theta), theta, &r->theta));
    DOP_RETURN_IF_ERROR(dop_json_f64_or(&hf->cfg, part, 1e-3, 1, partial, &partial));
    if (!(f->flags & DOP_FAM_LOCAL_ROPE))
        /* with two rotary embeddings the outer field applies to only one */
        DOP_RETURN_IF_ERROR(check_twice(hf, j, base, DOP_HF(theta)));
    /* Multimodal models state an unused default in the outer object. */
    if (!(f->flags & DOP_FAM_LOCAL_ROPE) && !(j->object && dop_json_has(j, "mrope_section")))
        DOP_RETURN_IF_ERROR(check_twice(hf, j, part, DOP_HF(rotated_share)));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(j, DOP_HF(rotated_share), partial, &partial));
    /* Mistral 4 states the fraction of a whole head, but head_dim is only the rotated part. */
    if (f->flags & DOP_FAM_SCALE_ALONE)
        partial = 1;
    bool limited = false, ntk = false;
    uint32_t dims = 0; /* MiniMax states a number of values instead of a fraction of the head */
    DOP_RETURN_IF_ERROR(dop_json_u32_or(&hf->cfg, DOP_HF(rotated)->key, 1, head_dim, 0, &dims));
    if (dims)
        partial = (double)dims / head_dim;
    DOP_RETURN_IF_ERROR(read_hf_scaling(j, r, &ntk, &limited));
    if (limited)
        hf->model->arch.ctx_limit = hf->model->arch.ctx_train;
    uint32_t turned = (uint32_t)((double)head_dim * partial);
    if (r->factor > 0 && turned > 2)
        r->theta *= pow(r->factor, turned / (turned - 2.0));
    if (f->flags & DOP_FAM_SWA_HEADS && turned % 2) {
        /* odd number of rotated values: frequencies are computed from it */
        r->theta = pow(r->theta, (turned + 1.0) / turned);
        turned++;
    }
    if (r->scaling == DOP_ROPE_PROPORTIONAL) {
        /* The frequencies are those of the whole head, but its last pairs do not rotate. */
        turned = 2 * (uint32_t)((double)head_dim * partial / 2);
        r->rotated = turned;
        r->dims = head_dim;
    } else {
        r->dims = turned;
    }
    if (turned == 0 || r->dims % 2 != 0)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                           "rotary embedding turns %u of %u values of a head (head_dim), expected an even number",
                           r->dims, head_dim);
    DOP_RETURN_IF_ERROR(read_hf_sections(j, r));
    DOP_RETURN_IF_ERROR(read_parameters(hf, j, r));
    if (ntk && dop_json_has(j, "mixed_b"))
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%smixed_b is not supported", j->where);
    if (ntk) {
        /* https://kexue.fm/archives/9706: the factor lowers the lowest frequency */
        r->theta *= r->factor;
        r->factor = pow(r->factor, 2.0 / r->dims);
    }
    return DOP_OK;
}

/* Returns the number of values of a head that may rotate: all, except in latent attention. */
static uint32_t
get_rope_dim(const dop_attention *t)
{
    return t->latent.rank ? t->latent.rotated : t->head_dim;
}

/* Returns the number of values of a head that may rotate in the first layer with (`slides`) or without a sliding window
 * (`any`: in the first layer). */
static uint32_t
get_hf_head_dim(const dop_arch *a, const bool *sliding, bool any, bool slides)
{
    uint32_t i = 0;
    while (i + 1 < a->n_layers && !any && sliding[i] != slides)
        i++;
    return get_rope_dim(&a->layers[i].mixers[0].attn);
}

/* Gemma 3: rotary embedding 0 is for full layers, 1 for sliding layers; other families have one for all layers. */
dop_status
dop_hf_ropes(dop_hf *hf, const bool *sliding)
{
    dop_arch *a = &hf->model->arch;
    dop_json params = {0}, full, local;
    const bool two = hf->family->flags & DOP_FAM_LOCAL_ROPE;
    double theta = hf->family->theta, local_theta = 1e4;
    dop_status st = dop_fact_f64_or(&hf->cfg, DOP_HF(theta), theta, &theta);
    if (st == DOP_OK && hf->family->keys->theta)
        st = dop_json_f64_or(&hf->cfg, hf->family->keys->theta, 1e-3, 1e12, theta, &theta);
    double ratio = 1; /* ChatGLM */
    if (st == DOP_OK)
        st = dop_fact_f64_or(&hf->cfg, DOP_HF(theta_ratio), 1, &ratio);
    theta *= ratio;
    if (st == DOP_OK)
        st = dop_json_sub(&hf->cfg, "rope_scaling", &params);
    const dop_json old = params;
    if (st == DOP_OK && dop_json_has(&hf->cfg, "rope_parameters"))
        st = dop_json_sub(&hf->cfg, "rope_parameters", &params);
    if (st == DOP_OK && params.object != old.object)
        st = check_scaling_twice(hf, old.object, params.object);
    if (st == DOP_OK)
        st = dop_json_sub(&params, "full_attention", &full);
    if (st == DOP_OK)
        st = dop_json_sub(&params, "sliding_attention", &local);
    if (st == DOP_OK && two)
        st = dop_fact_f64_or(&hf->cfg, DOP_HF(theta_sliding), local_theta, &local_theta);
    if (st == DOP_OK && two)
        st = dop_fact_f64_or(&hf->cfg, DOP_HF(theta_local), local_theta, &local_theta); /* ModernBERT */
    if (hf->family->flags &
        DOP_FAM_ONE_BASE) /* old files: one base for full and sliding layers; scaling applies to full layers only */
        local_theta = theta;
    if (st == DOP_OK && hf->family->flags & DOP_FAM_SWA_HEADS)
        st = dop_fact_f64_or(&hf->cfg, DOP_HF(theta_swa), local_theta, &local_theta);
    if (st == DOP_OK)
        st = read_hf_rope(hf, full.object ? &full : &params, theta, get_hf_head_dim(a, sliding, !two, false),
                          &a->ropes[0]);
    if (st == DOP_OK && two)
        st = read_hf_rope(hf, &local, local_theta, get_hf_head_dim(a, sliding, false, true), &a->ropes[1]);
    a->n_ropes = two ? 2 : 1;
    /* Ministral3Attention: queries are scaled by a temperature that grows with the position. */
    if (st == DOP_OK && params.object && dop_json_has(&params, DOP_HF(temper_beta)->key)) {
        st = dop_fact_f64(&params, DOP_HF(temper_beta), &a->temper.scale);
        a->temper.floor = a->ropes[0].original_ctx;
        for (uint32_t i = 0; i < a->n_layers; i++)
            a->layers[i].mixers[0].attn.tempered = a->temper.floor > 0;
    }
    for (uint32_t i = 0; st == DOP_OK && i < a->n_layers; i++) {
        dop_attention *t = &a->layers[i].mixers[0].attn;
        const uint32_t head = get_hf_head_dim(a, sliding, !two, sliding[i]);
        t->rope = two && sliding[i] ? 1 : 0;
        if (get_rope_dim(t) != head)
            st = DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                             "%slayer %u has heads of %u values, others of its type have %u: one rotary embedding does "
                             "not fit both",
                             hf->cfg.where, i, t->head_dim, head);
    }
    return st;
}
