/* Prompt states in host memory and, as a second level, in files. They are found by the keys of their tokens and evicted
 * in order of last use.
 *
 * *Rows* are blocks of `block` positions, aligned to it. A *point* is the states of a single position, plus the rows
 * after the last whole block. A prompt can resume from a point and all blocks before it. If no state belongs to a
 * single position, blocks alone are enough. Used only by the thread that drives the model; another thread writes
 * files. */
#ifndef DOPPLER_RUNTIME_CACHE_STORE_H
#define DOPPLER_RUNTIME_CACHE_STORE_H

#include "runtime/cache/files.h"

typedef struct dop_store dop_store;

typedef struct dop_store_options {
    uint64_t memory;    /* limit of host memory in bytes; 0: none */
    const char *folder; /* NULL: no files */
    uint64_t bound;     /* limit of file sizes in bytes */
    uint32_t block;     /* block size in positions */
    dop_snapshot_plan plan;
} dop_store_options;

typedef struct dop_store_counts {
    uint64_t bytes, snapshots;        /* currently in memory */
    uint64_t from_memory, from_files; /* snapshots found since opening */
    dop_files_counts files;
} dop_store_counts;

dop_status dop_store_create(const dop_store_options *options, dop_diag *diag, dop_store **out_store);
void dop_store_destroy(dop_store *store); /* waits until files are written; accepts NULL */

/* Updates the list of files that other processes have written. */
void dop_store_refresh(dop_store *store);
/* True if a snapshot is in memory or has a known file. */
bool dop_store_has(const dop_store *store, const dop_snapshot_key *key);
/* Returns the positions of stored points up to `most`, ascending, without duplicates. Free with free(). NULL: none, or
 * out of memory. */
uint32_t *dop_store_points(const dop_store *store, uint32_t most, uint32_t *out_n);
/* Returns a snapshot after comparing its tokens with `keys` (those of [from, to) for rows, all for a point). The caller
 * gets a reference; NULL: it is gone. */
dop_snapshot *dop_store_get(dop_store *store, const dop_snapshot_key *key, const uint32_t *keys);
/* Stores a snapshot that dop_snapshot_finish has completed; takes a reference. */
void dop_store_put(dop_store *store, const dop_snapshot_key *key, dop_snapshot *snapshot);
dop_store_counts dop_store_count(const dop_store *store);
/* Returns the statistics of files only. Callable from any thread. */
dop_files_counts dop_store_count_files(const dop_store *store);

/* Begins a cache snapshot of these keys with n_states bytes of states. The caller fills in the states at
 * dop_snapshot_states_at(out_head), then calls dop_snapshot_finish. NULL: out of memory. */
dop_snapshot *dop_snapshot_begin(const dop_snapshot_plan *plan, const dop_snapshot_key *key, uint64_t seed,
                                 uint32_t over, const uint32_t *keys, uint64_t n_states, dop_snapshot_head *out_head);
void dop_snapshot_finish(dop_snapshot *snapshot);

/* Computes the digests of the first at[i] keys for n ascending values at[]. */
void dop_snapshot_digests(uint64_t seed, const uint32_t *keys, const uint32_t *at, uint32_t n, uint64_t (*out)[2]);

#endif
