/* A model in parts, each for a device of its own: a compilation is cut at boundaries of layers into one compilation for
 * each part. */
#ifndef DOPPLER_COMPILER_PARTS_PARTS_H
#define DOPPLER_COMPILER_PARTS_PARTS_H

#include "compiler/schedule/compilation.h"
#include "compiler/schedule/part_graph.h"

/* Chooses the cuts of a model.  `how`: a number of parts; the layers of each, as "20,12"; or "auto", which uses as few as possible
 * of the devices whose `memory` is stated, as "24GiB,24GiB".  memory NULL: not stated.  Cuts that are not given are chosen so that
 * the part that reads the most bytes per token reads as few as possible, because that determines the time of its step.  Errors:
 * wrong usage; no cut is possible, or none fits the memory. */
dop_status dop_parts_choose(dop_compilation *c, const char *how, const char *memory, dop_diag *diag,
                            dop_cuts *out_cuts);

/* May the model be cut before `layer`?  *out_why: why not, as text in the compilation's arena; NULL: it may. */
dop_status dop_parts_may_cut(dop_compilation *c, uint32_t layer, dop_diag *diag, const char **out_why);

/* Makes parts[cuts->n_parts], which plan_write.h can write.  list: one compilation that all are parts of; or one for each part,
 * where parts have their own targets, compiled with these cuts in their options so that the same values cross in all.  Parts
 * use the kernels, model and options of their compilation, which must outlive them and is not changed.  Errors: a cut is not
 * possible; there is then nothing to finish. */
dop_status dop_parts_make(dop_compilation *list, uint32_t n, const dop_cuts *cuts, dop_diag *diag,
                          dop_compilation *out_parts);
void dop_parts_finish(dop_compilation *parts, uint32_t n); /* accepts zeroed ones */

#endif
