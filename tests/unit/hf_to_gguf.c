/* The rules of llama.cpp's converter for the families that the tests have, as tables: which name a tensor takes and what is
 * done to its values.  Facts: conversion/ and gguf-py/gguf/{constants,tensor_mapping}.py of its repository. */
#include "tests/unit/hf_to_gguf.h"
#include "tests/unit/hf_to_gguf_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names -------------------------------------------------------------------------------------------------------- */

/* Without endings; the first list that has a name decides. */
static const hg_rule common[] = {
    {"embed_tokens", "token_embd", HG_PLAIN},
    {"norm", "output_norm", HG_NORM},
    {"lm_head", "output", HG_PLAIN},
    {"*.input_layernorm", "attn_norm", HG_NORM},
    {"*.self_attn.q_proj", "attn_q", HG_Q},
    {"*.self_attn.k_proj", "attn_k", HG_K},
    {"*.self_attn.v_proj", "attn_v", HG_PLAIN},
    {"*.self_attn.o_proj", "attn_output", HG_PLAIN},
    {"*.self_attn.q_norm", "attn_q_norm", HG_NORM},
    {"*.self_attn.k_norm", "attn_k_norm", HG_NORM},
    {"*.post_attention_layernorm", "ffn_norm", HG_NORM},
    {"*.mlp.gate_proj", "ffn_gate", HG_PLAIN},
    {"*.mlp.up_proj", "ffn_up", HG_PLAIN},
    {"*.mlp.down_proj", "ffn_down", HG_PLAIN},
    {0},
};
static const hg_rule sandwich[] = {
    {"*.post_attention_layernorm", "post_attention_norm", HG_NORM},
    {"*.pre_feedforward_layernorm", "ffn_norm", HG_NORM},
    {"*.post_feedforward_layernorm", "post_ffw_norm", HG_NORM},
    {"*.layer_scalar", "layer_output_scale.weight", HG_WHOLE_NAME},
    {0},
};
static const hg_rule phi3[] = {
    {"*.self_attn.qkv_proj", "attn_qkv", HG_PLAIN},
    {"*.mlp.gate_up_proj", "ffn_up", HG_PLAIN},
    {0},
};
static const hg_rule gpt2[] = {
    {"wte", "token_embd", HG_PLAIN},
    {"wpe", "position_embd", HG_PLAIN},
    {"ln_f", "output_norm", HG_PLAIN},
    {"*.ln_1", "attn_norm", HG_PLAIN},
    {"*.ln_2", "ffn_norm", HG_PLAIN},
    {"*.attn.c_attn", "attn_qkv", HG_TRANSPOSED},
    {"*.attn.c_proj", "attn_output", HG_TRANSPOSED},
    {"*.mlp.c_fc", "ffn_up", HG_TRANSPOSED},
    {"*.mlp.c_proj", "ffn_down", HG_TRANSPOSED},
    {0},
};
static const hg_rule seed_oss[] = {
    {"*.post_attention_layernorm", "post_attention_norm", HG_PLAIN},
    {0},
};
static const hg_rule starcoder2[] = {
    {"*.mlp.c_fc", "ffn_up", HG_PLAIN},
    {"*.mlp.c_proj", "ffn_down", HG_PLAIN},
    {0},
};
static const hg_rule glm4[] = {
    {"*.post_self_attn_layernorm", "post_attention_norm", HG_PLAIN},
    {"*.post_mlp_layernorm", "post_ffw_norm", HG_PLAIN},
    {"*.mlp.gate_up_proj", "ffn_up", HG_PLAIN},
    {0},
};
static const hg_rule gpt_neox[] = {
    {"embed_in", "token_embd", HG_PLAIN},           {"embed_out", "output", HG_PLAIN},
    {"final_layer_norm", "output_norm", HG_PLAIN},  {"*.attention.query_key_value", "attn_qkv", HG_QKV_BY_HEAD},
    {"*.attention.dense", "attn_output", HG_PLAIN}, {"*.mlp.dense_h_to_4h", "ffn_up", HG_PLAIN},
    {"*.mlp.dense_4h_to_h", "ffn_down", HG_PLAIN},  {0},
};
static const hg_rule apertus[] = {
    {"*.attention_layernorm", "attn_norm", HG_PLAIN},
    {"*.feedforward_layernorm", "ffn_norm", HG_PLAIN},
    {"*.mlp.act_fn.alpha_p", NULL, HG_DROPPED},
    {"*.mlp.act_fn.alpha_n", NULL, HG_DROPPED},
    {"*.mlp.act_fn.beta", NULL, HG_DROPPED},
    {"*.mlp.act_fn.eps", NULL, HG_DROPPED},
    {0},
};

