/* Compiles JSON schemas to automata (json-schema.org, draft 2020-12).
 *
 * All constraints on a value - a schema with the targets of its $ref and allOf - form a conjunction. anyOf, oneOf,
 * if, not and similar keywords are groups of options, of which one must hold, too. Multiplied out, all conjunctions
 * together form a disjunctive normal form. Keywords that no automaton of reasonable size can enforce leave a
 * superset and are reported (dop_schema_unenforced).
 *
 * Members of objects are written in the order of `properties`. Other members are allowed only if some keyword allows
 * them. A value without `type` has one of the types that the other keywords apply to. Both rules keep models from
 * writing arbitrary content; DOP_SCHEMA_OPEN selects the standard's rules. */
#include "text/schema/schema_any.h"
#include "text/schema/schema_array.h"
#include "text/schema/schema_base.h"
#include "text/schema/schema_gather.h"
#include "text/schema/schema_internal.h"
#include "text/schema/schema_number.h"
#include "text/schema/schema_object.h"
#include "text/schema/schema_rules.h"
#include "text/schema/schema_string.h"
#include "text/schema/schema_values.h"
#include "text/schema/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPTIONS = 512 };

static void
conjunction_finish(dop_conjunction *c)
{
    free(c->all);
    free(c->nots);
    free(c->closures);
    free(c->groups);
    memset(c, 0, sizeof *c);
}

static dop_conjunction
conjunction_copy(dop_schema *s, const dop_conjunction *c)
{
    dop_conjunction d = *c;
    d.all = dop_schema_copy(s, c->all, d.cap = c->n, sizeof *d.all);
    d.nots = dop_schema_copy(s, c->nots, d.cap_nots = c->n_nots, sizeof *d.nots);
    d.closures = dop_schema_copy(s, c->closures, d.cap_closures = c->n_closures, sizeof *d.closures);
    d.groups = dop_schema_copy(s, c->groups, d.cap_groups = c->n_groups, sizeof *d.groups);
    return d;
}

/* --- values ------------------------------------------------------------------------------------------------------------------------ */

/* Returns the implied types of a schema without `type`: all types that its keywords apply to. */
static unsigned
find_implied_types(const dop_schema *s, const dop_conjunction *c)
{
    unsigned bits = 0;
    const char *key;
    json_t *v;
    for (size_t i = 0; i < c->n && !s->open; i++) {
        if (json_object_get(c->all[i], "type"))
            return DOP_IS_ANY;
        json_object_foreach((json_t *)(uintptr_t)c->all[i], key, v)
        {
            unsigned own;
            (void)dop_schema_is_keyword(key, &own);
            bits |= own;
        }
    }
    return bits ? bits : DOP_IS_ANY;
}

