/* Gathers all constraints on a value: a schema with the targets of its $ref and allOf, and groups of options. A
 * negation (`not`, and the other schemas of oneOf) is converted to options with positive keywords where such
 * keywords exist. */
#include "text/schema/schema_gather.h"
#include "text/schema/schema_base.h"
#include "text/schema/schema_internal.h"
#include "text/schema/schema_values.h"
#include "text/schema/validate.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 100, DEEPEST_NOT = 60 };

/* --- negation ----------------------------------------------------------------------------------------------------------------- */

/* Returns {"not": schema}. Creates it only once per schema, so that negating a recursive schema terminates. */
static const json_t *
make_negation(dop_schema *s, const json_t *schema)
{
    size_t i;
    json_t *made;
    json_array_foreach(s->made, i, made)
    {
        if (json_is_object(made) && json_object_size(made) == 1 && json_object_get(made, "not") == schema)
            return made;
    }
    s->a.too_large |= !dop_budget_step(s->a.budget, json_array_size(s->made));
    return dop_schema_keep(s, json_pack("{s:O}", "not", schema), schema);
}

static void
add_made_schema(dop_schema *s, dop_conjunction *c, json_t *made, const json_t *from, const dop_frame *frame)
{
    dop_schema_gather(s, c, dop_schema_keep(s, made, from), frame);
}

/* Negates a count keyword: minItems N becomes maxItems N - 1, and maxItems N becomes minItems N + 1. Also requires
 * the keyword's type, because the keyword accepts all values of other types. */
static bool
add_not_count(dop_schema *s, dop_conjunction *c, const char *key, const json_t *v, const json_t *from,
              const dop_frame *frame)
{
    static const struct {
        const char *least, *most, *type;
    } counts[] = {{"minLength", "maxLength", "string"},
                  {"minItems", "maxItems", "array"},
                  {"minProperties", "maxProperties", "object"}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const bool least = strcmp(counts[i].least, key) == 0;
        const double n = json_number_value(v);
        if (!least && strcmp(counts[i].most, key) != 0)
            continue;
        if (least && n <= 0) {
            c->never = true;
            return true;
        }
        add_made_schema(s, c,
                        json_pack("{s:s, s:I}", "type", counts[i].type, least ? counts[i].most : counts[i].least,
                                  (json_int_t)(least ? n - 1 : n + 1)),
                        from, frame);
        return true;
    }
    return false;
}

static bool
add_not_bound(dop_schema *s, dop_conjunction *c, const char *key, const json_t *v, const json_t *from,
              const dop_frame *frame)
{
    static const char *const opposites[][2] = {{"minimum", "exclusiveMaximum"},
                                               {"maximum", "exclusiveMinimum"},
                                               {"exclusiveMinimum", "maximum"},
                                               {"exclusiveMaximum", "minimum"}};
    for (size_t i = 0; i < sizeof opposites / sizeof *opposites && json_is_number(v); i++)
        if (strcmp(opposites[i][0], key) == 0) {
            add_made_schema(s, c, json_pack("{s:s, s:O}", "type", "number", opposites[i][1], v), from, frame);
            return true;
        }
    return false;
}

static void
add_not_value(dop_schema *s, dop_conjunction *c, const char *key, const json_t *v, const json_t *from)
{
    c->nots = dop_schema_grow(s, c->nots, c->n_nots, &c->cap_nots, sizeof *c->nots);
    const json_t *made = dop_schema_keep(s, json_pack("{s:O}", key, v), from);
    if (dop_schema_goes_on(s))
        c->nots[c->n_nots++] = made;
}

static bool
has_property(const dop_conjunction *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        if (json_object_get(json_object_get(c->all[i], "properties"), name))
            return true;
    return false;
}

/* Negates `properties`: returns one option per property, in which the member exists and is invalid. closed: only for
 * members that `properties` of the conjunction name, too. */
