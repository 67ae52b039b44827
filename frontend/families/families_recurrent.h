/* Tables referenced by the rows of families/recurrent.def; only families.c and families_recurrent.c include this. */
#ifndef DOPPLER_FRONTEND_FAMILIES_FAMILIES_RECURRENT_H
#define DOPPLER_FRONTEND_FAMILIES_FAMILIES_RECURRENT_H

#include "frontend/facts/import.h"

extern const dop_hf_keys dop_keys_mamba2, dop_keys_lfm2;
extern const dop_tensor_name dop_names_mamba2[], dop_names_falcon_h1[], dop_names_lfm2[], dop_names_qwen3_5[];
extern const dop_tensor_name dop_gguf_names_falcon_h1[], dop_gguf_names_lfm2[], dop_gguf_names_qwen3_5[];
extern const dop_hf_recurrent dop_recurrent_mamba2, dop_recurrent_falcon_h1, dop_recurrent_lfm2, dop_recurrent_qwen3_5;
extern const dop_tensor_name dop_names_granite_hybrid[];
extern const dop_hf_recurrent dop_recurrent_granite_hybrid;
extern const dop_expert_keys dop_experts_granite_hybrid;
extern const dop_tensor_name dop_names_qwen3_next[], dop_gguf_names_qwen3_next[];
extern const dop_hf_recurrent dop_recurrent_qwen3_next;
extern const dop_expert_keys dop_experts_qwen3_next;
extern const dop_tensor_name dop_names_qwen3_5_moe[], dop_names_lfm2_moe[], dop_names_nemotron_h[];
extern const dop_tensor_name dop_names_mamba[], dop_names_jamba[], dop_names_olmo_hybrid[], dop_names_kimi_linear[];
extern const dop_hf_recurrent dop_recurrent_mamba, dop_recurrent_jamba, dop_recurrent_olmo_hybrid,
    dop_recurrent_kimi_linear;
extern const dop_expert_keys dop_experts_jamba, dop_experts_kimi_linear;
extern const dop_expert_keys dop_experts_lfm2, dop_experts_nemotron_h;
extern const dop_hf_recurrent dop_recurrent_nemotron_h, dop_recurrent_lfm2_moe;
extern const dop_hf_keys dop_keys_nemotron_h, dop_keys_kimi_linear;

extern const dop_tensor_name dop_names_zamba2[];
extern const dop_hf_keys dop_keys_zamba2;
extern const dop_hf_recurrent dop_recurrent_zamba2;

#endif
