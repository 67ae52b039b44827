/* const and enum: the values that all keywords allow, as a tree of their texts, so that twenty thousand of them are as quick as two. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_VALUES_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_VALUES_H

#include "text/schema/schema_internal.h"

/* Adds the values of const and enum that all schemas allow; false: there is neither. */
bool dop_schema_add_values(dop_schema *s, const dop_conjunction *c, unsigned bits, uint32_t from, uint32_t to);
/* The only values that a schema allows by const and enum, as a list that the caller releases; NULL: it has neither. */
json_t *dop_schema_pinned(const json_t *schema);

#endif
