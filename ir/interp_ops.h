/* How the interpreter computes one node from the values of its sources.  Internal to ir/. */
#ifndef DOPPLER_IR_INTERP_OPS_H
#define DOPPLER_IR_INTERP_OPS_H

#include "ir/interp.h"

typedef struct dop_interp_node {
    const dop_graph *g;
    dop_node_id id;
    const dop_tensor *src[DOP_MAX_SRCS]; /* shapes concrete */
    dop_tensor out;                      /* shape and memory are there; state_write and reshape share source 0's */
    bool round;                          /* state_write rounds to the cache's type */
    dop_diag *diag;
} dop_interp_node;

/* Any op but the leaves.  Errors: ids out of range, host memory. */
dop_status dop_interp_compute(const dop_interp_node *n);
/* Rounds to the storage type, as a store and a load would. */
float dop_interp_round(dop_type t, float v);

#endif
