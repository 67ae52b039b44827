/* Global functions of templates: Jinja's, and those that transformers adds. */
#ifndef DOPPLER_TEXT_JINJA_FUNCTION_H
#define DOPPLER_TEXT_JINJA_FUNCTION_H

#include "text/jinja/jinja.h"

/* True if the name is a global function. */
bool dop_j_is_builtin(const char *name);
/* Returns a global function as a value, or an undefined value if there is none with this name. */
dop_j_val dop_j_function_value(dop_j_str name);
dop_j_val dop_j_function(dop_j_ctx *cx, dop_j_str name, const dop_j_args *a);

#endif