static json_t *
not_properties(dop_schema *s, const dop_conjunction *c, const json_t *v, const json_t *from, bool closed)
{
    json_t *options = json_array(), *of;
    const char *name;
    json_object_foreach((json_t *)(uintptr_t)v, name, of)
    {
        if (closed && !has_property(c, name))
            continue;
        json_t *one = json_pack("{s:s, s:[s], s:{s:O}}", "type", "object", "required", name, "properties", name,
                                make_negation(s, of));
        s->a.failed |= json_array_append_new(options, json_pack("[O]", dop_schema_keep(s, one, from))) != 0;
    }
    return options;
}

static json_t *
not_required(dop_schema *s, const json_t *v, const json_t *from)
{
    json_t *options = json_array();
    const json_t *name;
    size_t i;
    json_array_foreach(v, i, name)
    {
        if (!json_is_string(name))
            continue;
        json_t *one = json_pack("{s:s, s:{s:b}}", "type", "object", "properties", json_string_value(name), 0);
        s->a.failed |= json_array_append_new(options, json_pack("[O]", dop_schema_keep(s, one, from))) != 0;
    }
    return options;
}

/* Adds the negation of one keyword of a schema. Returns false if no keywords can express it. */
static bool
add_not_keyword(dop_schema *s, dop_conjunction *c, const json_t *schema, const char *key, const json_t *v,
                const char *name, const dop_frame *frame)
{
    size_t i;
    const json_t *one;
    if (strcmp(key, "type") == 0) {
        c->bits &= ~dop_schema_types(s, v);
    } else if (strcmp(key, "const") == 0 || strcmp(key, "enum") == 0) {
        add_not_value(s, c, key, v, schema);
    } else if (strcmp(key, "pattern") == 0 || strcmp(key, "multipleOf") == 0) {
        c->bits &= key[0] == 'p' ? (unsigned)DOP_IS_STRING : (unsigned)DOP_IS_NUMBER;
        add_not_value(s, c, key, v, schema);
    } else if (strcmp(key, "not") == 0) {
        dop_schema_gather(s, c, v, frame);
    } else if (strcmp(key, "$ref") == 0) {
        const json_t *to = json_is_string(v) ? dop_schema_resolve(s, schema, json_string_value(v)) : NULL;
        if (to)
            dop_schema_add_not(s, c, to, name, frame);
    } else if (strcmp(key, "anyOf") == 0) {
        json_array_foreach(v, i, one) dop_schema_add_not(s, c, one, name, frame);
    } else if (strcmp(key, "allOf") == 0) {
        json_t *options = json_array();
        json_array_foreach(v, i, one)
        {
            s->a.failed |= json_array_append_new(options, json_pack("[O]", make_negation(s, one))) != 0;
        }
        dop_schema_add_group(s, c, name, options, schema, frame);
    } else if (strcmp(key, "items") == 0 && !json_is_array(v)) {
        add_made_schema(s, c, json_pack("{s:s, s:O}", "type", "array", "contains", make_negation(s, v)), schema, frame);
    } else if (strcmp(key, "contains") == 0) {
        add_made_schema(s, c, json_pack("{s:s, s:O}", "type", "array", "items", make_negation(s, v)), schema, frame);
    } else if (strcmp(key, "required") == 0) {
        dop_schema_add_group(s, c, name, not_required(s, v, schema), schema, frame);
    } else if (strcmp(key, "properties") == 0) {
        json_t *options = not_properties(s, c, v, schema, !s->open);
        if (json_array_size(options) == 0) {
            json_decref(options);
            options = not_properties(s, c, v, schema, false);
        }
        dop_schema_add_group(s, c, name, options, schema, frame);
    } else {
        return add_not_count(s, c, key, v, schema, frame) || add_not_bound(s, c, key, v, schema, frame);
    }
    return true;
}

/* True if the keyword's meaning depends on other keywords of the same schema. */
static bool
depends_on_siblings(const char *key)
{
    static const char *const names[] = {
        "additionalProperties", "patternProperties", "prefixItems",           "minContains",
        "maxContains",          "unevaluatedItems",  "unevaluatedProperties", "if",
        "additionalItems",      "dependencies",      "$dynamicRef",           "$recursiveRef"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], key) == 0)
            return true;
    return false;
}

