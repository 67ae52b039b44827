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
/* Error: an id of source number `src` is not below the limit. */
dop_status dop_interp_check_ids(const dop_interp_node *n, uint32_t src, uint32_t limit);
/* interp_scan.c: the recurrences, and the state_write that keeps a sequence's last rows (ids are checked). */
dop_status dop_interp_short_conv(const dop_interp_node *n);
dop_status dop_interp_linear_scan(const dop_interp_node *n);
void dop_interp_last_rows(const dop_interp_node *n, dop_type type);
/* interp_index.c: the ops that choose the positions which attention sees. */
dop_status dop_interp_index_scores(const dop_interp_node *n);
dop_status dop_interp_top_positions(const dop_interp_node *n);
/* interp_access.c: the sum over all reduction indices of the product of sources 0 and 1, each read as its access says, plus source 2
 * where there is one.  It computes any product whose sources have no index that a value chooses. */
void dop_interp_by_access(const dop_interp_node *n);
/* Rounds to the storage type, as a store and a load would. */
float dop_interp_round(dop_type t, float v);

#endif
