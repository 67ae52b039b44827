/* RDRR import: golden models rewritten as RDRR give the golden weights; published manifests are understood or refused by
 * name; damaged manifests and shards give their message. */
#include "compiler/schedule/kernel_path.h"
#include "frontend/rdrr/config.h"
#include "frontend/rdrr/import.h"
#include "frontend/rdrr/manifest.h"
#include "frontend/rdrr/path.h"
#include "frontend/rdrr/rdrr.h"
#include "ir/interp/interp.h"
#include "tests/unit/import_util.h"
#include "tests/unit/model_util.h"
#include "tests/unit/rdrr_writer.h"

/* ---- golden models as RDRR ---------------------------------------------------------------------------------------- */

/* The manifest of a golden model; its shards lie in `s`. */
static json_t *
convert(scratch *s, const char *model, size_t shard_size)
{
    char dir[512];
    snprintf(dir, sizeof dir, GOLDEN "/%s", model);
    return rdrr_convert(dir, s->dir, shard_size);
}

Test(import_rdrr, golden_logits)
{
    static const char *const models[] = {"llama", "mistral_window", "gemma", "gemma2", "gemma3", "qwen2",
                                         "qwen3", "granite",        "olmo2", "gemma4", "lfm2",   "qwen3_5"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        scratch s = scratch_make();
        util_model u;
        char path[600];
        json_t *manifest = convert(&s, models[i], 10000);
        scratch_json(&s, "manifest.json", manifest);
        snprintf(path, sizeof path, GOLDEN "/%s/expected.json", models[i]);
        json_t *root = util_json_open(path);
        util_ids prompt = util_ids_of(json_object_get(root, "prompt"));
        double std = json_number_value(json_object_get(root, "logits_std"));
        snprintf(path, sizeof path, GOLDEN "/%s/logits.f32", models[i]);
        float *want = util_floats(path, (size_t)prompt.n * 320), *got = calloc((size_t)prompt.n * 320, sizeof *got);
        util_model_open(&u, s.dir, prompt.n);
        if (strcmp(models[i], "granite") == 0) /* its attention multiplier as a query scale */
            cr_expect_float_eq(u.m.arch.layers[0].mixers[0].attn.scale, 0.0625, 1e-12);
        util_step(&u, DOP_PHASE_SCORE, prompt.id, prompt.n, 0, got);
        double worst = util_worst(got, want, (size_t)prompt.n * 320) / std;
        cr_expect(worst < 5e-4, "%s: worst logit differs by %.3g standard deviations", models[i], worst);
        cr_expect_str_eq(u.m.name, "golden");
        cr_expect(u.m.arch.n_end_ids == 1 && u.m.arch.end_ids[0] == 2 && !u.m.note);
        util_model_close(&u);
        scratch_remove(&s);
        json_decref(manifest);
        json_decref(root);
        free(want);
        free(got);
    }
}

/* The same tensors in a file of their own, version as a string, hashes of a kind that is not checked. */
Test(import_rdrr, other_forms)
{
    scratch s = scratch_make();
    util_model u;
    json_t *manifest = convert(&s, "llama", 50000);
    scratch_json(&s, "tensors.json", json_object_get(manifest, "tensors"));
    json_object_del(manifest, "tensors");
    json_object_del(manifest, "totalSize");
    json_object_set_new(manifest, "tensorsFile", json_string("tensors.json"));
    json_object_set_new(manifest, "version", json_string("1.0"));
    json_object_set_new(manifest, "hashAlgorithm", json_string("blake3"));
    json_object_set_new(manifest, "groups", json_pack("{s:{s:[s]}}", "head", "tensors", "lm_head.weight"));
    scratch_json(&s, "manifest.json", manifest);
    util_model_open(&u, s.dir, 16);
    cr_expect_str_eq(u.m.note, "shards not verified: their hashes are blake3, only sha256 is checked");
    util_model_close(&u);
    scratch_remove(&s);
    json_decref(manifest);
}

/* Matrices stored column by column. */
Test(import_rdrr, column_layout)
{
    scratch s = scratch_make();
    util_model plain, turned;
    dop_buf whole = {0};
    json_t *manifest = convert(&s, "llama", 1 << 20);
    scratch_json(&s, "manifest.json", manifest);
    util_model_open(&plain, s.dir, 16);
    whole = golden_file(s.dir, "shard_00000.bin");
    json_t *t = json_object_get(json_object_get(manifest, "tensors"), "model.layers.1.mlp.up_proj.weight");
    size_t at = (size_t)json_integer_value(json_object_get(t, "offset"));
    uint16_t *old = malloc(160 * 64 * 2), *now = (uint16_t *)(void *)(whole.data + at);
    memcpy(old, now, 160 * 64 * 2);
    for (size_t r = 0; r < 160; r++)
        for (size_t c = 0; c < 64; c++)
            memcpy(whole.data + at + 2 * (c * 160 + r), &old[r * 64 + c], 2);
    free(old);
    json_object_set_new(t, "layout", json_string("col"));
    char hex[65];
    sha256_hex(whole.data, whole.size, hex);
    json_object_set_new(json_array_get(json_object_get(manifest, "shards"), 0), "hash", json_string(hex));
    scratch_write(&s, "shard_00000.bin", whole.data, whole.size);
    scratch_json(&s, "manifest.json", manifest);
    util_model_open(&turned, s.dir, 16);
    const dop_weight *a = dop_weights_find(&plain.m.weights, "L1.up"),
                     *b = dop_weights_find(&turned.m.weights, "L1.up");
    cr_assert(a && b && b->col_stride == 320 && b->row_stride == 2);
    uint32_t ids[4] = {1, 5, 9, 200};
    float x[4 * 320], y[4 * 320];
    util_model_close(&plain); /* its map shows the file as it is now */
    util_model_open(&plain, GOLDEN "/llama", 16);
    util_step(&plain, DOP_PHASE_SCORE, ids, 4, 0, x);
    util_step(&turned, DOP_PHASE_SCORE, ids, 4, 0, y);
    cr_expect(util_worst(x, y, 4 * 320) < 1e-6);
    util_model_close(&plain);
    util_model_close(&turned);
    scratch_remove(&s);
    json_decref(manifest);
    dop_buf_finish(&whole);
}

#define M "\"<merge>\": 1, "

/* ---- kernel paths ------------------------------------------------------------------------------------------------- */

#define G "{\"g\": {\"kernel\": \"rmsnorm.wgsl\"}}"

