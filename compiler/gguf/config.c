/* GGUF metadata to facts.  Keys: the GGUF specification (ggml repository, docs/gguf.md); what a missing key means, and
 * what is not stated at all (layer patterns and rotary bases of Gemma, query scales of its largest sizes), follows
 * llama.cpp, which is what writes and reads these files (llama-model.cpp, load_hparams). */
#include "compiler/gguf/gguf_import.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const dop_gguf_kv *
find(const dop_gi *gi, const char *key, char *out_full, size_t size)
{
    snprintf(out_full, size, "%s.%s", gi->family->gguf, key);
    return dop_gguf_find(&gi->parts[0], out_full);
}

static dop_status
missing(const dop_gi *gi, const char *full)
{
    return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is missing", full);
}

/* Integer in [1, max]; 0 as `otherwise`: must be there.  An array gives the value of each layer: element `layer`. */
static dop_status
size_key(const dop_gi *gi, const char *key, uint32_t layer, uint32_t max, uint32_t otherwise, uint32_t *out)
{
    char full[96];
    const dop_gguf_kv *kv = find(gi, key, full, sizeof full);
    uint64_t v = otherwise;
    if (!kv && !otherwise)
        return missing(gi, full);
    if (kv && kv->type == DOP_GGUF_ARRAY && kv->count != gi->model->arch.n_layers)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s has %llu entries, expected one per layer", full,
                           (unsigned long long)kv->count);
    if (kv && !dop_gguf_u64(kv, kv->type == DOP_GGUF_ARRAY ? layer : 0, &v))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not an integer of 0 or more", full);
    if (v < 1 || v > max)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is %llu, expected 1 to %u", full, (unsigned long long)v,
                           max);
    *out = (uint32_t)v;
    return DOP_OK;
}

static dop_status
number_key(const dop_gi *gi, const char *key, double min, double max, double otherwise, double *out)
{
    char full[96];
    const dop_gguf_kv *kv = find(gi, key, full, sizeof full);
    *out = otherwise;
    if (!kv)
        return DOP_OK;
    if (kv->type == DOP_GGUF_ARRAY || !dop_gguf_f64(kv, 0, out))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not a number", full);
    if (!(*out >= min && *out <= max))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is %g, expected %g to %g", full, *out, min, max);
    return DOP_OK;
}

static bool
has_tensor(const dop_gi *gi, const char *name)
{
    return dop_gi_tensor(gi, name, NULL) != NULL;
}

static dop_status
read_layer(dop_gi *gi, uint32_t i)
{
    dop_layer *y = &gi->model->arch.layers[i];
    dop_attention *t = &y->mixers[0].attn;
    const dop_arch *a = &gi->model->arch;
    uint32_t value_dim = 0;
    *y = gi->layer;
    t->rope = a->learned_positions ? -1 : 0;
    dop_status st = size_key(gi, "attention.head_count", i, DOP_MAX_HEADS, 0, &t->n_heads);
    if (st == DOP_OK)
        st = size_key(gi, "attention.head_count_kv", i, DOP_MAX_HEADS, t->n_heads, &t->n_kv_heads);
    if (st == DOP_OK)
        st = size_key(gi, "feed_forward_length", i, DOP_MAX_WIDTH, 0, &y->ffn.width);
    if (st != DOP_OK)
        return st;
    char full[96];
    if (!find(gi, "attention.key_length", full, sizeof full) && a->hidden % t->n_heads != 0)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                           "%s.embedding_length %u is not divisible by %s.attention.head_count %u", gi->family->gguf,
                           a->hidden, gi->family->gguf, t->n_heads);
    const uint32_t own = a->hidden >= t->n_heads ? a->hidden / t->n_heads : 1;
    st = size_key(gi, "attention.key_length", i, DOP_MAX_HEAD_DIM, own, &t->head_dim);
    if (st == DOP_OK)
        st = size_key(gi, "attention.value_length", i, DOP_MAX_HEAD_DIM, t->head_dim, &value_dim);
    const bool wide = gi->family->gguf_wide_layers && a->n_layers == gi->family->gguf_wide_layers;
    t->scale = 1 / sqrt(wide ? (double)a->hidden / t->n_heads : t->head_dim);
    if (st == DOP_OK && value_dim != t->head_dim)
        st = DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "heads of %u for keys and %u for values are not supported",
                         t->head_dim, value_dim);
    return st;
}

