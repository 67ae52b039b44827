#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/schema/validate.h"

#include "text/grammar/pattern.h"

#include <math.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 300 };

typedef struct expression {
    const char *pattern; /* points into a schema; not owned */
    pcre2_code *code;
    struct expression *next;
} expression;

typedef struct validator {
    dop_schema_index *index;
    const char *scope[DEEPEST + 1]; /* [depth] base URIs of the entered schemas, outermost first */
    uint32_t depth;
    expression *expressions;
    dop_budget *budget;
    dop_status status;
    dop_diag *diag;
} validator;

/* Flags of the members or items that a schema has evaluated: [n], in their order. */
typedef struct evaluated {
    bool *seen;
    size_t n;
} evaluated;

static bool validate_value(validator *v, const json_t *schema, const json_t *x, evaluated *out);

static void
fail_validation(validator *v, dop_status st, const char *what, const char *detail)
{
    if (v->status == DOP_OK)
        v->status = DOP_FAIL(v->diag, st, "JSON schema: %s%.200s", what, detail);
}

/* --- values ------------------------------------------------------------------------------------------------------------------------ */

bool
dop_schema_equal(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *v;
    size_t i;
    if (json_is_number(a) && json_is_number(b))
        return json_is_integer(a) && json_is_integer(b) ? json_integer_value(a) == json_integer_value(b)
                                                        : json_number_value(a) == json_number_value(b);
    if (json_is_array(a) && json_is_array(b)) {
        if (json_array_size(a) != json_array_size(b))
            return false;
        json_array_foreach(a, i, v) if (!dop_schema_equal(v, json_array_get(b, i))) return false;
        return true;
    }
    if (json_is_object(a) && json_is_object(b)) {
        if (json_object_size(a) != json_object_size(b))
            return false;
        json_object_foreach((json_t *)(uintptr_t)a, key, v)
        {
            const json_t *other = json_object_get(b, key);
            if (!other || !dop_schema_equal(v, other))
                return false;
        }
        return true;
    }
    return json_equal(a, b) != 0;
}

static bool
is_whole_json(const json_t *x)
{
    return json_is_integer(x) || (json_is_real(x) && floor(json_real_value(x)) == json_real_value(x));
}

static bool
is_json_multiple(const json_t *x, const json_t *of)
{
    if (json_is_integer(x) && json_is_integer(of))
        return json_integer_value(of) == 0 || json_integer_value(of) == -1 ||
               json_integer_value(x) % json_integer_value(of) == 0;
    const double a = json_number_value(x), b = json_number_value(of), q = a / b;
    if (!isfinite(q))
        return b == 0 || fmod(a, b) == 0;
    return fabs(q - round(q)) <= 1e-12 * fmax(1, fabs(q));
}

static size_t
count_json_characters(const json_t *x)
{
    const char *s = json_string_value(x);
    size_t n = 0;
    for (size_t i = 0; i < json_string_length(x); i++)
        n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

static bool
matches_value_pattern(validator *v, const char *pattern, const char *text, size_t n)
{
    expression *e = v->expressions;
    while (e && e->pattern != pattern)
        e = e->next;
    if (!e) {
        int error;
        size_t offset;
        if (!(e = calloc(1, sizeof *e))) {
            fail_validation(v, DOP_E_NOMEM, "out of memory", "");
            return true;
        }
        e->pattern = pattern;
        dop_buf own = {0};
        dop_pattern_to_pcre2(pattern, strlen(pattern), &own);
        e->code = pcre2_compile((PCRE2_SPTR)(own.size ? own.data : ""), own.size,
                                PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX | PCRE2_ALLOW_EMPTY_CLASS |
                                    PCRE2_MATCH_UNSET_BACKREF,
                                &error, &offset, NULL);
        dop_buf_finish(&own);
        e->next = v->expressions;
        v->expressions = e;
    }
    if (!e->code) {
        fail_validation(v, DOP_E_INPUT, "no regular expression: ", pattern);
        return true;
    }
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    const int found = data ? pcre2_match(e->code, (PCRE2_SPTR)text, n, 0, 0, data, NULL) : PCRE2_ERROR_NOMEMORY;
    pcre2_match_data_free(data);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH)
        fail_validation(v, DOP_E_LIMIT, "a regular expression takes too many steps: ", pattern);
    return found >= 0;
}

