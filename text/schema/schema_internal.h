/* Declarations for the files that compile JSON schemas.  schema_gather.c gathers what must hold for a value at once, and groups of
 * options; schema.c makes rules of what is gathered, and schema_rules.c numbers the rules; schema_any.c, schema_object.c,
 * schema_array.c, schema_string.c, schema_number.c and schema_values.c make values of one kind; schema_base.c and schema_character.c
 * have functions for all these files. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_INTERNAL_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_INTERNAL_H

#include "text/grammar/grammar_internal.h"
#include "text/grammar/regular.h"
#include "text/schema/schema_index.h"

#include <jansson.h>

/* Types of JSON values, as bits of a set. */
enum {
    DOP_IS_NULL = 1,
    DOP_IS_BOOLEAN = 2,
    DOP_IS_INTEGER = 4,
    DOP_IS_REAL = 8, /* numbers that are not whole */
    DOP_IS_NUMBER = DOP_IS_REAL | DOP_IS_INTEGER,
    DOP_IS_STRING = 16,
    DOP_IS_ARRAY = 32,
    DOP_IS_OBJECT = 64,
    DOP_IS_ANY = 127
};

/* A rule of the automaton: the values that are valid for all schemas of a list. */
typedef struct dop_schema_rule {
    const json_t **list; /* owned */
    size_t n;
    uint32_t rule, start; /* start: the state in which the rule's body begins */
    uint32_t depth;       /* number of nested calls that first led to the rule */
    char *path;           /* owned: path of the schema, for messages; NULL: the rule's body has been made */
} dop_schema_rule;

/* A schema that applies in place ($ref, allOf, ...) with the one that leads to it.  Frames make chains, in which no schema comes twice,
 * so that references in a circle end. */
typedef struct dop_frame {
    const json_t *schema;
    const struct dop_frame *parent;
    struct dop_frame *made_before; /* list of all frames, for freeing them */
} dop_frame;

/* A rule for one character of a set, which is made once. */
typedef struct dop_schema_set {
    dop_charset set; /* owned */
    uint32_t rule;
} dop_schema_set;

struct dop_conjunction;
typedef struct dop_schema {
    dop_auto a;
    dop_schema_index *index;
    const json_t *root;
    bool open, compact; /* DOP_SCHEMA_OPEN, DOP_SCHEMA_COMPACT */
    dop_frame *frames;  /* owned: list of all frames, the last one first */
    json_t *made;       /* owned list: schemas that were made while compiling */
    json_t *by_text;    /* owned: rules of schemas without subschemas, by the schemas' texts */
    json_t *for_one_of; /* owned list: the schemas, made while compiling, that exclude the other schemas of a oneOf */
    dop_schema_rule *rules; /* owned: rules that have been called, with or without a body */
    uint32_t *rule_slots;   /* owned, [n_rule_slots], a power of 2: hash table of indices in rules[], plus 1 */
    size_t n_rules, cap_rules, n_rule_slots;
    dop_schema_set *sets; /* owned */
    size_t n_sets, cap_sets;
    uint32_t blank, character, value, object, array, string,
        number;     /* rules for unrestricted values and their parts; DOP_AUTO_NONE: not made yet */
    char path[256]; /* path of the current schema, for messages */
    size_t n_path;
    uint32_t depth;
    char empty[400]; /* the first reason that was found why a schema has no valid value; "": none */
    dop_status status;
    dop_diag *diag;
} dop_schema;

/* The schema for other members or items (additionalProperties, items, unevaluated...), and which members or items are not others. */
typedef struct dop_closure {
    /* Objects whose keys are names, and patterns of names, of members that are not others; NULL: none. */
    const json_t *names, *patterns;
    size_t prefix;        /* number of items, the first ones, that are not others */
    const json_t *schema; /* what other members or items must be valid for */
    bool for_items;       /* the closure is for items of arrays; else for members of objects */
} dop_closure;

/* A group of options: a value must be valid for all schemas of at least one of the lists in it. */
typedef struct dop_option_group {
    const char *name;      /* the keyword: anyOf, oneOf, ... */
    const json_t *options; /* a list of lists of schemas */
    const dop_frame *frame;
} dop_option_group;

/* A conjunction: everything that must hold for one value. */
typedef struct dop_conjunction {
    const json_t **all;       /* owned, [n]: schemas whose own keywords must hold */
    const json_t **nots;      /* owned: schemas with const, enum, pattern or multipleOf only, which must not hold */
    dop_closure *closures;    /* owned */
    dop_option_group *groups; /* owned */
    size_t n, cap, n_nots, cap_nots, n_closures, cap_closures, n_groups, cap_groups;
    unsigned bits; /* DOP_IS_*: types that the value may have */
    bool never;    /* no value is valid */
} dop_conjunction;

/* --- strings --- */
/* Which names a member may have: names that are not in the list `names`, match all patterns of `yes` and none of `no`, and are valid for
 * all `schemas`.  keyword: the one to name where a restriction cannot be enforced. */
typedef struct dop_schema_key {
    const json_t *names, *yes, *no;
    const json_t *const *schemas;
    size_t n_schemas;
    const char *keyword;
} dop_schema_key;

#endif
