/* Tensor names: those of GGUF files, whole names with prefix and layer, rows of fused tensors, and names of activations. */
#ifndef DOPPLER_FRONTEND_FACTS_NAMES_H
#define DOPPLER_FRONTEND_FACTS_NAMES_H

#include "frontend/facts/import.h"

/* Activation by its name in config.json (or in families[]), or in an RDRR manifest; false when unknown. */
bool dop_act_by_name(const char *name, dop_act_kind *out);
bool dop_act_by_rdrr_name(const char *name, dop_act_kind *out);
extern const dop_tensor_name dop_gguf_names[];
extern const dop_tensor_name dop_hf_names_draft[];
/* Tensor names in layers whose q, k and v are one tensor, "attn_qkv". */
extern const dop_tensor_name dop_gguf_names_fused[];

/* What names of tensors in layers begin with in a family's GGUF files: "blk.", or "enc.blk." of T5. */
const char *dop_gguf_layer_prefix(const dop_family *family);
/* What GGUF files of the family call the tensor of a weight; fused: in files where q, k and v are one tensor.  *out_name NULL: they
 * have no such tensor.  The name is in the arena.  family: NULL where it is not known. */
dop_status dop_gguf_full_name(const dop_family *family, const dop_weight_need *need, bool fused, dop_arena *arena,
                              const char **out_name);
/* The first name of a role in `more` (may be NULL), else in `names`; NULL when neither has it. */
const dop_tensor_name *dop_find_tensor_name(const dop_tensor_name *more, const dop_tensor_name *names, dop_role role);
/* Do a family's own names `more` (may be NULL) give the tensor of a name that most families have to another weight?  Where that one
 * has been read, the tensor is none of this one: Gemma's norm behind attention is not the one before the feed-forward part. */
bool dop_means_other(const dop_tensor_name *more, const dop_tensor_name *name);

/* The prefix of the text model's tensor names ("model."): the one with which has() finds the embedding's name `embed`; `otherwise`
 * when it finds none. */
const char *dop_hf_prefix(bool (*has)(void *user, const char *name), void *user, const char *embed,
                          const char *otherwise);
/* The whole name of a weight's tensor. */
void dop_hf_full_name(const char *prefix, const char *layer_prefix, const dop_weight_need *need, const char *source,
                      char *out, size_t size);
/* The name of an expert's tensor: the * in `pattern` is its number. */
void dop_expert_name(const char *pattern, uint32_t expert, char *out, size_t size);
/* Allocates dop_weight.each for a weight whose name has a *; without a * *out_list is NULL.  Fails where the weight is not of
 * rank 3. */
dop_status dop_expert_list(const dop_weight_need *need, const char *pattern, dop_arena *arena, dop_diag *diag,
                           dop_weight **out_list);

/* Resolves a slice for a weight of `rows` rows (rank 3: rows of one expert's matrix).  l is NULL outside the layers. */
dop_rows dop_part_rows(const dop_layer *l, dop_slice part, uint32_t rows);

#endif
