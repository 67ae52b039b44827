/* The files that a compilation reads, so that no output replaces one of them. */
#ifndef DOPPLER_COMPILER_LIBRARY_INPUTS_H
#define DOPPLER_COMPILER_LIBRARY_INPUTS_H

#include "base/base.h"

typedef struct dop_input dop_input;

typedef struct dop_inputs {
    dop_input *list;
    size_t n, cap;
} dop_inputs;

/* Adds a file, or the files of a directory and of its subdirectories.  Files in a directory that Doppler wrote itself (plans
 * with their weights, pages) are not inputs.  A path that does not exist adds nothing. */
dop_status dop_inputs_add(dop_inputs *inputs, const char *path, dop_diag *diag);
/* Adds each entry of a comma-separated list, such as the files in --target. */
dop_status dop_inputs_add_list(dop_inputs *inputs, const char *list, dop_diag *diag);
/* Fails if `path`, links followed, is one of the inputs, or cannot be written.  inputs may be NULL: then it does nothing. */
dop_status dop_inputs_refuse(const dop_inputs *inputs, const char *path, dop_diag *diag);
void dop_inputs_finish(dop_inputs *inputs); /* accepts a zeroed one */

#endif
