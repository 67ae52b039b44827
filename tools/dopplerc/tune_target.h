/* dopplerc --tune --target-out: finds the fastest parameters of a target file for a model on the present device. */
#ifndef DOPPLER_TOOLS_DOPPLERC_TUNE_TARGET_H
#define DOPPLER_TOOLS_DOPPLERC_TUNE_TARGET_H

#include "compiler/library/make.h"

/* Tunes the schedule parameters of the target in `options`, one at a time. Compiles the model with each candidate
 * and times the kernels that differ. A change is kept if the total time of all plan sizes, equally weighted, drops and
 * no size gets slower. Finally times the old and the new kernels again in turn. Writes a target file with the base's
 * name, the device, and the changed parameters. Stops after 14 minutes with the result so far. line: called with a line
 * of text per kept change, or NULL; progress: called with the fraction done, or NULL. Fails on errors of the
 * compilation, device, memory or file. */
dop_status dop_tune_target(const char *model, const dop_compilation_options *options, const char *out_path,
                           void (*line)(const char *text), void (*progress)(double done), dop_diag *diag);

#endif
