/* Tables referenced by the rows of families/dense.def and families/encoders.def; only families.c and families_dense.c include
 * this. */
#ifndef DOPPLER_FRONTEND_FAMILIES_FAMILIES_DENSE_H
#define DOPPLER_FRONTEND_FAMILIES_FAMILIES_DENSE_H

#include "frontend/facts/import.h"

extern const dop_hf_keys dop_keys_falcon, dop_keys_bloom, dop_keys_mpt, dop_keys_opt, dop_keys_exaone, dop_keys_whisper;
extern const dop_tensor_name dop_names_phi[], dop_names_head_norms[], dop_names_stablelm[], dop_names_falcon[],
    dop_names_bloom[], dop_names_mpt[], dop_names_opt[], dop_names_internlm2[], dop_names_exaone[], dop_names_gptj[],
    dop_names_bitnet[], dop_names_hunyuan[], dop_names_pre_feedforward[], dop_names_muse[], dop_names_diffllama[],
    dop_names_gemma3n[], dop_names_doge[], dop_names_whisper[], dop_names_eagle[], dop_names_gemma4_assistant[];

extern const dop_hf_keys dop_keys_codeshell, dop_keys_qwen, dop_keys_chatglm, dop_keys_gpt_neo;
extern const dop_tensor_name dop_names_gpt_bigcode[], dop_names_codeshell[], dop_names_qwen[], dop_names_chatglm[],
    dop_names_gpt_neo[];
extern const dop_hf_keys dop_keys_distilbert, dop_keys_nomic_bert, dop_keys_t5, dop_keys_modernbert;
extern const dop_tensor_name dop_names_bert[], dop_names_roberta[], dop_names_distilbert[], dop_names_mpnet[],
    dop_names_nomic_bert[], dop_names_modernbert[], dop_names_gte[], dop_names_clip_text[], dop_names_t5[];
extern const dop_class_head dop_classes_bert, dop_classes_roberta, dop_classes_distilbert, dop_classes_modernbert;
/* GGUF tensor names referenced by the family tables. Defined in families_gguf.c. */
extern const dop_tensor_name dop_gguf_names_t5[], dop_gguf_names_falcon[], dop_gguf_names_dbrx[],
    dop_gguf_names_gemma3n[], dop_gguf_names_nemotron_h[], dop_gguf_names_selective[], dop_gguf_names_kimi_linear[],
    dop_gguf_names_eagle[], dop_gguf_names_gemma4_assistant[];

#endif
