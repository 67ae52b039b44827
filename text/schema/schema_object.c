/* Objects: members named by `properties` and `required`, in this order, then other members. States count the written
 * members where needed: for the comma before the next member, and for minProperties and maxProperties. */
#include "text/schema/schema_object.h"
#include "text/grammar/pattern.h"
#include "text/schema/schema_any.h"
#include "text/schema/schema_base.h"
#include "text/schema/schema_internal.h"
#include "text/schema/schema_rules.h"
#include "text/schema/schema_string.h"
#include "text/schema/validate.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STATES = 400000, MOST_PATTERNS = 4 };

typedef struct member {
    const char *name;
    bool required;
    uint32_t rule; /* rule for the member: name, colon and value */
} member;

typedef struct object {
    const dop_conjunction *c;
    member *members; /* [n] owned: the named members */
    size_t n, cap;
    json_t *names;              /* owned list: names of all members that keywords name */
    json_t *patterns;           /* owned list without duplicates: all patterns of member names */
    pcre2_code **matchers;      /* owned: compiled `patterns`; NULL if a pattern cannot be compiled */
    const json_t **key_schemas; /* owned: schemas of propertyNames */
    size_t n_key_schemas;
    uint32_t *others; /* owned: rules for other members, each including name, colon and value */
    size_t n_others, cap_others;
    size_t min, max; /* bounds on the number of members; max SIZE_MAX: unlimited */
    bool never;
} object;

/* --- schemas of a member ------------------------------------------------------------------------------------------------------ */

static bool
matches_member_pattern(dop_schema *s, const object *o, const char *pattern, const char *name)
{
    size_t i;
    const json_t *p;
    json_array_foreach(o->patterns, i, p)
    {
        if (strcmp(json_string_value(p), pattern) != 0 || !o->matchers[i])
            continue;
        pcre2_match_data *data = pcre2_match_data_create(1, NULL);
        const int found =
            data ? pcre2_match(o->matchers[i], (PCRE2_SPTR)name, strlen(name), 0, 0, data, NULL) : PCRE2_ERROR_NOMEMORY;
        pcre2_match_data_free(data);
        if (found < 0 && found != PCRE2_ERROR_NOMATCH)
            dop_schema_refuse(s, "patternProperties: \"%.100s\" takes too many steps", pattern);
        return found >= 0;
    }
    return false;
}

/* True if a closure's names or patterns include the member, so that the closure's schema does not apply to it. */
static bool
is_closure_member(dop_schema *s, const object *o, const dop_closure *closure, const char *name)
{
    const char *pattern;
    json_t *v;
    if (json_object_get(closure->names, name))
        return true;
    json_object_foreach((json_t *)(uintptr_t)closure->patterns, pattern,
                        v) if (matches_member_pattern(s, o, pattern, name)) return true;
    return false;
}

static void
push_member_schema(const json_t **list, size_t *io_n, const json_t *schema, bool *io_never)
{
    *io_never |= json_is_false(schema);
    if (schema && !json_is_true(schema))
        list[(*io_n)++] = schema;
}

static size_t
count_member_schemas(const dop_conjunction *c)
{
    size_t n = c->n + c->n_closures + 1;
    for (size_t i = 0; i < c->n; i++)
        n += json_object_size(json_object_get(c->all[i], "patternProperties"));
    return n;
}

/* Lists the schemas that apply to the value of a member with this name. list: room for count_member_schemas() items. */
static size_t
list_member_schemas(dop_schema *s, const object *o, const char *name, const json_t **list, bool *io_never)
{
    size_t n = 0;
    const char *pattern;
    json_t *v;
    for (size_t i = 0; i < o->c->n; i++) {
        push_member_schema(list, &n, json_object_get(json_object_get(o->c->all[i], "properties"), name), io_never);
        json_object_foreach(json_object_get(o->c->all[i], "patternProperties"), pattern, v)
        {
            if (matches_member_pattern(s, o, pattern, name))
                push_member_schema(list, &n, v, io_never);
        }
    }
    for (size_t i = 0; i < o->c->n_closures; i++)
        if (!o->c->closures[i].for_items && !is_closure_member(s, o, &o->c->closures[i], name))
            push_member_schema(list, &n, o->c->closures[i].schema, io_never);
    for (size_t i = 0; i < o->n_key_schemas && !*io_never; i++) {
        json_t *text = json_string(name);
        *io_never |= text && !dop_schema_allows(s, o->key_schemas[i], text);
        json_decref(text);
    }
    return n;
}

