#include "text/grammar/pattern.h"
#include "base/encoding/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { DEEPEST = 100, MOST_REPEATS = 10000, LAST = 0x10ffff };

/* Node kinds of the expression's syntax tree. Its nodes, called parts, refer to each other by index. */
typedef enum part_kind { SEQUENCE, CHOICE, SET, REPEAT, LOOK, NOT_LOOK, BEGIN, END, BORDER, NO_BORDER } part_kind;

typedef struct part {
    part_kind kind;
    uint32_t first, next; /* indices of the first child and the next sibling; 0: none */
    uint32_t min, max;
    dop_term set;
    bool asserts; /* true if the part is or contains a zero-width assertion (^, $, \b, lookahead) */
} part;

typedef struct expression {
    dop_regular *r;
    const char *at, *end;
    part *parts; /* [n] owned */
    uint32_t n, cap, depth;
    bool negated; /* true while a negated character class [^...] is read */
    bool irregular;
    dop_status status;
    dop_diag *diag;
} expression;

/* Known facts about the character before a position. */
typedef enum before { AT_START, AFTER_WORD, AFTER_OTHER, AFTER_ANYTHING } before;

static char
peek_pattern(const expression *x)
{
    return x->at < x->end ? *x->at : 0;
}

static void
refuse_pattern(expression *x, const char *what)
{
    if (x->status == DOP_OK)
        x->status = DOP_FAIL(x->diag, DOP_E_INPUT, "pattern: %s", what);
}

static void
reject_irregular(expression *x, const char *what)
{
    if (x->status == DOP_OK)
        x->status = DOP_FAIL(x->diag, DOP_E_INPUT, "pattern: %s", what);
    x->irregular = true;
}

static uint32_t
add_pattern_part(expression *x, part_kind kind)
{
    if (x->n == x->cap) {
        const uint32_t cap = x->cap ? 2 * x->cap : 32;
        part *p = dop_budget_take(x->r->budget, (cap - x->cap) * sizeof *p) ? realloc(x->parts, cap * sizeof *p) : NULL;
        if (!p) {
            if (x->status == DOP_OK)
                x->status = DOP_FAIL(x->diag, x->r->budget && x->r->budget->end ? DOP_E_LIMIT : DOP_E_NOMEM,
                                     "pattern: it takes too much memory");
            return 0;
        }
        x->parts = p;
        x->cap = cap;
    }
    if (x->n == 0)
        x->n = 1; /* index 0 means none */
    x->parts[x->n] = (part){.kind = kind, .asserts = kind >= LOOK};
    return x->n++;
}

/* --- characters ------------------------------------------------------------------------------------------------------------------- */

/* Adds the set of \d, \w, \s or their complements. Returns false for other letters. Implementations differ for
 * characters beyond ASCII. So neither a class nor its complement matches those, which makes texts valid for all
 * implementations. negated: the caller will take the complement of the set. */
static bool
add_known_class(char c, bool negated, dop_charset *set)
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
        dop_charset_add(&own, 0x80, LAST);
    if (opposite)
        dop_charset_negate(&own);
    for (size_t i = 0; i < own.n; i++)
        dop_charset_add(set, own.ranges[i][0], own.ranges[i][1]);
    set->failed |= own.failed;
    dop_charset_finish(&own);
    return true;
}

/* Returns the one- or two-letter code of a general category's long name. Returns other names unchanged. */
static const char *
shorten_category(const char *name, size_t n)
{
    static const struct {
        const char *name, *code;
    } longer[] = {{"Letter", "L"},
                  {"Mark", "M"},
                  {"Number", "N"},
                  {"Punctuation", "P"},
                  {"Symbol", "S"},
                  {"Separator", "Z"},
                  {"Other", "C"},
                  {"Uppercase_Letter", "Lu"},
                  {"Lowercase_Letter", "Ll"},
                  {"Titlecase_Letter", "Lt"},
                  {"Modifier_Letter", "Lm"},
                  {"Other_Letter", "Lo"},
                  {"Decimal_Number", "Nd"},
                  {"digit", "Nd"},
                  {"punct", "P"},
                  {"Space_Separator", "Zs"},
                  {"Control", "Cc"},
                  {"Currency_Symbol", "Sc"},
                  {"Math_Symbol", "Sm"}};
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++)
        if (strlen(longer[i].name) == n && memcmp(longer[i].name, name, n) == 0)
            return longer[i].code;
    return name;
}

