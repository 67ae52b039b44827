/* Checkpoints in FP8, INT8, packed integers, NVFP4, AWQ's gemv form, and those of bitsandbytes, HQQ and MLX: values, packed bytes,
 * and what is refused. */

#include "tests/unit/codes_util.h"
#include "tests/unit/hf_to_gguf.h"

typedef enum form {
    FP8,
    INT8,
    PACKED4,
    PACKED8,
    NVFP4,
    AWQ,
    BYTES4,
    NESTED,
    BYTES8,
    HQQ,
    HQQ_ACROSS,
    HQQ8,
    MLX2,
    MLX3,
    MLX4,
    MLX5,
    MLX6,
    MLX8,
    EXPERTS
} form;

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
    {"AWQ gemv, groups of 32", AWQ, 1, 32, "scales", "F16", "awq", true, DOP_TYPE_int4_g32},
    {"bitsandbytes, 4 bits", BYTES4, 1, 64, "absmax", "F32", "bitsandbytes", false, DOP_TYPE_f16},
    {"bitsandbytes, 4 bits, nested", NESTED, 1, 64, "absmax", "U8", "bitsandbytes", false, DOP_TYPE_f16},
    {"bitsandbytes, 8 bits", BYTES8, 1, 0, "SCB", "F32", "bitsandbytes", false, DOP_TYPE_q8_0},
    {"HQQ, groups of 32", HQQ, 1, 32, "scale", "BF16", "hqq", true, DOP_TYPE_int4_g32},
    {"HQQ, groups across rows", HQQ_ACROSS, 1, 32, "scale", "F16", "hqq", true, DOP_TYPE_f16},
    {"MLX, 2 bits", MLX2, 1, 32, "scales", "F16", "", true, DOP_TYPE_q4_1},
    {"MLX, 3 bits", MLX3, 1, 32, "scales", "BF16", "", true, DOP_TYPE_q4_1},
    {"MLX, 4 bits", MLX4, 1, 32, "scales", "BF16", "", true, DOP_TYPE_q4_1},
    {"MLX, 5 bits", MLX5, 1, 32, "scales", "F16", "", true, DOP_TYPE_q5_1},
    {"MLX, 6 bits", MLX6, 1, 32, "scales", "F16", "", true, DOP_TYPE_f16},
    {"MLX, 8 bits", MLX8, 1, 32, "scales", "F16", "", true, DOP_TYPE_f16},
    {"HQQ, 8 bits", HQQ8, 1, 64, "scale", "F16", "hqq", true, DOP_TYPE_f16},
};

/* AWQ: words of eight inputs; scales and zero points of an output side by side. */
static void
add_awq(int4_file *quant, const char *name, size_t out, size_t in, float *values)
{
    const size_t groups = in / 32, n = ((groups + 7) / 8 + 3) / 4 * 4;
    uint8_t *codes = calloc(out * in / 2, 1), *zeros = calloc(out * n, 4);
    uint16_t *scales = calloc(out * n * 8, 2);
    uint64_t seed = out * 7 + in;
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < in; i++) {
            const size_t g = i / 32;
            const uint32_t q = next(&seed) & 15, zero = (uint32_t)(5 * o + 3 * g) % 16;
            scales[o * n * 8 + g] = dop_f32_to_f16(0.002f * (float)(1 + (o + g) % 9));
            if (i % 32 == 0)
                zeros[o * n * 4 + g / 2] = (uint8_t)(zeros[o * n * 4 + g / 2] | zero << (4 * (g % 2)));
            codes[(o * in + i) / 2] = (uint8_t)(codes[(o * in + i) / 2] | q << (4 * (i % 2)));
            values[o * in + i] = dop_f16_to_f32(scales[o * n * 8 + g]) * (float)((int)q - (int)zero);
        }
    add_part(quant, name, "qweight", "I32", out, in / 8, codes, out * in / 2);
    add_part(quant, name, "qzeros", "I32", out, n, zeros, out * n * 4);
    add_part(quant, name, "scales", "F16", out, n * 8, scales, out * n * 16);
    free(codes);
    free(zeros);
    free(scales);
}

