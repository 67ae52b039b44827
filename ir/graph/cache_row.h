/* Block-quantized KV caches: a row of append state holds all heads of one position.
 *
 * A row has the values of all columns, then one f16 scale d for every 32 of them, then zeros up to a multiple of 16 bytes.  Values
 * are thus aligned for loads of whole words.  The formulas are those of the GGML types with these names, but the layout is not.
 *   q8_0: one byte per value, q = round(x / d), d = max|x| / 127; the value is d q.
 *   q4_0: four bits per value, the first of two values in the lower bits, q = min(15, floor(x / d + 8.5)), d = m / -8, where m is
 *         the value of largest magnitude (the positive one if two are equal); the value is d (q - 8).
 * x / d uses d before it is rounded to f16.  A block never spans two heads, and writing a row twice with equal values gives equal
 * bytes. */
#ifndef DOPPLER_IR_GRAPH_CACHE_ROW_H
#define DOPPLER_IR_GRAPH_CACHE_ROW_H

#include "base/storage/types.h"

enum { DOP_CACHE_BLOCK = 32 }; /* values per scale */

/* True if a cache can be stored in blocks of this type. */
bool dop_cache_blocks(dop_type t);
/* Returns the bytes of a row in any storage type of a cache.  `cols` must be a multiple of DOP_CACHE_BLOCK. */
uint64_t dop_cache_row_bytes(dop_type t, uint32_t cols);
/* Convert f32 values to a row and back. */
void dop_cache_row_encode(dop_type t, const float *x, uint32_t cols, void *out);
void dop_cache_row_decode(dop_type t, const void *row, uint32_t cols, float *out);
/* Rounds `n` values, a multiple of DOP_CACHE_BLOCK, as a store and a load would.  `out` may be x. */
void dop_cache_round(dop_type t, const float *x, uint64_t n, float *out);
/* Returns the quantization step of the block with these values: the distance between neighbouring stored values. */
float dop_cache_step(dop_type t, const float *block);

#endif
