/* Python's operators: arithmetic, comparison, membership, items and slices. */
#ifndef DOPPLER_TEXT_JINJA_OPERATOR_H
#define DOPPLER_TEXT_JINJA_OPERATOR_H

#include "text/jinja/jinja.h"

/* Operators (operator.c). */
dop_j_val dop_j_binary(dop_j_ctx *cx, dop_j_str op, dop_j_val x, dop_j_val y, long line);
bool dop_j_contains(dop_j_ctx *cx, dop_j_val in, dop_j_val what, long line);
bool dop_j_compare(dop_j_ctx *cx, dop_j_str op, dop_j_val x, dop_j_val y, long line);
dop_j_val dop_j_item(dop_j_ctx *cx, dop_j_val v, dop_j_val key, long line);
dop_j_val dop_j_slice(dop_j_ctx *cx, dop_j_val v, const dop_j_val part[3], long line);

#endif
