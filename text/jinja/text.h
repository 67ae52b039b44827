/* Text functions shared by filters and string methods. */
#ifndef DOPPLER_TEXT_JINJA_TEXT_H
#define DOPPLER_TEXT_JINJA_TEXT_H

#include "text/jinja/jinja.h"

/* ---- texts (text.c, format.c) ---- */
dop_j_val dop_j_join(dop_j_ctx *cx, const dop_j_list *l, dop_j_str sep);
dop_j_val dop_j_replace(dop_j_ctx *cx, dop_j_str s, dop_j_str from, dop_j_str to, int64_t count);
/* str.split() and str.rsplit(). sep NULL: split at runs of white space. max: maximum number of splits, or < 0 for no
 * limit. */
dop_j_val dop_j_split(dop_j_ctx *cx, dop_j_str s, const dop_j_str *sep, int64_t max);
dop_j_val dop_j_rsplit(dop_j_ctx *cx, dop_j_str s, const dop_j_str *sep, int64_t max);
dop_j_val dop_j_split_lines(dop_j_ctx *cx, dop_j_str s, bool keep_ends);
/* Escapes a value for HTML unless it is marked as safe. */
dop_j_val dop_j_escape(dop_j_ctx *cx, dop_j_val v);
/* Escapes a string, or the strings in a list or mapping. */
dop_j_val dop_j_escape_items(dop_j_ctx *cx, dop_j_val v);

#endif
