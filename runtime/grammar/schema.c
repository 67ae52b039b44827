/* Compiles JSON schemas to automata (json-schema.org, draft 2020-12: the keywords that decide which texts are valid, as far as an
 * automaton can).  Members of objects come in the order of `properties`.  Other members are written only where
 * additionalProperties is there to allow them.  So every text of the automaton is valid, but not every valid text is one of its. */
#include "runtime/grammar/schema_internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 100 };

static size_t
enter(dop_schema *s, const char *name)
{
    size_t before = s->n_path;
    int n = snprintf(s->path + before, sizeof s->path - before, "/%s", name);
    s->n_path = before + (size_t)n < sizeof s->path ? before + (size_t)n : sizeof s->path - 1;
    return before;
}

static void
leave(dop_schema *s, size_t before)
{
    s->n_path = before;
    s->path[before] = 0;
}

/* Where JSON allows blanks, the automaton accepts none, one, or a line break with some indentation.  Any number of them would allow
 * an answer of blanks that never ends. */
static uint32_t
blank(dop_schema *s, uint32_t from)
{
    enum { INDENTATION = 20 };
    if (s->blank == DOP_AUTO_NONE) {
        uint32_t start, space_start;
        uint32_t space = dop_schema_rule_new(s, &space_start);
        dop_auto_end(&s->a, dop_schema_text(s, space_start, " "));
        s->blank = dop_schema_rule_new(s, &start);
        dop_auto_end(&s->a, start);
        dop_auto_end(&s->a, dop_schema_text(s, start, " "));
        dop_auto_end(&s->a, dop_auto_repeat(&s->a, dop_schema_text(s, start, "\n"), space, 0, INDENTATION));
    }
    return dop_auto_call(&s->a, from, s->blank);
}

/* --- any value ------------------------------------------------------------------------------------------------------------------- */

static uint32_t any_value(dop_schema *s);

static uint32_t
list(dop_schema *s, uint32_t from, const char *open, uint32_t item, uint32_t min, uint32_t max, const char *close)
{
    uint32_t start, more = dop_schema_rule_new(s, &start), end = dop_auto_state(&s->a);
    dop_auto_end(&s->a, dop_auto_call(&s->a, blank(s, dop_schema_text(s, start, ",")), item));
    from = blank(s, dop_schema_text(s, from, open));
    if (min == 0)
        dop_auto_nothing(&s->a, from, end);
    if (max > 0) {
        uint32_t first = dop_auto_call(&s->a, from, item);
        uint32_t others = dop_auto_repeat(&s->a, first, more, min ? min - 1 : 0, max == DOP_AUTO_MANY ? max : max - 1);
        dop_auto_nothing(&s->a, blank(s, others), end);
    }
    return dop_schema_text(s, end, close);
}

static uint32_t
any_string(dop_schema *s)
{
    if (s->string == DOP_AUTO_NONE) {
        uint32_t start;
        s->string = dop_schema_rule_new(s, &start);
        dop_auto_end(&s->a, dop_schema_string(s, start, NULL));
    }
    return s->string;
}

static uint32_t
any_object(dop_schema *s)
{
    if (s->object == DOP_AUTO_NONE) {
        uint32_t start, member_start;
        s->object = dop_schema_rule_new(s, &start);
        uint32_t member = dop_schema_rule_new(s, &member_start);
        uint32_t key = dop_auto_call(&s->a, member_start, any_string(s));
        dop_auto_end(&s->a, dop_auto_call(&s->a, blank(s, dop_schema_text(s, key, ":")), any_value(s)));
        dop_auto_end(&s->a, list(s, start, "{", member, 0, DOP_AUTO_MANY, "}"));
    }
    return s->object;
}

static uint32_t
any_array(dop_schema *s)
{
    if (s->array == DOP_AUTO_NONE) {
        uint32_t start;
        s->array = dop_schema_rule_new(s, &start);
        dop_auto_end(&s->a, list(s, start, "[", any_value(s), 0, DOP_AUTO_MANY, "]"));
    }
    return s->array;
}

