/* Keys of the prefix cache: the single definition of what the states of a sequence depend on up to a position.
 *
 * Most keys are token ids. A row that does not come from a token (an image row) has a *mark*, which replaces the token
 * by a hash of the image's digest. Dependencies of all states (an adapter and its scale) form the *seed*. Pages,
 * checkpoints and stored states are found by seed and keys, so prompts share states only if both are equal. */
#ifndef DOPPLER_RUNTIME_MODEL_PREFIX_H
#define DOPPLER_RUNTIME_MODEL_PREFIX_H

#include "base/base.h"

/* Marks rows [pos, pos + n) as rows 0 .. n - 1 of an object with a 128-bit digest. */
typedef struct dop_prefix_mark {
    uint32_t pos, n;
    uint64_t digest[2];
} dop_prefix_mark;

/* Minimum key of a marked row, above the ids of every vocabulary. */
#define DOP_PREFIX_MARKED 0xc0000000u

typedef struct dop_prefix {
    uint64_t seed;          /* 0: states depend on the rows alone */
    dop_prefix_mark *marks; /* owned, [n_marks], sorted by position, not overlapping */
    uint32_t n_marks;
    uint32_t *keys; /* owned: buffer for the result of dop_prefix_keys; NULL without marks */
    size_t cap_keys;
} dop_prefix;

void dop_prefix_finish(dop_prefix *prefix); /* accepts a zeroed one */
/* Copies `from` to `to`, whose old marks are freed. */
dop_status dop_prefix_copy(dop_prefix *to, const dop_prefix *from, dop_diag *diag);
/* Sets the seed and copies the marks. */
dop_status dop_prefix_set(dop_prefix *prefix, uint64_t seed, const dop_prefix_mark *marks, uint32_t n_marks,
                          dop_diag *diag);
/* Removes rows [first, first + n); later marks move up. A mark that loses rows is dropped as a whole, because the
 * remaining rows have new keys. */
void dop_prefix_cut(dop_prefix *prefix, uint32_t first, uint32_t n);
/* Drops marks of rows from n on. */
void dop_prefix_rewind(dop_prefix *prefix, uint32_t n);
/* Returns the keys of the first n rows; without marks these are `tokens` itself. Valid until the prefix changes or the
 * next call; NULL: out of memory. */
const uint32_t *dop_prefix_keys(dop_prefix *prefix, const uint32_t *tokens, size_t n);
/* Returns the length of the common prefix of a and b, at most n. */
size_t dop_prefix_same(const uint32_t *a, const uint32_t *b, size_t n);

#endif
