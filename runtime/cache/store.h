/* States of prompts in host memory and, behind it, in files: found by the keys of their tokens, the least recently used go first.
 *
 * *Rows* are blocks of `block` positions, from a multiple of it on; a *point* is what belongs to one position, with the rows from the last
 * whole block on.  A prompt can go on from a point and all blocks before it, or, where no state belongs to one position, from blocks alone.
 * Belongs to the thread that drives the model; files are written by a thread of their own. */
#ifndef DOPPLER_RUNTIME_CACHE_STORE_H
#define DOPPLER_RUNTIME_CACHE_STORE_H

#include "runtime/cache/files.h"

typedef struct dop_store dop_store;

typedef struct dop_store_options {
    uint64_t memory;    /* bytes of host memory; 0: none */
    const char *folder; /* NULL: no files */
    uint64_t bound;     /* bytes of files */
    uint32_t block;     /* positions */
    dop_snapshot_plan plan;
} dop_store_options;

typedef struct dop_store_counts {
    uint64_t bytes, snapshots;        /* in memory now */
    uint64_t from_memory, from_files; /* snapshots found, since opening */
    dop_files_counts files;
} dop_store_counts;

dop_status dop_store_create(const dop_store_options *options, dop_diag *diag, dop_store **out_store);
void dop_store_destroy(dop_store *store); /* waits for files; accepts NULL */

/* Looks for files that other processes have written. */
void dop_store_refresh(dop_store *store);
/* Is a snapshot in memory, or was there a file of it? */
bool dop_store_has(const dop_store *store, const dop_snapshot_key *key);
/* Positions of points, at most `most`, the smallest first, without repeats; to free.  NULL: there are none, or no memory. */
uint32_t *dop_store_points(const dop_store *store, uint32_t most, uint32_t *out_n);
/* The snapshot, whose tokens are these keys (of rows those of [from, to), of a point all), with a reference of the caller's; NULL: it is gone. */
dop_snapshot *dop_store_get(dop_store *store, const dop_snapshot_key *key, const uint32_t *keys);
/* Keeps a snapshot that dop_snapshot_finish has completed; takes a reference. */
void dop_store_put(dop_store *store, const dop_snapshot_key *key, dop_snapshot *snapshot);
dop_store_counts dop_store_count(const dop_store *store);
/* Its files alone, which any thread may ask for. */
dop_files_counts dop_store_count_files(const dop_store *store);

/* Begins a snapshot of a cache with n_states bytes of states, of these keys; the caller fills in the states, from dop_snapshot_states_at of
 * *out_head on, and finishes it.  NULL: out of memory. */
dop_snapshot *dop_snapshot_begin(const dop_snapshot_plan *plan, const dop_snapshot_key *key, uint64_t seed,
                                 uint32_t over, const uint32_t *keys, uint64_t n_states, dop_snapshot_head *out_head);
void dop_snapshot_finish(dop_snapshot *snapshot);

/* The digests of the first at[i] keys, at[] ascending: of n positions. */
void dop_snapshot_digests(uint64_t seed, const uint32_t *keys, const uint32_t *at, uint32_t n, uint64_t (*out)[2]);

#endif
