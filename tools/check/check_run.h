/* Internals of one --check case (check.h), shared by its files. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_RUN_H
#define DOPPLER_TOOLS_CHECK_CHECK_RUN_H

#include "tools/check/check.h"

enum { DOP_CHECK_SAMPLES = 8, DOP_CHECK_LEAVES = 64, DOP_CHECK_ARGS = 64 };
enum { DOP_CHECK_PRODUCTS = 100000000 }; /* maximum multiplications per case on the host */

/* Argument of the dispatch, with its values on the host. */
typedef struct dop_check_buffer {
    dop_node_id node; /* node that owns the memory: a state or a computed node */
    const dop_plan_arg *arg;
    uint32_t copies;     /* number of consecutive copies of a replace state; 1 for other values */
    uint32_t rows, cols; /* size of one copy in `sent` and `got`; a cache has a few rows after the last position */
    dop_type type;
    float *sent; /* values written to the device before the dispatch */
    float *got;  /* values after the dispatch; NULL: not read back */
} dop_check_buffer;

typedef struct dop_check_run {
    const dop_check_case *c;
    const dop_plan *plan;
    dop_graph *g;
    const dop_region *r;
    dop_diag *diag;
    dop_check_result *result;
    dop_check_random random;
    uint32_t n_samples, sample[DOP_STEP_MAX_ROWS]; /* indices of the step's tokens that are compared */
    bool rounds; /* true if the kernel, and so the reference, rounds activations of products to 8 bits */
    uint32_t n_buffers, n_leaves;
    dop_check_buffer buffers[DOP_CHECK_ARGS];
    float *leaves[DOP_CHECK_LEAVES];
    dop_type *types; /* [n_nodes]: the graph's storage types before the case */
    dop_interp *it;
    float *choice; /* [T,k] ids of the chosen matrices; NULL: no experts, or ids are computed in the region */
    dop_step before, after;
    uint32_t step_ids[DOP_STEP_MAX_ROWS], step_positions[DOP_STEP_MAX_ROWS], step_sequences[DOP_STEP_MAX_ROWS],
        step_types[DOP_STEP_MAX_ROWS]; /* fields of the step record's rows, for the samples */
} dop_check_run;

/* check_buffers.c: fills every argument that the plan's graph names, except weights, and writes it to the device. */
dop_status dop_check_send(dop_check_run *run);
/* Reads back the region's outputs. */
dop_status dop_check_receive(dop_check_run *run);
/* Returns the argument that holds the value, or NULL. */
dop_check_buffer *dop_check_buffer_of(dop_check_run *run, dop_node_id id);
/* Returns the index of the value's first element in `sent` and `got`: the current copy of a replace state, the other
 * copy for a value written to a replace state. */
uint64_t dop_check_copy(const dop_check_run *run, const dop_check_buffer *b, dop_node_id id);

/* check_experts.c: sets run->choice if the region reads expert ids. */
dop_status dop_check_choose(dop_check_run *run);
void dop_check_fill_blocks(const dop_check_run *run, dop_node_id id, float *out);
/* Returns the memory row of a value for row i of the samples. */
static inline uint32_t
dop_check_row(const dop_check_run *run, dop_node_id id, uint64_t i)
{
    const uint32_t n = dop_node_row_multiple(run->g, id);
    return n ? run->sample[i / n] * n + (uint32_t)(i % n) : (uint32_t)i;
}
/* Multiplies the samples by the matrices of their chosen experts. activations: one row per row of source 0; out:
 * [samples, k, w->rows], NaN in columns outside `want`. */
dop_status dop_check_experts(dop_check_run *run, dop_node_id id, const dop_plan_tensor *w, const float *activations,
                             const bool *want, float *out);

/* check_reference.c: creates run->it and sets all values from outside the region. */
dop_status dop_check_reference_open(dop_check_run *run);
/* Computes a product or gathered rows from their sources, because the interpreter would decode whole matrices. Does
 * nothing for other nodes, which the interpreter evaluates on demand. */
dop_status dop_check_reference_node(dop_check_run *run, dop_node_id id);

/* check_compare.c: compares all outputs of the region and the step record with the reference. */
dop_status dop_check_compare(dop_check_run *run);
/* True if the node picks an id by arg-max, which must appear in the step record. */
bool dop_check_picks(const dop_graph *g, dop_node_id id);

#endif