Test(import_rdrr, kernel_paths)
{
    static const struct {
        const char *patch; /* of inference */
        const char *failure;
        uint32_t steps;
    } cases[] = {
        {"{\"execution\": {}}", NULL, 0},
        {"{\"execution\": {\"kernels\": {\"g\": {\"kernel\": \"matmul_gemv.wgsl\", \"entry\": \"main\"}}, \"decode\": "
         "[[\"q_proj\","
         " \"g\", \"w\"], {\"layers\": [0, 1], \"steps\": [[\"k_proj\", \"g\"]]}]}}",
         NULL, 3},
        {"{\"execution\": {\"kernels\": {}, \"decode\": [[\"q_proj\", \"g\"]]}}",
         "inference.execution.decode: kernel \"g\" of op q_proj is not in execution.kernels", 0},
        {"{\"execution\": {\"kernels\": " G ", \"prefill\": [[\"warp\", \"g\"]]}}",
         "inference.execution.prefill: unknown op \"warp\"", 0},
        {"{\"execution\": {\"kernels\": {\"g\": {\"kernel\": \"does_not_exist.wgsl\"}}}}",
         "inference.execution.kernels.g: unknown kernel \"does_not_exist.wgsl\"", 0},
        {"{\"execution\": {\"kernels\": {\"g\": {\"kernel\": \"matmul_f32\"}}}}",
         "inference.execution.kernels.g: unknown kernel \"matmul_f32\"", 0},
        {"{\"execution\": {\"kernels\": {\"g\": {\"entry\": \"main\"}}}}",
         "inference.execution.kernels.g: unknown kernel \"\"", 0},
        {"{\"execution\": {\"kernels\": " G ", \"decode\": [[\"attention\", \"g\"]]}}",
         "inference.execution.decode: unknown kernel \"rmsnorm.wgsl\" for op attention", 0},
        {"{\"execution\": {\"kernels\": {\"g\": {\"kernel\": \"rope.wgsl\", \"tile\": 8}}}}",
         "inference.execution.kernels.g.tile is not supported", 0},
        {"{\"execution\": {\"kernels\": {}, \"postDecode\": [1]}}", "inference.execution.postDecode is not supported",
         0},
        {"{\"execution\": {\"kernels\": {\"g\": {\"kernel\": \"rope.wgsl\", \"precision\": {\"kvDtype\": \"int4\"}}}}}",
         "inference.execution.kernels.g.precision.kvDtype \"int4\" is not supported; known: f16, f32", 0},
        {"{\"execution\": {\"kernels\": {}, \"decode\": [7]}}", "inference.execution.decode[0] is not a step", 0},
        {"{\"execution\": {\"kernels\": {}, \"decode\": [[\"q_proj\"]]}}",
         "inference.execution.decode: a step is not [op, kernel] or [op, kernel, weights]", 0},
        {"{\"execution\": {\"kernels\": {}, \"decode\": [{\"layers\": [2], \"steps\": []}]}}",
         "inference.execution.decode[0].layers[0] is not a layer of the model", 0},
        {"{\"defaultKernelPath\": \"gemma2-q4k-fused-f16a\"}", NULL, 0},
        {"{\"kernelPath\": {\"id\": \"own\", \"activationDtype\": \"f16\", \"decode\": {\"steps\": [{\"op\": "
         "\"q_proj\","
         " \"kernel\": \"matmul_f32.wgsl\"}]}, \"layerOverrides\": [{\"layers\": [1], \"steps\": [{\"op\": \"k_proj\", "
         "\"kernel\":"
         " \"wgsl/matmul_f16.wgsl\"}]}]}}",
         NULL, 2},
        {"{\"kernelPath\": {\"layerOverrides\": [{\"layers\": [0, 1], \"decode\": {\"steps\": [{\"op\": \"k_proj\", "
         "\"kernel\": \"matmul_f32.wgsl\"}]}}]}}",
         NULL, 2},
        {"{\"kernelPath\": {\"layerOverrides\": [{\"layers\": [0], \"score\": [1]}]}}",
         "layers: score is not supported", 0},
        {"{\"kernelPath\": {\"decode\": {\"steps\": [{\"op\": \"q_proj\", \"kernel\": \"does_not_exist.wgsl\"}]}}}",
         "kernelPath.decode: unknown kernel \"does_not_exist.wgsl\" for op q_proj", 0},
        {"{\"kernelPath\": {\"decode\": {\"steps\": [{\"op\": \"q_proj\", \"kernel\": \"matmul_f32.wgsl\", \"lanes\": "
         "7}]}}}",
         "kernelPath.decode: lanes is not supported", 0},
        {"{\"kernelPath\": {\"warmup\": [1]}}", "inference.kernelPath.warmup is not supported", 0},
        {"{\"session\": {\"kvcache\": {\"quantization\": {\"mode\": \"turboquant\"}}}}",
         "inference.session.kvcache.quantization.mode \"turboquant\" is not supported; known: none", 0},
        {"{\"session\": {\"kvcache\": {\"tiering\": {\"mode\": \"int8\"}}}}",
         "inference.session.kvcache.tiering.mode \"int8\" is not supported; known: off", 0},
        {"{\"session\": {\"turbo\": true}}", "inference.session.turbo is not supported", 0},
        {"{\"kernelPath\": {\"activationDtype\": \"f8\"}}",
         "inference.kernelPath.activationDtype \"f8\" is not supported; known: f16, f32", 0},
        {"{\"kernelPath\": {\"decode\": {\"steps\": [{\"op\": \"warp\", \"kernel\": \"rope.wgsl\"}]}}}",
         "kernelPath.decode: unknown op \"warp\"", 0},
        {"{\"session\": {\"kvcache\": {\"kvDtype\": \"f8\"}}}",
         "inference.session.kvcache.kvDtype \"f8\" is not supported; known: f16, f32", 0},
    };
    scratch s = scratch_make();
    json_t *manifest = convert(&s, "llama", 1 << 20);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *copy = json_deep_copy(manifest), *patch = json_of(cases[i].patch);
        patch_object(json_object_get(copy, "inference"), patch);
        scratch_json(&s, "manifest.json", copy);
        if (cases[i].failure) {
            expect_failure(s.dir, "manifest.json", cases[i].failure, 0, 0);
        } else {
            util_model u;
            util_model_open(&u, s.dir, 16);
            cr_expect_eq(u.m.n_path, cases[i].steps, "case %zu: %u steps", i, u.m.n_path);
            if (i == 1)
                cr_expect(u.m.path[2].layer == 1 && strcmp(u.m.path[2].op, "k_proj") == 0 &&
                          strcmp(u.m.path[0].phase, "decode") == 0 &&
                          strcmp(u.m.path[0].kernel, "matmul_gemv.wgsl") == 0);
            if (strstr(cases[i].patch, "default"))
                cr_expect_str_eq(u.m.path_name, "gemma2-q4k-fused-f16a");
            if (strstr(cases[i].patch, "own"))
                cr_expect(strcmp(u.m.path_name, "own") == 0 && u.m.path_act == DOP_TYPE_f16 && u.m.path[1].layer == 1);
            util_model_close(&u);
        }
        json_decref(copy);
        json_decref(patch);
    }
    json_decref(manifest);
    scratch_remove(&s);
}

