/* Tensor names of GGUF files that the tables of families refer to; only families.c includes this. */
#ifndef DOPPLER_COMPILER_MODEL_FAMILIES_GGUF_H
#define DOPPLER_COMPILER_MODEL_FAMILIES_GGUF_H

#include "compiler/model/import.h"

extern const dop_tensor_name dop_gguf_names_falcon[], dop_gguf_names_dbrx[], dop_gguf_names_gemma3n[],
    dop_gguf_names_nemotron_h[], dop_gguf_names_selective[], dop_gguf_names_kimi_linear[];

#endif