static uint32_t
make_member_rule(dop_schema *s, const char *name, const json_t *const *list, size_t n)
{
    uint32_t start, rule = dop_schema_rule_new(s, &start);
    json_t *key = json_string(name);
    char *text = json_dumps(key, JSON_ENCODE_ANY);
    s->a.failed |= !text;
    uint32_t at = text ? dop_schema_blank(s, dop_schema_text(s, dop_schema_text(s, start, text), ":")) : start;
    free(text);
    json_decref(key);
    dop_auto_end(&s->a, dop_auto_call(&s->a, at, dop_schema_rule_of(s, name, list, n)));
    return rule;
}

/* --- gathering ------------------------------------------------------------------------------------------------------------------- */

static void
gather_patterns(dop_schema *s, object *o)
{
    json_t *known = json_object(), *v;
    const char *pattern;
    size_t i;
    const json_t *p;
    for (size_t k = 0; k < o->c->n + o->c->n_closures; k++) {
        const json_t *of =
            k < o->c->n ? json_object_get(o->c->all[k], "patternProperties") : o->c->closures[k - o->c->n].patterns;
        json_object_foreach((json_t *)(uintptr_t)of, pattern, v)
        {
            if (json_object_get(known, pattern))
                continue;
            s->a.failed |= json_object_set_new(known, pattern, json_true()) != 0;
            s->a.failed |= json_array_append_new(o->patterns, json_string(pattern)) != 0;
        }
    }
    json_decref(known);
    o->matchers = calloc(json_array_size(o->patterns) + 1, sizeof *o->matchers);
    s->a.failed |= !o->matchers;
    json_array_foreach(o->patterns, i, p)
    {
        int error;
        size_t offset;
        dop_buf text = {0};
        dop_pattern_to_pcre2(json_string_value(p), json_string_length(p), &text);
        if (o->matchers)
            o->matchers[i] = pcre2_compile((PCRE2_SPTR)(text.size ? text.data : ""), text.size,
                                           PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX | PCRE2_ALLOW_EMPTY_CLASS,
                                           &error, &offset, NULL);
        dop_buf_finish(&text);
        if (o->matchers && !o->matchers[i])
            dop_schema_refuse(s, "patternProperties: \"%.100s\" is no regular expression", json_string_value(p));
    }
}

static void
add_member(dop_schema *s, object *o, json_t *known, const char *name, const json_t *required)
{
    if (json_object_get(known, name))
        return;
    o->members = dop_schema_grow(s, o->members, o->n, &o->cap, sizeof *o->members);
    s->a.failed |= json_object_set_new(known, name, json_true()) != 0;
    if (!dop_schema_goes_on(s))
        return;
    s->a.failed |= json_array_append_new(o->names, json_string(name)) != 0;
    o->members[o->n++] = (member){.name = name, .required = json_object_get(required, name) != NULL};
}