void
dop_pattern_to_pcre2(const char *pattern, size_t n, dop_buf *out)
{
    dop_buf_puts(out, "(*LIMIT_MATCH=200000)(*LIMIT_DEPTH=200000)"); /* about 10 ms; a schema may have many patterns */
    for (size_t i = 0; i < n; i++) {
        const char *at = pattern + i, *close = memchr(at, '}', n - i);
        const bool property = n - i > 3 && at[0] == '\\' && (at[1] == 'p' || at[1] == 'P') && at[2] == '{' && close;
        if (property) {
            const size_t n_name = (size_t)(close - at) - 3;
            const char *name = shorten_category(at + 3, n_name);
            dop_buf_printf(out, "\\%c{%.*s}", at[1], name == at + 3 ? (int)n_name : (int)strlen(name), name);
            i += n_name + 3;
        } else if (at[0] == '\\' && i + 1 < n) {
            dop_buf_append(out, at, 2);
            i++;
        } else {
            dop_buf_append(out, at, 1);
        }
    }
}

/* Reads the {NAME} of \p or \P: a Unicode general category, by its one- or two-letter code or long name. */
static void
read_property_set(expression *x, bool opposite, dop_charset *set)
{
    static const char *const names[] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                        "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                        "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
    char name[24] = "";
    size_t n = 0;
    dop_charset own = {0};
    bool known = false;
    if (peek_pattern(x) == '{')
        for (x->at++; x->at < x->end && *x->at != '}' && n + 1 < sizeof name; x->at++)
            name[n++] = *x->at;
    if (peek_pattern(x) != '}') {
        refuse_pattern(x, "\\p has a name in { }");
        return;
    }
    x->at++;
    const char *code = shorten_category(name, n);
    n = strlen(code);
    for (size_t i = 0; i < sizeof names / sizeof *names && (n == 1 || n == 2); i++)
        known |= strncmp(names[i], code, n) == 0;
    if (!known || !dop_budget_step(x->r->budget, LAST)) {
        reject_irregular(x, "of properties, only general categories are known");
        return;
    }
    for (uint32_t c = 0; c <= LAST; c++)
        if (strncmp(names[utf8proc_category((utf8proc_int32_t)c)], code, n) == 0) {
            if (own.n > 0 && own.ranges[own.n - 1][1] + 1 == c)
                own.ranges[own.n - 1][1] = c;
            else
                dop_charset_add(&own, c, c);
        }
    if (opposite)
        dop_charset_negate(&own);
    for (size_t i = 0; i < own.n; i++)
        dop_charset_add(set, own.ranges[i][0], own.ranges[i][1]);
    set->failed |= own.failed;
    dop_charset_finish(&own);
}

static uint32_t
read_pattern_hex(expression *x, int digits)
{
    uint32_t c = 0;
    for (int i = 0; i < digits; i++, x->at++) {
        int v = dop_hex_digit(peek_pattern(x));
        if (v < 0)
            refuse_pattern(x, "expected a hexadecimal digit");
        c = c * 16 + (uint32_t)(v < 0 ? 0 : v);
    }
    return c;
}

/* Reads HHHH or {H...} after \u. Combines two \uHHHH that form a surrogate pair. */
static uint32_t
read_unicode_escape(expression *x)
{
    if (peek_pattern(x) == '{') {
        uint32_t c = 0;
        for (x->at++; dop_hex_digit(peek_pattern(x)) >= 0 && c <= LAST; x->at++)
            c = c * 16 + (uint32_t)dop_hex_digit(*x->at);
        if (peek_pattern(x) != '}' || c > LAST)
            refuse_pattern(x, "\\u{ } has a character's number");
        x->at++;
        return c <= LAST ? c : 0;
    }
    const uint32_t c = read_pattern_hex(x, 4);
    if ((c & 0xfc00) != 0xd800 || x->end - x->at < 6 || x->at[0] != '\\' || x->at[1] != 'u')
        return c;
    x->at += 2;
    const uint32_t low = read_pattern_hex(x, 4);
    if ((low & 0xfc00) != 0xdc00)
        refuse_pattern(x, "half of a surrogate pair");
    return 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff);
}

