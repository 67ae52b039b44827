/* One schedule of a model in parts: which of its regions each part runs, what crosses, and the part's own graph. */
#ifndef DOPPLER_COMPILER_SCHEDULE_PART_GRAPH_H
#define DOPPLER_COMPILER_SCHEDULE_PART_GRAPH_H

#include "compiler/schedule/schedule.h"
#include "plan/plan_format.h"

typedef struct dop_cuts {
    uint32_t n_parts;
    uint32_t end[DOP_MAX_PARTS]; /* the layer after each part; for the last part, the number of layers */
} dop_cuts;

/* Are the two regions on different sides of a cut?  Then they are not fused (dop_compilation_options.cuts). */
bool dop_parts_divide(const dop_cuts *cuts, const dop_graph *g, const dop_region *a, const dop_region *b);

/* layers[g->n_regions]: the layer of each region, which is never before the layer of a region that it reads from.  Regions
 * before all layers belong to the first, the head to the last. */
dop_status dop_region_layers(const dop_graph *g, uint32_t n_layers, dop_diag *diag, uint32_t *out_layers);

/* The values that cross a cut, from a region in one part to a region in a later part. */
typedef struct dop_crossings {
    dop_region_id *owner; /* [n_nodes] region that stores each value; 0: none */
    uint32_t *last;       /* [n_nodes] last part that reads each value that crosses; 0: the value does not cross */
    /* Why the model cannot be cut there, in which case `last` is incomplete; NULL: it can. */
    const char *refused;
    dop_node_id refused_at; /* the value that `refused` is about */
} dop_crossings;

/* Finds the values that cross.  numbers[g->n_regions]: the part that runs each region. */
dop_status dop_crossings_find(const dop_graph *g, const uint32_t *numbers, dop_diag *diag, dop_crossings *out);
void dop_crossings_finish(dop_crossings *x); /* accepts a zeroed one */

/* Makes the schedule of part `number` of n in `arena`: the regions that numbers[] gives to the part, with the kernels that they have in
 * the whole schedule, whose names of nodes it shares.  Values that the part receives and sends are in out->received and out->sent. */
dop_status dop_schedule_take_part(const dop_schedule *whole, const uint32_t *numbers, const dop_crossings *x,
                                  uint32_t number, uint32_t n, dop_arena *arena, dop_diag *diag, dop_schedule *out);

#endif
