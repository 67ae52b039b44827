/* Low-rank adapter files (LoRA, https://arxiv.org/abs/2106.09685): PEFT directories, GGUF adapters, and adapters of diffusion models.
 *
 * An adapter adds scale * B A to a matrix W [rows, cols] of a model, with A [rank, cols] and B [rows, rank].  Its files name matrices
 * as in the checkpoint that it was trained on.  The compiler makes places, which map those rows to the model's matrices.  One reader
 * therefore serves both merging into weights and loading at run time. */
#ifndef DOPPLER_BASE_FORMAT_ADAPTER_H
#define DOPPLER_BASE_FORMAT_ADAPTER_H

#include "base/arena.h"
#include "base/base.h"

enum { DOP_ADAPTER_MAX_RANK = 4096 };

/* Target of matrices that the model has but does not use; changes to them are ignored. */
#define DOP_ADAPTER_NOWHERE UINT32_MAX

/* A matrix of the model that adapters may change. */
typedef struct dop_adapter_target {
    const char *name;    /* canonical weight name: "L3.q" */
    uint32_t rows, cols; /* size of one matrix */
    uint32_t experts;    /* number of matrices, one per expert; otherwise 1 */
    bool embedding;      /* true for the embedding, whose rows are tokens */
} dop_adapter_target;

/* Order of rows within each head, for rotary embedding.  A file may store the two halves of its pairs one after the other where the
 * model interleaves them, or the reverse. */
enum { DOP_ADAPTER_STRAIGHT, DOP_ADAPTER_PAIRS_IN_FILE, DOP_ADAPTER_HALVES_IN_FILE };

/* Maps n rows of a target to rows of a file's matrix, which has `total` rows.  Row r of the n is row start + r / block * step + r %
 * block of the matrix (block 0: start + r).  r follows the file's order of rows within each head. */
typedef struct dop_adapter_place {
    /* Name of the matrix in files, without ".weight": "layers.3.self_attn.q_proj", "blk.3.attn_q". */
    const char *tensor;
    uint32_t target;   /* index of the target, or DOP_ADAPTER_NOWHERE */
    uint32_t expert;   /* expert number; UINT32_MAX: the tensor has the matrices of all experts */
    uint32_t first, n; /* range of rows of the target */
    uint32_t start, block, step, total;
    uint32_t order, head; /* DOP_ADAPTER_*; number of rows per head */
    bool turned;          /* true if the matrix is transposed: the n rows are the target's columns */
} dop_adapter_place;

/* Names and shapes that an adapter may have. */
typedef struct dop_adapter_map {
    const dop_adapter_target *targets;
    uint32_t n_targets;
    const dop_adapter_place *places; /* [n_places] sorted by tensor */
    uint32_t n_places;
    const char *archs; /* accepted general.architecture values of GGUF files, separated by spaces; "": unknown */
    bool tied;         /* true if the output matrix is the embedding (tied weights) */
    bool draws;        /* true for diffusion models: accepts single files in the formats of diffusers and sd-scripts */
} dop_adapter_map;

/* A change of some rows of a target. */
typedef struct dop_adapter_part {
    uint32_t target, expert;
    uint32_t first, n;    /* range of rows */
    uint32_t rank;        /* rank of a and b; 0: there are none */
    double scale;         /* factor of B A from the file */
    const float *a, *b;   /* A [rank, cols], B [n, rank] */
    const float *lengths; /* DoRA: [n] row lengths after the change; NULL: none */
    const float *whole;   /* [n, cols] rows that replace those of the target; NULL: none */
    const char *tensor;   /* tensor name for messages */
} dop_adapter_part;

typedef struct dop_adapter {
    dop_adapter_part *parts;
    uint32_t n_parts;
    uint32_t rank; /* largest rank of any part */
} dop_adapter;

/* Reads an adapter into the arena: a PEFT directory, its .safetensors file, a GGUF file or, for diffusion models, a single .safetensors
 * file.  Fails with one line if the adapter is of another model, damaged, not finite, or of an unsupported kind. */
dop_status dop_adapter_read(const char *path, const dop_adapter_map *map, dop_arena *arena, dop_diag *diag,
                            dop_adapter *out);

/* Sorts places by tensor, as dop_adapter_map requires. */
void dop_adapter_sort_places(dop_adapter_place *places, uint32_t n);

/* Parses "FILE:SCALE" from a command line; the default scale is 1.  *out_path is in the arena. */
dop_status dop_adapter_argument(const char *text, dop_arena *arena, dop_diag *diag, const char **out_path,
                                double *out_scale);

#endif
