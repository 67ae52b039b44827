/* Dispatch of filters and tests by name, and the filters that call other filters or tests. */
#ifndef DOPPLER_TEXT_JINJA_FILTER_H
#define DOPPLER_TEXT_JINJA_FILTER_H

#include "text/jinja/jinja.h"

dop_j_val dop_j_filter(dop_j_ctx *cx, dop_j_str name, dop_j_val v, const dop_j_args *a);
bool dop_j_has_filter(dop_j_str name);
bool dop_j_test(dop_j_ctx *cx, dop_j_str name, dop_j_val v, const dop_j_args *a);

#endif
