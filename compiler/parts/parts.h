/* Pipeline parallelism: cuts a compilation at layer boundaries into one compilation for each part. Each part runs on
 * its own device. */
#ifndef DOPPLER_COMPILER_PARTS_PARTS_H
#define DOPPLER_COMPILER_PARTS_PARTS_H

#include "compiler/schedule/compilation.h"
#include "compiler/schedule/part_graph.h"

/* Chooses the cuts of a model. `how` is a number of parts, the layers of each part as in "20,12", or "auto". "auto"
 * uses as few as possible of the devices that `memory` lists, as in "24GiB,24GiB"; NULL: no limits. Free cuts minimize
 * the bytes that the busiest part reads per token, because they determine its step time. Fails if the arguments are
 * invalid, if no cut is possible, or if no cut fits the memory. */
dop_status dop_parts_choose(dop_compilation *c, const char *how, const char *memory, dop_diag *diag,
                            dop_cuts *out_cuts);

/* Sets *out_why to the reason why the model cannot be cut before `layer`, or to NULL if it can. The text is in the
 * compilation's arena. */
dop_status dop_parts_may_cut(dop_compilation *c, uint32_t layer, dop_diag *diag, const char **out_why);

/* Makes out_parts[cuts->n_parts], which plan_write.h can write. `list` holds one compilation for all parts. If the
 * parts have different targets, it holds one for each part, all compiled with these cuts so that equal values cross.
 * Parts refer to the kernels, model and options of their compilation, which must outlive them and is not changed. Fails
 * if a cut is not possible; nothing must be finished then. */
dop_status dop_parts_make(dop_compilation *list, uint32_t n, const dop_cuts *cuts, dop_diag *diag,
                          dop_compilation *out_parts);
void dop_parts_finish(dop_compilation *parts, uint32_t n); /* accepts zeroed parts */

#endif
