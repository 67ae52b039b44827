/* The connection between the ranks that run a plan in parts: MPI (runtime/parts/mpi), or memory in tests.
 *
 * Rank r has part r.  Rank 0 runs the program, and the others execute its orders (runtime/parts/lead/ranks.h). */
#ifndef DOPPLER_RUNTIME_PARTS_LEAD_WIRE_H
#define DOPPLER_RUNTIME_PARTS_LEAD_WIRE_H

#include "base/base.h"

/* Messages of a lane arrive in the order in which they were sent; different lanes do not wait for each other. */
typedef enum dop_wire_lane {
    DOP_LANE_ORDERS, /* from rank 0 to each of the others */
    DOP_LANE_ROWS,   /* from a rank to the next one: what crosses the cut */
    DOP_LANE_ANSWERS /* from each rank to rank 0: picks, logits, states, and how opening went */
} dop_wire_lane;

enum { DOP_WIRE_MOST = 1 << 20 /* most bytes of a message; longer data is sent in several */ };

typedef struct dop_wire {
    uint32_t rank, n; /* number of this rank, from 0; number of all ranks */
    uint32_t local;   /* number of this rank among those on its host */
    bool crowded;     /* the host has too few processors for ranks to wait without sleeping */
    bool twins;       /* tests: every rank runs a whole plan, and the last one's answers are used */
    char name[64];    /* name of this rank's host */
    void *user;
    /* Sends 0 .. DOP_WIRE_MOST bytes, which may be changed after it returns.  Waits only if the other rank is far behind. */
    dop_status (*send)(void *user, uint32_t to, dop_wire_lane lane, const void *bytes, size_t size, dop_diag *diag);
    /* Waits for the next message of a lane.  *out_bytes, aligned to 16 bytes, is valid until the next call for this
     * lane and rank.  DOP_E_DEVICE: a rank is lost, and *diag says which one and why. */
    dop_status (*receive)(void *user, uint32_t from, dop_wire_lane lane, dop_diag *diag, const uint8_t **out_bytes,
                          size_t *out_size);
    /* Would receive return at once, even if with a failure? */
    bool (*ready)(void *user, uint32_t from, dop_wire_lane lane);
    /* Reports that this rank, which is not rank 0, cannot continue: receive fails on rank 0 with this reason. */
    void (*fail)(void *user, const dop_diag *diag);
    /* "rank 1 on HOST". */
    void (*describe)(void *user, uint32_t rank, char *out, size_t cap);
} dop_wire;

#endif
