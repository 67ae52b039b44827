/* Small Hugging Face models as RDRR directories: a manifest that states their facts, and shards of their tensors.  What cannot be written
 * ends the program. */
#ifndef DOPPLER_TESTS_UNIT_RDRR_WRITER_H
#define DOPPLER_TESTS_UNIT_RDRR_WRITER_H

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format/safetensors.h"
#include "base/json/json.h"
#include "frontend/facts/arch.h"

static inline void
rdrr_check(bool right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "rdrr_writer: %s\n", what);
    abort();
}

static inline void
sha256_hex(const void *data, size_t size, char out[65])
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    rdrr_check(EVP_Digest(data, size, digest, &n, EVP_sha256(), NULL) && n == 32, "no digest");
    for (unsigned i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* Finds the first layer with attention, with or without a window; NULL: no layer has that. */
static inline const dop_attention *
rdrr_attention(const dop_arch *a, bool slides, bool any)
{
    for (uint32_t i = 0; i < a->n_layers; i++) {
        const dop_attention *t = dop_layer_attention(&a->layers[i]);
        if (t && (any || (t->window > 0) == slides))
            return t;
    }
    return NULL;
}

static inline json_t *
rdrr_rope(const dop_arch *a, const dop_attention *t)
{
    const dop_rope *full = &a->ropes[0];
    const uint32_t turned = full->rotated ? full->rotated : full->dims;
    const uint32_t dim = full->rotated ? full->dims : t->head_dim;
    json_t *rope = json_pack("{s:f, s:n, s:i}", "ropeTheta", full->theta, "ropeScalingType", "ropeScalingFactor", 1);
    if (a->n_ropes > 1)
        json_object_set_new(rope, "ropeLocalTheta", json_real(a->ropes[1].theta));
    if (turned < dim)
        json_object_set_new(rope, "partialRotaryFactor", json_real((double)turned / dim));
    if (full->rotated)
        json_object_set_new(rope, "ropeFrequencyBaseDim", json_integer(dim));
    return rope;
}

/* The `inference` of a manifest that states the facts of a loaded model. */
static inline json_t *
rdrr_inference(const dop_arch *a)
{
    const dop_layer *y = &a->layers[0];
    const dop_attention *l = rdrr_attention(a, false, true), *slides = rdrr_attention(a, true, false);
    const double norm_add = a->final_norm.add;
    const bool sandwich = y->post_ffn_norm.kind && y->ffn_norm.kind;
    json_t *types = json_array();
    for (uint32_t i = 0; i < a->n_layers; i++) {
        const dop_attention *t = dop_layer_attention(&a->layers[i]);
        const bool conv = !t && a->layers[i].mixers[0].kind == DOP_MIXER_CONV;
        json_array_append_new(types, json_string(conv        ? "conv"
                                                 : !t        ? "linear_attention"
                                                 : t->window ? "sliding_attention"
                                                             : "full_attention"));
    }
    json_t *attention = json_pack("{s:f, s:b, s:b, s:b, s:b}", "queryPreAttnScalar", 1 / (l->scale * l->scale),
                                  "queryKeyNorm", l->q_norm.kind != DOP_NORM_NONE, "causal", !l->both, "valueNorm",
                                  l->v_norm.kind != DOP_NORM_NONE, "attentionOutputGate", l->gate);
    if (slides) /* on each side, where rows see both */
        json_object_set_new(attention, "slidingWindow",
                            json_integer(l->both ? 2 * (slides->window - 1) : slides->window));
    if (l->softcap > 0)
        json_object_set_new(attention, "attnLogitSoftcapping", json_real(l->softcap));
    json_t *output = json_pack("{s:b, s:b, s:n}", "tieWordEmbeddings", a->tied, "scaleEmbeddings",
                               norm_add > 0 && a->embed_scale != 1, "embeddingVocabSize");
    if (a->logit_softcap > 0)
        json_object_set_new(output, "finalLogitSoftcapping", json_real(a->logit_softcap));
    if (a->embed_scale != 1 && norm_add == 0)
        json_object_set_new(output, "embeddingScale", json_real(a->embed_scale));
    if (a->logit_scale != 1)
        json_object_set_new(output, "logitInputScale", json_real(a->logit_scale));
    if (a->encoder.used)
        json_object_set_new(output, "embeddingPostprocessor",
                            json_pack("{s:s, s:b, s:[], s:s}", "poolingMode",
                                      a->encoder.pool == DOP_BY_MEAN ? "mean" : "last", "includePrompt", 1,
                                      "projections", "normalize", "l2"));
    return json_pack("{s:o, s:{s:f, s:b, s:b, s:b, s:b}, s:{s:s, s:b}, s:o, s:o, s:{s:s, s:o, s:f}}", "attention",
                     attention, "normalization", "rmsNormEps", a->final_norm.eps, "rmsNormWeightOffset", norm_add > 0,
                     "postAttentionNorm", 1, "preFeedforwardNorm", sandwich, "postFeedforwardNorm",
                     y->post_ffn_norm.kind != DOP_NORM_NONE, "ffn", "activation",
                     y->ffn.act == DOP_ACT_SILU ? "silu" : "gelu", "gatedActivation", 1, "rope", rdrr_rope(a, l),
                     "output", output, "layerPattern", "type", "custom", "layerTypes", types, "residualBranchScale",
                     y->residual_scale);
}

static inline json_t *
rdrr_manifest(const dop_arch *a)
{
    const dop_attention *full = rdrr_attention(a, false, false), *first = rdrr_attention(a, true, false);
    const dop_recurrent *s = NULL;
    const char *type = "transformer";
    first = first ? first : full;
    json_t *arch =
        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "numLayers", a->n_layers, "hiddenSize", a->hidden,
                  "intermediateSize", a->layers[0].ffn.width, "numAttentionHeads", first->n_heads, "numKeyValueHeads",
                  first->n_kv_heads, "headDim", first->head_dim, "vocabSize", a->vocab, "maxSeqLen", a->ctx_train);
    for (uint32_t i = 0; i < a->n_layers; i++)
        s = s ? s : dop_layer_recurrent(&a->layers[i]);
    if (s && s->n_heads) {
        json_t *linear = json_pack("{s:i, s:i, s:i, s:i, s:i}", "linearNumValueHeads", s->n_heads, "linearValueHeadDim",
                                   s->head_dim, "linearNumKeyHeads", s->n_groups, "linearKeyHeadDim", s->state_dim,
                                   "linearConvKernelDim", s->taps);
        json_object_update(arch, linear);
        json_decref(linear);
    }
    if (first->v_norm.kind != DOP_NORM_NONE) {
        type = "gemma4";
        json_object_set_new(arch, "globalHeadDim", json_integer(full->head_dim));
        json_object_set_new(arch, "numGlobalKeyValueHeads", json_integer(full->n_kv_heads));
    }
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:o, s:n, s:o, s:i}", "version", 1, "modelId", "golden", "modelType",
                     a->encoder.used ? "embedding" : type, "quantization", "BF16", "hashAlgorithm", "sha256",
                     "architecture", arch, "moeConfig", "inference", rdrr_inference(a), "eos_token_id", 2);
}

