/* Filters of sequences and mappings. */
#ifndef DOPPLER_TEXT_JINJA_FILTER_LIST_H
#define DOPPLER_TEXT_JINJA_FILTER_LIST_H

#include "text/jinja/jinja.h"

/* The items of a value that a filter works on; fails with the filter's name where the value is not iterable. */
const dop_j_list *dop_j_items_of(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, const char *filter);
/* Looks up a filter's `attribute` argument in an item: an index, or names and indices with dots between them. */
dop_j_val dop_j_attribute_of(dop_j_ctx *cx, dop_j_val item, dop_j_val attribute, long line);
/* Keys and values of a mapping as pairs. */
dop_j_val dop_j_pairs(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a);

#endif
