/* Functions shared by the files that compile schemas. */
#include "text/schema/schema_base.h"
#include "text/schema/schema_internal.h"
#include "text/schema/validate.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void
dop_schema_refuse(dop_schema *s, const char *fmt, ...)
{
    char message[400];
    va_list ap;
    if (s->status != DOP_OK)
        return;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    s->status = DOP_FAIL(s->diag, DOP_E_INPUT, "JSON schema, at %s: %s", s->n_path ? s->path : "its root", message);
}

void
dop_schema_note_empty(dop_schema *s, const char *fmt, ...)
{
    va_list ap;
    if (s->empty[0])
        return;
    int n = snprintf(s->empty, sizeof s->empty, "JSON schema, at %s: ", s->n_path ? s->path : "its root");
    if (n < 0 || (size_t)n >= sizeof s->empty)
        return;
    va_start(ap, fmt);
    vsnprintf(s->empty + n, sizeof s->empty - (size_t)n, fmt, ap);
    va_end(ap);
}

void
dop_schema_unenforced(dop_schema *s, const char *keyword)
{
    const size_t n = strlen(keyword);
    for (const char *at = s->a.unenforced.size ? s->a.unenforced.data : NULL; at; at = strstr(at, ", ")) {
        at += *at == ',' ? 2 : 0;
        if (strncmp(at, keyword, n) == 0 && (!at[n] || at[n] == ','))
            return;
    }
    dop_buf_printf(&s->a.unenforced, "%s%s", s->a.unenforced.size ? ", " : "", keyword);
    s->a.failed |= s->a.unenforced.failed;
}

bool
dop_schema_goes_on(const dop_schema *s)
{
    return s->status == DOP_OK && !s->a.failed && !s->a.too_large;
}

size_t
dop_schema_enter(dop_schema *s, const char *name)
{
    size_t before = s->n_path;
    int n = snprintf(s->path + before, sizeof s->path - before, "/%s", name);
    s->n_path = before + (size_t)n < sizeof s->path ? before + (size_t)n : sizeof s->path - 1;
    return before;
}

void
dop_schema_leave(dop_schema *s, size_t before)
{
    s->n_path = before;
    s->path[before] = 0;
}

uint32_t
dop_schema_rule_new(dop_schema *s, uint32_t *out_start)
{
    uint32_t rule = dop_auto_rule(&s->a);
    *out_start = s->a.failed || s->a.too_large ? 0 : s->a.rules[rule];
    return rule;
}

uint32_t
dop_schema_text(dop_schema *s, uint32_t from, const char *text)
{
    return dop_auto_text(&s->a, from, text, strlen(text));
}

size_t
dop_schema_count(dop_schema *s, const json_t *schema, const char *name, size_t otherwise)
{
    const json_t *v = json_object_get(schema, name);
    const double x = json_number_value(v);
    if (!v)
        return otherwise;
    if (!json_is_number(v) || x < 0 || x != floor(x)) {
        dop_schema_refuse(s, "%s is a whole number that is not negative", name);
        return otherwise;
    }
    return x < 1e15 ? (size_t)x : SIZE_MAX;
}

const json_t *
dop_schema_keep(dop_schema *s, json_t *made, const json_t *from)
{
    if (!made || json_array_append_new(s->made, made) != 0) {
        s->a.failed = true;
        return json_true();
    }
    dop_schema_index_adopt(s->index, made, from);
    return made;
}

void
dop_schema_no_memory(dop_schema *s)
{
    const bool exhausted = s->a.budget && s->a.budget->end != DOP_BUDGET_LEFT;
    s->a.too_large |= exhausted;
    s->a.failed |= !exhausted;
}

void *
dop_schema_copy(dop_schema *s, const void *items, size_t n, size_t size)
{
    void *p = malloc((n + 1) * size);
    s->a.failed |= !p;
    s->a.too_large |= !dop_budget_step(s->a.budget, n + 1);
    if (p && n)
        memcpy(p, items, n * size);
    return p;
}

void *
dop_schema_grow(dop_schema *s, void *items, size_t n, size_t *io_cap, size_t size)
{
    if (n < *io_cap)
        return items;
    const size_t cap = *io_cap ? 2 * *io_cap : 8;
    if (!dop_budget_take(s->a.budget, (cap - *io_cap) * size)) {
        s->a.too_large = true;
        return items;
    }
    void *p = realloc(items, cap * size);
    if (!p) {
        s->a.failed = true;
        return items;
    }
    *io_cap = cap;
    return p;
}

/* Adds optional white space unless JSON is compact. JSON allows any amount; the automaton accepts none, one space,
 * or a line break with limited indentation. Otherwise a model could generate white space forever. */
