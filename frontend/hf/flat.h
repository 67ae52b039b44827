/* Matrices of further quantizers (AWQ's gemv form, bitsandbytes, HQQ, MLX, torchao). flat.c lists the layouts. */
#ifndef DOPPLER_FRONTEND_HF_FLAT_H
#define DOPPLER_FRONTEND_HF_FLAT_H

#include "frontend/hf/hf.h"

/* dop_hf_awq_gemv() reads a weight of AWQ's gemv form, like dop_hf_quant_weight(). dop_hf_has_flat() returns true if the matrix
 * `name` ("...weight") is stored by bitsandbytes, HQQ, MLX or torchao; dop_hf_flat_weight() reads a weight from it. */
dop_status dop_hf_awq_gemv(dop_hf *hf, const dop_st_set *set, const char *name, uint64_t outputs, uint64_t first,
                           dop_weight *w);
bool dop_hf_has_flat(const dop_hf *hf, const dop_st_set *set, const char *name);
dop_status dop_hf_flat_weight(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows, dop_weight *w);

#endif
