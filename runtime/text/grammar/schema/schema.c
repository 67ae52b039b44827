/* Compiles JSON schemas to automata (json-schema.org, draft 2020-12).
 *
 * What must hold for a value at once - a schema with what its $ref and allOf lead to - is gathered as a conjunction; anyOf, oneOf,
 * if, not and their like are groups of options, of which one must hold too, so that all conjunctions together are a disjunctive
 * normal form.  Keywords that no automaton of sensible size can enforce leave a superset, and are named (dop_schema_unenforced).
 *
 * Members of objects come in the order of `properties`.  Other members are written only where something is there to allow them,
 * and without `type` a value has one of the types that the other keywords are about: models that may write anything do.
 * DOP_SCHEMA_OPEN leaves this to the standard. */
#include "runtime/text/grammar/schema/schema_internal.h"
#include "runtime/text/grammar/schema/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 100, MOST_OPTIONS = 512 };

/* --- gathering ------------------------------------------------------------------------------------------------------------------------ */

static void
conjunction_finish(dop_conjunction *c)
{
    free(c->all);
    free(c->nots);
    free(c->closures);
    free(c->groups);
    memset(c, 0, sizeof *c);
}

static void *
copy(dop_schema *s, const void *items, size_t n, size_t size)
{
    void *p = malloc((n + 1) * size);
    s->a.failed |= !p;
    s->a.too_large |= !dop_budget_step(s->a.budget, n + 1);
    if (p && n)
        memcpy(p, items, n * size);
    return p;
}

static dop_conjunction
conjunction_copy(dop_schema *s, const dop_conjunction *c)
{
    dop_conjunction d = *c;
    d.all = copy(s, c->all, d.cap = c->n, sizeof *d.all);
    d.nots = copy(s, c->nots, d.cap_nots = c->n_nots, sizeof *d.nots);
    d.closures = copy(s, c->closures, d.cap_closures = c->n_closures, sizeof *d.closures);
    d.groups = copy(s, c->groups, d.cap_groups = c->n_groups, sizeof *d.groups);
    return d;
}

static void
add_closure(dop_schema *s, dop_conjunction *c, dop_closure closure)
{
    c->closures = dop_schema_grow(s, c->closures, c->n_closures, &c->cap_closures, sizeof *c->closures);
    if (dop_schema_goes_on(s))
        c->closures[c->n_closures++] = closure;
}

/* What a schema, with those that apply in place, may evaluate. */
typedef struct reach {
    json_t *names, *patterns; /* owned */
    size_t prefix;
    bool all_members, all_items, some; /* some: that depends on the value */
} reach;

static void
find_reach(dop_schema *s, const json_t *schema, bool own, uint32_t depth, reach *r)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"}, *const ones[] = {"if", "then", "else"};
    const char *ref = json_string_value(json_object_get(schema, "$ref")), *key;
    const json_t *items = json_object_get(schema, "items"), *prefix = json_object_get(schema, "prefixItems"), *one;
    json_t *v;
    size_t i;
    if (!json_is_object(schema) || depth > DEEPEST)
        return;
    json_object_foreach(json_object_get(schema, "properties"), key, v) json_object_set_new(r->names, key, json_true());
    json_object_foreach(json_object_get(schema, "patternProperties"), key, v)
        json_object_set_new(r->patterns, key, json_true());
    r->prefix = json_array_size(prefix) > r->prefix ? json_array_size(prefix) : r->prefix;
    r->all_members |= json_object_get(schema, "additionalProperties") != NULL;
    r->all_items |= items != NULL || json_object_get(schema, "contains") != NULL;
    r->some |= json_object_get(schema, "contains") || json_object_get(schema, "anyOf") ||
               json_object_get(schema, "oneOf") || json_object_get(schema, "if") ||
               json_object_get(schema, "dependentSchemas") || json_object_get(schema, "$dynamicRef");
    if (!own || json_object_get(schema, "$dynamicRef")) {
        r->all_members |= json_object_get(schema, "unevaluatedProperties") || json_object_get(schema, "$dynamicRef");
        r->all_items |= json_object_get(schema, "unevaluatedItems") || json_object_get(schema, "$dynamicRef");
    }
    for (size_t k = 0; k < 3; k++) {
        json_array_foreach(json_object_get(schema, lists[k]), i, one) find_reach(s, one, false, depth + 1, r);
        find_reach(s, json_object_get(schema, ones[k]), false, depth + 1, r);
    }
    json_object_foreach(json_object_get(schema, "dependentSchemas"), key, v) find_reach(s, v, false, depth + 1, r);
    if (ref)
        find_reach(s, dop_schema_resolve(s, schema, ref), false, depth + 1, r);
}

