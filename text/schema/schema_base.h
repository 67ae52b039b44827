/* Functions shared by the files that compile schemas. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_BASE_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_BASE_H

#include "text/schema/schema_internal.h"

/* Rejects the schema. Only the first reason is kept. */
void dop_schema_refuse(dop_schema *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Records why a schema has no valid value, for the error message if the whole schema has none. */
void dop_schema_note_empty(dop_schema *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Records a keyword that is not enforced exactly. */
void dop_schema_unenforced(dop_schema *s, const char *keyword);
/* True if no failure has occurred, so that compiling continues. */
bool dop_schema_goes_on(const dop_schema *s);
size_t dop_schema_enter(dop_schema *s, const char *name);
void dop_schema_leave(dop_schema *s, size_t before);
/* Adds a rule with a start state. Returns the rule's index. */
uint32_t dop_schema_rule_new(dop_schema *s, uint32_t *out_start);
uint32_t dop_schema_text(dop_schema *s, uint32_t from, const char *text);
/* Returns a member that is a non-negative integer, at most SIZE_MAX, or `otherwise` if it is missing. */
size_t dop_schema_count(dop_schema *s, const json_t *schema, const char *name, size_t otherwise);
/* Stores a schema created while compiling, with the base URI of schema `from`, and returns it. Takes ownership of
 * the schema. */
const json_t *dop_schema_keep(dop_schema *s, json_t *made, const json_t *from);
/* Returns a copy of n items with room for one more. The caller frees it. */
void *dop_schema_copy(dop_schema *s, const void *items, size_t n, size_t size);
/* Records a failed allocation of memory charged to the budget: the budget is exhausted, or the system is out of
 * memory. */
void dop_schema_no_memory(dop_schema *s);
/* Returns the array with room for one more item. On failure it records the error and returns the array unchanged. */
void *dop_schema_grow(dop_schema *s, void *items, size_t n, size_t *io_cap, size_t size);
uint32_t dop_schema_blank(dop_schema *s, uint32_t from);
void dop_schema_add_group(dop_schema *s, dop_conjunction *c, const char *name, json_t *options, const json_t *from,
                          const dop_frame *frame);
const json_t *dop_schema_resolve(dop_schema *s, const json_t *from, const char *ref);
/* Returns the types named by a value of `type`. Rejects unknown names. */
unsigned dop_schema_types(dop_schema *s, const json_t *type);
/* True if the keyword restricts which values are valid. *out_bits: types that it applies to; 0: all. */
bool dop_schema_is_keyword(const char *name, unsigned *out_bits);
/* True if the keyword restricts which values are valid; false for `format`. */
bool dop_schema_asserts(const char *keyword);
unsigned dop_schema_type_of(const json_t *value);
/* True if the value is valid for the schema, or if validation fails with an error. */
bool dop_schema_allows(dop_schema *s, const json_t *schema, const json_t *value);

#endif