/* Names of known paths, and what a manifest asks for besides. */
Test(import_rdrr, optimizations)
{
    static const struct {
        const char *patch, *failure; /* failure: how the message begins */
        const char *name;
        dop_type act, kv;
        bool unfused;
        uint32_t rules;
    } cases[] = {
        {"{\"optimizations\": {\"kernelPath\": \"f32-unfused-f32a\"}}", NULL, "f32-unfused-f32a", DOP_TYPE_f32,
         DOP_TYPE_f32, true, 0},
        {"{\"runtimeOptimizations\": {\"kernelPath\": \"gemma2-q4k-fused-f16a-wg128\"}}", NULL,
         "gemma2-q4k-fused-f16a-wg128", DOP_TYPE_f16, DOP_TYPE_f16, false, 1},
        {"{\"optimizations\": {\"kernelPath\": \"gemma3-f16-fused-f32a-online-streamingprefill\"}}", NULL,
         "gemma3-f16-fused-f32a-online-streamingprefill", DOP_TYPE_f32, DOP_TYPE_f16, false, 0},
        {"{\"optimizations\": {\"kernelPath\": \"lfm2-q4k-dequant-f32a-online\", \"preferF16KV\": false}}", NULL,
         "lfm2-q4k-dequant-f32a-online", DOP_TYPE_f32, DOP_TYPE_f32, false, 2},
        {"{\"inference\": {" M "\"session\": {\"compute\": {\"defaults\": {\"activationDtype\": \"f16\"}}}, "
         "\"kernelPath\": \"f32-f32a\"}}",
         NULL, "f32-f32a", DOP_TYPE_f32, DOP_TYPE_f32, false, 0},
        {"{\"runtimeOptimizations\": {\"preferF16KV\": true}}", NULL, "manifest", DOP_TYPE_none, DOP_TYPE_f16, false,
         0},
        {"{\"runtimeOptimizations\": {\"preferFusedDequant\": true}}", NULL, NULL, DOP_TYPE_none, DOP_TYPE_none, false,
         0},
        {"{\"runtimeOptimizations\": {\"preferFusedDequant\": false}}", NULL, "manifest", DOP_TYPE_none, DOP_TYPE_none,
         false, 1},
        {"{\"runtimeOptimizations\": {\"forceKernels\": {\"matmul\": \"gemv_subgroup\", \"attn\": \"attention\"}}}",
         NULL, "manifest", DOP_TYPE_none, DOP_TYPE_none, false, 2},
        {"{\"optimizations\": {}, \"runtimeOptimizations\": {\"attentionTier\": null, \"debug\": false}}", NULL, NULL,
         DOP_TYPE_none, DOP_TYPE_none, false, 0},
        {.patch = "{\"optimizations\": {\"kernelPath\": \"gemma9-q4k-fused-f32a\"}}",
         .failure =
             "optimizations.kernelPath: unknown kernel path gemma9-q4k-fused-f32a; known: {gemma2-,gemma3-,}f16-f16a"},
        {.patch = "{\"inference\": {" M "\"defaultKernelPath\": \"q4k-fused-f32a-online\"}}",
         .failure = "inference.defaultKernelPath: unknown kernel path q4k-fused-f32a-online; known: {gemma2-,"},
        {.patch = "{\"optimizations\": {\"kernelPath\": \"../kernel-paths/f32-f32a\"}}",
         .failure = "optimizations.kernelPath: unknown kernel path ../kernel-paths/f32-f32a; known: {gemma2-,"},
        {.patch = "{\"optimizations\": {\"kernelPath\": \"\"}}",
         .failure = "optimizations.kernelPath: unknown kernel path ; known: {gemma2-,"},
        {.patch = "{\"runtimeOptimizations\": {\"forceKernels\": {\"attention\": \"decode_streaming_f16kv\"}}}",
         .failure =
             "@: runtimeOptimizations.forceKernels.attention: no kernel decode_streaming_f16kv; known: dequant "},
    };
    scratch s = scratch_make();
    json_t *manifest = convert(&s, "gemma3", 1 << 20);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *copy = json_deep_copy(manifest), *patch = json_of(cases[i].patch);
        util_model u;
        dop_kernel_path p;
        char want[600];
        patch_object(copy, patch);
        scratch_json(&s, "manifest.json", copy);
        util_model_open(&u, s.dir, 16);
        dop_status st = dop_kernel_path_of_model(&u.m, DOP_SOURCE_DIR "/kernels/glsl", &u.arena, &u.diag, &p);
        if (cases[i].failure) {
            const bool with_file = cases[i].failure[0] == '@';
            snprintf(want, sizeof want, "%s%s", with_file ? scratch_path(&s, "manifest.json") : "",
                     cases[i].failure + with_file);
            cr_expect_eq(st, DOP_E_INPUT, "case %zu: status %d", i, (int)st);
            cr_expect(strncmp(u.diag.message, want, strlen(want)) == 0, "case %zu: %s", i, u.diag.message);
            cr_expect_str_eq(u.diag.path, with_file ? "" : scratch_path(&s, "manifest.json"));
        } else {
            cr_expect_eq(st, DOP_OK, "case %zu: %s", i, u.diag.message);
            cr_expect(cases[i].name ? p.name && strcmp(p.name, cases[i].name) == 0 : !p.name, "case %zu: path %s", i,
                      p.name ? p.name : "none");
            cr_expect(p.act == cases[i].act && p.kv == cases[i].kv && p.unfused == cases[i].unfused &&
                          p.n_rules == cases[i].rules,
                      "case %zu: %u rules", i, p.n_rules);
        }
        util_model_close(&u);
        json_decref(copy);
        json_decref(patch);
    }
    json_decref(manifest);
    scratch_remove(&s);
}