static void
add_unevaluated(dop_schema *s, dop_conjunction *c, const json_t *schema)
{
    const json_t *members = json_object_get(schema, "unevaluatedProperties"),
                 *items = json_object_get(schema, "unevaluatedItems");
    reach r = {.names = json_object(), .patterns = json_object()};
    find_reach(s, schema, true, 0, &r);
    dop_closure of = {.names = dop_schema_keep(s, r.names, schema), .patterns = dop_schema_keep(s, r.patterns, schema)};
    if (members && (r.some || r.all_members) && !json_is_true(members) && r.some)
        dop_schema_unenforced(s, "unevaluatedProperties");
    if (items && r.some && !json_is_true(items))
        dop_schema_unenforced(s, "unevaluatedItems");
    of.schema = members;
    if (members && !r.all_members)
        add_closure(s, c, of);
    if (items && !r.all_items)
        add_closure(s, c, (dop_closure){.prefix = r.prefix, .schema = items, .for_items = true});
}

static void
add_dependents(dop_schema *s, dop_conjunction *c, const json_t *schema, const dop_frame *frame)
{
    static const char *const names[] = {"dependentRequired", "dependentSchemas", "dependencies"};
    const char *key;
    json_t *v;
    size_t i;
    const json_t *r;
    for (size_t k = 0; k < 3; k++)
        json_object_foreach(json_object_get(schema, names[k]), key, v)
        {
            json_t *with = json_pack("{s:[s]}", "required", key);
            const json_t *without = dop_schema_keep(s, json_pack("{s:{s:b}}", "properties", key, 0), schema);
            json_array_foreach(v, i, r) if (json_is_string(r))
                json_array_append(json_object_get(with, "required"), (json_t *)(uintptr_t)r);
            json_t *options = json_pack("[[O],[O]]", without, with);
            if (!json_is_array(v))
                json_array_append(json_array_get(options, 1), v);
            (void)dop_schema_keep(s, with, schema);
            dop_schema_add_group(s, c, names[k], options, schema, frame);
        }
}

static void
add_options(dop_schema *s, dop_conjunction *c, const json_t *schema, const dop_frame *frame)
{
    enum { MOST_NOTS = 8 };
    const json_t *any = json_object_get(schema, "anyOf"), *one = json_object_get(schema, "oneOf"), *v, *w;
    size_t i, k;
    for (size_t n = 0; n < 2; n++) {
        const json_t *all = n == 0 ? any : one;
        if (!all)
            continue;
        if (!json_is_array(all) || json_array_size(all) == 0) {
            dop_schema_refuse(s, "%s is a list that is not empty", n == 0 ? "anyOf" : "oneOf");
            return;
        }
        json_t *options = json_array();
        json_array_foreach(all, i, v)
        {
            json_t *option = json_pack("[O]", v);
            json_array_foreach(n == 0 ? NULL : all, k, w)
            {
                if (k == i || dop_schema_exclude(s, v, w, 0))
                    continue;
                if (json_array_size(all) > MOST_NOTS) {
                    dop_schema_unenforced(s, "oneOf");
                    continue;
                }
                json_t *not = json_pack("{s:O}", "not", w);
                json_array_append(option, not );
                json_array_append(s->for_one_of, not );
                (void)dop_schema_keep(s, not, schema);
            }
            json_array_append_new(options, option);
        }
        dop_schema_add_group(s, c, n == 0 ? "anyOf" : "oneOf", options, schema, frame);
    }
    const json_t *test = json_object_get(schema, "if"), *then = json_object_get(schema, "then"),
                 *otherwise = json_object_get(schema, "else");
    if (test && (then || otherwise)) {
        const json_t *not = dop_schema_keep(s, json_pack("{s:O}", "not", test), schema);
        json_t *options = json_pack("[[O],[O]]", test, not );
        if (then)
            json_array_append(json_array_get(options, 0), (json_t *)(uintptr_t)then);
        if (otherwise)
            json_array_append(json_array_get(options, 1), (json_t *)(uintptr_t)otherwise);
        dop_schema_add_group(s, c, "if", options, schema, frame);
    }
}

static void
add_types(dop_schema *s, dop_conjunction *c, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    if (!type)
        return;
    unsigned bits = dop_schema_types(s, type);
    if (json_is_true(json_object_get(schema, "nullable")))
        bits |= DOP_IS_NULL;
    c->bits &= bits;
}

