/* Hash table from 32-bit hashes to numbers. Avoids quadratic compile time from linear searches by name. */
#ifndef DOPPLER_FRONTEND_FACTS_LOOKUP_H
#define DOPPLER_FRONTEND_FACTS_LOOKUP_H

#include "base/base.h"

/* Open addressing; a zeroed struct is an empty table. Memory is from malloc. */
typedef struct dop_lookup {
    uint32_t n, cap; /* used and allocated slots; cap is a power of two */
    struct {
        uint32_t hash, value; /* value: number + 1; 0: free slot */
    } * slots;
} dop_lookup;

uint32_t dop_lookup_hash(const char *text);
/* Adds a number for a hash; a hash may have several. Returns false if out of memory. */
bool dop_lookup_add(dop_lookup *x, uint32_t hash, uint32_t value);
/* Iterates over the numbers of a hash; *cursor starts at 0. Returns false at the end. */
bool dop_lookup_next(const dop_lookup *x, uint32_t hash, uint32_t *cursor, uint32_t *out_value);
void dop_lookup_finish(dop_lookup *x);

#endif
