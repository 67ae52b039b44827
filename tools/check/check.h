/* doppler-exec --check: every distinct kernel of a plan on random inputs, on the chosen device, against the reference
 * interpreter on the graphs that the plan carries.  The one part of the program that knows the IR.
 *
 * One case is one dispatch at one position and number of tokens.  Everything the region reads that other regions make
 * is filled with random values of the storage type; weights are the plan's own, as they were uploaded; caches hold
 * random rows, and the rows after the last position large ones, so that reading them is seen.  What the region writes
 * is first filled with NaN (partial results of a split cache with "empty": the kernel may leave those out).  The step
 * record is compared too: only arg-max kernels may change it.  A state that steps replace has two copies: the kernel must
 * leave the current copy as it is and write the new state to the other one; each copy is the current one in turn.
 *
 * Large regions are compared in part: up to 8 of a step's tokens, and as many columns of a matrix product as about
 * 10^8 multiplications allow (all of them where an output needs the whole row).  The kernel always runs in full. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_H
#define DOPPLER_TOOLS_CHECK_CHECK_H

#include "ir/interp/interp.h"
#include "runtime/model/model.h"

/* Checks a plan, or the part of it that the options name, and prints a line for each kernel.  DOP_E_DEVICE: some miss their bound. */
dop_status dop_check_plan(const char *path, const dop_open_options *options, dop_diag *diag);
/* The same for an open model without sequences, on whose device nothing runs; cases write its memory, so that it can only be closed
 * afterwards. */
dop_status dop_check_model(dop_model *model, dop_diag *diag);
/* The graphs that the plan carries, [n_schedules] in the order of its schedules; they live in the arena. */
dop_status dop_check_graphs(const dop_plan *plan, dop_arena *arena, dop_diag *diag, dop_graph **out_graphs);

/* --- check_device.c: bytes to and from any slot, one dispatch at a time ------------------------------------------- */

typedef struct dop_check_device {
    dop_model *model;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkSemaphore timeline;
    uint64_t ticks;  /* value of `timeline` after the last submission */
    dop_block stage; /* staging memory between host and slots */
} dop_check_device;

dop_status dop_check_device_create(dop_model *model, dop_diag *diag, dop_check_device *out_device);
void dop_check_device_destroy(dop_check_device *device); /* accepts a zeroed one */
dop_status dop_check_write(dop_check_device *device, uint32_t slot, uint64_t offset, const void *bytes, uint64_t size,
                           dop_diag *diag);
dop_status dop_check_read(dop_check_device *device, uint32_t slot, uint64_t offset, void *bytes, uint64_t size,
                          dop_diag *diag);
dop_status dop_check_dispatch(dop_check_device *device, const dop_plan_dispatch *dispatch, dop_diag *diag);

/* --- check_weights.c: weights as the plan packs them -------------------------------------------------------------- */

/* NULL: the plan has no such weight. */
const dop_plan_tensor *dop_check_find_weight(const dop_plan *plan, const char *name);
/* One row of an expert's matrix (expert 0 where there are none) as f32.  Errors: storage types without a decoder, tensors
 * that are smaller than their rows. */
dop_status dop_check_weight_row(const dop_plan *plan, const dop_plan_tensor *weight, uint32_t expert, uint32_t row,
                                float *out, dop_diag *diag);
/* Rounds rows of k values as kernels round activations to 8 bits: in blocks of 32, d = largest / 127, d * round(x / d). */
void dop_check_round_rows(float *x, uint64_t rows, uint64_t k);
/* check_unpack.c.  What one row of a packed quantized matrix is made of, in bytes from its start: its units, the groups that these are in,
 * and the factor of all values where the type has one. */
typedef struct dop_check_place {
    uint64_t units, n_units, groups, n_groups, factor;
    uint32_t first; /* number of the row's first unit in its group */
} dop_check_place;
/* False: an unknown type, or a matrix of more than `size` bytes. */
bool dop_check_find_row(dop_type type, uint64_t size, uint32_t rows, uint32_t cols, uint32_t row, dop_check_place *out);
/* Decodes the row from its units, its groups and its factor, which are read only where the row has them. */
void dop_check_unpack_row(dop_type type, const dop_check_place *row, const uint8_t *units, const uint8_t *groups,
                          const uint8_t *factor, uint32_t cols, float *out);
