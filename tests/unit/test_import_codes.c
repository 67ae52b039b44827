/* Checkpoints in FP8, INT8, packed integers and NVFP4: values, packed bytes, and what is refused. */
#include "compiler/pack/pack.h"
#include "compiler/pack/pack_rows.h"
#include "kernels/weight_types.h"
#include "runtime/inspect/check/check.h"
#include "tests/tools/int4_model.h"
#include "tests/unit/import_util.h"
#include "tests/unit/model_util.h"

typedef enum form { FP8, INT8, PACKED4, PACKED8, NVFP4 } form;

typedef struct scheme {
    const char *what;
    form form;
    uint32_t rows, cols; /* of a tile; 0: all of the matrix */
    const char *scale, *dtype, *method;
    bool zeros;
    dop_type type;
} scheme;

static const scheme schemes[] = {
    {"FP8, a scale for the tensor", FP8, 0, 0, "weight_scale", "F32", "modelopt", false, DOP_TYPE_f8_128},
    {"FP8, a scale for each output", FP8, 1, 0, "weight_scale", "BF16", "compressed-tensors", false, DOP_TYPE_f8_128},
    {"FP8, tiles of 128 x 128", FP8, 128, 128, "weight_scale_inv", "F32", "fp8", false, DOP_TYPE_f8_128},
    {"INT8, a scale for each output", INT8, 1, 0, "weight_scale", "BF16", "compressed-tensors", false, DOP_TYPE_q8_0},
    {"INT8, groups of 32", INT8, 1, 32, "weight_scale", "F16", "compressed-tensors", false, DOP_TYPE_q8_0},
    {"4 bits, groups of 32", PACKED4, 1, 32, "weight_scale", "BF16", "compressed-tensors", false, DOP_TYPE_int4_g32},
    {"4 bits, zero points", PACKED4, 1, 32, "weight_scale", "F16", "compressed-tensors", true, DOP_TYPE_int4_g32},
    {"4 bits, whole rows", PACKED4, 1, 0, "weight_scale", "F16", "compressed-tensors", false, DOP_TYPE_int4_g64},
    {"8 bits in words", PACKED8, 1, 32, "weight_scale", "F16", "compressed-tensors", false, DOP_TYPE_q8_0},
    {"NVFP4, multiplied", NVFP4, 1, 16, "weight_scale_2", "F32", "modelopt", false, DOP_TYPE_nvfp4},
    {"NVFP4, divided", NVFP4, 1, 16, "weight_global_scale", "F32", "compressed-tensors", false, DOP_TYPE_nvfp4},
};

static float
e4m3(uint8_t b)
{
    const float v = b & 0x78 ? ldexpf(1 + (float)(b & 7) / 8, (b >> 3 & 15) - 7) : ldexpf((float)(b & 7), -9);
    return b & 128 ? -v : v;
}

static uint32_t
next(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 33);
}

