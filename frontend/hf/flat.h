/* Matrices as further quantizers write them.  A linear layer NAME of `in` inputs and `out` outputs has */
#ifndef DOPPLER_FRONTEND_HF_FLAT_H
#define DOPPLER_FRONTEND_HF_FLAT_H

#include "frontend/hf/hf.h"

/* flat.c.  dop_hf_awq_gemv() reads a weight of AWQ's gemv form as dop_hf_quant_weight() does.  dop_hf_has_flat() tells whether the
 * matrix `name`, "...weight", is stored as bitsandbytes or HQQ, and dop_hf_flat_weight() reads a weight from it. */
dop_status dop_hf_awq_gemv(dop_hf *hf, const dop_st_set *set, const char *name, uint64_t outputs, uint64_t first,
                           dop_weight *w);
bool dop_hf_has_flat(const dop_hf *hf, const dop_st_set *set, const char *name);
dop_status dop_hf_flat_weight(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows, dop_weight *w);

#endif
