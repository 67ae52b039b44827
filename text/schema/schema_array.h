/* Arrays: a grid of states, with a row for each number of items so far and a column for each number of items that are valid for `contains`. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_ARRAY_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_ARRAY_H

#include "text/schema/schema_internal.h"

void dop_schema_add_array(dop_schema *s, const dop_conjunction *c, uint32_t from, uint32_t to);

#endif