/* Gathers the named members and drops those without a valid value. */
static void
gather_members(dop_schema *s, object *o)
{
    const dop_conjunction *c = o->c;
    json_t *known = json_object(), *required = json_object(), *v;
    const char *name;
    size_t i, k;
    const json_t *r;
    for (i = 0; i < c->n; i++)
        json_array_foreach(json_object_get(c->all[i], "required"), k, r)
        {
            if (!json_is_string(r))
                dop_schema_refuse(s, "required is a list of names");
            else
                s->a.failed |= json_object_set_new(required, json_string_value(r), json_true()) != 0;
        }
    for (i = 0; i < c->n; i++)
        json_object_foreach(json_object_get(c->all[i], "properties"), name, v) add_member(s, o, known, name, required);
    for (i = 0; i < c->n; i++)
        json_array_foreach(json_object_get(c->all[i], "required"), k, r) if (json_is_string(r))
            add_member(s, o, known, json_string_value(r), required);
    /* unevaluatedProperties also includes names from schemas that are not in `all`. */
    for (i = 0; i < c->n_closures && s->open; i++)
        json_object_foreach((json_t *)(uintptr_t)c->closures[i].names, name, v) add_member(s, o, known, name, required);
    json_decref(known);
    json_decref(required);
    const json_t **list = malloc(count_member_schemas(c) * sizeof *list);
    size_t n = 0;
    s->a.failed |= !list;
    for (i = 0; i < o->n && list && dop_schema_goes_on(s) && !o->never; i++) {
        bool never = false;
        const size_t n_list = list_member_schemas(s, o, o->members[i].name, list, &never);
        s->a.too_large |= !dop_budget_step(s->a.budget, 4 + n_list);
        if (never && o->members[i].required) {
            dop_schema_note_empty(
                s, "\"%.60s\" is required, and neither properties nor additionalProperties has it, or false forbids it",
                o->members[i].name);
            o->never = true;
        }
        if (never)
            continue;
        o->members[n] = o->members[i];
        o->members[n].rule = make_member_rule(s, o->members[n].name, list, n_list);
        n++;
    }
    o->n = n;
    free((void *)list);
}

/* --- other members ----------------------------------------------------------------------------------------------------------------- */

/* True if an object may have members that no keyword names. Without DOP_SCHEMA_OPEN, some keyword must allow or
 * require them, or no keyword names members. Exception: empty `properties` alone, as in functions without arguments,
 * allow none. */
static bool
allows_other_members(const dop_schema *s, const dop_conjunction *c)
{
    bool named = false, allowed = false;
    for (size_t i = 0; i < c->n; i++) {
        const json_t *more = json_object_get(c->all[i], "additionalProperties"),
                     *rest = json_object_get(c->all[i], "unevaluatedProperties"),
                     *properties = json_object_get(c->all[i], "properties");
        named |= json_object_size(properties) > 0 || (properties && !json_object_get(c->all[i], "minProperties"));
        allowed |= (more && !json_is_false(more)) || (rest && !json_is_false(rest)) ||
                   json_object_get(c->all[i], "propertyNames") ||
                   json_object_size(json_object_get(c->all[i], "patternProperties")) > 0;
    }
    return s->open || allowed || !named;
}

/* Adds a rule for other members whose names match exactly the patterns with a bit set in `yes`. */
static void
add_other_members(dop_schema *s, object *o, unsigned yes)
{
    const dop_conjunction *c = o->c;
    const json_t **list = malloc(count_member_schemas(c) * sizeof *list);
    dop_schema_key key = {.names = o->names,
                          .schemas = o->key_schemas,
                          .n_schemas = o->n_key_schemas,
                          .keyword = json_array_size(o->patterns) ? "patternProperties" : "additionalProperties"};
    json_t *in = json_object(), *lists[2] = {json_array(), json_array()}, *v;
    size_t n = 0, i;
    const char *pattern;
    const json_t *p;
    bool never = false;
    json_array_foreach(o->patterns, i, p)
    {
        s->a.failed |= json_array_append(lists[yes >> i & 1], (json_t *)(uintptr_t)p) != 0;
        if (yes >> i & 1)
            s->a.failed |= json_object_set_new(in, json_string_value(p), json_true()) != 0;
    }
    for (i = 0; i < c->n && list; i++)
        json_object_foreach(json_object_get(c->all[i], "patternProperties"), pattern,
                            v) if (json_object_get(in, pattern)) push_member_schema(list, &n, v, &never);
    for (i = 0; i < c->n_closures && list; i++) {
        bool named = c->closures[i].for_items;
        json_object_foreach((json_t *)(uintptr_t)c->closures[i].patterns, pattern, v) named |=
            json_object_get(in, pattern) != NULL;
        if (!named)
            push_member_schema(list, &n, c->closures[i].schema, &never);
    }
    if (list && !never && dop_schema_goes_on(s)) {
        uint32_t start, rule = dop_schema_rule_new(s, &start);
        const uint32_t at = dop_auto_state(&s->a);
        key.yes = lists[1];
        key.no = lists[0];
        dop_schema_add_key(s, &key, start, at);
        const uint32_t value = dop_schema_blank(s, dop_schema_text(s, at, ":"));
        dop_auto_end(&s->a, dop_auto_call(&s->a, value, dop_schema_rule_of(s, "additionalProperties", list, n)));
        o->others = dop_schema_grow(s, o->others, o->n_others, &o->cap_others, sizeof *o->others);
        if (dop_schema_goes_on(s))
            o->others[o->n_others++] = rule;
    }
    free((void *)list);
    json_decref(in);
    json_decref(lists[0]);
    json_decref(lists[1]);
}

