/* Recurrences in plain C: f32 in, f64 inside, f32 out.  The rows of a sequence are consecutive. */
#ifndef DOPPLER_IR_INTERP_INTERP_SCAN_H
#define DOPPLER_IR_INTERP_INTERP_SCAN_H

#include "ir/interp/interp_ops.h"

/* interp_scan.c: the recurrences, and the state_write that keeps a sequence's last rows (ids are checked). */
dop_status dop_interp_short_conv(const dop_interp_node *n);
dop_status dop_interp_linear_scan(const dop_interp_node *n);
void dop_interp_last_rows(const dop_interp_node *n, dop_type type);

#endif