static uint32_t
any_number(dop_schema *s)
{
    if (s->number == DOP_AUTO_NONE) {
        uint32_t start;
        s->number = dop_schema_rule_new(s, &start);
        dop_auto_end(&s->a, dop_schema_number(s, start, NULL, false));
    }
    return s->number;
}

static uint32_t
any_value(dop_schema *s)
{
    if (s->value == DOP_AUTO_NONE) {
        uint32_t start;
        s->value = dop_schema_rule_new(s, &start);
        dop_auto_end(&s->a, dop_auto_call(&s->a, start, any_object(s)));
        dop_auto_end(&s->a, dop_auto_call(&s->a, start, any_array(s)));
        dop_auto_end(&s->a, dop_auto_call(&s->a, start, any_string(s)));
        dop_auto_end(&s->a, dop_auto_call(&s->a, start, any_number(s)));
        dop_auto_end(&s->a, dop_schema_text(s, start, "true"));
        dop_auto_end(&s->a, dop_schema_text(s, start, "false"));
        dop_auto_end(&s->a, dop_schema_text(s, start, "null"));
    }
    return s->value;
}

/* --- schemas ---------------------------------------------------------------------------------------------------------------------- */

static uint32_t rule_of(dop_schema *s, const json_t *schema);

/* The rule of a part of the schema; messages use its name. */
static uint32_t
rule_of_part(dop_schema *s, const char *name, const json_t *schema)
{
    size_t before = enter(s, name);
    uint32_t rule = rule_of(s, schema);
    leave(s, before);
    return rule;
}

static const json_t *
resolve(dop_schema *s, const char *ref)
{
    const json_t *at = s->base;
    if (ref[0] != '#' || (ref[1] && ref[1] != '/')) {
        dop_schema_refuse(s, "$ref \"%.100s\": only references within the schema (#/...) are supported", ref);
        return NULL;
    }
    for (const char *p = ref + 1; *p && at;) {
        char name[256];
        size_t n = 0;
        for (p++; *p && *p != '/' && n + 1 < sizeof name; p++) {
            bool escape = p[0] == '~' && (p[1] == '0' || p[1] == '1');
            unsigned code;
            int digits = 0;
            if (*p == '%' && sscanf(p + 1, "%2x%n", &code, &digits) == 1 && digits == 2) {
                name[n++] = (char)code; /* A reference is a URI, in which %20 is a blank. */
                p += 2;
                continue;
            }
            name[n++] = (char)(escape ? p[1] == '0' ? '~' : '/' : *p);
            p += escape;
        }
        name[n] = 0;
        if (*p && *p != '/')
            at = NULL;
        else
            at = json_is_array(at) ? json_array_get(at, (size_t)strtoul(name, NULL, 10)) : json_object_get(at, name);
    }
    /* Many schemas write references for the whole schema even inside a part that has an $id of its own. */
    if (!at && s->base != s->root) {
        const json_t *base = s->base;
        s->base = s->root;
        at = resolve(s, ref);
        s->base = base;
    } else if (!at) {
        dop_schema_refuse(s, "$ref \"%.100s\" leads nowhere", ref);
    }
    return at;
}

enum {
    IS_NULL = 1,
    IS_BOOLEAN = 2,
    IS_INTEGER = 4,
    IS_NUMBER = 8 | IS_INTEGER,
    IS_STRING = 16,
    IS_ARRAY = 32,
    IS_OBJECT = 64,
    IS_ANY = 127
};

static const struct {
    const char *name;
    unsigned bits;
} types[] = {
    {"null", IS_NULL},     {"boolean", IS_BOOLEAN}, {"integer", IS_INTEGER}, {"number", IS_NUMBER},
    {"string", IS_STRING}, {"array", IS_ARRAY},     {"object", IS_OBJECT},
};

enum keyword_use { ANNOTATION, STRUCTURE, OF_STRINGS, OF_NUMBERS, OF_ARRAYS, OF_OBJECTS };

