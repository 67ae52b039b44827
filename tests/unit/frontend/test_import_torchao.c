/* Checkpoints of torchao, Quark and compressed-tensors' MX forms: values, packed bytes, and what is refused. */
#include "tests/unit/codes_util.h"

typedef enum form {
    NIBBLES,
    TILES,
    BYTES,
    FEW_BITS,
    WITH_ZEROS,
    ROWS8,
    FLOAT8,
    FLOAT8_EXPONENTS,
    MX8,
    MX4,
    MX4_PACKED,
    ORDERED
} form;

typedef struct scheme {
    const char *what;
    form form;
    size_t group;
    const char *scale; /* type of scales */
    dop_type type;
} scheme;

static const scheme schemes[] = {
    {"torchao, int4", NIBBLES, 32, "BF16", DOP_TYPE_q4_1},
    {"torchao, int4, f32 scales", NIBBLES, 32, "F32", DOP_TYPE_q4_1},
    {"torchao, int4 in tiles", TILES, 32, "BF16", DOP_TYPE_q4_1},
    {"torchao, int4 in tiles, groups of 128", TILES, 128, "BF16", DOP_TYPE_q4_1},
    {"torchao, int8", BYTES, 0, "F32", DOP_TYPE_q8_0},
    {"torchao, 4 bits in bytes", FEW_BITS, 32, "BF16", DOP_TYPE_int4_g32},
    {"torchao, int8 with zero points", WITH_ZEROS, 32, "F32", DOP_TYPE_f16},
    {"torchao, float8 by row", ROWS8, 0, "F32", DOP_TYPE_f8_128},
    {"Quark, float8", FLOAT8, 0, "F32", DOP_TYPE_f8_128},
    {"FP8 with exponents of tiles", FLOAT8_EXPONENTS, 128, "F8_E8M0", DOP_TYPE_f8_128},
    {"MXFP8", MX8, 32, "U8", DOP_TYPE_bf16},
    {"Quark, MXFP4", MX4, 32, "U8", DOP_TYPE_mxfp4},
    {"MXFP4, packed", MX4_PACKED, 32, "F8_E8M0", DOP_TYPE_mxfp4},
    {"4 bits in activation order", ORDERED, 32, "F16", DOP_TYPE_f16},
};

/* Values of scales or zeros on their way to a file, in the type that it has. */
typedef struct list {
    uint8_t *data;
    const char *dtype;
    size_t size;
} list;

static list
list_of(size_t n, const char *dtype)
{
    const size_t size = strcmp(dtype, "F32") == 0 ? 4 : strcmp(dtype, "BF16") == 0 || strcmp(dtype, "F16") == 0 ? 2 : 1;
    return (list){.data = calloc(n, size), .dtype = dtype, .size = size};
}

/* Sets a value, and returns what is left of it in the list's type. */
static float
put(list *l, size_t i, float v)
{
    const uint16_t h = *l->dtype == 'B' ? dop_f32_to_bf16(v) : dop_f32_to_f16(v);
    if (l->size == 1) { /* a power of two */
        l->data[i] = (uint8_t)(127 + ilogbf(v));
        return ldexpf(1, ilogbf(v));
    }
    memcpy(l->data + i * l->size, l->size == 4 ? (const void *)&v : (const void *)&h, l->size);
    return l->size == 4 ? v : *l->dtype == 'B' ? dop_bf16_to_f32(h) : dop_f16_to_f32(h);
}

static size_t
up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Value k of 8 rows and 16 n columns in the order in which lanes of a matrix unit hold them, after the comment on the layout of the
 * fragment B of m16n8k16 in NVIDIA's PTX manual: lane l has the rows l % 4 * 2 + (i & 1) + 8 * (i >> 1) of column l / 4, for i = 0 .. 3. */
static void
tile_words(uint8_t *words, const uint8_t *q, size_t out, size_t in)
{
    static const unsigned shift[8] = {0, 16, 4, 20, 8, 24, 12, 28};
    const size_t super = in / 128;
    for (size_t n = 0; n < out / 8; n++)
        for (size_t s = 0; s < super; s++)
            for (size_t lane = 0; lane < 32; lane++)
                for (size_t pair = 0; pair < 4; pair++) {
                    uint32_t word = 0;
                    for (size_t i = 0; i < 8; i++) {
                        const size_t k = s * 128 + (pair * 2 + i / 4) * 16 + lane % 4 * 2 + i % 2 + i % 4 / 2 * 8;
                        word |= (uint32_t)q[(n * 8 + lane / 4) * in + k] << shift[i];
                    }
                    memcpy(words + 4 * (((n * super + s) * 32 + lane) * 4 + pair), &word, 4);
                }
}

