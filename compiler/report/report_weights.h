/* Makes the table of weights: conversions of stored types to packed types. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_WEIGHTS_H
#define DOPPLER_COMPILER_REPORT_REPORT_WEIGHTS_H

#include "compiler/report/report.h"

/* count: makes the table of weights. why: writes text to append to a row, or "": the experts of each weight, and why
 * the packed type is not the requested one. */
dop_status dop_report_count_weights(dop_report *r, dop_diag *diag);
void dop_report_weights_why(const dop_report_weights_row *row, char *out, size_t cap);

#endif
