/* Characters of JSON strings. */
#include "runtime/grammar/schema_internal.h"

/* Characters that stand in a string as they are, without an escape. */
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
hex_digits(dop_schema *s, uint32_t from, const char *first, int n)
{
    /* first: ranges of the first digit, in pairs */
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
        /* \u has the four digits of a character that is neither 0, which ends texts in C, nor half of a pair. */
        uint32_t u = dop_schema_text(s, escape, "u"), u0 = dop_schema_text(s, u, "0"),
                 u00 = dop_schema_text(s, u0, "0");
        dop_auto_nothing(&s->a, hex_digits(s, u, "19acAC", 4), end);
        dop_auto_nothing(&s->a, hex_digits(s, u, "efEF", 4), end);
        uint32_t d = dop_auto_state(&s->a);
        dop_auto_bytes(&s->a, u, 'd', 'd', d);
        dop_auto_bytes(&s->a, u, 'D', 'D', d);
        dop_auto_nothing(&s->a, hex_digits(s, d, "07", 3), end);
        dop_auto_nothing(&s->a, hex_digits(s, u0, "19afAF", 3), end);
        dop_auto_nothing(&s->a, hex_digits(s, u00, "19afAF", 2), end);
        dop_auto_nothing(&s->a, hex_digits(s, dop_schema_text(s, u00, "0"), "19afAF", 1), end);
        dop_auto_end(&s->a, end);
    }
    return s->character;
}
