/* Reference interpreter in plain C, which kernels are tested against: f32 values with f64 accumulation, one node at
 * a time. */
#ifndef DOPPLER_IR_INTERP_INTERP_H
#define DOPPLER_IR_INTERP_INTERP_H

#include "ir/graph/graph.h"

/* A dense, row-major value of f32, or of u32 ids. */
typedef struct dop_tensor {
    dop_shape shape; /* all axes are constants */
    uint64_t count;
    float *f;    /* values of float types; otherwise NULL */
    uint32_t *u; /* values of u32; otherwise NULL */
} dop_tensor;

/* Provides the value of a leaf (input, weight, state) as f32 or u32.  The provider owns it, and it must live until the
 * interpreter is destroyed. state_write of an append state writes to `f`.  The new version of a replace state is the value of its
 * state_write; the provider returns the old one until the caller copies the new one over it. */
typedef struct dop_leaf_provider {
    void *user;
    dop_status (*get)(void *user, const dop_graph *g, dop_node_id leaf, uint32_t t, dop_tensor *out, dop_diag *diag);
} dop_leaf_provider;

typedef struct dop_interp dop_interp;

/* Creates an interpreter for a step of `t` tokens, 1 to g->max_t. */
dop_status dop_interp_create(const dop_graph *g, uint32_t t, const dop_leaf_provider *leaves, dop_diag *diag,
                             dop_interp **out);
void dop_interp_destroy(dop_interp *it);
/* Sets the size of a dimension other than T, S and Q: at most its bound, which is the default.  Call before the first evaluation.
 * Error: no such dimension, or a size out of range. */
dop_status dop_interp_size(dop_interp *it, const char *dimension, uint32_t size, dop_diag *diag);
/* Enables rounding to storage types (f16, bf16) for computed values and KV cache writes; off by default.  Leaves are not rounded.
 * Call before the first evaluation. */
void dop_interp_round_storage(dop_interp *it, bool on);
/* Evaluates `id` and its sources (memoized).  *out is valid until the interpreter is destroyed or a node up to `id` is set.
 * state_write of an append state writes into the memory of its state; evaluating it twice writes the same values.  Errors: those
 * of the provider, and ids or positions outside the table they index (DOP_E_INPUT). */
dop_status dop_interp_eval(dop_interp *it, dop_node_id id, dop_diag *diag, const dop_tensor **out);
/* Overrides a node's value with a copy of `values`, one per element at this t; u32 ids are passed as floats, too.  Used to check
 * one region on random inputs.  Invalidates all results that may depend on it. */
dop_status dop_interp_set(dop_interp *it, dop_node_id id, const float *values, dop_diag *diag);

/* Decodes n values of one row of storage type t to f32. src holds whole blocks and may be unaligned. */
void dop_decode_row(dop_type t, const void *src, uint64_t n, float *out);
/* Converts a byte of e4m3 to f32.  The two NaN codes give 480 and -480. */
float dop_e4m3_to_f32(uint8_t b);

#endif
