/* Inputs of a plan other than the device: the contents of the model's files, the options, the release and the
 * compiler's files. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_MODEL_KEY_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_MODEL_KEY_H

#include "tools/doppler-exec/on_demand/plan_cache.h"

#include <doppler/compile.h>

/* Would doppler-exec compile this path?  A folder, a file of GGUF, GGML or safetensors, or the manifest.json of an RDRR model. */
bool dop_is_model(const char *path);
/* Does a folder have something that models have? */
bool dop_is_model_folder(const char *path);
/* Bytes at the end of a GGUF file's name, ".gguf" or "-00001-of-00003.gguf".  0: it is no file to name a model by, but another one, a
 * further part of one, or a vision part (mmproj), which *out_vision says. */
size_t dop_gguf_suffix(const char *name, bool *out_vision);

/* Appends the options that differ from the defaults, as dopplerc has them: " --ctx 512 --quant q8_0". */
void dop_compile_options_text(const dop_compile_options *options, dop_buf *out);

/* Computes the key.  Digests of files whose size, times and place on disk have not changed are taken from the cache; others are
 * computed, which reports the step "files" in bytes.  *out_bytes: size of the model's files. */
dop_status dop_model_key(const dop_plan_cache *cache, const char *model, const dop_compile_options *options,
                         const char *release, dop_diag *diag, dop_cache_key *out_key, uint64_t *out_bytes);

#endif
