/* AWQ and GPTQ checkpoints: values, logits, packed bytes, and what is refused. */
#include "compiler/pack/pack.h"
#include "compiler/pack/pack_rows.h"
#include "kernels/emit/weight_types.h"
#include "tests/tools/int4_model.h"
#include "tests/unit/import_util.h"
#include "tests/unit/model_util.h"

typedef struct pair {
    scratch quant, plain;
} pair;

static pair
make_pair(const char *model, const int4_kind *k)
{
    pair p = {scratch_make(), scratch_make()};
    char source[512];
    snprintf(source, sizeof source, GOLDEN "/%s", model);
    cr_assert(int4_make(source, k, p.quant.dir, p.plain.dir), "%s as %s", model, k->name);
    return p;
}

static void
remove_pair(pair *p)
{
    scratch_remove(&p->quant);
    scratch_remove(&p->plain);
}

/* Packed bytes of a weight as its type, and as another. */
static void
compare_packed(const dop_checkpoint *m, const dop_weight *w, const dop_weight *same)
{
    static const dop_type types[] = {DOP_TYPE_none, DOP_TYPE_f16, DOP_TYPE_q8_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        dop_pack p;
        dop_diag diag = {0};
        dop_packed item = {.name = w->name, .type = types[i] ? types[i] : w->type, .rows = w->rows, .cols = w->cols};
        dop_pack_init(&p, m, 16);
        item.source = w;
        item.size = dop_packed_bytes(item.type, w->rows, w->cols);
        cr_assert(dop_type_row_bytes(item.type, dop_packed_row_values(item.type, w->cols), &item.row_bytes));
        uint8_t *a = malloc(item.size), *b = malloc(item.size);
        cr_assert_eq(dop_pack_write(&p, &item, a, &diag), DOP_OK, "%s", diag.message);
        item.source = same;
        cr_assert_eq(dop_pack_write(&p, &item, b, &diag), DOP_OK, "%s", diag.message);
        cr_expect(memcmp(a, b, item.size) == 0, "%s packed as %s", w->name, dop_type_of(item.type)->name);
        free(a);
        free(b);
        dop_pack_finish(&p);
    }
}

/* Every weight decodes to the values of the plain model, exactly; packed from the parts or from blocks it is the same. */
static void
compare_weights(const util_model *u, const util_model *plain, dop_type expected)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < u->m.weights.n; i++) {
        const dop_weight *w = &u->m.weights.items[i], *x = dop_weights_find(&plain->m.weights, w->name);
        cr_assert(x && x->rows == w->rows && x->cols == w->cols, "%s", w->name);
        float *a = malloc(w->cols * sizeof *a), *b = malloc(w->cols * sizeof *b);
        for (uint32_t r = 0; r < w->rows; r++) {
            dop_weight_row(w, r, a);
            dop_weight_row(x, r, b);
            for (uint32_t c = 0; c < w->cols && w->parts && w->type == DOP_TYPE_f16; c++)
                b[c] = dop_f16_to_f32(dop_f32_to_f16(b[c]));
            cr_assert(memcmp(a, b, w->cols * sizeof *a) == 0, "%s row %u", w->name, r);
        }
        free(a);
        free(b);
        if (!w->parts)
            continue;
        n += w->type == expected;
        dop_weight blocks = *w;
        uint8_t *data = NULL;
        cr_assert(dop_type_row_bytes(w->type, w->cols, &blocks.row_stride));
        data = malloc(w->rows * blocks.row_stride);
        dop_int4_rows(w, 0, w->rows, data);
        blocks.parts = NULL;
        blocks.data = data;
        compare_packed(&u->m, w, &blocks);
        free(data);
    }
    cr_expect(n > 0, "no weight is %s", dop_type_of(expected)->name);
}

/* The interpreter sees equal values and so gives equal logits. */
static void
compare_logits(util_model *u, util_model *plain)
{
    static const uint32_t ids[] = {1, 17, 300, 5, 5, 44, 121};
    enum { N = sizeof ids / sizeof *ids };
    const size_t vocab = u->m.arch.vocab;
    float *a = malloc(N * vocab * sizeof *a), *b = malloc(N * vocab * sizeof *b);
    util_step(u, DOP_PHASE_SCORE, ids, N, 0, a);
    util_step(plain, DOP_PHASE_SCORE, ids, N, 0, b);
    cr_expect(memcmp(a, b, N * vocab * sizeof *a) == 0);
    cr_expect(util_worst(a, a + vocab, vocab) > 1e-3, "the logits say something");
    free(a);
    free(b);
}