static void
add_bytes(int4_file *quant, const char *name, size_t out, size_t in, bool nested, float *values)
{
    const size_t n = out * in, blocks = n / 64, outer = (blocks + 255) / 256;
    uint8_t *codes = calloc(n / 2, 1), *small = calloc(blocks, 1);
    float *largest = calloc(blocks, 4), *of_outer = calloc(outer, 4), levels[16], map[256];
    uint64_t seed = out * 3 + in;
    char state[256];
    for (int i = 0; i < 16; i++)
        levels[i] = (float)(i * i * i - 1000) / 1000;
    for (int i = 0; i < 256; i++)
        map[i] = (float)(i - 100) / 256;
    for (size_t i = 0; i < outer; i++)
        of_outer[i] = 0.01f * (float)(1 + i);
    for (size_t b = 0; b < blocks; b++) {
        small[b] = (uint8_t)next(&seed);
        largest[b] = nested ? map[small[b]] * of_outer[b / 256] + 0.125f : 0.01f * (float)(1 + next(&seed) % 20);
    }
    for (size_t i = 0; i < n; i++) {
        const uint32_t q = next(&seed) & 15;
        codes[i / 2] = (uint8_t)(codes[i / 2] | q << (i % 2 ? 0 : 4));
        values[i] = half(levels[q] * largest[i / 64]);
    }
    snprintf(state, sizeof state,
             "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"bfloat16\", \"shape\": [%zu, %zu]%s}", out, in,
             nested ? ", \"nested_blocksize\": 256, \"nested_dtype\": \"float32\", \"nested_offset\": 0.125" : "");
    add_part(quant, name, "weight", "U8", n / 2, 1, codes, n / 2);
    add_part(quant, name, "weight.quant_map", "F32", 16, 0, levels, sizeof levels);
    add_part(quant, name, "weight.quant_state.bitsandbytes__nf4", "U8", strlen(state), 0, state, strlen(state));
    add_part(quant, name, "weight.absmax", nested ? "U8" : "F32", blocks, 0, nested ? (void *)small : (void *)largest,
             nested ? blocks : 4 * blocks);
    if (nested) {
        add_part(quant, name, "weight.nested_quant_map", "F32", 256, 0, map, sizeof map);
        add_part(quant, name, "weight.nested_absmax", "F32", outer, 0, of_outer, 4 * outer);
    }
    free(codes);
    free(small);
    free(largest);
    free(of_outer);
}

static void
add_bytes8(int4_file *quant, const char *name, size_t out, size_t in, float *values)
{
    int8_t *codes = calloc(out * in, 1);
    float *largest = calloc(out, 4);
    uint64_t seed = out + in;
    for (size_t o = 0; o < out; o++) {
        largest[o] = 0.05f * (float)(1 + o % 11);
        for (size_t i = 0; i < in; i++) {
            codes[o * in + i] = (int8_t)(next(&seed) % 255 - 127);
            values[o * in + i] = half(largest[o] * (1.0f / 127)) * (float)codes[o * in + i];
        }
    }
    add_part(quant, name, "weight", "I8", out, in, codes, out * in);
    add_part(quant, name, "SCB", "F32", out, 0, largest, 4 * out);
    add_part(quant, name, "weight_format", "U8", 1, 0, "", 1);
    free(codes);
    free(largest);
}