static const struct {
    const char *name;
    enum keyword_use use;
} keywords[] = {
    {"$schema", ANNOTATION},
    {"$id", ANNOTATION},
    {"$comment", ANNOTATION},
    {"$anchor", ANNOTATION},
    {"title", ANNOTATION},
    {"description", ANNOTATION},
    {"default", ANNOTATION},
    {"examples", ANNOTATION},
    {"deprecated", ANNOTATION},
    {"example", ANNOTATION},
    {"discriminator", ANNOTATION},
    {"contentEncoding", ANNOTATION},
    {"contentMediaType", ANNOTATION},
    {"readOnly", ANNOTATION},
    {"writeOnly", ANNOTATION},
    {"$defs", ANNOTATION},
    {"definitions", ANNOTATION},
    {"strict", ANNOTATION},
    {"type", STRUCTURE},
    {"enum", STRUCTURE},
    {"const", STRUCTURE},
    {"anyOf", STRUCTURE},
    {"oneOf", STRUCTURE},
    {"allOf", STRUCTURE},
    {"$ref", STRUCTURE},
    {"minLength", OF_STRINGS},
    {"maxLength", OF_STRINGS},
    {"pattern", OF_STRINGS},
    {"format", OF_STRINGS},
    {"minimum", OF_NUMBERS},
    {"maximum", OF_NUMBERS},
    {"exclusiveMinimum", OF_NUMBERS},
    {"exclusiveMaximum", OF_NUMBERS},
    {"items", OF_ARRAYS},
    {"prefixItems", OF_ARRAYS},
    {"minItems", OF_ARRAYS},
    {"maxItems", OF_ARRAYS},
    {"properties", OF_OBJECTS},
    {"required", OF_OBJECTS},
    {"additionalProperties", OF_OBJECTS},
};

static int
use_of(const char *name)
{
    if (strncmp(name, "x-", 2) == 0) /* These names are free for everybody. */
        return ANNOTATION;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strcmp(keywords[i].name, name) == 0)
            return (int)keywords[i].use;
    return -1;
}

/* The types that `type` allows; without it, those that the other keywords are about. */
static unsigned
types_of(dop_schema *s, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    unsigned bits = 0, spoken = 0;
    const char *key;
    json_t *v;
    size_t n = json_is_array(type) ? json_array_size(type) : 1;
    for (size_t i = 0; i < n && type; i++) {
        const char *name = json_string_value(json_is_array(type) ? json_array_get(type, i) : type);
        unsigned before = bits;
        for (size_t k = 0; k < sizeof types / sizeof *types && name; k++)
            bits |= strcmp(types[k].name, name) == 0 ? types[k].bits : 0;
        if (bits == before)
            dop_schema_refuse(s, "type is one of null, boolean, integer, number, string, array, object");
    }
    if (type && bits == 0)
        dop_schema_refuse(s, "type is a name, or a list of names that is not empty");
    if (type)
        return bits;
    json_object_foreach((json_t *)(uintptr_t)schema, key, v)
    {
        int use = use_of(key);
        spoken |= use == OF_STRINGS   ? IS_STRING
                  : use == OF_NUMBERS ? IS_NUMBER
                  : use == OF_ARRAYS  ? IS_ARRAY
                  : use == OF_OBJECTS ? IS_OBJECT
                                      : 0;
    }
    return spoken ? spoken : IS_ANY;
}

static unsigned
type_of_value(const json_t *v)
{
    return json_is_null(v)      ? IS_NULL
           : json_is_boolean(v) ? IS_BOOLEAN
           : json_is_integer(v) ? IS_INTEGER
           : json_is_real(v)    ? IS_NUMBER & ~(unsigned)IS_INTEGER
           : json_is_string(v)  ? IS_STRING
           : json_is_array(v)   ? IS_ARRAY
                                : IS_OBJECT;
}

/* --- objects ------------------------------------------------------------------------------------------------------------------------- */

