/* Snapshots: states of a sequence as bytes, the one format of sessions and of what a cache keeps in memory and in files.
 *
 *   header, tokens u32[n_tokens], padding to 8 bytes, marks, note, padding to 8 bytes, states, digest u64 (XXH3 of everything before it)
 *
 * A session has the states of its first `to` tokens.  A cache has two kinds: *rows*, of positions [from, to) in the caches that keep every
 * position; and *points*, with the states that belong to one position and the rows from the last whole block on.  Their tokens are
 * keys (runtime/model/prefix.h): those of the rows, or all keys of a point.  Little-endian.  Nothing in it depends on the device. */
#ifndef DOPPLER_RUNTIME_CACHE_SNAPSHOT_H
#define DOPPLER_RUNTIME_CACHE_SNAPSHOT_H

#include "base/base.h"

enum { DOP_SNAPSHOT_VERSION = 2 };
enum {
    DOP_SNAPSHOT_ROWS = 1, /* it has rows [from, to) */
    DOP_SNAPSHOT_WHOLE = 2 /* it has what belongs to position `to` */,
    DOP_SNAPSHOT_CACHED = 4 /* it is of a cache: `tokens` are keys, and `key` is their digest */
};

typedef struct dop_snapshot_head {
    char magic[8];
    uint32_t version, flags; /* DOP_SNAPSHOT_* */
    uint32_t n_tokens, from, to;
    uint32_t over; /* positions from `to` on that were written and dropped: rings have lost as many */
    uint32_t n_note, n_marks;
    uint64_t file_size; /* bytes */
    uint64_t plan;      /* digest of the plan */
    uint64_t layout;    /* digest of what the plan says of the states in use */
    uint64_t seed;      /* as in dop_prefix */
    uint64_t key[2];    /* XXH3 (128 bits) of the keys of the first `to` tokens, with the seed */
} dop_snapshot_head;

/* What snapshots must fit. */
typedef struct dop_snapshot_plan {
    uint64_t plan, layout;
    uint32_t vocab, ctx;
} dop_snapshot_plan;

/* Bytes of a mark: pos, n, digest[2]. */
enum { DOP_SNAPSHOT_MARK = 24 };

/* A header with magic and version, everything else 0. */
dop_snapshot_head dop_snapshot_head_of(const dop_snapshot_plan *plan, uint32_t flags);
/* Bytes before the marks, before the note, before the states. */
uint64_t dop_snapshot_marks_at(const dop_snapshot_head *head);
uint64_t dop_snapshot_note_at(const dop_snapshot_head *head);
uint64_t dop_snapshot_states_at(const dop_snapshot_head *head);
/* Checks everything except the states.  states: what they must take (SIZE_MAX: any size) is the caller's to compare with
 * dop_snapshot_states_size.  DOP_E_INPUT with the reason in one line; path: for messages. */
dop_status dop_snapshot_check(const uint8_t *bytes, uint64_t size, const dop_snapshot_plan *plan, const char *path,
                              dop_diag *diag, dop_snapshot_head *out_head);
uint64_t dop_snapshot_states_size(const dop_snapshot_head *head);

#endif
