/* Quantization at compile time: chooses the storage type of each weight, and converts floats to blocks. */
#ifndef DOPPLER_COMPILER_PACK_QUANT_H
#define DOPPLER_COMPILER_PACK_QUANT_H

#include "frontend/facts/arch.h"

/* True if dop_quantize_row() supports type t. False for float types, which are converted instead. */
bool dop_quantizable(dop_type t);
/* Quantizes n finite values to whole blocks of type t in the layout of dop_decode_row(). The last block is padded with
 * zeros. The scales of every block are searched for the least squared error. importance[i] >= 0 weights the error of
 * value i; NULL: all weights are 1. */
void dop_quantize_row(dop_type t, const float *in, const float *importance, uint32_t n, uint8_t *out);

/* Rows that do not fill blocks of 256 are padded, which can add a third to the size. Returns the type in blocks of 32
 * with no larger error if it needs fewer bytes for a matrix: int4_g32 for q4_k, q5_1 for q5_k, q8_0 for q6_k. Otherwise
 * returns t. llama.cpp has a similar fallback. */
dop_type dop_quant_fallback(dop_type t, uint32_t rows, uint32_t cols);

/* Parses SPEC and sets types[w->n], one per weight.  Vectors keep their types.  SPEC is
 *   keep                        (also NULL) as stored
 *   TYPE                        every matrix except routers, other small but sensitive matrices, and biases
 *   CLASS=TYPE,CLASS=TYPE,...   classes attn, ffn, embed, head, or one role (q k v o gate up down pos_embed
 *                               router expert_gate expert_up expert_down; ffn includes the experts), or all (as TYPE alone);
 *                               the last class that contains a weight counts; other weights keep their types
 *   FILE.yaml                   a mapping of patterns (* ? []) to types or keep; a pattern is matched against the names of
 *                               this compiler (L3.q, embed) and the names in the model; the first match counts
 * If rows do not fill blocks of 256, dop_quant_fallback() replaces the type, unless the model's file stores that type.
 * asked[w->n] receives the types before this replacement.
 * Errors (DOP_E_USAGE, DOP_E_INPUT with file and line): unknown type or class, a type without quantizer, a pattern or
 * class that matches no weight. */
dop_status dop_quant_choose(const char *spec, const dop_weights *w, dop_diag *diag, dop_type *types, dop_type *asked);

#endif