/* torchao's int4: groups lie one after the other, each with the scales of all outputs. */
static void
add_int4(int4_file *quant, const char *name, size_t out, size_t in, const scheme *s, float *values)
{
    const bool tiles = s->form == TILES;
    const size_t rows = tiles ? up(out, 8) : out, cols = tiles ? up(in, 1024) : in, groups = cols / s->group;
    uint8_t *q = calloc(rows * cols, 1), *packed = calloc(rows * cols / 2, 1);
    list scales = list_of(rows * groups * (tiles ? 2 : 1), s->scale), zeros = list_of(rows * groups, s->scale);
    uint64_t seed = out + in;
    for (size_t r = 0; r < rows; r++)
        for (size_t g = 0; g < groups; g++) {
            const size_t at = g * rows + r;
            const float wanted = 0.001f * (float)(1 + next(&seed) % 30),
                        off = 0.01f * (float)((int)(next(&seed) % 41) - 20);
            const float scale = put(&scales, tiles ? 2 * at : at, wanted),
                        zero = put(tiles ? &scales : &zeros, tiles ? 2 * at + 1 : at, off);
            for (size_t c = g * s->group; c < (g + 1) * s->group; c++) {
                q[r * cols + c] = (uint8_t)(next(&seed) & 15);
                if (r < out && c < in)
                    values[r * in + c] = (float)q[r * cols + c] * half(scale) + half(zero - 8 * scale);
            }
        }
    if (tiles) {
        tile_words(packed, q, rows, cols);
        char full[300];
        snprintf(full, sizeof full, "%.*s_weight_qdata", (int)(strlen(name) - strlen("weight")), name);
        int4_add(quant, full, "I32", 4, (const size_t[]){rows / 8, cols / 128, 32, 4}, packed, rows * cols / 2);
        snprintf(full, sizeof full, "%.*s_weight_scale_and_zero", (int)(strlen(name) - strlen("weight")), name);
        int4_add(quant, full, s->scale, 3, (const size_t[]){groups, rows, 2}, scales.data,
                 2 * rows * groups * scales.size);
    } else {
        for (size_t i = 0; i < rows * cols; i++)
            packed[i / 2] = (uint8_t)(packed[i / 2] | ((q[i] - 8) & 15) << (i % 2 ? 4 : 0));
        add_part(quant, name, "_weight_qdata", "I8", rows, cols / 2, packed, rows * cols / 2);
        add_part(quant, name, "_weight_scale", s->scale, groups, rows, scales.data, rows * groups * scales.size);
        add_part(quant, name, "_weight_zero_point", s->scale, groups, rows, zeros.data, rows * groups * zeros.size);
    }
    free(q);
    free(packed);
    free(scales.data);
    free(zeros.data);
}

/* torchao's bytes, with 8 or 4 bits in use. */
static void
add_bytes(int4_file *quant, const char *name, size_t out, size_t in, const scheme *s, float *values)
{
    const size_t group = s->group ? s->group : in, groups = in / group;
    int8_t *q = calloc(out * in, 1), *zeros = calloc(out * groups, 1);
    list scales = list_of(out * groups, s->scale);
    uint64_t seed = out * 5 + in;
    for (size_t i = 0; i < out * in; i++) {
        const size_t g = i / group;
        if (i % group == 0) {
            put(&scales, g, 0.001f * (float)(1 + next(&seed) % 30));
            zeros[g] = (int8_t)(s->form == FEW_BITS     ? (int)(next(&seed) % 9) - 4
                                : s->form == WITH_ZEROS ? (int)(next(&seed) % 99) - 40
                                                        : 0);
        }
        q[i] = (int8_t)(s->form == FEW_BITS ? (int)(next(&seed) & 15) - 8 : (int)(next(&seed) & 255) - 128);
        const float scale = int4_value(s->scale, scales.data, g), v = (float)(q[i] - zeros[g]);
        values[i] = s->type == DOP_TYPE_f16 ? half(scale * v) : half(scale) * v;
    }
    add_part(quant, name, "_weight_qdata", "I8", out, in, q, out * in);
    add_part(quant, name, "_weight_scale", s->scale, out, groups, scales.data, out * groups * scales.size);
    add_part(quant, name, "_weight_zero_point", "I8", out, groups, zeros, out * groups);
    free(q);
    free(zeros);
    free(scales.data);
}