typedef struct member {
    const char *name;
    const json_t *schema;
    bool required;
    uint32_t rule; /* the name, a colon, and its value */
} member;

typedef struct object {
    member *members; /* owned */
    size_t n;
    const json_t *others; /* the schema of other members; NULL: there are none */
} object;

static bool
is_required(const json_t *schema, const char *name)
{
    const json_t *list_of = json_object_get(schema, "required"), *v;
    size_t i;
    json_array_foreach(list_of, i, v) if (json_is_string(v) && strcmp(json_string_value(v), name) == 0) return true;
    return false;
}

static bool
is_there(const object *o, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < o->n; i++)
        found |= strcmp(o->members[i].name, name) == 0;
    return found;
}

static void
gather_members(dop_schema *s, const json_t *schema, object *o)
{
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required"),
                 *r;
    const json_t *more = json_object_get(schema, "additionalProperties");
    const char *key;
    json_t *v;
    size_t i;
    if ((properties && !json_is_object(properties)) || (required && !json_is_array(required)))
        dop_schema_refuse(s, "properties is an object, and required a list of names");
    static const json_t *const none = NULL;
    o->others = json_is_false(more) ? none : more ? more : json_object_size(properties) ? none : json_true();
    o->members = calloc(json_object_size(properties) + json_array_size(required) + 1, sizeof *o->members);
    if (!o->members) {
        s->a.failed = true;
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)properties, key, v) o->members[o->n++] =
        (member){key, v, is_required(schema, key), 0};
    json_array_foreach(required, i, r)
    {
        const char *name = json_string_value(r);
        if (!name)
            dop_schema_refuse(s, "required is a list of names");
        else if (!json_object_get(properties, name) && json_is_false(more))
            dop_schema_refuse(s, "\"%.60s\" is required, and neither properties nor additionalProperties has it", name);
        else if (!json_object_get(properties, name) && !is_there(o, name))
            o->members[o->n++] = (member){name, more ? more : json_true(), true, 0};
    }
}

static uint32_t
member_rule(dop_schema *s, const member *m)
{
    uint32_t start, rule = dop_schema_rule_new(s, &start);
    json_t *name = json_string(m->name);
    char *text = json_dumps(name, JSON_ENCODE_ANY);
    s->a.failed |= !text;
    uint32_t at = text ? blank(s, dop_schema_text(s, dop_schema_text(s, start, text), ":")) : start;
    free(text);
    json_decref(name);
    dop_auto_end(&s->a, dop_auto_call(&s->a, at, rule_of_part(s, m->name, m->schema)));
    return rule;
}

static uint32_t
other_rule(dop_schema *s, const object *o)
{
    uint32_t start, rule = dop_schema_rule_new(s, &start);
    const char **names = calloc(o->n + 1, sizeof *names);
    s->a.failed |= !names;
    for (size_t i = 0; i < o->n && names; i++)
        names[i] = o->members[i].name;
    uint32_t at = names ? dop_schema_other_key(s, start, names, o->n) : start;
    free(names);
    at = blank(s, dop_schema_text(s, at, ":"));
    dop_auto_end(&s->a, dop_auto_call(&s->a, at, rule_of_part(s, "additionalProperties", o->others)));
    return rule;
}

/* An object has two chains of states beside each other: in the first no member was written yet, in the second at least one was,
 * so that only there a comma comes before a member. */
