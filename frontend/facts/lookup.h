/* A hash table from hashes to numbers, used where linear searches through names would make compiling quadratic. */
#ifndef DOPPLER_FRONTEND_FACTS_LOOKUP_H
#define DOPPLER_FRONTEND_FACTS_LOOKUP_H

#include "base/base.h"

/* Open addressing; a zeroed struct is an empty table.  Its memory is from malloc. */
typedef struct dop_lookup {
    uint32_t n, cap; /* cap is a power of two */
    struct {
        uint32_t hash, value; /* value: the number plus 1; 0: the slot is free */
    } * slots;
} dop_lookup;

uint32_t dop_lookup_hash(const char *text);
/* Adds a number under a hash, which may have several.  False: out of memory. */
bool dop_lookup_add(dop_lookup *x, uint32_t hash, uint32_t value);
/* Iterates over the numbers under a hash; *cursor starts at 0.  False: there are no more. */
bool dop_lookup_next(const dop_lookup *x, uint32_t hash, uint32_t *cursor, uint32_t *out_value);
void dop_lookup_finish(dop_lookup *x);

#endif
