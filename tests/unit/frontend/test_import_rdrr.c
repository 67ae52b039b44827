/* RDRR import: golden models rewritten as RDRR give the golden weights; published manifests are understood or refused by
 * name; damaged manifests and shards give their message. */
#include <openssl/evp.h>

#include "frontend/rdrr/rdrr.h"
#include "tests/unit/import_util.h"
#include "tests/unit/model_util.h"

static void
sha256_hex(const void *data, size_t size, char out[65])
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    cr_assert(EVP_Digest(data, size, digest, &n, EVP_sha256(), NULL) && n == 32);
    for (unsigned i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* ---- golden models as RDRR ---------------------------------------------------------------------------------------- */

/* The `inference` of a manifest that describes the facts of a loaded model. */
static json_t *
inference_of(const dop_arch *a)
{
    const dop_layer *y = &a->layers[0];
    const dop_attention *l = &y->mixers[0].attn;
    const double norm_add = a->final_norm.add;
    const bool sandwich = y->post_ffn_norm.kind && y->ffn_norm.kind;
    json_t *types = json_array();
    for (uint32_t i = 0; i < a->n_layers; i++)
        json_array_append_new(types,
                              json_string(a->layers[i].mixers[0].attn.window ? "sliding_attention" : "full_attention"));
    json_t *rope =
        json_pack("{s:f, s:n, s:i}", "ropeTheta", a->ropes[0].theta, "ropeScalingType", "ropeScalingFactor", 1);
    if (a->n_ropes > 1)
        json_object_set_new(rope, "ropeLocalTheta", json_real(a->ropes[1].theta));
    json_t *attention = json_pack("{s:f, s:b, s:b}", "queryPreAttnScalar", 1 / (l->scale * l->scale), "queryKeyNorm",
                                  l->q_norm.kind != DOP_NORM_NONE, "causal", 1);
    if (l->window)
        json_object_set_new(attention, "slidingWindow", json_integer(l->window));
    if (l->softcap > 0)
        json_object_set_new(attention, "attnLogitSoftcapping", json_real(l->softcap));
    json_t *output = json_pack("{s:b, s:b, s:n}", "tieWordEmbeddings", a->tied, "scaleEmbeddings", norm_add > 0,
                               "embeddingVocabSize");
    if (a->logit_softcap > 0)
        json_object_set_new(output, "finalLogitSoftcapping", json_real(a->logit_softcap));
    if (a->embed_scale != 1 && norm_add == 0)
        json_object_set_new(output, "embeddingScale", json_real(a->embed_scale));
    if (a->logit_scale != 1)
        json_object_set_new(output, "logitInputScale", json_real(a->logit_scale));
    return json_pack("{s:o, s:{s:f, s:b, s:b, s:b, s:b}, s:{s:s, s:b}, s:o, s:o, s:{s:s, s:o, s:f}}", "attention",
                     attention, "normalization", "rmsNormEps", a->final_norm.eps, "rmsNormWeightOffset", norm_add > 0,
                     "postAttentionNorm", 1, "preFeedforwardNorm", sandwich, "postFeedforwardNorm",
                     y->post_ffn_norm.kind != DOP_NORM_NONE, "ffn", "activation",
                     y->ffn.act == DOP_ACT_SILU ? "silu" : "gelu", "gatedActivation", 1, "rope", rope, "output", output,
                     "layerPattern", "type", "custom", "layerTypes", types, "residualBranchScale", y->residual_scale);
}

static json_t *
manifest_of(const dop_arch *a)
{
    const dop_attention *l = &a->layers[0].mixers[0].attn;
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}, s:n, s:o, s:i}", "version",
                     1, "modelId", "golden", "modelType", "transformer", "quantization", "BF16", "hashAlgorithm",
                     "sha256", "architecture", "numLayers", a->n_layers, "hiddenSize", a->hidden, "intermediateSize",
                     a->layers[0].ffn.width, "numAttentionHeads", l->n_heads, "numKeyValueHeads", l->n_kv_heads,
                     "headDim", l->head_dim, "vocabSize", a->vocab, "maxSeqLen", a->ctx_train, "moeConfig", "inference",
                     inference_of(a), "eos_token_id", 2);
}