/* A matrix of random codes under these names, and what it stands for. */
static void
add_matrix(int4_file *quant, int4_file *plain, const char *name, const size_t *shape, const scheme *s)
{
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const size_t out = shape[0], in = shape[1], rows = s->rows ? s->rows : out, cols = s->cols ? s->cols : in;
    const size_t down = (out + rows - 1) / rows, across = (in + cols - 1) / cols,
                 size = *s->dtype == 'F' && s->dtype[1] == '3' ? 4 : 2;
    const uint32_t bits = s->form == PACKED4 || s->form == NVFP4 ? 4 : 8;
    uint8_t *codes = calloc(out * in, 1), *scales = calloc(down * across, 4), *zeros = calloc(out / 8 * across, 4);
    float *values = calloc(out * in, sizeof *values), *scale = calloc(down * across, sizeof *scale);
    char full[300];
    const int base = (int)(strlen(name) - strlen("weight"));
    uint64_t seed = out * 31 + in;
    const float global = 0.0625f * 1.5f;
    for (size_t i = 0; i < down * across; i++) {
        if (s->form == NVFP4) {
            scales[i] = (uint8_t)(40 + next(&seed) % 30);
            scale[i] = e4m3(scales[i]);
            continue;
        }
        const float v = 0.002f * (float)(1 + next(&seed) % 15);
        const uint16_t h = *s->dtype == 'B' ? dop_f32_to_bf16(v) : dop_f32_to_f16(v);
        scale[i] = size == 4 ? v : *s->dtype == 'B' ? dop_bf16_to_f32(h) : dop_f16_to_f32(h);
        memcpy(scales + i * size, size == 4 ? (const void *)&v : (const void *)&h, size);
    }
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < in; i++) {
            const size_t t = o / rows * across + i / cols;
            uint32_t q = next(&seed) & ((1u << bits) - 1), zero = s->zeros ? (uint32_t)(3 * o + t) % 16 : 8;
            if (s->form == FP8 && (q & 127) == 127)
                q = 0;
            const float number = s->form == FP8       ? e4m3((uint8_t)q)
                                 : s->form == INT8    ? (float)(int8_t)q
                                 : s->form == PACKED4 ? (float)((int)q - (int)zero)
                                 : s->form == PACKED8 ? (float)((int)q - 128)
                                                      : (q & 8 ? -e2m1[q & 7] : e2m1[q & 7]);
            const size_t at = o * in + i;
            values[at] = scale[t] * number;
            if (s->form == NVFP4)
                values[at] *= *s->method == 'm' ? global : 1 / (1 / global);
            if (bits == 4)
                codes[at / 2] = (uint8_t)(codes[at / 2] | q << (4 * (at % 2)));
            else
                codes[at] = (uint8_t)q;
            const size_t word = (o / 8 * across + i / cols) * 4 + o % 8 / 2;
            if (i % cols == 0)
                zeros[word] = (uint8_t)(zeros[word] | zero << (4 * (o % 2)));
        }
    const bool packed = s->form == PACKED4 || s->form == PACKED8;
    const size_t words[] = {out, in * bits / 32}, bytes[] = {out, in * bits / 8};
    snprintf(full, sizeof full, "%.*sweight%s", base, name,
             packed || (s->form == NVFP4 && *s->method == 'c') ? "_packed" : "");
    int4_add(quant, full,
             packed            ? "I32"
             : s->form == FP8  ? "F8_E4M3"
             : s->form == INT8 ? "I8"
                               : "U8",
             2, packed ? words : bytes, codes, out * in * bits / 8);
    snprintf(full, sizeof full, "%.*s%s", base, name, s->form == NVFP4 ? "weight_scale" : s->scale);
    int4_add(quant, full, s->form == NVFP4 ? "F8_E4M3" : s->dtype, s->rows ? 2 : 0, (const size_t[]){down, across},
             scales, down * across * (s->form == NVFP4 ? 1 : size));
    if (s->form == NVFP4) {
        const float v = *s->method == 'm' ? global : 1 / global;
        snprintf(full, sizeof full, "%.*s%s", base, name, s->scale);
        int4_add(quant, full, "F32", 1, (const size_t[]){1}, &v, 4);
    }
    if (s->zeros) {
        snprintf(full, sizeof full, "%.*sweight_zero_point", base, name);
        int4_add(quant, full, "I32", 2, (const size_t[]){out / 8, across}, zeros, out / 8 * across * 4);
    }
    int4_add(plain, name, "F32", 2, shape, values, out * in * sizeof *values);
    free(codes);
    free(scales);
    free(zeros);
    free(values);
    free(scale);
}

static void
make(const char *model, const scheme *s, const char *dir, const char *plain_dir)
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
        if (rank == 2 && strstr(name, "_proj.weight")) {
            add_matrix(&quant, &plain, name, shape, s);
            continue;
        }
        int4_add(&quant, name, dtype, rank, shape, map.data + 8 + n + begin, size);
        int4_add(&plain, name, dtype, rank, shape, map.data + 8 + n + begin, size);
    }
    cr_assert(int4_save(&plain, plain_dir, config));
    json_object_set_new(config, "quantization_config", json_pack("{s:s}", "quant_method", s->method));
    cr_assert(int4_save(&quant, dir, config));
    json_decref(header);
    json_decref(config);
    dop_map_close(&map);
}