/* out[t * n + r] = x[t] . row r of the expert's matrix, of which the first n rows are read, for every r with want[r]; the others stay as they
 * are.  x is [n_tokens, weight->cols].  Several threads. */
dop_status dop_check_matmul(const dop_plan *plan, const dop_plan_tensor *weight, uint32_t expert, uint32_t n,
                            const float *x, uint32_t n_tokens, const bool *want, float *out, dop_diag *diag);

/* --- check_values.c: random values -------------------------------------------------------------------------------- */

typedef struct dop_check_random {
    uint64_t state;
} dop_check_random;

uint32_t dop_check_u32(dop_check_random *r);
float dop_check_uniform(dop_check_random *r); /* 0 <= x < 1 */
float dop_check_normal(dop_check_random *r);  /* mean 0, variance 1, |x| < 4 */

/* Which values to fill: those of an outside node, one row per token.  first_pos: position of row 0, for partial results of a split
 * cache.  ties: coarse values, so that the largest appears more than once. */
typedef struct dop_check_fill {
    const dop_graph *g;
    dop_node_id id;
    uint32_t rows, first_pos;
    bool ties;
} dop_check_fill;
/* Random values that the node's op could have made; unused partial results are as the interpreter wants them. */
void dop_check_fill_values(dop_check_random *r, const dop_check_fill *fill, float *out);
/* Random ids as top_k makes them: the ids of a row are all different. */
void dop_check_fill_choice(dop_check_random *r, const dop_graph *g, dop_node_id id, uint32_t rows, float *out);
/* Sets the partial results of a split cache that no kernel would have written to NaN. */
void dop_check_poison_splits(const dop_check_fill *fill, float *values);

/* f32 to and from a storage type (f32, f16, u32: 2^32 for the largest one; q8_0 and q4_0: one row of a cache); encoding rounds
 * the values in place. */
void dop_check_encode(dop_type type, float *values, uint64_t n, void *out);
void dop_check_decode(dop_type type, const void *bytes, uint64_t n, float *out);

/* --- check_region.c: one case ------------------------------------------------------------------------------------- */

typedef struct dop_check_result {
    double error; /* worst difference beyond one rounding step of the storage type, in standard deviations */
    double bound;
    uint64_t values; /* number of values that were compared */
    char where[192]; /* where the worst value is, or what else is wrong; "" before anything was compared */
    bool miss;       /* the error exceeds its bound, or something else is wrong */
} dop_check_result;

typedef struct dop_check_case {
    dop_check_device *device;
    const dop_plan *plan;
    dop_graph *g; /* graph of the dispatch's schedule; its storage types are changed and restored */
    const dop_plan_dispatch *dispatch;
    uint32_t pos, n_tokens;
    uint32_t parity; /* which copy of their replace states is current, in all sequences */
    uint64_t seed;
} dop_check_case;

/* Runs a case and adds to *result, which keeps the worst of all cases. */
dop_status dop_check_run_case(const dop_check_case *c, dop_diag *diag, dop_check_result *result);
/* Does what the region computes depend on the position? */
bool dop_check_uses_position(const dop_graph *g, const dop_region *r);
/* Is this the graph of a program (dop_program_run), which leaves nothing in the model? */
bool dop_check_keeps_nothing(const dop_graph *g);
/* Do rows of the graph's steps begin at position 0, because it keeps nothing or attends to values of the step? */
bool dop_check_begins(const dop_graph *g);
/* Does what the region computes depend on which copy of a replace state is current, or does it change that? */
bool dop_check_uses_parity(const dop_graph *g, const dop_region *r);

/* The bound of a result's error, for a kernel of the region; rounding: how the kernel rounds the factors of its products
 * (DOP_ROUNDING_*). */
double dop_check_bound(uint32_t rounding, const dop_graph *g, const dop_region *r);

/* --- check_stages.c: the stages of the persistent decode schedule against the dispatches ordered by barriers --------- */

/* graphs: by schedule; results: by kernel, for their bounds.  Prints one line.  Leaves some rows of the caches written.
 * Sets out_result->values, ->miss and ->error; the error is a share of the bounds. */
dop_status dop_check_stages(dop_check_device *device, const dop_graph *graphs, const dop_check_result *results,
                            dop_diag *diag, dop_check_result *out_result);

#endif
