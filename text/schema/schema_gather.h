/* Gathers what must hold for a value at once: a schema with what its $ref and allOf lead to, and groups of options.  A negation (`not`, and the other schemas of oneOf) becomes options of what must hold, as far as there are keywords for it. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_GATHER_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_GATHER_H

#include "text/schema/schema_internal.h"

/* schema_gather.c: adds to a conjunction what a schema demands. */
void dop_schema_gather(dop_schema *s, dop_conjunction *c, const json_t *schema, const dop_frame *parent);
/* Adds to a conjunction that a schema must not hold; name: the keyword (not, oneOf) that demands it. */
void dop_schema_add_not(dop_schema *s, dop_conjunction *c, const json_t *schema, const char *name,
                        const dop_frame *frame);
/* Do two schemas exclude each other, so that no value is valid for both?  False where that cannot be told. */
bool dop_schema_exclude(dop_schema *s, const json_t *a, const json_t *b, uint32_t depth);

#endif