Test(import_int4, values_and_logits)
{
    static const struct {
        const char *model;
        int4_kind kind;
        dop_type type;
    } cases[] = {
        {"llama", {"awq", 32, 0, 0}, DOP_TYPE_int4_g32},
        {"llama", {"gptq", 32, 0, 0}, DOP_TYPE_int4_g32},
        {"llama", {"gptq_v2", 32, 0, 0}, DOP_TYPE_int4_g32},
        {"llama", {"gptq", 32, INT4_SYMMETRIC, 0}, DOP_TYPE_int4_g32},
        {"llama", {"gptq", 64, 0, 0}, DOP_TYPE_int4_g64},   /* 160 inputs: the last group is not full */
        {"llama", {"gptq", 128, 0, 0}, DOP_TYPE_int4_g128}, /* 64 inputs: nor is the only one */
        {"llama", {"awq", -1, 0, 0}, DOP_TYPE_int4_g64},    /* whole rows of 64, and of 160 in groups of 32 */
        {"llama", {"gptq", -1, 0, 0}, DOP_TYPE_int4_g32},
        {"llama_hd384_stream", {"gptq", -1, 0, 0}, DOP_TYPE_int4_g128},
        {"llama_hd384_stream", {"gptq", 256, INT4_SYMMETRIC, 0}, DOP_TYPE_int4_g128},
        {"phi3", {"awq", 32, 0, 0}, DOP_TYPE_int4_g32}, /* fused tensors */
        {"phi3", {"gptq", 64, 0, 0}, DOP_TYPE_int4_g64},
        {"qwen2", {"gptq", 32, 0, 0}, DOP_TYPE_int4_g32}, /* biases */
        {"llama", {"gptq", 32, 0, 2}, DOP_TYPE_int4_g32},
        {"llama", {"gptq_v2", 64, 0, 3}, DOP_TYPE_int4_g64},
        {"llama", {"gptq", 32, INT4_SYMMETRIC, 3}, DOP_TYPE_int4_g32},
        {"llama", {"gptq", 32, INT4_SYMMETRIC, 8}, DOP_TYPE_q8_0},
        {"llama", {"gptq", 32, 0, 8}, DOP_TYPE_f16},
        {"llama", {"gptq", 32, INT4_ACT_ORDER, 0}, DOP_TYPE_f16},
        {"llama", {"gptq", 32, INT4_ACT_ORDER | INT4_SYMMETRIC, 8}, DOP_TYPE_f16},
        {"phi3", {"gptq", 32, INT4_ACT_ORDER, 3}, DOP_TYPE_f16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        util_model u, plain;
        pair p = make_pair(cases[i].model, &cases[i].kind);
        util_model_open(&u, p.quant.dir, 16);
        util_model_open(&plain, p.plain.dir, 16);
        compare_weights(&u, &plain, cases[i].type);
        if (cases[i].type != DOP_TYPE_f16) /* which is rounded */
            compare_logits(&u, &plain);
        util_model_close(&u);
        util_model_close(&plain);
        remove_pair(&p);
    }
}

/* model.safetensors of a scratch directory with a bias of f16 values more. */
static void
add_bias(scratch *s, const uint16_t *values, uint32_t n)
{
    dop_buf b = golden_file(s->dir, "model.safetensors");
    const size_t header = (size_t)st_header_size(&b), data = b.size - 8 - header;
    json_t *root = json_loadb(b.data + 8, header, 0, NULL);
    cr_assert(root);
    json_object_set_new(root, "model.layers.0.self_attn.q_proj.bias",
                        json_pack("{s:s, s:[i], s:[I, I]}", "dtype", "F16", "shape", (int)n, "data_offsets",
                                  (json_int_t)data, (json_int_t)(data + n * sizeof *values)));
    char *text = json_dumps(root, JSON_COMPACT);
    dop_buf all = {0};
    dop_buf_append(&all, b.data + 8 + header, data);
    dop_buf_append(&all, values, n * sizeof *values);
    dop_buf out = st_bytes(text, strlen(text), strlen(text), all.data, all.size);
    scratch_write(s, "model.safetensors", out.data, out.size);
    free(text);
    json_decref(root);
    dop_buf_finish(&all);
    dop_buf_finish(&out);
    dop_buf_finish(&b);
}

/* A quantizer's bias of zeros is no bias; one with a value is, and the model has none. */
Test(import_int4, bias_of_zeros)
{
    const int4_kind kind = {"gptq", 32, 0, 0};
    uint16_t values[64] = {0};
    for (unsigned some = 0; some < 2; some++) {
        pair p = make_pair("llama", &kind);
        values[63] = some ? 0x3c00 : 0;
        add_bias(&p.quant, values, 64);
        if (some) {
            expect_failure(p.quant.dir, "model.safetensors",
                           "tensor model.layers.0.self_attn.q_proj.bias: config.json says nothing of it, so leaving it "
                           "out would compile another model",
                           0, 0);
        } else {
            util_model u;
            util_model_open(&u, p.quant.dir, 16);
            cr_expect_str_eq(u.m.note, "tensors not used: 1 biases that a quantizer wrote, all zero");
            util_model_close(&u);
        }
        remove_pair(&p);
    }
}

/* ---- refused ------------------------------------------------------------------------------------------------------ */

#define Q "{\"quantization_config\": {\"<merge>\": 1, "
#define UP "model.layers.0.mlp.up_proj."

static const struct {
    const char *kind, *config, *tensors; /* patches of config.json and of the header of model.safetensors, or NULL */
    const char *file, *message;
} refused[] = {
    {"awq", Q "\"quant_method\": \"eetq\"}}", NULL, "config.json",
     "quantization_config.quant_method \"eetq\" is not supported; known: awq, gptq, mxfp4, fp8, fbgemm_fp8, "
     "compressed-tensors, modelopt, quark, torchao, bitsandbytes, hqq, auto-round, and MLX's quantization"},
    {"awq", Q "\"quant_method\": \"<delete>\"}}", NULL, "config.json",
     "quantization_config.quant_method \"\" is not supported; known: awq, gptq, mxfp4, fp8, fbgemm_fp8, "
     "compressed-tensors, modelopt, quark, torchao, bitsandbytes, hqq, auto-round, and MLX's quantization"},
    {"awq", "{\"quantization_config\": 7}", NULL, "config.json",
     "quantization_config is an integer, expected an object"},
    {"gptq", Q "\"bits\": 5}}", NULL, "config.json", "quantization_config.bits is 5; 2, 3, 4 and 8 bits are supported"},
    {"gptq", Q "\"bits\": \"<delete>\"}}", NULL, "config.json", "quantization_config.bits is missing"},
    {"awq", Q "\"group_size\": 48}}", NULL, "config.json",
     "quantization_config.group_size is 48; groups of 32, 64, 128 or another multiple of 32 and -1 (whole rows) are "
     "supported"},
    {"awq", Q "\"group_size\": 0}}", NULL, "config.json",
     "quantization_config.group_size is 0; groups of 32, 64, 128 or another multiple of 32 and -1 (whole rows) are "
     "supported"},
    {"awq", Q "\"version\": \"gemv_fast\"}}", NULL, "config.json",
     "quantization_config.version \"gemv_fast\" is not supported; known: gemm, gemv"},
    {"awq", Q "\"zero_point\": false}}", NULL, "config.json", "quantization_config.zero_point false is not supported"},
    {"gptq", Q "\"checkpoint_format\": \"marlin\"}}", NULL, "config.json",
     "quantization_config.checkpoint_format \"marlin\" is not supported; known: gptq, gptq_v2"},
    {"gptq", Q "\"pack_dtype\": \"int16\"}}", NULL, "config.json",
     "quantization_config.pack_dtype \"int16\" is not supported; known: int32"},
    {"gptq", Q "\"dynamic\": {\"+:.*down.*\": {\"bits\": 8}}}}", NULL, "config.json",
     "quantization_config.dynamic (settings by layer) is not supported"},
    {"gptq", Q "\"quant_method\": \"auto-round\", \"packing_format\": \"auto_round:llm_compressor\"}}", NULL,
     "config.json",
     "quantization_config.packing_format \"auto_round:llm_compressor\" is not supported; known: auto_round:auto_gptq, "
     "auto_round:auto_awq"},
    {"gptq", Q "\"quant_method\": \"auto-round\", \"extra_config\": {\"lm_head\": {\"bits\": 8}}}}", NULL,
     "config.json", "quantization_config.extra_config: lm_head has bits of its own, which is not supported"},
    {"gptq", Q "\"desc_act\": true}}", "{\"" UP "g_idx\": \"<delete>\"}", "model.safetensors",
     "tensor " UP "g_idx is missing"},
    /* A wider group than the tensors were made with. */
    {"gptq", Q "\"group_size\": 64}}", NULL, "model.safetensors",
     "tensor model.layers.0.self_attn.q_proj.qzeros: shape [2, 8], expected [1, 8] by config.json"},
    {"gptq", NULL, "{\"" UP "qweight\": {\"<merge>\": 1, \"shape\": [160, 8]}}", "model.safetensors",
     "tensor " UP "qweight: shape [160, 8], expected [8, 160] by config.json"},
    {"awq", NULL, "{\"" UP "qweight\": {\"<merge>\": 1, \"dtype\": \"F32\"}}", "model.safetensors",
     "tensor " UP "qweight: dtype F32 is not supported; known: I32"},
    {"awq", NULL, "{\"" UP "qzeros\": {\"<merge>\": 1, \"shape\": [20, 2]}}", "model.safetensors",
     "tensor " UP "qzeros: shape [20, 2], expected [2, 20] by config.json"},
    {"awq", NULL, "{\"" UP "qzeros\": \"<delete>\"}", "model.safetensors", "tensor " UP "qzeros is missing"},
    {"gptq", NULL, "{\"" UP "scales\": \"<delete>\"}", "model.safetensors", "tensor " UP "scales is missing"},
    {"gptq", NULL, "{\"" UP "qweight\": \"<delete>\"}", "model.safetensors", "tensor " UP "qweight is missing"},
    {"gptq", NULL, "{\"" UP "scales\": {\"<merge>\": 1, \"dtype\": \"I16\"}}", "model.safetensors",
     "tensor " UP "scales: dtype I16 is not supported; known: F32, F16, BF16"},
};

Test(import_int4, refused)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        pair p = make_pair("llama", &(int4_kind){refused[i].kind, 32, 0, 0});
        if (refused[i].config)
            scratch_config(&p.quant, p.quant.dir, refused[i].config);
        if (refused[i].tensors)
            scratch_tensors(&p.quant, p.quant.dir, refused[i].tensors);
        expect_failure(p.quant.dir, refused[i].file, refused[i].message, 0, 0);
        remove_pair(&p);
    }
}

