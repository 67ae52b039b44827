/* Quantization at compile time: which storage type each weight gets, and floats to blocks. */
#ifndef DOPPLER_COMPILER_PACK_QUANT_H
#define DOPPLER_COMPILER_PACK_QUANT_H

#include "frontend/facts/arch.h"

/* Can dop_quantize_row() make type t?  False for floats, which are converted, not quantized. */
bool dop_quantizable(dop_type t);
/* Quantizes n finite values to whole blocks of type t in the layout that dop_decode_row reads; a last block that n does not fill
 * is filled with zeros.  Every block's scales are searched for the least squared error, in which value i counts importance[i] times
 * (not negative; NULL: once). */
void dop_quantize_row(dop_type t, const float *in, const float *importance, uint32_t n, uint8_t *out);

/* Rows that do not fill blocks of 256 are padded, which can add a third to the bytes.  Returns the type in blocks of 32, of no
 * larger error, that takes fewer bytes for a matrix (llama.cpp also falls back to blocks of 32 there): int4_g32 for q4_k, q5_1
 * for q5_k, q8_0 for q6_k; otherwise t itself. */
dop_type dop_quant_fallback(dop_type t, uint32_t rows, uint32_t cols);

/* Reads SPEC and fills types[w->n], one per weight; vectors keep what they have.  SPEC is
 *   keep                        (also NULL) as stored
 *   TYPE                        every matrix except routers, other small ones that make decisions, and biases
 *   CLASS=TYPE,CLASS=TYPE,...   classes attn, ffn, embed, head, or one role (q k v o gate up down pos_embed
 *                               router expert_gate expert_up expert_down; ffn has the experts too), or all (as TYPE alone);
 *                               the last class that has a weight counts, weights in none keep their type
 *   FILE.yaml                   a mapping of patterns (* ? []) to types or keep; a pattern is compared with the names of
 *                               this compiler (L3.q, embed) and with the names in the model; the first match counts
 * A type with blocks of 256 that rows do not fill is replaced as dop_quant_fallback says, unless the file stores that type.
 * asked[w->n] has the types before they were replaced.
 * Errors (DOP_E_USAGE, DOP_E_INPUT with file and line): unknown type or class, a type without quantizer, a pattern or
 * class that fits no weight. */
dop_status dop_quant_choose(const char *spec, const dop_weights *w, dop_diag *diag, dop_type *types, dop_type *asked);

#endif