static void
add_float8(int4_file *quant, const char *name, size_t out, size_t in, const scheme *s, float *values)
{
    const size_t rows = s->form == FLOAT8             ? out
                        : s->form == FLOAT8_EXPONENTS ? 128
                                                      : 1,
                 cols = s->group ? s->group : in;
    const size_t down = up(out, rows) / rows, across = up(in, cols) / cols;
    uint8_t *q = calloc(out * in, 1);
    list scales = list_of(down * across, s->scale);
    uint64_t seed = out * 3 + in;
    for (size_t i = 0; i < down * across; i++)
        put(&scales, i, 0.0005f * (float)(1 + next(&seed) % 30));
    for (size_t i = 0; i < out * in; i++) {
        const size_t t = i / in / rows * across + i % in / cols;
        q[i] = (uint8_t)(next(&seed) % 127 + 128 * (next(&seed) & 1));
        values[i] =
            (scales.size == 1 ? ldexpf(1, scales.data[t] - 127) : int4_value(s->scale, scales.data, t)) * e4m3(q[i]);
    }
    const bool ao = s->form == ROWS8, scalar = s->form == FLOAT8;
    add_part(quant, name, ao ? "_weight_qdata" : "weight", "F8_E4M3", out, in, q, out * in);
    add_part(quant, name,
             ao                            ? "_weight_scale"
             : s->form == FLOAT8_EXPONENTS ? "weight_scale_inv"
                                           : "weight_scale",
             s->scale, down, scalar ? 0 : across, scales.data, down * across * scales.size);
    if (scalar) {
        const float one = 1;
        add_part(quant, name, "input_scale", "F32", 1, 0, &one, 4);
        add_part(quant, name, "output_scale", "F32", 1, 0, &one, 4);
    }
    free(q);
    free(scales.data);
}

static void
add_mxfp4(int4_file *quant, const char *name, size_t out, size_t in, const scheme *s, float *values)
{
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    uint8_t *q = calloc(out * in / 2, 1), *scales = calloc(out * in / 32, 1);
    uint64_t seed = out * 11 + in;
    for (size_t i = 0; i < out * in; i++) {
        if (i % 32 == 0)
            scales[i / 32] = (uint8_t)(110 + next(&seed) % 20);
        const uint32_t code = next(&seed) & 15;
        q[i / 2] = (uint8_t)(q[i / 2] | code << (i % 2 ? 4 : 0));
        values[i] = ldexpf(code & 8 ? -e2m1[code & 7] : e2m1[code & 7], scales[i / 32] - 127);
    }
    add_part(quant, name, s->form == MX4 ? "weight" : "weight_packed", "U8", out, in / 2, q, out * in / 2);
    add_part(quant, name, "weight_scale", s->scale, out, in / 32, scales, out * in / 32);
    free(q);
    free(scales);
}

/* compressed-tensors' actorder "group": column c is of group order[c]. */
static void
add_ordered(int4_file *quant, const char *name, size_t out, size_t in, const scheme *s, float *values)
{
    const size_t groups = in / s->group;
    uint8_t *q = calloc(out * in / 2, 1), *zeros = calloc(up(out, 8) / 8 * groups, 4);
    int32_t *order = calloc(in, 4);
    list scales = list_of(out * groups, s->scale);
    uint64_t seed = out * 13 + in;
    for (size_t i = 0; i < in; i++)
        order[i] = (int32_t)(i * 7 % in / s->group);
    for (size_t o = 0; o < out; o++)
        for (size_t g = 0; g < groups; g++) {
            put(&scales, o * groups + g, 0.001f * (float)(1 + next(&seed) % 30));
            const size_t at = (o / 8 * groups + g) * 4 + o % 8 / 2;
            zeros[at] = (uint8_t)(zeros[at] | (o + g) % 16 << (o % 2 ? 4 : 0));
        }
    for (size_t i = 0; i < out * in; i++) {
        const uint32_t code = next(&seed) & 15;
        const size_t o = i / in, g = (size_t)order[i % in];
        q[i / 2] = (uint8_t)(q[i / 2] | code << (i % 2 ? 4 : 0));
        values[i] = half(int4_value(s->scale, scales.data, o * groups + g) * (float)((int)code - (int)((o + g) % 16)));
    }
    add_part(quant, name, "weight_packed", "I32", out, in / 8, q, out * in / 2);
    add_part(quant, name, "weight_scale", s->scale, out, groups, scales.data, out * groups * scales.size);
    add_part(quant, name, "weight_zero_point", "I32", out / 8, groups, zeros, up(out, 8) / 8 * groups * 4);
    add_part(quant, name, "weight_g_idx", "I32", in, 0, order, in * 4);
    free(q);
    free(zeros);
    free(order);
    free(scales.data);
}