static uint32_t
object_of(dop_schema *s, uint32_t from, const json_t *schema)
{
    object o = {0};
    if (!json_object_get(schema, "properties") && !json_object_get(schema, "required") &&
        !json_object_get(schema, "additionalProperties"))
        return dop_auto_call(&s->a, from, any_object(s));
    gather_members(s, schema, &o);
    uint32_t none = blank(s, dop_schema_text(s, from, "{")), some = DOP_AUTO_NONE, end = dop_auto_state(&s->a);
    for (size_t i = 0; i < o.n && s->status == DOP_OK && !s->a.too_large; i++) {
        member *m = &o.members[i];
        m->rule = member_rule(s, m);
        uint32_t next = dop_auto_state(&s->a);
        if (none != DOP_AUTO_NONE)
            dop_auto_nothing(&s->a, dop_auto_call(&s->a, none, m->rule), next);
        if (some != DOP_AUTO_NONE) {
            dop_auto_nothing(&s->a, dop_auto_call(&s->a, blank(s, dop_schema_text(s, some, ",")), m->rule), next);
            if (!m->required)
                dop_auto_nothing(&s->a, some, next);
        }
        some = next;
        if (m->required)
            none = DOP_AUTO_NONE;
    }
    if (o.others && s->status == DOP_OK) {
        uint32_t other = other_rule(s, &o), again = dop_auto_state(&s->a);
        if (none != DOP_AUTO_NONE)
            dop_auto_nothing(&s->a, dop_auto_call(&s->a, none, other), again);
        if (some != DOP_AUTO_NONE)
            dop_auto_nothing(&s->a, some, again);
        dop_auto_nothing(&s->a, dop_auto_call(&s->a, blank(s, dop_schema_text(s, again, ",")), other), again);
        some = again;
    }
    if (none != DOP_AUTO_NONE)
        dop_auto_nothing(&s->a, none, end);
    if (some != DOP_AUTO_NONE)
        dop_auto_nothing(&s->a, blank(s, some), end);
    free(o.members);
    return dop_schema_text(s, end, "}");
}

/* --- arrays -------------------------------------------------------------------------------------------------------------------------- */

static uint32_t
tuple_of(dop_schema *s, uint32_t from, const json_t *prefix, const json_t *items, uint32_t min, uint32_t max)
{
    size_t n = json_array_size(prefix);
    if (max < n)
        dop_schema_refuse(s, "maxItems is less than the number of prefixItems");
    from = blank(s, dop_schema_text(s, from, "["));
    for (size_t i = 0; i < n && s->status == DOP_OK; i++) {
        char name[48];
        snprintf(name, sizeof name, "prefixItems/%zu", i);
        if (i > 0)
            from = blank(s, dop_schema_text(s, from, ","));
        from = dop_auto_call(&s->a, from, rule_of_part(s, name, json_array_get(prefix, i)));
    }
    if (json_is_false(items) && min > n)
        dop_schema_refuse(s, "minItems is more than the number of prefixItems, and items is false");
    if (s->status == DOP_OK && !json_is_false(items) && (items || min > n)) {
        uint32_t start, more = dop_schema_rule_new(s, &start);
        uint32_t item = items ? rule_of_part(s, "items", items) : any_value(s);
        dop_auto_end(&s->a, dop_auto_call(&s->a, blank(s, dop_schema_text(s, start, ",")), item));
        uint32_t most = max == DOP_AUTO_MANY ? items ? DOP_AUTO_MANY : min - (uint32_t)n : max - (uint32_t)n;
        from = dop_auto_repeat(&s->a, from, more, min > n ? min - (uint32_t)n : 0, most);
    }
    return dop_schema_text(s, blank(s, from), "]");
}

static uint32_t
array_of(dop_schema *s, uint32_t from, const json_t *schema)
{
    const json_t *items = json_object_get(schema, "items"), *prefix = json_object_get(schema, "prefixItems");
    uint32_t min = dop_schema_count(s, schema, "minItems", 0),
             max = dop_schema_count(s, schema, "maxItems", DOP_AUTO_MANY);
    if (max < min)
        dop_schema_refuse(s, "maxItems is less than minItems");
    if (json_array_size(prefix) > 0)
        return tuple_of(s, from, prefix, items, min, max);
    if (json_is_false(items))
        max = 0;
    if (max < min)
        dop_schema_refuse(s, "items is false, and minItems more than 0");
    uint32_t item = max == 0 || s->status != DOP_OK ? 0 : items ? rule_of_part(s, "items", items) : any_value(s);
    if (max == 0)
        return dop_schema_text(s, from, "[]");
    return list(s, from, "[", item, min, max, "]");
}