static void
gather_other_members(dop_schema *s, object *o)
{
    const size_t n = json_array_size(o->patterns);
    if (!allows_other_members(s, o->c))
        return;
    if (n > MOST_PATTERNS) { /* too many combinations: allow any name and value */
        uint32_t start, rule = dop_schema_rule_new(s, &start);
        dop_schema_unenforced(s, "patternProperties");
        const uint32_t key = dop_auto_call(&s->a, start, dop_schema_any_string(s));
        const uint32_t value = dop_schema_blank(s, dop_schema_text(s, key, ":"));
        dop_auto_end(&s->a, dop_auto_call(&s->a, value, dop_schema_any_value(s)));
        o->others = dop_schema_grow(s, o->others, 0, &o->cap_others, sizeof *o->others);
        if (dop_schema_goes_on(s))
            o->others[o->n_others++] = rule;
        return;
    }
    bool closed = !s->open && n > 0;
    for (size_t i = 0; i < o->c->n && closed; i++) {
        const json_t *more = json_object_get(o->c->all[i], "additionalProperties");
        closed = !(more && !json_is_false(more));
    }
    for (unsigned yes = closed ? 1 : 0; yes < 1u << n; yes++)
        add_other_members(s, o, yes);
}

/* --- states ------------------------------------------------------------------------------------------------------------------------- */

/* Returns the number up to which members must be counted. */
static size_t
find_count_limit(dop_schema *s, object *o)
{
    size_t needed = 0, most = 1;
    for (size_t i = 0; i < o->n; i++)
        needed += o->members[i].required;
    if (o->max != SIZE_MAX && (o->n_others > 0 || o->n > o->max))
        most = o->max > most ? o->max : most;
    if (o->min > needed)
        most = o->min > most ? o->min : most;
    if (o->min > needed + 1 && o->n_others > 0)
        dop_schema_unenforced(s, "minProperties"); /* not exact: two of the other members might have the same name */
    if ((o->n + 2) * (most + 1) > MOST_STATES) {
        dop_schema_unenforced(s, o->min > needed ? "minProperties" : "maxProperties");
        o->min = o->min > needed ? needed : o->min;
        o->max = SIZE_MAX;
        most = 1;
    }
    return most;
}

/* Adds a member between two states, preceded by a comma unless it is the first one. */
static void
add_member_edge(dop_schema *s, uint32_t from, bool first, uint32_t rule, uint32_t to)
{
    if (from == DOP_AUTO_NONE || !dop_schema_goes_on(s))
        return;
    dop_auto_call_to(&s->a, first ? from : dop_schema_blank(s, dop_schema_text(s, from, ",")), rule, to);
}

