/* Rules of schemas: one for each list of schemas that must hold at once.  A rule is numbered when it is first called, and its body is made later (schema.c), so that schemas may call themselves. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_RULES_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_RULES_H

#include "text/schema/schema_internal.h"

/* The rule for values that are valid for all schemas of a list. */
uint32_t dop_schema_rule_of(dop_schema *s, const char *name, const json_t *const *list, size_t n);

#endif
