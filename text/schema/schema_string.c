/* JSON strings. The combination of pattern, format, lengths and negations is a term of regular.h. If it has too many
 * states, keywords are dropped until it is small enough. */
#include "text/schema/schema_string.h"
#include "text/grammar/pattern.h"
#include "text/schema/schema_any.h"
#include "text/schema/schema_base.h"
#include "text/schema/schema_character.h"
#include "text/schema/schema_internal.h"
#include "text/schema/schema_values.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STATES = 20000, MOST_KEY_STATES = 100000, MOST_LENGTH = 100000 };
/* Budget for the term of one string. Keywords that exceed it are dropped instead of rejecting the schema. */
static const uint64_t most_steps = 4000000, most_bytes = 24u << 20;

/* Enforced formats, as patterns: common forms of bounded length that every validator accepts. Leap seconds, quoted
 * mailbox names and non-ASCII letters are excluded. */
static const struct {
    const char *name, *pattern;
} formats[] = {
#define FOURTHS "(0[48]|[2468][048]|[13579][26])"
#define DATE                                                                        \
    "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12]" \
    "[0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|([0-9]{2}" FOURTHS "|" FOURTHS "00)-02-29)"
#define TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])"
#define OCTET "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,46}[A-Za-z0-9])?"
#define HOST LABEL "(\\." LABEL "){0,4}"
#define NAME "[A-Za-z0-9_+-]"
#define MAIL "(" NAME "{1,20}(\\." NAME "{1,20}){0,2}|" NAME "{21,60})@(" LABEL "\\.){1,3}[A-Za-z]{2,20}"
#define HEX4 "[0-9a-fA-F]{1,4}"
#define ESCAPED "%[0-9A-Fa-f]{2}"
#define PATH "([A-Za-z0-9._~!$&'()*+,;=:@/-]|" ESCAPED "){0,200}"
#define QUERY                                                      \
    "(\\?([A-Za-z0-9._~!$&'()*+,;=:@/?-]|" ESCAPED "){0,200})?(#(" \
    "[A-Za-z0-9._~!$&'()*+,;=:@/?-]|" ESCAPED "){0,100})?"
#define PORT "(:[1-9][0-9]{0,4})?"
#define URL "^(https?|ftp|wss?)://" HOST PORT "(/" PATH ")?" QUERY "$"
#define URI URL "|^mailto:" MAIL "$|^(urn|tel|file):" PATH "$"
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration", "^P([0-9]{1,4}W|[0-9]{1,4}Y([0-9]{1,2}M([0-9]{1,3}D)?)?|[0-9]{1,2}M([0-9]{1,3}D)?|([0-9]{1,4}Y[0-9]{1,"
                 "2}M[0-9]{1,3}D|[0-9]{1,4}D)?(T"
                 "([0-9]{1,3}H([0-9]{1,2}M([0-9]{1,2}S)?)?|[0-9]{1,4}M([0-9]{1,2}S)?|[0-9]{1,5}S))|[0-9]{1,4}D)$"},
    {"uuid", "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"},
    {"ipv4", "^(" OCTET "\\.){3}" OCTET "$"},
    {"ipv6", "^(" HEX4 ":){7}" HEX4 "$|^::(" HEX4 "(:" HEX4 "){0,5})?$|^" HEX4 "::(" HEX4 "(:" HEX4 "){0,4})?$|^" HEX4
             ":" HEX4 "::(" HEX4 "(:" HEX4 "){0,3})?$"},
    {"email", "^" MAIL "$"},
    {"idn-email", "^" MAIL "$"},
    {"hostname", "^" HOST "$"},
    {"idn-hostname", "^" HOST "$"},
    {"uri", URI},
    {"iri", URI},
    {"url", URL},
    {"uri-reference", "^(https?://" HOST PORT ")?(/" PATH ")?" QUERY "$"},
    {"iri-reference", "^(https?://" HOST PORT ")?(/" PATH ")?" QUERY "$"},
    {"uri-template", "^(https?://" HOST PORT ")?(/([A-Za-z0-9._~-]{1,40}|\\{[a-z][a-z0-9_]{0,30}\\}))"
                     "{0,10}$"},
    {"json-pointer", "^(/([^/~]|~[01]){0,60}){0,20}$"},
    {"relative-json-pointer", "^(0|[1-9][0-9]{0,3})(#|(/([^/~]|~[01]){0,60}){0,20})$"},
};

enum { PATTERN = 1, FORMAT = 2, LENGTH = 4, NAMES = 8 };

static const char *
find_format_pattern(const json_t *schema)
{
    const char *name = json_string_value(json_object_get(schema, "format"));
    for (size_t i = 0; i < sizeof formats / sizeof *formats && name; i++)
        if (strcmp(formats[i].name, name) == 0)
            return formats[i].pattern;
    return NULL;
}

static dop_term
make_pattern_term(dop_schema *s, dop_regular *r, const char *text, size_t n, const char *keyword)
{
    dop_diag own = {0};
    dop_term t;
    bool irregular = false;
    dop_status st = dop_pattern_term(r, text, n, &own, &t, &irregular);
    if (st == DOP_E_INPUT && !irregular)
        dop_schema_refuse(s, "%s", own.message);
    else if (st == DOP_E_INPUT)
        dop_schema_unenforced(s, keyword);
    r->limited |= st == DOP_E_LIMIT;
    r->failed |= st == DOP_E_NOMEM;
    return st == DOP_OK ? t : DOP_TERM_ANY;
}

/* Returns the term of the strings that the keywords selected by `flags` allow. */
static dop_term
make_string_term(dop_schema *s, dop_regular *r, const json_t *schema, unsigned flags)
{
    const json_t *pattern = json_object_get(schema, "pattern");
    dop_term t = DOP_TERM_ANY;
    if (pattern && !json_is_string(pattern))
        dop_schema_refuse(s, "pattern is a text");
    if (json_is_string(pattern) && (flags & PATTERN))
        t = make_pattern_term(s, r, json_string_value(pattern), json_string_length(pattern), "pattern");
    if ((flags & FORMAT) && find_format_pattern(schema))
        t = dop_regular_and(
            r, t, make_pattern_term(s, r, find_format_pattern(schema), strlen(find_format_pattern(schema)), "format"));
    size_t min = dop_schema_count(s, schema, "minLength", 0), max = dop_schema_count(s, schema, "maxLength", SIZE_MAX);
    if ((flags & LENGTH) && (min > 0 || max < SIZE_MAX)) {
        if (max < min)
            dop_schema_note_empty(s, "maxLength is less than minLength");
        if (min > MOST_LENGTH)
            dop_schema_unenforced(s, "minLength");
        if (max > MOST_LENGTH && max != SIZE_MAX)
            dop_schema_unenforced(s, "maxLength");
        min = min > MOST_LENGTH ? MOST_LENGTH : min;
        t = max < min ? DOP_TERM_NONE
                      : dop_regular_and(r, t,
                                        dop_regular_repeat(r, DOP_TERM_ONE, (uint32_t)min,
                                                           max > MOST_LENGTH ? DOP_AUTO_MANY : (uint32_t)max));
    }
    return t;
}

/* Returns the term of the strings in a list of const or enum values. */
static dop_term
make_words_term(dop_schema *s, dop_regular *r, const json_t *list)
{
    const char **words = calloc(json_array_size(list) + 1, sizeof *words);
    size_t i, n = 0;
    const json_t *v;
    s->a.failed |= !words;
    json_array_foreach(list, i, v) if (words && json_is_string(v)) words[n++] = json_string_value(v);
    return words ? dop_regular_words(r, words, n) : DOP_TERM_NONE;
}

static dop_term
make_nots_term(dop_schema *s, dop_regular *r, const dop_conjunction *c, unsigned flags)
{
    dop_term t = DOP_TERM_ANY;
    for (size_t i = 0; i < c->n_nots; i++) {
        json_t *list = dop_schema_pinned(c->nots[i]);
        const json_t *pattern = json_object_get(c->nots[i], "pattern");
        dop_term not = list ? make_words_term(s, r, list) : DOP_TERM_NONE;
        json_decref(list);
        if (json_is_string(pattern) && (flags & PATTERN))
            not = make_pattern_term(s, r, json_string_value(pattern), json_string_length(pattern), "not");
        if (json_is_string(pattern) && not == DOP_TERM_ANY)
            not = DOP_TERM_NONE; /* an unsupported pattern forbids nothing */
        t = dop_regular_and(r, t, dop_regular_not(r, not ));
    }
    return t;
}

static void
init_spelling(dop_schema *s, dop_spelling *out)
{
    dop_charset plain = {0}, ascii = {0};
    dop_schema_plain(&plain);
    dop_charset_add(&ascii, 0, 0x7e);
    dop_charset_limit(&plain, &ascii);
    dop_charset_finish(&ascii);
    s->a.failed |= plain.failed;
    *out = (dop_spelling){.rule = dop_schema_set_rule, .user = s, .plain = plain};
}

static dop_status
emit_string_term(dop_schema *s, dop_regular *r, dop_term t, size_t most, uint32_t from, uint32_t to)
{
    dop_diag own = {0};
    dop_spelling how;
    init_spelling(s, &how);
    dop_status st = r->limited ? DOP_E_LIMIT : dop_regular_emit(r, t, most, &how, &s->a, from, to, &own);
    s->a.failed |= r->failed;
    dop_charset_finish(&how.plain);
    return st;
}

static unsigned
find_string_keywords(const dop_conjunction *c, bool formats_too)
{
    unsigned flags = 0;
    for (size_t i = 0; i < c->n; i++)
        flags |= (json_object_get(c->all[i], "pattern") ? PATTERN : 0u) |
                 (formats_too && find_format_pattern(c->all[i]) ? FORMAT : 0u) |
                 (json_object_get(c->all[i], "minLength") || json_object_get(c->all[i], "maxLength") ? LENGTH : 0u);
    for (size_t i = 0; i < c->n_nots; i++)
        flags |= json_object_get(c->nots[i], "pattern") ? PATTERN : NAMES;
    return flags;
}

static dop_status
try_string(dop_schema *s, const dop_conjunction *c, unsigned flags, uint32_t from, uint32_t to)
{
    dop_budget own = {.steps = most_steps, .bytes = most_bytes};
    dop_regular *r = malloc(sizeof *r);
    if (!r) {
        s->a.failed = true;
        return DOP_E_NOMEM;
    }
    dop_regular_init(r, &own);
    dop_term t = make_nots_term(s, r, c, flags);
    for (size_t i = 0; i < c->n && s->status == DOP_OK; i++)
        t = dop_regular_and(r, t, make_string_term(s, r, c->all[i], flags));
    const dop_status st = s->status == DOP_OK ? emit_string_term(s, r, t, MOST_STATES, from, to) : s->status;
    dop_regular_finish(r);
    free(r);
    s->a.too_large |= !dop_budget_step(s->a.budget, most_steps - own.steps);
    return st;
}

/* Reports the dropped keywords as unenforced. */
static void
report_left_out(dop_schema *s, const dop_conjunction *c, unsigned flags)
{
    static const char *const names[][2] = {{"pattern", "pattern"}, {"minLength", "maxLength"}};
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < 2; k++) {
            if ((flags & PATTERN) && k == 0 && json_object_get(c->all[i], names[0][k]))
                dop_schema_unenforced(s, names[0][k]);
            if ((flags & LENGTH) && json_object_get(c->all[i], names[1][k]))
                dop_schema_unenforced(s, names[1][k]);
        }
    if ((flags & PATTERN) && c->n_nots > 0)
        dop_schema_unenforced(s, "not");
}

void
dop_schema_add_string(dop_schema *s, const dop_conjunction *c, uint32_t from, uint32_t to)
{
    const unsigned flags = find_string_keywords(c, !s->open);
    /* Formats are annotations in the standard: if a format contradicts a pattern, the pattern has priority. */
    const unsigned tries[] = {flags, flags & ~(unsigned)FORMAT, flags & (PATTERN | NAMES), flags & (LENGTH | NAMES), 0};
    if (flags == 0) {
        dop_auto_call_to(&s->a, from, dop_schema_any_string(s), to);
        return;
    }
    const uint32_t start = dop_schema_text(s, from, "\""), end = dop_auto_state(&s->a);
    dop_status st = DOP_E_LIMIT;
    for (size_t i = 0; i < sizeof tries / sizeof *tries && dop_schema_goes_on(s); i++) {
        if (i > 0 && tries[i] == tries[i - 1])
            continue;
        const bool again = st == DOP_E_LIMIT || (st == DOP_E_INPUT && (tries[i - (i > 0)] & FORMAT));
        if (i > 0 && !again)
            break;
        st = try_string(s, c, tries[i], start, end);
        if (st == DOP_OK && i > 1)
            report_left_out(s, c, flags & ~tries[i]);
    }
    if (st == DOP_E_INPUT)
        dop_schema_note_empty(s, "no text fits: its keywords exclude one another, or the pattern has no text");
    dop_auto_nothing(&s->a, dop_schema_text(s, end, "\""), to);
}

/* --- names of members --------------------------------------------------------------------------------------------------------------- */

static dop_term
make_name_term(dop_schema *s, dop_regular *r, const json_t *schema, const char *keyword, uint32_t depth)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref")), *key;
    json_t *v;
    size_t i;
    const json_t *one;
    if (!json_is_object(schema) || depth > 50)
        return json_is_false(schema) ? DOP_TERM_NONE : DOP_TERM_ANY;
    json_t *list = dop_schema_pinned(schema);
    dop_term t = make_string_term(s, r, schema, PATTERN | LENGTH | (s->open ? 0 : FORMAT));
    if (list)
        t = dop_regular_and(r, t, make_words_term(s, r, list));
    json_decref(list);
    if (json_object_get(schema, "type") && !(dop_schema_types(s, json_object_get(schema, "type")) & DOP_IS_STRING))
        t = DOP_TERM_NONE;
    if (ref)
        t = dop_regular_and(r, t, make_name_term(s, r, dop_schema_resolve(s, schema, ref), keyword, depth + 1));
    json_array_foreach(json_object_get(schema, "allOf"), i, one) t =
        dop_regular_and(r, t, make_name_term(s, r, one, keyword, depth + 1));
    dop_term any = DOP_TERM_NONE;
    json_array_foreach(json_object_get(schema, "anyOf"), i, one) any =
        dop_regular_alt(r, any, make_name_term(s, r, one, keyword, depth + 1));
    if (json_array_size(json_object_get(schema, "anyOf")) > 0)
        t = dop_regular_and(r, t, any);
    static const char *const others[] = {"not", "oneOf", "if", "$dynamicRef"};
    json_object_foreach((json_t *)(uintptr_t)schema, key, v) for (size_t k = 0; k < sizeof others / sizeof *others;
                                                                  k++) if (strcmp(others[k], key) == 0)
        dop_schema_unenforced(s, keyword);
    return t;
}

