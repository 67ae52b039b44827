/* Adds the parts of a plan to the report. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_PARTS_H
#define DOPPLER_COMPILER_REPORT_REPORT_PARTS_H

#include "compiler/report/report.h"

/* Appends the table of parts to the text. This function and the following ones add nothing if the plan has one part. */
void dop_report_parts_text(const dop_report *r, dop_buf *out);
/* Appends the table of parts, and a table of the values that cross each cut, to the page. */
void dop_report_parts_html(const dop_report *r, dop_buf *out);
/* Adds the list `parts` to the JSON. */
void dop_report_parts_json(const dop_report *r, void *json_object);

dop_status dop_report_places_make(const dop_compilation *c, uint32_t schedule, const dop_compilation *parts, uint32_t n,
                                  dop_diag *diag, dop_report_places *out_places);
void dop_report_places_finish(dop_report_places *p); /* accepts zeroed places */
/* Appends a region's part to the line about it: ", in part 0 of 2, which sends x1 (256 bytes a row) to part 1". */
void dop_report_place(const dop_report_places *p, const dop_schedule *s, dop_region_id r, dop_buf *out);

#endif
