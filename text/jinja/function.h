/* Functions that every template finds: Jinja's and those that transformers adds. */
#ifndef DOPPLER_TEXT_JINJA_FUNCTION_H
#define DOPPLER_TEXT_JINJA_FUNCTION_H

#include "text/jinja/jinja.h"

/* Whether a name is one of the functions that every template finds. */
bool dop_j_is_builtin(const char *name);
/* A function by its name, as a value; an undefined value: there is none. */
dop_j_val dop_j_function_value(dop_j_str name);
dop_j_val dop_j_function(dop_j_ctx *cx, dop_j_str name, const dop_j_args *a);

#endif
