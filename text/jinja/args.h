/* Arguments of calls, filters and tests, by position or by name. */
#ifndef DOPPLER_TEXT_JINJA_ARGS_H
#define DOPPLER_TEXT_JINJA_ARGS_H

#include "text/jinja/jinja.h"

/* Argument by position or keyword, NULL when absent. */
const dop_j_val *dop_j_arg(const dop_j_args *a, size_t index, const char *name);
/* An argument as a string, an integer or a truth value; `fallback` where it is absent, and for None where Python's default is None. */
dop_j_str dop_j_str_arg(dop_j_ctx *cx, const dop_j_args *a, size_t index, const char *name, const char *fallback);
int64_t dop_j_int_arg(dop_j_ctx *cx, const dop_j_args *a, size_t index, const char *name, int64_t fallback);
bool dop_j_bool_arg(const dop_j_args *a, size_t index, const char *name, bool fallback);
/* Fails: "WHAT does not work on a KIND". */
dop_j_val dop_j_wrong(dop_j_ctx *cx, const dop_j_args *a, const char *what, dop_j_val v);

#endif
