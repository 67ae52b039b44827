#include "plan/chunks.h"

uint64_t
dop_chunks_time(const dop_chunk_costs *costs, uint32_t room, size_t n)
{
    static const dop_chunk_costs software = {8, 64, 0, 1};
    const dop_chunk_costs *c = costs ? costs : &software;
    const uint64_t tiles = (n + c->tile - 1) / c->tile * c->tile, tokens = tiles < room ? tiles : room;
    return c->start + (tokens < c->full ? c->full - (c->full - tokens) * (c->lack - 1) / c->lack : tokens);
}

/* Returns the index of the smallest size for n tokens; n_sizes: none. */
static size_t
find_smallest_size(const dop_chunk_size *sizes, size_t n_sizes, size_t n)
{
    size_t best = n_sizes;
    for (size_t i = 0; i < n_sizes; i++)
        if (sizes[i].most >= n && (best == n_sizes || sizes[i].room < sizes[best].room))
            best = i;
    return best;
}

size_t
dop_chunks_next(const dop_chunk_costs *costs, const dop_chunk_size *sizes, size_t n_sizes, size_t n)
{
    const size_t fits = find_smallest_size(sizes, n_sizes, n);
    size_t filled = find_smallest_size(sizes, n_sizes, 1);
    for (size_t i = 0; i < n_sizes; i++)
        if (sizes[i].most <= n && (sizes[i].most > sizes[filled].most ||
                                   (sizes[i].most == sizes[filled].most && sizes[i].room < sizes[filled].room)))
            filled = i;
    const size_t take = sizes[filled].most;
    if (fits == n_sizes || take >= n)
        return fits == n_sizes ? filled : fits;
    const size_t rest = find_smallest_size(sizes, n_sizes, n - take);
    const uint64_t two =
        dop_chunks_time(costs, sizes[filled].room, take) + dop_chunks_time(costs, sizes[rest].room, n - take);
    return two < dop_chunks_time(costs, sizes[fits].room, n) ? filled : fits;
}

/* Returns the smallest size that holds n tokens, at most `most`. */
static uint32_t
find_chunk_size(const uint32_t *sizes, size_t n_sizes, size_t n, uint32_t most)
{
    uint32_t fits = most;
    for (size_t i = 0; i < n_sizes; i++)
        if (sizes[i] >= n && sizes[i] < fits)
            fits = sizes[i];
    return fits;
}

uint32_t
dop_chunks_best(const dop_chunk_costs *costs, const uint32_t *sizes, size_t n_sizes, size_t n, uint32_t n_parts)
{
    uint64_t best_cost = UINT64_MAX;
    uint32_t best = 0;
    for (size_t i = 0; i < n_sizes; i++) {
        const uint32_t size = sizes[i];
        const size_t whole = n / size, rest = n % size;
        const uint32_t last = rest > 0 ? find_chunk_size(sizes, n_sizes, rest, size) : 0,
                       largest = whole > 0 ? size : last;
        uint64_t cost = whole * dop_chunks_time(costs, size, size);
        cost += rest > 0 ? dop_chunks_time(costs, last, rest) : 0;
        cost += (n_parts - 1) * dop_chunks_time(costs, largest, whole > 0 ? size : rest);
        if (cost < best_cost || (cost == best_cost && size > best)) {
            best_cost = cost;
            best = size;
        }
    }
    return best;
}
