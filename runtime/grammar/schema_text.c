/* Strings of JSON. */
#include "base/utf8.h"
#include "runtime/grammar/schema_internal.h"

#include <stdlib.h>
#include <string.h>

/* The rest of a member's name of which the text may still become one. */
typedef struct name {
    const char *at;
} name;

static void other_keys(dop_schema *s, uint32_t from, name *names, size_t n, const dop_charset *set, uint32_t rest,
                       uint32_t end, uint32_t depth);

/* Adds the strings that go on with character c, as some of the names do. */
static void
keys_with(dop_schema *s, uint32_t from, name *names, size_t n, uint32_t c, const dop_charset *set, uint32_t rest,
          uint32_t end, uint32_t depth)
{
    dop_charset one = {0};
    name *left = calloc(n + 1, sizeof *left);
    size_t n_left = 0;
    uint32_t to = dop_auto_state(&s->a);
    for (size_t i = 0; i < n && left; i++) {
        dop_utf8_char u = dop_utf8_next(names[i].at, strlen(names[i].at));
        if (*names[i].at && u.cp == c)
            left[n_left++].at = names[i].at + u.len;
    }
    s->a.failed |= !left;
    dop_charset_add(&one, c, c);
    dop_auto_chars(&s->a, from, &one, to);
    if (left && !s->a.failed)
        other_keys(s, to, left, n_left, set, rest, end, depth + 1);
    dop_charset_finish(&one);
    free(left);
}

/* Adds the strings that are none of these names; their characters up to `from` are those of all these names. */
static void
other_keys(dop_schema *s, uint32_t from, name *names, size_t n, const dop_charset *set, uint32_t rest, uint32_t end,
           uint32_t depth)
{
    enum { LONGEST = 300 };
    dop_charset free_of = {0};
    bool is_name = false;
    for (size_t i = 0; i < n; i++) {
        dop_utf8_char u = dop_utf8_next(names[i].at, strlen(names[i].at));
        is_name |= !*names[i].at;
        if (*names[i].at && !dop_charset_has(&free_of, u.cp)) {
            dop_charset_add(&free_of, u.cp, u.cp);
            if (dop_charset_has(set, u.cp) && depth < LONGEST)
                keys_with(s, from, names, n, u.cp, set, rest, end, depth);
        }
    }
    dop_charset_negate(&free_of);
    dop_charset_limit(&free_of, set);
    dop_auto_chars(&s->a, from, &free_of, rest);
    dop_charset_finish(&free_of);
    if (!is_name)
        dop_auto_nothing(&s->a, from, end);
}

uint32_t
dop_schema_other_key(dop_schema *s, uint32_t from, const char *const *names, size_t n)
{
    dop_charset set = {0};
    name *all = calloc(n + 1, sizeof *all);
    uint32_t rest = dop_auto_state(&s->a), end = dop_auto_state(&s->a);
    from = dop_schema_text(s, from, "\"");
    dop_schema_plain(&set);
    for (size_t i = 0; i < n && all; i++)
        all[i].at = names[i];
    s->a.failed |= !all || set.failed;
    if (!s->a.failed) {
        dop_auto_chars(&s->a, rest, &set, rest);
        dop_auto_nothing(&s->a, rest, end);
        other_keys(s, from, all, n, &set, rest, end, 0);
    }
    dop_charset_finish(&set);
    free(all);
    return dop_schema_text(s, end, "\"");
}

/* The texts that `format` can name, as patterns. */
static const struct {
    const char *name, *pattern;
} formats[] = {
#define DATE                                                                       \
    "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12]" \
    "[0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
#define TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])"
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
    {"ipv4", "^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$"},
    {"email", "^[a-z0-9]{1,20}(\\.[a-z0-9]{1,20}){0,2}@[a-z0-9]{1,20}(\\.[a-z]{2,10}){1,2}$"},
};

uint32_t
dop_schema_string(dop_schema *s, uint32_t from, const json_t *schema)
{
    const json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    bool bounded = json_object_get(schema, "minLength") || json_object_get(schema, "maxLength");
    uint32_t min = dop_schema_count(s, schema, "minLength", 0);
    uint32_t max = dop_schema_count(s, schema, "maxLength", DOP_AUTO_MANY);
    const char *text = json_string_value(pattern);
    size_t n = json_string_length(pattern);
    if (pattern && !text)
        dop_schema_refuse(s, "pattern is a text");
    if (max < min)
        dop_schema_refuse(s, "maxLength is less than minLength");
    if ((pattern != NULL) + (format != NULL) + bounded > 1)
        dop_schema_refuse(s, "more than one of pattern, format, and minLength or maxLength is not supported");
    for (size_t i = 0; format && !text && i < sizeof formats / sizeof *formats; i++)
        if (json_is_string(format) && strcmp(formats[i].name, json_string_value(format)) == 0) {
            text = formats[i].pattern;
            n = strlen(text);
        }
    if (format && !text)
        dop_schema_refuse(s, "the format %.40s is not supported",
                          json_is_string(format) ? json_string_value(format) : "that is no text");
    if (s->status != DOP_OK)
        return from;
    from = dop_schema_text(s, from, "\"");
    from =
        text ? dop_schema_pattern(s, from, text, n) : dop_auto_repeat(&s->a, from, dop_schema_character(s), min, max);
    return dop_schema_text(s, from, "\"");
}
