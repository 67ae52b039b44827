/* Strings of JSON: what pattern, format, lengths and negations allow together is a term of regular.h.  Where the term has too many states, keywords are left out until it is small enough. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_STRING_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_STRING_H

#include "text/schema/schema_internal.h"

void dop_schema_add_string(dop_schema *s, const dop_conjunction *c, uint32_t from, uint32_t to);
/* Adds the names of members, with their quotation marks, between two states. */
void dop_schema_add_key(dop_schema *s, const dop_schema_key *key, uint32_t from, uint32_t to);

#endif