static void
add_references(dop_schema *s, dop_conjunction *c, const json_t *schema, const dop_frame *frame)
{
    const json_t *ref = json_object_get(schema, "$ref"), *dynamic = json_object_get(schema, "$dynamicRef"), *to = NULL;
    if (ref && !json_is_string(ref))
        dop_schema_refuse(s, "$ref is a text");
    else if (ref && (to = dop_schema_resolve(s, schema, json_string_value(ref))))
        dop_schema_gather(s, c, to, frame);
    if (json_object_get(schema, "$recursiveRef"))
        dop_schema_unenforced(s, "$recursiveRef");
    if (!json_is_string(dynamic))
        return;
    to = dop_schema_resolve(s, schema, json_string_value(dynamic));
    const char *anchor = strchr(json_string_value(dynamic), '#');
    const char *own = json_string_value(json_object_get(to, "$dynamicAnchor"));
    if (own && anchor && strcmp(own, anchor + 1) == 0)
        dop_schema_unenforced(s, "$dynamicRef"); /* what it means depends on the way to it */
    else if (to)
        dop_schema_gather(s, c, to, frame);
}

static void
add_keywords(dop_schema *s, dop_conjunction *c, const json_t *schema, const dop_frame *frame)
{
    const json_t *others = json_object_get(schema, "additionalProperties"), *items = json_object_get(schema, "items"),
                 *all = json_object_get(schema, "allOf"), *not = json_object_get(schema, "not"), *v;
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    size_t i;
    if ((properties && !json_is_object(properties)) ||
        (required && !json_is_array(required) && !json_is_boolean(required)))
        dop_schema_refuse(s, "properties is an object, and required a list of names");
    add_types(s, c, schema);
    add_references(s, c, schema, frame);
    if (all && (!json_is_array(all) || json_array_size(all) == 0))
        dop_schema_refuse(s, "allOf is a list that is not empty");
    json_array_foreach(all, i, v) dop_schema_gather(s, c, v, frame);
    add_options(s, c, schema, frame);
    if (not )
        dop_schema_add_not(s, c, not, "not", frame);
    add_dependents(s, c, schema, frame);
    if (others)
        add_closure(s, c,
                    (dop_closure){.names = properties,
                                  .patterns = json_object_get(schema, "patternProperties"),
                                  .schema = others});
    const json_t *prefix = json_object_get(schema, "prefixItems");
    if (json_is_array(items)) {
        prefix = items;
        items = json_object_get(schema, "additionalItems");
    }
    if (items)
        add_closure(s, c, (dop_closure){.prefix = json_array_size(prefix), .schema = items, .for_items = true});
    if (json_object_get(schema, "unevaluatedProperties") || json_object_get(schema, "unevaluatedItems"))
        add_unevaluated(s, c, schema);
}

static void
gather(dop_schema *s, dop_conjunction *c, const json_t *schema, const dop_frame *parent)
{
    uint32_t depth = 0;
    if (!dop_schema_goes_on(s) || json_is_true(schema))
        return;
    if (json_is_false(schema)) {
        dop_schema_note_empty(s, "false allows nothing");
        c->never = true;
        return;
    }
    if (!json_is_object(schema)) {
        dop_schema_refuse(s, "a schema is an object, true or false");
        return;
    }
    for (const dop_frame *f = parent; f; f = f->parent, depth++)
        if (f->schema == schema || depth > DEEPEST) {
            dop_schema_refuse(s, "the schema leads back to itself in place, so that it never ends");
            return;
        }
    s->a.too_large |= !dop_budget_step(s->a.budget, c->n + 1);
    for (size_t i = 0; i < c->n; i++)
        if (c->all[i] == schema)
            return;
    dop_frame *frame = dop_budget_take(s->a.budget, sizeof *frame) ? malloc(sizeof *frame) : NULL;
    s->a.too_large |= !frame;
    if (frame) {
        *frame = (dop_frame){schema, parent, s->frames};
        s->frames = frame;
    }
    c->all = dop_schema_grow(s, c->all, c->n, &c->cap, sizeof *c->all);
    if (!dop_schema_goes_on(s))
        return;
    c->all[c->n++] = schema;
    add_keywords(s, c, schema, frame);
}

/* --- values ------------------------------------------------------------------------------------------------------------------------ */

