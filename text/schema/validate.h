/* Is a JSON value valid for a JSON schema (draft 2020-12)?  Formats and contents are annotations, as the standard has it.  What
 * older drafts and OpenAPI 3.0 write is understood where it cannot mean anything else: `nullable`, lists as `items`,
 * `exclusiveMinimum: true`, `dependencies`, `definitions`. */
#ifndef DOPPLER_TEXT_SCHEMA_VALIDATE_H
#define DOPPLER_TEXT_SCHEMA_VALIDATE_H

#include "text/schema/schema_index.h"

/* Validates a value for a schema that is in the index, or was made of schemas in it.  DOP_E_INPUT: the schema is malformed, or a
 * reference leads nowhere.  DOP_E_LIMIT: the budget is exhausted, or references go round in circles. */
dop_status dop_schema_validate(dop_schema_index *index, const json_t *schema, const json_t *value, dop_budget *budget,
                               dop_diag *diag, bool *out_valid);
/* Equality of JSON schemas, for which 1 and 1.0 are the same number. */
bool dop_schema_equal(const json_t *a, const json_t *b);

#endif
