/* Characters of JSON strings. */
#include "text/schema/schema_character.h"
#include "text/schema/schema_base.h"
#include "text/schema/schema_internal.h"

#include <string.h>

/* Adds the characters that need no escape in a JSON string. */
void
dop_schema_plain(dop_charset *set)
{
    dop_charset_add(set, 0, 0x1f);
    dop_charset_add(set, '"', '"');
    dop_charset_add(set, '\\', '\\');
    dop_charset_add(set, 0x7f, 0x9f);
    dop_charset_negate(set);
}

static uint32_t
add_hex_digits(dop_schema *s, uint32_t from, const char *first, int n)
{
    /* first: ranges of the first digit, as pairs of first and last digit */
    uint32_t to = dop_auto_state(&s->a);
    for (; *first; first += 2)
        dop_auto_bytes(&s->a, from, (uint8_t)first[0], (uint8_t)first[1], to);
    for (; n > 1; n--) {
        from = to;
        to = dop_auto_state(&s->a);
        dop_auto_bytes(&s->a, from, '0', '9', to);
        dop_auto_bytes(&s->a, from, 'a', 'f', to);
        dop_auto_bytes(&s->a, from, 'A', 'F', to);
    }
    return to;
}

uint32_t
dop_schema_character(dop_schema *s)
{
    if (s->character == DOP_AUTO_NONE) {
        uint32_t start;
        dop_charset set = {0};
        dop_schema_plain(&set);
        s->character = dop_schema_rule_new(s, &start);
        uint32_t end = dop_auto_state(&s->a), escape = dop_schema_text(s, start, "\\");
        dop_auto_chars(&s->a, start, &set, end);
        dop_charset_finish(&set);
        for (const char *c = "\"\\/bfnrt"; *c; c++)
            dop_auto_bytes(&s->a, escape, (uint8_t)*c, (uint8_t)*c, end);
        /* \u is followed by four digits. Excludes 0, which terminates C strings, and surrogates. */
        uint32_t u = dop_schema_text(s, escape, "u"), u0 = dop_schema_text(s, u, "0"),
                 u00 = dop_schema_text(s, u0, "0");
        dop_auto_nothing(&s->a, add_hex_digits(s, u, "19acAC", 4), end);
        dop_auto_nothing(&s->a, add_hex_digits(s, u, "efEF", 4), end);
        uint32_t d = dop_auto_state(&s->a);
        dop_auto_bytes(&s->a, u, 'd', 'd', d);
        dop_auto_bytes(&s->a, u, 'D', 'D', d);
        dop_auto_nothing(&s->a, add_hex_digits(s, d, "07", 3), end);
        dop_auto_nothing(&s->a, add_hex_digits(s, u0, "19afAF", 3), end);
        dop_auto_nothing(&s->a, add_hex_digits(s, u00, "19afAF", 2), end);
        dop_auto_nothing(&s->a, add_hex_digits(s, dop_schema_text(s, u00, "0"), "19afAF", 1), end);
        dop_auto_end(&s->a, end);
    }
    return s->character;
}

/* Adds edges that accept one character of a set in JSON string syntax. */
static void
add_spelled_character(dop_schema *s, uint32_t from, const dop_charset *set, uint32_t to)
{
    static const char escapes[][2] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                      {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};
    static const char digits[] = "0123456789abcdef";
    dop_charset plain = {0};
    dop_schema_plain(&plain);
    dop_charset_limit(&plain, set);
    s->a.failed |= plain.failed;
    dop_auto_chars(&s->a, from, &plain, to);
    dop_charset_finish(&plain);
    uint32_t escape = DOP_AUTO_NONE, left = 0; /* left: bit set of control characters without a one-letter escape */
    for (uint32_t c = 1; c < 0x20; c++)
        left |= dop_charset_has(set, c) ? 1u << c : 0;
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        const unsigned char c = (unsigned char)escapes[i][0];
        if (!dop_charset_has(set, c))
            continue;
        if (escape == DOP_AUTO_NONE)
            escape = dop_schema_text(s, from, "\\");
        dop_auto_bytes(&s->a, escape, (uint8_t)escapes[i][1], (uint8_t)escapes[i][1], to);
        left &= c < 0x20 ? ~(1u << c) : ~0u;
    }
    for (uint32_t half = 0; half < 2 && left; half++) {
        uint32_t at = DOP_AUTO_NONE;
        for (uint32_t c = 16 * half; c < 16 * half + 16; c++) {
            if (!(left >> c & 1))
                continue;
            if (at == DOP_AUTO_NONE)
                at = dop_schema_text(s, from, half ? "\\u001" : "\\u000");
            dop_auto_bytes(&s->a, at, (uint8_t)digits[c % 16], (uint8_t)digits[c % 16], to);
        }
    }
}

uint32_t
dop_schema_set_rule(void *schema, const dop_charset *set)
{
    dop_schema *s = schema;
    uint32_t start;
    for (size_t i = 0; i < s->n_sets; i++)
        if (s->sets[i].set.n == set->n && memcmp(s->sets[i].set.ranges, set->ranges, set->n * sizeof *set->ranges) == 0)
            return s->sets[i].rule;
    s->a.too_large |= !dop_budget_step(s->a.budget, s->n_sets + set->n);
    s->sets = dop_schema_grow(s, s->sets, s->n_sets, &s->cap_sets, sizeof *s->sets);
    const uint32_t rule = dop_schema_rule_new(s, &start), end = dop_auto_state(&s->a);
    if (!dop_schema_goes_on(s))
        return 0;
    add_spelled_character(s, start, set, end);
    dop_auto_end(&s->a, end);
    dop_charset own = {0};
    for (size_t i = 0; i < set->n; i++)
        dop_charset_add(&own, set->ranges[i][0], set->ranges[i][1]);
    s->a.failed |= own.failed;
    s->sets[s->n_sets++] = (dop_schema_set){own, rule};
    return rule;
}
