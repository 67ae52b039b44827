/* Digest of the weights: section DOP_SEC_WEIGHTS or an external file.  Several threads digest pieces of 16 MiB.  The digest of one
 * piece is its XXH3; that of several is the XXH3 of the piece digests in order, as little-endian 64-bit numbers. */
#ifndef DOPPLER_PLAN_PLAN_WEIGHTS_H
#define DOPPLER_PLAN_PLAN_WEIGHTS_H

#include "base/base.h"

struct XXH3_state_s;

/* Incremental digest for writers: bytes in portions of any size, in order. */
typedef struct dop_weights_hash {
    struct XXH3_state_s *piece;
    uint64_t in_piece; /* bytes in the current piece */
    dop_buf digests;   /* digests of the finished pieces */
} dop_weights_hash;

dop_status dop_weights_hash_init(dop_weights_hash *hash, dop_diag *diag);
void dop_weights_hash_add(dop_weights_hash *hash, const void *bytes, uint64_t size);
/* Computes the digest of all bytes added.  Fails if memory ran out at any earlier call. */
dop_status dop_weights_hash_value(dop_weights_hash *hash, dop_diag *diag, uint64_t *out_digest);
void dop_weights_hash_finish(dop_weights_hash *hash);

/* A range of bytes to digest, for readers. */
typedef struct dop_weights_range {
    const uint8_t *data;
    uint64_t size;
    uint64_t digest; /* result */
} dop_weights_range;

/* Digests n ranges on several threads, but fewer than cores, because other work runs meanwhile.  Returns DOP_E_INTERNAL soon after
 * *stop is set; stop NULL: never. */
dop_status dop_weights_digest(dop_weights_range *ranges, uint32_t n, const _Atomic bool *stop, dop_diag *diag);

#endif
