/* Rules of schemas: one for each list of schemas that must hold together. A rule is created at its first call and
 * gets its body later (schema.c), so that schemas may be recursive. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_RULES_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_RULES_H

#include "text/schema/schema_internal.h"

/* Returns the rule for values that are valid for all schemas of a list. name: path component for messages; may be
 * NULL. */
uint32_t dop_schema_rule_of(dop_schema *s, const char *name, const json_t *const *list, size_t n);

#endif