/* Groups of values in a row, or across rows: value r * n + c of [group, n] is of group c. */
static void
add_hqq(int4_file *quant, const char *name, size_t out, size_t in, const scheme *s, float *values)
{
    const size_t n = out * in, groups = n / s->cols, bits = s->form == HQQ8 ? 8 : 4;
    uint8_t *codes = calloc(n, 1);
    uint16_t *scales = calloc(groups, 2), *zeros = calloc(groups, 2);
    uint64_t seed = out + 5 * in;
    const bool bf16 = *s->dtype == 'B';
    for (size_t g = 0; g < groups; g++) {
        const float scale = 0.001f * (float)(1 + next(&seed) % 30), zero = 0.25f * (float)(next(&seed) % 64);
        scales[g] = bf16 ? dop_f32_to_bf16(scale) : dop_f32_to_f16(scale);
        zeros[g] = bf16 ? dop_f32_to_bf16(zero) : dop_f32_to_f16(zero);
    }
    for (size_t i = 0; i < n; i++) {
        const size_t g = s->form == HQQ_ACROSS ? i % groups : i / s->cols;
        const float scale = bf16 ? dop_bf16_to_f32(scales[g]) : dop_f16_to_f32(scales[g]),
                    zero = bf16 ? dop_bf16_to_f32(zeros[g]) : dop_f16_to_f32(zeros[g]);
        const uint32_t q = next(&seed) & ((1u << bits) - 1);
        if (bits == 8)
            codes[i] = (uint8_t)q;
        else
            codes[i % (n / 2)] = (uint8_t)(codes[i % (n / 2)] | q << (i < n / 2 ? 4 : 0));
        values[i] = ((float)q - zero) * (s->form == HQQ ? half(scale) : scale);
        if (s->form != HQQ)
            values[i] = half(values[i]);
    }
    const int32_t number[] = {(int32_t)bits, (int32_t)s->cols, s->form != HQQ_ACROSS, (int32_t)out, (int32_t)in};
    add_part(quant, name, "W_q", "U8", groups * bits / 8, s->cols, codes, n * bits / 8);
    add_part(quant, name, "scale", s->dtype, groups, 1, scales, 2 * groups);
    add_part(quant, name, "zero", s->dtype, groups, 1, zeros, 2 * groups);
    add_part(quant, name, "nbits", "I32", 1, 0, number, 4);
    add_part(quant, name, "group_size", "I32", 1, 0, number + 1, 4);
    add_part(quant, name, "axis", "I32", 1, 0, number + 2, 4);
    add_part(quant, name, "shape", "I32", 2, 0, number + 3, 8);
    free(codes);
    free(scales);
    free(zeros);
}

/* Codes from the lowest bit of a word on, which may go on in the next word. */
static void
add_mlx(int4_file *quant, const char *name, size_t out, size_t in, const scheme *s, float *values)
{
    static const uint32_t sizes[] = {2, 3, 4, 5, 6, 8};
    const size_t n = out * in, groups = n / s->cols, bits = sizes[s->form - MLX2];
    uint32_t *words = calloc(n * bits / 32, 4);
    uint16_t *scales = calloc(groups, 2), *biases = calloc(groups, 2);
    uint64_t seed = out + 7 * in;
    const bool bf16 = *s->dtype == 'B';
    for (size_t i = 0; i < n; i++) {
        const size_t g = i / s->cols, at = i * bits;
        const uint64_t q = next(&seed) & ((1u << bits) - 1);
        if (i % s->cols == 0) {
            const float scale = 0.001f * (float)(1 + next(&seed) % 30), bias = -0.02f * (float)(next(&seed) % 64);
            scales[g] = bf16 ? dop_f32_to_bf16(scale) : dop_f32_to_f16(scale);
            biases[g] = bf16 ? dop_f32_to_bf16(bias) : dop_f32_to_f16(bias);
        }
        words[at / 32] |= (uint32_t)(q << at % 32);
        if (at % 32 + bits > 32)
            words[at / 32 + 1] |= (uint32_t)(q >> (32 - at % 32));
        const float scale = bf16 ? dop_bf16_to_f32(scales[g]) : dop_f16_to_f32(scales[g]),
                    bias = bf16 ? dop_bf16_to_f32(biases[g]) : dop_f16_to_f32(biases[g]);
        values[i] = s->type == DOP_TYPE_f16 ? half((float)q * scale + bias) : (float)q * half(scale) + half(bias);
    }
    add_part(quant, name, "weight", "U32", out, in * bits / 32, words, n * bits / 8);
    add_part(quant, name, "scales", s->dtype, out, in / s->cols, scales, 2 * groups);
    add_part(quant, name, "biases", s->dtype, out, in / s->cols, biases, 2 * groups);
    free(words);
    free(scales);
    free(biases);
}

/* The matrices of all experts in one tensor, of which `name` is that of the first. */
static void
add_mlx_experts(int4_file *quant, int4_file *plain, const char *name, size_t n, const size_t *shape, const scheme *s)
{
    static const char first[] = ".experts.0.", *const parts[] = {"weight", "scales", "biases"};
    const char *at = strstr(name, first), *end = at + strlen(first);
    char all[300], one[300];
    float *values = calloc(n * shape[0] * shape[1], sizeof *values);
    snprintf(all, sizeof all, "%.*s.switch_mlp.%s", (int)(at - name), name, end);
    add_mlx(quant, all, n * shape[0], shape[1], s, values);
    for (size_t i = 0; i < 3; i++) {
        snprintf(one, sizeof one, "%.*s%s", (int)(strlen(all) - strlen("weight")), all, parts[i]);
        json_t *dims = json_object_get(json_object_get(quant->header, one), "shape");
        json_array_set_new(dims, 0, json_integer((json_int_t)shape[0]));
        json_array_insert_new(dims, 0, json_integer((json_int_t)n));
    }
    for (size_t e = 0; e < n; e++) {
        snprintf(one, sizeof one, "%.*s.experts.%zu.%s", (int)(at - name), name, e, end);
        int4_add(plain, one, "F32", 2, shape, values + e * shape[0] * shape[1], shape[0] * shape[1] * sizeof *values);
    }
    free(values);
}

