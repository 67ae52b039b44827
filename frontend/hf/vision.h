/* Import of the vision part of a Hugging Face directory. */
#ifndef DOPPLER_FRONTEND_HF_VISION_H
#define DOPPLER_FRONTEND_HF_VISION_H

#include "base/json/json_util.h"
#include "frontend/facts/vision.h"
#include "frontend/hf/hf.h"

/* Reads facts from config.json, and weights from the tensors of `set`.  Tensors that are read are marked as taken; a tensor of the
 * vision part that nothing reads is an error.  *out_present is false where the model has no vision part of a known kind.  The
 * caller zeroes `m`; what it has lives in the arena and in the files of `set`. */
dop_status dop_hf_vision(const dop_json *config, const dop_st_set *set, dop_arena *arena, dop_diag *diag,
                         bool *out_present, dop_vision_model *m);

/* The encoder of a model of speech (audio.c), read as dop_hf_vision reads a vision part; all of its tensors must be there.  The facts of
 * the decoder are known. */
dop_status dop_hf_audio(dop_hf *hf, const dop_st_set *set, dop_vision_model *m);
/* Reads which tokens a transcription must not have: *out_ids [2 + n + m] in the arena, n and m, then n ids that are suppressed always
 * and m that are suppressed at the beginning.  generation_config.json counts before config.json. */
dop_status dop_hf_suppressed(dop_hf *hf, uint32_t **out_ids);

#endif
