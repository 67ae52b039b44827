/* Reals as text, whatever the locale of the process says. */
#ifndef DOPPLER_BASE_JSON_NUMBER_H
#define DOPPLER_BASE_JSON_NUMBER_H

#include <stddef.h>

/* strtod with a point as the decimal point. */
double dop_strtod(const char *text, char **out_end);
/* Python's repr: the shortest digits that read back the same, in exponent form below 1e-4 and from 1e16 on; "inf", "-inf"
 * and "nan".  Returns the length. */
size_t dop_real_text(double value, char out[32]);

#endif