/* Reads one character, possibly escaped. For a character class it adds the class to `set` and returns UINT32_MAX. */
static uint32_t
read_pattern_character(expression *x, dop_charset *set, bool in_class)
{
    if (peek_pattern(x) != '\\') {
        dop_utf8_char c = dop_utf8_next(x->at, (size_t)(x->end - x->at));
        x->at += c.len ? c.len : 1;
        return c.cp;
    }
    char c = x->at + 1 < x->end ? x->at[1] : 0;
    x->at += 2;
    if (add_known_class(c, x->negated, set))
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
    case 'v':
        return '\v';
    case '0':
        return 0;
    case 'c':
        x->at++;
        return (uint32_t)(unsigned char)x->at[-1] & 0x1f;
    case 'b':
        if (in_class)
            return '\b';
        break;
    case 'x':
        return read_pattern_hex(x, 2);
    case 'u':
        return read_unicode_escape(x);
    case 'p':
    case 'P':
        read_property_set(x, c == 'P', set);
        return UINT32_MAX;
    default:
        break;
    }
    if (c == 'k' || (c >= '1' && c <= '9'))
        reject_irregular(x, "references back are not regular");
    else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == 0)
        reject_irregular(x, "unknown escape");
    return (unsigned char)c;
}

static void
read_pattern_class(expression *x, dop_charset *set)
{
    x->negated = peek_pattern(x) == '^';
    x->at += x->negated;
    for (bool first = true; x->status == DOP_OK && (first || peek_pattern(x) != ']'); first = false) {
        if (peek_pattern(x) == ']')
            break;
        if (x->at >= x->end) {
            refuse_pattern(x, "a class of characters has no closing ]");
            return;
        }
        uint32_t from = read_pattern_character(x, set, true), to = from;
        if (from != UINT32_MAX && peek_pattern(x) == '-' && x->at + 1 < x->end && x->at[1] != ']') {
            x->at++;
            to = read_pattern_character(x, set, true);
            if (to == UINT32_MAX || to < from)
                refuse_pattern(x, "a range of characters goes backwards");
        }
        if (from != UINT32_MAX && x->status == DOP_OK)
            dop_charset_add(set, from, to);
    }
    x->at++;
    if (x->negated)
        dop_charset_negate(set);
    x->negated = false;
}

/* --- the tree ---------------------------------------------------------------------------------------------------------------------- */

static uint32_t parse_pattern_choice(expression *x);

static uint32_t
parse_pattern_group(expression *x)
{
    part_kind kind = SEQUENCE;
    x->at++;
    if (peek_pattern(x) == '?') {
        const char *c = x->at + 1;
        const size_t left = (size_t)(x->end - c);
        if (left >= 1 && *c == ':') {
            x->at += 2;
        } else if (left >= 1 && (*c == '=' || *c == '!')) {
            kind = *c == '=' ? LOOK : NOT_LOOK;
            x->at += 2;
        } else if (left >= 2 && *c == '<' && c[1] != '=' && c[1] != '!') {
            while (x->at < x->end && *x->at != '>')
                x->at++;
            x->at++;
        } else {
            reject_irregular(x, "of groups, ( ), (?: ), (?= ) and (?! ) are known");
        }
    }
    if (++x->depth > DEEPEST)
        refuse_pattern(x, "groups are nested too deeply");
    const uint32_t inner = x->status == DOP_OK ? parse_pattern_choice(x) : 0;
    x->depth--;
    if (peek_pattern(x) != ')')
        refuse_pattern(x, "a group has no closing )");
    x->at++;
    if (kind == SEQUENCE || x->status != DOP_OK)
        return inner;
    const uint32_t p = add_pattern_part(x, kind);
    x->parts[p].first = inner;
    return p;
}

static uint32_t
parse_pattern_atom(expression *x)
{
    dop_charset set = {0};
    const char c = peek_pattern(x), escaped = c == '\\' && x->at + 1 < x->end ? x->at[1] : 0;
    if (c == '(')
        return parse_pattern_group(x);
    if (c == '^' || c == '$' || escaped == 'b' || escaped == 'B') {
        x->at += escaped ? 2 : 1;
        return add_pattern_part(x, c == '^' ? BEGIN : c == '$' ? END : escaped == 'b' ? BORDER : NO_BORDER);
    }
    if (c == '[') {
        x->at++;
        read_pattern_class(x, &set);
    } else if (c == '.') {
        x->at++;
        dop_charset_add(&set, '\n', '\n');
        dop_charset_add(&set, '\r', '\r');
        dop_charset_add(&set, 0x2028, 0x2029);
        dop_charset_negate(&set);
    } else if (c == '*' || c == '+' || c == '?') {
        refuse_pattern(x, "a repetition stands behind something");
    } else {
        uint32_t one = read_pattern_character(x, &set, false);
        if (one != UINT32_MAX)
            dop_charset_add(&set, one, one);
    }
    const uint32_t p = add_pattern_part(x, SET);
    if (p != 0)
        x->parts[p].set = dop_regular_set(x->r, &set);
    dop_charset_finish(&set);
    return p;
}

