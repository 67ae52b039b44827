/* What must not hold: `not`, and the other schemas of oneOf.  A negation becomes options of what must hold, as far as there are
 * keywords for it. */
#include "runtime/text/grammar/schema/schema_internal.h"
#include "runtime/text/grammar/schema/validate.h"

#include <string.h>

enum { DEEPEST = 60 };

/* {"not": schema}; the same one for the same schema, so that recursive schemas come to an end. */
static const json_t *
not_of(dop_schema *s, const json_t *schema)
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
add_made(dop_schema *s, dop_conjunction *c, json_t *made, const json_t *from, const dop_frame *frame)
{
    dop_schema_gather(s, c, dop_schema_keep(s, made, from), frame);
}

/* not {least: n}, or {most: n}, is the other one with the next number; and the value is of the type, because others are valid. */
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
        add_made(s, c,
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
            add_made(s, c, json_pack("{s:s, s:O}", "type", "number", opposites[i][1], v), from, frame);
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

/* A member that is there and not valid.  closed: only members that something else names. */
static json_t *
not_properties(dop_schema *s, const dop_conjunction *c, const json_t *v, const json_t *from, bool closed)
{
    json_t *options = json_array(), *of;
    const char *name;
    json_object_foreach((json_t *)(uintptr_t)v, name, of)
    {
        if (closed && !has_property(c, name))
            continue;
        json_t *one =
            json_pack("{s:s, s:[s], s:{s:O}}", "type", "object", "required", name, "properties", name, not_of(s, of));
        json_array_append_new(options, json_pack("[O]", dop_schema_keep(s, one, from)));
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
        json_array_append_new(options, json_pack("[O]", dop_schema_keep(s, one, from)));
    }
    return options;
}

/* Adds that the one keyword of a schema does not hold.  False: that cannot be said. */
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
        json_array_foreach(v, i, one) json_array_append_new(options, json_pack("[O]", not_of(s, one)));
        dop_schema_add_group(s, c, name, options, schema, frame);
    } else if (strcmp(key, "items") == 0 && !json_is_array(v)) {
        add_made(s, c, json_pack("{s:s, s:O}", "type", "array", "contains", not_of(s, v)), schema, frame);
    } else if (strcmp(key, "contains") == 0) {
        add_made(s, c, json_pack("{s:s, s:O}", "type", "array", "items", not_of(s, v)), schema, frame);
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

/* Keywords whose meaning depends on others beside them. */
static bool
depends(const char *key)
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
        known &= !depends(key) && !(json_is_true(v) && strncmp(key, "exclusive", 9) == 0) &&
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
    if (!known || depth > DEEPEST) {
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
        json_array_append_new(options, json_pack("[O]", not_of(s, part)));
    }
    dop_schema_add_group(s, c, name, options, schema, frame);
}

/* --- schemas that exclude one another --------------------------------------------------------------------------------------------- */

static bool
have_common(dop_schema *s, const json_t *a, const json_t *b)
{
    size_t i, k;
    const json_t *x, *y;
    s->a.too_large |= !dop_budget_step(s->a.budget, json_array_size(a) * json_array_size(b));
    json_array_foreach(a, i, x) json_array_foreach(b, k, y) if (dop_schema_equal(x, y)) return true;
    return false;
}

static bool requires(const json_t *schema, const char *name)
{
    const json_t *v;
    size_t i;
    json_array_foreach(json_object_get(schema, "required"), i,
                       v) if (json_is_string(v) && strcmp(json_string_value(v), name) == 0) return true;
    return false;
}

static unsigned
types_of(dop_schema *s, const json_t *schema)
{
    return dop_schema_types(s, json_object_get(schema, "type")) |
           (json_is_true(json_object_get(schema, "nullable")) ? (unsigned)DOP_IS_NULL : 0);
}

/* Their types may exclude one another, or their const and enum, or those of a member that both require. */
bool
dop_schema_exclude(dop_schema *s, const json_t *a, const json_t *b, uint32_t depth)
{
    bool apart = false;
    const char *ref_a = json_string_value(json_object_get(a, "$ref")),
               *ref_b = json_string_value(json_object_get(b, "$ref"));
    s->a.too_large |= !dop_budget_step(s->a.budget, 4);
    if (!dop_schema_goes_on(s) || depth > DEEPEST)
        return false;
    if ((ref_a && !(a = dop_schema_resolve(s, a, ref_a))) || (ref_b && !(b = dop_schema_resolve(s, b, ref_b))))
        return false;
    if (ref_a || ref_b)
        return dop_schema_exclude(s, a, b, depth + 1);
    if (!json_is_object(a) || !json_is_object(b))
        return json_is_false(a) || json_is_false(b);
    json_t *x = dop_schema_pinned(a), *y = dop_schema_pinned(b);
    if (x && y)
        apart = !have_common(s, x, y);
    if (!apart && json_object_get(a, "type") && json_object_get(b, "type"))
        apart = (types_of(s, a) & types_of(s, b)) == 0;
    json_decref(x);
    json_decref(y);
    const char *key;
    json_t *v;
    const bool objects = json_object_get(a, "type") || json_object_get(b, "type");
    json_object_foreach(objects ? json_object_get(a, "properties") : NULL, key, v)
    {
        const json_t *other = json_object_get(json_object_get(b, "properties"), key);
        if (!apart && other && requires(a, key) && requires(b, key))
            apart = dop_schema_exclude(s, v, other, depth + 1);
    }
    return apart;
}
