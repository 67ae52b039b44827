/* Look-up of methods, and the methods of strings. method_other.c has those of other kinds. */
#ifndef DOPPLER_TEXT_JINJA_METHOD_H
#define DOPPLER_TEXT_JINJA_METHOD_H

#include "text/jinja/jinja.h"

/* Returns a method of a kind of value, or NULL if there is none with this name. Methods that the sandbox forbids
 * have a row without a function. */
const dop_j_method_row *dop_j_find_method(dop_j_kind kind, dop_j_str name);

#endif
