/* Snapshots: serialized states of a sequence, the common format of session files and of cached states in memory and
 * files.
 *
 * header, tokens u32[n_tokens], padding to 8 bytes, marks, note, padding to 8 bytes, states, digest u64 (XXH3 of
 * everything before it)
 *
 * A session has the states of its first `to` tokens. A cache has two kinds: *rows*, positions [from, to) of the caches
 * that keep every position; and *points*, the states of a single position plus the rows after the last whole block.
 * Their tokens are keys (runtime/model/prefix.h): those of the rows, or all keys of a point. Little-endian, independent
 * of the device. */
#ifndef DOPPLER_RUNTIME_CACHE_SNAPSHOT_H
#define DOPPLER_RUNTIME_CACHE_SNAPSHOT_H

#include "base/base.h"

enum { DOP_SNAPSHOT_VERSION = 2 };
enum {
    DOP_SNAPSHOT_ROWS = 1, /* contains rows [from, to) */
    DOP_SNAPSHOT_WHOLE = 2 /* contains the states of position `to` */,
    DOP_SNAPSHOT_CACHED = 4 /* belongs to a cache: `tokens` are keys, and `key` is their digest */
};

typedef struct dop_snapshot_head {
    char magic[8];
    uint32_t version, flags; /* DOP_SNAPSHOT_* */
    uint32_t n_tokens, from, to;
    uint32_t over; /* positions from `to` on that were written and dropped; sliding windows have lost as many */
    uint32_t n_note, n_marks;
    uint64_t file_size; /* in bytes */
    uint64_t plan;      /* digest of the plan */
    uint64_t layout;    /* digest of the plan's layout of the states in use */
    uint64_t seed;      /* as in dop_prefix */
    uint64_t key[2];    /* 128-bit XXH3 of the keys of the first `to` tokens, seeded with `seed` */
} dop_snapshot_head;

/* Plan properties that snapshots must match. */
typedef struct dop_snapshot_plan {
    uint64_t plan, layout;
    uint32_t vocab, ctx;
} dop_snapshot_plan;

/* Size of a mark in bytes: pos, n, digest[2]. */
enum { DOP_SNAPSHOT_MARK = 24 };

/* Returns a header with magic, version, flags and plan digests; the rest is 0. */
dop_snapshot_head dop_snapshot_head_of(const dop_snapshot_plan *plan, uint32_t flags);
/* Return the byte offsets of the marks, the note and the states. */
uint64_t dop_snapshot_marks_at(const dop_snapshot_head *head);
uint64_t dop_snapshot_note_at(const dop_snapshot_head *head);
uint64_t dop_snapshot_states_at(const dop_snapshot_head *head);
/* Checks everything except the states, whose size the caller must compare with dop_snapshot_states_size. Fails with
 * DOP_E_INPUT and a one-line reason. path: for messages. */
dop_status dop_snapshot_check(const uint8_t *bytes, uint64_t size, const dop_snapshot_plan *plan, const char *path,
                              dop_diag *diag, dop_snapshot_head *out_head);
uint64_t dop_snapshot_states_size(const dop_snapshot_head *head);

#endif