/* --- alternatives ---------------------------------------------------------------------------------------------------------------- */

static bool
is_within(const json_t *schema, const char *least, const char *most, double x, bool or_equal)
{
    const json_t *lo = json_object_get(schema, least), *hi = json_object_get(schema, most);
    return !(json_is_number(lo) && (or_equal ? x < json_number_value(lo) : x <= json_number_value(lo))) &&
           !(json_is_number(hi) && (or_equal ? x > json_number_value(hi) : x >= json_number_value(hi)));
}

/* Tells whether the keywords beside enum or const allow this one of its values.  Keywords that take more than a comparison are
 * refused. */
static bool
allows(dop_schema *s, const json_t *schema, const json_t *v)
{
    const char *key;
    json_t *k;
    size_t length = 0;
    json_object_foreach((json_t *)(uintptr_t)schema, key, k)
    {
        const int use = use_of(key);
        const bool simple = strcmp(key, "minLength") == 0 || strcmp(key, "maxLength") == 0;
        if ((use == OF_STRINGS && json_is_string(v) && !simple) || (use == OF_ARRAYS && json_is_array(v)) ||
            (use == OF_OBJECTS && json_is_object(v)))
            dop_schema_refuse(s, "the keyword %.60s beside enum or const is not supported", key);
    }
    for (size_t i = 0; i < json_string_length(v); i++)
        length += ((unsigned char)json_string_value(v)[i] & 0xc0) != 0x80;
    if (json_is_string(v))
        return is_within(schema, "minLength", "maxLength", (double)length, true);
    return !json_is_number(v) ||
           (is_within(schema, "minimum", "maximum", json_number_value(v), true) &&
            is_within(schema, "exclusiveMinimum", "exclusiveMaximum", json_number_value(v), false));
}

static uint32_t
values_of(dop_schema *s, uint32_t from, const json_t *schema, const json_t *values, unsigned bits)
{
    uint32_t end = dop_auto_state(&s->a);
    size_t i, n = 0;
    const json_t *v;
    json_array_foreach(values, i, v)
    {
        unsigned type = type_of_value(v);
        if ((type & bits) != type || !allows(s, schema, v))
            continue;
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
        s->a.failed |= !text;
        if (text)
            dop_auto_nothing(&s->a, dop_schema_text(s, from, text), end);
        free(text);
        n++;
    }
    if (n == 0)
        dop_schema_refuse(s, "no value is left: enum or const, and the other keywords, exclude one another");
    return end;
}

/* Equality of JSON schemas, for which 1 and 1.0 are the same number. */
static bool
is_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

/* The only values that a schema allows by const and enum, as a list that the caller releases; NULL: it has neither. */
static json_t *
pinned(const json_t *schema)
{
    json_t *one = json_object_get(schema, "const"), *several = json_object_get(schema, "enum"), *v;
    size_t i;
    bool is_there = !json_is_array(several);
    json_array_foreach(several, i, v) is_there |= one && is_same(one, v);
    if (one)
        return is_there ? json_pack("[O]", one) : json_array();
    return several ? json_incref(several) : NULL;
}

static bool
have_common(const json_t *a, const json_t *b)
{
    size_t i, k;
    const json_t *x, *y;
    json_array_foreach(a, i, x) json_array_foreach(b, k, y) if (is_same(x, y)) return true;
    return false;
}

/* Tells whether no value can be valid for both.  Their types may exclude one another, or their const and enum, or those of a member
 * that both require. */
