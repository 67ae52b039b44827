/* Attention variants of single model families in GGUF files: latent (DeepSeek-V3), chunked (Llama 4), and Gemma 4's shared keys
 * and values and per-layer inputs (llama.cpp, src/models/deepseek2.cpp, llama4.cpp and gemma4.cpp). */
#include "frontend/gguf/attention.h"
#include "frontend/gguf/gguf_import.h"
#include "frontend/gguf/keys.h"
#include "frontend/gguf/open.h"

#include <math.h>
#include <stdio.h>

/* Keys ending in "_mla" describe the model's heads; without that suffix, keys describe the single head of the compressed cache.
 * Older files and MiniCPM 3 have only keys without suffix, which then describe the model's heads. */
dop_status
dop_gi_latent(const dop_gi *gi, uint32_t layer, dop_attention *t)
{
    dop_latent *l = &t->latent;
    char full[96];
    const bool own = dop_gi_find(gi, DOP_GGUF(latent_dim)->key, full, sizeof full);
    uint32_t dim = 0;
    dop_status st = dop_gi_size(gi, DOP_GGUF(latent_rank), layer, 0, &l->rank);
    if (st == DOP_OK && dop_gi_find(gi, DOP_GGUF(latent_q_rank)->key, full,
                                    sizeof full)) /* otherwise queries are projected from the input directly */
        st = dop_gi_size(gi, DOP_GGUF(latent_q_rank), layer, 0, &l->q_rank);
    if (st == DOP_OK)
        st = dop_gi_size(gi, own ? DOP_GGUF(latent_dim) : DOP_GGUF(head_dim), layer, 0, &dim);
    if (st == DOP_OK)
        st = dop_gi_size(gi, own ? DOP_GGUF(latent_value_dim) : DOP_GGUF(value_dim), layer,
                         own || gi->model->arch.hidden < t->n_heads ? 0 : gi->model->arch.hidden / t->n_heads,
                         &l->value_dim);
    if (st == DOP_OK)
        st = dop_gi_size(gi, DOP_GGUF(latent_rotated), layer, 0, &l->rotated);
    if (st != DOP_OK)
        return st;
    if (l->rotated >= dim)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                           "%s.rope.dimension_count is %u, but %s.attention.key_length%s is %u", gi->name, l->rotated,
                           gi->name, own ? "_mla" : "", dim);
    l->plain = dim - l->rotated;
    if (l->plain % 4 || l->rotated % 8 || l->rank % 4 || l->value_dim % 4)
        return DOP_FAIL_IN(
            gi->diag, DOP_E_INPUT, gi->path,
            "heads of %u values, %u of them rotated, made of %u, and values of %u are not multiples of 4 "
            "(of 8 where rotated)",
            dim, l->rotated, l->rank, l->value_dim);
    l->norm = (dop_norm){.kind = DOP_NORM_RMS,
                         .eps = 1e-6}; /* fixed eps, independent of the other norms, as in the models' code */
    l->q_norm = l->q_rank ? l->norm : (dop_norm){0};
    t->head_dim = dim;
    t->n_kv_heads = 1;
    t->scale = 1 / sqrt(dim);
    return DOP_OK;
}

/* rope.scaling.yarn_log_multiplier is a tenth of mscale_all_dim; the scale of scores is multiplied by the square of its effect.
 * Files do not state mscale; it is assumed to be equal, which leaves cosines and sines unscaled. */
dop_status
dop_gi_latent_rope(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    dop_rope *r = &a->ropes[0];
    double by = 0;
    dop_status st = dop_gi_number(gi, DOP_GGUF(yarn_log), 0, &by);
    if (st != DOP_OK || r->scaling != DOP_ROPE_YARN || by == 0.0 || r->factor <= 1)
        return st;
    const double m = 1 + by * log(r->factor);
    r->mscale = r->mscale_all_dim = by * 10;
    for (uint32_t i = 0; i < a->n_layers && !(gi->family->flags & DOP_FAM_SCALE_ALONE); i++)
        a->layers[i].mixers[0].attn.scale *= m * m;
    return DOP_OK;
}

/* Index of sparse attention. Layers without index tensors reuse the positions chosen by an earlier layer. In files without any
 * (older ones) attention covers all positions. */
dop_status
dop_gi_index(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    dop_indexer x = {.interleaved = gi->family->flags & DOP_FAM_INDEX_PAIRS,
                     .norm = {.kind = DOP_NORM_LAYER, .bias = true, .eps = 1e-6}};
    char name[64];
    bool some = false;
    char full[96];
    const dop_gguf_kv *types = dop_gi_find(gi, "attention.indexer.types", full, sizeof full);
    for (uint32_t i = 0; i < a->n_layers; i++) {
        uint64_t has = 1;
        snprintf(name, sizeof name, "blk.%u.indexer.attn_k.weight", i);
        if (types && i < types->count)
            (void)dop_gguf_u64(types, i, &has);
        const bool own = has && dop_gi_tensor(gi, name, NULL) != NULL;
        if (own && !some)
            DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(index_heads), i, 0, &x.n_heads));
        if (own && !some)
            DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(index_dim), i, 0, &x.head_dim));
        if (own && !some)
            DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(index_top), i, 0, &x.top));
        some = some || own;
        if (some)
            a->layers[i].mixers[0].attn.index = own ? x : (dop_indexer){.top = x.top};
    }
    return DOP_OK;
}

/* Defaults of llama.cpp for Llama 4: chunks of 8192 positions; temperature for queries without RoPE; norms after RoPE, except in
 * the size with 128 experts. A file may state other lengths. */
