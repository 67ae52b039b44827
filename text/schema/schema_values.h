/* const and enum: adds the allowed values as a trie of their JSON texts, so that the cost of matching does not
 * depend on their number. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_VALUES_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_VALUES_H

#include "text/schema/schema_internal.h"

/* Adds the values of const and enum that all schemas allow. Rejects the schema if none has const or a list as enum.
 * Always returns true. */
bool dop_schema_add_values(dop_schema *s, const dop_conjunction *c, unsigned bits, uint32_t from, uint32_t to);
/* Returns the values allowed by a schema's const and enum as a list, which the caller releases. NULL if it has
 * neither. */
json_t *dop_schema_pinned(const json_t *schema);

#endif
