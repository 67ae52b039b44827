/* Matrices of codes with scales beside them, told by their tensors: a linear layer NAME of `in` inputs and `out` outputs has */
#ifndef DOPPLER_FRONTEND_HF_CODES_H
#define DOPPLER_FRONTEND_HF_CODES_H

#include "frontend/hf/hf.h"

/* codes.c: is the matrix `name`, "...weight", stored as codes with scales? */
bool dop_hf_has_codes(const dop_st_set *set, const char *name);
/* Reads a weight from a matrix of codes as dop_hf_quant_weight() does; `rows` may be any rows of the matrix. */
dop_status dop_hf_codes_weight(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows,
                               dop_weight *w);

/* codes.c: whether the tensor `name`, which has the matrices of all experts, is stored as codes with scales
 * (dop_hf_has_expert_codes); and reads a weight of rank 3 from it (dop_hf_expert_codes). */
bool dop_hf_has_expert_codes(const dop_st_set *set, const char *name);
dop_status dop_hf_expert_codes(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows,
                               dop_weight *w);

#endif
