#include "frontend/facts/lookup.h"

#include <stdlib.h>
#include <string.h>

uint32_t
dop_lookup_hash(const char *text)
{
    uint32_t h = 2166136261u;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h ^ h >> 15;
}

static void
put_lookup_entry(dop_lookup *x, uint32_t hash, uint32_t value)
{
    uint32_t at = hash & (x->cap - 1);
    while (x->slots[at].value)
        at = (at + 1) & (x->cap - 1);
    x->slots[at].hash = hash;
    x->slots[at].value = value;
}

bool
dop_lookup_add(dop_lookup *x, uint32_t hash, uint32_t value)
{
    if ((x->n + 1) * 2 > x->cap) {
        dop_lookup more = {.cap = x->cap ? x->cap * 2 : 64, .n = x->n};
        more.slots = calloc(more.cap, sizeof *more.slots);
        if (!more.slots)
            return false;
        for (uint32_t i = 0; i < x->cap; i++)
            if (x->slots[i].value)
                put_lookup_entry(&more, x->slots[i].hash, x->slots[i].value);
        free(x->slots);
        *x = more;
    }
    put_lookup_entry(x, hash, value + 1);
    x->n++;
    return true;
}

bool
dop_lookup_next(const dop_lookup *x, uint32_t hash, uint32_t *cursor, uint32_t *out_value)
{
    for (; *cursor < x->cap; (*cursor)++) {
        uint32_t at = (hash + *cursor) & (x->cap - 1);
        if (!x->slots[at].value)
            return false;
        if (x->slots[at].hash != hash)
            continue;
        *out_value = x->slots[at].value - 1;
        (*cursor)++;
        return true;
    }
    return false;
}

void
dop_lookup_finish(dop_lookup *x)
{
    free(x->slots);
    memset(x, 0, sizeof *x);
}
