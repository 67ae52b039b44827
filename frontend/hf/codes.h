/* Quantized matrices of codes with separate scales, recognized by their tensors. codes.c lists the layouts. */
#ifndef DOPPLER_FRONTEND_HF_CODES_H
#define DOPPLER_FRONTEND_HF_CODES_H

#include "frontend/hf/hf.h"

/* True if the matrix `name` ("...weight") is stored as codes with scales. Defined in codes.c, as the next ones. */
bool dop_hf_has_codes(const dop_st_set *set, const char *name);
/* Reads a weight from a matrix of codes, like dop_hf_quant_weight(); `rows` may be any rows of the matrix. */
dop_status dop_hf_codes_weight(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows,
                               dop_weight *w);

/* For a tensor `name` with all experts' matrices: dop_hf_has_expert_codes() returns true if it is stored as codes with scales;
 * dop_hf_expert_codes() reads a weight of rank 3 from it. */
bool dop_hf_has_expert_codes(const dop_st_set *set, const char *name);
dop_status dop_hf_expert_codes(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows,
                               dop_weight *w);

#endif