static uint32_t
read_pattern_number(expression *x)
{
    uint32_t n = 0;
    if (peek_pattern(x) < '0' || peek_pattern(x) > '9')
        refuse_pattern(x, "expected a number in { }");
    for (; peek_pattern(x) >= '0' && peek_pattern(x) <= '9' && n <= MOST_REPEATS; x->at++)
        n = n * 10 + (uint32_t)(*x->at - '0');
    if (n > MOST_REPEATS)
        refuse_pattern(x, "more than 10000 repetitions");
    return n;
}

/* Reads the quantifier after a part. Returns the repetition, or the part itself if there is none. */
static uint32_t
parse_pattern_quantifier(expression *x, uint32_t inner)
{
    const char c = peek_pattern(x);
    uint32_t min = c == '+' ? 1 : 0, max = c == '?' ? 1 : DOP_AUTO_MANY;
    const bool counts = c == '{' && x->at + 1 < x->end && x->at[1] >= '0' && x->at[1] <= '9';
    if (c != '*' && c != '+' && c != '?' && !counts)
        return inner;
    x->at++;
    if (c == '{') {
        min = max = read_pattern_number(x);
        if (peek_pattern(x) == ',') {
            x->at++;
            max = peek_pattern(x) == '}' ? DOP_AUTO_MANY : read_pattern_number(x);
        }
        if (peek_pattern(x) != '}' || max < min)
            refuse_pattern(x, "expected {N}, {N,} or {N,M}");
        x->at++;
    }
    if (peek_pattern(x) == '?') /* lazy quantifiers accept the same texts */
        x->at++;
    const uint32_t p = add_pattern_part(x, REPEAT);
    if (p == 0)
        return inner;
    x->parts[p].first = inner;
    x->parts[p].min = min;
    x->parts[p].max = max;
    x->parts[p].asserts = x->parts[inner].asserts;
    return p;
}

static uint32_t
parse_pattern_sequence(expression *x)
{
    const uint32_t all = add_pattern_part(x, SEQUENCE);
    uint32_t last = 0;
    while (x->status == DOP_OK && x->at < x->end && peek_pattern(x) != '|' && peek_pattern(x) != ')') {
        const uint32_t inner = parse_pattern_atom(x),
                       one = x->status == DOP_OK ? parse_pattern_quantifier(x, inner) : 0;
        if (x->status != DOP_OK)
            break;
        x->parts[all].asserts |= x->parts[one].asserts;
        if (last)
            x->parts[last].next = one;
        else
            x->parts[all].first = one;
        last = one;
    }
    return all;
}

static uint32_t
parse_pattern_choice(expression *x)
{
    const uint32_t all = add_pattern_part(x, CHOICE);
    uint32_t last = 0;
    for (bool more = true; more && x->status == DOP_OK;) {
        const uint32_t one = parse_pattern_sequence(x);
        if (x->status != DOP_OK)
            break;
        x->parts[all].asserts |= x->parts[one].asserts;
        if (last)
            x->parts[last].next = one;
        else
            x->parts[all].first = one;
        last = one;
        more = peek_pattern(x) == '|';
        x->at += more;
    }
    return all;
}

/* --- terms -------------------------------------------------------------------------------------------------------------------------- */

static dop_term
make_word_set(dop_regular *r, bool others)
{
    dop_charset set = {0};
    (void)add_known_class('w', false, &set);
    if (others)
        dop_charset_negate(&set);
    const dop_term t = dop_regular_set(r, &set);
    dop_charset_finish(&set);
    return t;
}

/* Returns the facts about the character before the position after a part. b: facts at the position before the part. */
static before
find_fact_after(const expression *x, uint32_t p, before b)
{
    const part *q = &x->parts[p];
    if (q->kind >= LOOK)
        return b;
    if (q->kind == SET) {
        const dop_term words = make_word_set(x->r, false), others = make_word_set(x->r, true);
        return dop_regular_alt(x->r, q->set, words) == words     ? AFTER_WORD
               : dop_regular_alt(x->r, q->set, others) == others ? AFTER_OTHER
                                                                 : AFTER_ANYTHING;
    }
    if (q->kind == REPEAT) {
        const before once = find_fact_after(x, q->first, b);
        return q->min > 0 || once == b ? once : AFTER_ANYTHING;
    }
    if (q->kind == SEQUENCE) {
        for (uint32_t i = q->first; i; i = x->parts[i].next)
            b = find_fact_after(x, i, b);
        return b;
    }
    before common = AFTER_ANYTHING;
    for (uint32_t i = q->first; i; i = x->parts[i].next) {
        const before one = find_fact_after(x, i, b);
        common = i == q->first || one == common ? one : AFTER_ANYTHING;
    }
    return common;
}