/* --- keywords for single values ------------------------------------------------------------------------------------------------ */

static bool
has_type(const char *type, const json_t *x)
{
    return (strcmp(type, "null") == 0 && json_is_null(x)) || (strcmp(type, "boolean") == 0 && json_is_boolean(x)) ||
           (strcmp(type, "integer") == 0 && is_whole_json(x)) || (strcmp(type, "number") == 0 && json_is_number(x)) ||
           (strcmp(type, "string") == 0 && json_is_string(x)) || (strcmp(type, "array") == 0 && json_is_array(x)) ||
           (strcmp(type, "object") == 0 && json_is_object(x));
}

static bool
valid_type(const json_t *schema, const json_t *x)
{
    const json_t *type = json_object_get(schema, "type");
    if (!type || (json_is_null(x) && json_is_true(json_object_get(schema, "nullable"))))
        return true;
    if (json_is_string(type))
        return has_type(json_string_value(type), x);
    for (size_t i = 0; i < json_array_size(type); i++)
        if (json_is_string(json_array_get(type, i)) && has_type(json_string_value(json_array_get(type, i)), x))
            return true;
    return false;
}

static int
compare_json_numbers(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b))
        return json_integer_value(a) < json_integer_value(b) ? -1 : json_integer_value(a) > json_integer_value(b);
    const double x = json_number_value(a), y = json_number_value(b);
    return x < y ? -1 : x > y;
}

static bool
valid_number(const json_t *schema, const json_t *x)
{
    const json_t *min = json_object_get(schema, "minimum"), *max = json_object_get(schema, "maximum"),
                 *above = json_object_get(schema, "exclusiveMinimum"),
                 *below = json_object_get(schema, "exclusiveMaximum"), *of = json_object_get(schema, "multipleOf");
    if (json_is_true(above))
        above = min;
    if (json_is_true(below))
        below = max;
    return !(json_is_number(min) && compare_json_numbers(x, min) < 0) &&
           !(json_is_number(max) && compare_json_numbers(x, max) > 0) &&
           !(json_is_number(above) && compare_json_numbers(x, above) <= 0) &&
           !(json_is_number(below) && compare_json_numbers(x, below) >= 0) &&
           !(json_is_number(of) && !is_json_multiple(x, of));
}

static bool
is_within_bounds(const json_t *schema, const char *least, const char *most, size_t n)
{
    const json_t *lo = json_object_get(schema, least), *hi = json_object_get(schema, most);
    return !(json_is_number(lo) && (double)n < json_number_value(lo)) &&
           !(json_is_number(hi) && (double)n > json_number_value(hi));
}

static bool
valid_string(validator *v, const json_t *schema, const json_t *x)
{
    const json_t *pattern = json_object_get(schema, "pattern");
    if ((json_object_get(schema, "minLength") || json_object_get(schema, "maxLength")) &&
        !is_within_bounds(schema, "minLength", "maxLength", count_json_characters(x)))
        return false;
    return !json_is_string(pattern) ||
           matches_value_pattern(v, json_string_value(pattern), json_string_value(x), json_string_length(x));
}

static bool
valid_values(const json_t *schema, const json_t *x)
{
    const json_t *one = json_object_get(schema, "const"), *several = json_object_get(schema, "enum"), *k;
    bool found = !several;
    size_t i;
    json_array_foreach(several, i, k)
    {
        found = found || dop_schema_equal(k, x);
        if (found)
            break;
    }
    return found && !(one && !dop_schema_equal(one, x));
}

/* --- arrays ------------------------------------------------------------------------------------------------------------------------- */

