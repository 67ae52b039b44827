/* Divides one schedule of a model into parts: the regions that each part runs, the values that cross, and the part's
 * own graph. */
#ifndef DOPPLER_COMPILER_SCHEDULE_PART_GRAPH_H
#define DOPPLER_COMPILER_SCHEDULE_PART_GRAPH_H

#include "compiler/schedule/schedule.h"
#include "plan/plan_format.h"

typedef struct dop_cuts {
    uint32_t n_parts;
    uint32_t end[DOP_MAX_PARTS]; /* first layer after each part; for the last part, the number of layers */
} dop_cuts;

/* True if the two regions are in different parts. Such regions are not fused (dop_compilation_options.cuts). */
bool dop_parts_divide(const dop_cuts *cuts, const dop_graph *g, const dop_region *a, const dop_region *b);

/* Sets out_layers[g->n_regions] to the layer of each region, which is never before the layer of a region that it reads.
 * Regions before all layers belong to the first layer; the head belongs to the last. */
dop_status dop_region_layers(const dop_graph *g, uint32_t n_layers, dop_diag *diag, uint32_t *out_layers);

/* Values that cross a cut, from a region in one part to a region in a later part. */
typedef struct dop_crossings {
    dop_region_id *owner; /* [n_nodes] region that stores each value; 0: none */
    uint32_t *last;       /* [n_nodes] last part that reads each crossing value; 0: the value does not cross */
    /* Why the model cannot be cut there; `last` is then incomplete. NULL: the cut is possible. */
    const char *refused;
    dop_node_id refused_at; /* value because of which the cut is refused */
} dop_crossings;

/* Finds the values that cross. numbers[g->n_regions]: the part that runs each region. */
dop_status dop_crossings_find(const dop_graph *g, const uint32_t *numbers, dop_diag *diag, dop_crossings *out);
void dop_crossings_finish(dop_crossings *x); /* accepts a zeroed struct */

/* Makes the schedule of part `number` of n in `arena`, with the regions that numbers[] assigns to the part. Their
 * kernels and node names are shared with the whole schedule. out->received and out->sent are the values that the part
 * receives and sends. */
dop_status dop_schedule_take_part(const dop_schedule *whole, const uint32_t *numbers, const dop_crossings *x,
                                  uint32_t number, uint32_t n, dop_arena *arena, dop_diag *diag, dop_schedule *out);

#endif
