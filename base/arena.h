/* Arena allocator: all memory is freed at once.  A compilation uses one arena for everything that the compiler
 * allocates. */
#ifndef DOPPLER_BASE_ARENA_H
#define DOPPLER_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct dop_arena {
    struct dop_arena_block *blocks;
} dop_arena;

void dop_arena_init(dop_arena *a);
void dop_arena_finish(dop_arena *a); /* accepts a zeroed struct */
/* Allocates zeroed memory aligned to 16 bytes.  NULL: out of memory. */
void *dop_arena_alloc(dop_arena *a, size_t bytes);
char *dop_arena_strdup(dop_arena *a, const char *s);
char *dop_arena_printf(dop_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Grows an array of n items if it is full, so that one more fits.  The old copy stays in the arena.  False: out of memory. */
static inline bool
dop_arena_grow(dop_arena *arena, void **items, uint32_t n, uint32_t *cap, size_t item_size)
{
    if (n < *cap)
        return true;
    uint32_t new_cap = *cap ? *cap * 2 : 64;
    void *p = dop_arena_alloc(arena, new_cap * item_size);
    if (!p)
        return false;
    if (n)
        memcpy(p, *items, n * item_size);
    *items = p;
    *cap = new_cap;
    return true;
}

#endif
