/* Output of the adapter file readers: pairs of matrices, by module name.  Internal to base/format/. */
#ifndef DOPPLER_BASE_FORMAT_ADAPTER_FILE_H
#define DOPPLER_BASE_FORMAT_ADAPTER_FILE_H

#include "base/arena.h"
#include "base/format/safetensors.h"
#include "base/json/json_util.h"

typedef enum dop_adapter_type {
    DOP_ADAPTER_F32,
    DOP_ADAPTER_F16,
    DOP_ADAPTER_BF16,
    DOP_ADAPTER_Q8_0, /* GGUF: blocks of an f16 scale and 32 signed bytes */
} dop_adapter_type;

/* A row-major matrix in a mapped file. */
typedef struct dop_adapter_matrix {
    const char *tensor; /* tensor name; NULL: no matrix */
    const uint8_t *data;
    dop_adapter_type type;
    uint64_t experts, rows, cols;
} dop_adapter_matrix;

/* Matrices of one module in a file.  For embeddings they are stored transposed: a [rows, rank], b [cols, rank]. */
typedef struct dop_adapter_pair {
    const char *module; /* module name: "model.layers.0.self_attn.q_proj", "blk.0.attn_q" */
    dop_adapter_matrix a, b, lengths, whole;
    dop_adapter_matrix alpha; /* a single value: alpha; the scale is alpha / rank */
    bool embedding, turned;   /* turned: a is [rank, rows] although the module is an embedding */
    double scale;
} dop_adapter_pair;

typedef struct dop_adapter_file {
    const char *path;
    bool exact;       /* true if module names are complete; false if they may have a longer prefix than places */
    const char *arch; /* general.architecture; NULL: unknown */
    dop_adapter_pair *pairs;
    uint32_t n_pairs, cap_pairs;
    dop_map map;
} dop_adapter_file;

/* Adapter configuration: adapter_config.json, or its equivalent in other formats. */
typedef struct dop_adapter_config {
    uint32_t r;
    double alpha;
    bool stabilized; /* use_rslora */
    bool dora;
    const json_t *ranks, *alphas; /* rank_pattern and alpha_pattern; NULL: none */
    const char *path;             /* path for messages */
} dop_adapter_config;
dop_status dop_adapter_read_config(const json_t *root, const char *path, dop_diag *diag, dop_adapter_config *out);
/* Sets the scale of a pair.  Fails if its rank or the presence of DoRA lengths contradicts the configuration. */
dop_status dop_adapter_set_scale(const dop_adapter_config *c, dop_adapter_pair *p, dop_diag *diag);
/* Converts a tensor to a matrix.  The kernel taps of all channels of a convolution, [outputs, channels, height, width], become
 * columns. */
dop_status dop_adapter_matrix_of(const dop_st_tensor *t, dop_diag *diag, dop_adapter_matrix *out);
/* Returns value i of a matrix, counted over all rows. */
float dop_adapter_value(const dop_adapter_matrix *m, uint64_t i);

/* Map a file and list its pairs in the arena.  The caller closes the map, also after a failure.  diffusers: single-file adapters of
 * diffusion models. */
dop_status dop_adapter_read_peft(const char *weights, const char *config, dop_arena *arena, dop_diag *diag,
                                 dop_adapter_file *out);
dop_status dop_adapter_read_diffusers(const char *path, dop_arena *arena, dop_diag *diag, dop_adapter_file *out);
dop_status dop_adapter_read_gguf(const char *path, dop_arena *arena, dop_diag *diag, dop_adapter_file *out);

/* dop_adapter_add adds a pair for one tensor of a module; dop_adapter_join then merges the pairs of each module. */
dop_status dop_adapter_add(dop_adapter_file *f, const char *module, size_t len, dop_arena *arena, dop_diag *diag,
                           dop_adapter_pair **out);
dop_status dop_adapter_join(dop_adapter_file *f, dop_diag *diag);

#endif
