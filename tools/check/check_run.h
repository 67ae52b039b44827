/* Inside of one case of --check (check.h): what its files share. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_RUN_H
#define DOPPLER_TOOLS_CHECK_CHECK_RUN_H

#include "tools/check/check.h"

enum { DOP_CHECK_SAMPLES = 8, DOP_CHECK_LEAVES = 64, DOP_CHECK_ARGS = 64 };
enum { DOP_CHECK_PRODUCTS = 100000000 }; /* multiplications of one case that the host does */

/* An argument of the dispatch with what the host knows of it. */
typedef struct dop_check_buffer {
    dop_node_id node; /* node that owns the memory: a state, or a computed node */
    const dop_plan_arg *arg;
    uint32_t copies;     /* those of a replace state, one after the other; else 1 */
    uint32_t rows, cols; /* size of a copy in `sent` and `got`; a cache has rows to a few past the last position */
    dop_type type;
    float *sent; /* values written to the device before the dispatch */
    float *got;  /* the values after the dispatch; NULL: not read back */
} dop_check_buffer;

typedef struct dop_check_run {
    const dop_check_case *c;
    const dop_plan *plan;
    dop_graph *g;
    const dop_region *r;
    dop_diag *diag;
    dop_check_result *result;
    dop_check_random random;
    uint32_t n_samples, sample[DOP_STEP_MAX_ROWS]; /* tokens of the step that are compared */
    bool rounds; /* the kernel rounds activations of products to 8 bits, and so does the reference */
    uint32_t n_buffers, n_leaves;
    dop_check_buffer buffers[DOP_CHECK_ARGS];
    float *leaves[DOP_CHECK_LEAVES];
    dop_type *types; /* [n_nodes]: storage types as the graph had them before the case */
    dop_interp *it;
    float *choice; /* [T,k] ids that say which matrices the region takes; NULL: it has none, or makes them itself */
    dop_step before, after;
    uint32_t step_ids[DOP_STEP_MAX_ROWS], step_positions[DOP_STEP_MAX_ROWS], step_sequences[DOP_STEP_MAX_ROWS],
        step_types[DOP_STEP_MAX_ROWS]; /* fields of the step record's rows, for the samples */
} dop_check_run;

/* check_buffers.c: every argument that the plan's graph names gets values and is written, but for weights, which stay as they are. */
dop_status dop_check_send(dop_check_run *run);
/* Reads back what the kernel has written for the region's outputs. */
dop_status dop_check_receive(dop_check_run *run);
/* The argument that holds the value; NULL: none does. */
dop_check_buffer *dop_check_buffer_of(dop_check_run *run, dop_node_id id);
/* Index of the value's first element in `sent` and `got`.  A replace state begins at its current copy, and a value that is written
 * into a replace state at the other copy. */
uint64_t dop_check_copy(const dop_check_run *run, const dop_check_buffer *b, dop_node_id id);

/* check_experts.c: sets run->choice where the region reads one. */
dop_status dop_check_choose(dop_check_run *run);
void dop_check_fill_blocks(const dop_check_run *run, dop_node_id id, float *out);
/* The row of a value in memory that is row i of the samples' rows. */
static inline uint32_t
dop_check_row(const dop_check_run *run, dop_node_id id, uint64_t i)
{
    const uint32_t n = dop_node_row_multiple(run->g, id);
    return n ? run->sample[i / n] * n + (uint32_t)(i % n) : (uint32_t)i;
}
/* The product `id` of the samples with the matrices that they chose: activations has a row for each row of its source 0, out
 * [samples, k, w->rows]; columns that are not wanted become NaN. */
dop_status dop_check_experts(dop_check_run *run, dop_node_id id, const dop_plan_tensor *w, const float *activations,
                             const bool *want, float *out);

/* check_reference.c: creates run->it with every outside value set. */
dop_status dop_check_reference_open(dop_check_run *run);
/* Sets a product or gathered rows, for which the interpreter would decode whole matrices, from what they are made of; nothing for other
 * nodes, which the interpreter makes when they are asked for. */
dop_status dop_check_reference_node(dop_check_run *run, dop_node_id id);

/* check_compare.c: all outputs of the region against the reference, and the step record. */
dop_status dop_check_compare(dop_check_run *run);
/* Does this node choose an id by arg-max?  The id then belongs in the step record. */
bool dop_check_picks(const dop_graph *g, dop_node_id id);

#endif