static bool
exclude(dop_schema *s, const json_t *a, const json_t *b, uint32_t depth)
{
    bool apart = false;
    const char *ref_a = json_string_value(json_object_get(a, "$ref")),
               *ref_b = json_string_value(json_object_get(b, "$ref"));
    if (depth > DEEPEST || (ref_a && !(a = resolve(s, ref_a))) || (ref_b && !(b = resolve(s, ref_b))))
        return false;
    if (ref_a || ref_b)
        return exclude(s, a, b, depth + 1);
    if (!json_is_object(a) || !json_is_object(b))
        return false;
    json_t *x = pinned(a), *y = pinned(b);
    if (x && y)
        apart = !have_common(x, y);
    else if (json_object_get(a, "type") && json_object_get(b, "type"))
        apart = (types_of(s, a) & types_of(s, b)) == 0;
    json_decref(x);
    json_decref(y);
    const char *key;
    json_t *v;
    json_object_foreach(json_object_get(a, "properties"), key, v)
    {
        const json_t *other = json_object_get(json_object_get(b, "properties"), key);
        if (!apart && other && is_required(a, key) && is_required(b, key))
            apart = exclude(s, v, other, depth + 1);
    }
    return apart;
}

static uint32_t
any_of(dop_schema *s, uint32_t from, const char *name, const json_t *list_of)
{
    uint32_t end = dop_auto_state(&s->a);
    size_t i, k;
    const json_t *v;
    if (!json_is_array(list_of) || json_array_size(list_of) == 0)
        dop_schema_refuse(s, "%s is a list that is not empty", name);
    json_array_foreach(list_of, i, v)
    {
        char part[48];
        snprintf(part, sizeof part, "%s/%zu", name, i);
        for (k = 0; k < i && strcmp(name, "oneOf") == 0; k++)
            if (!exclude(s, json_array_get(list_of, k), v, 0))
                dop_schema_refuse(s, "oneOf: the schemas %zu and %zu may both be valid for a value; use anyOf", k, i);
        if (s->status == DOP_OK)
            dop_auto_nothing(&s->a, dop_auto_call(&s->a, from, rule_of_part(s, part, v)), end);
    }
    return end;
}

static void
check_keywords(dop_schema *s, const json_t *schema, const char *alone)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)schema, key, v)
    {
        int use = use_of(key);
        if (use < 0)
            dop_schema_refuse(s, "the keyword %.60s is not supported", key);
        else if (alone && use != ANNOTATION && strcmp(key, alone) != 0)
            dop_schema_refuse(s, "the keyword %.60s beside %s is not supported", key, alone);
    }
}

static uint32_t
by_type(dop_schema *s, uint32_t from, const json_t *schema, unsigned bits)
{
    uint32_t end = dop_auto_state(&s->a);
    if (bits & IS_NULL)
        dop_auto_nothing(&s->a, dop_schema_text(s, from, "null"), end);
    if (bits & IS_BOOLEAN) {
        dop_auto_nothing(&s->a, dop_schema_text(s, from, "true"), end);
        dop_auto_nothing(&s->a, dop_schema_text(s, from, "false"), end);
    }
    if (bits & IS_NUMBER)
        dop_auto_nothing(&s->a, dop_schema_number(s, from, schema, (bits & IS_NUMBER) == IS_INTEGER), end);
    if (bits & IS_STRING)
        dop_auto_nothing(&s->a, dop_schema_string(s, from, schema), end);
    if (bits & IS_ARRAY)
        dop_auto_nothing(&s->a, array_of(s, from, schema), end);
    if (bits & IS_OBJECT)
        dop_auto_nothing(&s->a, object_of(s, from, schema), end);
    return end;
}