/* ---- tensors that the Hugging Face importer reads ----------------------------------------------------------------- */

/* Replaces a tensor of a manifest: its members, and bytes at the end of a shard of its own. */
static void
replace_tensor(scratch *s, json_t *manifest, const char *name, const char *members, const void *data, size_t size)
{
    json_t *shards = json_object_get(manifest, "shards"), *t = json_of(members);
    const size_t n = json_array_size(shards);
    char file[32], hex[65];
    snprintf(file, sizeof file, "own_%zu.bin", n);
    scratch_write(s, file, data, size);
    sha256_hex(data, size, hex);
    json_array_append_new(shards,
                          json_pack("{s:s, s:I, s:s}", "filename", file, "size", (json_int_t)size, "hash", hex));
    json_object_set_new(t, "shard", json_integer((json_int_t)n));
    json_object_set_new(t, "offset", json_integer(0));
    json_object_set_new(json_object_get(manifest, "tensors"), name, t);
    json_object_del(manifest, "totalSize");
    scratch_json(s, "manifest.json", manifest);
}

static void
random_bytes(uint8_t *to, size_t n)
{
    uint32_t x = 12345;
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
}

static void
row_of(const dop_weight *w, uint32_t row, float *out)
{
    cr_assert(w && !w->col_stride && !w->parts);
    dop_decode_row(w->type, dop_weight_at(w, row), w->cols, out);
}

/* 4-bit integers with a scale for each row, in the form that Gemma 4's second embedding has. */
Test(import_rdrr, four_bits)
{
    enum { ROWS = 320, COLS = 64, BYTES = ROWS * COLS / 2 };
    for (int with_sign = 0; with_sign < 2; with_sign++) {
        static uint8_t data[BYTES + ROWS * 4];
        char members[600];
        scratch s = scratch_make();
        util_model u;
        json_t *manifest = convert(&s, "gemma4", 1 << 20);
        const size_t n = json_array_size(json_object_get(manifest, "shards"));
        random_bytes(data, BYTES);
        for (uint32_t r = 0; r < ROWS; r++)
            memcpy(data + BYTES + 4 * (size_t)r, &(float){0.01f * (float)(r + 1)}, 4);
        snprintf(members, sizeof members,
                 "{\"size\": %d, \"shape\": [%d, %d], \"dtype\": \"F16\", \"layout\": \"row\", \"sourceTransform\": "
                 "{\"kind\": "
                 "\"litert_axis_dequant\", \"sourceDtype\": \"INT4\", \"storageEncoding\": \"%s\", \"scaleSemantics\": "
                 "\"step\", \"scaleSource\": {\"shard\": %zu, \"offset\": %d, \"size\": %d}}}",
                 BYTES, ROWS, COLS, with_sign ? "signed" : "offset_binary", n, BYTES, ROWS * 4);
        replace_tensor(&s, manifest, "model.embed_tokens.weight", members, data, sizeof data);
        util_model_open(&u, s.dir, 16);
        const dop_weight *w = dop_weights_find(&u.m.weights, "embed");
        double worst = 0;
        for (uint32_t r = 0; r < ROWS; r++) {
            float row[COLS];
            row_of(w, r, row);
            for (uint32_t c = 0; c < COLS; c++) {
                const int stored = data[(r * COLS + c) / 2] >> c % 2 * 4 & 15;
                const double want = 0.01 * (r + 1) * (with_sign ? (stored ^ 8) - 8 : stored - 8);
                worst = fmax(worst, fabs((double)row[c] - want) / (0.01 * (r + 1)));
            }
        }
        cr_expect(worst < 8 * 0x1p-11, "a value differs by %g of its scale", worst); /* the scale is rounded to f16 */
        util_model_close(&u);
        json_object_set_new(
            json_object_get(json_object_get(json_object_get(manifest, "tensors"), "model.embed_tokens.weight"),
                            "sourceTransform"),
            "scaleSemantics", json_string("qmax_abs"));
        scratch_json(&s, "manifest.json", manifest);
        expect_failure(
            s.dir, "manifest.json",
            "tensor model.embed_tokens.weight: dtype of a sourceTransform is not supported; known: F32, F16, "
            "BF16",
            0, 0);
        json_decref(manifest);
        scratch_remove(&s);
    }
}

/* Taps in blocks that run over all values, and a projection of queries and gates in quantized rows. */
Test(import_rdrr, quantized_layers)
{
    enum { TAPS = 192, Q4_K = 144, ROWS = 128, COLS = 64, Q8_0 = 34 };
    static uint8_t block[Q4_K], rows[ROWS * COLS / 32 * Q8_0];
    float want[TAPS], got[TAPS], row[COLS], plain[COLS];
    const uint16_t scale = dop_f32_to_f16(0.01f);
    scratch s = scratch_make();
    util_model u;
    json_t *manifest = convert(&s, "lfm2", 1 << 20);
    random_bytes(block, sizeof block);
    memcpy(block, (uint16_t[]){scale, scale}, 4);
    replace_tensor(&s, manifest, "model.layers.0.conv.conv.weight",
                   "{\"size\": 144, \"shape\": [64, 1, 3], \"dtype\": \"Q4_K_M\"}", block, sizeof block);
    util_model_open(&u, s.dir, 16);
    dop_decode_row(DOP_TYPE_q4_k, block, TAPS, want);
    row_of(dop_weights_find(&u.m.weights, "L0.taps"), 0, got);
    for (uint32_t i = 0; i < TAPS; i++)
        cr_expect_eq(got[i % 3 * 64 + i / 3], want[i], "tap %u", i);
    util_model_close(&u);
    json_decref(manifest);
    scratch_remove(&s);

    s = scratch_make();
    manifest = convert(&s, "qwen3_5", 1 << 20);
    random_bytes(rows, sizeof rows);
    for (size_t i = 0; i < sizeof rows; i += Q8_0)
        memcpy(rows + i, &scale, 2);
    replace_tensor(&s, manifest, "model.layers.3.self_attn.q_proj.weight",
                   "{\"size\": 8704, \"shape\": [128, 64], \"dtype\": \"Q8_0\", \"layout\": \"row\"}", rows,
                   sizeof rows);
    util_model_open(&u, s.dir, 16);
    const dop_weight *q = dop_weights_find(&u.m.weights, "L3.q"),
                     *gate = dop_weights_find(&u.m.weights, "L3.attn_gate");
    for (uint32_t i = 0; i < ROWS / 2; i++) /* heads of 16 rows of queries, then 16 of gates */
        for (uint32_t k = 0; k < 2; k++) {
            dop_decode_row(DOP_TYPE_q8_0, rows + ((size_t)i / 16 * 32 + k * 16 + i % 16) * 2 * Q8_0, COLS, plain);
            row_of(k ? gate : q, i, row);
            cr_expect_arr_eq(row, plain, sizeof row, "row %u of %s", i, k ? "gates" : "queries");
        }
    util_model_close(&u);
    json_decref(manifest);
    scratch_remove(&s);
}

