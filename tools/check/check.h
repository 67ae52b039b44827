/* doppler-exec --check: compares every distinct kernel of a plan with the reference interpreter, on random inputs
 * and the chosen device. The graphs come from the plan. Only this part of the program uses the IR.
 *
 * One case is one dispatch at one position and token count. Inputs from other regions are random values of their
 * storage type; weights are the plan's own. Caches hold random rows, with large values after the last position, so that
 * reading past the end is detected. Outputs are filled with NaN first (unused partial results of a split cache stay
 * empty). Only arg-max kernels may change the step record. A replace state has two copies: the kernel must keep the
 * current one and write the other; each copy is tested as the current one.
 *
 * Large regions are compared in part: up to 8 tokens of a step, and as many columns of a product as about 10^8
 * multiplications allow (all of them if an output needs whole rows). The kernel always runs in full. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_H
#define DOPPLER_TOOLS_CHECK_CHECK_H

#include "ir/interp/interp.h"
#include "runtime/model/model.h"

/* Checks a plan, or the part of it that the options name. Prints a line per kernel. Returns DOP_E_DEVICE if some
 * kernels exceed their bounds. */
dop_status dop_check_plan(const char *path, const dop_open_options *options, dop_diag *diag);
/* Checks an open model that has no sequences and no work in flight. Overwrites its memory: the caller can only close
 * it. */
dop_status dop_check_model(dop_model *model, dop_diag *diag);
/* Reads the plan's graphs into the arena: [n_schedules], in the order of its schedules. */
dop_status dop_check_graphs(const dop_plan *plan, dop_arena *arena, dop_diag *diag, dop_graph **out_graphs);

/* --- check_device.c: bytes to and from any slot, one dispatch at a time ------------------------------------------- */

typedef struct dop_check_device {
    dop_model *model;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkSemaphore timeline;
    uint64_t ticks;  /* value of `timeline` after the last submission */
    dop_block stage; /* staging buffer for copies between host and slots */
} dop_check_device;
/* check_unpack.c. Byte offsets and sizes of the data of one row in a packed quantized matrix: its units, the groups
 * that contain their scales, and the tensor-wide factor if the type has one. */
typedef struct dop_check_place {
    uint64_t units, n_units, groups, n_groups, factor;
    uint32_t first; /* index of the row's first unit in its group */
} dop_check_place;

/* --- check_values.c: random values -------------------------------------------------------------------------------- */

typedef struct dop_check_random {
    uint64_t state;
} dop_check_random;

/* Request for random values of a node outside the region, one row per token. first_pos: position of row 0, for
 * partial results of a split cache. ties: coarse values, so that the maximum occurs more than once. */
typedef struct dop_check_fill {
    const dop_graph *g;
    dop_node_id id;
    uint32_t rows, first_pos;
    bool ties;
} dop_check_fill;

/* --- check_region.c: one case ------------------------------------------------------------------------------------- */

typedef struct dop_check_result {
    double error; /* largest difference beyond one rounding step of the storage type, in standard deviations */
    double bound;
    uint64_t values; /* number of values compared */
    char where[192]; /* location of the largest error, or a description of another failure; "": nothing compared yet */
    bool miss;       /* true if the error exceeds the bound or another failure occurred */
} dop_check_result;

typedef struct dop_check_case {
    dop_check_device *device;
    const dop_plan *plan;
    dop_graph *g; /* graph of the dispatch's schedule; its storage types are changed and restored */
    const dop_plan_dispatch *dispatch;
    uint32_t pos, n_tokens;
    uint32_t parity; /* index of the current copy of replace states, equal for all sequences */
    uint64_t seed;
} dop_check_case;

#endif
