/* A model with its projections quantized as AWQ and GPTQ checkpoints have them, made of a golden one, and the same with
 * the values that this stands for, in f32.  The integers are a plain rounding with zero points from all over the range:
 * good for comparing the two, not for the text they write. */
#ifndef DOPPLER_TESTS_TOOLS_INT4_MODEL_H
#define DOPPLER_TESTS_TOOLS_INT4_MODEL_H

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"

enum {
    INT4_SYMMETRIC = 1, /* every zero point is 8 */
    INT4_ACT_ORDER = 2  /* GPTQ: the groups come last first */
};

typedef struct int4_kind {
    const char *name; /* awq, gptq, gptq_v2 */
    int group;        /* as in config.json: -1: whole rows */
    unsigned flags;
    unsigned bits; /* GPTQ: 2, 3 or 8; 0: 4 */
} int4_kind;

/* A safetensors file on its way: header and data. */
typedef struct int4_file {
    json_t *header;
    dop_buf data;
} int4_file;

static inline void
int4_add(int4_file *f, const char *name, const char *dtype, size_t rank, const size_t *shape, const void *data,
         size_t size)
{
    json_t *dims = json_array();
    for (size_t i = 0; i < rank; i++)
        json_array_append_new(dims, json_integer((json_int_t)shape[i]));
    json_object_set_new(f->header, name,
                        json_pack("{s:s, s:o, s:[I,I]}", "dtype", dtype, "shape", dims, "data_offsets",
                                  (json_int_t)f->data.size, (json_int_t)(f->data.size + size)));
    dop_buf_append(&f->data, data, size);
}

static inline bool
int4_save(int4_file *f, const char *dir, const json_t *config)
{
    char path[1200];
    dop_buf out = {0};
    char *text = json_dumps(f->header, JSON_COMPACT), *cfg = json_dumps(config, JSON_INDENT(1));
    uint64_t n = strlen(text);
    for (unsigned i = 0; i < 8; i++) {
        uint8_t byte = (uint8_t)(n >> (8 * i));
        dop_buf_append(&out, &byte, 1);
    }
    dop_buf_puts(&out, text);
    dop_buf_append(&out, f->data.data, f->data.size);
    mkdir(dir, 0777);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    bool ok = !out.failed && !f->data.failed && dop_write_file(path, out.data, out.size, NULL) == DOP_OK;
    snprintf(path, sizeof path, "%s/config.json", dir);
    ok = dop_write_file(path, cfg, strlen(cfg), NULL) == DOP_OK && ok;
    free(text);
    free(cfg);
    dop_buf_finish(&out);
    dop_buf_finish(&f->data);
    json_decref(f->header);
    return ok;
}

static inline float
int4_value(const char *dtype, const uint8_t *p, size_t i)
{
    uint16_t h;
    float v;
    if (strcmp(dtype, "F32") == 0) {
        memcpy(&v, p + 4 * i, 4);
        return v;
    }
    memcpy(&h, p + 2 * i, 2);
    return *dtype == 'B' ? dop_bf16_to_f32(h) : dop_f16_to_f32(h);
}

/* One matrix [out, in]: integers, scales and zero points. */
typedef struct int4_matrix {
    size_t in, out, group, groups;
    uint8_t *q;    /* [out, in] */
    uint8_t *zero; /* [groups, out] */
    uint16_t *scale;
    float *values; /* [out, in] */
} int4_matrix;

