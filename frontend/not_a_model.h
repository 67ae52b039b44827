/* Diagnosis of a path that was given as a model: finds the one GGUF file in a folder, or reports what the path is instead and
 * what to do. */
#ifndef DOPPLER_FRONTEND_NOT_A_MODEL_H
#define DOPPLER_FRONTEND_NOT_A_MODEL_H

#include "base/arena.h"
#include "base/foreign.h"

bool dop_has_file(const char *dir, const char *file);
/* Examines a folder without model.safetensors. *out_gguf: its only GGUF file, or the first part of its only GGUF model, in the
 * arena; NULL: the folder has a config.json. Otherwise fails with a message that describes the folder. */
dop_status dop_look_around(const char *dir, dop_arena *arena, dop_diag *diag, char **out_gguf);
/* Finds the vision parts (mmproj) in the folder of GGUF file `model`. *out_path: the first by name, in the arena; NULL:
 * none. *out_n: their number. */
dop_status dop_find_mmproj(const char *model, dop_arena *arena, dop_diag *diag, char **out_path, uint32_t *out_n);
/* Fails with a message that says what kind of file this is, because it is not GGUF. */
dop_status dop_not_a_model(const char *path, dop_file_kind kind, dop_diag *diag);

#endif
