/* Checkpoints of AutoAWQ, AutoGPTQ and GPTQModel: matrices of packed integers with zero points and scales. */
#ifndef DOPPLER_FRONTEND_HF_QUANT_H
#define DOPPLER_FRONTEND_HF_QUANT_H

#include "frontend/hf/hf.h"

/* Fills hf->quant; fails for forms that the rest of quant.c does not support. */
dop_status dop_hf_quant_config(dop_hf *hf);
/* Sets type, source and parts of w (rows, cols and name are already set) from the quantized tensors NAME.*. Row r is output first
 * + r of `outputs`. name: ends with a dot. */
dop_status dop_hf_quant_weight(dop_hf *hf, const dop_st_set *set, const char *name, uint64_t outputs, uint64_t first,
                               dop_weight *w);
/* Sets type, source and parts of w, mxfp4 experts, from the byte tensors NAME_blocks [experts, outputs, inputs / 32, 16] and
 * NAME_scales [experts, outputs, inputs / 32]. */
dop_status dop_hf_mxfp4_weight(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows,
                               dop_weight *w);

#endif
