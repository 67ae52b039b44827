#include "runtime/chunks.h"

/* Time of a chunk with room for so many tokens, in those of large chunks. */
static uint64_t
time_of(uint32_t size)
{
    enum { FULL = 512, START = 40 };
    return START + (size < FULL ? FULL - (uint64_t)(FULL - size) * 11 / 12 : size);
}

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
        uint64_t cost = whole * time_of(size);
        cost += rest > 0 ? time_of(last) : 0;
        cost += (n_parts - 1) * time_of(largest);
        if (cost < best_cost || (cost == best_cost && size > best)) {
            best_cost = cost;
            best = size;
        }
    }
    return best;
}
