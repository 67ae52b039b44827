/* What the makers of schemas share: schema.c, which keyword means what; schema_base.c;
 * schema_text.c, strings; schema_number.c. */
#ifndef DOPPLER_RUNTIME_GRAMMAR_SCHEMA_INTERNAL_H
#define DOPPLER_RUNTIME_GRAMMAR_SCHEMA_INTERNAL_H

#include "runtime/grammar/grammar_internal.h"

#include <jansson.h>

typedef struct dop_schema_rule {
    const json_t *schema;
    uint32_t rule;
} dop_schema_rule;

typedef struct dop_schema {
    dop_auto a;
    const json_t *root, *base; /* base: the schema with an $id that is around the one at hand, or the root */
    dop_schema_rule *rules;    /* owned: schemas that have been begun */
    size_t n_rules, cap_rules;
    uint32_t blank, character, value, object, array, string,
        number;     /* rules that many share; DOP_AUTO_NONE: not made yet */
    char path[256]; /* of the schema at hand, for messages */
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

/* schema_text.c: from a state to the state after the string with its quotes. */
uint32_t dop_schema_string(dop_schema *s, uint32_t from, const json_t *schema);
/* schema_character.c: those that stand in a string as they are. */
void dop_schema_plain(dop_charset *set);
/* One character of any string, with escapes; a rule. */
uint32_t dop_schema_character(dop_schema *s);
/* A string in quotes that is not the name of a member. */
uint32_t dop_schema_other_key(dop_schema *s, uint32_t from, const char *const *names, size_t n);
/* pattern.c: a string, without its quotes, in which a regular expression matches somewhere. */
uint32_t dop_schema_pattern(dop_schema *s, uint32_t from, const char *pattern, size_t n);

/* schema_number.c */
uint32_t dop_schema_number(dop_schema *s, uint32_t from, const json_t *schema, bool whole);

#endif