static inline void
int4_quantize(int4_matrix *m, const char *dtype, const uint8_t *src, bool symmetric, unsigned bits)
{
    for (size_t o = 0; o < m->out; o++)
        for (size_t g = 0; g < m->groups; g++) {
            size_t from = g * m->group, to = from + m->group < m->in ? from + m->group : m->in;
            float most = 0;
            for (size_t i = from; i < to; i++)
                most = fmaxf(most, fabsf(int4_value(dtype, src, o * m->in + i)));
            uint16_t h = dop_f32_to_f16(most / (float)(1 << (bits - 1)));
            float d = dop_f16_to_f32(h);
            const int most_q = (1 << bits) - 1;
            int zero = symmetric ? 1 << (bits - 1) : (int)((5 * g + 3 * o) & (size_t)most_q);
            m->scale[g * m->out + o] = h;
            m->zero[g * m->out + o] = (uint8_t)zero;
            for (size_t i = from; i < to; i++) {
                float v = int4_value(dtype, src, o * m->in + i);
                int q = zero + (int)lrintf(d > 0 ? v / d : 0);
                q = q < 0 ? 0 : q > most_q ? most_q : q;
                m->q[o * m->in + i] = (uint8_t)q;
                m->values[o * m->in + i] = d * (float)(q - zero);
            }
        }
}

/* [rows, cols] of some bits to words along the columns, or along the rows. */
static inline uint32_t *
int4_words(const uint8_t *q, size_t rows, size_t cols, bool along_rows, bool interleaved, unsigned bits)
{
    static const uint8_t place[8] = {0, 4, 1, 5, 2, 6, 3, 7}; /* in a word of eight, where they are not in order */
    uint32_t *words = calloc(rows * cols * bits / 32 + 1, sizeof *words);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            const size_t i = along_rows ? r : c, at = (interleaved ? i / 8 * 8 + place[i % 8] : i) * bits;
            const size_t word = along_rows ? at / 32 * cols + c : r * (cols * bits / 32) + at / 32;
            words[word] |= (uint32_t)q[r * cols + c] << at % 32;
            if (at % 32 + bits > 32)
                words[word + (along_rows ? cols : 1)] |= (uint32_t)q[r * cols + c] >> (32 - at % 32);
        }
    return words;
}

static inline void
int4_add_matrix(int4_file *f, const char *base, const int4_kind *k, const int4_matrix *m)
{
    const bool awq = strcmp(k->name, "awq") == 0;
    const unsigned bits = k->bits ? k->bits : 4;
    char name[300];
    uint8_t *by_input = malloc(m->in * m->out), *zero = malloc(m->groups * m->out);
    int32_t *order = malloc(m->in * sizeof *order);
    for (size_t i = 0; i < m->in; i++) {
        order[i] = (int32_t)(k->flags & INT4_ACT_ORDER ? m->groups - 1 - i / m->group : i / m->group);
        for (size_t o = 0; o < m->out; o++)
            by_input[i * m->out + o] = m->q[o * m->in + i];
    }
    uint16_t *scale = malloc(m->groups * m->out * sizeof *scale);
    for (size_t i = 0; i < m->groups * m->out; i++) {
        const size_t g = i / m->out, from = k->flags & INT4_ACT_ORDER ? (m->groups - 1 - g) * m->out + i % m->out : i;
        zero[i] = (uint8_t)((m->zero[from] - (strcmp(k->name, "gptq") == 0)) & ((1 << bits) - 1));
        scale[i] = m->scale[from];
    }
    uint32_t *words = int4_words(by_input, m->in, m->out, !awq, awq, bits);
    uint32_t *zeros = int4_words(zero, m->groups, m->out, false, awq, bits);
    snprintf(name, sizeof name, "%sqweight", base);
    int4_add(f, name, "I32", 2, (size_t[]){awq ? m->in : m->in * bits / 32, awq ? m->out / 8 : m->out}, words,
             m->in * m->out * bits / 8);
    snprintf(name, sizeof name, "%sqzeros", base);
    int4_add(f, name, "I32", 2, (size_t[]){m->groups, m->out * bits / 32}, zeros, m->groups * m->out * bits / 8);
    snprintf(name, sizeof name, "%sscales", base);
    int4_add(f, name, "F16", 2, (size_t[]){m->groups, m->out}, scale, m->groups * m->out * 2);
    free(scale);
    snprintf(name, sizeof name, "%sg_idx", base);
    if (!awq)
        int4_add(f, name, "I32", 1, &m->in, order, m->in * sizeof *order);
    free(by_input);
    free(zero);
    free(order);
    free(words);
    free(zeros);
}