/* Cuts the tensors of model.safetensors into shards of `shard_size` bytes, two bytes between tensors. */
static void
write_shards(scratch *s, const char *model, json_t *manifest, size_t shard_size)
{
    dop_buf file = golden_file(model, "model.safetensors"), data = {0};
    const size_t n = (size_t)st_header_size(&file);
    json_t *header = json_loadb(file.data + 8, n, 0, NULL), *v, *tensors = json_object(), *shards = json_array();
    const char *key;
    json_object_foreach(header, key, v)
    {
        if (strcmp(key, "__metadata__") == 0)
            continue;
        json_t *range = json_object_get(v, "data_offsets");
        size_t begin = (size_t)json_integer_value(json_array_get(range, 0));
        size_t size = (size_t)json_integer_value(json_array_get(range, 1)) - begin, at = data.size, left = size;
        json_t *t = json_pack("{s:I, s:O, s:O, s:s}", "size", (json_int_t)size, "shape", json_object_get(v, "shape"),
                              "dtype", json_object_get(v, "dtype"), "role", "matmul");
        json_t *spans = json_array();
        while (left) {
            size_t in_shard = shard_size - at % shard_size, take = left < in_shard ? left : in_shard;
            json_array_append_new(spans, json_pack("{s:I, s:I, s:I}", "shardIndex", (json_int_t)(at / shard_size),
                                                   "offset", (json_int_t)(at % shard_size), "size", (json_int_t)take));
            at += take;
            left -= take;
        }
        if (json_array_size(spans) > 1) {
            json_object_set_new(t, "spans", spans);
        } else {
            json_object_set_new(t, "shard", json_integer((json_int_t)(data.size / shard_size)));
            json_object_set_new(t, "offset", json_integer((json_int_t)(data.size % shard_size)));
            json_decref(spans);
        }
        json_object_set_new(tensors, key, t);
        dop_buf_append(&data, file.data + 8 + n + begin, size);
        dop_buf_zeros(&data, 2);
    }
    for (size_t at = 0, i = 0; at < data.size; at += shard_size, i++) {
        size_t size = data.size - at < shard_size ? data.size - at : shard_size;
        char name[32], hex[65];
        snprintf(name, sizeof name, "shard_%05zu.bin", i);
        scratch_write(s, name, data.data + at, size);
        sha256_hex(data.data + at, size, hex);
        json_array_append_new(shards, json_pack("{s:I, s:s, s:I, s:s, s:I}", "index", (json_int_t)i,
                                                i % 2 ? "filename" : "fileName", name, "size", (json_int_t)size, "hash",
                                                hex, "offset", (json_int_t)at));
    }
    json_object_set_new(manifest, "shards", shards);
    json_object_set_new(manifest, "tensors", tensors);
    json_object_set_new(manifest, "totalSize", json_integer((json_int_t)data.size));
    json_decref(header);
    dop_buf_finish(&file);
    dop_buf_finish(&data);
}

/* The manifest of a golden model; its shards lie in `s`. */
static json_t *
convert(scratch *s, const char *model, size_t shard_size)
{
    dop_arena arena;
    dop_diag diag = {0};
    dop_checkpoint m;
    char dir[512];
    snprintf(dir, sizeof dir, GOLDEN "/%s", model);
    dop_arena_init(&arena);
    cr_assert_eq(dop_checkpoint_load(dir, &arena, &diag, &m), DOP_OK, "%s", diag.message);
    json_t *manifest = manifest_of(&m.arch);
    cr_assert(manifest);
    write_shards(s, model, manifest, shard_size);
    dop_checkpoint_finish(&m);
    dop_arena_finish(&arena);
    return manifest;
}

