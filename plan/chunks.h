/* What chunks of a prompt cost, which one is next, and the best size of them in a plan in parts.
 *
 * Chunks flow through the parts one after the other, and all parts take about the same time for one.  In such a line the last
 * chunk leaves after the sum of all chunks' times in one part plus, for each further part, the time of the largest chunk:
 * wherever that one is, the chunks before and after it wait for it.  (Permutation flow shop with proportional times: the longest
 * path goes through the first machine up to the largest job, through all machines with that job, and through the last machine
 * from there on.)  So smaller chunks at the ends gain nothing as long as there is a large one.  It is best to have chunks of
 * one size, which is smaller the shorter the prompt is and the more parts there are. */
#ifndef DOPPLER_PLAN_CHUNKS_H
#define DOPPLER_PLAN_CHUNKS_H

#include "plan/plan_format.h"

#include <stddef.h>

/* The time of a step of n tokens that has room for `room`, in those of one token of a large chunk.  Where there are fewer tokens than
 * room, kernels leave out tiles without any.  costs: of the plan's profile.  NULL: a software device: smollm2-135m q4_0 on lavapipe and
 * two processors, where one token takes 22 ms, and with room for 8 up to 8 take 45; with room for 64 8 take 67, 16 107, 32 185 and 33
 * to 64 190.  That room counts as a whole, so that 9 to 16 tokens are two small steps. */
uint64_t dop_chunks_time(const dop_chunk_costs *costs, uint32_t room, size_t n);

/* A step that a prompt's tokens can be given to: its room, and the most tokens that it may have. */
typedef struct dop_chunk_size {
    uint32_t room, most;
} dop_chunk_size;

/* Index of the one of sizes[] (in any order; one is for a single token) that n tokens, above 0, begin with.  It is the smallest one
 * that takes them all, or the largest one that they fill, where that and the smallest one for the rest take less time. */
size_t dop_chunks_next(const dop_chunk_costs *costs, const dop_chunk_size *sizes, size_t n_sizes, size_t n);

/* The best chunk size, one of sizes[] (tokens, above 0, in any order), for n tokens through n_parts parts; 0: there are no sizes. */
uint32_t dop_chunks_best(const dop_chunk_costs *costs, const uint32_t *sizes, size_t n_sizes, size_t n,
                         uint32_t n_parts);

#endif
