/* One schedule of a model in parts: which of its regions each part runs, what crosses, and the part's own graph. */
#ifndef DOPPLER_COMPILER_PART_GRAPH_H
#define DOPPLER_COMPILER_PART_GRAPH_H

#include "compiler/schedule.h"

/* layers[g->n_regions]: the layer that a region belongs to, which no region that it reads from is behind.  What stands
 * before all layers belongs to the first, the head to the last. */
dop_status dop_region_layers(const dop_graph *g, uint32_t n_layers, dop_diag *diag, uint32_t *out_layers);

/* What crosses where the regions of a graph are divided: numbers[g->n_regions] is the part that runs each one, which is
 * none before the parts that it reads from. */
typedef struct dop_crossings {
    dop_region_id *owner;   /* [n_nodes] region that stores the value, 0: none */
    uint32_t *last;         /* [n_nodes] of a value that crosses: the last part that reads it, else 0 */
    const char *refused;    /* why the parts would not be possible; NULL: they are.  The lists are not complete then */
    dop_node_id refused_at; /* the value that it is about */
} dop_crossings;

dop_status dop_crossings_find(const dop_graph *g, const uint32_t *numbers, dop_diag *diag, dop_crossings *out);
void dop_crossings_finish(dop_crossings *x); /* accepts a zeroed one */

/* The regions of part `number` of n, with the kernels that they have in the whole.  Made in `arena`, which the result
 * shares the names of nodes with.  What the part receives and sends is in out->received and out->sent. */
dop_status dop_schedule_take_part(const dop_schedule *whole, const uint32_t *numbers, const dop_crossings *x,
                                  uint32_t number, uint32_t n, dop_arena *arena, dop_diag *diag, dop_schedule *out);

#endif
