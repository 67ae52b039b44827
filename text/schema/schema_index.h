/* The parts of a JSON schema by their names: $id, $anchor, $dynamicAnchor, and paths (draft 2020-12, section 8.2). */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_INDEX_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_INDEX_H

#include "base/budget.h"

#include <jansson.h>

typedef struct dop_schema_index dop_schema_index;

/* Makes the index of a schema.  documents: other schemas by their URIs, which references may lead to; NULL: none.  `root` and
 * `documents` must outlive the index. */
dop_status dop_schema_index_create(const json_t *root, const json_t *documents, dop_budget *budget, dop_diag *diag,
                                   dop_schema_index **out_index);
void dop_schema_index_destroy(dop_schema_index *index); /* accepts NULL */
/* Registers a schema that was made later, with the base URI of another one. */
void dop_schema_index_adopt(dop_schema_index *index, const json_t *made, const json_t *from);
/* The URI that references in this schema are relative to; "" for none. */
const char *dop_schema_index_base(const dop_schema_index *index, const json_t *schema);
/* The schema that a reference in schema `from` leads to; NULL: none. */
const json_t *dop_schema_index_resolve(dop_schema_index *index, const json_t *from, const char *ref);
/* The schema with this $dynamicAnchor in the resource with this URI; NULL: none. */
const json_t *dop_schema_index_dynamic(const dop_schema_index *index, const char *base, const char *anchor);

#endif
