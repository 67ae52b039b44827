/* Cache key of a plan: all its inputs except the device. These are the contents of the model's files, the options,
 * the release and the compiler's files. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_MODEL_KEY_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_MODEL_KEY_H

#include "tools/doppler-exec/on_demand/plan_cache.h"

#include <doppler/compile.h>

/* True if doppler-exec compiles this path: a model folder, a GGUF, GGML or safetensors file, or manifest.json of an
 * RDRR model. */
bool dop_is_model(const char *path);
/* True if a folder contains files that identify a model. */
bool dop_is_model_folder(const char *path);
/* Returns the length of a GGUF file's name ending: ".gguf" or "-00001-of-00003.gguf". Returns 0 for other files,
 * later parts of a split file, and vision parts (mmproj; sets *out_vision). */
size_t dop_gguf_suffix(const char *name, bool *out_vision);

/* Appends the non-default options in dopplerc's syntax: " --ctx 512 --quant q8_0". */
void dop_compile_options_text(const dop_compile_options *options, dop_buf *out);

/* Computes the key. Reuses cached digests of files whose size, times and inode are unchanged, and computes the
 * others, reporting progress as step "files" in bytes. *out_bytes: size of the model's files. */
dop_status dop_model_key(const dop_plan_cache *cache, const char *model, const dop_compile_options *options,
                         const char *release, dop_diag *diag, dop_cache_key *out_key, uint64_t *out_bytes);

#endif
