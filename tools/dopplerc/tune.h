/* dopplerc --tune: which kernel and tile is fastest for each op of a model, on the device at hand. */
#ifndef DOPPLER_TOOLS_DOPPLERC_TUNE_H
#define DOPPLER_TOOLS_DOPPLERC_TUNE_H

#include "compiler/library/make.h"

/* Compiles the model as options say, without a plan.  For every op (only: for that op; NULL: for all) of every phase except
 * scoring, it times the kernels that can make the op and the tiles that their descriptors offer, and writes what is faster than
 * the default choice as rules of a kernel path (kernel_path.h).  line, may be NULL: called with a line of text for each op.  Errors: the
 * compilation's, no device, its memory, the file. */
dop_status dop_tune(const char *model, const dop_compilation_options *options, const char *only, const char *out_path,
                    void (*line)(const char *text), dop_diag *diag);

#endif
