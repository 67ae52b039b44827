/* A random LoRA adapter for a Hugging Face directory, as peft saves it, and the directory with the adapter merged by hand: the matrices
 * that change are f32 there.  It shares nothing with the reader of adapters, so that a mistake on one side shows. */
#ifndef DOPPLER_TESTS_TOOLS_MAKE_ADAPTER_H
#define DOPPLER_TESTS_TOOLS_MAKE_ADAPTER_H

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"

typedef struct adapter_way {
    uint32_t rank, seed;
    double alpha;
    bool stabilized, dora; /* use_rslora, use_dora */
    bool patterns;         /* half of the modules have another rank and alpha by pattern */
    const char *only;      /* a word that names of changed tensors have; NULL: any */
    const char * not ;     /* a word that they do not have; NULL: none */
    double size;           /* of the values of A and B; 0: 0.1 */
} adapter_way;

/* xorshift; the values of a seed never change */
static inline double
adapter_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) / (double)(1ull << 53) * 2 - 1;
}

/* Does a linear layer have a matrix of this name? */
static inline bool
adapter_changes(const char *name, const adapter_way *way)
{
    static const char *const ends[] = {"q_proj",
                                       "kv_b_proj",
                                       "k_proj",
                                       "v_proj",
                                       "o_proj",
                                       "gate_proj",
                                       "up_proj",
                                       "down_proj",
                                       "qkv_proj",
                                       "gate_up_proj",
                                       "c_attn",
                                       "c_proj",
                                       "c_fc",
                                       "fc1",
                                       "fc2",
                                       "fc_in",
                                       "fc_out",
                                       "out_proj",
                                       "in_proj",
                                       "query_key_value",
                                       "dense_h_to_4h",
                                       "dense_4h_to_h",
                                       "attention.dense",
                                       "self_attention.dense",
                                       "q_a_proj",
                                       "Wqkv",
                                       "in_proj_qkvz"};
    const size_t n = strlen(name);
    if (n < 8 || strcmp(name + n - 7, ".weight") != 0 || (way->only && !strstr(name, way->only)) ||
        (way->not &&strstr(name, way->not )))
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t len = strlen(ends[i]);
        if (n - 7 > len && memcmp(name + n - 7 - len, ends[i], len) == 0 && name[n - 8 - len] == '.')
            return true;
    }
    return false;
}

typedef struct adapter_tensors { /* a safetensors file that is made */
    json_t *header;
    dop_buf data;
} adapter_tensors;

static inline void
adapter_put(adapter_tensors *t, const char *name, const char *dtype, const json_t *shape, const void *bytes, size_t n)
{
    json_t *e = json_pack("{s:s, s:O, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets",
                          (json_int_t)t->data.size, (json_int_t)(t->data.size + n));
    json_object_set_new(t->header, name, e);
    dop_buf_append(&t->data, bytes, n);
}

static inline bool
adapter_save(adapter_tensors *t, const char *path)
{
    char *text = json_dumps(t->header, JSON_COMPACT);
    dop_buf b = {0};
    const uint64_t n = strlen(text);
    dop_buf_append(&b, &n, sizeof n);
    dop_buf_append(&b, text, n);
    dop_buf_append(&b, t->data.data, t->data.size);
    const bool ok = !b.failed && dop_write_file(path, b.data, b.size, NULL) == DOP_OK;
    free(text);
    dop_buf_finish(&b);
    dop_buf_finish(&t->data);
    json_decref(t->header);
    return ok;
}

static inline void
adapter_values(const char *dtype, const uint8_t *p, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        if (dtype[0] == 'F' && dtype[1] == '3') {
            memcpy(&out[i], p + 4 * i, 4);
            continue;
        }
        memcpy(&h, p + 2 * i, 2);
        out[i] = dtype[0] == 'B' ? dop_bf16_to_f32(h) : dop_f16_to_f32(h);
    }
}

/* Makes A and B of one tensor, w [outs, ins] or, where it lies on its side, [ins, outs], and changes w. */
static inline void
adapter_change(const char *name, float *w, size_t outs, size_t ins, bool side, const adapter_way *way, uint32_t rank,
               double alpha, uint64_t *state, adapter_tensors *made)
{
    const double scale = alpha / (way->stabilized ? sqrt(rank) : rank), size = way->size > 0 ? way->size : 0.1;
    float *a = malloc(rank * ins * sizeof *a), *b = malloc(outs * rank * sizeof *b), *m = malloc(outs * sizeof *m);
    char full[400];
    const int len = (int)strlen(name) - 7;
    for (size_t i = 0; i < rank * ins; i++)
        a[i] = (float)(size * adapter_random(state));
    for (size_t i = 0; i < outs * rank; i++)
        b[i] = (float)(size * adapter_random(state));
    for (size_t o = 0; o < outs; o++) {
        double square = 0;
        for (size_t k = 0; k < ins; k++) {
            float *x = &w[side ? k * outs + o : o * ins + k];
            double sum = 0;
            for (size_t r = 0; r < rank; r++)
                sum += (double)b[o * rank + r] * (double)a[r * ins + k];
            *x = (float)((double)*x + scale * sum);
            square += (double)*x * (double)*x;
        }
        m[o] = (float)(sqrt(square) * (1 + 0.2 * adapter_random(state)));
        for (size_t k = 0; way->dora && k < ins; k++)
            w[side ? k * outs + o : o * ins + k] *= (float)((double)m[o] / sqrt(square));
    }
    json_t *sa = json_pack("[I, I]", (json_int_t)rank, (json_int_t)ins),
           *sb = json_pack("[I, I]", (json_int_t)outs, (json_int_t)rank), *sm = json_pack("[I]", (json_int_t)outs);
    snprintf(full, sizeof full, "base_model.model.%.*s.lora_A.weight", len, name);
    adapter_put(made, full, "F32", sa, a, rank * ins * sizeof *a);
    snprintf(full, sizeof full, "base_model.model.%.*s.lora_B.weight", len, name);
    adapter_put(made, full, "F32", sb, b, outs * rank * sizeof *b);
    snprintf(full, sizeof full, "base_model.model.%.*s.lora_magnitude_vector", len, name);
    if (way->dora)
        adapter_put(made, full, "F32", sm, m, outs * sizeof *m);
    json_decref(sa);
    json_decref(sb);
    json_decref(sm);
    free(a);
    free(b);
    free(m);
}

