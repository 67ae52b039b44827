/* Writes compilations of one model, one for each target, as one plan (plan/plan_format.h). */
#ifndef DOPPLER_COMPILER_WRITE_PLAN_WRITE_H
#define DOPPLER_COMPILER_WRITE_PLAN_WRITE_H

#include "compiler/schedule/compilation.h"

/* Location of a plan's weights. EMBED: in the plan. EXTERNAL: in the file `path`.weights next to it. MODEL: in the
 * model's own files if kernels can read their format, otherwise in the plan; the plan names these files by absolute
 * paths. */
typedef enum dop_plan_weights {
    DOP_PLAN_WEIGHTS_EMBED,
    DOP_PLAN_WEIGHTS_EXTERNAL,
    DOP_PLAN_WEIGHTS_MODEL
} dop_plan_weights;

/* Writes a plan of compilations for n targets, at most DOP_MAX_TARGETS, with the weights of the first
 * (dop_compilations_share). The file has a temporary name next to `path` until it is complete; no file is left after a
 * failure. The plan names external weights relative to its own folder, with size and digest, so the two files must be
 * moved together. */
dop_status dop_plan_write(const dop_compilation *list, uint32_t n, const char *path, dop_plan_weights where,
                          dop_diag *diag);

/* Writes the plans of a model's parts (parts.h) as one file with a directory. With `split`, writes the files
 * `path`.part0, `path`.part1 and so on. External weights are in files `path`.part0.weights and so on in both cases. */
dop_status dop_plan_write_parts(const dop_compilation *parts, uint32_t n, const char *path, dop_plan_weights where,
                                bool split, dop_diag *diag);

/* Returns dop_plan_model.rewind (plan/plan_format.h) for one compilation. */
uint32_t dop_compilation_rewind(const dop_compilation *c);

/* Appends the output of doppler-exec --disasm for the plan of these compilations. */
dop_status dop_plan_listing(const dop_compilation *list, uint32_t n, dop_diag *diag, dop_buf *out);

#endif
