/* Digest of a plan's weights, section DOP_SEC_WEIGHTS or an external file.  So that they are digested at the speed of memory,
 * several threads take pieces of 16 MiB: the digest of one piece is its XXH3, that of several is the XXH3 of theirs in order,
 * as little-endian 64-bit numbers. */
#ifndef DOPPLER_PLAN_PLAN_WEIGHTS_H
#define DOPPLER_PLAN_PLAN_WEIGHTS_H

#include "base/base.h"

struct XXH3_state_s;

/* The writer's side: bytes in any portions, in order. */
typedef struct dop_weights_hash {
    struct XXH3_state_s *piece;
    uint64_t in_piece; /* bytes */
    dop_buf digests;   /* of the pieces before */
} dop_weights_hash;

dop_status dop_weights_hash_init(dop_weights_hash *hash, dop_diag *diag);
void dop_weights_hash_add(dop_weights_hash *hash, const void *bytes, uint64_t size);
/* Fails when there was no memory for the digests on the way. */
dop_status dop_weights_hash_value(dop_weights_hash *hash, dop_diag *diag, uint64_t *out_digest);
void dop_weights_hash_finish(dop_weights_hash *hash);

/* The reader's side: the digests of several ranges at once. */
typedef struct dop_weights_range {
    const uint8_t *data;
    uint64_t size;
    uint64_t digest; /* result */
} dop_weights_range;

/* Uses several threads, but fewer than there are cores, which other work needs meanwhile.  stop: gives up soon
 * after it is set, with DOP_E_INTERNAL; NULL: never. */
dop_status dop_weights_digest(dop_weights_range *ranges, uint32_t n, const _Atomic bool *stop, dop_diag *diag);

#endif