/* Without `type`: the types that keywords are about. */
static unsigned
implied(const dop_schema *s, const dop_conjunction *c)
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
leaf(dop_schema *s, const dop_conjunction *c, uint32_t from, uint32_t to)
{
    bool pinned = false;
    for (size_t i = 0; i < c->n; i++)
        pinned |= json_object_get(c->all[i], "const") || json_object_get(c->all[i], "enum");
    unsigned bits = pinned ? c->bits : c->bits & implied(s, c);
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

/* Does nothing but its one group say which values are valid? */
static bool
is_bare(const dop_conjunction *c)
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

/* Adds the values that a conjunction allows: its groups are multiplied out.  io_left: so many options may be taken. */
static void
expand(dop_schema *s, dop_conjunction *c, uint32_t *io_left, uint32_t from, uint32_t to)
{
    size_t i, k;
    const json_t *option, *one;
    if (!dop_schema_goes_on(s) || c->never)
        return;
    if (c->n_groups == 0) {
        leaf(s, c, from, to);
        return;
    }
    const bool bare = is_bare(c);
    const dop_group g = c->groups[0];
    memmove(c->groups, c->groups + 1, --c->n_groups * sizeof *c->groups);
    if (*io_left < json_array_size(g.options) && !bare) {
        dop_schema_unenforced(s, g.name);
        expand(s, c, io_left, from, to);
        return;
    }
    json_array_foreach(g.options, i, option)
    {
        char name[64];
        snprintf(name, sizeof name, "%s/%zu", g.name, i);
        if (bare) {
            const json_t **own = copy(s, NULL, 0, (json_array_size(option) + 1) * sizeof *own);
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
        expand(s, &d, io_left, from, to);
        dop_schema_leave(s, before);
        conjunction_finish(&d);
    }
}

/* --- rules --------------------------------------------------------------------------------------------------------------------------- */

static size_t
rule_slot(const dop_schema *s, const json_t *const *of, size_t n)
{
    uint64_t h = n;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint64_t)(uintptr_t)of[i]) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    size_t i = (size_t)h & (s->n_rule_slots - 1);
    for (; s->rule_slots[i]; i = (i + 1) & (s->n_rule_slots - 1)) {
        const dop_schema_rule *r = &s->rules[s->rule_slots[i] - 1];
        if (r->n == n && memcmp(r->list, of, n * sizeof *of) == 0)
            break;
    }
    return i;
}

static bool
make_rule_slots(dop_schema *s)
{
    if (2 * s->n_rules < s->n_rule_slots)
        return true;
    const size_t cap = s->n_rule_slots ? 2 * s->n_rule_slots : 64;
    uint32_t *slots =
        dop_budget_take(s->a.budget, (cap - s->n_rule_slots) * sizeof *slots) ? calloc(cap, sizeof *slots) : NULL;
    if (!slots) {
        s->a.too_large = true;
        return false;
    }
    free(s->rule_slots);
    s->rule_slots = slots;
    s->n_rule_slots = cap;
    for (uint32_t i = 0; i < s->n_rules; i++)
        slots[rule_slot(s, s->rules[i].list, s->rules[i].n)] = i + 1;
    return true;
}

static void
body(dop_schema *s, const json_t *const *of, size_t n, uint32_t start)
{
    uint32_t left = MOST_OPTIONS, end = dop_auto_state(&s->a);
    dop_conjunction c = {.bits = DOP_IS_ANY};
    for (size_t i = 0; i < n; i++)
        dop_schema_gather(s, &c, of[i], NULL);
    expand(s, &c, &left, start, end);
    dop_auto_end(&s->a, end);
    conjunction_finish(&c);
}

/* The text of a schema that says the same wherever it stands; the caller frees it.  NULL: it has other schemas, or lists, or
 * references in it. */
static char *
text_of(const json_t *schema)
{
    enum { MOST = 6 };
    const char *key;
    json_t *v;
    if (!json_is_object(schema) || json_object_size(schema) > MOST)
        return NULL;
    json_object_foreach((json_t *)(uintptr_t)schema, key, v)
    {
        unsigned own;
        const bool texts = json_is_string(v) && !dop_schema_is_keyword(key, &own); /* such as descriptions */
        if (key[0] == '$' || json_is_object(v) || json_is_array(v) || texts || json_is_boolean(v))
            return NULL;
    }
    return json_dumps(schema, JSON_COMPACT | JSON_SORT_KEYS);
}

