/* Objects: members named by `properties` and `required`, in this order, then other members. States count the written
 * members where needed: for the comma before the next member, and for minProperties and maxProperties. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_OBJECT_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_OBJECT_H

#include "text/schema/schema_internal.h"

/* Adds the objects that a conjunction allows between two states. */
void dop_schema_add_object(dop_schema *s, const dop_conjunction *c, uint32_t from, uint32_t to);

#endif
