/* Leaves of a model's graphs for the reference interpreter: weights decoded to f32, whatever their layout, rotary tables,
 * and caches that persist from step to step. */
#ifndef DOPPLER_TESTS_UNIT_CHECKPOINT_LEAVES_H
#define DOPPLER_TESTS_UNIT_CHECKPOINT_LEAVES_H

#include "frontend/facts/arch.h"
#include "ir/interp/interp.h"

typedef struct dop_checkpoint_leaves dop_checkpoint_leaves;

/* The model must outlive it. */
dop_status dop_checkpoint_leaves_create(const dop_checkpoint *m, dop_diag *diag, dop_checkpoint_leaves **out_leaves);
void dop_checkpoint_leaves_destroy(dop_checkpoint_leaves *l); /* accepts NULL */

/* Says which weights the leaves of a graph are that was read from text: those of the same names. */
void dop_checkpoint_leaves_name(const dop_weights *w, dop_graph *g);

/* The inputs of the next step: n tokens at positions first, first + 1, ... */
dop_status dop_checkpoint_leaves_step(dop_checkpoint_leaves *l, const uint32_t *tokens, uint32_t n, uint32_t first,
                                      dop_diag *diag);
/* Resets the caches to zeros. */
void dop_checkpoint_leaves_reset(dop_checkpoint_leaves *l);
/* Weights are decoded at first use and kept; every value lives until destroy (inputs: until the next step). */
dop_leaf_provider dop_checkpoint_leaves_provider(dop_checkpoint_leaves *l);

#endif
