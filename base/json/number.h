/* Locale-independent conversion between reals and text. */
#ifndef DOPPLER_BASE_JSON_NUMBER_H
#define DOPPLER_BASE_JSON_NUMBER_H

#include <stddef.h>

/* Like strtod, with "." as the decimal point. */
double dop_strtod(const char *text, char **out_end);
/* Formats like Python's repr: the shortest digits that parse back equal, exponent form below 1e-4 and from 1e16; "inf", "-inf" and
 * "nan".  Returns the length. */
size_t dop_real_text(double value, char out[32]);

#endif
