/* Arrays: a grid of states, with a row per number of items so far and a column per number of items that match
 * `contains`. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_ARRAY_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_ARRAY_H

#include "text/schema/schema_internal.h"

void dop_schema_add_array(dop_schema *s, const dop_conjunction *c, uint32_t from, uint32_t to);

#endif
