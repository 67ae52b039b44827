/* Index of the subschemas of a JSON schema by $id, $anchor, $dynamicAnchor and path (draft 2020-12, section 8.2). */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_INDEX_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_INDEX_H

#include "base/budget.h"

#include <jansson.h>

typedef struct dop_schema_index dop_schema_index;

/* Creates the index of a schema. documents: other schemas by URI that references may target; NULL: none. `root` and
 * `documents` must outlive the index. */
dop_status dop_schema_index_create(const json_t *root, const json_t *documents, dop_budget *budget, dop_diag *diag,
                                   dop_schema_index **out_index);
void dop_schema_index_destroy(dop_schema_index *index); /* accepts NULL */
/* Registers a schema created later, with the base URI of another one. */
void dop_schema_index_adopt(dop_schema_index *index, const json_t *made, const json_t *from);
/* Returns the base URI of references in this schema, or "" if there is none. */
const char *dop_schema_index_base(const dop_schema_index *index, const json_t *schema);
/* Returns the target of a reference in schema `from`, or NULL if there is none. */
const json_t *dop_schema_index_resolve(dop_schema_index *index, const json_t *from, const char *ref);
/* Returns the schema with this $dynamicAnchor in the resource with URI `base`, or NULL if there is none. */
const json_t *dop_schema_index_dynamic(const dop_schema_index *index, const char *base, const char *anchor);

#endif
