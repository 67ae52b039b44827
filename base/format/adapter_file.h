/* What the readers of adapters' files give: matrices in pairs, by the name of what they change.  Only base/format/ includes this. */
#ifndef DOPPLER_BASE_FORMAT_ADAPTER_FILE_H
#define DOPPLER_BASE_FORMAT_ADAPTER_FILE_H

#include "base/arena.h"
#include "base/format/safetensors.h"
#include "base/json/json_util.h"

typedef enum dop_adapter_type {
    DOP_ADAPTER_F32,
    DOP_ADAPTER_F16,
    DOP_ADAPTER_BF16,
    DOP_ADAPTER_Q8_0, /* GGUF: blocks of an f16 scale and 32 bytes */
} dop_adapter_type;

/* A matrix in a mapped file, rows one after the other. */
typedef struct dop_adapter_matrix {
    const char *tensor; /* NULL: there is none */
    const uint8_t *data;
    dop_adapter_type type;
    uint64_t experts, rows, cols;
} dop_adapter_matrix;

/* What a file has for one module.  An embedding's matrices are stored turned around: its a [rows, rank], its b [cols, rank]. */
typedef struct dop_adapter_pair {
    const char *module; /* "model.layers.0.self_attn.q_proj", "blk.0.attn_q" */
    dop_adapter_matrix a, b, lengths, whole;
    dop_adapter_matrix alpha; /* one value, which times 1 / rank is the scale */
    bool embedding, turned;   /* turned: a is [rank, rows] in spite of that */
    double scale;
} dop_adapter_pair;

typedef struct dop_adapter_file {
    const char *path;
    bool exact;       /* modules are whole names; else they may begin with more than the places' names do */
    const char *arch; /* general.architecture; NULL: not stated */
    dop_adapter_pair *pairs;
    uint32_t n_pairs, cap_pairs;
    dop_map map;
} dop_adapter_file;

/* adapter_config.json, or what another file says in its place. */
typedef struct dop_adapter_config {
    uint32_t r;
    double alpha;
    bool stabilized; /* use_rslora */
    bool dora;
    const json_t *ranks, *alphas; /* rank_pattern, alpha_pattern; NULL: none */
    const char *path;             /* for messages */
} dop_adapter_config;
dop_status dop_adapter_read_config(const json_t *root, const char *path, dop_diag *diag, dop_adapter_config *out);
/* Sets a pair's scale, and compares its rank, and whether it has lengths, with the configuration. */
dop_status dop_adapter_set_scale(const dop_adapter_config *c, dop_adapter_pair *p, dop_diag *diag);
/* A tensor as a matrix; of a convolution, whose tensor is [outputs, channels, height, width], the channels' taps are its columns. */
dop_status dop_adapter_matrix_of(const dop_st_tensor *t, dop_diag *diag, dop_adapter_matrix *out);
/* Value i of a matrix, counted over all of it. */
float dop_adapter_value(const dop_adapter_matrix *m, uint64_t i);

/* Map a file and list its pairs, in the arena; the map is closed by the caller, also after a failure.  diffusers: the adapters of models
 * that draw, as one file that says everything. */
dop_status dop_adapter_read_peft(const char *weights, const char *config, dop_arena *arena, dop_diag *diag,
                                 dop_adapter_file *out);
dop_status dop_adapter_read_diffusers(const char *path, dop_arena *arena, dop_diag *diag, dop_adapter_file *out);
dop_status dop_adapter_read_gguf(const char *path, dop_arena *arena, dop_diag *diag, dop_adapter_file *out);

/* Adds a pair for one tensor of a module; dop_adapter_join() makes one pair of all that a module has. */
dop_status dop_adapter_add(dop_adapter_file *f, const char *module, size_t len, dop_arena *arena, dop_diag *diag,
                           dop_adapter_pair **out);
dop_status dop_adapter_join(dop_adapter_file *f, dop_diag *diag);

#endif