void
dop_schema_add_not(dop_schema *s, dop_conjunction *c, const json_t *schema, const char *name, const dop_frame *frame)
{
    const char *key, *last = NULL;
    json_t *v;
    size_t n = 0;
    uint32_t depth = 0;
    bool known = true;
    for (const dop_frame *f = frame; f; f = f->parent)
        depth++;
    for (size_t i = 0; i < json_array_size(s->for_one_of) && frame; i++)
        if (json_array_get(s->for_one_of, i) == frame->schema)
            name = "oneOf";
    if (json_is_true(schema) || (json_is_object(schema) && json_object_size(schema) == 0)) {
        dop_schema_note_empty(s, "not allows nothing");
        c->never = true;
        return;
    }
    if (!json_is_object(schema)) {
        if (!json_is_false(schema))
            dop_schema_refuse(s, "a schema is an object, true or false");
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)schema, key, v)
    {
        known &= !depends_on_siblings(key) && !(json_is_true(v) && strncmp(key, "exclusive", 9) == 0) &&
                 !(strcmp(key, "nullable") == 0 && json_is_true(v));
        if (!dop_schema_asserts(key))
            continue;
        last = key;
        n++;
    }
    if (n == 0 && known) {
        dop_schema_note_empty(s, "not allows nothing");
        c->never = true;
        return;
    }
    if (!known || depth > DEEPEST_NOT) {
        dop_schema_unenforced(s, name);
        return;
    }
    if (n == 1) {
        if (!add_not_keyword(s, c, schema, last, json_object_get(schema, last), name, frame))
            dop_schema_unenforced(s, name);
        return;
    }
    json_t *options = json_array();
    json_object_foreach((json_t *)(uintptr_t)schema, key, v)
    {
        if (!dop_schema_asserts(key))
            continue;
        const json_t *part = dop_schema_keep(s, json_pack("{s:O}", key, v), schema);
        s->a.failed |= json_array_append_new(options, json_pack("[O]", make_negation(s, part))) != 0;
    }
    dop_schema_add_group(s, c, name, options, schema, frame);
}

/* --- disjoint schemas ------------------------------------------------------------------------------------------------------------- */

static bool
have_common_value(dop_schema *s, const json_t *a, const json_t *b)
{
    size_t i, k;
    const json_t *x, *y;
    s->a.too_large |= !dop_budget_step(s->a.budget, json_array_size(a) * json_array_size(b));
    json_array_foreach(a, i, x) json_array_foreach(b, k, y) if (dop_schema_equal(x, y)) return true;
    return false;
}

static bool
requires_member(const json_t *schema, const char *name)
{
    const json_t *v;
    size_t i;
    json_array_foreach(json_object_get(schema, "required"), i,
                       v) if (json_is_string(v) && strcmp(json_string_value(v), name) == 0) return true;
    return false;
}

static unsigned
read_schema_types(dop_schema *s, const json_t *schema)
{
    return dop_schema_types(s, json_object_get(schema, "type")) |
           (json_is_true(json_object_get(schema, "nullable")) ? (unsigned)DOP_IS_NULL : 0);
}

/* True if no value is valid for both schemas. Compares their types, their const and enum values, and the schemas of
 * members that both require. */
bool
dop_schema_exclude(dop_schema *s, const json_t *a, const json_t *b, uint32_t depth)
{
    bool apart = false;
    const char *ref_a = json_string_value(json_object_get(a, "$ref")),
               *ref_b = json_string_value(json_object_get(b, "$ref"));
    s->a.too_large |= !dop_budget_step(s->a.budget, 4);
    if (!dop_schema_goes_on(s) || depth > DEEPEST_NOT)
        return false;
    if ((ref_a && !(a = dop_schema_resolve(s, a, ref_a))) || (ref_b && !(b = dop_schema_resolve(s, b, ref_b))))
        return false;
    if (ref_a || ref_b)
        return dop_schema_exclude(s, a, b, depth + 1);
    if (!json_is_object(a) || !json_is_object(b))
        return json_is_false(a) || json_is_false(b);
    json_t *x = dop_schema_pinned(a), *y = dop_schema_pinned(b);
    if (x && y)
        apart = !have_common_value(s, x, y);
    if (!apart && json_object_get(a, "type") && json_object_get(b, "type"))
        apart = (read_schema_types(s, a) & read_schema_types(s, b)) == 0;
    json_decref(x);
    json_decref(y);
    const char *key;
    json_t *v;
    const bool objects = json_object_get(a, "type") || json_object_get(b, "type");
    json_object_foreach(objects ? json_object_get(a, "properties") : NULL, key, v)
    {
        const json_t *other = json_object_get(json_object_get(b, "properties"), key);
        if (!apart && other && requires_member(a, key) && requires_member(b, key))
            apart = dop_schema_exclude(s, v, other, depth + 1);
    }
    return apart;
}

