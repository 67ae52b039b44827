/* dopplerc --tune: finds the fastest kernel and tile for each op of a model on the present device. */
#ifndef DOPPLER_TOOLS_DOPPLERC_TUNE_H
#define DOPPLER_TOOLS_DOPPLERC_TUNE_H

#include "compiler/library/make.h"

/* Tunes the kernels of a model, compiled with `options` but without a plan. For each op (only: that op; NULL: all)
 * of every phase except scoring, times all applicable kernels and the tiles that their descriptors offer. Choices that
 * beat the default are written as kernel path rules (kernel_path.h). line: called with a line of text per op, or NULL.
 * Fails on errors of the compilation, device, memory or file. */
dop_status dop_tune(const char *model, const dop_compilation_options *options, const char *only, const char *out_path,
                    void (*line)(const char *text), dop_diag *diag);

#endif