static void
mark_evaluated(evaluated *e, size_t i)
{
    if (e && i < e->n)
        e->seen[i] = true;
}

static bool
are_unique(validator *v, const json_t *x)
{
    for (size_t i = 0; i < json_array_size(x); i++)
        for (size_t k = 0; k < i; k++) {
            if (!dop_budget_step(v->budget, 1)) {
                fail_validation(v, DOP_E_LIMIT, "validating takes too long", "");
                return true;
            }
            if (dop_schema_equal(json_array_get(x, i), json_array_get(x, k)))
                return false;
        }
    return true;
}

static bool
valid_contains(validator *v, const json_t *schema, const json_t *x, evaluated *out)
{
    const json_t *contains = json_object_get(schema, "contains");
    size_t n = 0, i;
    const json_t *item;
    if (!contains)
        return true;
    json_array_foreach(x, i, item)
    {
        if (!validate_value(v, contains, item, NULL))
            continue;
        mark_evaluated(out, i);
        n++;
    }
    return (json_object_get(schema, "minContains") || n > 0) &&
           is_within_bounds(schema, "minContains", "maxContains", n);
}

static bool
valid_array(validator *v, const json_t *schema, const json_t *x, evaluated *out)
{
    const json_t *prefix = json_object_get(schema, "prefixItems"), *items = json_object_get(schema, "items"), *item;
    size_t i;
    if (json_is_array(items)) { /* form of older drafts */
        prefix = items;
        items = json_object_get(schema, "additionalItems");
    }
    if (!is_within_bounds(schema, "minItems", "maxItems", json_array_size(x)))
        return false;
    json_array_foreach(x, i, item)
    {
        const json_t *of = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        if (!of)
            continue;
        if (!validate_value(v, of, item, NULL))
            return false;
        mark_evaluated(out, i);
    }
    return valid_contains(v, schema, x, out) &&
           !(json_is_true(json_object_get(schema, "uniqueItems")) && !are_unique(v, x));
}

/* --- objects ------------------------------------------------------------------------------------------------------------------------ */

static bool
valid_names(validator *v, const json_t *schema, const json_t *x)
{
    const json_t *required = json_object_get(schema, "required"), *of = json_object_get(schema, "propertyNames"), *r;
    const char *key;
    json_t *member;
    size_t i;
    json_array_foreach(required, i, r) if (json_is_string(r) && !json_object_get(x, json_string_value(r))) return false;
    if (!is_within_bounds(schema, "minProperties", "maxProperties", json_object_size(x)))
        return false;
    json_object_foreach((json_t *)(uintptr_t)x, key, member)
    {
        json_t *name = of ? json_string(key) : NULL;
        const bool good = !of || validate_value(v, of, name, NULL);
        json_decref(name);
        if (!good)
            return false;
    }
    return true;
}

static bool
valid_dependents(validator *v, const json_t *schema, const json_t *x, evaluated *out)
{
    static const char *const keywords[] = {"dependentRequired", "dependentSchemas", "dependencies"};
    const char *key;
    json_t *of;
    size_t i;
    const json_t *r;
    for (size_t k = 0; k < sizeof keywords / sizeof *keywords; k++)
        json_object_foreach(json_object_get(schema, keywords[k]), key, of)
        {
            if (!json_object_get(x, key))
                continue;
            if (!json_is_array(of) && !validate_value(v, of, x, out))
                return false;
            json_array_foreach(of, i,
                               r) if (json_is_string(r) && !json_object_get(x, json_string_value(r))) return false;
        }
    return true;
}

