/* What doppler-exec loads when it is given a model: libdopplerc.so, and doppler-fetch.so for -hf and --image-urls. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_COMPILER_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_COMPILER_H

#include "tools/fetch/fetch.h"

#include <doppler/compile.h>

#define DOP_COMPILER_LIBRARY "libdopplerc.so.0"

/* Appends the line of --version that names the compiler. */
void dop_load_and_describe_compiler(dop_buf *out);
/* dop_compile() of the library.  DOP_E_USAGE: it is not installed. */
dop_status dop_load_and_compile(const char *model, const char *plan, const dop_compile_options *options, dop_diag *diag,
                                dop_compile_facts *out_facts);
/* dop_fetch() of the module.  DOP_E_USAGE: it is not installed. */
dop_status dop_load_and_fetch(const dop_fetch_request *request, dop_diag *diag, char **out_path);
/* dop_fetch_picture() of the module, which stays loaded.  DOP_E_USAGE: it is not installed. */
dop_status dop_load_picture_fetcher(dop_diag *diag, dop_fetch_picture_fn **out_fetch);

#endif
