/* Internal declarations of the RDRR importer; only frontend/rdrr/ and its tests include this.
 *
 * An RDRR directory has a manifest.json next to shards of bytes. The manifest describes the model and locates each tensor: a range of
 * one shard, or spans over several. Sources: docs/FORMATS.md and src/config/schema/manifest.schema.d.ts of
 * https://github.com/clocksmith/doppler, and published manifests. */
#ifndef DOPPLER_FRONTEND_RDRR_RDRR_H
#define DOPPLER_FRONTEND_RDRR_RDRR_H

#include "base/json/json_util.h"
#include "frontend/facts/facts.h"
#include "frontend/facts/import.h"

enum { DOP_RDRR_MAX_RANK = 8 };

typedef enum dop_rdrr_hash { DOP_RDRR_SHA256, DOP_RDRR_BLAKE3 } dop_rdrr_hash;

typedef struct dop_rdrr_shard {
    const char *file; /* file name without folder, borrowed from the manifest */
    uint64_t size;
    dop_rdrr_hash algorithm;
    const char *hash;    /* 64 hexadecimal digits */
    const uint8_t *data; /* mapped file; NULL until the shard is opened */
} dop_rdrr_shard;

/* A range of a tensor's bytes: `size` bytes from `offset` of a shard. */
typedef struct dop_rdrr_span {
    uint32_t shard;
    uint64_t offset, size;
} dop_rdrr_span;

/* Layout of a matrix: rows of blocks, rows of the transposed matrix, or one sequence of blocks over all values. */
typedef enum dop_rdrr_layout { DOP_RDRR_ROW, DOP_RDRR_COLUMN, DOP_RDRR_FLAT } dop_rdrr_layout;

typedef struct dop_rdrr_tensor {
    const char *name;
    const char *dtype; /* dtype as spelled in the manifest */
    dop_type type;     /* none: the type is not supported */
    uint32_t rank;
    uint64_t shape[DOP_RDRR_MAX_RANK];
    uint64_t size;
    dop_rdrr_layout layout;
    bool transformed;               /* the tensor has a sourceTransform: its bytes are not of type `dtype` */
    struct dop_rdrr_scales *scales; /* the sourceTransform is 4-bit integers with a scale per row; NULL: another */
    bool taken;                     /* used by a weight */
    uint32_t n_spans;
    dop_rdrr_span *spans;
} dop_rdrr_tensor;

/* Row scales of a tensor of 4-bit integers. */
typedef struct dop_rdrr_scales {
    dop_rdrr_tensor tensor; /* location of the scales: an f32 per row */
    bool is_signed;         /* integers are two's complement; otherwise stored with 8 added */
} dop_rdrr_scales;

/* Sections of a manifest's model part. */
typedef struct dop_rdrr_sections {
    dop_json arch, inference, attention, norm, ffn, rope, output, pattern;
} dop_rdrr_sections;

typedef struct dop_rdrr {
    const char *dir;
    const char *path; /* path of manifest.json */
    json_t *root, *tensors_root;
    dop_json top;
    dop_arena *arena;
    dop_diag *diag;
    dop_checkpoint *model;
    dop_rdrr_shard *shards;
    uint32_t n_shards;
    bool unverified;          /* a shard's hash has an unsupported kind and was not checked; the model's note says so */
    dop_rdrr_tensor *tensors; /* sorted by name */
    uint32_t n_tensors;
    /* facts common to all layers; copied to each layer before its own facts are read */
    dop_layer layer;
    const bool *sliding;                 /* [layers] true if the layer has type sliding_attention */
    dop_arch stated;                     /* with `family`: facts of the manifest outside of layers */
    const char *family;                  /* family read by the Hugging Face importer (family.c); NULL: none */
    json_t *config;                      /* with `family`: the generated config.json; owned */
    bool failed;                         /* out of memory while adding a field to `config` */
    const char *dense[DOP_MAX_DENSE][2]; /* tensors of the dense layers after pooling: matrix, and bias or NULL */
    const char *prefix;                  /* prefix of tensor names */
    const dop_tensor_name *more_names;
} dop_rdrr;

#endif
