/* The tables of ops.def, attrs.def and templates.def as data. */
#ifndef DOPPLER_IR_GRAPH_OPS_H
#define DOPPLER_IR_GRAPH_OPS_H

#include "ir/graph/graph.h"

const char *dop_attr_name(dop_attr_id a);
dop_attr_kind dop_attr_kind_of(dop_attr_id a);
bool dop_attr_optional(dop_attr_id a); /* true if the attribute is omitted from text when it is 0 */
const char *dop_attr_word(dop_attr_id a,
                          int64_t i); /* word number i of an attribute of kind W or D; NULL: no such word */
const char *dop_template_name(dop_template t);
const dop_template_info *dop_template_of(dop_template t);

#endif
