/* Parsers for numbers, as Python's float() and int(). */
#ifndef DOPPLER_TEXT_JINJA_NUMBER_H
#define DOPPLER_TEXT_JINJA_NUMBER_H

#include "text/jinja/jinja.h"

/* Parse a number as Python's float() and int() do. Return false if the text is not a number. */
bool dop_j_read_float(dop_j_str s, double *out);
bool dop_j_read_int(dop_j_ctx *cx, dop_j_str s, int base, dop_j_val *out);

#endif
