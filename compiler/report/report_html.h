/* Writes the report as one HTML page (assets/report.html): tables, and drawings of a layer before and after the
 * passes. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_HTML_H
#define DOPPLER_COMPILER_REPORT_REPORT_HTML_H

#include "compiler/report/report.h"

/* Appends the page: totals, drawings of layers, and the tables of the text report. It has no external resources. */
dop_status dop_report_html(const dop_report *r, dop_diag *diag, dop_buf *out);

#endif