static bool
convert(int4_file *quant, int4_file *plain, const char *name, size_t rank, const size_t *shape, const json_t *config,
        const void *user)
{
    const scheme *s = user;
    const bool ao = s->form <= ROWS8, embed = s->form == BYTES && strstr(name, "embed_tokens.weight");
    (void)config;
    if (rank != 2 || (!strstr(name, "_proj.weight") && !embed && !(ao && strstr(name, "lm_head.weight"))))
        return false;
    float *values = calloc(shape[0] * shape[1], sizeof *values);
    void (*add)(int4_file *, const char *, size_t, size_t, const scheme *, float *) = s->form <= TILES ? add_int4
                                                                                      : s->form <= WITH_ZEROS
                                                                                          ? add_bytes
                                                                                      : s->form <= MX8     ? add_float8
                                                                                      : s->form == ORDERED ? add_ordered
                                                                                                           : add_mxfp4;
    add(quant, name, shape[0], shape[1], s, values);
    int4_add(plain, name, "F32", 2, shape, values, shape[0] * shape[1] * sizeof *values);
    free(values);
    return true;
}

static void
make(const char *model, const scheme *s, const char *dir, const char *plain_dir)
{
    const char *method = s->form <= ROWS8                      ? "torchao"
                         : s->form == FLOAT8 || s->form == MX4 ? "quark"
                                                               : "compressed-tensors";
    json_t *said = json_pack("{s:s, s:{s:s}, s:b, s:n}", "quant_method", method, "quant_type", "default", "unknown",
                             "modules", 1, "exclude");
    codes_make(model, convert, s, said, dir, plain_dir);
}

Test(import_torchao, values)
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

/* One line each, which names what is wrong. */
Test(import_torchao, damaged)
{
    static const struct {
        form form;
        const char *from, *to, *message;
    } cases[] = {
        {NIBBLES, "q_proj._weight_scale", "q_proj._weight_scalX",
         "tensor model.layers.0.self_attn.q_proj._weight_scale is missing"},
        {NIBBLES, "q_proj._weight_qdata\":{\"dtype\":\"I8\"", "q_proj._weight_qdata\":{\"dtype\":\"F8\"", "dtype"},
        {TILES, "32,4],", "4,32],", "is not a matrix of 4 bits in tiles"},
        {TILES, "64,2],", "2,64],", "are not the scales and zeros of all groups"},
        {BYTES, "q_proj._weight_zero_point\":{\"dtype\":\"I8\"", "q_proj._weight_zero_point\":{\"dtype\":\"U8\"",
         "are zero points, which are supported for 4 bits and as I8"},
        {BYTES, "_weight_qdata\":{\"dtype\":\"I8\"", "_weight_qdata\":{\"dtype\":\"U8\"",
         "is of torchao's MXTensor or NVFP4Tensor, which are not supported"},
        {FEW_BITS, "q_proj._weight_qdata", "q_proj._weight_qdatX",
         "tensor model.layers.0.self_attn.q_proj.weight is missing"},
        {MX4, "q_proj.weight_scale\":{\"dtype\":\"U8\",\"shape\":[64,2]",
         "q_proj.weight_scale\":{\"dtype\":\"U8\",\"shape\":[2,64]", "q_proj.weight_scale"},
        {MX8, "q_proj.weight_scale", "q_proj.weight_scalX",
         "tensor model.layers.0.self_attn.q_proj.weight_scale is missing"},
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

/* Scales of a quantized cache lie beside matrices that may not be quantized; a note counts them. */
static bool
cache_scales(int4_file *quant, int4_file *plain, const char *name, size_t rank, const size_t *shape,
             const json_t *config, const void *user)
{
    static const char *const names[] = {"k_scale", "v_scale", "k_proj.k_scale", "v_proj.output_scale", "attn.k_scale"};
    const float one = 1;
    (void)rank, (void)shape, (void)config, (void)user, (void)plain;
    for (size_t i = 0; strstr(name, "q_proj.weight") && i < sizeof names / sizeof *names; i++) {
        char full[300];
        snprintf(full, sizeof full, "%.*s%s", (int)(strlen(name) - strlen("q_proj.weight")), name, names[i]);
        int4_add(quant, full, "F32", 1, (const size_t[]){1}, &one, 4);
    }
    return false;
}

Test(import_torchao, scales_of_a_cache)
{
    util_model u;
    scratch dir = scratch_make(), plain_dir = scratch_make();
    codes_make("llama", cache_scales, NULL,
               json_pack("{s:s, s:{s:i}, s:[s]}", "quant_method", "compressed-tensors", "kv_cache_scheme", "num_bits",
                         8, "ignore", "re:.*"),
               dir.dir, plain_dir.dir);
    util_model_open(&u, dir.dir, 16);
    cr_expect(u.m.note && strstr(u.m.note, "scales of a quantized cache or of attention"), "%s",
              u.m.note ? u.m.note : "no note");
    util_model_close(&u);
    scratch_remove(&dir);
    scratch_remove(&plain_dir);
}
