/* Checkpoints of AutoAWQ and of AutoGPTQ, GPTQModel: matrices of 4-bit integers as words, zero points and scales. */
#ifndef DOPPLER_FRONTEND_HF_QUANT_H
#define DOPPLER_FRONTEND_HF_QUANT_H

#include "frontend/hf/hf.h"

/* Fills hf->quant; refuses what the rest of quant.c does not read. */
dop_status dop_hf_quant_config(dop_hf *hf);
/* Sets type, source and parts of w, whose rows, cols and name are set, from the quantized tensors NAME.*: the rows are
 * the outputs from `first` on of `outputs`.  name ends in a dot. */
dop_status dop_hf_quant_weight(dop_hf *hf, const dop_st_set *set, const char *name, uint64_t outputs, uint64_t first,
                               dop_weight *w);
/* Sets type, source and parts of w, experts in mxfp4, from the tensors NAME_blocks [experts, outputs, inputs / 32, 16] and
 * NAME_scales [experts, outputs, inputs / 32], both bytes. */
dop_status dop_hf_mxfp4_weight(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows,
                               dop_weight *w);

#endif
