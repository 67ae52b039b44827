/* Compiles the regular expressions of `pattern`: the part of ECMA-262 that is regular.  They match the characters that a string
 * means, and the automaton accepts these as JSON writes them, with its escapes. */
#include "base/utf8.h"
#include "runtime/grammar/schema_internal.h"

#include <string.h>

enum { DEEPEST = 100, MOST_REPEATS = 10000 };

typedef struct expression {
    dop_schema *s;
    const char *at, *end;
    uint32_t depth;
    bool negated; /* the class of characters at hand is [^...] */
} expression;

static char
peek(const expression *x)
{
    return x->at < x->end ? *x->at : 0;
}

static void
refuse(expression *x, const char *what)
{
    dop_schema_refuse(x->s, "pattern: %s", what);
}

/* Adds edges that accept one character of the set as a string of JSON spells it. */
static void
spell(dop_schema *s, uint32_t from, const dop_charset *set, uint32_t to)
{
    static const char escapes[][2] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                      {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};
    dop_charset plain = {0};
    dop_schema_plain(&plain);
    dop_charset_limit(&plain, set);
    s->a.failed |= plain.failed;
    dop_auto_chars(&s->a, from, &plain, to);
    dop_charset_finish(&plain);
    uint32_t escape = DOP_AUTO_NONE;
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        if (!dop_charset_has(set, (unsigned char)escapes[i][0]))
            continue;
        if (escape == DOP_AUTO_NONE)
            escape = dop_schema_text(s, from, "\\");
        dop_auto_bytes(&s->a, escape, (uint8_t)escapes[i][1], (uint8_t)escapes[i][1], to);
    }
}

/* Reads \d, \w, \s and their opposites; false: c is another letter.  Readers of patterns differ about characters beyond ASCII, so
 * neither a class nor its opposite matches those here: then a text is valid for all readers.  negated: the set becomes all other
 * characters. */
static bool
known_class(char c, bool negated, dop_charset *set)
{
    static const uint32_t blanks[][2] = {{0x1c, 0x1f},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
                                         {0x180e, 0x180e}, {0x2000, 0x200b}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                         {0x205f, 0x2060}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    const bool opposite = c < 'a', wide = opposite != negated;
    dop_charset own = {0};
    switch (c | 0x20) {
    case 'd':
        dop_charset_add(&own, '0', '9');
        break;
    case 'w':
        dop_charset_add(&own, '0', '9');
        dop_charset_add(&own, 'A', 'Z');
        dop_charset_add(&own, 'a', 'z');
        dop_charset_add(&own, '_', '_');
        break;
    case 's':
        dop_charset_add(&own, ' ', ' ');
        dop_charset_add(&own, '\t', '\r');
        for (size_t i = 0; wide && i < sizeof blanks / sizeof *blanks; i++)
            dop_charset_add(&own, blanks[i][0], blanks[i][1]);
        break;
    default:
        return false;
    }
    if (wide && (c | 0x20) != 's')
        dop_charset_add(&own, 0x80, 0x10ffff);
    if (opposite)
        dop_charset_negate(&own);
    for (size_t i = 0; i < own.n; i++)
        dop_charset_add(set, own.ranges[i][0], own.ranges[i][1]);
    set->failed |= own.failed;
    dop_charset_finish(&own);
    return true;
}

static uint32_t
hex(expression *x, int digits)
{
    uint32_t c = 0;
    for (int i = 0; i < digits; i++, x->at++) {
        int v = dop_hex_digit(peek(x));
        if (v < 0)
            refuse(x, "expected a hexadecimal digit");
        c = c * 16 + (uint32_t)(v < 0 ? 0 : v);
    }
    return c;
}

/* Reads \\uHHHH, of which two may be the halves of one character. */
static uint32_t
utf16(expression *x)
{
    const uint32_t c = hex(x, 4);
    if ((c & 0xfc00) != 0xd800 || x->end - x->at < 6 || x->at[0] != '\\' || x->at[1] != 'u')
        return c;
    x->at += 2;
    const uint32_t low = hex(x, 4);
    if ((low & 0xfc00) != 0xdc00)
        refuse(x, "half of a surrogate pair");
    return 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff);
}

/* Reads one character, which may begin with a backslash.  A class of characters goes into `set` and gives UINT32_MAX. */
static uint32_t
character(expression *x, dop_charset *set, bool in_class)
{
    if (peek(x) != '\\') {
        dop_utf8_char c = dop_utf8_next(x->at, (size_t)(x->end - x->at));
        x->at += c.len ? c.len : 1;
        return c.cp;
    }
    char c = x->at + 1 < x->end ? x->at[1] : 0;
    x->at += 2;
    if (known_class(c, x->negated, set))
        return UINT32_MAX;
    switch (c) {
    case 't':
        return '\t';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 'f':
        return '\f';
    case 'b':
        if (in_class)
            return '\b';
        break;
    case 'x':
        return hex(x, 2);
    case 'u':
        return utf16(x);
    default:
        break;
    }
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == 0;
    if (letter)
        refuse(x, "only \\d \\w \\s \\D \\W \\S \\t \\n \\r \\f \\xHH \\uHHHH and escaped signs are supported");
    return (unsigned char)c;
}

