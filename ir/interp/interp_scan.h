/* The interpreter's recurrences: f32 values with f64 accumulation.  The rows of a sequence must be consecutive. */
#ifndef DOPPLER_IR_INTERP_INTERP_SCAN_H
#define DOPPLER_IR_INTERP_INTERP_SCAN_H

#include "ir/interp/interp_ops.h"

/* Recurrences, and the state_write that keeps a sequence's last rows.  dop_interp_last_rows expects checked ids. */
dop_status dop_interp_short_conv(const dop_interp_node *n);
dop_status dop_interp_linear_scan(const dop_interp_node *n);
void dop_interp_last_rows(const dop_interp_node *n, dop_type type);

#endif