static uint32_t
new_rule_of(dop_schema *s, const char *name, const json_t *const *of, size_t n)
{
    uint32_t start;
    const uint32_t rule = dop_schema_rule_new(s, &start);
    if (!dop_schema_goes_on(s))
        return 0;
    s->rules[s->n_rules] = (dop_schema_rule){copy(s, of, n, sizeof *of), n, rule};
    s->rule_slots[rule_slot(s, of, n)] = (uint32_t)s->n_rules + 1;
    s->n_rules++;
    const size_t before = name ? dop_schema_enter(s, name) : s->n_path;
    if (++s->depth > DEEPEST)
        dop_schema_refuse(s, "schemas are nested more than %d deep", DEEPEST);
    if (dop_schema_goes_on(s))
        body(s, of, n, start);
    s->depth--;
    dop_schema_leave(s, before);
    return rule;
}

static uint32_t
rule_of(dop_schema *s, const char *name, const json_t *const *of, size_t n)
{
    bool any = true;
    for (size_t i = 0; i < n; i++)
        any &= json_is_true(of[i]) || (json_is_object(of[i]) && json_object_size(of[i]) == 0);
    if (any)
        return dop_schema_any_value(s);
    if (!make_rule_slots(s))
        return 0;
    const size_t slot = rule_slot(s, of, n);
    if (s->rule_slots[slot])
        return s->rules[s->rule_slots[slot] - 1].rule;
    char *text = n == 1 ? text_of(of[0]) : NULL;
    const json_t *same = text ? json_object_get(s->by_text, text) : NULL;
    uint32_t rule = same ? (uint32_t)json_integer_value(same) : 0;
    s->rules = dop_schema_grow(s, s->rules, s->n_rules, &s->cap_rules, sizeof *s->rules);
    if (!same && dop_schema_goes_on(s)) {
        rule = new_rule_of(s, name, of, n);
        if (text && dop_schema_goes_on(s))
            json_object_set_new(s->by_text, text, json_integer((json_int_t)rule));
    }
    free(text);
    return rule;
}

static void
finish(dop_schema *s)
{
    for (size_t i = 0; i < s->n_rules; i++)
        free((void *)s->rules[i].list);
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
begin(dop_schema *s, const json_t *schema, unsigned flags, dop_diag *diag)
{
    const uint32_t none = DOP_AUTO_NONE;
    *s = (dop_schema){.root = schema,
                      .open = flags & DOP_SCHEMA_OPEN,
                      .made = json_array(),
                      .by_text = json_object(),
                      .for_one_of = json_array(),
                      .rule_of = rule_of,
                      .gather = gather,
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
root_rule(dop_schema *s, const json_t *schema)
{
    s->a.failed |= !s->made || !s->for_one_of || !s->by_text;
    s->status = dop_schema_index_create(schema ? schema : json_true(), NULL, s->a.budget, s->diag, &s->index);
    if (!dop_schema_goes_on(s))
        return 0;
    return schema ? dop_schema_rule_of(s, NULL, &schema, 1) : dop_schema_any_object(s);
}

dop_status
dop_schema_add(dop_auto *automaton, const struct json_t *schema, dop_diag *diag, uint32_t *out_rule)
{
    dop_schema s;
    begin(&s, schema, 0, diag);
    s.a = *automaton;
    *out_rule = root_rule(&s, schema);
    *automaton = s.a;
    finish(&s);
    return s.status;
}

dop_status
dop_grammar_from_schema(const dop_vocab *vocab, const struct json_t *schema, const char *before, const char *after,
                        unsigned flags, dop_budget *budget, dop_diag *diag, dop_grammar **out_grammar)
{
    dop_schema s;
    dop_diag own = {0};
    uint32_t start;
    begin(&s, schema, flags, diag);
    *out_grammar = NULL;
    s.a.budget = budget;
    s.a.root = dop_schema_rule_new(&s, &start);
    const uint32_t value = root_rule(&s, schema);
    if (dop_schema_goes_on(&s)) {
        start = dop_auto_call(&s.a, dop_schema_text(&s, start, before ? before : ""), value);
        dop_auto_end(&s.a, dop_schema_text(&s, start, after ? after : ""));
    }
    if (s.status == DOP_OK && (s.status = dop_grammar_make(vocab, &s.a, &own, out_grammar)) != DOP_OK) {
        /* Why no text fits is clearer from the schema than from its automaton. */
        const bool empty = s.status == DOP_E_INPUT && s.empty[0] && strstr(own.message, "no text fits");
        s.status = DOP_FAIL(diag, s.status, "%s", empty ? s.empty : own.message);
    }
    dop_auto_finish(&s.a);
    finish(&s);
    return s.status;
}
