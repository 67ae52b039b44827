/* Rotary embeddings in GGUF files: keys "rope.*", and tensors of frequency divisors. */
#include "frontend/gguf/rope.h"
#include "frontend/gguf/gguf_import.h"
#include "frontend/gguf/keys.h"
#include "frontend/gguf/open.h"

#include <stdio.h>
#include <string.h>

/* Reads frequency divisors from a tensor of dims / 2 floats. */
static dop_status
read_gguf_rope_factors(dop_gi *gi, const char *name, uint32_t n, const double **out)
{
    const dop_gguf *part = NULL;
    const dop_gguf_tensor *t = dop_gi_take(gi, name, &part);
    *out = NULL;
    if (!t)
        return DOP_OK;
    if (t->type != 0 || t->dims[0] != n || t->bytes != 4ull * n)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, part->path, "tensor %s is not %u values of type F32", name, n);
    double *list = dop_arena_alloc(gi->model->arena, n * sizeof *list);
    if (!list)
        return DOP_NO_MEMORY(gi->diag);
    for (uint32_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, part->map.data + t->offset + 4ull * i, 4);
        if (!(f > 1e-6f && f < 1e31f)) /* 1e30 marks a pair that does not rotate (Gemma 4) */
            return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, part->path, "tensor %s: value %u is %g, expected above 0", name,
                               i, (double)f);
        list[i] = (double)f;
    }
    *out = list;
    return DOP_OK;
}

static dop_status
read_gguf_scaling(dop_gi *gi, dop_rope *r)
{
    static const struct {
        const char *name;
        dop_rope_scaling scaling;
    } kinds[] = {{"none", DOP_ROPE_PLAIN},
                 {"linear", DOP_ROPE_LINEAR},
                 {"yarn", DOP_ROPE_YARN},
                 {"longrope", DOP_ROPE_LONGROPE}};
    char full[96];
    dop_gguf_str type = {0};
    double factor = 0;
    const dop_gguf_kv *kv = dop_gi_find(gi, "rope.scaling.type", full, sizeof full);
    if (kv && !dop_gguf_string(kv, &type))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not a string", full);
    dop_status st = dop_gi_number(gi, DOP_GGUF(rope_factor_old), 0, &factor); /* older files */
    if (st == DOP_OK)
        st = dop_gi_number(gi, DOP_GGUF(rope_factor), factor, &factor);
    if (st != DOP_OK)
        return st;
    r->factor = factor > 0 ? factor : 1;
    r->scaling = !kv && factor > 1 ? DOP_ROPE_LINEAR : DOP_ROPE_PLAIN;
    if (!kv)
        return DOP_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i].name) == type.len && memcmp(kinds[i].name, type.data, (size_t)type.len) == 0) {
            r->scaling = kinds[i].scaling;
            return DOP_OK;
        }
    return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                       "%s \"%.*s\" is not supported; known: none, linear, yarn, "
                       "longrope",
                       full, (int)(type.len > 40 ? 40 : type.len), type.data);
}

static dop_status
read_longrope(dop_gi *gi, dop_rope *r)
{
    dop_status st = read_gguf_rope_factors(gi, "rope_factors_short.weight", r->dims / 2, &r->short_factors);
    if (st == DOP_OK)
        st = read_gguf_rope_factors(gi, "rope_factors_long.weight", r->dims / 2, &r->long_factors);
    if (st != DOP_OK || !r->short_factors || !r->long_factors)
        return st;
    /* Without stated factor, cosines and sines are not scaled. */
    r->scaling = DOP_ROPE_LONGROPE;
    r->n_factors = r->dims / 2;
    r->attention_factor = r->attention_times;
    r->attention_times = 1;
    return DOP_OK;
}

/* Returns head_dim of the first attention layer with (`slides`) or without a sliding window (`any`: either); if none, of the
 * first attention layer. */
static uint32_t
get_gguf_head_dim(const dop_gi *gi, bool any, bool slides)
{
    const dop_arch *a = &gi->model->arch;
    uint32_t first = 0;
    for (uint32_t i = 0; i < a->n_layers; i++) {
        const dop_attention *t = dop_layer_attention(&a->layers[i]);
        first = first || !t ? first : t->head_dim;
        if (t && (any || gi->slides[i] == slides))
            return t->head_dim;
    }
    return first;
}

static dop_status
read_dims(const dop_gi *gi, const dop_fact_key *fact, uint32_t otherwise, uint32_t *out)
{
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, fact, 0, otherwise, out));
    if (*out % 2 != 0)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s.%s is %u, expected an even number", gi->name, fact->key,
                           *out);
    return DOP_OK;
}

/* Multimodal RoPE: reads the number of pairs that rotate by each of a row's three positions. In Qwen 3 models, row and column
 * pairs are interleaved with time pairs. */
