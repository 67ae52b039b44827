/* Family table (dop_families) and its look-up functions. Fields and their defaults in config.json follow the
 * configuration classes of Hugging Face transformers (configuration_<model>.py, releases 4.40 to 5.x). */
#ifndef DOPPLER_FRONTEND_FAMILIES_FAMILIES_H
#define DOPPLER_FRONTEND_FAMILIES_FAMILIES_H

#include "frontend/facts/import.h"

extern const dop_family dop_families[];
extern const uint32_t dop_n_families;

const dop_family *dop_family_by_arch(const char *arch);
/* Find the family of a model without output matrix ("Qwen3Model", published as embedding model), and of a classifier
 * ("Qwen3ForSequenceClassification"). NULL: not such a name. */
const dop_family *dop_family_without_head(const char *arch);
const dop_family *dop_family_with_classes(const char *arch);
const dop_family *dop_family_by_model_type(const char *model_type);
/* Families may share a model_type; dop_family_by_model_type() returns the first. */
bool dop_family_has_model_type(const dop_family *f, const char *model_type);
/* Appends the architecture names: "LlamaForCausalLM, MistralForCausalLM, ..." */
void dop_family_list(dop_buf *out);
/* Appends the model types: "llama, mistral, ..." */
void dop_family_list_types(dop_buf *out);
/* Initializes neutral facts (no multipliers, caps or ids) of a model and of its layer template. */
void dop_arch_defaults(dop_arch *a, dop_layer *layer);
/* Sets the facts that depend only on the family's row. */
void dop_family_facts(const dop_family *f, dop_arch *a, dop_layer *layer);
/* Sets dop_norm.eps and .add of every existing norm. */
void dop_set_norms(dop_arch *a, dop_layer *layer, double eps, double add);

/* Finds the family of a GGUF file by general.architecture. Families may share the name; `experts` and `windows` (stated by the
 * file) then select one. */
const dop_family *dop_family_by_gguf(const char *arch, size_t len, bool experts, bool windows);
/* Appends the GGUF names: "llama, qwen2, ..." */
void dop_family_list_gguf(dop_buf *out);

#endif
