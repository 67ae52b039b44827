/* What is in a folder or a file that was named as a model: the one GGUF file to read, or what else it is, and what to do. */
#ifndef DOPPLER_COMPILER_IMPORT_NOT_A_MODEL_H
#define DOPPLER_COMPILER_IMPORT_NOT_A_MODEL_H

#include "base/arena.h"
#include "base/foreign.h"

bool dop_has_file(const char *dir, const char *file);
/* A folder without model.safetensors.  *out_gguf: the only GGUF file in it (or the first part of the only one), in the
 * arena; NULL: there is a config.json to read.  An error says what else the folder is. */
dop_status dop_look_around(const char *dir, dop_arena *arena, dop_diag *diag, char **out_gguf);
/* Fails for a file that is not GGUF. */
dop_status dop_not_a_model(const char *path, dop_file_kind kind, dop_diag *diag);

#endif
