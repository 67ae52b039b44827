/* Declarations for the files that compile JSON schemas. schema_gather.c gathers all constraints on a value and
 * groups of options. schema.c creates rules from them, and schema_rules.c assigns their indices. schema_any.c,
 * schema_object.c, schema_array.c, schema_string.c, schema_number.c and schema_values.c handle one kind of value
 * each. schema_base.c and schema_character.c have shared functions. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_INTERNAL_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_INTERNAL_H

#include "text/grammar/grammar_internal.h"
#include "text/grammar/regular.h"
#include "text/schema/schema_index.h"

#include <jansson.h>

/* Types of JSON values, as bit flags. */
enum {
    DOP_IS_NULL = 1,
    DOP_IS_BOOLEAN = 2,
    DOP_IS_INTEGER = 4,
    DOP_IS_REAL = 8, /* numbers that are not integers */
    DOP_IS_NUMBER = DOP_IS_REAL | DOP_IS_INTEGER,
    DOP_IS_STRING = 16,
    DOP_IS_ARRAY = 32,
    DOP_IS_OBJECT = 64,
    DOP_IS_ANY = 127
};

/* Rule of the automaton for the values that are valid for all schemas of a list. */
typedef struct dop_schema_rule {
    const json_t **list; /* [n] owned list of the schemas */
    size_t n;
    uint32_t rule, start; /* start: state in which the rule's body begins */
    uint32_t depth;       /* nesting depth of the call that created the rule */
    char *path;           /* owned: path of the schema, for messages; NULL once the rule's body exists */
} dop_schema_rule;

/* A schema that applies in place ($ref, allOf, ...), linked to the referring one. No schema occurs twice in such a
 * chain, so circular references are detected. */
typedef struct dop_frame {
    const json_t *schema;
    const struct dop_frame *parent;
    struct dop_frame *made_before; /* list of all frames, for freeing them */
} dop_frame;

/* Cached rule for one character of a set. */
typedef struct dop_schema_set {
    dop_charset set; /* owned set of characters */
    uint32_t rule;
} dop_schema_set;

struct dop_conjunction;
typedef struct dop_schema {
    dop_auto a;
    dop_schema_index *index;
    const json_t *root;
    bool open, compact;     /* DOP_SCHEMA_OPEN, DOP_SCHEMA_COMPACT */
    dop_frame *frames;      /* owned: list of all frames, newest first */
    json_t *made;           /* owned list: schemas created while compiling */
    json_t *by_text;        /* owned: rules of schemas without subschemas, keyed by the schema's JSON text */
    json_t *for_one_of;     /* owned list: created schemas {"not": S} that exclude the other schemas of a oneOf */
    dop_schema_rule *rules; /* owned: all rules that are called; bodies may be pending */
    uint32_t *rule_slots;   /* owned, [n_rule_slots] hash table, size a power of 2: index in rules[] plus 1; 0: empty
                             * slot */
    size_t n_rules, cap_rules, n_rule_slots;
    dop_schema_set *sets; /* [n_sets] owned cache of character rules */
    size_t n_sets, cap_sets;
    uint32_t blank, character, value, object, array, string,
        number;     /* rules for unrestricted values and their parts; DOP_AUTO_NONE: not created yet */
    char path[256]; /* path of the current schema, for messages */
    size_t n_path;
    uint32_t depth;
    char empty[400]; /* first reason found why a schema has no valid value; "" if none */
    dop_status status;
    dop_diag *diag;
} dop_schema;

/* Schema for remaining members or items (additionalProperties, items, unevaluated...), and a description of those it
 * does not apply to. */
typedef struct dop_closure {
    /* Objects whose keys are the names, and the name patterns, of members to which the schema does not apply. NULL:
     * none. */
    const json_t *names, *patterns;
    size_t prefix;        /* number of leading items to which the schema does not apply */
    const json_t *schema; /* schema of the remaining members or items */
    bool for_items;       /* true for items of arrays, false for members of objects */
} dop_closure;

/* Group of options: a value must be valid for all schemas of at least one of its lists. */
typedef struct dop_option_group {
    const char *name;      /* keyword that created the group: anyOf, oneOf, ... */
    const json_t *options; /* list of lists of schemas */
    const dop_frame *frame;
} dop_option_group;

/* Conjunction: all constraints on one value. */
typedef struct dop_conjunction {
    const json_t **all;       /* owned, [n] schemas whose own keywords must hold */
    const json_t **nots;      /* owned, [n_nots] schemas that must not hold; each has only const, enum, pattern or
                               * multipleOf */
    dop_closure *closures;    /* [n_closures] owned */
    dop_option_group *groups; /* [n_groups] owned */
    size_t n, cap, n_nots, cap_nots, n_closures, cap_closures, n_groups, cap_groups;
    unsigned bits; /* DOP_IS_* bits: types that the value may have */
    bool never;    /* true if no value is valid */
} dop_conjunction;

/* --- strings --- */
/* Constraints on the name of a member. The name is not in the list `names`, matches all patterns of `yes` and none
 * of `no`, and is valid for all `schemas`. keyword: reported if a constraint cannot be enforced. */
typedef struct dop_schema_key {
    const json_t *names, *yes, *no;
    const json_t *const *schemas;
    size_t n_schemas;
    const char *keyword;
} dop_schema_key;

#endif
