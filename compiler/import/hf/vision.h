/* The vision part of a Hugging Face directory. */
#ifndef DOPPLER_COMPILER_IMPORT_HF_VISION_H
#define DOPPLER_COMPILER_IMPORT_HF_VISION_H

#include "base/read/json_util.h"
#include "compiler/import/hf/safetensors.h"
#include "compiler/model/vision.h"

/* Facts from config.json and the tensors of `set`, which m's weights point into; tensors that are read are marked as taken, and one
 * of the vision part that nothing reads is an error.  *out_present is false where the model has no vision part that is known.
 * `m` is zeroed by the caller; what it has lives in the arena and in the files of `set`. */
dop_status dop_hf_vision(const dop_json *config, const dop_st_set *set, dop_arena *arena, dop_diag *diag,
                         bool *out_present, dop_vision_model *m);

#endif
