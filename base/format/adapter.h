/* Low-rank adapters (LoRA, https://arxiv.org/abs/2106.09685) as files: PEFT directories, GGUF adapters, and files of adapters of models that
 * draw.
 *
 * An adapter changes a matrix W [rows, cols] of a model by scale * B A, with A [rank, cols] and B [rows, rank].  Its files name
 * matrices as the checkpoints do that it was trained on.  Where the rows of those matrices went is told by places, which the
 * compiler makes; so one reader serves what merges an adapter into weights and what loads it beside them. */
#ifndef DOPPLER_BASE_FORMAT_ADAPTER_H
#define DOPPLER_BASE_FORMAT_ADAPTER_H

#include "base/arena.h"
#include "base/base.h"

enum { DOP_ADAPTER_MAX_RANK = 4096 };

/* The target of a matrix that the model has and does not use, so that its change makes no difference. */
#define DOP_ADAPTER_NOWHERE UINT32_MAX

/* A matrix of the model that adapters may change. */
typedef struct dop_adapter_target {
    const char *name;    /* canonical: "L3.q" */
    uint32_t rows, cols; /* of one matrix */
    uint32_t experts;    /* number of matrices, one for each expert; 1: there is only one */
    bool embedding;      /* it is the embedding, whose rows are tokens */
} dop_adapter_target;

/* The order of rows within each head: a file may store the two halves that rotary embedding pairs one after the other where the model
 * has them in turn, or the other way round. */
enum { DOP_ADAPTER_STRAIGHT, DOP_ADAPTER_PAIRS_IN_FILE, DOP_ADAPTER_HALVES_IN_FILE };

/* Where the rows of a file's matrix lie in the model: row r of these n rows of the target is row
 * start + r / block * step + r % block of the tensor's `total` rows (block 0: start + r), r being its place in the file's order of
 * rows within each head. */
typedef struct dop_adapter_place {
    const char
        *tensor;     /* the matrix's name in files, without ".weight": "layers.3.self_attn.q_proj" or "blk.3.attn_q" */
    uint32_t target; /* or DOP_ADAPTER_NOWHERE */
    uint32_t expert; /* UINT32_MAX: the tensor has the matrices of all experts */
    uint32_t first, n; /* rows of the target */
    uint32_t start, block, step, total;
    uint32_t order, head; /* DOP_ADAPTER_*; rows of a head */
    bool turned;          /* the n rows are all columns of the target, whose rows are the tensor's columns */
} dop_adapter_place;

/* What an adapter's names and shapes are compared with. */
typedef struct dop_adapter_map {
    const dop_adapter_target *targets;
    uint32_t n_targets;
    const dop_adapter_place *places; /* sorted by tensor */
    uint32_t n_places;
    const char
        *archs; /* general.architecture of GGUF files of such models; several are separated by spaces; "": unknown */
    bool tied;  /* the output matrix is the embedding */
    bool draws; /* adapters may be single files in the forms of diffusers and sd-scripts */
} dop_adapter_map;

/* A change of some rows of a target. */
typedef struct dop_adapter_part {
    uint32_t target, expert;
    uint32_t first, n;    /* rows */
    uint32_t rank;        /* 0: there are no a and b */
    double scale;         /* factor on B A that the file states */
    const float *a, *b;   /* [rank, cols], [n, rank] */
    const float *lengths; /* DoRA: the length that each row has afterwards, [n]; NULL: none is set */
    const float *whole;   /* rows that replace those of the target, [n, cols]; NULL: there are none */
    const char *tensor;   /* for messages */
} dop_adapter_part;

typedef struct dop_adapter {
    dop_adapter_part *parts;
    uint32_t n_parts;
    uint32_t rank; /* the largest of any part */
} dop_adapter;

/* Reads an adapter: a PEFT directory, its .safetensors file, a GGUF file or, where the model draws, a .safetensors file alone.  Everything
 * that the adapter has lies in the arena.  Errors are one line: the adapter is of another model, damaged, not finite, or of a kind that
 * is not read. */
dop_status dop_adapter_read(const char *path, const dop_adapter_map *map, dop_arena *arena, dop_diag *diag,
                            dop_adapter *out);

/* Orders places by tensor, as dop_adapter_map wants them. */
void dop_adapter_sort_places(dop_adapter_place *places, uint32_t n);

/* Splits "FILE:SCALE", as command lines name adapters; without a scale it is 1.  *out_path is in the arena. */
dop_status dop_adapter_argument(const char *text, dop_arena *arena, dop_diag *diag, const char **out_path,
                                double *out_scale);

#endif