static inline void
int4_convert(const char *name, const char *dtype, const size_t *shape, const uint8_t *src, const int4_kind *k,
             int4_file *quant, int4_file *plain)
{
    int4_matrix m = {.out = shape[0], .in = shape[1], .group = k->group < 0 ? shape[1] : (size_t)k->group};
    char base[256];
    m.groups = (m.in + m.group - 1) / m.group;
    m.q = calloc(m.in * m.out, 1);
    m.zero = calloc(m.groups * m.out, 1);
    m.scale = calloc(m.groups * m.out, sizeof *m.scale);
    m.values = calloc(m.in * m.out, sizeof *m.values);
    snprintf(base, sizeof base, "%.*s", (int)(strlen(name) - strlen("weight")), name);
    int4_quantize(&m, dtype, src, (k->flags & INT4_SYMMETRIC) != 0, k->bits ? k->bits : 4);
    int4_add_matrix(quant, base, k, &m);
    int4_add(plain, name, "F32", 2, shape, m.values, m.in * m.out * sizeof *m.values);
    free(m.q);
    free(m.zero);
    free(m.scale);
    free(m.values);
}

/* Writes the folders `dir` (quantized) and `plain_dir` (its values) from the model in `source`; false when a file cannot be used. */
static inline bool
int4_make(const char *source, const int4_kind *k, const char *dir, const char *plain_dir)
{
    static const char end[] = "_proj.weight";
    const bool awq = strcmp(k->name, "awq") == 0;
    char path[1200];
    dop_map map;
    snprintf(path, sizeof path, "%s/config.json", source);
    json_t *config = json_load_file(path, 0, NULL);
    snprintf(path, sizeof path, "%s/model.safetensors", source);
    if (!config || dop_map_open(path, NULL, &map) != DOP_OK || map.size < 8)
        return false;
    uint64_t n = 0;
    memcpy(&n, map.data, 8);
    json_t *header = json_loadb((const char *)map.data + 8, (size_t)n, 0, NULL), *t;
    int4_file quant = {.header = json_object()}, plain = {.header = json_object()};
    const char *name;
    json_object_foreach(header, name, t)
    {
        const json_t *dims = json_object_get(t, "shape"), *at = json_object_get(t, "data_offsets");
        const char *dtype = json_string_value(json_object_get(t, "dtype"));
        size_t rank = json_array_size(dims), shape[8], begin = (size_t)json_integer_value(json_array_get(at, 0));
        if (!dtype || rank > 8)
            continue;
        for (size_t i = 0; i < rank; i++)
            shape[i] = (size_t)json_integer_value(json_array_get(dims, i));
        const uint8_t *data = map.data + 8 + n + begin;
        size_t size = (size_t)json_integer_value(json_array_get(at, 1)) - begin;
        if (rank == 2 && strlen(name) > sizeof end && strcmp(name + strlen(name) - sizeof end + 1, end) == 0) {
            int4_convert(name, dtype, shape, data, k, &quant, &plain);
        } else {
            int4_add(&quant, name, dtype, rank, shape, data, size);
            int4_add(&plain, name, dtype, rank, shape, data, size);
        }
    }
    bool ok = int4_save(&plain, plain_dir, config);
    json_object_set_new(config, "quantization_config",
                        awq ? json_pack("{s:s, s:i, s:i, s:s, s:b}", "quant_method", "awq", "bits", 4, "group_size",
                                        k->group, "version", "gemm", "zero_point", 1)
                            : json_pack("{s:s, s:i, s:i, s:b, s:b, s:s}", "quant_method", "gptq", "bits",
                                        (int)(k->bits ? k->bits : 4), "group_size", k->group, "desc_act",
                                        (k->flags & INT4_ACT_ORDER) != 0, "sym", (k->flags & INT4_SYMMETRIC) != 0,
                                        "checkpoint_format", k->name));
    ok = int4_save(&quant, dir, config) && ok;
    json_decref(header);
    json_decref(config);
    dop_map_close(&map);
    return ok;
}

#endif