/* Returns the term of the texts that begin with a match of a part and continue with a text of `rest`. b: facts about
 * the character before the match. */
static dop_term
make_part_term(expression *x, uint32_t p, before b, dop_term rest)
{
    dop_regular *r = x->r;
    dop_term t = DOP_TERM_NONE;
    if (x->status != DOP_OK || r->failed || r->limited)
        return t;
    const part q = x->parts[p];
    switch (q.kind) {
    case SET:
        return dop_regular_cat(r, q.set, rest);
    case SEQUENCE: {
        if (q.first == 0)
            return rest;
        uint32_t n = 0, k = 0;
        for (uint32_t i = q.first; i; i = x->parts[i].next)
            n++;
        struct at {
            uint32_t part;
            before b;
        } *list = malloc(n * sizeof *list);
        r->failed |= !list;
        for (uint32_t i = q.first; i && list; i = x->parts[i].next) {
            list[k++] = (struct at){i, b};
            if (q.asserts)
                b = find_fact_after(x, i, b);
        }
        for (; k > 0; k--)
            rest = make_part_term(x, list[k - 1].part, list[k - 1].b, rest);
        free(list);
        return rest;
    }
    case CHOICE:
        for (uint32_t i = q.first; i; i = x->parts[i].next)
            t = dop_regular_alt(r, t, make_part_term(x, i, b, rest));
        return t;
    case REPEAT:
        if (!q.asserts)
            return dop_regular_cat(
                r, dop_regular_repeat(r, make_part_term(x, q.first, b, DOP_TERM_EMPTY), q.min, q.max), rest);
        if (q.max == 1)
            return dop_regular_alt(r, rest, make_part_term(x, q.first, b, rest));
        reject_irregular(x, "a repetition has ^, $, \\b or a look ahead in it");
        return t;
    case LOOK:
        return dop_regular_and(r, rest, make_part_term(x, q.first, b, DOP_TERM_ANY));
    case NOT_LOOK:
        return dop_regular_and(r, rest, dop_regular_not(r, make_part_term(x, q.first, b, DOP_TERM_ANY)));
    case BEGIN:
        if (b == AFTER_ANYTHING)
            reject_irregular(x, "^ stands behind something that may be empty");
        return b == AT_START ? rest : t;
    case END:
        return dop_regular_and(r, rest, DOP_TERM_EMPTY);
    default: {
        const bool word_follows = (b != AFTER_WORD) == (q.kind == BORDER);
        const dop_term word = dop_regular_cat(r, make_word_set(r, false), DOP_TERM_ANY);
        if (b == AFTER_ANYTHING)
            reject_irregular(x, "\\b stands behind something of which it is not known whether it is part of a word");
        return dop_regular_and(r, rest, word_follows ? word : dop_regular_not(r, word));
    }
    }
}

dop_status
dop_pattern_term(dop_regular *r, const char *pattern, size_t n, dop_diag *diag, dop_term *out_term, bool *out_irregular)
{
    expression x = {.r = r, .at = pattern, .end = pattern + n, .diag = diag};
    *out_term = DOP_TERM_ANY;
    const uint32_t all = parse_pattern_choice(&x);
    if (x.status == DOP_OK && x.at < x.end)
        refuse_pattern(&x, "a ) without its (");
    dop_term t = make_part_term(&x, all, AT_START, DOP_TERM_ANY);
    /* Without assertions, a match does not depend on the text before it. */
    if (x.status == DOP_OK && !x.parts[all].asserts) {
        t = dop_regular_cat(r, DOP_TERM_ANY, t);
    } else if (x.status == DOP_OK) {
        const dop_term word = make_word_set(r, false), other = make_word_set(r, true);
        const dop_term in_word = dop_regular_cat(r, word, make_part_term(&x, all, AFTER_WORD, DOP_TERM_ANY));
        const dop_term no_word = dop_regular_cat(r, other, make_part_term(&x, all, AFTER_OTHER, DOP_TERM_ANY));
        t = dop_regular_alt(r, t, dop_regular_cat(r, DOP_TERM_ANY, dop_regular_alt(r, in_word, no_word)));
    }
    dop_budget_give(r->budget, x.cap * sizeof *x.parts);
    free(x.parts);
    *out_irregular = x.irregular;
    if (x.status == DOP_OK)
        *out_term = t;
    return x.status;
}
