/* The table of families (dop_families), and look-ups in it.  Meanings of fields and their defaults where config.json is silent are from the configuration classes of Hugging Face transformers (configuration_<model>.py, releases 4.40 to 5.x). */
#ifndef DOPPLER_FRONTEND_FAMILIES_FAMILIES_H
#define DOPPLER_FRONTEND_FAMILIES_FAMILIES_H

#include "frontend/facts/import.h"

extern const dop_family dop_families[];
extern const uint32_t dop_n_families;

const dop_family *dop_family_by_arch(const char *arch);
/* The family of a model without output matrix ("Qwen3Model"), as embedding models are published, and the family of a model that
 * gives scores of classes instead of logits ("Qwen3ForSequenceClassification").  NULL: arch is no such name. */
const dop_family *dop_family_without_head(const char *arch);
const dop_family *dop_family_with_classes(const char *arch);
const dop_family *dop_family_by_model_type(const char *model_type);
/* Families may share a model_type, of which the last function gives the first. */
bool dop_family_has_model_type(const dop_family *f, const char *model_type);
/* "LlamaForCausalLM, MistralForCausalLM, ..." */
void dop_family_list(dop_buf *out);
/* "llama, mistral, ..." */
void dop_family_list_types(dop_buf *out);
/* Neutral facts (no multipliers, no caps, no ids) of a model and of the layer that its layers are copied from. */
void dop_arch_defaults(dop_arch *a, dop_layer *layer);
/* Sets the facts that the family's row alone decides. */
void dop_family_facts(const dop_family *f, dop_arch *a, dop_layer *layer);
/* Sets dop_norm.eps and .add of every norm that exists. */
void dop_set_norms(dop_arch *a, dop_layer *layer, double eps, double add);

/* The family of a GGUF file by its general.architecture.  Families may share the name, so that experts and windows, which say what
 * the file states, select too. */
const dop_family *dop_family_by_gguf(const char *arch, size_t len, bool experts, bool windows);
/* "llama, qwen2, ..." */
void dop_family_list_gguf(dop_buf *out);

#endif
