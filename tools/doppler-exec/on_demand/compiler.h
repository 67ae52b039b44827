/* Libraries that doppler-exec loads on demand for models: libdopplerc.so, and doppler-fetch.so for -hf and
 * --image-urls. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_COMPILER_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_COMPILER_H

#include "tools/fetch/fetch.h"

#include <doppler/compile.h>

#define DOP_COMPILER_LIBRARY "libdopplerc.so.0"

/* Appends the compiler's line of --version. */
void dop_load_and_describe_compiler(dop_buf *out);
/* Calls dop_compile() of the library. Returns DOP_E_USAGE if it is not installed. */
dop_status dop_load_and_compile(const char *model, const char *plan, const dop_compile_options *options, dop_diag *diag,
                                dop_compile_facts *out_facts);
/* Calls dop_fetch() of the module. Returns DOP_E_USAGE if it is not installed. */
dop_status dop_load_and_fetch(const dop_fetch_request *request, dop_diag *diag, char **out_path);
/* Gets dop_fetch_picture() of the module, which stays loaded. Returns DOP_E_USAGE if it is not installed. */
dop_status dop_load_picture_fetcher(dop_diag *diag, dop_fetch_picture_fn **out_fetch);

#endif
