/* Validates a JSON value against a JSON schema (draft 2020-12). Formats and contents are annotations, as in the
 * standard. Keywords of older drafts and OpenAPI 3.0 are supported where they are unambiguous: `nullable`, lists as
 * `items`, `exclusiveMinimum: true`, `dependencies`, `definitions`. */
#ifndef DOPPLER_TEXT_SCHEMA_VALIDATE_H
#define DOPPLER_TEXT_SCHEMA_VALIDATE_H

#include "text/schema/schema_index.h"

/* Validates a value against a schema that is in the index or was created from schemas in it. Fails with DOP_E_INPUT
 * if the schema is malformed or a reference has no target. Fails with DOP_E_LIMIT if the budget is exhausted or
 * references are circular. */
dop_status dop_schema_validate(dop_schema_index *index, const json_t *schema, const json_t *value, dop_budget *budget,
                               dop_diag *diag, bool *out_valid);
/* True if the values are equal in the sense of JSON schema, where 1 and 1.0 are the same number. */
bool dop_schema_equal(const json_t *a, const json_t *b);

#endif
