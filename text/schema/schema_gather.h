/* Gathers all constraints on a value: a schema with the targets of its $ref and allOf, and groups of options. A
 * negation (`not`, and the other schemas of oneOf) is converted to options with positive keywords where such
 * keywords exist. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_GATHER_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_GATHER_H

#include "text/schema/schema_internal.h"

/* Adds the constraints of a schema to a conjunction. parent: frame of the referring schema; NULL: none. */
void dop_schema_gather(dop_schema *s, dop_conjunction *c, const json_t *schema, const dop_frame *parent);
/* Adds the constraint that a schema must not hold. name: the keyword that requires it (not, oneOf). */
void dop_schema_add_not(dop_schema *s, dop_conjunction *c, const json_t *schema, const char *name,
                        const dop_frame *frame);
/* True if no value is valid for both schemas. False if this cannot be determined. */
bool dop_schema_exclude(dop_schema *s, const json_t *a, const json_t *b, uint32_t depth);

#endif