static void
class_of(expression *x, dop_charset *set)
{
    x->negated = peek(x) == '^';
    x->at += x->negated;
    for (bool first = true; x->s->status == DOP_OK && (first || peek(x) != ']'); first = false) {
        if (peek(x) == ']')
            break;
        if (x->at >= x->end) {
            refuse(x, "a class of characters has no closing ]");
            return;
        }
        uint32_t from = character(x, set, true), to = from;
        if (from != UINT32_MAX && peek(x) == '-' && x->at + 1 < x->end && x->at[1] != ']') {
            x->at++;
            to = character(x, set, true);
            if (to == UINT32_MAX || to < from)
                refuse(x, "a range of characters goes backwards");
        }
        if (from != UINT32_MAX && x->s->status == DOP_OK)
            dop_charset_add(set, from, to);
    }
    x->at++;
    if (x->negated)
        dop_charset_negate(set);
    x->negated = false;
}

static void alternatives(expression *x, uint32_t from, uint32_t to, bool top);

/* Compiles an atom to a rule of its own, so that it can be repeated. */
static uint32_t
atom(expression *x)
{
    uint32_t start, rule = dop_schema_rule_new(x->s, &start), to = dop_auto_state(&x->s->a);
    dop_charset set = {0};
    char c = peek(x);
    dop_auto_end(&x->s->a, to);
    if (c == '(') {
        x->at++;
        if (peek(x) == '?' && !(x->at + 1 < x->end && x->at[1] == ':'))
            refuse(x, "groups are ( ) and (?: )");
        x->at += peek(x) == '?' ? 2 : 0;
        if (++x->depth > DEEPEST)
            refuse(x, "groups are nested too deeply");
        if (x->s->status == DOP_OK)
            alternatives(x, start, to, false);
        x->depth--;
        if (peek(x) != ')')
            refuse(x, "a group has no closing )");
        x->at++;
        return rule;
    }
    if (c == '[') {
        x->at++;
        class_of(x, &set);
    } else if (c == '.') {
        x->at++;
        dop_charset_add(&set, '\n', '\n');
        dop_charset_add(&set, '\r', '\r');
        dop_charset_add(&set, 0x2028, 0x2029);
        dop_charset_negate(&set);
    } else if (c == '*' || c == '+' || c == '?' || c == '{' || c == '^' || c == '$') {
        refuse(x, "^ and $ stand at the ends of the whole only, and repetitions behind something");
    } else {
        uint32_t one = character(x, &set, false);
        if (one != UINT32_MAX)
            dop_charset_add(&set, one, one);
    }
    x->s->a.failed |= set.failed;
    spell(x->s, start, &set, to);
    dop_charset_finish(&set);
    return rule;
}

static uint32_t
number(expression *x)
{
    uint32_t n = 0;
    if (peek(x) < '0' || peek(x) > '9')
        refuse(x, "expected a number in { }");
    for (; peek(x) >= '0' && peek(x) <= '9' && n <= MOST_REPEATS; x->at++)
        n = n * 10 + (uint32_t)(*x->at - '0');
    if (n > MOST_REPEATS)
        refuse(x, "more than 10000 repetitions");
    return n;
}

static uint32_t
repeated(expression *x, uint32_t from, uint32_t rule)
{
    char c = peek(x);
    uint32_t min = c == '+' ? 1 : 0, max = c == '?' ? 1 : DOP_AUTO_MANY;
    if (c != '*' && c != '+' && c != '?' && c != '{')
        return dop_auto_call(&x->s->a, from, rule);
    x->at++;
    if (c == '{') {
        min = max = number(x);
        if (peek(x) == ',') {
            x->at++;
            max = peek(x) == '}' ? DOP_AUTO_MANY : number(x);
        }
        if (peek(x) != '}' || max < min)
            refuse(x, "expected {N}, {N,} or {N,M}");
        x->at++;
    }
    if (peek(x) == '?') /* This asks for as few as possible, which changes nothing in what texts are valid. */
        x->at++;
    return x->s->status == DOP_OK ? dop_auto_repeat(&x->s->a, from, rule, min, max) : from;
}

/* Adds any characters, which may stand before and behind a match. */
static uint32_t
anything(expression *x, uint32_t from)
{
    return dop_auto_repeat(&x->s->a, from, dop_schema_character(x->s), 0, DOP_AUTO_MANY);
}

static void
alternatives(expression *x, uint32_t from, uint32_t to, bool top)
{
    for (bool more = true; more && x->s->status == DOP_OK;) {
        uint32_t at = dop_auto_state(&x->s->a);
        bool ends = false;
        dop_auto_nothing(&x->s->a, from, at);
        if (top && peek(x) == '^')
            x->at++;
        else if (top)
            at = anything(x, at);
        while (x->s->status == DOP_OK && x->at < x->end && peek(x) != '|' && peek(x) != ')' && !ends) {
            ends = top && peek(x) == '$' && (x->at + 1 == x->end || x->at[1] == '|');
            if (ends)
                x->at++;
            else
                at = repeated(x, at, atom(x));
        }
        if (top && !ends)
            at = anything(x, at);
        dop_auto_nothing(&x->s->a, at, to);
        more = peek(x) == '|';
        x->at += more;
    }
}

uint32_t
dop_schema_pattern(dop_schema *s, uint32_t from, const char *pattern, size_t n)
{
    expression x = {.s = s, .at = pattern, .end = pattern + n};
    uint32_t to = dop_auto_state(&s->a);
    alternatives(&x, from, to, true);
    if (x.at < x.end)
        refuse(&x, "a ) without its (");
    return to;
}
