/* Quantizes blocks of types whose sub-blocks have a scale each: a value is an integer or another level times the scale of its
 * sub-block, which is a small integer times the scale of the block (nvfp4: a number of e4m3).  x: the values of a block; w: the
 * weights of their squared errors (NULL: 1); out: the bytes of the block, which must be zeros. */
#ifndef DOPPLER_COMPILER_PACK_QUANT_LEVELS_H
#define DOPPLER_COMPILER_PACK_QUANT_LEVELS_H

#include <stdint.h>

void dop_make_q2_k(const float *x, const float *w, uint8_t *out);
void dop_make_q3_k(const float *x, const float *w, uint8_t *out);
void dop_make_iq4_xs(const float *x, const float *w, uint8_t *out);
void dop_make_iq3_s(const float *x, const float *w, uint8_t *out); /* magnitudes from a codebook */
void dop_make_nvfp4(const float *x, const float *w, uint8_t *out);

#endif