static dop_term
make_key_term(dop_schema *s, dop_regular *r, const dop_schema_key *key, bool with_names)
{
    dop_term t = DOP_TERM_ANY;
    size_t i;
    const json_t *v;
    if (with_names && json_array_size(key->names) > 0)
        t = dop_regular_not(r, make_words_term(s, r, key->names));
    json_array_foreach(key->yes, i, v) t = dop_regular_and(
        r, t, make_pattern_term(s, r, json_string_value(v), json_string_length(v), "patternProperties"));
    json_array_foreach(key->no, i, v) t = dop_regular_and(
        r, t,
        dop_regular_not(r, make_pattern_term(s, r, json_string_value(v), json_string_length(v), "patternProperties")));
    for (i = 0; i < key->n_schemas; i++)
        t = dop_regular_and(r, t, make_name_term(s, r, key->schemas[i], "propertyNames", 0));
    return t;
}

void
dop_schema_add_key(dop_schema *s, const dop_schema_key *key, uint32_t from, uint32_t to)
{
    if (json_array_size(key->names) + json_array_size(key->yes) + json_array_size(key->no) + key->n_schemas == 0) {
        dop_auto_call_to(&s->a, from, dop_schema_any_string(s), to);
        return;
    }
    dop_regular *r = malloc(sizeof *r);
    const uint32_t start = dop_schema_text(s, from, "\""), end = dop_auto_state(&s->a);
    dop_status st = DOP_E_LIMIT;
    s->a.failed |= !r;
    for (size_t i = 0; i < 2 && r && st == DOP_E_LIMIT && dop_schema_goes_on(s); i++) {
        dop_budget own = {.steps = most_steps, .bytes = most_bytes};
        dop_regular_init(r, &own);
        const dop_term t = make_key_term(s, r, key, i == 0);
        if (s->status == DOP_OK)
            st = emit_string_term(s, r, t, MOST_KEY_STATES, start, end);
        dop_regular_finish(r);
        s->a.too_large |= !dop_budget_step(s->a.budget, most_steps - own.steps);
        if (i > 0)
            dop_schema_unenforced(s, key->keyword);
    }
    free(r);
    if (st == DOP_E_LIMIT && dop_schema_goes_on(s)) {
        dop_schema_unenforced(s, key->keyword);
        dop_auto_nothing(&s->a, dop_auto_repeat(&s->a, start, dop_schema_character(s), 0, DOP_AUTO_MANY), end);
    }
    dop_auto_nothing(&s->a, dop_schema_text(s, end, "\""), to);
}