static dop_status
read_sizes(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    char full[96];
    dop_status st = size_key(gi, "block_count", 0, DOP_MAX_LAYERS, 0, &a->n_layers);
    if (st == DOP_OK)
        st = size_key(gi, "embedding_length", 0, DOP_MAX_WIDTH, 0, &a->hidden);
    if (st == DOP_OK)
        st = size_key(gi, "context_length", 0, DOP_MAX_CTX, 0, &a->ctx_train);
    uint64_t experts = 0;
    if (st == DOP_OK && dop_gguf_u64(find(gi, "expert_count", full, sizeof full), 0, &experts) && experts)
        st = DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s: mixtures of experts are not supported in GGUF files",
                         full);
    if (st != DOP_OK)
        return st;
    const dop_gguf_tensor *embed = dop_gi_tensor(gi, "token_embd.weight", NULL);
    if (!embed)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "tensor token_embd.weight is missing");
    if (embed->dims[1] > DOP_MAX_VOCAB)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "tensor token_embd.weight has %llu rows, at most %d fit",
                           (unsigned long long)embed->dims[1], DOP_MAX_VOCAB);
    a->vocab = (uint32_t)embed->dims[1];
    a->tied = !has_tensor(gi, "output.weight");
    return st;
}

static dop_status
read_layers(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    dop_status st = DOP_OK;
    a->layers = dop_arena_alloc(gi->model->arena, a->n_layers * sizeof *a->layers);
    if (!a->layers)
        return DOP_FAIL(gi->diag, DOP_E_NOMEM, "out of host memory");
    for (uint32_t i = 0; st == DOP_OK && i < a->n_layers; i++)
        st = read_layer(gi, i);
    return st;
}

/* Biases are there when the first layer has them; layers that differ lack a weight or have one too many. */
static void
find_biases(dop_gi *gi)
{
    dop_attention *t = &gi->layer.mixers[0].attn;
    const bool fused = has_tensor(gi, "blk.0.attn_qkv.bias");
    t->bias_q = fused || has_tensor(gi, "blk.0.attn_q.bias");
    t->bias_k = fused || has_tensor(gi, "blk.0.attn_k.bias");
    t->bias_v = fused || has_tensor(gi, "blk.0.attn_v.bias");
    t->bias_o = has_tensor(gi, "blk.0.attn_output.bias");
    gi->layer.ffn.bias = has_tensor(gi, "blk.0.ffn_down.bias");
}

/* ---- windows and rotary ------------------------------------------------------------------------------------------- */

/* attention.sliding_window_pattern: a period (the last of each is full) or one flag per layer. */
static dop_status
read_pattern(dop_gi *gi, bool *slides)
{
    const uint32_t n = gi->model->arch.n_layers;
    char full[96];
    const dop_gguf_kv *kv = find(gi, "attention.sliding_window_pattern", full, sizeof full);
    uint32_t period = gi->family->period;
    if (kv && kv->type == DOP_GGUF_ARRAY) {
        for (uint32_t i = 0; i < n; i++)
            if (kv->count != n || !dop_gguf_bool(kv, i, &slides[i]))
                return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not one true or false per layer", full);
        return DOP_OK;
    }
    dop_status st = size_key(gi, "attention.sliding_window_pattern", 0, DOP_MAX_CTX, period ? period : 1, &period);
    for (uint32_t i = 0; st == DOP_OK && i < n; i++)
        slides[i] = (i + 1) % period != 0;
    return st;
}

static dop_status
read_windows(dop_gi *gi, bool *slides)
{
    dop_arch *a = &gi->model->arch;
    char full[96];
    uint32_t window = 0;
    dop_status st = DOP_OK;
    /* Mistral files call themselves llama: a window there is one for every layer. */
    const bool pattern = gi->family->window_rule == DOP_WINDOW_PATTERN;
    const bool all = gi->family->window_rule == DOP_WINDOW_ALL || gi->family->window_rule == DOP_WINDOW_NONE;
    if (pattern)
        st = read_pattern(gi, slides);
    for (uint32_t i = 0; !pattern && i < a->n_layers; i++)
        slides[i] = all;
    const dop_gguf_kv *kv = find(gi, "attention.sliding_window", full, sizeof full);
    uint64_t stated = 0;
    if (st == DOP_OK && ((kv && !(dop_gguf_u64(kv, 0, &stated) && stated == 0)) || (!kv && pattern)))
        st = size_key(gi, "attention.sliding_window", 0, DOP_MAX_CTX, gi->family->window, &window);
    for (uint32_t i = 0; st == DOP_OK && i < a->n_layers; i++)
        a->layers[i].mixers[0].attn.window = slides[i] ? window : 0;
    return st;
}

