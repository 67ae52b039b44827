/* Quantized caches: a row of append state that is stored in blocks holds one position, all heads.
 *
 * First come the values of all columns, then for each 32 of them an f16 scale d, then zeros up to a multiple of 16 bytes, so
 * that values are loaded in words.  The formulas are GGUF's (the GGML quantizations of these names), the order is not.
 *   q8_0: a byte for each value, q = round(x / d), d = max|x| / 127; the value is d q.
 *   q4_0: four bits, the first of two values in the lower ones, q = min(15, floor(x / d + 8.5)), d = m / -8 where m is what
 *         is farthest from zero, the positive one of two; the value is d (q - 8).
 * x / d is with d before it is rounded to f16.  A value is made of its own head only, and writing a row twice with the same
 * values gives the same bytes. */
#ifndef DOPPLER_IR_GRAPH_CACHE_ROW_H
#define DOPPLER_IR_GRAPH_CACHE_ROW_H

#include "base/storage/types.h"

enum { DOP_CACHE_BLOCK = 32 }; /* values that share a scale */

/* May a cache be stored in blocks of this type? */
bool dop_cache_blocks(dop_type t);
/* Bytes of a row in any storage type of a cache.  `cols` is a multiple of the block. */
uint64_t dop_cache_row_bytes(dop_type t, uint32_t cols);
/* Convert f32 values to a row and back. */
void dop_cache_row_encode(dop_type t, const float *x, uint32_t cols, void *out);
void dop_cache_row_decode(dop_type t, const void *row, uint32_t cols, float *out);
/* Rounds `n` values, a multiple of the block, as storing and loading would; out may be x. */
void dop_cache_round(dop_type t, const float *x, uint64_t n, float *out);
/* The quantization step, the distance between neighbouring stored values, of the block with these values. */
float dop_cache_step(dop_type t, const float *block);

#endif
