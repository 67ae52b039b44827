/* Filters of sequences and mappings. */
#ifndef DOPPLER_TEXT_JINJA_FILTER_LIST_H
#define DOPPLER_TEXT_JINJA_FILTER_LIST_H

#include "text/jinja/jinja.h"

/* Returns the items of a filter's operand. Fails with the filter's name if the value is not iterable. */
const dop_j_list *dop_j_items_of(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, const char *filter);
/* Evaluates a filter's `attribute` argument on an item: an index, or names and indices separated by dots. */
dop_j_val dop_j_attribute_of(dop_j_ctx *cx, dop_j_val item, dop_j_val attribute, long line);
/* Returns the entries of a mapping as (key, value) pairs. */
dop_j_val dop_j_pairs(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a);

#endif
