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
/* check_unpack.c.  What one row of a packed quantized matrix is made of, in bytes from its start: its units, the groups that these are in,
 * and the factor of all values where the type has one. */
typedef struct dop_check_place {
    uint64_t units, n_units, groups, n_groups, factor;
    uint32_t first; /* number of the row's first unit in its group */
} dop_check_place;

/* --- check_values.c: random values -------------------------------------------------------------------------------- */

typedef struct dop_check_random {
    uint64_t state;
} dop_check_random;

/* Which values to fill: those of an outside node, one row per token.  first_pos: position of row 0, for partial results of a split
 * cache.  ties: coarse values, so that the largest appears more than once. */
typedef struct dop_check_fill {
    const dop_graph *g;
    dop_node_id id;
    uint32_t rows, first_pos;
    bool ties;
} dop_check_fill;

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

#endif