static void
add_literal(dop_schema *s, const dop_conjunction *c, const json_t *value, uint32_t from, uint32_t to)
{
    size_t k;
    const json_t *v;
    for (size_t i = 0; i < c->n_nots; i++) {
        const json_t *several = json_object_get(c->nots[i], "enum"), *one = json_object_get(c->nots[i], "const");
        if (one && dop_schema_equal(one, value))
            return;
        json_array_foreach(several, k, v) if (dop_schema_equal(v, value)) return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    s->a.failed |= !text;
    if (text)
        dop_auto_nothing(&s->a, dop_schema_text(s, from, text), to);
    free(text);
}

/* Adds the values that a conjunction without groups allows. */
static void
add_leaf_values(dop_schema *s, const dop_conjunction *c, uint32_t from, uint32_t to)
{
    bool pinned = false;
    for (size_t i = 0; i < c->n; i++)
        pinned |= json_object_get(c->all[i], "const") || json_object_get(c->all[i], "enum");
    unsigned bits = pinned ? c->bits : c->bits & find_implied_types(s, c);
    if (pinned && dop_schema_add_values(s, c, bits, from, to))
        return;
    if (bits == 0)
        dop_schema_note_empty(s, "the types that it demands exclude one another");
    if (bits & DOP_IS_NULL)
        add_literal(s, c, json_null(), from, to);
    if (bits & DOP_IS_BOOLEAN) {
        add_literal(s, c, json_true(), from, to);
        add_literal(s, c, json_false(), from, to);
    }
    if (bits & DOP_IS_NUMBER)
        dop_schema_add_number(s, c, bits & DOP_IS_NUMBER, from, to);
    if (bits & DOP_IS_STRING)
        dop_schema_add_string(s, c, from, to);
    if (bits & DOP_IS_ARRAY)
        dop_schema_add_array(s, c, from, to);
    if (bits & DOP_IS_OBJECT)
        dop_schema_add_object(s, c, from, to);
}

/* True if the conjunction's single group is its only restriction on values. */
static bool
is_bare_group(const dop_conjunction *c)
{
    const char *key;
    json_t *v;
    if (c->n_groups != 1 || c->n_nots > 0 || c->n_closures > 0 || c->bits != DOP_IS_ANY)
        return false;
    for (size_t i = 0; i < c->n; i++)
        json_object_foreach((json_t *)(uintptr_t)c->all[i], key, v)
        {
            unsigned own;
            if (dop_schema_is_keyword(key, &own) && (own != 0 || strcmp(key, "enum") == 0 || strcmp(key, "const") == 0))
                return false;
        }
    return true;
}

/* Adds the values that a conjunction allows by multiplying out its groups. io_left: number of options that may still
 * be expanded. */
static void
expand_option_groups(dop_schema *s, dop_conjunction *c, uint32_t *io_left, uint32_t from, uint32_t to)
{
    size_t i, k;
    const json_t *option, *one;
    if (!dop_schema_goes_on(s) || c->never)
        return;
    if (c->n_groups == 0) {
        add_leaf_values(s, c, from, to);
        return;
    }
    const bool bare = is_bare_group(c);
    const dop_option_group g = c->groups[0];
    memmove(c->groups, c->groups + 1, --c->n_groups * sizeof *c->groups);
    if (*io_left < json_array_size(g.options) && !bare) {
        dop_schema_unenforced(s, g.name);
        expand_option_groups(s, c, io_left, from, to);
        return;
    }
    json_array_foreach(g.options, i, option)
    {
        char name[64];
        snprintf(name, sizeof name, "%s/%zu", g.name, i);
        if (bare) {
            const json_t **own = dop_schema_copy(s, NULL, 0, (json_array_size(option) + 1) * sizeof *own);
            size_t n = 0;
            json_array_foreach(option, k, one) if (own) own[n++] = one;
            if (own && dop_schema_goes_on(s))
                dop_auto_call_to(&s->a, from, dop_schema_rule_of(s, name, own, n), to);
            free(own);
            continue;
        }
        dop_conjunction d = conjunction_copy(s, c);
        const size_t before = dop_schema_enter(s, name);
        *io_left -= *io_left > 0;
        json_array_foreach(option, k, one) dop_schema_gather(s, &d, one, g.frame);
        expand_option_groups(s, &d, io_left, from, to);
        dop_schema_leave(s, before);
        conjunction_finish(&d);
    }
}

/* --- rules --------------------------------------------------------------------------------------------------------------------------- */

static void
make_rule_body(dop_schema *s, const json_t *const *of, size_t n, uint32_t start)
{
    uint32_t left = MOST_OPTIONS, end = dop_auto_state(&s->a);
    dop_conjunction c = {.bits = DOP_IS_ANY};
    for (size_t i = 0; i < n; i++)
        dop_schema_gather(s, &c, of[i], NULL);
    expand_option_groups(s, &c, &left, start, end);
    dop_auto_end(&s->a, end);
    conjunction_finish(&c);
}

/* Creates the bodies of all called rules, including those called by new bodies. */
static void
make_rule_bodies(dop_schema *s)
{
    for (size_t i = 0; i < s->n_rules && dop_schema_goes_on(s); i++) {
        const dop_schema_rule r = s->rules[i];
        s->rules[i].path = NULL;
        s->depth = r.depth;
        s->n_path = strlen(r.path);
        memcpy(s->path, r.path, s->n_path + 1);
        free(r.path);
        dop_budget_give(s->a.budget, s->n_path + 1);
        make_rule_body(s, r.list, r.n, r.start);
    }
    s->depth = 0;
    dop_schema_leave(s, 0);
}

static void
finish_schema(dop_schema *s)
{
    for (size_t i = 0; i < s->n_rules; i++) {
        free((void *)s->rules[i].list);
        free(s->rules[i].path);
    }
    for (size_t i = 0; i < s->n_sets; i++)
        dop_charset_finish(&s->sets[i].set);
    for (dop_frame *f = s->frames, *before; f; f = before) {
        before = f->made_before;
        free(f);
    }
    free(s->rules);
    free(s->rule_slots);
    free(s->sets);
    json_decref(s->for_one_of);
    json_decref(s->by_text);
    json_decref(s->made);
    dop_schema_index_destroy(s->index);
}

static void
begin_schema(dop_schema *s, const json_t *schema, unsigned flags, dop_diag *diag)
{
    const uint32_t none = DOP_AUTO_NONE;
    *s = (dop_schema){.root = schema,
                      .open = flags & DOP_SCHEMA_OPEN,
                      .compact = flags & DOP_SCHEMA_COMPACT,
                      .made = json_array(),
                      .by_text = json_object(),
                      .for_one_of = json_array(),
                      .blank = none,
                      .character = none,
                      .value = none,
                      .object = none,
                      .array = none,
                      .string = none,
                      .number = none,
                      .diag = diag};
}

static uint32_t
make_root_rule(dop_schema *s, const json_t *schema)
{
    s->a.failed |= !s->made || !s->for_one_of || !s->by_text;
    s->status = dop_schema_index_create(schema ? schema : json_true(), NULL, s->a.budget, s->diag, &s->index);
    if (!dop_schema_goes_on(s))
        return 0;
    const uint32_t rule = schema ? dop_schema_rule_of(s, NULL, &schema, 1) : dop_schema_any_object(s);
    make_rule_bodies(s);
    return rule;
}

dop_status
dop_schema_add(dop_auto *automaton, const struct json_t *schema, unsigned flags, dop_diag *diag, uint32_t *out_rule)
{
    dop_schema s;
    begin_schema(&s, schema, flags, diag);
    s.a = *automaton;
    *out_rule = make_root_rule(&s, schema);
    *automaton = s.a;
    finish_schema(&s);
    return s.status;
}

dop_status
dop_grammar_from_schema(const dop_vocab *vocab, const struct json_t *schema, const char *before, const char *after,
                        unsigned flags, dop_budget *budget, dop_diag *diag, dop_grammar **out_grammar)
{
    dop_schema s;
    dop_diag own = {0};
    uint32_t start;
    begin_schema(&s, schema, flags, diag);
    *out_grammar = NULL;
    s.a.budget = budget;
    s.a.root = dop_schema_rule_new(&s, &start);
    const uint32_t value = make_root_rule(&s, schema);
    if (dop_schema_goes_on(&s)) {
        start = dop_auto_call(&s.a, dop_schema_text(&s, start, before ? before : ""), value);
        dop_auto_end(&s.a, dop_schema_text(&s, start, after ? after : ""));
    }
    if (s.status == DOP_OK && (s.status = dop_grammar_make(vocab, &s.a, &own, out_grammar)) != DOP_OK) {
        /* If no text fits, the reason recorded from the schema is clearer than the automaton's message. */
        const bool empty = s.status == DOP_E_INPUT && s.empty[0] && strstr(own.message, "no text fits");
        s.status = DOP_FAIL(diag, s.status, "%s", empty ? s.empty : own.message);
    }
    dop_auto_finish(&s.a);
    finish_schema(&s);
    return s.status;
}
