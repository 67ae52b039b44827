/* The steps of llama.cpp's converter by the tables of hf_to_gguf_rules.c. */
#include "tests/unit/hf_to_gguf.h"

#include "base/words.h"
#include "tests/unit/hf_to_gguf_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void
hg_reorder(float *v, const uint64_t *from, uint64_t rows, uint64_t cols)
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
    hg_reorder(v, from, rows, cols);
    free(from);
}

/* `share` queries, k and v of the first head of keys, then of the second, ...: all q first, then all k, all v. */
static void
split_heads(const hg_model *m, float *v, uint64_t rows, uint64_t cols, uint64_t share)
{
    uint64_t *from = malloc(rows * sizeof *from);
    const uint64_t d = m->head_dim, groups = rows / ((share + 2) * d), q = groups * share * d;
    for (uint64_t r = 0; r < rows; r++) {
        const uint64_t head = (r < q ? r : (r - q) % (groups * d)) / d;
        const uint64_t group = r < q ? head / share : head;
        const uint64_t place = r < q ? head % share : share + (r - q) / (groups * d);
        from[r] = (group * (share + 2) + place) * d + r % d;
    }
    hg_reorder(v, from, rows, cols);
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

/* Falcon-H1 multiplies what its other families have as it is; the file has the products. */
static void
scale_falcon(const hg_model *m, const char *gguf, hg_tensor *t, float *v)
{
    const json_t *mlp = json_object_get(m->config, "mlp_multipliers");
    const double in = hg_number(m, "attention_in_multiplier", 1);
    const struct {
        const char *name;
        double by;
    } scales[] = {
        {"attn_q", in},
        {"attn_k", in * hg_number(m, "key_multiplier", 1)},
        {"attn_v", in},
        {"attn_output", hg_number(m, "attention_out_multiplier", 1)},
        {"ssm_out", hg_number(m, "ssm_out_multiplier", 1)},
        {"ffn_gate", json_number_value(json_array_get(mlp, 0))},
        {"ffn_down", json_number_value(json_array_get(mlp, 1))},
        {"token_embd", hg_number(m, "embedding_multiplier", 1)},
        {"output", hg_number(m, "lm_head_multiplier", 1)},
    };
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++)
        for (uint64_t i = 0; strcmp(scales[k].name, gguf) == 0 && i < t->count; i++)
            v[i] *= (float)scales[k].by;
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
        split_heads(m, v, t->shape[0], cols, 1);
    if (rule->how == HG_BEHIND_2) { /* rows of positions of texts begin behind two others */
        t->shape[0] -= 2;
        t->count -= 2 * t->shape[1];
        memmove(v, v + 2 * t->shape[1], t->count * sizeof *v);
    }
    if (rule->how == HG_QKV_BY_GROUP)
        split_heads(m, v, t->shape[0], cols, m->heads / m->kv_heads);
    if (rule->how == HG_TRANSPOSED && t->rank == 2)
        transpose(v, t->shape);
    if (m->family->flags & HG_MULTIPLIED) {
        scale_falcon(m, rule->gguf, t, v);
        t->dtype = "F32"; /* no other type holds the products */
    }
}

/* Vectors, routers and taps are always f32; matrices stay what they are. */
static bool
always_f32(const char *name)
{
    static const char *const parts[] = {"ffn_gate_inp", "ssm_conv1d",         "shortconv.conv.",   "_norm",
                                        ".bias",        "altup_correct_coef", "altup_predict_coef"};
    static const char *const bare[] = {".ssm_a", ".ssm_d"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i]))
            return true;
    const char *dot = strrchr(name, '.');
    return dot && (strcmp(dot, bare[0]) == 0 || strcmp(dot, bare[1]) == 0);
}

void
hg_write(hg_model *m, const char *name, const hg_tensor *t, const float *v)
{
    const uint64_t one = 1;
    const uint32_t type = t->rank < 2 || m->f32 || always_f32(name) ? GGUF_F32
                          : strcmp(t->dtype, "BF16") == 0           ? GGUF_BF16
                          : strcmp(t->dtype, "F16") == 0            ? GGUF_F16
                                                                    : GGUF_F32;
    gguf_tensor(m->w, name, type, t->rank ? t->rank : 1, t->rank ? t->shape : &one, v);
}

