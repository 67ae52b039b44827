/* Characters of JSON strings. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_CHARACTER_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_CHARACTER_H

#include "text/schema/schema_internal.h"

/* Adds the characters that are unescaped in JSON strings. */
void dop_schema_plain(dop_charset *set);
/* Returns the rule for any one character of a string, possibly escaped. */
uint32_t dop_schema_character(dop_schema *s);
/* Returns the rule for one character of a set, in JSON string syntax. schema: a dop_schema. */
uint32_t dop_schema_set_rule(void *schema, const dop_charset *set);

#endif
