/* Tables referenced by the rows of families with experts (families/experts.def). */
#ifndef DOPPLER_FRONTEND_FAMILIES_FAMILIES_EXPERTS_H
#define DOPPLER_FRONTEND_FAMILIES_FAMILIES_EXPERTS_H

#include "frontend/facts/import.h"

/* Common tensor names of a router and its experts, and of a shared expert. */
#define MLP_EXPERTS                                                                 \
    {DOP_W_router, "mlp.gate.weight", DOP_PART_ALL, false},                         \
        {DOP_W_expert_gate, "mlp.experts.*.gate_proj.weight", DOP_PART_ALL, false}, \
        {DOP_W_expert_up, "mlp.experts.*.up_proj.weight", DOP_PART_ALL, false},     \
    {                                                                               \
        DOP_W_expert_down, "mlp.experts.*.down_proj.weight", DOP_PART_ALL, false    \
    }
#define SHARED_EXPERT(name)                                              \
    {DOP_W_shared_gate, name ".gate_proj.weight", DOP_PART_ALL, false},  \
        {DOP_W_shared_up, name ".up_proj.weight", DOP_PART_ALL, false},  \
    {                                                                    \
        DOP_W_shared_down, name ".down_proj.weight", DOP_PART_ALL, false \
    }

extern const dop_expert_keys dop_experts_mixtral, dop_experts_qwen2, dop_experts_qwen3, dop_experts_olmoe,
    dop_experts_ernie4_5, dop_experts_minimax_m2, dop_experts_glm4, dop_experts_solar, dop_experts_glm4_lite,
    dop_experts_gpt_oss, dop_experts_deepseek_v3, dop_experts_llama4, dop_experts_gemma4;
extern const dop_tensor_name dop_hf_names_mixtral[], dop_hf_names_qwen_experts[], dop_hf_names_qwen3_experts[],
    dop_hf_names_shared_experts[], dop_hf_names_bailing[], dop_hf_names_ernie_experts[], dop_hf_names_gpt_oss[],
    dop_hf_names_deepseek_v3[], dop_hf_names_llama4[], dop_hf_names_gemma4[], dop_gguf_names_gemma4[];
extern const dop_hf_keys dop_hf_keys_llama4, dop_hf_keys_dbrx, dop_hf_keys_mimo;
extern const dop_expert_keys dop_experts_deepseek_v2, dop_experts_glm_dsa, dop_experts_mistral4, dop_experts_deepseek,
    dop_experts_bailing, dop_experts_bailing_1, dop_experts_exaone, dop_experts_hunyuan, dop_experts_hy_v3,
    dop_experts_afmoe, dop_experts_laguna, dop_experts_mimo, dop_experts_granite, dop_experts_dbrx, dop_experts_phimoe;
extern const dop_tensor_name dop_hf_names_exaone_moe[], dop_hf_names_hunyuan_moe[], dop_hf_names_hy_v3[],
    dop_hf_names_afmoe[], dop_hf_names_laguna[], dop_hf_names_mimo[], dop_hf_names_flex_olmo[], dop_hf_names_dbrx[];

/* Makes a layer's feed-forward part a mixture of the experts x. k decides whether a dense part stays in parallel. */
void dop_set_experts(const dop_expert_keys *k, const dop_arch *a, const dop_experts *x, dop_layer *layer);

#endif
