/* How large the chunks of a prompt are best in a plan in parts.
 *
 * Chunks flow through the parts one behind the other, and all parts take about as long for one.  In such a line the last chunk
 * leaves after the sum of all chunks' times in one part and, for each part more, the time of the largest chunk once: wherever that
 * stands, those before and behind it wait for it.  (Permutation flow shop with proportional times: the longest path goes through the
 * first machine up to the largest job, through all machines with that one, and through the last machine from there on.)  So
 * smaller chunks at both ends gain nothing beside a large one: all of them are best of one size, which is smaller the shorter the
 * prompt is and the more parts there are. */
#ifndef DOPPLER_RUNTIME_CHUNKS_H
#define DOPPLER_RUNTIME_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

/* What chunks cost is that of llama3.1-8b f16 on an H200 (tests/bench/RESULTS.md), where 256, 384, 512 and 1024 tokens take 20.4, 25.4,
 * 30.0 and 55.5 ms: above 512 as many as 96 tokens beside their own, below that a device has not enough to do. */

/* The most tokens of a chunk, one of sizes[] (tokens, above 0, in any order), for n tokens through n_parts parts; 0: there are no
 * sizes. */
uint32_t dop_chunks_best(const uint32_t *sizes, size_t n_sizes, size_t n, uint32_t n_parts);

#endif