/* "model.layers.3.mlp.up_proj.weight": layer 3, "*.mlp.up_proj", ".weight"; "model.norm.weight": layer -1, "norm". */
static void
split_name(const char *name, long *layer, char *stem, size_t size, const char **ending)
{
    static const char *const prefixes[] = {"model.",      "language_model.", "transformer.", "gpt_neox.", "backbone.",
                                           "text_model.", "model.",          "roberta.",     "bert.",     "encoder."};
    static const char *const layers[] = {"layers.", "h.", "blocks.", "layer.", "block."};
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
    for (char *number = strchr(stem, '.'); number; number = strchr(number + 1, '.')) {
        const size_t digits = strspn(number + 1, "0123456789");
        if (digits == 0 || (number[1 + digits] != '.' && number[1 + digits] != 0))
            continue;
        number[1] = '*'; /* the number of an expert, or of another of several, becomes a star too */
        memmove(number + 2, number + 1 + digits, strlen(number + 1 + digits) + 1);
        return;
    }
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

/* The name of a tensor of Qwen's or Nemotron-H's layer for multi-token prediction as it would be behind the model's layers; other names as
 * they are. */
static void
name_of_draft(const hg_model *m, const char *name, char *out, size_t size)
{
    static const char *const names[][2] = {{"mtp.fc.", "eh_proj."},
                                           {"mtp.pre_fc_norm_embedding.", "enorm."},
                                           {"mtp.pre_fc_norm_hidden.", "hnorm."},
                                           {"mtp.norm.", "shared_head.norm."},
                                           {"mtp.layers.0.", ""},
                                           {"mtp.layers.1.", ""},
                                           {"mtp.layers.1.norm.", "post_attention_layernorm."},
                                           {"mtp.layers.1.final_layernorm.", "shared_head.norm."}};
    snprintf(out, size, "%s", name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i][0], strlen(names[i][0])) == 0)
            snprintf(out, size, "model.layers.%u.%s%s", m->layers, names[i][1], name + strlen(names[i][0]));
}

static bool
convert_tensor(hg_model *m, const char *name)
{
    char stem[160], full[200] = "", renamed[200];
    const char *ending;
    long layer;
    hg_tensor t;
    if (hg_is_of_tower(name) || strncmp(name, "model.vision_", strlen("model.vision_")) == 0)
        return true;
    name_of_draft(m, name, renamed, sizeof renamed);
    hg_rename_t5(renamed, sizeof renamed);
    split_name(renamed, &layer, stem, sizeof stem, &ending);
    const hg_rule *rule = find_rule(m->family, stem);
    if (!rule)
        return fail(m, "no rule for tensor", name);
    if (rule->how == HG_DROPPED)
        return true;
    if (!hg_find(m, name, &t))
        return fail(m, "cannot read tensor", name);
    const char *prefix = strcmp(m->w->arch, "t5encoder") == 0 ? "enc." : "";
    const int n = layer >= 0 ? snprintf(full, sizeof full, "%sblk.%ld.", prefix, layer) : 0;
    const bool whole = rule->how == HG_WHOLE_NAME || rule->how >= HG_EXPERTS;
    snprintf(full + n, sizeof full - (size_t)n, "%s%s", rule->gguf, whole ? "" : ending);
    if (rule->how >= HG_EXPERTS)
        return hg_split(m, rule, name, full, ending) || fail(m, "cannot convert tensor", name);
    float *v = hg_values(&t);
    if (!v)
        return fail(m, "out of memory for tensor", name);
    change(m, rule, strcmp(ending, ".weight") == 0, &t, v);
    hg_write(m, full, &t, v);
    free(v);
    return true;
}

/* ---- the model ---------------------------------------------------------------------------------------------------- */

bool
hg_open(hg_model *m, const char *dir)
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
    for (const hg_family *f = hg_families; type && f->model_type; f++)
        if (dop_has_word(f->model_type, type))
            m->family = f;
    return m->family ? true : fail(m, "no rules for model_type", type ? type : "(none)");
}

void
hg_close(hg_model *m)
{
    json_decref(m->root);
    json_decref(m->header);
    dop_map_close(&m->map);
}

bool
hf_to_gguf(const char *dir, bool f32, gguf_writer *w, char *error, size_t size)
{
    hg_model m = {.dir = dir, .w = w, .f32 = f32, .error = error, .error_size = size};
    const char *name;
    json_t *entry;
    bool ok = hg_open(&m, dir);
    if (ok) {
        const char *slash = strrchr(dir, '/');
        bool experts = false; /* NemotronH's have another architecture */
        const json_t *types = hg_field(&m, "layers_block_type");
        for (size_t i = 0; i < json_array_size(types); i++)
            experts = experts || strcmp(json_string_value(json_array_get(types, i)), "moe") == 0;
        const bool both = json_is_true(hg_field(&m, "use_bidirectional_attention")); /* EmbeddingGemma */
        snprintf(w->arch, sizeof w->arch, "%s%s", both ? "gemma-embedding" : m.family->arch, experts ? "_moe" : "");
        gguf_str(w, "general.architecture", w->arch);
        gguf_str(w, "general.name", slash ? slash + 1 : dir);
        hg_metadata(&m);
        json_object_foreach(m.header, name, entry) ok = ok && convert_tensor(&m, name);
        hg_extra_tensors(&m);
    }
    hg_close(&m);
    if (!ok)
        gguf_finish(w);
    return ok;
}