/* EmbeddingGemma, whose vectors golden.encoders compares: its facts, and products after pooling. */
Test(import_rdrr, embedding)
{
    static uint8_t data[2 * (32 * 64 + 24 * 32)];
    scratch s = scratch_make();
    util_model u;
    json_t *manifest = rdrr_convert(DOP_SOURCE_DIR "/tests/encoders/embeddinggemma", s.dir, 1 << 20),
           *products = json_of(
               "{\"inference\": {" M "\"output\": {" M "\"embeddingPostprocessor\": {\"poolingMode\": \"last\", "
               "\"normalize\": null, \"projections\": [{\"weightTensor\": \"p.0.weight\", \"biasTensor\": "
               "\"p.0.bias\", \"inputSize\": 64, \"outputSize\": 32, \"activation\": \"identity\"}, "
               "{\"weightTensor\": \"p.1.weight\", \"inputSize\": 32, \"outputSize\": 24}]}}}}");
    scratch_json(&s, "manifest.json", manifest);
    util_model_open(&u, s.dir, 16);
    const dop_encoder *e = &u.m.arch.encoder;
    const dop_attention *t = &u.m.arch.layers[0].mixers[0].attn;
    cr_expect(e->used && e->pool == DOP_BY_MEAN && e->normalized && !e->n_dense && t->both && t->window == 6);
    util_model_close(&u);
    patch_object(manifest, products);
    random_bytes(data, sizeof data);
    replace_tensor(&s, manifest, "p.0.weight", "{\"size\": 4096, \"shape\": [32, 64], \"dtype\": \"F16\"}", data, 4096);
    replace_tensor(&s, manifest, "p.0.bias", "{\"size\": 64, \"shape\": [32], \"dtype\": \"F16\"}", data, 64);
    replace_tensor(&s, manifest, "p.1.weight", "{\"size\": 1536, \"shape\": [24, 32], \"dtype\": \"F16\"}", data, 1536);
    util_model_open(&u, s.dir, 16);
    e = &u.m.arch.encoder;
    cr_expect(e->pool == DOP_BY_LAST && !e->normalized && e->n_dense == 2 && e->dense[0].width == 32 &&
              e->dense[0].bias && e->dense[1].width == 24 && !e->dense[1].bias && !e->dense[1].active);
    const dop_weight *w = dop_weights_find(&u.m.weights, "dense2");
    cr_expect(w && w->rows == 24 && w->cols == 32 && memcmp(w->data, data, 1536) == 0);
    util_model_close(&u);
    json_decref(manifest);
    json_decref(products);
    scratch_remove(&s);
}

/* ---- must fail ---------------------------------------------------------------------------------------------------- */

#define EMBED "model.embed_tokens.weight"