/* ---- families ----------------------------------------------------------------------------------------------------- */

static const hg_family families[] = {
    {"llama", "llama", {common}, HG_PERMUTE, NULL},
    {"mistral", "llama", {common}, HG_PERMUTE, hg_window},
    {"qwen2", "qwen2", {common}, 0, NULL},
    {"qwen3", "qwen3", {common}, 0, NULL},
    {"gemma", "gemma", {common}, HG_ADD_1, NULL},
    {"gemma2", "gemma2", {sandwich, common}, HG_ADD_1, hg_gemma},
    {"gemma3_text", "gemma3", {sandwich, common}, HG_ADD_1, hg_gemma},
    {"gemma4_text", "gemma4", {sandwich, common}, 0, hg_gemma4},
    {"phi3", "phi3", {phi3, common}, 0, hg_window},
    {"gpt2", "gpt2", {gpt2, common}, 0, NULL},
    {"granite", "granite", {common}, HG_PERMUTE, hg_granite},
    {"olmo2", "olmo2", {sandwich, common}, 0, NULL},
    {"smollm3", "smollm3", {common}, HG_PERMUTE, NULL},
    {"arcee", "arcee", {common}, HG_PERMUTE, NULL},
    {"seed_oss", "seed_oss", {seed_oss, common}, 0, NULL},
    {"ernie4_5", "ernie4_5", {common}, 0, NULL},
    {"starcoder2", "starcoder2", {starcoder2, common}, 0, NULL},
    {"stablelm", "stablelm", {common}, 0, hg_parallel},
    {"exaone4", "exaone4", {sandwich, common}, 0, hg_window_flags},
    {"glm4", "glm4", {glm4, common}, 0, NULL},
    {"gpt_neox", "gptneox", {gpt_neox, common}, 0, hg_parallel},
    {"cohere2", "cohere2", {common}, 0, hg_cohere2},
    {"nemotron", "nemotron", {common}, HG_ADD_1, NULL},
    {"apertus", "apertus", {apertus, common}, 0, hg_apertus},
};

/* ---- tensors ------------------------------------------------------------------------------------------------------ */

static bool
fail(hg_model *m, const char *what, const char *name)
{
    snprintf(m->error, m->error_size, "%s: %s", what, name);
    return false;
}

bool
hg_find(const hg_model *m, const char *name, hg_tensor *out)
{
    const json_t *entry = json_object_get(m->header, name), *shape = json_object_get(entry, "shape");
    *out = (hg_tensor){.dtype = json_string_value(json_object_get(entry, "dtype")), .count = 1};
    if (!entry || !out->dtype || json_array_size(shape) > HG_MAX_RANK)
        return false;
    out->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < out->rank; i++) {
        out->shape[i] = (uint64_t)json_integer_value(json_array_get(shape, i));
        out->count *= out->shape[i];
    }
    out->data = m->data + json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
    return true;
}

float *
hg_values(const hg_tensor *t)
{
    float *v = calloc(t->count ? t->count : 1, sizeof *v);
    for (uint64_t i = 0; v && i < t->count; i++) {
        uint16_t h;
        if (strcmp(t->dtype, "F32") == 0) {
            memcpy(&v[i], t->data + 4 * i, 4);
            continue;
        }
        memcpy(&h, t->data + 2 * i, 2);
        v[i] = strcmp(t->dtype, "BF16") == 0 ? dop_bf16_to_f32(h) : dop_f16_to_f32(h);
    }
    return v;
}

