/* Functions of check_weights.c. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_WEIGHTS_H
#define DOPPLER_TOOLS_CHECK_CHECK_WEIGHTS_H

#include "plan/plan.h"

/* NULL: the plan has no such weight. */
const dop_plan_tensor *dop_check_find_weight(const dop_plan *plan, const char *name);
/* One row of an expert's matrix (expert 0 where there are none) as f32.  Errors: storage types without a decoder, tensors
 * that are smaller than their rows. */
dop_status dop_check_weight_row(const dop_plan *plan, const dop_plan_tensor *weight, uint32_t expert, uint32_t row,
                                float *out, dop_diag *diag);
/* Rounds rows of k values as kernels round activations to 8 bits: in blocks of 32, d = largest / 127, d * round(x / d). */
void dop_check_round_rows(float *x, uint64_t rows, uint64_t k);
/* out[t * n + r] = x[t] . row r of the expert's matrix, of which the first n rows are read, for every r with want[r]; the others stay as they
 * are.  x is [n_tokens, weight->cols].  Several threads. */
dop_status dop_check_matmul(const dop_plan *plan, const dop_plan_tensor *weight, uint32_t expert, uint32_t n,
                            const float *x, uint32_t n_tokens, const bool *want, float *out, dop_diag *diag);

#endif