Test(import_rdrr, bad_manifests)
{
    static const struct {
        const char *patch, *message;
    } cases[] = {
        {"{\"version\": 3}", "version is not 1: not an RDRR manifest that is known here"},
        {"{\"version\": \"beta\"}", "version is not 1: not an RDRR manifest that is known here"},
        {"{\"modelType\": \"mamba\"}", "modelType \"mamba\" is not supported; known: transformer gemma4 embedding"},
        {"{\"hashAlgorithm\": \"md5\"}", "hashAlgorithm \"md5\" is not supported; known: sha256, blake3"},
        {"{\"shards\": []}", "shards is not a list of 1 to 65536 shards"},
        {"{\"totalSize\": 1}", "totalSize is 1, expected 254634 to 254634"},
        {"{\"inference\": null}", "inference is missing"},
        {"{\"architecture\": \"<delete>\"}", "architecture is missing"},
        {"{\"tensors\": null}", "neither tensors nor tensorsFile is there"},
        {"{\"tensors\": null, \"tensorsFile\": \"../tensors.json\"}",
         "tensorsFile \"../tensors.json\" is not a plain file name"},
        {"{\"groups\": {\"g\": {\"tensors\": [\"nope\"]}}}", "groups.g names tensor nope, which is not there"},
        {"{\"moeConfig\": {\"numExperts\": 8}}", "moeConfig: a mixture of experts is not supported"},
        {"{\"architecture\": {" M "\"numLayers\": 1000000000}}",
         "architecture.numLayers is 1000000000, expected 1 to 1024"},
        {"{\"architecture\": {" M "\"numLayers\": 1}, \"inference\": {" M "\"layerPattern\": null}}",
         "tensor model.layers.1.input_layernorm.weight is of layer 1, but architecture.numLayers is 1"},
        {"{\"tensors\": {" M "\"model.layers.1.self_attn.q_proj.bias\": {\"shard\": 0, \"offset\": 0, \"size\": 128,"
         " \"shape\": [64], \"dtype\": \"BF16\", \"role\": \"matmul\"}}}",
         "tensor model.layers.1.self_attn.q_proj.bias: the manifest says nothing of it, so leaving it out would "
         "compile "
         "another model"},
        {"{\"architecture\": {" M "\"numAttentionHeads\": 0}}",
         "architecture.numAttentionHeads is 0, expected 1 to 4096"},
        {"{\"architecture\": {" M "\"hiddenSize\": -64}}", "architecture.hiddenSize is -64, expected 1 to 1048576"},
        {"{\"architecture\": {" M "\"hiddenSize\": 65, \"headDim\": null}}",
         "architecture.hiddenSize 65 is not divisible by numAttentionHeads 4"},
        {"{\"architecture\": {" M "\"numKeyValueHeads\": 3}}",
         "layer 0: 4 attention heads are not a multiple of 3 key/value heads"},
        {"{\"architecture\": {" M "\"linearNumKeyHeads\": 4}}",
         "architecture.linearNumKeyHeads: linear attention is not supported"},
        {"{\"inference\": {" M "\"attention\": {" M "\"causal\": false}}}",
         "inference.attention.causal: attention in both directions is not supported"},
        {"{\"inference\": {" M "\"attention\": {" M "\"valueNorm\": true}}}",
         "inference.attention.valueNorm: a norm on values is not supported"},
        {"{\"inference\": {" M "\"rope\": {" M "\"ropeScalingType\": \"dynamic\"}}}",
         "inference.rope.ropeScalingType \"dynamic\" is not supported; known: linear, yarn, longrope"},
        {"{\"inference\": {" M "\"rope\": {" M "\"ropeTheta\": null}}}", "inference.rope.ropeTheta is missing"},
        {"{\"inference\": {" M "\"ffn\": {" M "\"activation\": \"mish\"}}}",
         "inference.ffn.activation \"mish\" is not supported"},
        {"{\"inference\": {" M "\"layerPattern\": {\"type\": \"spiral\"}}}",
         "inference.layerPattern.type \"spiral\" is not supported; known: uniform, alternating, every_n, custom"},
        {"{\"inference\": {" M "\"layerPattern\": {\"type\": \"every_n\"}}}",
         "inference.layerPattern.period is missing"},
        {"{\"inference\": {" M "\"layerPattern\": {\"type\": \"custom\", \"layerTypes\": [\"conv\", \"conv\"]}}}",
         "architecture.linearConvKernelDim is missing"},
        {"{\"inference\": {" M "\"layerPattern\": {\"type\": \"custom\", \"layerTypes\": [\"mamba\", \"mamba\"]}}}",
         "inference.layerPattern.layerTypes[0]: mamba layers are not supported; known: full_attention, "
         "sliding_attention"},
        {"{\"modelType\": \"embedding\"}", "inference.output.embeddingPostprocessor is missing"},
        {"{\"inference\": {" M "\"output\": {" M "\"embeddingPostprocessor\": {\"poolingMode\": \"max\"}}}}",
         "inference.output.embeddingPostprocessor: only poolingMode mean or last, includePrompt true and normalize l2 "
         "or "
         "null are supported"},
        {"{\"inference\": {" M "\"output\": {" M
         "\"embeddingPostprocessor\": {\"poolingMode\": \"mean\", \"projections\": "
         "[{\"weightTensor\": \"p\", \"inputSize\": 32, \"outputSize\": 8}]}}}}",
         "inference.output.embeddingPostprocessor.projections[0].inputSize is 32, expected 64 to 64"},
        {"{\"inference\": {" M "\"output\": {" M
         "\"embeddingPostprocessor\": {\"poolingMode\": \"mean\", \"whiten\": true}}}}",
         "inference.output.embeddingPostprocessor.whiten is not supported"},
        {"{\"adapterType\": \"lora\"}", "adapterType is not supported"},
        {"{\"architecture\": {" M "\"numExperts\": 8}}", "architecture.numExperts is not supported"},
        {"{\"inference\": {" M "\"attention\": {" M "\"sinks\": true}}}", "inference.attention.sinks is not supported"},
        {"{\"inference\": {" M "\"attention\": {" M "\"queryKeyNormType\": \"layernorm\"}}}",
         "inference.attention.queryKeyNormType \"layernorm\" is not supported; known: rmsnorm"},
        {"{\"inference\": {" M "\"normalization\": {" M "\"finalNormBiasTensor\": \"b\"}}}",
         "inference.normalization.finalNormBiasTensor is not supported"},
        {"{\"inference\": {" M "\"diffusionGemma\": {\"canvasLength\": 8}}}",
         "inference.diffusionGemma is not supported"},
        {"{\"runtimeOptimizations\": {\"turbo\": 1}}", "runtimeOptimizations.turbo is not supported"},
        {"{\"optimizations\": {\"kernelHints\": {\"q4kMatmul\": \"fused_q4k\"}}}",
         "optimizations.kernelHints is not supported"},
        {"{\"optimizations\": {\"kernelPath\": 7}}", "optimizations.kernelPath is an integer, expected an object"},
        {"{\"runtimeOptimizations\": {\"preferF16KV\": \"yes\"}}",
         "runtimeOptimizations.preferF16KV is a string, expected true or false"},
        {"{\"runtimeOptimizations\": {\"preferFusedDequant\": 2}}",
         "runtimeOptimizations.preferFusedDequant is an integer, expected true or false"},
        {"{\"runtimeOptimizations\": {\"attentionTier\": \"streaming\"}}",
         "runtimeOptimizations.attentionTier is not supported: attention has no tiers here; name a kernel in "
         "forceKernels"},
        {"{\"runtimeOptimizations\": {\"matmulTile\": [16, 16]}}",
         "runtimeOptimizations.matmulTile is not supported: a tile belongs to a kernel here; state bm, bn and bk in a "
         "kernel "
         "path"},
        {"{\"runtimeOptimizations\": {\"forceKernels\": [1]}}",
         "runtimeOptimizations.forceKernels is a list, expected an object"},
        {"{\"runtimeOptimizations\": {\"forceKernels\": {\"matmul\": 4}}}",
         "runtimeOptimizations.forceKernels.matmul is an integer, expected a string"},
        {"{\"tensors\": {" M "\"" EMBED "\": \"<delete>\"}}", "tensor " EMBED " is missing"},
        {"{\"tensors\": {" M "\"" EMBED "\": {" M "\"dtype\": \"F7\"}}}",
         "tensor " EMBED ": type \"F7\" is not supported"},
        {"{\"tensors\": {" M "\"" EMBED "\": {" M "\"dtype\": \"I32\", \"shape\": [320, 32]}}}",
         "tensor " EMBED ": shape [320, 32], expected [320, 64] by architecture"},
        {"{\"tensors\": {" M "\"" EMBED "\": {" M "\"shape\": [320, 65]}}}",
         "tensor " EMBED ": size is 40960, but shape and type BF16 take 41600"},
        {"{\"tensors\": {" M "\"" EMBED "\": {" M "\"shape\": [0, 65]}}}",
         "tensor " EMBED ": shape[0] is not an integer of 1 or more"},
        {"{\"tensors\": {" M "\"" EMBED "\": {" M "\"layout\": \"zigzag\"}}}",
         "tensor " EMBED ": layout \"zigzag\" is not supported; known: row, col"},
        {"{\"tensors\": {" M "\"" EMBED "\": {" M "\"zeroPoint\": 3}}}",
         "tensor " EMBED ": zeroPoint is not supported"},
        {"{\"tensors\": {" M "\"" EMBED "\": {" M "\"shard\": 9}}}", "tensor " EMBED ": shard is 9, expected 0 to 0"},
        {"{\"tensors\": {" M "\"" EMBED "\": {" M "\"offset\": 254000}}}",
         "tensor " EMBED " ends at byte 294960 of shard 0, which has 254634"},
        {"{\"tensors\": {" M "\"" EMBED "\": {" M "\"spans\": [{\"shardIndex\": 0, \"offset\": 0, \"size\": 10}]}}}",
         "tensor " EMBED ": spans add up to 10 bytes, size is 40960"},
        {"{\"tensors\": {" M "\"" EMBED "\": {" M "\"sourceTransform\": {\"kind\": \"int4\"}}}}",
         "tensor " EMBED ": sourceTransform is not supported"},
        {"{\"eos_token_id\": -2}", "eos_token_id is not a token id or a list of token ids"},
        {"{\"tokenizer\": {\"file\": \"/etc/passwd\"}}", "tokenizer.file \"/etc/passwd\" is not a plain file name"},
    };
    scratch s = scratch_make();
    json_t *manifest = convert(&s, "llama", 1 << 20);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *copy = json_deep_copy(manifest), *patch = json_of(cases[i].patch);
        patch_object(copy, patch);
        scratch_json(&s, "manifest.json", copy);
        expect_failure(s.dir, "manifest.json", cases[i].message, 0, 0);
        json_decref(copy);
        json_decref(patch);
    }
    json_decref(manifest);
    scratch_remove(&s);
}