/* --- constraints --------------------------------------------------------------------------------------------------------------- */

static void
add_closure(dop_schema *s, dop_conjunction *c, dop_closure closure)
{
    c->closures = dop_schema_grow(s, c->closures, c->n_closures, &c->cap_closures, sizeof *c->closures);
    if (dop_schema_goes_on(s))
        c->closures[c->n_closures++] = closure;
}

/* Members (by name and pattern) and items evaluated by a schema and those applied in place. Used for
 * unevaluatedProperties and unevaluatedItems. */
typedef struct reach {
    json_t *names, *patterns; /* owned sets of evaluated names and patterns */
    size_t prefix;
    bool all_members, all_items, some; /* some: true if the set of evaluated members or items depends on the value */
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
    json_t *named = json_object_get(schema, "properties"), *matched = json_object_get(schema, "patternProperties");
    json_object_foreach(named, key, v) s->a.failed |= json_object_set_new(r->names, key, json_true()) != 0;
    json_object_foreach(matched, key, v) s->a.failed |= json_object_set_new(r->patterns, key, json_true()) != 0;
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
    if (members && r.some && !json_is_true(members))
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
            json_array_foreach(v, i, r)
            {
                if (json_is_string(r))
                    s->a.failed |= json_array_append(json_object_get(with, "required"), (json_t *)(uintptr_t)r) != 0;
            }
            json_t *options = json_pack("[[O],[O]]", without, with);
            if (!json_is_array(v))
                s->a.failed |= json_array_append(json_array_get(options, 1), v) != 0;
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
                s->a.failed |= json_array_append(option, not ) != 0;
                s->a.failed |= json_array_append(s->for_one_of, not ) != 0;
                (void)dop_schema_keep(s, not, schema);
            }
            s->a.failed |= json_array_append_new(options, option) != 0;
        }
        dop_schema_add_group(s, c, n == 0 ? "anyOf" : "oneOf", options, schema, frame);
    }
    const json_t *test = json_object_get(schema, "if"), *then = json_object_get(schema, "then"),
                 *otherwise = json_object_get(schema, "else");
    if (test && (then || otherwise)) {
        const json_t *not = dop_schema_keep(s, json_pack("{s:O}", "not", test), schema);
        json_t *options = json_pack("[[O],[O]]", test, not );
        if (then)
            s->a.failed |= json_array_append(json_array_get(options, 0), (json_t *)(uintptr_t)then) != 0;
        if (otherwise)
            s->a.failed |= json_array_append(json_array_get(options, 1), (json_t *)(uintptr_t)otherwise) != 0;
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
        dop_schema_unenforced(s, "$dynamicRef"); /* the target depends on the references leading here */
    else if (to)
        dop_schema_gather(s, c, to, frame);
}

static void
gather_keywords(dop_schema *s, dop_conjunction *c, const json_t *schema, const dop_frame *frame)
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

void
dop_schema_gather(dop_schema *s, dop_conjunction *c, const json_t *schema, const dop_frame *parent)
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
    if (frame) {
        *frame = (dop_frame){schema, parent, s->frames};
        s->frames = frame;
    } else {
        dop_schema_no_memory(s);
    }
    c->all = dop_schema_grow(s, c->all, c->n, &c->cap, sizeof *c->all);
    if (!dop_schema_goes_on(s))
        return;
    c->all[c->n++] = schema;
    gather_keywords(s, c, schema, frame);
}
