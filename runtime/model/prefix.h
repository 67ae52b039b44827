/* The keys of prefix reuse: what the states of a sequence up to a position depend on, the one place that says it.
 *
 * Token ids are most of it.  A row that does not come from its token (a row of an image) has a *mark*, which puts words of the
 * image's digest in place of its token; what all states depend on (an adapter and its scale) is the *seed*.  Pages, checkpoints and
 * files of states are found by seed and keys, so that two prompts share states only where both are equal. */
#ifndef DOPPLER_RUNTIME_MODEL_PREFIX_H
#define DOPPLER_RUNTIME_MODEL_PREFIX_H

#include "base/base.h"

/* Rows [pos, pos + n) are rows 0 .. n of something with a digest of 128 bits. */
typedef struct dop_prefix_mark {
    uint32_t pos, n;
    uint64_t digest[2];
} dop_prefix_mark;

/* Keys of marked rows are at least this, above the ids of every vocabulary. */
#define DOP_PREFIX_MARKED 0xc0000000u

typedef struct dop_prefix {
    uint64_t seed;          /* 0: states depend on the rows alone */
    dop_prefix_mark *marks; /* owned, [n_marks], by position; they do not overlap */
    uint32_t n_marks;
    uint32_t *keys; /* owned: what dop_prefix_keys gave, where there are marks */
    size_t cap_keys;
} dop_prefix;

void dop_prefix_finish(dop_prefix *prefix); /* accepts a zeroed one */
/* Makes `to` a copy; its old marks are freed. */
dop_status dop_prefix_copy(dop_prefix *to, const dop_prefix *from, dop_diag *diag);
/* Sets seed and marks (copied). */
dop_status dop_prefix_set(dop_prefix *prefix, uint64_t seed, const dop_prefix_mark *marks, uint32_t n_marks,
                          dop_diag *diag);
/* Removes rows [first, first + n) from marks, behind which the others move up.  A mark that loses rows is dropped with all rows: what
 * is left of it has keys of its own. */
void dop_prefix_cut(dop_prefix *prefix, uint32_t first, uint32_t n);
/* Forgets marks of rows from n on. */
void dop_prefix_rewind(dop_prefix *prefix, uint32_t n);
/* The keys of the first n rows: the tokens themselves where there are no marks.  Valid until the prefix changes or is asked again;
 * NULL: out of memory. */
const uint32_t *dop_prefix_keys(dop_prefix *prefix, const uint32_t *tokens, size_t n);
/* How many keys are equal from the first on, at most n. */
size_t dop_prefix_same(const uint32_t *a, const uint32_t *b, size_t n);

#endif
