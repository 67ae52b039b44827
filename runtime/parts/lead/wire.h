/* Connection between the ranks that run a plan in parts: MPI (runtime/parts/mpi), or memory in tests.
 *
 * Rank r has part r. Rank 0 runs the program, and the others execute its orders (runtime/parts/lead/ranks.h). */
#ifndef DOPPLER_RUNTIME_PARTS_LEAD_WIRE_H
#define DOPPLER_RUNTIME_PARTS_LEAD_WIRE_H

#include "base/base.h"

/* Independent message channels. Messages of a lane arrive in the order sent; lanes do not block each other. */
typedef enum dop_wire_lane {
    DOP_LANE_ORDERS, /* from rank 0 to each other rank */
    DOP_LANE_ROWS,   /* from a rank to the next one: values that cross the cut */
    DOP_LANE_ANSWERS /* from each rank to rank 0: picks, logits, states, and results of opening */
} dop_wire_lane;

enum { DOP_WIRE_MOST = 1 << 20 /* maximum message size in bytes; longer data is split */ };

typedef struct dop_wire {
    uint32_t rank, n; /* number of this rank, from 0; number of all ranks */
    uint32_t local;   /* number of this rank among those on its host */
    bool crowded;     /* the host has too few processors for spinning */
    bool twins;       /* tests only: every rank runs a whole plan, and the last one's answers count */
    char name[64];    /* host name of this rank */
    void *user;
    /* Sends up to DOP_WIRE_MOST bytes. The buffer may be reused at once. Blocks only if the receiver lags far. */
    dop_status (*send)(void *user, uint32_t to, dop_wire_lane lane, const void *bytes, size_t size, dop_diag *diag);
    /* Waits for the next message of a lane. *out_bytes, aligned to 16 bytes, is valid until the next call for this lane
     * and rank. Fails with DOP_E_DEVICE if a rank is lost; *diag names it and the reason. */
    dop_status (*receive)(void *user, uint32_t from, dop_wire_lane lane, dop_diag *diag, const uint8_t **out_bytes,
                          size_t *out_size);
    /* True if `receive` would return at once, also with a failure. */
    bool (*ready)(void *user, uint32_t from, dop_wire_lane lane);
    /* Reports that this rank, not rank 0, cannot continue: `receive` then fails on rank 0 with this reason. */
    void (*fail)(void *user, const dop_diag *diag);
    /* Writes "rank 1 on HOST". */
    void (*describe)(void *user, uint32_t rank, char *out, size_t cap);
} dop_wire;

#endif
