/* Arguments of calls, filters and tests, positional or by keyword. */
#ifndef DOPPLER_TEXT_JINJA_ARGS_H
#define DOPPLER_TEXT_JINJA_ARGS_H

#include "text/jinja/jinja.h"

/* Returns an argument by position or keyword, or NULL if it is absent. */
const dop_j_val *dop_j_arg(const dop_j_args *a, size_t index, const char *name);
/* Return an argument as a string, integer or boolean, or `fallback` if the argument is absent. The string and integer
 * forms also return `fallback` for None. */
dop_j_str dop_j_str_arg(dop_j_ctx *cx, const dop_j_args *a, size_t index, const char *name, const char *fallback);
int64_t dop_j_int_arg(dop_j_ctx *cx, const dop_j_args *a, size_t index, const char *name, int64_t fallback);
bool dop_j_bool_arg(const dop_j_args *a, size_t index, const char *name, bool fallback);
/* Records the error "WHAT does not work on a KIND". Returns an undefined value. */
dop_j_val dop_j_wrong(dop_j_ctx *cx, const dop_j_args *a, const char *what, dop_j_val v);

#endif
