/* SPIR-V modules of compilations as a tar archive (POSIX.1-1988, "ustar"), without times and owners, so that equal
 * modules give equal bytes. */
#ifndef DOPPLER_TOOLS_DOPPLERC_MODULES_TAR_H
#define DOPPLER_TOOLS_DOPPLERC_MODULES_TAR_H

#include "compiler/schedule/compilation.h"

/* Writes the file name of a kernel without its ending, such as "012-gemv_rows-L0.qkv". target: NULL or part of the
 * name. */
void dop_module_name(const dop_built_kernel *k, uint32_t number, const char *target, char *out, size_t cap);

/* Appends an archive with NUMBER-VARIANT-LABEL.spv of every kernel. With several compilations, names contain the
 * target. */
dop_status dop_modules_tar(const dop_compilation *list, uint32_t n, dop_diag *diag, dop_buf *out);

#endif