/* FP8 of all experts in one tensor, with a scale for each output of each. */
static void
add_experts(int4_file *quant, int4_file *plain, const char *name, const size_t *shape)
{
    const size_t rows = shape[0] * shape[1], n = rows * shape[2];
    uint8_t *codes = calloc(n, 1);
    float *values = calloc(n, sizeof *values), *scales = calloc(rows, sizeof *scales);
    uint64_t seed = n;
    char full[300];
    for (size_t i = 0; i < n; i++) {
        codes[i] = (uint8_t)(next(&seed) % 127 + 128 * (next(&seed) & 1));
        scales[i / shape[2]] = 0.002f * (float)(1 + i / shape[2] % 17);
        values[i] = scales[i / shape[2]] * e4m3(codes[i]);
    }
    int4_add(quant, name, "F8_E4M3", 3, shape, codes, n);
    snprintf(full, sizeof full, "%s_scale_inv", name);
    int4_add(quant, full, "F32", 3, (const size_t[]){shape[0], shape[1], 1}, scales, 4 * rows);
    int4_add(plain, name, "F32", 3, shape, values, n * sizeof *values);
    free(codes);
    free(values);
    free(scales);
}

static void
add_flat(int4_file *quant, int4_file *plain, const char *name, const size_t *shape, const scheme *s)
{
    const size_t n = shape[0] * shape[1];
    float *values = calloc(n, sizeof *values);
    if (s->form == AWQ)
        add_awq(quant, name, shape[0], shape[1], values);
    else if (s->form == BYTES8)
        add_bytes8(quant, name, shape[0], shape[1], values);
    else if (s->form == BYTES4 || s->form == NESTED)
        add_bytes(quant, name, shape[0], shape[1], s->form == NESTED, values);
    else if (s->form >= MLX2)
        add_mlx(quant, name, shape[0], shape[1], s, values);
    else
        add_hqq(quant, name, shape[0], shape[1], s, values);
    int4_add(plain, name, "F32", 2, shape, values, n * sizeof *values);
    free(values);
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

/* Converts a matrix of a golden model, or the matrices of experts, as a scheme has them; false: the tensor stays as it is. */
static bool
convert(int4_file *quant, int4_file *plain, const char *name, size_t rank, const size_t *shape, const json_t *config,
        const void *user)
{
    const scheme *s = user;
    const bool mlx = s->form >= MLX2 && s->form <= MLX8;
    if (s->form == EXPERTS && rank == 3 && strstr(name, "experts.")) {
        add_experts(quant, plain, name, shape);
    } else if (mlx && strstr(name, ".experts.")) {
        if (strstr(name, ".experts.0."))
            add_mlx_experts(quant, plain, name,
                            (size_t)json_integer_value(json_object_get(config, "num_local_experts")), shape, s);
    } else if (s->form != EXPERTS && rank == 2 && strstr(name, "_proj.weight")) {
        (s->form >= AWQ ? add_flat : add_matrix)(quant, plain, name, shape, s);
    } else {
        return false;
    }
    return true;
}

static void
make(const char *model, const scheme *s, const char *dir, const char *plain_dir)
{
    json_t *said =
        json_pack("{s:s, s:s, s:i, s:i}", "quant_method", s->method, "version", "gemv", "bits", 4, "group_size", 32);
    if (s->form >= MLX2 && s->form <= MLX8) { /* bits and groups of a matrix may differ from those */
        json_decref(said);
        said = json_pack("{s:i, s:i}", "bits", 4, "group_size", 64);
    }
    codes_make(model, convert, s, said, dir, plain_dir);
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
            codes_compare(&u, &plain, schemes[i].what, schemes[i].type);
            util_model_close(&u);
            util_model_close(&plain);
            scratch_remove(&dir);
            scratch_remove(&plain_dir);
        }
}

