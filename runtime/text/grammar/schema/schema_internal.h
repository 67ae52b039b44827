/* Declarations for the files that compile JSON schemas.  schema_gather.c gathers what must hold for a value at once, and groups of
 * options; schema.c makes rules of what is gathered, and schema_rules.c numbers the rules; schema_any.c, schema_object.c,
 * schema_array.c, schema_string.c, schema_number.c and schema_values.c make values of one kind; schema_base.c and schema_character.c
 * have functions for all these files. */
#ifndef DOPPLER_RUNTIME_TEXT_GRAMMAR_SCHEMA_SCHEMA_INTERNAL_H
#define DOPPLER_RUNTIME_TEXT_GRAMMAR_SCHEMA_SCHEMA_INTERNAL_H

#include "runtime/text/grammar/grammar_internal.h"
#include "runtime/text/grammar/regular.h"
#include "runtime/text/grammar/schema/schema_index.h"

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

/* --- schema_base.c --- */
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

/* --- schema_rules.c --- */
/* The rule for values that are valid for all schemas of a list. */
uint32_t dop_schema_rule_of(dop_schema *s, const char *name, const json_t *const *list, size_t n);
/* schema_any.c */
uint32_t dop_schema_any_value(dop_schema *s);
uint32_t dop_schema_any_string(dop_schema *s);
uint32_t dop_schema_any_object(dop_schema *s);
/* schema_gather.c: adds to a conjunction what a schema demands. */
void dop_schema_gather(dop_schema *s, dop_conjunction *c, const json_t *schema, const dop_frame *parent);
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

/* --- schema_gather.c --- */
/* Adds to a conjunction that a schema must not hold; name: the keyword (not, oneOf) that demands it. */
void dop_schema_add_not(dop_schema *s, dop_conjunction *c, const json_t *schema, const char *name,
                        const dop_frame *frame);
/* Do two schemas exclude each other, so that no value is valid for both?  False where that cannot be told. */
bool dop_schema_exclude(dop_schema *s, const json_t *a, const json_t *b, uint32_t depth);

/* --- values of one kind: each adds them between two states --- */
void dop_schema_add_object(dop_schema *s, const dop_conjunction *c, uint32_t from, uint32_t to);
void dop_schema_add_array(dop_schema *s, const dop_conjunction *c, uint32_t from, uint32_t to);
void dop_schema_add_string(dop_schema *s, const dop_conjunction *c, uint32_t from, uint32_t to);
/* bits: DOP_IS_INTEGER, DOP_IS_REAL or both */
void dop_schema_add_number(dop_schema *s, const dop_conjunction *c, unsigned bits, uint32_t from, uint32_t to);
uint32_t dop_schema_any_number(dop_schema *s, uint32_t from);
/* Adds the values of const and enum that all schemas allow; false: there is neither. */
bool dop_schema_add_values(dop_schema *s, const dop_conjunction *c, unsigned bits, uint32_t from, uint32_t to);
/* The only values that a schema allows by const and enum, as a list that the caller releases; NULL: it has neither. */
json_t *dop_schema_pinned(const json_t *schema);

/* --- strings --- */
/* Which names a member may have: names that are not in the list `names`, match all patterns of `yes` and none of `no`, and are valid for
 * all `schemas`.  keyword: the one to name where a restriction cannot be enforced. */
typedef struct dop_schema_key {
    const json_t *names, *yes, *no;
    const json_t *const *schemas;
    size_t n_schemas;
    const char *keyword;
} dop_schema_key;
/* Adds the names of members, with their quotation marks, between two states. */
void dop_schema_add_key(dop_schema *s, const dop_schema_key *key, uint32_t from, uint32_t to);
/* schema_character.c: adds the characters that stand in a string as they are. */
void dop_schema_plain(dop_charset *set);
/* The rule for one character of any string, which may be an escape. */
uint32_t dop_schema_character(dop_schema *s);
/* The rule for one character of a set, as a string spells it. */
uint32_t dop_schema_set_rule(void *schema, const dop_charset *set);

#endif