/* Frequency divisors kept as a tensor of dims/2 floats. */
static dop_status
read_factors(dop_gi *gi, const char *name, uint32_t n, const double **out)
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
        return DOP_FAIL(gi->diag, DOP_E_NOMEM, "out of host memory");
    for (uint32_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, part->map.data + t->offset + 4ull * i, 4);
        if (!(f > 1e-6f && f < 1e6f))
            return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, part->path, "tensor %s: value %u is %g, expected above 0", name,
                               i, (double)f);
        list[i] = (double)f;
    }
    *out = list;
    return DOP_OK;
}

static dop_status
read_scaling(dop_gi *gi, dop_rope *r)
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
    const dop_gguf_kv *kv = find(gi, "rope.scaling.type", full, sizeof full);
    if (kv && !dop_gguf_string(kv, &type))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not a string", full);
    dop_status st = number_key(gi, "rope.scale_linear", 0, 1e6, 0, &factor); /* older files */
    if (st == DOP_OK)
        st = number_key(gi, "rope.scaling.factor", 0, 1e6, factor, &factor);
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
    dop_status st = read_factors(gi, "rope_factors_short.weight", r->dims / 2, &r->short_factors);
    if (st == DOP_OK)
        st = read_factors(gi, "rope_factors_long.weight", r->dims / 2, &r->long_factors);
    if (st != DOP_OK || !r->short_factors || !r->long_factors)
        return st;
    /* The file states the factor on cosines and sines; without it there is none. */
    r->scaling = DOP_ROPE_LONGROPE;
    r->n_factors = r->dims / 2;
    return number_key(gi, "rope.scaling.attn_factor", 1e-3, 1e3, 1, &r->attention_factor);
}

static dop_status
read_rope(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    dop_rope *r = &a->ropes[0];
    *r = (dop_rope){.interleaved = gi->family->gguf_interleaved, .truncate = true};
    dop_status st = number_key(gi, "rope.freq_base", 1e-3, 1e12, gi->family->theta, &r->theta);
    if (st == DOP_OK)
        st = size_key(gi, "rope.dimension_count", 0, DOP_MAX_HEAD_DIM, a->layers[0].mixers[0].attn.head_dim, &r->dims);
    if (st == DOP_OK)
        st = read_scaling(gi, r);
    if (st == DOP_OK)
        st = size_key(gi, "rope.scaling.original_context_length", 0, DOP_MAX_CTX, a->ctx_train, &r->original_ctx);
    if (st == DOP_OK)
        st = number_key(gi, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32, &r->beta_fast);
    if (st == DOP_OK)
        st = number_key(gi, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1, &r->beta_slow);
    if (st == DOP_OK && r->dims % 2 != 0)
        st = DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s.rope.dimension_count is %u, expected an even number",
                         gi->family->gguf, r->dims);
    if (st == DOP_OK)
        st = read_longrope(gi, r);
    if (st == DOP_OK && r->scaling == DOP_ROPE_LONGROPE && !r->n_factors)
        st = DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                         "longrope needs the tensors rope_factors_short.weight and rope_factors_long.weight");
    if (st == DOP_OK && !r->n_factors) { /* Llama 3: the scaled frequencies as divisors */
        st = read_factors(gi, "rope_freqs.weight", r->dims / 2, &r->short_factors);
        r->n_factors = r->short_factors ? r->dims / 2 : 0;
    }
    a->n_ropes = 1;
    return st;
}

/* Gemma 3: sliding layers rotate with their own base and without scaling. */
static dop_status
read_local_rope(dop_gi *gi, const bool *slides)
{
    dop_arch *a = &gi->model->arch;
    if (!(gi->family->flags & DOP_FAM_LOCAL_ROPE))
        return DOP_OK;
    a->ropes[1] = (dop_rope){.interleaved = a->ropes[0].interleaved, .dims = a->ropes[0].dims, .factor = 1};
    a->n_ropes = 2;
    for (uint32_t i = 0; i < a->n_layers; i++)
        a->layers[i].mixers[0].attn.rope = slides[i] ? 1 : 0;
    return number_key(gi, "rope.freq_base_swa", 1e-3, 1e12, 1e4, &a->ropes[1].theta);
}

/* ---- scalars ------------------------------------------------------------------------------------------------------ */

