/* Imports the vision part of a Hugging Face directory. */
#ifndef DOPPLER_FRONTEND_HF_VISION_H
#define DOPPLER_FRONTEND_HF_VISION_H

#include "base/json/json_util.h"
#include "frontend/facts/vision.h"
#include "frontend/hf/hf.h"

/* Reads facts from config.json and weights from the tensors of `set`. Marks the tensors as taken; an unread tensor of the vision
 * part is an error. *out_present: false if the model has no vision part of a known kind. The caller zeroes `m`; its data is in
 * the arena and in the files of `set`. */
dop_status dop_hf_vision(const dop_json *config, const dop_st_set *set, dop_arena *arena, dop_diag *diag,
                         bool *out_present, dop_vision_model *m);

/* Reads the encoder of a speech model (audio.c), like dop_hf_vision(); all of its tensors are required. The decoder's facts must
 * be known. */
dop_status dop_hf_audio(dop_hf *hf, const dop_st_set *set, dop_vision_model *m);
/* Reads the token ids excluded from transcriptions: *out_ids [2 + n + m], in the arena: n, m, then n ids that are always
 * suppressed and m suppressed at the beginning. generation_config.json has precedence over config.json. */
dop_status dop_hf_suppressed(dop_hf *hf, uint32_t **out_ids);

#endif
