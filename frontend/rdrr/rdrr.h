/* The parts of the RDRR importer; only frontend/rdrr/ and its tests include this.
 *
 * RDRR is a manifest.json beside shards of bytes: the manifest says where each tensor lies (a place in one shard, or
 * spans over several) and describes the model.  Sources: docs/FORMATS.md and src/config/schema/manifest.schema.d.ts of
 * https://github.com/clocksmith/doppler, and published manifests. */
#ifndef DOPPLER_FRONTEND_RDRR_RDRR_H
#define DOPPLER_FRONTEND_RDRR_RDRR_H

#include "base/json/json_util.h"
#include "frontend/facts/facts.h"
#include "frontend/facts/import.h"

enum { DOP_RDRR_MAX_RANK = 8 };

typedef enum dop_rdrr_hash { DOP_RDRR_SHA256, DOP_RDRR_BLAKE3 } dop_rdrr_hash;

typedef struct dop_rdrr_shard {
    const char *file; /* plain name, borrowed from the manifest */
    uint64_t size;
    dop_rdrr_hash algorithm;
    const char *hash;    /* 64 hexadecimal digits */
    const uint8_t *data; /* the mapped file; NULL before the shard is opened */
} dop_rdrr_shard;

/* A piece of a tensor's bytes: `size` bytes from `offset` of a shard. */
typedef struct dop_rdrr_span {
    uint32_t shard;
    uint64_t offset, size;
} dop_rdrr_span;

/* The layout of a matrix: rows of blocks, rows of the transposed matrix, or one run of blocks over all values. */
typedef enum dop_rdrr_layout { DOP_RDRR_ROW, DOP_RDRR_COLUMN, DOP_RDRR_FLAT } dop_rdrr_layout;

typedef struct dop_rdrr_tensor {
    const char *name;
    const char *dtype; /* as the manifest spells it */
    dop_type type;     /* none: a type that is known only by name */
    uint32_t rank;
    uint64_t shape[DOP_RDRR_MAX_RANK];
    uint64_t size;
    dop_rdrr_layout layout;
    bool transformed;               /* the tensor has a sourceTransform: its bytes are not what dtype says */
    struct dop_rdrr_scales *scales; /* the sourceTransform is 4-bit integers with a scale per row; NULL: it is not */
    bool taken;                     /* a weight uses it */
    uint32_t n_spans;
    dop_rdrr_span *spans;
} dop_rdrr_tensor;

/* Scales of the rows of a tensor of 4-bit integers. */
typedef struct dop_rdrr_scales {
    dop_rdrr_tensor tensor; /* where the scales lie: an f32 for each row */
    bool is_signed;         /* integers are stored as two's complement; otherwise plus 8 */
} dop_rdrr_scales;

/* The sections of a manifest's model part. */
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
    bool unverified;          /* a shard's hash was of a kind that is not checked, and the model's note says so */
    dop_rdrr_tensor *tensors; /* sorted by name */
    uint32_t n_tensors;
    dop_layer layer;                     /* what all layers share; copied to each layer before what differs is read */
    const bool *sliding;                 /* [layers] the layer is of type sliding_attention */
    dop_arch stated;                     /* with `family`: the manifest's facts outside of layers */
    const char *family;                  /* family that the Hugging Face importer reads (family.c); NULL: none */
    json_t *config;                      /* with `family`: config.json that it reads; owned */
    bool failed;                         /* there was no memory for a field of `config` */
    const char *dense[DOP_MAX_DENSE][2]; /* tensors of the products after pooling: matrix, and bias or NULL */
    const char *prefix;                  /* prefix of tensor names */
    const dop_tensor_name *more_names;
} dop_rdrr;

#endif
