/* Characters of JSON strings. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_CHARACTER_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_CHARACTER_H

#include "text/schema/schema_internal.h"

/* schema_character.c: adds the characters that stand in a string as they are. */
void dop_schema_plain(dop_charset *set);
/* The rule for one character of any string, which may be an escape. */
uint32_t dop_schema_character(dop_schema *s);
/* The rule for one character of a set, as a string spells it. */
uint32_t dop_schema_set_rule(void *schema, const dop_charset *set);

#endif
