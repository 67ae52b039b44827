/* Writes the report as text. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_TEXT_H
#define DOPPLER_COMPILER_REPORT_REPORT_TEXT_H

#include "compiler/report/report.h"

void dop_report_text(const dop_report *r, dop_buf *out);

#endif
