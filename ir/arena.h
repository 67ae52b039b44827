/* One arena per compilation: everything the compiler makes lives until it is finished. */
#ifndef DOPPLER_IR_ARENA_H
#define DOPPLER_IR_ARENA_H

#include <stddef.h>

typedef struct dop_arena {
    struct dop_arena_block *blocks;
} dop_arena;

void dop_arena_init(dop_arena *a);
void dop_arena_finish(dop_arena *a); /* accepts a zeroed one */
/* Zeroed memory aligned to 16, or NULL when the host is out of memory. */
void *dop_arena_alloc(dop_arena *a, size_t bytes);
char *dop_arena_strdup(dop_arena *a, const char *s);
char *dop_arena_printf(dop_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
