/* Quantized weights and stored values of the laboratory of kernels_util.h. */
#ifndef DOPPLER_TESTS_UNIT_KERNELS_BLOCKS_H
#define DOPPLER_TESTS_UNIT_KERNELS_BLOCKS_H

#include "ir/graph/graph.h"

/* A block of random bits with factors of sane size, times `by` where that can be. */
void lab_random_block(dop_type t, uint64_t *seed, float by, uint8_t *b);

bool lab_in_blocks(const dop_node *n);
/* Quantizes the values of a weight.  packed: where its blocks go as kernels read them, experts `stride` bytes apart; NULL: the
 * values become what is left of them.  False: out of memory. */
bool lab_quantize(const dop_graph *g, dop_node_id id, float *values, uint8_t *packed, uint64_t stride);
/* Convert n values of the memory of a node to what is stored and back; caches in blocks hold a position, all heads, in a row. */
void lab_encode(const dop_node *memory, const float *in, uint64_t n, uint8_t *out);
void lab_decode(const dop_node *memory, const uint8_t *in, uint64_t n, float *out);

/* Caches of f16 in the text of a graph become f32, for targets without 16-bit storage. */
void lab_widen_caches(dop_buf *text);

#endif
