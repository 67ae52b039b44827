#include "runtime/chunks.h"

/* The smallest size that has room for n tokens, or the largest of all; none is larger than `most`. */
static uint32_t
size_for(const uint32_t *sizes, size_t n_sizes, size_t n, uint32_t most)
{
    uint32_t fits = most;
    for (size_t i = 0; i < n_sizes; i++)
        if (sizes[i] >= n && sizes[i] < fits)
            fits = sizes[i];
    return fits;
}

uint32_t
dop_chunks_best(const uint32_t *sizes, size_t n_sizes, size_t n, uint32_t n_parts)
{
    uint64_t best_cost = UINT64_MAX;
    uint32_t best = 0;
    for (size_t i = 0; i < n_sizes; i++) {
        const uint32_t size = sizes[i];
        const size_t whole = n / size, rest = n % size;
        const uint32_t last = rest > 0 ? size_for(sizes, n_sizes, rest, size) : 0, largest = whole > 0 ? size : last;
        uint64_t cost = whole * ((uint64_t)size + DOP_CHUNK_COST);
        cost += rest > 0 ? (uint64_t)last + DOP_CHUNK_COST : 0;
        cost += (uint64_t)(n_parts - 1) * (largest + DOP_CHUNK_COST);
        if (cost < best_cost || (cost == best_cost && size > best)) {
            best_cost = cost;
            best = size;
        }
    }
    return best;
}
