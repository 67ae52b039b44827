/* The table of weights: how their stored types became packed ones. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_WEIGHTS_H
#define DOPPLER_COMPILER_REPORT_REPORT_WEIGHTS_H

#include "compiler/report/report.h"

/* report_weights.c.  count: makes the table of weights.  why: text to append to a row: how many experts each weight has, and why the
 * packed type is not the asked one; "": nothing to say. */
dop_status dop_report_count_weights(dop_report *r, dop_diag *diag);
void dop_report_weights_why(const dop_report_weights_row *row, char *out, size_t cap);

#endif
