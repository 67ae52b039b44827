/* Declarations for the files that compile schemas: schema.c knows what keywords mean, schema_text.c, schema_character.c and
 * pattern.c make strings, schema_number.c makes numbers, schema_base.c has functions for all of them. */
#ifndef DOPPLER_RUNTIME_GRAMMAR_SCHEMA_INTERNAL_H
#define DOPPLER_RUNTIME_GRAMMAR_SCHEMA_INTERNAL_H

#include "base/json.h"
#include "runtime/grammar/grammar_internal.h"

typedef struct dop_schema_rule {
    const json_t *schema;
    uint32_t rule;
} dop_schema_rule;

typedef struct dop_schema {
    dop_auto a;
    const json_t *root, *base; /* base: the innermost schema with an $id around the current one, or the root */
    dop_schema_rule *rules;    /* owned: schemas that have been begun */
    size_t n_rules, cap_rules;
    uint32_t blank, character, value, object, array, string,
        number;     /* rules that many share; DOP_AUTO_NONE: not made yet */
    char path[256]; /* of the current schema, for messages */
    size_t n_path;
    uint32_t depth;
    dop_status status;
    dop_diag *diag;
} dop_schema;

/* Refuses the schema; the first reason is kept. */
void dop_schema_refuse(dop_schema *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds a rule with its start state. */
uint32_t dop_schema_rule_new(dop_schema *s, uint32_t *out_start);
uint32_t dop_schema_text(dop_schema *s, uint32_t from, const char *text);
/* A member that is an integer of at least 0, or `otherwise` when it is missing. */
uint32_t dop_schema_count(dop_schema *s, const json_t *schema, const char *name, uint32_t otherwise);

/* schema_text.c: adds a string with its quotes and returns the state after it. */
uint32_t dop_schema_string(dop_schema *s, uint32_t from, const json_t *schema);
/* schema_character.c: adds the characters that stand in a string as they are. */
void dop_schema_plain(dop_charset *set);
/* The rule for one character of any string, which may be an escape. */
uint32_t dop_schema_character(dop_schema *s);
/* Adds a string in quotes that is none of these names of members. */
uint32_t dop_schema_other_key(dop_schema *s, uint32_t from, const char *const *names, size_t n);
/* pattern.c: adds a string, without its quotes, in which the regular expression matches somewhere. */
uint32_t dop_schema_pattern(dop_schema *s, uint32_t from, const char *pattern, size_t n);

/* schema_number.c */
uint32_t dop_schema_number(dop_schema *s, uint32_t from, const json_t *schema, bool whole);

#endif
