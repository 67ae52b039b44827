/* Python's FORMAT % VALUES and FORMAT.format(VALUES). Reference: "printf-style String Formatting" and "Format
 * Specification Mini-Language" in the documentation of its standard library. */
#ifndef DOPPLER_TEXT_JINJA_FORMAT_H
#define DOPPLER_TEXT_JINJA_FORMAT_H

#include "text/jinja/jinja.h"

/* Evaluate FORMAT % ARGUMENTS (a tuple, a dictionary or one value) and FORMAT.format(ARGUMENTS). */
dop_j_val dop_j_percent(dop_j_ctx *cx, dop_j_str format, dop_j_val args, long line);
dop_j_val dop_j_str_format(dop_j_ctx *cx, dop_j_str format, const dop_j_args *a);

#endif