static dop_status
read_gguf_sections(const dop_gi *gi, dop_rope *r)
{
    char key[96];
    uint64_t n = 0, sum = 0;
    const bool qwen = strncmp(gi->name, "qwen", 4) == 0;
    const dop_gguf_kv *kv = qwen ? dop_gi_find(gi, "rope.dimension_sections", key, sizeof key) : NULL;
    for (uint32_t i = 0; kv && i < 3; i++) {
        if (!dop_gguf_u64(kv, i, &n) || n > UINT16_MAX)
            return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not a list of numbers of pairs", key);
        r->sections[i] = (uint32_t)n;
        sum += n;
    }
    if (sum > 0 && sum != r->dims / 2)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s: the sum is %llu, expected %u pairs", key,
                           (unsigned long long)sum, r->dims / 2);
    r->sections_mixed = sum > 0 && strncmp(gi->name, "qwen3", 5) == 0;
    return DOP_OK;
}

static dop_status
read_gguf_rope(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    dop_rope *r = &a->ropes[0];
    const bool two = gi->family->flags & DOP_FAM_LOCAL_ROPE;
    *r = (dop_rope){.interleaved = gi->family->gguf_interleaved, .truncate = !gi->family->gguf_untruncated};
    DOP_RETURN_IF_ERROR(dop_gi_number(gi, DOP_GGUF(theta), gi->family->theta, &r->theta));
    DOP_RETURN_IF_ERROR(read_dims(gi, DOP_GGUF(rotated), get_gguf_head_dim(gi, !two, false), &r->dims));
    DOP_RETURN_IF_ERROR(read_gguf_sections(gi, r));
    DOP_RETURN_IF_ERROR(read_gguf_scaling(gi, r));
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(rope_ctx), 0, a->ctx_train, &r->original_ctx));
    DOP_RETURN_IF_ERROR(dop_gi_number(gi, DOP_GGUF(beta_fast), 32, &r->beta_fast));
    DOP_RETURN_IF_ERROR(dop_gi_number(gi, DOP_GGUF(beta_slow), 1, &r->beta_slow));
    /* for longrope this is the entire factor */
    DOP_RETURN_IF_ERROR(dop_gi_number(gi, DOP_GGUF(rope_attention), 1, &r->attention_times));
    DOP_RETURN_IF_ERROR(read_longrope(gi, r));
    if (r->scaling == DOP_ROPE_LONGROPE && !r->n_factors)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                           "longrope needs the tensors rope_factors_short.weight and rope_factors_long.weight");
    if (!r->n_factors) {
        /* Llama 3: the divisors contain the scaling */
        DOP_RETURN_IF_ERROR(read_gguf_rope_factors(gi, "rope_freqs.weight", r->dims / 2, &r->short_factors));
        r->n_factors = r->short_factors ? r->dims / 2 : 0;
    }
    a->n_ropes = 1;
    return DOP_OK;
}

/* Mistral's families: reads the query temperature (dop_temper). mscale and mscale_all_dim are equal, so that YaRN leaves cosines
 * and sines unscaled. For latent attention, dop_gi_latent_rope() reads them. */
static dop_status
read_temper(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    double by = 0;
    uint32_t floor = a->ropes[0].original_ctx;
    DOP_RETURN_IF_ERROR(dop_gi_number(gi, DOP_GGUF(temper_scale), 0, &a->temper.scale));
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(temper_floor), 0, floor, &floor));
    if (!(gi->family->flags & DOP_FAM_LATENT))
        DOP_RETURN_IF_ERROR(dop_gi_number(gi, DOP_GGUF(yarn_log), 0, &by));
    if (by > 0)
        a->ropes[0].mscale = a->ropes[0].mscale_all_dim = by;
    a->temper.floor = a->temper.scale > 0 ? floor : 0;
    for (uint32_t i = 0; i < a->n_layers; i++)
        a->layers[i].mixers[0].attn.tempered = a->temper.floor > 0;
    return DOP_OK;
}

/* Gemma 3 and 4: reads the RoPE of sliding layers, which has its own base and no scaling. */
static dop_status
read_local_rope(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    a->ropes[1] =
        (dop_rope){.interleaved = a->ropes[0].interleaved, .factor = 1, .attention_times = a->ropes[0].attention_times};
    a->n_ropes = 2;
    for (uint32_t i = 0; i < a->n_layers; i++)
        a->layers[i].mixers[0].attn.rope = gi->slides[i] ? 1 : 0;
    const bool one =
        gi->family->flags & DOP_FAM_ONE_BASE; /* unstated facts of sliding layers equal those of full layers */
    DOP_RETURN_IF_ERROR(read_dims(gi, DOP_GGUF(rotated_sliding),
                                  one ? a->ropes[0].dims : get_gguf_head_dim(gi, false, true), &a->ropes[1].dims));
    return dop_gi_number(gi, DOP_GGUF(theta_sliding), one ? a->ropes[0].theta : 1e4, &a->ropes[1].theta);
}

dop_status
dop_gi_ropes(dop_gi *gi)
{
    dop_status st = read_gguf_rope(gi);
    const bool chunks = gi->family->window_rule == DOP_WINDOW_CHUNKS;
    if (st == DOP_OK && !chunks)
        st = read_temper(gi);
    return st == DOP_OK && gi->family->flags & DOP_FAM_LOCAL_ROPE ? read_local_rope(gi) : st;
}
