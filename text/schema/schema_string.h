/* JSON strings. The combination of pattern, format, lengths and negations is a term of regular.h. If it has too many
 * states, keywords are dropped until it is small enough. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_STRING_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_STRING_H

#include "text/schema/schema_internal.h"

void dop_schema_add_string(dop_schema *s, const dop_conjunction *c, uint32_t from, uint32_t to);
/* Adds the member names that `key` allows, in quotation marks, between two states. */
void dop_schema_add_key(dop_schema *s, const dop_schema_key *key, uint32_t from, uint32_t to);

#endif
