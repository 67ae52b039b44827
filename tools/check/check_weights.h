/* Weights of the plan, decoded on the host, and their products. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_WEIGHTS_H
#define DOPPLER_TOOLS_CHECK_CHECK_WEIGHTS_H

#include "plan/plan.h"

/* Returns NULL if the plan has no such weight. */
const dop_plan_tensor *dop_check_find_weight(const dop_plan *plan, const char *name);
/* Decodes a row of an expert's matrix (expert 0 without experts) to f32. Fails for storage types without a decoder
 * and for tensors smaller than their rows. */
dop_status dop_check_weight_row(const dop_plan *plan, const dop_plan_tensor *weight, uint32_t expert, uint32_t row,
                                float *out, dop_diag *diag);
/* Rounds rows of k values as kernels round activations to 8 bits: in blocks of 32, d = max|x| / 127, d * round(x /
 * d). */
void dop_check_round_rows(float *x, uint64_t rows, uint64_t k);
/* Computes out[t * n + r] = dot(x[t], row r) for each of the matrix's first n rows with want[r]; leaves other
 * outputs unchanged. x is [n_tokens, weight->cols]. Uses several threads. */
dop_status dop_check_matmul(const dop_plan *plan, const dop_plan_tensor *weight, uint32_t expert, uint32_t n,
                            const float *x, uint32_t n_tokens, const bool *want, float *out, dop_diag *diag);

#endif