static inline void
rdrr_write(const char *dir, const char *file, const void *data, size_t size)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    FILE *f = fopen(path, "wb");
    rdrr_check(f && fwrite(data, 1, size, f) == size && fclose(f) == 0, path);
}

static inline void
rdrr_add_tensor(const dop_st_tensor *from, size_t shard_size, dop_buf *data, json_t *tensors)
{
    size_t at = data->size, left = (size_t)from->bytes;
    json_t *shape = json_array(), *spans = json_array();
    for (uint32_t k = 0; k < from->rank; k++)
        json_array_append_new(shape, json_integer((json_int_t)from->shape[k]));
    json_t *t = json_pack("{s:I, s:o, s:s, s:s}", "size", (json_int_t)from->bytes, "shape", shape, "dtype", from->dtype,
                          "role", "matmul");
    while (left) {
        const size_t in_shard = shard_size - at % shard_size, take = left < in_shard ? left : in_shard;
        json_array_append_new(spans, json_pack("{s:I, s:I, s:I}", "shardIndex", (json_int_t)(at / shard_size), "offset",
                                               (json_int_t)(at % shard_size), "size", (json_int_t)take));
        at += take;
        left -= take;
    }
    if (json_array_size(spans) > 1) {
        json_object_set_new(t, "spans", spans);
    } else {
        json_object_set_new(t, "shard", json_integer((json_int_t)(data->size / shard_size)));
        json_object_set_new(t, "offset", json_integer((json_int_t)(data->size % shard_size)));
        json_decref(spans);
    }
    json_object_set_new(tensors, from->name, t);
    dop_buf_append(data, from->data, (size_t)from->bytes);
    dop_buf_zeros(data, 2);
}

/* Cuts tensors into shards of `shard_size` bytes in `dir`, two bytes between tensors, and describes both in the manifest. */
static inline void
rdrr_write_shards(const char *dir, const dop_st_tensor *list, uint32_t n, json_t *manifest, size_t shard_size)
{
    dop_buf data = {0};
    json_t *tensors = json_object(), *shards = json_array();
    for (uint32_t i = 0; i < n; i++)
        rdrr_add_tensor(&list[i], shard_size, &data, tensors);
    for (size_t at = 0, i = 0; at < data.size; at += shard_size, i++) {
        const size_t size = data.size - at < shard_size ? data.size - at : shard_size;
        char name[32], hex[65];
        snprintf(name, sizeof name, "shard_%05zu.bin", i);
        rdrr_write(dir, name, data.data + at, size);
        sha256_hex(data.data + at, size, hex);
        json_array_append_new(shards, json_pack("{s:I, s:s, s:I, s:s, s:I}", "index", (json_int_t)i,
                                                i % 2 ? "filename" : "fileName", name, "size", (json_int_t)size, "hash",
                                                hex, "offset", (json_int_t)at));
    }
    json_object_set_new(manifest, "shards", shards);
    json_object_set_new(manifest, "tensors", tensors);
    json_object_set_new(manifest, "totalSize", json_integer((json_int_t)data.size));
    dop_buf_finish(&data);
}

/* Returns the manifest of the model in a directory, whose shards it writes to `dir`. */
static inline json_t *
rdrr_convert(const char *model, const char *dir, size_t shard_size)
{
    dop_arena arena;
    dop_diag diag = {0};
    dop_checkpoint m;
    dop_st_set set;
    dop_map *maps = NULL;
    uint32_t n_maps = 0;
    dop_arena_init(&arena);
    rdrr_check(dop_checkpoint_load(model, &arena, &diag, &m) == DOP_OK, diag.message);
    json_t *manifest = rdrr_manifest(&m.arch);
    rdrr_check(manifest != NULL, "no manifest");
    rdrr_check(dop_st_open_dir(model, &arena, &diag, &set, &maps, &n_maps) == DOP_OK, diag.message);
    rdrr_write_shards(dir, set.tensors, set.n, manifest, shard_size);
    for (uint32_t i = 0; i < n_maps; i++)
        dop_map_close(&maps[i]);
    free(maps);
    dop_checkpoint_finish(&m);
    dop_arena_finish(&arena);
    return manifest;
}

#endif
