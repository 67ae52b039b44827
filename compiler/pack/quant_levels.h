/* Blocks whose sub-blocks have one scale each: integers or other levels times a scale, which is itself a small integer times
 * the block's.  x: the values of a block; w: the weights of their squared errors (NULL: 1); out: its bytes, zeros before. */
#ifndef DOPPLER_COMPILER_PACK_QUANT_LEVELS_H
#define DOPPLER_COMPILER_PACK_QUANT_LEVELS_H

#include <stdint.h>

void dop_make_q2_k(const float *x, const float *w, uint8_t *out);
void dop_make_q3_k(const float *x, const float *w, uint8_t *out);
void dop_make_iq4_xs(const float *x, const float *w, uint8_t *out);
void dop_make_iq3_s(const float *x, const float *w, uint8_t *out); /* magnitudes from a codebook */
void dop_make_nvfp4(const float *x, const float *w, uint8_t *out);

#endif