/* Rows of `cols` values in another order: the new row r is the old row from[r]. */
static void
reorder(float *v, const uint64_t *from, uint64_t rows, uint64_t cols)
{
    float *old = malloc(rows * cols * sizeof *old);
    memcpy(old, v, rows * cols * sizeof *old);
    for (uint64_t r = 0; r < rows; r++)
        memcpy(v + r * cols, old + from[r] * cols, cols * sizeof *v);
    free(old);
}

/* Heads of rotated halves as heads of pairs: value j of half k becomes value 2j + k. */
static void
permute(const hg_model *m, float *v, uint64_t rows, uint64_t cols)
{
    uint64_t *from = malloc(rows * sizeof *from);
    const uint64_t d = m->head_dim;
    for (uint64_t r = 0; r < rows; r++)
        from[r] = r / d * d + r % 2 * (d / 2) + r % d / 2;
    reorder(v, from, rows, cols);
    free(from);
}

/* q, k and v of the first head, then of the second, ...: all q first, then all k, all v. */
static void
split_heads(const hg_model *m, float *v, uint64_t rows, uint64_t cols)
{
    uint64_t *from = malloc(rows * sizeof *from);
    const uint64_t d = m->head_dim, third = rows / 3;
    for (uint64_t r = 0; r < rows; r++)
        from[r] = (r % third / d * 3 + r / third) * d + r % d;
    reorder(v, from, rows, cols);
    free(from);
}

static void
transpose(float *v, uint64_t *shape)
{
    const uint64_t rows = shape[0], cols = shape[1];
    float *old = malloc(rows * cols * sizeof *old);
    memcpy(old, v, rows * cols * sizeof *old);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < cols; c++)
            v[c * rows + r] = old[r * cols + c];
    shape[0] = cols;
    shape[1] = rows;
    free(old);
}

static void
change(const hg_model *m, const hg_rule *rule, bool weight, hg_tensor *t, float *v)
{
    const uint64_t cols = t->rank > 1 ? t->count / t->shape[0] : 1;
    if (rule->how == HG_NORM && weight && m->family->flags & HG_ADD_1)
        for (uint64_t i = 0; i < t->count; i++)
            v[i] += 1;
    if ((rule->how == HG_Q || rule->how == HG_K) && m->family->flags & HG_PERMUTE)
        permute(m, v, t->shape[0], cols);
    if (rule->how == HG_QKV_BY_HEAD)
        split_heads(m, v, t->shape[0], cols);
    if (rule->how == HG_TRANSPOSED && t->rank == 2)
        transpose(v, t->shape);
}

/* Vectors are always f32; matrices stay what they are. */
void
hg_write(hg_model *m, const char *name, const hg_tensor *t, const float *v)
{
    const uint64_t one = 1;
    const uint32_t type = t->rank < 2                     ? GGUF_F32
                          : strcmp(t->dtype, "BF16") == 0 ? GGUF_BF16
                          : strcmp(t->dtype, "F16") == 0  ? GGUF_F16
                                                          : GGUF_F32;
    gguf_tensor(m->w, name, type, t->rank ? t->rank : 1, t->rank ? t->shape : &one, v);
}

/* "model.layers.3.mlp.up_proj.weight": layer 3, "*.mlp.up_proj", ".weight"; "model.norm.weight": layer -1, "norm". */
static void
split_name(const char *name, long *layer, char *stem, size_t size, const char **ending)
{
    static const char *const prefixes[] = {"model.", "transformer.", "gpt_neox.", "backbone."};
    static const char *const layers[] = {"layers.", "h."};
    char *end;
    *layer = -1;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            name += strlen(prefixes[i]);
    for (size_t i = 0; i < sizeof layers / sizeof *layers && *layer < 0; i++)
        if (strncmp(name, layers[i], strlen(layers[i])) == 0) {
            *layer = strtol(name + strlen(layers[i]), &end, 10);
            name = end;
        }
    const char *dot = strrchr(name, '.');
    *ending = dot && (strcmp(dot, ".weight") == 0 || strcmp(dot, ".bias") == 0) ? dot : "";
    snprintf(stem, size, "%s%.*s", *layer >= 0 ? "*" : "", (int)(strlen(name) - strlen(*ending)), name);
}

