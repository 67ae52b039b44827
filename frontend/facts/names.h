/* Tensor names: names in GGUF files, full names with prefix and layer, rows of fused tensors; names of activations. */
#ifndef DOPPLER_FRONTEND_FACTS_NAMES_H
#define DOPPLER_FRONTEND_FACTS_NAMES_H

#include "frontend/facts/import.h"

/* Look up an activation by its name in config.json or the family table, or in an RDRR manifest; false if unknown. */
bool dop_act_by_name(const char *name, dop_act_kind *out);
bool dop_act_by_rdrr_name(const char *name, dop_act_kind *out);
extern const dop_tensor_name dop_gguf_names[];
extern const dop_tensor_name dop_hf_names_draft[];
/* Tensor names for layers with a fused q, k and v tensor, "attn_qkv". */
extern const dop_tensor_name dop_gguf_names_fused[];

/* Returns the prefix of layer tensors in a family's GGUF files: "blk.", or "enc.blk." for T5. */
const char *dop_gguf_layer_prefix(const dop_family *family);
/* Gets the GGUF tensor name of a weight, in the arena. *out_name NULL: GGUF files have no such tensor. fused: for files with a
 * fused q, k and v tensor. family: NULL if unknown. */
dop_status dop_gguf_full_name(const dop_family *family, const dop_weight_need *need, bool fused, dop_arena *arena,
                              const char **out_name);
/* Returns the first name of a role in `more` (may be NULL), otherwise in `names`; NULL if neither has it. */
const dop_tensor_name *dop_find_tensor_name(const dop_tensor_name *more, const dop_tensor_name *names, dop_role role);
/* True if a family's own names `more` (may be NULL) give this tensor name to a different role only. Example: Gemma's norm after
 * attention has the name that other families use for the norm before the feed-forward part. */
bool dop_means_other(const dop_tensor_name *more, const dop_tensor_name *name);

/* Returns the prefix of the text model's tensor names ("model."): the one for which has() finds the embedding's name `embed`, or
 * `otherwise` if none matches. */
const char *dop_hf_prefix(bool (*has)(void *user, const char *name), void *user, const char *embed,
                          const char *otherwise);
/* Writes the full name of a weight's tensor. */
void dop_hf_full_name(const char *prefix, const char *layer_prefix, const dop_weight_need *need, const char *source,
                      char *out, size_t size);
/* Writes the name of an expert's tensor: replaces the * of `pattern` by its number. */
void dop_expert_name(const char *pattern, uint32_t expert, char *out, size_t size);
/* Allocates dop_weight.each for a weight whose name has a *; otherwise sets *out_list to NULL. Fails if the weight is not of rank
 * 3. */
dop_status dop_expert_list(const dop_weight_need *need, const char *pattern, dop_arena *arena, dop_diag *diag,
                           dop_weight **out_list);

/* Resolves a slice for a weight of `rows` rows (rank 3: rows of one expert's matrix). l: NULL outside of the layers. */
dop_rows dop_part_rows(const dop_layer *l, dop_slice part, uint32_t rows);

#endif