/* Makes DIR/adapter_config.json, DIR/adapter_model.safetensors and, with `merged`, DIR/merged/ with config.json and
 * model.safetensors.  Returns the number of tensors that change; 0: failed. */
static inline uint32_t
make_adapter(const char *model, const char *dir, const adapter_way *way, bool merged)
{
    char path[600], to[640];
    dop_map map, config;
    uint32_t n = 0;
    uint64_t state = 88172645463325252ull + way->seed * 0x9e3779b97f4a7c15ull;
    adapter_tensors made = {.header = json_object()}, all = {.header = json_object()};
    json_t *ranks = json_object(), *alphas = json_object();
    mkdir(dir, 0777);
    snprintf(path, sizeof path, "%s/config.json", model);
    if (dop_map_open(path, NULL, &config) != DOP_OK)
        return 0;
    json_t *facts = json_loadb((const char *)config.data, (size_t)config.size, 0, NULL);
    const char *type = json_string_value(json_object_get(facts, "model_type"));
    const bool sides = type && strcmp(type, "gpt2") == 0;
    snprintf(path, sizeof path, "%s/model.safetensors", model);
    if (dop_map_open(path, NULL, &map) != DOP_OK)
        return 0;
    uint64_t head = 0;
    memcpy(&head, map.data, 8);
    json_t *root = json_loadb((const char *)map.data + 8, (size_t)head, 0, NULL), *e;
    const char *name;
    json_object_foreach(root, name, e)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        const json_t *shape = json_object_get(e, "shape"), *at = json_object_get(e, "data_offsets");
        const char *dtype = json_string_value(json_object_get(e, "dtype"));
        const size_t from = (size_t)json_integer_value(json_array_get(at, 0)),
                     bytes = (size_t)json_integer_value(json_array_get(at, 1)) - from;
        const uint8_t *data = map.data + 8 + head + from;
        if (json_array_size(shape) != 2 || !adapter_changes(name, way)) {
            adapter_put(&all, name, dtype, shape, data, bytes);
            continue;
        }
        const size_t rows = (size_t)json_integer_value(json_array_get(shape, 0)),
                     cols = (size_t)json_integer_value(json_array_get(shape, 1));
        float *w = malloc(rows * cols * sizeof *w);
        const bool other = way->patterns && n % 2;
        const uint32_t rank = other ? way->rank + 1 : way->rank;
        const double alpha = other ? way->alpha * 2 : way->alpha;
        char module[400];
        snprintf(module, sizeof module, "%.*s", (int)strlen(name) - 7, name);
        if (other && n % 4 == 1) { /* names, and expressions */
            json_object_set_new(ranks, module, json_integer(rank));
            json_object_set_new(alphas, module, json_real(alpha));
        } else if (other) {
            char *dot = strrchr(module, '.'), pattern[440];
            *dot = 0;
            snprintf(pattern, sizeof pattern, "^(?:%s)\\.%s", module, dot + 1);
            json_object_set_new(ranks, pattern, json_integer(rank));
            json_object_set_new(alphas, pattern, json_real(alpha));
        }
        adapter_values(dtype, data, rows * cols, w);
        adapter_change(name, w, sides ? cols : rows, sides ? rows : cols, sides, way, rank, alpha, &state, &made);
        adapter_put(&all, name, "F32", shape, w, rows * cols * sizeof *w);
        free(w);
        n++;
    }
    json_t *own = json_pack("{s:s, s:i, s:f, s:b, s:b, s:s, s:O, s:O, s:s}", "peft_type", "LORA", "r", (int)way->rank,
                            "lora_alpha", way->alpha, "use_rslora", way->stabilized, "use_dora", way->dora, "bias",
                            "none", "rank_pattern", ranks, "alpha_pattern", alphas, "base_model_name_or_path", "base");
    snprintf(path, sizeof path, "%s/adapter_config.json", dir);
    bool ok = json_dump_file(own, path, JSON_INDENT(1)) == 0;
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
    ok = adapter_save(&made, path) && ok;
    if (merged) {
        snprintf(path, sizeof path, "%s/merged", dir);
        mkdir(path, 0777);
        snprintf(to, sizeof to, "%s/config.json", path);
        ok = dop_write_file(to, config.data, (size_t)config.size, NULL) == DOP_OK && ok;
        snprintf(to, sizeof to, "%s/model.safetensors", path);
        ok = adapter_save(&all, to) && ok;
    } else {
        dop_buf_finish(&all.data);
        json_decref(all.header);
    }
    json_decref(own);
    json_decref(ranks);
    json_decref(alphas);
    json_decref(root);
    json_decref(facts);
    dop_map_close(&map);
    dop_map_close(&config);
    return ok ? n : 0;
}

#endif
