/* Prefill chunk sizes: cost model, next chunk, and the best size for a plan in parts.
 *
 * Chunks pass through the parts as a pipeline, and every part needs about the same time for one chunk.  The last chunk leaves after the
 * time of all chunks in one part, plus the time of the largest chunk for each further part.  (Permutation flow shop with proportional
 * times: the longest path goes through the first machine up to the largest job, through all machines with that job, then through the
 * last machine.)  Smaller chunks at the ends therefore gain nothing while there is a large one.  Chunks of one size are best; that size
 * shrinks with shorter prompts and more parts. */
#ifndef DOPPLER_PLAN_CHUNKS_H
#define DOPPLER_PLAN_CHUNKS_H

#include "plan/plan_format.h"

#include <stddef.h>

/* Returns the time of a step of n tokens with capacity `room`, in units of one token of a large chunk.  Kernels skip tiles without
 * tokens.  costs: of the plan's profile; NULL: a software device.  There a step of capacity up to 64 costs its full capacity, so 9 to
 * 16 tokens run as two small steps.
 * Measured with smollm2-135m q4_0 on lavapipe, 2 CPUs: one token 22 ms; capacity 8, up to 8 tokens: 45 ms; capacity 64: 8 tokens 67 ms,
 * 16: 107 ms, 32: 185 ms, 33 to 64: 190 ms. */
uint64_t dop_chunks_time(const dop_chunk_costs *costs, uint32_t room, size_t n);

/* A step size for prefill: its capacity, and the maximum number of tokens to give it. */
typedef struct dop_chunk_size {
    uint32_t room, most;
} dop_chunk_size;

/* Returns the index of the size to use for the first chunk of n > 0 tokens.  sizes: in any order; one has a capacity of one token.
 * Picks the smallest size that holds all tokens, unless the largest full chunk plus the smallest size for the rest is faster. */
size_t dop_chunks_next(const dop_chunk_costs *costs, const dop_chunk_size *sizes, size_t n_sizes, size_t n);

/* Returns the best chunk size for n tokens through n_parts parts, one of sizes[] (tokens, in any order); 0 if there are no sizes. */
uint32_t dop_chunks_best(const dop_chunk_costs *costs, const uint32_t *sizes, size_t n_sizes, size_t n,
                         uint32_t n_parts);

#endif