static dop_status
read_scalars(dop_gi *gi)
{
    const dop_family *f = gi->family;
    dop_arch *a = &gi->model->arch;
    const bool ln = f->flags & DOP_FAM_LAYER_NORM,
               gemma2 = f->flags & DOP_FAM_SOFTCAPS && !(f->flags & DOP_FAM_QK_NORM);
    double eps = 0;
    dop_status st =
        number_key(gi, ln ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 0, 1, -1, &eps);
    if (st == DOP_OK && eps < 0)
        st = DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s.attention.layer_norm_%sepsilon is missing", f->gguf,
                         ln ? "" : "rms_");
    dop_set_norms(a, &gi->layer, eps, 0);
    dop_act_by_name(f->act, &gi->layer.ffn.act);
    /* llama.cpp scales embeddings in f32, so that is what its files mean. */
    if (f->flags & DOP_FAM_EMBED_SQRT)
        a->embed_scale = (double)sqrtf((float)a->hidden);
    if (st == DOP_OK && (f->flags & DOP_FAM_SOFTCAPS))
        st = number_key(gi, "attn_logit_softcapping", 0, 1e6, gemma2 ? 50 : 0, &gi->layer.mixers[0].attn.softcap);
    if (st == DOP_OK && (f->flags & DOP_FAM_SOFTCAPS))
        st = number_key(gi, "final_logit_softcapping", 0, 1e6, gemma2 ? 30 : 0, &a->logit_softcap);
    return st;
}

/* ---- text --------------------------------------------------------------------------------------------------------- */

static void
add_end_id(dop_arch *a, uint64_t id)
{
    for (uint32_t i = 0; i < a->n_end_ids; i++)
        if (a->end_ids[i] == (int64_t)id)
            return;
    if (id < a->vocab && a->n_end_ids < DOP_MAX_END_IDS)
        a->end_ids[a->n_end_ids++] = (int64_t)id;
}

/* Tokens that end a turn, whatever the keys say: chat models stop at these, and many files only name the end of text. */
static void
add_named_end_ids(const dop_gguf *g, dop_arch *a)
{
    static const char *const ends[] = {"<|eot_id|>",    "<|im_end|>", "<|end|>", "<end_of_turn>",
                                       "<|endoftext|>", "<|eom_id|>", "<EOT>"};
    enum { control = 3 };
    const dop_gguf_kv *tokens = dop_gguf_find(g, "tokenizer.ggml.tokens");
    const dop_gguf_kv *types = dop_gguf_find(g, "tokenizer.ggml.token_type");
    dop_gguf_str s;
    uint64_t at = 0, type = 0;
    for (uint64_t id = 0; dop_gguf_next_string(tokens, &at, &s); id++)
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
            if (s.len == strlen(ends[k]) && memcmp(s.data, ends[k], (size_t)s.len) == 0 &&
                dop_gguf_u64(types, id, &type) && type == control)
                add_end_id(a, id);
}

static dop_status
read_text(dop_gi *gi)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    const dop_gguf *g = &gi->parts[0];
    dop_checkpoint *m = gi->model;
    uint64_t id = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const dop_gguf_kv *kv = dop_gguf_find(g, ends[i]);
        if (kv && !dop_gguf_u64(kv, 0, &id))
            return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not a token id", ends[i]);
        if (kv)
            add_end_id(&m->arch, id);
    }
    add_named_end_ids(g, &m->arch);
    const dop_gguf_kv *bos = dop_gguf_find(g, "tokenizer.ggml.bos_token_id");
    if (bos && !dop_gguf_u64(bos, 0, &id))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "tokenizer.ggml.bos_token_id is not a token id");
    m->arch.bos_id = bos && id < m->arch.vocab ? (int64_t)id : -1;
    dop_gguf_str text;
    if (dop_gguf_string(dop_gguf_find(g, "tokenizer.chat_template"), &text))
        m->chat_template =
            dop_arena_printf(m->arena, "%.*s", (int)(text.len < 1 << 20 ? text.len : 1 << 20), text.data);
    if (dop_gguf_string(dop_gguf_find(g, "general.name"), &text) && text.len < 1000)
        m->name = dop_arena_printf(m->arena, "%.*s", (int)text.len, text.data);
    if (dop_gguf_find(g, "tokenizer.ggml.tokens"))
        m->tokenizer_gguf_path = dop_arena_strdup(m->arena, gi->path);
    return DOP_OK;
}

dop_status
dop_gi_config(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    dop_arch_defaults(a, &gi->layer);
    dop_family_facts(gi->family, a, &gi->layer);
    snprintf(a->family, sizeof a->family, "%s", gi->family->name);
    find_biases(gi);
    dop_status st = read_sizes(gi);
    if (st == DOP_OK)
        st = read_scalars(gi);
    if (st == DOP_OK)
        st = read_layers(gi);
    if (st != DOP_OK)
        return st;
    bool *slides = dop_arena_alloc(gi->model->arena, a->n_layers * sizeof *slides);
    if (!slides)
        return DOP_FAIL(gi->diag, DOP_E_NOMEM, "out of host memory");
    st = read_windows(gi, slides);
    if (st == DOP_OK && !a->learned_positions)
        st = read_rope(gi);
    if (st == DOP_OK)
        st = read_local_rope(gi, slides);
    return st == DOP_OK ? read_text(gi) : st;
}