Test(import_rdrr, golden_logits)
{
    static const char *const models[] = {"llama", "mistral_window", "gemma",   "gemma2", "gemma3",
                                         "qwen2", "qwen3",          "granite", "olmo2"};
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

/* ---- kernel paths ------------------------------------------------------------------------------------------------- */

Test(import_rdrr, kernel_paths)
{
    static const struct {
        const char *patch; /* of inference */
        const char *failure;
        uint32_t steps;
    } cases[] = {
        {"{\"execution\": {}}", NULL, 0},
        {"{\"execution\": {\"kernels\": {\"g\": {\"kernel\": \"gemv.wgsl\", \"entry\": \"main\"}}, \"decode\": "
         "[[\"q_proj\","
         " \"g\", \"w\"], {\"layers\": [0, 1], \"steps\": [[\"k_proj\", \"g\"]]}]}}",
         NULL, 3},
        {"{\"execution\": {\"kernels\": {}, \"decode\": [[\"q_proj\", \"g\"]]}}",
         "inference.execution.decode: kernel \"g\" of op q_proj is not in execution.kernels", 0},
        {"{\"execution\": {\"kernels\": {}, \"prefill\": [[\"warp\", \"g\"]]}}",
         "inference.execution.prefill: unknown op \"warp\"", 0},
        {"{\"execution\": {\"kernels\": {\"g\": {\"kernel\": \"x\", \"precision\": {\"kvDtype\": \"int4\"}}}}}",
         "inference.execution.kernels.g.precision.kvDtype \"int4\" is not supported; known: f16, f32", 0},
        {"{\"execution\": {\"kernels\": {}, \"decode\": [7]}}", "inference.execution.decode[0] is not a step", 0},
        {"{\"execution\": {\"kernels\": {}, \"decode\": [[\"q_proj\"]]}}",
         "inference.execution.decode: a step is not [op, kernel] or [op, kernel, weights]", 0},
        {"{\"execution\": {\"kernels\": {}, \"decode\": [{\"layers\": [2], \"steps\": []}]}}",
         "inference.execution.decode[0].layers[0] is not a layer of the model", 0},
        {"{\"defaultKernelPath\": \"gemma2-q4k-fused-f16a\"}", NULL, 0},
        {"{\"kernelPath\": {\"id\": \"own\", \"activationDtype\": \"f16\", \"decode\": {\"steps\": [{\"op\": "
         "\"q_proj\","
         " \"kernel\": \"a.wgsl\"}]}, \"layerOverrides\": [{\"layers\": [1], \"steps\": [{\"op\": \"k_proj\", "
         "\"kernel\":"
         " \"b.wgsl\"}]}]}}",
         NULL, 2},
        {"{\"kernelPath\": {\"activationDtype\": \"f8\"}}",
         "inference.kernelPath.activationDtype \"f8\" is not supported; known: f16, f32", 0},
        {"{\"kernelPath\": {\"decode\": {\"steps\": [{\"op\": \"warp\", \"kernel\": \"a\"}]}}}",
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
                          strcmp(u.m.path[0].phase, "decode") == 0 && strcmp(u.m.path[0].kernel, "gemv.wgsl") == 0);
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

/* ---- must fail ---------------------------------------------------------------------------------------------------- */

#define EMBED "model.embed_tokens.weight"
#define M "\"<merge>\": 1, "

Test(import_rdrr, bad_manifests)
{
    static const struct {
        const char *patch, *message;
    } cases[] = {
        {"{\"version\": 3}", "version is not 1: not an RDRR manifest that is known here"},
        {"{\"version\": \"beta\"}", "version is not 1: not an RDRR manifest that is known here"},
        {"{\"modelType\": \"mamba\"}", "modelType \"mamba\" is not supported; known: transformer"},
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
         "inference.layerPattern.layerTypes[0]: conv layers are not supported; known: full_attention, "
         "sliding_attention"},
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

/* What each real manifest gives: its facts, or the one line that names what is not supported. */
Test(import_rdrr, published_manifests)
{
    static const struct {
        const char *file, *message;
        uint32_t layers, steps;
    } cases[] = {
        {"gemma-3-1b-it-q4k-ehf16-af32.json", NULL, 26, 35},
        {"gemma-3-270m-it-q4k-ehf16-af32.json", NULL, 18, 35},
        {"minicpm4-0-5b-f16-af32.json", NULL, 24, 35},
        {"gemma-4-12b-it-text-q4k-ehf16-af16.json", "modelType \"gemma4\" is not supported; known: transformer", 0, 0},
        {"gemma-4-e2b-it-q4k-ehf16-af32-int4ple.json", "modelType \"gemma4\" is not supported; known: transformer", 0,
         0},
        {"google-embeddinggemma-300m-q4k-ehf16-af32.json",
         "modelType \"embedding\" is not supported; known: transformer", 0, 0},
        {"lfm2-5-1-2b-instruct-q4k-ehf16-af32.json",
         "inference.layerPattern.layerTypes[0]: conv layers are not supported; known: full_attention, "
         "sliding_attention",
         0, 0},
        {"qwen-3-5-0-8b-q4k-ehaf16.json", "architecture.linearNumKeyHeads: linear attention is not supported", 0, 0},
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
        if (st == DOP_OK)
            st = dop_arch_check(&m.arch, r.path, &diag);
        if (st == DOP_OK)
            st = dop_rdrr_check_tensors(&r);
        if (cases[i].message) {
            cr_expect_eq(st, DOP_E_INPUT, "%s", cases[i].file);
            cr_expect_str_eq(diag.message, cases[i].message, "%s: %s", cases[i].file, diag.message);
        } else {
            cr_expect_eq(st, DOP_OK, "%s: %s", cases[i].file, diag.message);
            cr_expect_eq(m.arch.n_layers, cases[i].layers, "%s: %u layers", cases[i].file, m.arch.n_layers);
            cr_expect_eq(m.n_path, cases[i].steps, "%s: %u steps", cases[i].file, m.n_path);
        }
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
