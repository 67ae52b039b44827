/* Quantizes blocks of types with a scale for each sub-block. A value is an integer or another level times the scale of
 * its sub-block. That scale is a small integer times the scale of the block (nvfp4: an e4m3 number). x: values of a
 * block; w: weights of their squared errors (NULL: 1); out: bytes of the block, which must be zero. */
#ifndef DOPPLER_COMPILER_PACK_QUANT_LEVELS_H
#define DOPPLER_COMPILER_PACK_QUANT_LEVELS_H

#include <stdint.h>

void dop_make_q2_k(const float *x, const float *w, uint8_t *out);
void dop_make_q3_k(const float *x, const float *w, uint8_t *out);
void dop_make_iq4_xs(const float *x, const float *w, uint8_t *out);
void dop_make_iq3_s(const float *x, const float *w, uint8_t *out); /* uses a codebook of magnitudes */
void dop_make_nvfp4(const float *x, const float *w, uint8_t *out);

#endif
