/* Functions of check_values.c. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_VALUES_H
#define DOPPLER_TOOLS_CHECK_CHECK_VALUES_H

#include "tools/check/check.h"

/* Random values that the node's op could have made; unused partial results are as the interpreter wants them. */
void dop_check_fill_values(dop_check_random *r, const dop_check_fill *fill, float *out);
/* Random ids as top_k makes them: the ids of a row are all different. */
void dop_check_fill_choice(dop_check_random *r, const dop_graph *g, dop_node_id id, uint32_t rows, float *out);
/* Sets the partial results of a split cache that no kernel would have written to NaN. */
void dop_check_poison_splits(const dop_check_fill *fill, float *values);

/* f32 to and from a storage type (f32, f16, u32: 2^32 for the largest one; q8_0 and q4_0: one row of a cache); encoding rounds
 * the values in place. */
void dop_check_encode(dop_type type, float *values, uint64_t n, void *out);
void dop_check_decode(dop_type type, const void *bytes, uint64_t n, float *out);

#endif