static bool
valid_object(validator *v, const json_t *schema, const json_t *x, evaluated *out)
{
    const json_t *properties = json_object_get(schema, "properties"),
                 *patterns = json_object_get(schema, "patternProperties"),
                 *others = json_object_get(schema, "additionalProperties");
    const char *key, *pattern;
    json_t *member, *of;
    size_t i = 0;
    if (!valid_names(v, schema, x) || !valid_dependents(v, schema, x, out))
        return false;
    if (!properties && !patterns && !others)
        return true;
    json_object_foreach((json_t *)(uintptr_t)x, key, member)
    {
        const json_t *own = json_object_get(properties, key);
        bool known = own != NULL;
        if (own && !validate_value(v, own, member, NULL))
            return false;
        json_object_foreach((json_t *)(uintptr_t)patterns, pattern, of)
        {
            if (!matches_value_pattern(v, pattern, key, strlen(key)))
                continue;
            known = true;
            if (!validate_value(v, of, member, NULL))
                return false;
        }
        if (!known && others && !validate_value(v, others, member, NULL))
            return false;
        if (known || others)
            mark_evaluated(out, i);
        i++;
    }
    return true;
}

/* --- subschemas ---------------------------------------------------------------------------------------------------------------- */

/* Validates a value against a subschema that applies in place. Its evaluated members or items count only if the
 * value is valid. */
static bool
validate_in_place(validator *v, const json_t *schema, const json_t *x, evaluated *out)
{
    evaluated own = {0};
    if (out && out->n > 0) {
        own.n = out->n;
        own.seen = calloc(own.n, sizeof *own.seen);
        if (!own.seen) {
            fail_validation(v, DOP_E_NOMEM, "out of memory", "");
            return true;
        }
    }
    const bool good = validate_value(v, schema, x, own.n ? &own : NULL);
    for (size_t i = 0; i < own.n && good; i++)
        out->seen[i] |= own.seen[i];
    free(own.seen);
    return good;
}

static bool
valid_lists(validator *v, const json_t *schema, const json_t *x, evaluated *out)
{
    const json_t *all = json_object_get(schema, "allOf"), *any = json_object_get(schema, "anyOf"),
                 *one = json_object_get(schema, "oneOf"), *k;
    size_t i, n = 0;
    json_array_foreach(all, i, k) if (!validate_in_place(v, k, x, out)) return false;
    json_array_foreach(any, i, k) n += validate_in_place(v, k, x, out);
    if (any && n == 0)
        return false;
    n = 0;
    json_array_foreach(one, i, k) n += validate_in_place(v, k, x, out);
    if (one && n != 1)
        return false;
    const json_t *not = json_object_get(schema, "not"), *test = json_object_get(schema, "if");
    if (not &&validate_value(v, not, x, NULL))
        return false;
    if (!test)
        return true;
    const json_t *then = json_object_get(schema, validate_in_place(v, test, x, out) ? "then" : "else");
    return !then || validate_in_place(v, then, x, out);
}

static bool
valid_refs(validator *v, const json_t *schema, const json_t *x, evaluated *out)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    const char *dynamic = json_string_value(json_object_get(schema, "$dynamicRef"));
    if (json_object_get(schema, "$recursiveRef") && !dynamic)
        dynamic = "#";
    if (ref) {
        const json_t *to = dop_schema_index_resolve(v->index, schema, ref);
        if (!to)
            fail_validation(v, DOP_E_INPUT, "$ref leads nowhere: ", ref);
        else if (!validate_in_place(v, to, x, out))
            return false;
    }
    if (!dynamic)
        return true;
    const json_t *to = dop_schema_index_resolve(v->index, schema, dynamic);
    const char *anchor = strchr(dynamic, '#');
    const char *own = json_string_value(json_object_get(to, "$dynamicAnchor"));
    for (uint32_t i = 0; i < v->depth && own && anchor && strcmp(own, anchor + 1) == 0; i++) {
        const json_t *outer = dop_schema_index_dynamic(v->index, v->scope[i], own);
        if (outer) {
            to = outer;
            break;
        }
    }
    if (!to)
        fail_validation(v, DOP_E_INPUT, "$dynamicRef leads nowhere: ", dynamic);
    return !to || validate_in_place(v, to, x, out);
}

