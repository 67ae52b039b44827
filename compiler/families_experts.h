/* What the rows of families with experts name; only families.c includes this. */
#ifndef DOPPLER_COMPILER_FAMILIES_EXPERTS_H
#define DOPPLER_COMPILER_FAMILIES_EXPERTS_H

#include "compiler/import.h"

extern const dop_expert_keys dop_experts_mixtral, dop_experts_qwen2, dop_experts_qwen3, dop_experts_olmoe,
    dop_experts_ernie4_5, dop_experts_minimax_m2, dop_experts_glm4, dop_experts_gpt_oss, dop_experts_deepseek_v3,
    dop_experts_llama4;
extern const dop_tensor_name dop_hf_names_mixtral[], dop_hf_names_qwen_experts[], dop_hf_names_shared_experts[],
    dop_hf_names_ernie_experts[], dop_hf_names_gpt_oss[], dop_hf_names_deepseek_v3[], dop_hf_names_llama4[];
extern const dop_hf_keys dop_hf_keys_llama4;

#endif
