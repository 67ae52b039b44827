/* Writes compilations of one model, one for each target, as one plan (plan/plan_format.h). */
#ifndef DOPPLER_COMPILER_WRITE_PLAN_WRITE_H
#define DOPPLER_COMPILER_WRITE_PLAN_WRITE_H

#include "compiler/schedule/compilation.h"

/* Where a plan's weights are: in it; in a file of their own beside it, `path`.weights; or in the model's own files where those have them
 * as kernels read them, which the plan names by absolute paths, and else in it. */
typedef enum dop_plan_weights {
    DOP_PLAN_WEIGHTS_EMBED,
    DOP_PLAN_WEIGHTS_EXTERNAL,
    DOP_PLAN_WEIGHTS_MODEL
} dop_plan_weights;

/* Writes a plan of compilations for n targets, at most DOP_MAX_TARGETS, all with the weights of the first
 * (dop_compilations_share).  It is written to a temporary name beside `path` and renamed when complete; nothing is left after a
 * failure.  External weights are named relative to the plan's own folder, with size and digest; the two are moved and copied together. */
dop_status dop_plan_write(const dop_compilation *list, uint32_t n, const char *path, dop_plan_weights where,
                          dop_diag *diag);

/* Writes the plans of the parts of a model (parts.h), as one file with a directory; or, with `split`, as files `path`.part0,
 * `path`.part1 and so on.  External weights are files `path`.part0.weights and so on in both cases. */
dop_status dop_plan_write_parts(const dop_compilation *parts, uint32_t n, const char *path, dop_plan_weights where,
                                bool split, dop_diag *diag);

/* The value of dop_plan_model.rewind (plan/plan_format.h) for one compilation. */
uint32_t dop_compilation_rewind(const dop_compilation *c);

/* Appends what doppler-exec --disasm would print for the plan of these compilations. */
dop_status dop_plan_listing(const dop_compilation *list, uint32_t n, dop_diag *diag, dop_buf *out);

#endif