Test(import_codes, experts_in_one_tensor)
{
    static const scheme of[] = {
        {"FP8 experts", EXPERTS, 1, 0, "scale_inv", "F32", "fp8", false, DOP_TYPE_f8_128},
        {"MLX experts", MLX4, 1, 32, "scales", "F16", "", true, DOP_TYPE_q4_1},
        {"MLX experts, 3 bits", MLX3, 1, 32, "scales", "F16", "", true, DOP_TYPE_q4_1},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        util_model u, plain;
        scratch dir = scratch_make(), plain_dir = scratch_make();
        make(of[i].form == EXPERTS ? "gemma4_moe" : "qwen3_moe", &of[i], dir.dir, plain_dir.dir);
        util_model_open(&u, dir.dir, 16);
        util_model_open(&plain, plain_dir.dir, 16);
        codes_compare(&u, &plain, of[i].what, of[i].type);
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
        {{"another method", FP8, 1, 0, "weight_scale", "F32", "mystery", false, DOP_TYPE_none},
         "quantization_config.quant_method \"mystery\" is not supported; known: awq, gptq, mxfp4, fp8, fbgemm_fp8, "
         "compressed-tensors, modelopt, quark, torchao, bitsandbytes, hqq, auto-round, and MLX's quantization"},
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

/* One line each, which names what is wrong. */
Test(import_codes, damaged)
{
    static const struct {
        form form;
        const char *from, *to, *message;
    } cases[] = {
        {AWQ, "q_proj.qzeros", "q_proj.qzeroX", "tensor model.layers.0.self_attn.q_proj.qzeros is missing"},
        {AWQ, "q_proj.scales\":{\"dtype\":\"F16\"", "q_proj.scales\":{\"dtype\":\"I16\"", "is no scale; known: F16"},
        {BYTES4, "q_proj.weight.quant_map", "q_proj.weight.quant_maX",
         "tensor model.layers.0.self_attn.q_proj.weight.quant_map is missing"},
        {BYTES4, "\"blocksize\": 64", "\"blocksize\": 32", "are not the scales of all blocks; known: F32, U8"},
        {BYTES4, "\"blocksize\": 64", "\"blocksize\": -4",
         "has a quant_state of another shape, or without a size of blocks"},
        {BYTES4, "{\"quant_type\"", "[\"quant_type\"", "is no JSON object"},
        {BYTES4, "quant_state.bitsandbytes__nf4", "quant_state.bitsandbytes__nfX",
         "weight.quant_state.bitsandbytes__nf4 is missing"},
        {NESTED, "q_proj.weight.nested_absmax", "q_proj.weight.nested_absmaX",
         "tensor model.layers.0.self_attn.q_proj.weight.nested_absmax is missing"},
        {NESTED, "\"nested_blocksize\": 256", "\"nested_blocksize\": 001", "is no JSON object"},
        {NESTED, "\"nested_blocksize\": 256", "\"nested_blocksize\": 16 ",
         "are not the scales of all blocks of blocks that quant_state states"},
        {HQQ, "q_proj.zero", "q_proj.zerX", "tensor model.layers.0.self_attn.q_proj.zero is missing"},
        {HQQ, "q_proj.scale\":{\"dtype\":\"BF16\"", "q_proj.scale\":{\"dtype\":\"I16\" ",
         "is not supported; known: F16, BF16, F32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch dir = scratch_make(), plain_dir = scratch_make();
        const scheme *s = schemes;
        while (s->form != cases[i].form)
            s++;
        make("llama", s, dir.dir, plain_dir.dir);
        codes_replace(dir.dir, cases[i].from, cases[i].to);
        dop_checkpoint m;
        dop_arena arena;
        dop_diag diag = {0};
        dop_arena_init(&arena);
        cr_expect_eq(dop_checkpoint_load(dir.dir, &arena, &diag, &m), DOP_E_INPUT, "%s: %s", s->what, cases[i].to);
        cr_expect(strstr(diag.message, cases[i].message), "%s, %s: %s", s->what, cases[i].to, diag.message);
        dop_checkpoint_finish(&m);
        dop_arena_finish(&arena);
        scratch_remove(&dir);
        scratch_remove(&plain_dir);
    }
}

/* --- NVFP4 in GGUF files ------------------------------------------------------------------------------------------------- */

/* Takes a tensor out of the file. */
static void
take_out(gguf_writer *w, const char *name)
{
    dop_buf infos = {0};
    uint64_t len;
    uint32_t rank;
    for (size_t at = 0; at < w->infos.size;) {
        const char *p = w->infos.data + at;
        memcpy(&len, p, 8);
        memcpy(&rank, p + 8 + len, 4);
        const size_t size = 8 + len + 16 + 8 * rank;
        if (len != strlen(name) || memcmp(p + 8, name, len) != 0)
            dop_buf_append(&infos, p, size);
        at += size;
    }
    cr_assert(infos.size < w->infos.size && !infos.failed, "%s", name);
    dop_buf_finish(&w->infos);
    w->infos = infos;
    w->n_tensors--;
}

/* A matrix, or one for each expert, becomes NVFP4, with factors beside it under this ending.  blocks: what it has. */
static void
to_nvfp4(gguf_writer *w, const char *name, uint32_t rank, const uint64_t *shape, const char *end, const float *factors,
         uint8_t *blocks, size_t size)
{
    uint64_t seed = size;
    char scale[96];
    for (size_t i = 0; i < size; i++)
        blocks[i] = (uint8_t)(i % 36 < 4 ? 30 + next(&seed) % 40 : next(&seed));
    take_out(w, name);
    gguf_tensor_bytes(w, name, 40, rank, shape, blocks, size);
    snprintf(scale, sizeof scale, "%.*s%s", (int)(strlen(name) - strlen(".weight")), name, end);
    gguf_tensor(w, scale, GGUF_F32, 1, (const uint64_t[]){rank == 3 ? shape[0] : 1}, factors);
}

static void
check_factor(const dop_checkpoint *m, const dop_weight *w, const uint8_t *blocks, float factor)
{
    float *a = malloc(w->cols * sizeof *a), *b = malloc(w->cols * sizeof *b);
    cr_assert(w->type == DOP_TYPE_nvfp4);
    for (uint32_t r = 0; r < w->rows; r++) {
        dop_decode_row(w->type, blocks + (size_t)r * w->cols / 64 * 36, w->cols, a);
        dop_weight_row(w, r, b);
        for (uint32_t c = 0; c < w->cols; c++)
            cr_assert(b[c] == a[c] * factor, "%s row %u, %u: %g, %g", w->name, r, c, (double)a[c], (double)b[c]);
    }
    compare_packed(m, w);
    free(a);
    free(b);
}

Test(import_codes, nvfp4_factors_in_gguf_files)
{
    static const float one = 0.375f, each[] = {0.5f, 2, 1.25f, 3};
    static const uint64_t q[] = {64, 64}, up[] = {4, 160, 64};
    enum { Q = 64 * 36, UP = 4 * 160 * 36 };
    static uint8_t blocks[Q], experts[UP];
    scratch s = scratch_make();
    const char *path = scratch_path(&s, "model.gguf");
    char error[200] = "";
    for (int damaged = 0; damaged < 2; damaged++) {
        gguf_writer w = {0};
        cr_assert(hf_to_gguf(GOLDEN "/mixtral", false, &w, error, sizeof error), "%s", error);
        to_nvfp4(&w, "blk.0.attn_q.weight", 2, q, ".scale", &one, blocks, Q);
        gguf_tensor(&w, "blk.0.attn_q.input_scale", GGUF_F32, 1, (const uint64_t[]){1}, each);
        to_nvfp4(&w, "blk.1.ffn_up_exps.weight", 3, up, ".weight.scale", each, experts, UP);
        if (damaged) {
            take_out(&w, "blk.0.attn_q.scale");
            gguf_tensor(&w, "blk.0.attn_q.scale", GGUF_F32, 1, (const uint64_t[]){3}, each);
        }
        cr_assert(gguf_save(&w, path));
        if (damaged) {
            expect_failure(path, "",
                           "tensor blk.0.attn_q.scale is not what values are multiplied by: 1 of F32 expected", 0, 0);
            continue;
        }
        util_model u;
        util_model_open(&u, path, 16);
        check_factor(&u.m, dop_weights_find(&u.m.weights, "L0.q"), blocks, one);
        for (uint32_t e = 0; e < 4; e++) {
            const dop_weight m = dop_weight_expert(dop_weights_find(&u.m.weights, "L1.expert_up"), e);
            check_factor(&u.m, &m, experts + e * (UP / 4), each[e]);
        }
        util_model_close(&u);
    }
    scratch_remove(&s);
}