/* Rows as the plan will have them, decoded without kernels. */
static void
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
        cr_assert(dop_check_unpack_row(w->type, packed, item.size, w->rows, w->cols, r, a));
        dop_weight_row(w, r, b);
        cr_assert(memcmp(a, b, w->cols * sizeof *a) == 0, "%s, row %u", w->name, r);
    }
    free(packed);
    free(a);
    free(b);
    dop_pack_finish(&p);
}

static void
compare(const util_model *u, const util_model *plain, const scheme *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < u->m.weights.n; i++) {
        const dop_weight *w = &u->m.weights.items[i], *x = dop_weights_find(&plain->m.weights, w->name);
        cr_assert(x && x->rows == w->rows && x->cols == w->cols, "%s", w->name);
        float *a = malloc(w->cols * sizeof *a), *b = malloc(w->cols * sizeof *b);
        for (uint32_t r = 0; r < w->rows; r++) {
            dop_weight_row(w, r, a);
            dop_weight_row(x, r, b);
            for (uint32_t c = 0; c < w->cols; c++)
                cr_assert(a[c] == b[c], "%s: %s row %u, %u: %g instead of %g", s->what, w->name, r, c, (double)a[c],
                          (double)b[c]);
        }
        free(a);
        free(b);
        n += w->type == s->type;
        if (w->parts)
            compare_packed(&u->m, w);
    }
    cr_expect(n > 0, "%s: no weight is %s", s->what, dop_type_of(s->type)->name);
}

Test(import_codes, values)
{
    static const char *const models[] = {"llama", "phi3"}; /* phi3 has fused tensors */
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        for (size_t k = 0; k < 2; k++) {
            util_model u, plain;
            scratch dir = scratch_make(), plain_dir = scratch_make();
            make(models[k], &schemes[i], dir.dir, plain_dir.dir);
            util_model_open(&u, dir.dir, 16);
            util_model_open(&plain, plain_dir.dir, 16);
            compare(&u, &plain, &schemes[i]);
            util_model_close(&u);
            util_model_close(&plain);
            scratch_remove(&dir);
            scratch_remove(&plain_dir);
        }
}

/* One line each. */
Test(import_codes, refused)
{
    static const struct {
        scheme s;
        const char *message;
    } cases[] = {
        {{"FP8, tiles of 32", FP8, 32, 32, "weight_scale_inv", "F32", "fp8", false, DOP_TYPE_none},
         "scales of 32 columns are not supported; known: multiples of 128, whole rows"},
        {{"FP8 without scales", FP8, 1, 0, "scale_of_weight", "F32", "fp8", false, DOP_TYPE_none},
         "weight_scale is missing"},
        {{"4 bits, groups of 16", PACKED4, 1, 16, "weight_scale", "F16", "compressed-tensors", false, DOP_TYPE_none},
         "scales of 16 columns are not supported"},
        {{"another method", FP8, 1, 0, "weight_scale", "F32", "quark", false, DOP_TYPE_none},
         "quantization_config.quant_method \"quark\" is not supported; known: awq, gptq, mxfp4, fp8, fbgemm_fp8, "
         "compressed-tensors, modelopt"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch dir = scratch_make(), plain_dir = scratch_make();
        make("llama", &cases[i].s, dir.dir, plain_dir.dir);
        dop_checkpoint m;
        dop_arena arena;
        dop_diag diag = {0};
        dop_arena_init(&arena);
        cr_expect_neq(dop_checkpoint_load(dir.dir, &arena, &diag, &m), DOP_OK, "%s", cases[i].s.what);
        cr_expect(strstr(diag.message, cases[i].message), "%s: %s", cases[i].s.what, diag.message);
        dop_checkpoint_finish(&m);
        dop_arena_finish(&arena);
        scratch_remove(&dir);
        scratch_remove(&plain_dir);
    }
}