/* What a manifest states besides must be what its family has. */
Test(import_rdrr, bad_families)
{
    static const struct {
        const char *model, *patch, *message;
    } cases[] = {
        {"gemma4", "{\"inference\": {" M "\"attention\": {" M "\"valueNorm\": false}}}",
         "inference.attention.valueNorm is not what gemma4 models have"},
        {"gemma4", "{\"inference\": {" M "\"normalization\": {" M "\"rmsNormWeightOffset\": true}}}",
         "inference.normalization.rmsNormWeightOffset is not what gemma4 models have"},
        {"gemma4", "{\"inference\": {" M "\"attention\": {" M "\"queryPreAttnScalar\": 16}}}",
         "inference.attention.queryPreAttnScalar is not what gemma4 models have"},
        {"gemma4", "{\"inference\": {" M "\"rope\": {" M "\"ropeFrequencyBaseDim\": 20}}}",
         "inference.rope.ropeFrequencyBaseDim: a frequency base other than the rotated values or the head's is not "
         "supported"},
        {"gemma4", "{\"inference\": {" M "\"rope\": {" M "\"ropeScalingType\": \"yarn\"}}}",
         "inference.rope.ropeScalingType: scaling with the frequencies of a whole head is not supported"},
        {"gemma4", "{\"architecture\": {" M "\"linearNumKeyHeads\": 2}}",
         "architecture.linearNumKeyHeads: linear attention is not supported"},
        {"gemma4", "{\"tensors\": {" M "\"model.layers.5.self_attn.k_norm.weight\": \"<delete>\"}}",
         "tensor model.layers.5.self_attn.k_norm.weight is missing"},
        {"qwen3_5", "{\"inference\": {" M "\"attention\": {" M "\"attentionOutputGate\": false}}}",
         "inference.attention.attentionOutputGate is not what qwen3_5 models have"},
        {"qwen3_5", "{\"inference\": {" M "\"attention\": {" M "\"outputGateType\": \"relu\"}}}",
         "output_gate_type \"relu\" is not supported; known: silu, swish, sigmoid"},
        {"qwen3_5", "{\"inference\": {" M "\"output\": {" M "\"logitInputScale\": 0.5}}}",
         "inference.output.logitInputScale is not what qwen3_5 models have"},
        {"qwen3_5", "{\"architecture\": {" M "\"linearNumValueHeads\": null}}",
         "architecture.linearNumValueHeads is missing"},
        {"qwen3_5", "{\"architecture\": {" M "\"linearNormMode\": \"per_head\"}}",
         "architecture.linearNormMode \"per_head\" is not supported; known: shared"},
        {"lfm2", "{\"inference\": {" M "\"layerPattern\": {" M "\"residualBranchScale\": 0.5}}}",
         "inference.layerPattern.residualBranchScale is not what lfm2 models have"},
        {"lfm2", "{\"inference\": {" M "\"ffn\": {" M "\"activation\": \"gelu\"}}}",
         "inference.ffn.activation is not what lfm2 models have"},
        {"lfm2", "{\"inference\": {" M "\"normalization\": {" M "\"preFeedforwardNorm\": true}}}",
         "inference.normalization.preFeedforwardNorm is not what lfm2 models have"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch s = scratch_make();
        json_t *manifest = convert(&s, cases[i].model, 1 << 20), *patch = json_of(cases[i].patch);
        patch_object(manifest, patch);
        scratch_json(&s, "manifest.json", manifest);
        expect_failure(s.dir, "manifest.json", cases[i].message, 0, 0);
        json_decref(manifest);
        json_decref(patch);
        scratch_remove(&s);
    }
}

Test(import_rdrr, bad_shards)
{
    static const struct {
        const char *patch, *file, *message;
    } cases[] = {
        {"{\"filename\": \"../x\", \"fileName\": \"<delete>\"}", "manifest.json",
         "shards[0].filename \"../x\" is not a plain file name"},
        {"{\"fileName\": \"gone.bin\"}", "gone.bin", "cannot open: No such file or directory"},
        {"{\"fileName\": \"<delete>\"}", "manifest.json", "shards[0].filename is missing"},
        {"{\"index\": 4}", "manifest.json", "shards[0].index is 4, expected 0 to 0"},
        {"{\"offset\": 8}", "manifest.json", "shards[0].offset is 8, expected 0 to 0"},
        {"{\"hash\": \"abc\"}", "manifest.json", "shards[0].hash is not 64 hexadecimal digits"},
        {"{\"hash\": \"0000000000000000000000000000000000000000000000000000000000000000\"}", "shard_00000.bin",
         "shard 0 does not have the sha256 that the manifest states: damaged, download it again"},
    };
    scratch s = scratch_make();
    json_t *manifest = convert(&s, "llama", 1 << 20);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *copy = json_deep_copy(manifest), *patch = json_of(cases[i].patch);
        patch_object(json_array_get(json_object_get(copy, "shards"), 0), patch);
        scratch_json(&s, "manifest.json", copy);
        expect_failure(s.dir, cases[i].file, cases[i].message, 0, 0);
        json_decref(copy);
        json_decref(patch);
    }
    scratch_json(&s, "manifest.json", manifest);
    dop_buf b = golden_file(s.dir, "shard_00000.bin");
    b.data[b.size / 2] ^= 1;
    scratch_write(&s, "shard_00000.bin", b.data, b.size);
    expect_failure(s.dir, "shard_00000.bin",
                   "shard 0 does not have the sha256 that the manifest states: damaged, download it again", 0, 0);
    scratch_write(&s, "shard_00000.bin", b.data, b.size - 1);
    expect_failure(s.dir, "shard_00000.bin", "shard 0 has 254633 bytes, the manifest says 254634", 0, 0);
    dop_buf_finish(&b);
    json_decref(manifest);
    scratch_remove(&s);
}

