/* Random values for the inputs of a case. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_VALUES_H
#define DOPPLER_TOOLS_CHECK_CHECK_VALUES_H

#include "tools/check/check.h"

/* Fills `out` with random values that are valid results of the node's op. Unused partial results get the
 * interpreter's empty value. */
void dop_check_fill_values(dop_check_random *r, const dop_check_fill *fill, float *out);
/* Fills `out` with random ids as top_k makes them: distinct within each row. */
void dop_check_fill_choice(dop_check_random *r, const dop_graph *g, dop_node_id id, uint32_t rows, float *out);
/* Sets to NaN the partial results of a split cache that no kernel writes. */
void dop_check_poison_splits(const dop_check_fill *fill, float *values);

/* Convert f32 to and from a storage type: f32, f16, u32 (2^32 stands for the largest value), or q8_0 and q4_0, one
 * cache row at a time. Encoding also rounds `values` in place. */
void dop_check_encode(dop_type type, float *values, uint64_t n, void *out);
void dop_check_decode(dop_type type, const void *bytes, uint64_t n, float *out);

#endif
