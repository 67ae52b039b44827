/* The report as one HTML page (assets/report.html): tables, and a layer drawn before and after.  Nothing is loaded from elsewhere. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_HTML_H
#define DOPPLER_COMPILER_REPORT_REPORT_HTML_H

#include "compiler/report/report.h"

/* One page without external resources: totals, a layer drawn before and after, the tables of the text. */
dop_status dop_report_html(const dop_report *r, dop_diag *diag, dop_buf *out);

#endif
