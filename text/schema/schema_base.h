/* Functions that all files which compile schemas call. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_BASE_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_BASE_H

#include "text/schema/schema_internal.h"

/* Refuses the schema; the first reason is kept. */
void dop_schema_refuse(dop_schema *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Notes why a schema has no valid value, for the error message where the whole schema has none. */
void dop_schema_note_empty(dop_schema *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Notes that a keyword is not enforced exactly. */
void dop_schema_unenforced(dop_schema *s, const char *keyword);
/* Does compiling continue?  False after a failure of any kind. */
bool dop_schema_goes_on(const dop_schema *s);
size_t dop_schema_enter(dop_schema *s, const char *name);
void dop_schema_leave(dop_schema *s, size_t before);
/* Adds a rule with its start state. */
uint32_t dop_schema_rule_new(dop_schema *s, uint32_t *out_start);
uint32_t dop_schema_text(dop_schema *s, uint32_t from, const char *text);
/* A member that is a whole number of at least 0, or `otherwise` when it is missing; SIZE_MAX at most. */
size_t dop_schema_count(dop_schema *s, const json_t *schema, const char *name, size_t otherwise);
/* Keeps a schema that was made while compiling, with the base URI of schema `from`, and returns it.  Takes ownership. */
const json_t *dop_schema_keep(dop_schema *s, json_t *made, const json_t *from);
/* A copy of n items that the caller frees, with room for one more. */
void *dop_schema_copy(dop_schema *s, const void *items, size_t n, size_t size);
/* Notes that memory which is charged to the budget was not allocated: the budget is exhausted, or the system has none. */
void dop_schema_no_memory(dop_schema *s);
/* Returns the items with room for one more. */
void *dop_schema_grow(dop_schema *s, void *items, size_t n, size_t *io_cap, size_t size);
uint32_t dop_schema_blank(dop_schema *s, uint32_t from);
void dop_schema_add_group(dop_schema *s, dop_conjunction *c, const char *name, json_t *options, const json_t *from,
                          const dop_frame *frame);
const json_t *dop_schema_resolve(dop_schema *s, const json_t *from, const char *ref);
/* The types that a value of `type` names; refuses others. */
unsigned dop_schema_types(dop_schema *s, const json_t *type);
/* Does a keyword say which values are valid?  *out_bits: the types that it is about; 0: all. */
bool dop_schema_is_keyword(const char *name, unsigned *out_bits);
/* Does a keyword, formats aside, say which values are valid? */
bool dop_schema_asserts(const char *keyword);
unsigned dop_schema_type_of(const json_t *value);
/* Is the value valid for the schema?  What cannot be told counts as valid. */
bool dop_schema_allows(dop_schema *s, const json_t *schema, const json_t *value);

#endif