/* ---- published files, read in place -------------------------------------------------------------------------------- */

/* Every real manifest is read: its facts, and the description of every tensor. */
Test(import_rdrr, published_manifests)
{
    static const struct {
        const char *file, *family;
        uint32_t layers, steps;
    } cases[] = {
        {"gemma-3-1b-it-q4k-ehf16-af32.json", NULL, 26, 35},
        {"gemma-3-270m-it-q4k-ehf16-af32.json", NULL, 18, 35},
        {"minicpm4-0-5b-f16-af32.json", NULL, 24, 35},
        {"gemma-4-12b-it-text-q4k-ehf16-af16.json", "gemma4", 48, 740},
        {"gemma-4-e2b-it-q4k-ehf16-af32-int4ple.json", "gemma4", 35, 437},
        {"google-embeddinggemma-300m-q4k-ehf16-af32.json", NULL, 24, 32},
        {"lfm2-5-1-2b-instruct-q4k-ehf16-af32.json", "lfm2", 16, 35},
        {"qwen-3-5-0-8b-q4k-ehaf16.json", "qwen3_5", 24, 35},
    };
    const char *dir = DOP_SHARED_DIR "/golden/rdrr-manifests";
    if (access(dir, F_OK) != 0)
        cr_skip_test("no shared test data");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dop_arena arena;
        dop_diag diag = {0};
        dop_arena_init(&arena);
        dop_checkpoint m = {.arena = &arena};
        dop_rdrr r = {.dir = dir, .arena = &arena, .diag = &diag, .model = &m};
        r.path = dop_arena_printf(&arena, "%s/%s", dir, cases[i].file);
        dop_status st = dop_rdrr_open(&r);
        cr_assert_eq(st, DOP_OK, "%s: %s", cases[i].file, diag.message); /* the container is always understood */
        st = dop_rdrr_config(&r);
        if (st == DOP_OK)
            st = dop_rdrr_path(&r);
        if (st == DOP_OK && !r.family)
            st = dop_arch_check(&m.arch, r.path, &diag);
        if (st == DOP_OK)
            st = dop_rdrr_check_tensors(&r);
        cr_expect_eq(st, DOP_OK, "%s: %s", cases[i].file, diag.message);
        cr_expect(cases[i].family ? r.family && strcmp(r.family, cases[i].family) == 0 : !r.family, "%s",
                  cases[i].file);
        cr_expect_eq(m.arch.n_layers, cases[i].layers, "%s: %u layers", cases[i].file, m.arch.n_layers);
        cr_expect_eq(m.n_path, cases[i].steps, "%s: %u steps", cases[i].file, m.n_path);
        dop_rdrr_close(&r);
        dop_arena_finish(&arena);
    }
}

/* Quantized rows, tensors over two shards, offsets of two bytes: against the logits that come with it. */
Test(import_rdrr, published_model)
{
    const char *dir = DOP_SHARED_DIR "/models/shakespeare-gemma3-rdrr";
    if (access(dir, F_OK) != 0)
        cr_skip_test("no shared test data");
    util_model u;
    char path[600];
    snprintf(path, sizeof path, "%s/expected.json", dir);
    json_t *root = util_json_open(path);
    util_ids prompt = util_ids_of(json_object_get(root, "ids")), greedy = util_ids_of(json_object_get(root, "greedy"));
    snprintf(path, sizeof path, "%s/logits.f32", dir);
    float *want = util_floats(path, (size_t)prompt.n * 2048), *got = calloc((size_t)prompt.n * 2048, sizeof *got);
    util_model_open(&u, dir, 256);
    util_step(&u, DOP_PHASE_SCORE, prompt.id, prompt.n, 0, got);
    double worst = util_worst(got, want, (size_t)prompt.n * 2048);
    cr_expect(worst < 2e-3, "worst logit differs by %.3g", worst);
    uint32_t id = util_step(&u, DOP_PHASE_DECODE, &prompt.id[prompt.n - 1], 1, prompt.n - 1, NULL);
    for (uint32_t i = 0; i < 8; i++) {
        cr_expect_eq(id, greedy.id[i], "step %u gives %u, expected %u", i, id, greedy.id[i]);
        id = util_step(&u, DOP_PHASE_DECODE, &greedy.id[i], 1, prompt.n + i, NULL);
    }
    cr_expect(u.m.tokenizer_json_path && !u.m.note && u.m.weights.n_maps == 4);
    util_model_close(&u);
    json_decref(root);
    free(want);
    free(got);
}

/* Rows of 300 values in blocks of 256: the second block of each is padded. */
Test(import_rdrr, padded_rows)
{
    const char *dir = DOP_SHARED_DIR "/models/shakespeare-gemma3-rdrr";
    if (access(dir, F_OK) != 0)
        cr_skip_test("no shared test data");
    dop_buf b = golden_file(dir, "q4k_padded_rows.bin");
    char path[600];
    snprintf(path, sizeof path, "%s/q4k_padded_rows.f32", dir);
    float *want = util_floats(path, 900), got[300];
    for (uint32_t r = 0; r < 3; r++) {
        dop_decode_row(DOP_TYPE_q4_k, b.data + r * 288, 300, got);
        cr_expect(util_worst(got, want + (size_t)r * 300, 300) < 1e-6, "row %u", r);
    }
    free(want);
    dop_buf_finish(&b);
}