static bool
valid_rest(validator *v, const json_t *schema, const json_t *x, evaluated *out)
{
    const json_t *others = json_object_get(schema, json_is_array(x) ? "unevaluatedItems" : "unevaluatedProperties");
    const char *key;
    json_t *member;
    size_t i = 0;
    const json_t *item;
    if (!others || !out)
        return true;
    if (json_is_array(x))
        json_array_foreach(x, i, item)
        {
            if (!out->seen[i] && !validate_value(v, others, item, NULL))
                return false;
            out->seen[i] = true;
        }
    else
        json_object_foreach((json_t *)(uintptr_t)x, key, member)
        {
            if (!out->seen[i] && !validate_value(v, others, member, NULL))
                return false;
            out->seen[i++] = true;
        }
    return true;
}

static bool
validate_keywords(validator *v, const json_t *schema, const json_t *x, evaluated *out)
{
    if (!valid_type(schema, x) || !valid_values(schema, x))
        return false;
    if ((json_is_number(x) && !valid_number(schema, x)) || (json_is_string(x) && !valid_string(v, schema, x)))
        return false;
    if ((json_is_array(x) && !valid_array(v, schema, x, out)) ||
        (json_is_object(x) && !valid_object(v, schema, x, out)))
        return false;
    return valid_refs(v, schema, x, out) && valid_lists(v, schema, x, out) && valid_rest(v, schema, x, out);
}

/* Validates a value against a schema. out: receives the evaluated members or items; may be NULL. */
static bool
validate_value(validator *v, const json_t *schema, const json_t *x, evaluated *out)
{
    evaluated own = {0};
    if (v->status != DOP_OK || json_is_true(schema) || json_is_false(schema))
        return v->status != DOP_OK || json_is_true(schema);
    if (!json_is_object(schema)) {
        fail_validation(v, DOP_E_INPUT, "a schema is an object, true or false", "");
        return true;
    }
    if (v->depth >= DEEPEST || !dop_budget_step(v->budget, 1 + json_object_size(schema))) {
        fail_validation(v, DOP_E_LIMIT, "validating takes too long, or goes round in circles", "");
        return true;
    }
    const bool rest = json_object_get(schema, "unevaluatedItems") || json_object_get(schema, "unevaluatedProperties");
    own.n = json_is_array(x) ? json_array_size(x) : json_object_size(x);
    if (!out && rest && own.n > 0) {
        own.seen = calloc(own.n, sizeof *own.seen);
        if (!own.seen) {
            fail_validation(v, DOP_E_NOMEM, "out of memory", "");
            return true;
        }
        out = &own;
    }
    v->scope[v->depth++] = dop_schema_index_base(v->index, schema);
    /* Starts with nothing evaluated, because evaluation by sibling schemas does not count for this one. */
    bool good;
    if (out && out != &own && rest) {
        evaluated inner = {.n = out->n, .seen = calloc(out->n + 1, sizeof *inner.seen)};
        if (!inner.seen)
            fail_validation(v, DOP_E_NOMEM, "out of memory", "");
        good = !inner.seen || validate_keywords(v, schema, x, &inner);
        for (size_t i = 0; i < inner.n && inner.seen && good; i++)
            out->seen[i] |= inner.seen[i];
        free(inner.seen);
    } else {
        good = validate_keywords(v, schema, x, out);
    }
    v->depth--;
    free(own.seen);
    return good;
}

dop_status
dop_schema_validate(dop_schema_index *index, const json_t *schema, const json_t *value, dop_budget *budget,
                    dop_diag *diag, bool *out_valid)
{
    validator *v = calloc(1, sizeof *v);
    *out_valid = false;
    if (!v)
        return DOP_NO_MEMORY(diag);
    v->index = index;
    v->budget = budget;
    v->diag = diag;
    *out_valid = validate_value(v, schema, value, NULL);
    for (expression *e = v->expressions, *next; e; e = next) {
        next = e->next;
        pcre2_code_free(e->code);
        free(e);
    }
    dop_status st = v->status;
    free(v);
    return st;
}
