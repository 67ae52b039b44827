/* The files that a compilation reads, so that no output takes the place of one of them. */
#ifndef DOPPLER_COMPILER_INPUTS_H
#define DOPPLER_COMPILER_INPUTS_H

#include "runtime/base.h"

typedef struct dop_input dop_input;

typedef struct dop_inputs {
    dop_input *list;
    size_t n, cap;
} dop_inputs;

/* A file, or the files of a directory and of its subdirectories; in directories, what Doppler wrote itself (plans with
 * their weights, pages) is no input.  What does not exist adds nothing. */
dop_status dop_inputs_add(dop_inputs *inputs, const char *path, dop_diag *diag);
/* The same for each of a list, separated by commas: those of --target that are files. */
dop_status dop_inputs_add_list(dop_inputs *inputs, const char *list, dop_diag *diag);
/* Fails when `path`, links followed, is one of them.  inputs may be NULL. */
dop_status dop_inputs_refuse(const dop_inputs *inputs, const char *path, dop_diag *diag);
void dop_inputs_finish(dop_inputs *inputs); /* accepts a zeroed one */

#endif
