/* Shared by the tests of quantized checkpoints: golden models with their matrices in another form, and the values
 * that these stand for. */
#ifndef DOPPLER_TESTS_UNIT_CODES_UTIL_H
#define DOPPLER_TESTS_UNIT_CODES_UTIL_H

#include "compiler/pack/pack.h"
#include "compiler/pack/pack_rows.h"
#include "kernels/emit/weight_types.h"
#include "tests/tools/int4_model.h"
#include "tests/unit/import_util.h"
#include "tests/unit/model_util.h"
#include "tools/check/check.h"
#include "tools/check/check_unpack.h"

static inline void
add_part(int4_file *f, const char *name, const char *part, const char *dtype, size_t d0, size_t d1, const void *data,
         size_t size)
{
    char full[300];
    snprintf(full, sizeof full, "%.*s%s", (int)(strlen(name) - strlen("weight")), name, part);
    int4_add(f, full, dtype, d1 ? 2 : 1, (const size_t[]){d0, d1}, data, size);
}

static inline float
half(float v)
{
    return dop_f16_to_f32(dop_f32_to_f16(v));
}

static inline float
e4m3(uint8_t b)
{
    const float v = b & 0x78 ? ldexpf(1 + (float)(b & 7) / 8, (b >> 3 & 15) - 7) : ldexpf((float)(b & 7), -9);
    return b & 128 ? -v : v;
}

static inline uint32_t
next(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 33);
}

/* Writes a golden model with its matrices as convert() adds them to `quant`, and their values to `plain`; `said` becomes
 * quantization_config, and is MLX's "quantization" where it names no method.  convert: false where the tensor stays as it is. */
static inline void
codes_make(const char *model,
           bool (*convert)(int4_file *quant, int4_file *plain, const char *name, size_t rank, const size_t *shape,
                           const json_t *config, const void *user),
           const void *user, json_t *said, const char *dir, const char *plain_dir)
{
    char path[1200];
    dop_map map;
    uint64_t n = 0;
    snprintf(path, sizeof path, GOLDEN "/%s/config.json", model);
    json_t *config = json_load_file(path, 0, NULL), *t;
    snprintf(path, sizeof path, GOLDEN "/%s/model.safetensors", model);
    cr_assert(config && dop_map_open(path, NULL, &map) == DOP_OK);
    memcpy(&n, map.data, 8);
    json_t *header = json_loadb((const char *)map.data + 8, (size_t)n, 0, NULL);
    int4_file quant = {.header = json_object()}, plain = {.header = json_object()};
    const char *name;
    json_object_foreach(header, name, t)
    {
        const json_t *dims = json_object_get(t, "shape"), *at = json_object_get(t, "data_offsets");
        const char *dtype = json_string_value(json_object_get(t, "dtype"));
        size_t rank = json_array_size(dims), shape[8], begin = (size_t)json_integer_value(json_array_get(at, 0));
        const size_t size = (size_t)json_integer_value(json_array_get(at, 1)) - begin;
        if (!dtype)
            continue;
        for (size_t i = 0; i < rank; i++)
            shape[i] = (size_t)json_integer_value(json_array_get(dims, i));
        if (convert(&quant, &plain, name, rank, shape, config, user))
            continue;
        int4_add(&quant, name, dtype, rank, shape, map.data + 8 + n + begin, size);
        int4_add(&plain, name, dtype, rank, shape, map.data + 8 + n + begin, size);
    }
    cr_assert(int4_save(&plain, plain_dir, config));
    json_object_set_new(config, "quantization_config", said);
    if (!json_object_get(said, "quant_method"))
        json_object_set(config, "quantization", said);
    cr_assert(int4_save(&quant, dir, config));
    json_decref(header);
    json_decref(config);
    dop_map_close(&map);
}

/* Rows as the plan will have them, decoded without kernels. */
static inline void
compare_packed(const dop_checkpoint *m, const dop_weight *w)
{
    dop_pack p;
    dop_diag diag = {0};
    dop_packed item = {.name = w->name, .type = w->type, .rows = w->rows, .cols = w->cols, .source = w};
    item.size = dop_packed_bytes(item.type, w->rows, w->cols);
    dop_pack_init(&p, m, 16);
    cr_assert(dop_type_row_bytes(item.type, dop_packed_row_values(item.type, w->cols), &item.row_bytes));
    uint8_t *packed = malloc(item.size);
    float *a = malloc(w->cols * sizeof *a), *b = malloc(w->cols * sizeof *b);
    cr_assert_eq(dop_pack_write(&p, &item, packed, &diag), DOP_OK, "%s", diag.message);
    for (uint32_t r = 0; r < w->rows; r++) {
        dop_check_place row;
        cr_assert(dop_check_find_row(w->type, item.size, w->rows, w->cols, r, &row));
        dop_check_unpack_row(w->type, &row, packed + row.units, packed + row.groups, packed + row.factor, w->cols, a);
        dop_weight_row(w, r, b);
        cr_assert(memcmp(a, b, w->cols * sizeof *a) == 0, "%s, row %u", w->name, r);
    }
    free(packed);
    free(a);
    free(b);
    dop_pack_finish(&p);
}

static inline void
compare_matrix(const char *what, const dop_weight *w, const dop_weight *x)
{
    float *a = malloc(w->cols * sizeof *a), *b = malloc(w->cols * sizeof *b);
    for (uint32_t r = 0; r < w->rows; r++) {
        dop_weight_row(w, r, a);
        dop_weight_row(x, r, b);
        for (uint32_t c = 0; c < w->cols; c++)
            cr_assert(a[c] == b[c], "%s: %s row %u, %u: %g instead of %g", what, w->name, r, c, (double)a[c],
                      (double)b[c]);
    }
    free(a);
    free(b);
}

static inline void
codes_compare(const util_model *u, const util_model *plain, const char *what, dop_type type)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < u->m.weights.n; i++) {
        const dop_weight *w = &u->m.weights.items[i], *x = dop_weights_find(&plain->m.weights, w->name);
        cr_assert(x && x->rows == w->rows && x->cols == w->cols, "%s", w->name);
        for (uint32_t e = 0; e < dop_weight_experts(w); e++) {
            const dop_weight one = dop_weight_expert(w, e), other = dop_weight_expert(x, e);
            compare_matrix(what, &one, &other);
        }
        n += w->type == type;
        if (w->parts && dop_type_of(w->type)->kind == DOP_KIND_QUANT)
            compare_packed(&u->m, w);
    }
    cr_expect(n > 0, "%s: no weight is %s", what, dop_type_of(type)->name);
}

/* The first of these texts in the file becomes the other, of the same length, as often as it is there. */
static inline void
codes_replace(const char *dir, const char *from, const char *to)
{
    char path[1200];
    dop_map map;
    cr_assert_eq(strlen(from), strlen(to));
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    cr_assert_eq(dop_map_open(path, NULL, &map), DOP_OK);
    char *copy = malloc(map.size);
    const size_t size = map.size, n = strlen(from);
    bool found = false;
    memcpy(copy, map.data, size);
    dop_map_close(&map);
    for (size_t i = 0; i + n <= size; i++)
        if (memcmp(copy + i, from, n) == 0) {
            memcpy(copy + i, to, n);
            found = true;
        }
    cr_assert(found, "%s", from);
    cr_assert_eq(dop_write_file(path, copy, size, NULL), DOP_OK);
    free(copy);
}

#endif
