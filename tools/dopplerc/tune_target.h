/* dopplerc --tune --target-out: which numbers of a target file are fastest for a model on the device at hand. */
#ifndef DOPPLER_TOOLS_DOPPLERC_TUNE_TARGET_H
#define DOPPLER_TOOLS_DOPPLERC_TUNE_TARGET_H

#include "compiler/library/make.h"

/* Changes the schedule numbers of the target in `options` one by one, compiles the model with each, and times the kernels that
 * differ: a number stays changed where the steps of the model, all sizes of the plan counted alike, take less time together and none
 * takes more.  At the end the kernels of both, as they were and as they are now, are timed once more in turn.  Writes a target file
 * with the base's name, the device, and the numbers that differ.  Stops after 14 minutes with what it has.  line, may be NULL: called
 * with a line of text for each number that stays changed; progress, may be NULL: called with the share that is done.  Errors: the
 * compilation's, no device, its memory, the file. */
dop_status dop_tune_target(const char *model, const dop_compilation_options *options, const char *out_path,
                           void (*line)(const char *text), void (*progress)(double done), dop_diag *diag);

#endif