/* Bytes of a tensor of the scratch model, to change. */
static uint8_t *
tensor_bytes(dop_buf *b, const char *name)
{
    uint64_t n = st_header_size(b);
    json_t *root = json_loadb(b->data + 8, n, 0, NULL);
    json_int_t begin = -1;
    cr_assert_eq(json_unpack(root, "{s:{s:[I]}}", name, "data_offsets", &begin), 0, "%s", name);
    json_decref(root);
    return (uint8_t *)b->data + 8 + n + begin;
}

Test(import_int4, refused_values)
{
    static const struct {
        const char *tensor, *message;
        size_t at;
        uint8_t bytes[2];
    } cases[] = {
        {UP "scales", "tensor " UP "scales: the scale inf does not fit f16", 2 * 7, {0x00, 0x7c}},
        {UP "scales", "tensor " UP "scales: the scale nan does not fit f16", 2 * 7, {0x00, 0x7e}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pair p = make_pair("llama", &(int4_kind){"gptq", 32, 0, 0});
        dop_buf b = golden_file(p.quant.dir, "model.safetensors");
        memcpy(tensor_bytes(&b, cases[i].tensor) + cases[i].at, cases[i].bytes, 2);
        scratch_write(&p.quant, "model.safetensors", b.data, b.size);
        expect_failure(p.quant.dir, "model.safetensors", cases[i].message, 0, 0);
        dop_buf_finish(&b);
        remove_pair(&p);
    }
}

/* 160 inputs and groups of 64: GPTQ's last group is short, AWQ has no such thing. */
Test(import_int4, refused_short_group)
{
    pair p = make_pair("llama", &(int4_kind){"awq", 64, 0, 0});
    expect_failure(p.quant.dir, "model.safetensors",
                   "tensor model.layers.0.mlp.down_proj.qweight: 64 outputs of 160 inputs do not fill words and "
                   "groups of 64",
                   0, 0);
    remove_pair(&p);
}

/* A group that is not there. */
Test(import_int4, refused_order)
{
    pair p = make_pair("llama", &(int4_kind){"gptq", 32, INT4_ACT_ORDER, 0});
    dop_buf file = golden_file(p.quant.dir, "model.safetensors");
    static const uint8_t from[8] = {4, 0, 0, 0, 4, 0, 0, 0}, to[8] = {5, 0, 0, 0, 5, 0, 0, 0};
    uint8_t *at = memmem(file.data, file.size, from, sizeof from); /* down_proj has 160 inputs in five groups */
    cr_assert(at);
    memcpy(at, to, sizeof to);
    char path[600];
    snprintf(path, sizeof path, "%s/model.safetensors", p.quant.dir);
    cr_assert_eq(dop_write_file(path, file.data, file.size, NULL), DOP_OK);
    expect_failure(p.quant.dir, "model.safetensors",
                   "tensor model.layers.0.mlp.down_proj.g_idx: group 5 of input 0 is not there", 0, 0);
    dop_buf_finish(&file);
    remove_pair(&p);
}

/* The quantized model has the weights of the plain one, in groups of 32; removes both. */
static void
compare_pair(pair *p)
{
    util_model u, plain;
    util_model_open(&u, p->quant.dir, 16);
    util_model_open(&plain, p->plain.dir, 16);
    compare_weights(&u, &plain, DOP_TYPE_int4_g32);
    util_model_close(&u);
    util_model_close(&plain);
    remove_pair(p);
}

/* desc_act as a word changes nothing where the inputs are in order; without zero points they are all 8. */
Test(import_int4, harmless_variations)
{
    pair p = make_pair("llama", &(int4_kind){"gptq", 32, INT4_SYMMETRIC, 0});
    scratch_config(&p.quant, p.quant.dir, Q "\"desc_act\": true}}");
    scratch_tensors(&p.quant, p.quant.dir, "{\"" UP "qzeros\": \"<delete>\"}");
    compare_pair(&p);
}

/* Zero points of symmetric matrices that are stored as they are, under the name of the format that stores them minus 1. */
Test(import_int4, symmetric_zero_points_as_they_are)
{
    static const struct {
        unsigned bits;
        dop_type type;
    } cases[] = {{0, DOP_TYPE_int4_g32}, {2, DOP_TYPE_int4_g32}, {3, DOP_TYPE_int4_g32}, {8, DOP_TYPE_q8_0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pair p = make_pair("llama", &(int4_kind){"gptq_v2", 32, INT4_SYMMETRIC, cases[i].bits});
        util_model u, plain;
        scratch_config(&p.quant, p.quant.dir, Q "\"checkpoint_format\": \"gptq\"}}");
        util_model_open(&u, p.quant.dir, 16);
        util_model_open(&plain, p.plain.dir, 16);
        compare_weights(&u, &plain, cases[i].type);
        util_model_close(&u);
        util_model_close(&plain);
        remove_pair(&p);
    }
}

/* AutoRound's name for GPTQ's and AWQ's packing. */
Test(import_int4, auto_round)
{
    static const struct {
        const char *kind, *config;
    } cases[] = {
        {"gptq", Q "\"quant_method\": \"auto-round\", \"packing_format\": \"auto_round:auto_gptq\"}}"},
        {"gptq", Q "\"quant_method\": \"intel/auto-round\", \"backend\": \"auto_round:gptq:exllamav2\","
                   " \"extra_config\": {\"lm_head\": {\"bits\": 16, \"data_type\": \"float\"}}}}"},
        {"awq", Q "\"quant_method\": \"auto-round\", \"packing_format\": \"auto_round:auto_awq\"}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pair p = make_pair("llama", &(int4_kind){cases[i].kind, 32, 0, 0});
        scratch_config(&p.quant, p.quant.dir, cases[i].config);
        compare_pair(&p);
    }
}

/* Quantizers of before config.json had the field wrote a file of their own; another program's file of that name says nothing. */
Test(import_int4, settings_beside)
{
    static const struct {
        const char *kind, *file, *text;
    } cases[] = {
        {"gptq", "quantize_config.json",
         "{\"bits\": 4, \"group_size\": 32, \"desc_act\": false, \"damp_percent\": 0.01}"},
        {"awq", "quant_config.json",
         "{\"zero_point\": true, \"q_group_size\": 32, \"w_bit\": 4, \"version\": \"GEMM\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pair p = make_pair("llama", &(int4_kind){cases[i].kind, 32, 0, 0});
        scratch_config(&p.quant, p.quant.dir, "{\"quantization_config\": \"<delete>\"}");
        scratch_text(&p.quant, cases[i].file, "{\"per_channel\": true}");
        expect_failure(p.quant.dir, "model.safetensors", "tensor model.layers.0.self_attn.q_proj.weight is missing", 0,
                       0);
        scratch_text(&p.quant, cases[i].file, cases[i].text);
        compare_pair(&p);
    }
}
