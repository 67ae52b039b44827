/* Attributes of values and methods of strings, as Python has them; methods of other values (method_other.c) too. */
#ifndef DOPPLER_TEXT_JINJA_METHOD_H
#define DOPPLER_TEXT_JINJA_METHOD_H

#include "text/jinja/jinja.h"

/* Finds a method of a kind of values; NULL: there is none of that name.  A method that the sandbox refuses has a row without a
 * function. */
const dop_j_method_row *dop_j_find_method(dop_j_kind kind, dop_j_str name);

#endif