static const hg_rule *
find_rule(const hg_family *f, const char *stem)
{
    for (size_t k = 0; k < sizeof f->rules / sizeof *f->rules && f->rules[k]; k++)
        for (const hg_rule *r = f->rules[k]; r->hf; r++)
            if (strcmp(r->hf, stem) == 0)
                return r;
    return NULL;
}

static bool
convert_tensor(hg_model *m, const char *name)
{
    char stem[160], full[200] = "";
    const char *ending;
    long layer;
    hg_tensor t;
    split_name(name, &layer, stem, sizeof stem, &ending);
    const hg_rule *rule = find_rule(m->family, stem);
    if (!rule)
        return fail(m, "no rule for tensor", name);
    if (rule->how == HG_DROPPED)
        return true;
    if (!hg_find(m, name, &t))
        return fail(m, "cannot read tensor", name);
    const int n = layer >= 0 ? snprintf(full, sizeof full, "blk.%ld.", layer) : 0;
    snprintf(full + n, sizeof full - (size_t)n, "%s%s", rule->gguf, rule->how == HG_WHOLE_NAME ? "" : ending);
    float *v = hg_values(&t);
    if (!v)
        return fail(m, "out of memory for tensor", name);
    change(m, rule, strcmp(ending, ".weight") == 0, &t, v);
    hg_write(m, full, &t, v);
    free(v);
    return true;
}

/* ---- the model ---------------------------------------------------------------------------------------------------- */

static bool
open_model(hg_model *m, const char *dir)
{
    char path[1200];
    json_error_t err;
    snprintf(path, sizeof path, "%s/config.json", dir);
    m->root = json_load_file(path, 0, &err);
    if (!m->root)
        return fail(m, "cannot read", path);
    m->config = json_object_get(m->root, "text_config");
    if (!m->config)
        m->config = m->root;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    if (dop_map_open(path, NULL, &m->map) != DOP_OK || m->map.size < 8)
        return fail(m, "cannot read", path);
    uint64_t n;
    memcpy(&n, m->map.data, 8);
    m->header = n <= m->map.size - 8 ? json_loadb((const char *)m->map.data + 8, (size_t)n, 0, &err) : NULL;
    if (!m->header)
        return fail(m, "no header in", path);
    json_object_del(m->header, "__metadata__");
    m->data = m->map.data + 8 + n;
    const char *type = json_string_value(json_object_get(m->config, "model_type"));
    for (size_t i = 0; type && i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].model_type, type) == 0)
            m->family = &families[i];
    return m->family ? true : fail(m, "no rules for model_type", type ? type : "(none)");
}

bool
hf_to_gguf(const char *dir, gguf_writer *w, char *error, size_t size)
{
    hg_model m = {.w = w, .error = error, .error_size = size};
    const char *name;
    json_t *entry;
    bool ok = open_model(&m, dir);
    if (ok) {
        const char *slash = strrchr(dir, '/');
        snprintf(w->arch, sizeof w->arch, "%s", m.family->arch);
        gguf_str(w, "general.architecture", w->arch);
        gguf_str(w, "general.name", slash ? slash + 1 : dir);
        hg_metadata(&m);
        json_object_foreach(m.header, name, entry) ok = ok && convert_tensor(&m, name);
        hg_extra_tensors(&m);
    }
    json_decref(m.root);
    json_decref(m.header);
    dop_map_close(&m.map);
    if (!ok)
        gguf_finish(w);
    return ok;
}
