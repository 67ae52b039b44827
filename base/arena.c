/* Bump allocation in blocks that double up to a limit; large requests get a block of their own. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BLOCK = 16 * 1024, LAST_BLOCK = 1024 * 1024, ALIGN = 16 };

typedef struct dop_arena_block {
    struct dop_arena_block *next;
    size_t size, used; /* bytes of data[]: total, and allocated */
    _Alignas(ALIGN) unsigned char data[];
} dop_arena_block;

void
dop_arena_init(dop_arena *a)
{
    a->blocks = NULL;
}

void
dop_arena_finish(dop_arena *a)
{
    for (dop_arena_block *b = a->blocks; b;) {
        dop_arena_block *next = b->next;
        free(b);
        b = next;
    }
    a->blocks = NULL;
}

void *
dop_arena_alloc(dop_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t need = bytes ? (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
    dop_arena_block *b = a->blocks;
    if (!b || b->size - b->used < need) {
        size_t size = !b ? FIRST_BLOCK : b->size < LAST_BLOCK / 2 ? b->size * 2 : LAST_BLOCK;
        if (size < need)
            size = need;
        b = calloc(1, sizeof *b + size); /* zeroed here, because memory of a block is never reused */
        if (!b)
            return NULL;
        b->size = size;
        b->next = a->blocks;
        a->blocks = b;
    }
    void *p = b->data + b->used;
    b->used += need;
    return p;
}

char *
dop_arena_strdup(dop_arena *a, const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = dop_arena_alloc(a, n);
    if (p)
        memcpy(p, s, n);
    return p;
}

char *
dop_arena_printf(dop_arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : dop_arena_alloc(a, (size_t)n + 1);
    if (p) {
        va_start(ap, fmt);
        vsnprintf(p, (size_t)n + 1, fmt, ap);
        va_end(ap);
    }
    return p;
}
