/* Reference interpreter: plain C, f32 values with f64 accumulation, one node at a time; the oracle for kernels. */
#ifndef DOPPLER_IR_INTERP_INTERP_H
#define DOPPLER_IR_INTERP_INTERP_H

#include "ir/graph/graph.h"

/* A dense value: rows x cols of f32, or of u32 ids. */
typedef struct dop_tensor {
    dop_shape shape; /* all axes concrete */
    uint64_t count;
    float *f;    /* for float types */
    uint32_t *u; /* for u32 */
} dop_tensor;

/* Gives the value of a leaf (input, weight, state) as f32 or u32.  The provider owns it, and it must live until the
 * interpreter is destroyed.  For an append state, state_write writes to f.  The new version of a replace state is
 * the value of its state_write; the provider keeps giving the old one until the caller copies the new one over it. */
typedef struct dop_leaf_provider {
    void *user;
    dop_status (*get)(void *user, const dop_graph *g, dop_node_id leaf, uint32_t t, dop_tensor *out, dop_diag *diag);
} dop_leaf_provider;

typedef struct dop_interp dop_interp;

/* t: the number of tokens of this step, at most g->max_t. */
dop_status dop_interp_create(const dop_graph *g, uint32_t t, const dop_leaf_provider *leaves, dop_diag *diag,
                             dop_interp **out);
void dop_interp_destroy(dop_interp *it);
/* Sets the size of a dimension that the graph declares besides T, S and Q: at most its bound, which is the default.  Call before
 * the first evaluation.  Error: no such dimension, or a size that is not possible. */
dop_status dop_interp_size(dop_interp *it, const char *dimension, uint32_t size, dop_diag *diag);
/* Whether computed values are rounded to their node's storage type (f16, bf16), and KV caches when written; off by
 * default.  Leaves stay as the provider gave them.  Call before the first evaluation. */
void dop_interp_round_storage(dop_interp *it, bool on);
/* Evaluates `id` and what it needs (memoized); *out lives until the interpreter is destroyed or a node before `id` is
 * set.  state_write of an append state writes into the memory of its state; evaluating it twice writes the same values.
 * Errors: those of the provider, and ids or positions outside the table they index (DOP_E_INPUT). */
dop_status dop_interp_eval(dop_interp *it, dop_node_id id, dop_diag *diag, const dop_tensor **out);
/* Overrides a node's value with a copy of `values`, as many as the node has at this t (used to check one region on
 * random inputs); u32 ids are given as floats too.  Results computed before are forgotten. */
dop_status dop_interp_set(dop_interp *it, dop_node_id id, const float *values, dop_diag *diag);

/* Decodes n values of one row of storage type t to f32; src holds whole blocks and need not be aligned. */
void dop_decode_row(dop_type t, const void *src, uint64_t n, float *out);
/* The number that a byte of e4m3 stands for; of the two codes that are no number, 480 or -480. */
float dop_e4m3_to_f32(uint8_t b);

#endif
