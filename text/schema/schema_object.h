/* Objects: the members that `properties` and `required` name, in this order, and then others.  States count the members that have been written, as far as needed: for the comma before the next member, and for minProperties and maxProperties. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_OBJECT_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_OBJECT_H

#include "text/schema/schema_internal.h"

/* --- values of one kind: each adds them between two states --- */
void dop_schema_add_object(dop_schema *s, const dop_conjunction *c, uint32_t from, uint32_t to);

#endif