dop_status
dop_gi_chunks(dop_gi *gi)
{
    enum { KNOWN = 8192, NOT_NORMED = 128 };
    dop_arch *a = &gi->model->arch;
    uint32_t chunk = 0, floor = 0;
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(window), 0, KNOWN, &chunk));
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(temper_floor), 0, KNOWN, &floor));
    DOP_RETURN_IF_ERROR(dop_gi_number(gi, DOP_GGUF(temper_scale), 0.1, &a->temper.scale));
    a->temper.floor = floor;
    a->temper.from = 1;
    bool normed = true;
    for (uint32_t i = 0; i < a->n_layers; i++)
        normed = normed && a->layers[i].ffn.experts.n != NOT_NORMED;
    for (uint32_t i = 0; i < a->n_layers; i++) {
        dop_attention *t = &a->layers[i].mixers[0].attn;
        const bool rotates = t->rope >= 0;
        t->chunk = rotates ? chunk : 0;
        t->tempered = !rotates;
        if (normed && rotates) {
            t->norm_after = true;
            t->q_norm = t->k_norm = (dop_norm){.kind = DOP_NORM_RMS, .plain = true, .eps = a->layers[i].attn_norm.eps};
        }
    }
    return DOP_OK;
}

/* Reads a number; a missing key counts as 0. */
static dop_status
read_count_or_0(const dop_gi *gi, const dop_fact_key *fact, uint32_t max, uint32_t *out)
{
    char full[96];
    uint64_t v = 0;
    const dop_gguf_kv *kv = dop_gi_find(gi, fact->key, full, sizeof full);
    if (kv && (!dop_gguf_u64(kv, 0, &v) || v > max))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not an integer from 0 to %u", full, max);
    *out = (uint32_t)v;
    return DOP_OK;
}

/* Gemma 3n. An activation sparsity scale of minus infinity means that the layer's gate is not sparse. */
dop_status
dop_gi_altup(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    char full[96];
    const dop_gguf_kv *sparsity = dop_gi_find(gi, "activation_sparsity_scale", full, sizeof full);
    const dop_gguf_tensor *laurel = dop_gi_tensor(gi, "blk.0.laurel_l.weight", NULL);
    dop_status st = dop_gi_size(gi, DOP_GGUF(streams), 0, 4, &a->altup.n);
    if (st == DOP_OK)
        st = read_count_or_0(gi, DOP_GGUF(active_stream), DOP_MAX_STREAMS, &a->altup.active);
    a->altup.scales = dop_gi_tensor(gi, "blk.0.altup_correct_scale.weight", NULL) != NULL;
    a->altup.norm = a->final_norm;
    for (uint32_t i = 0; st == DOP_OK && i < a->n_layers; i++) {
        dop_layer *y = &a->layers[i];
        double v = 0;
        y->laurel = !laurel ? 64 : laurel->dims[1] <= DOP_MAX_WIDTH ? (uint32_t)laurel->dims[1] : DOP_MAX_WIDTH + 1;
        y->laurel_norm = a->final_norm;
        if (sparsity && (sparsity->type != DOP_GGUF_ARRAY || sparsity->count != a->n_layers ||
                         !dop_gguf_f64(sparsity, i, &v) || isnan(v)))
            st = DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not one number per layer", full);
        y->ffn.sparsity = v > 0 ? v : 0;
    }
    return st;
}

/* Granite's files mark a model without RoPE by a scaling that is not finetuned. */
dop_status
dop_gi_rotates(const dop_gi *gi, bool *out)
{
    *out = true;
    return gi->family->flags & DOP_FAM_MULTIPLIERS ? dop_gi_flag(gi, DOP_GGUF(rope_finetuned), true, out) : DOP_OK;
}

dop_status
dop_gi_layer_inputs(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    dop_layer_inputs *p = &a->inputs;
    uint32_t n = 0;
    dop_status st = read_count_or_0(gi, DOP_GGUF(input_width), DOP_MAX_WIDTH, &p->width);
    if (st == DOP_OK)
        st = read_count_or_0(gi, DOP_GGUF(shared_kv_layers), a->n_layers, &n);
    if (gi->family->flags &
        DOP_FAM_READER) /* drafter: all layers share; which model layers is set when the model is known */
        n = 0;
    const dop_gguf_tensor *embed = dop_gi_tensor(gi, "per_layer_token_embd.weight", NULL);
    p->vocab = !embed ? a->vocab : embed->dims[1] <= DOP_MAX_VOCAB ? (uint32_t)embed->dims[1] : 0;
    p->scale = (double)sqrtf((float)p->width);
    p->projected = 1 / sqrt(a->hidden);
    p->norm = p->width ? a->final_norm : (dop_norm){0};
    for (uint32_t i = 0; st == DOP_OK && i < a->n_layers; i++) {
        dop_attention *t = &a->layers[i].mixers[0].attn;
        uint32_t from = i < a->n_layers - n ? 0 : a->n_layers - n;
        char name[64];
        a->layers[i].post_input_norm = p->norm;
        snprintf(name, sizeof name, "blk.%u.attn_v.weight", i);
        t->k_is_v = !gi->slides[i] && !(gi->family->flags & DOP_FAM_ALTUP) && !dop_gi_tensor(gi, name, NULL);
        while (from > 0 && gi->slides[from - 1] != gi->slides[i])
            from--;
        if (i < a->n_layers - n)
            continue;
        if (from == 0)
            return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                               "%s.attention.shared_kv_layers is %u of %u layers: none is left whose keys and values "
                               "layer %u, which has %s attention, could take",
                               gi->name, n, a->n_layers, i, gi->slides[i] ? "sliding" : "full");
        t->shares = from;
        t->k_norm = t->v_norm = (dop_norm){0};
    }
    return st;
}
