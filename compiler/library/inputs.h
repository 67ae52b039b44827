/* The input files of a compilation, which no output may overwrite. */
#ifndef DOPPLER_COMPILER_LIBRARY_INPUTS_H
#define DOPPLER_COMPILER_LIBRARY_INPUTS_H

#include "base/base.h"

typedef struct dop_input dop_input;

typedef struct dop_inputs {
    dop_input *list;
    size_t n, cap;
} dop_inputs;

/* Adds a file, or the files of a directory and its subdirectories. Files in a directory that Doppler wrote (plans with
 * their weights, report pages) are not inputs. A path that does not exist adds nothing. */
dop_status dop_inputs_add(dop_inputs *inputs, const char *path, dop_diag *diag);
/* Adds each entry of a comma-separated list, such as the target files of --target. */
dop_status dop_inputs_add_list(dop_inputs *inputs, const char *list, dop_diag *diag);
/* Fails if `path`, after resolving links, is an input or cannot be written. Does nothing if inputs is NULL. */
dop_status dop_inputs_refuse(const dop_inputs *inputs, const char *path, dop_diag *diag);
void dop_inputs_finish(dop_inputs *inputs); /* accepts a zeroed struct */

#endif