static uint32_t
body(dop_schema *s, uint32_t from, const json_t *schema)
{
    static const char *const alone[] = {"$ref", "anyOf", "oneOf", "allOf"};
    const char *only = NULL;
    if (json_is_true(schema) || (json_is_object(schema) && json_object_size(schema) == 0))
        return dop_auto_call(&s->a, from, any_value(s));
    if (!json_is_object(schema)) {
        dop_schema_refuse(s, json_is_false(schema) ? "false allows nothing" : "a schema is an object, or true");
        return from;
    }
    for (size_t i = 0; i < sizeof alone / sizeof *alone && !only; i++)
        if (json_object_get(schema, alone[i]))
            only = alone[i];
    check_keywords(s, schema, only);
    if (s->status != DOP_OK)
        return from;
    const json_t *v = only ? json_object_get(schema, only) : NULL;
    if (only && strcmp(only, "$ref") == 0) {
        const json_t *to = json_is_string(v) ? resolve(s, json_string_value(v)) : NULL;
        if (!to)
            dop_schema_refuse(s, "$ref is a text");
        return to ? dop_auto_call(&s->a, from, rule_of(s, to)) : from;
    }
    if (only && strcmp(only, "allOf") == 0 && json_array_size(v) != 1) {
        dop_schema_refuse(s, "the keyword allOf with more than one schema is not supported");
        return from;
    }
    if (only)
        return any_of(s, from, only, v);
    json_t *values = pinned(schema);
    unsigned bits = values && !json_object_get(schema, "type") ? IS_ANY : types_of(s, schema);
    uint32_t to = values ? values_of(s, from, schema, values, bits) : by_type(s, from, schema, bits);
    json_decref(values);
    return to;
}

static uint32_t
rule_of(dop_schema *s, const json_t *schema)
{
    uint32_t start;
    for (size_t i = 0; i < s->n_rules; i++)
        if (s->rules[i].schema == schema)
            return s->rules[i].rule;
    if (s->n_rules == s->cap_rules) {
        size_t cap = s->cap_rules ? 2 * s->cap_rules : 32;
        dop_schema_rule *p = realloc(s->rules, cap * sizeof *p);
        if (!p) {
            s->a.failed = true;
            return 0;
        }
        s->rules = p;
        s->cap_rules = cap;
    }
    uint32_t rule = dop_schema_rule_new(s, &start);
    if (s->a.failed || s->a.too_large || s->status != DOP_OK)
        return 0;
    s->rules[s->n_rules++] = (dop_schema_rule){schema, rule};
    const json_t *base = s->base;
    if (json_object_get(schema, "$id"))
        s->base = schema;
    if (++s->depth > DEEPEST)
        dop_schema_refuse(s, "schemas are nested more than %d deep", DEEPEST);
    if (s->status == DOP_OK)
        dop_auto_end(&s->a, body(s, start, schema));
    s->depth--;
    s->base = base;
    return rule;
}

dop_status
dop_grammar_from_schema(const dop_vocab *vocab, const struct json_t *schema, const char *before, const char *after,
                        dop_diag *diag, dop_grammar **out_grammar)
{
    const uint32_t none = DOP_AUTO_NONE;
    dop_schema s = {.root = schema,
                    .base = schema,
                    .blank = none,
                    .character = none,
                    .value = none,
                    .object = none,
                    .array = none,
                    .string = none,
                    .number = none,
                    .diag = diag};
    uint32_t start;
    *out_grammar = NULL;
    s.a.root = dop_schema_rule_new(&s, &start);
    start = dop_schema_text(&s, start, before ? before : "");
    uint32_t value = schema ? rule_of(&s, schema) : any_object(&s);
    dop_auto_end(&s.a, dop_schema_text(&s, dop_auto_call(&s.a, start, value), after ? after : ""));
    free(s.rules);
    if (s.status == DOP_OK)
        return dop_grammar_make(vocab, &s.a, diag, out_grammar);
    dop_auto_finish(&s.a);
    return s.status;
}

dop_status
dop_schema_add(dop_auto *automaton, const struct json_t *schema, dop_diag *diag, uint32_t *out_rule)
{
    const uint32_t none = DOP_AUTO_NONE;
    dop_schema s = {.a = *automaton,
                    .root = schema,
                    .base = schema,
                    .blank = none,
                    .character = none,
                    .value = none,
                    .object = none,
                    .array = none,
                    .string = none,
                    .number = none,
                    .diag = diag};
    *out_rule = schema ? rule_of(&s, schema) : any_object(&s);
    *automaton = s.a;
    free(s.rules);
    return s.status;
}