uint32_t
dop_schema_blank(dop_schema *s, uint32_t from)
{
    enum { INDENTATION = 20 };
    if (s->compact)
        return from;
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

/* --- keywords and types ------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    unsigned bits; /* types that the keyword applies to; 0: all */
} keywords[] = {
    {"type", 0},
    {"enum", 0},
    {"const", 0},
    {"anyOf", 0},
    {"oneOf", 0},
    {"allOf", 0},
    {"not", 0},
    {"if", 0},
    {"$ref", 0},
    {"$dynamicRef", 0},
    {"$recursiveRef", 0},
    {"minLength", DOP_IS_STRING},
    {"maxLength", DOP_IS_STRING},
    {"pattern", DOP_IS_STRING},
    {"format", DOP_IS_STRING},
    {"minimum", DOP_IS_NUMBER},
    {"maximum", DOP_IS_NUMBER},
    {"exclusiveMinimum", DOP_IS_NUMBER},
    {"exclusiveMaximum", DOP_IS_NUMBER},
    {"multipleOf", DOP_IS_NUMBER},
    {"items", DOP_IS_ARRAY},
    {"prefixItems", DOP_IS_ARRAY},
    {"additionalItems", DOP_IS_ARRAY},
    {"minItems", DOP_IS_ARRAY},
    {"maxItems", DOP_IS_ARRAY},
    {"uniqueItems", DOP_IS_ARRAY},
    {"contains", DOP_IS_ARRAY},
    {"minContains", DOP_IS_ARRAY},
    {"maxContains", DOP_IS_ARRAY},
    {"unevaluatedItems", DOP_IS_ARRAY},
    {"properties", DOP_IS_OBJECT},
    {"required", DOP_IS_OBJECT},
    {"additionalProperties", DOP_IS_OBJECT},
    {"patternProperties", DOP_IS_OBJECT},
    {"propertyNames", DOP_IS_OBJECT},
    {"minProperties", DOP_IS_OBJECT},
    {"maxProperties", DOP_IS_OBJECT},
    {"dependentRequired", DOP_IS_OBJECT},
    {"dependentSchemas", DOP_IS_OBJECT},
    {"dependencies", DOP_IS_OBJECT},
    {"unevaluatedProperties", DOP_IS_OBJECT},
};

static int
find_schema_keyword(const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strcmp(keywords[i].name, name) == 0)
            return (int)i;
    return -1;
}

bool
dop_schema_asserts(const char *name)
{
    return find_schema_keyword(name) >= 0 && strcmp(name, "format") != 0;
}

unsigned
dop_schema_types(dop_schema *s, const json_t *type)
{
    static const struct {
        const char *name;
        unsigned bits;
    } types[] = {
        {"null", DOP_IS_NULL},     {"boolean", DOP_IS_BOOLEAN}, {"integer", DOP_IS_INTEGER}, {"number", DOP_IS_NUMBER},
        {"string", DOP_IS_STRING}, {"array", DOP_IS_ARRAY},     {"object", DOP_IS_OBJECT},
    };
    unsigned bits = 0;
    const size_t n = json_is_array(type) ? json_array_size(type) : 1;
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_is_array(type) ? json_array_get(type, i) : type);
        unsigned found = 0;
        for (size_t k = 0; k < sizeof types / sizeof *types && name; k++)
            found |= strcmp(types[k].name, name) == 0 ? types[k].bits : 0;
        if (!found)
            dop_schema_refuse(s, "type is one of null, boolean, integer, number, string, array, object");
        bits |= found;
    }
    if (n == 0)
        dop_schema_refuse(s, "type is a name, or a list of names that is not empty");
    return bits;
}

unsigned
dop_schema_type_of(const json_t *v)
{
    return json_is_null(v)      ? DOP_IS_NULL
           : json_is_boolean(v) ? DOP_IS_BOOLEAN
           : json_is_integer(v) ? DOP_IS_INTEGER
           : json_is_real(v)    ? json_real_value(v) == floor(json_real_value(v)) ? DOP_IS_INTEGER : DOP_IS_REAL
           : json_is_string(v)  ? DOP_IS_STRING
           : json_is_array(v)   ? DOP_IS_ARRAY
                                : DOP_IS_OBJECT;
}

bool
dop_schema_allows(dop_schema *s, const json_t *schema, const json_t *value)
{
    bool valid = true;
    dop_diag own = {0};
    dop_status st = dop_schema_validate(s->index, schema, value, s->a.budget, &own, &valid);
    s->a.too_large |= s->a.budget && s->a.budget->end != DOP_BUDGET_LEFT;
    return st != DOP_OK || valid;
}

bool
dop_schema_is_keyword(const char *name, unsigned *out_bits)
{
    const int k = find_schema_keyword(name);
    *out_bits = k >= 0 ? keywords[k].bits : 0;
    return k >= 0;
}

const json_t *
dop_schema_resolve(dop_schema *s, const json_t *from, const char *ref)
{
    const json_t *to = dop_schema_index_resolve(s->index, from, ref);
    if (!to && strstr(ref, "://"))
        dop_schema_refuse(s, "$ref \"%.100s\": only references within the schema are supported", ref);
    else if (!to)
        dop_schema_refuse(s, "$ref \"%.100s\" leads nowhere", ref);
    return to;
}

void
dop_schema_add_group(dop_schema *s, dop_conjunction *c, const char *name, json_t *options, const json_t *from,
                     const dop_frame *frame)
{
    options = (json_t *)(uintptr_t)dop_schema_keep(s, options, from);
    c->groups = dop_schema_grow(s, c->groups, c->n_groups, &c->cap_groups, sizeof *c->groups);
    if (dop_schema_goes_on(s))
        c->groups[c->n_groups++] = (dop_option_group){name, options, frame};
}
