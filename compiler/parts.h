/* A model in parts, each for a device of its own: a compilation is cut at boundaries of layers into one compilation for
 * each part. */
#ifndef DOPPLER_COMPILER_PARTS_H
#define DOPPLER_COMPILER_PARTS_H

#include "compiler/compilation.h"
#include "runtime/plan_format.h"

/* What a compilation that is one part knows of the others. */
struct dop_cut {
    uint32_t number, n_parts;
    uint32_t first_layer, end_layer; /* first_layer .. end_layer - 1 */
    uint32_t flags;                  /* DOP_PART_*, of the whole model */
    uint32_t rewind;                 /* of the whole model: dop_plan_model of runtime/plan_format.h */
};

typedef struct dop_cuts {
    uint32_t n_parts;
    uint32_t end[DOP_MAX_PARTS]; /* the layer behind each part; the last one: how many layers there are */
} dop_cuts;

/* Where to cut.  `how`: a number of parts; layers of each, as "20,12"; or "auto", which takes the first of the devices
 * whose `memory`, as "24GiB,24GiB", is stated, and as few as hold the model.  memory NULL: not stated.  What is not
 * given is chosen so that the part which reads most bytes for a token reads as few as can be, which is what decides how
 * long its step takes.  Errors: wrong usage; no cut is possible or holds. */
dop_status dop_parts_choose(dop_compilation *c, const char *how, const char *memory, dop_diag *diag,
                            dop_cuts *out_cuts);

/* May the model be cut before `layer`?  *out_why: why not, in words, in the compilation's arena; NULL: it may. */
dop_status dop_parts_may_cut(dop_compilation *c, uint32_t layer, dop_diag *diag, const char **out_why);

/* Are the two regions of layers that cuts divide?  Then nothing is fused across (dop_compile_options.cuts). */
bool dop_parts_divide(const dop_cuts *cuts, const dop_graph *g, const dop_region *a, const dop_region *b);

/* parts[cuts->n_parts]: what plan_write.h can write of each.  list: one compilation of which all are parts; or one for
 * each of them, for targets of their own, with these cuts in its options: then what crosses is the same for all.  They use
 * its kernels, model and options, so that it outlives them, and it is not changed.  Errors: a cut is not possible; nothing
 * is to be finished then. */
dop_status dop_parts_make(dop_compilation *list, uint32_t n, const dop_cuts *cuts, dop_diag *diag,
                          dop_compilation *out_parts);
void dop_parts_finish(dop_compilation *parts, uint32_t n); /* accepts zeroed ones */

#endif