static void
add_member_states(dop_schema *s, object *o, uint32_t open, uint32_t end)
{
    const size_t wanted = find_count_limit(s, o), most = wanted < o->max ? wanted : o->max;
    /* stops: no member may follow `most` members. Otherwise the last state of a row represents `most` or more
     * members. */
    const bool stops = o->max != SIZE_MAX && most >= o->max;
    uint32_t *row = malloc(2 * (most + 1) * sizeof *row), *next = row ? row + most + 1 : NULL;
    s->a.failed |= !row;
    for (size_t k = 0; k <= most && row; k++)
        row[k] = k == 0 ? open : DOP_AUTO_NONE;
    for (size_t i = 0; i < o->n && row && dop_schema_goes_on(s); i++) {
        const member *m = &o->members[i];
        for (size_t k = 0; k <= most; k++)
            next[k] = DOP_AUTO_NONE;
        for (size_t k = 0; k <= most; k++) {
            if (row[k] == DOP_AUTO_NONE)
                continue;
            if (!m->required) {
                if (next[k] == DOP_AUTO_NONE)
                    next[k] = dop_auto_state(&s->a);
                dop_auto_nothing(&s->a, row[k], next[k]);
            }
            if (k == most && stops)
                continue;
            const size_t to = k < most ? k + 1 : k;
            if (next[to] == DOP_AUTO_NONE)
                next[to] = dop_auto_state(&s->a);
            add_member_edge(s, row[k], k == 0, m->rule, next[to]);
        }
        memcpy(row, next, (most + 1) * sizeof *row);
    }
    for (size_t k = 0; k <= most && row && o->n_others > 0 && !(k == most && stops); k++) {
        const size_t to = k < most ? k + 1 : k;
        if (row[k] == DOP_AUTO_NONE)
            continue;
        if (row[to] == DOP_AUTO_NONE)
            row[to] = dop_auto_state(&s->a);
        const uint32_t at = dop_auto_state(&s->a), back = to == k ? at : row[to];
        dop_auto_nothing(&s->a, row[k], at);
        for (size_t i = 0; i < o->n_others; i++)
            add_member_edge(s, at, k == 0, o->others[i], back);
        if (to == k)
            row[k] = at;
    }
    for (size_t k = 0; k <= most && row; k++)
        if (row[k] != DOP_AUTO_NONE && (k >= o->min || k == most))
            dop_auto_nothing(&s->a, k == 0 ? row[k] : dop_schema_blank(s, row[k]), end);
    free(row);
}

static void
finish_object(object *o)
{
    for (size_t i = 0; i < json_array_size(o->patterns) && o->matchers; i++)
        pcre2_code_free(o->matchers[i]);
    free(o->matchers);
    free(o->members);
    free((void *)o->key_schemas);
    free(o->others);
    json_decref(o->names);
    json_decref(o->patterns);
}

void
dop_schema_add_object(dop_schema *s, const dop_conjunction *c, uint32_t from, uint32_t to)
{
    object o = {.c = c, .names = json_array(), .patterns = json_array(), .max = SIZE_MAX};
    bool any = true;
    o.key_schemas = calloc(c->n + 1, sizeof *o.key_schemas);
    s->a.failed |= !o.key_schemas || !o.names || !o.patterns;
    for (size_t i = 0; i < c->n && !s->a.failed; i++) {
        const json_t *names = json_object_get(c->all[i], "propertyNames");
        const size_t min = dop_schema_count(s, c->all[i], "minProperties", 0),
                     max = dop_schema_count(s, c->all[i], "maxProperties", SIZE_MAX);
        o.min = min > o.min ? min : o.min;
        o.max = max < o.max ? max : o.max;
        if (names && !json_is_true(names))
            o.key_schemas[o.n_key_schemas++] = names;
        any &= !json_object_get(c->all[i], "properties") && !json_object_get(c->all[i], "required") &&
               !json_object_get(c->all[i], "patternProperties");
    }
    if (o.min > o.max)
        dop_schema_note_empty(s, "minProperties is more than maxProperties");
    for (size_t i = 0; i < c->n_closures; i++)
        any &= c->closures[i].for_items;
    if (any && o.n_key_schemas == 0 && o.min == 0 && o.max == SIZE_MAX) {
        dop_auto_call_to(&s->a, from, dop_schema_any_object(s), to);
    } else if (dop_schema_goes_on(s) && o.min <= o.max) {
        const uint32_t end = dop_auto_state(&s->a);
        gather_patterns(s, &o);
        if (dop_schema_goes_on(s))
            gather_members(s, &o);
        if (dop_schema_goes_on(s) && !o.never)
            gather_other_members(s, &o);
        if (dop_schema_goes_on(s) && !o.never)
            add_member_states(s, &o, dop_schema_blank(s, dop_schema_text(s, from, "{")), end);
        dop_auto_nothing(&s->a, dop_schema_text(s, end, "}"), to);
    }
    finish_object(&o);
}
