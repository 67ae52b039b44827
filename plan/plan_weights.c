#include "plan/plan_weights.h"

#include "base/parallel.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { PIECE = 16 << 20, PIECES_PER_THREAD = 32, MAX_THREADS = 8 };

dop_status
dop_weights_hash_init(dop_weights_hash *hash, dop_diag *diag)
{
    memset(hash, 0, sizeof *hash);
    hash->piece = XXH3_createState();
    if (!hash->piece)
        return DOP_NO_MEMORY(diag);
    XXH3_64bits_reset(hash->piece);
    return DOP_OK;
}

static void
put_digest(dop_buf *out, uint64_t digest)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(digest >> (8 * i));
    dop_buf_append(out, (const char *)bytes, sizeof bytes);
}

static uint64_t
combine_digests(const dop_buf *digests)
{
    return XXH3_64bits(digests->data, digests->size);
}

void
dop_weights_hash_add(dop_weights_hash *hash, const void *bytes, uint64_t size)
{
    const uint8_t *p = bytes;
    while (size > 0) {
        if (hash->in_piece == PIECE) { /* close a full piece only if more bytes follow */
            put_digest(&hash->digests, XXH3_64bits_digest(hash->piece));
            XXH3_64bits_reset(hash->piece);
            hash->in_piece = 0;
        }
        uint64_t n = PIECE - hash->in_piece < size ? PIECE - hash->in_piece : size;
        XXH3_64bits_update(hash->piece, p, (size_t)n);
        hash->in_piece += n;
        p += n;
        size -= n;
    }
}

dop_status
dop_weights_hash_value(dop_weights_hash *hash, dop_diag *diag, uint64_t *out_digest)
{
    *out_digest = XXH3_64bits_digest(hash->piece);
    if (hash->digests.size == 0)
        return hash->digests.failed ? DOP_NO_MEMORY(diag) : DOP_OK;
    put_digest(&hash->digests, *out_digest);
    if (hash->digests.failed)
        return DOP_NO_MEMORY(diag);
    *out_digest = combine_digests(&hash->digests);
    return DOP_OK;
}

void
dop_weights_hash_finish(dop_weights_hash *hash)
{
    XXH3_freeState(hash->piece);
    dop_buf_finish(&hash->digests);
    memset(hash, 0, sizeof *hash);
}

typedef struct piece_job {
    const uint8_t *data;
    uint64_t size;
    uint64_t digest;
} piece_job;

typedef struct pieces {
    piece_job *jobs;
    const _Atomic bool *stop;
} pieces;

static bool
is_stopped(const pieces *p)
{
    return p->stop && atomic_load(p->stop);
}

static dop_status
digest_weights_piece(void *user, uint32_t worker, uint32_t i, dop_diag *diag)
{
    pieces *p = user;
    (void)worker;
    if (is_stopped(p))
        return DOP_FAIL(diag, DOP_E_INTERNAL, "stopped");
    p->jobs[i].digest = XXH3_64bits(p->jobs[i].data, (size_t)p->jobs[i].size);
    return DOP_OK;
}

static uint64_t
piece_count(uint64_t size)
{
    return size ? (size - 1) / PIECE + 1 : 1;
}

/* Returns one thread per 512 MiB.  More would still run when the device is open and slow down its driver. */
static uint32_t
choose_threads(uint32_t n_pieces)
{
    uint32_t cores = dop_cores(), most = cores > MAX_THREADS ? MAX_THREADS : cores > 2 ? cores - 1 : 1;
    uint32_t n = (n_pieces + PIECES_PER_THREAD - 1) / PIECES_PER_THREAD;
    return n < most ? n : most;
}

dop_status
dop_weights_digest(dop_weights_range *ranges, uint32_t n, const _Atomic bool *stop, dop_diag *diag)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += piece_count(ranges[i].size);
    pieces p = {.jobs = calloc((size_t)total, sizeof *p.jobs), .stop = stop};
    if (!p.jobs || total > UINT32_MAX) {
        free(p.jobs);
        return DOP_NO_MEMORY(diag);
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < piece_count(ranges[i].size); k++) {
            uint64_t from = k * PIECE, left = ranges[i].size - from;
            const uint8_t *data = ranges[i].data ? ranges[i].data + from : NULL; /* an empty range may have no data */
            p.jobs[at++] = (piece_job){data, left < PIECE ? left : PIECE, 0};
        }
    dop_status st = dop_parallel_for((uint32_t)total, choose_threads((uint32_t)total), digest_weights_piece, &p, diag);
    at = 0;
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        dop_buf digests = {0};
        uint64_t count = piece_count(ranges[i].size);
        for (uint64_t k = 0; k < count; k++)
            put_digest(&digests, p.jobs[at + k].digest);
        ranges[i].digest = count == 1 ? p.jobs[at].digest : combine_digests(&digests);
        if (digests.failed)
            st = DOP_NO_MEMORY(diag);
        dop_buf_finish(&digests);
        at += (uint32_t)count;
    }
    free(p.jobs);
    return st;
}
