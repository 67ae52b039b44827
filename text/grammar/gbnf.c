/* Compiles GBNF, llama.cpp's grammar syntax (see its grammars/README.md). Rules `name ::= ...` consist of literals,
 * character classes, names, groups, alternatives and repetitions; texts start at `root`. */
#include "base/encoding/utf8.h"
#include "text/grammar/grammar_internal.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { DEEPEST = 200, MOST_REPEATS = 10000 };

typedef struct name {
    const char *text;
    size_t n;
    uint32_t rule;
    const char *first_use;
    bool defined;
} name;

typedef struct parser {
    const char *path, *text, *at, *end;
    dop_auto a;
    name *names;
    uint32_t *slots; /* [n_slots] hash table, size a power of 2: index in names[] plus 1; 0: empty slot */
    size_t n_names, cap_names, n_slots;
    uint32_t depth;
    dop_status status;
    dop_diag *diag;
} parser;

static void
report_gbnf_error(parser *p, const char *at, const char *what)
{
    long line = 1, column = 1;
    if (p->status != DOP_OK)
        return;
    for (const char *c = p->text; c < at; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    p->status = DOP_FAIL_AT(p->diag, DOP_E_INPUT, p->path, line, column, "%s", what);
}

static char
peek_gbnf(const parser *p)
{
    return p->at < p->end ? *p->at : 0;
}

static bool
gbnf_looks_at(const parser *p, const char *what)
{
    size_t n = strlen(what);
    return (size_t)(p->end - p->at) >= n && memcmp(p->at, what, n) == 0;
}

static void
skip_gbnf_blanks(parser *p, bool lines)
{
    for (; p->at < p->end; p->at++) {
        if (*p->at == '#')
            while (p->at + 1 < p->end && p->at[1] != '\n' && p->at[1] != '\r')
                p->at++;
        else if (*p->at != ' ' && *p->at != '\t' && !(lines && (*p->at == '\n' || *p->at == '\r')))
            return;
    }
}

static bool
is_gbnf_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static size_t
read_gbnf_word(parser *p, const char **out)
{
    *out = p->at;
    while (p->at < p->end && is_gbnf_word(*p->at))
        p->at++;
    if (p->at == *out)
        report_gbnf_error(p, p->at, "expected a name");
    return (size_t)(p->at - *out);
}

static size_t
find_name_slot(const parser *p, const char *text, size_t n)
{
    size_t i = XXH3_64bits(text, n) & (p->n_slots - 1);
    for (; p->slots[i] != 0; i = (i + 1) & (p->n_slots - 1)) {
        const name *found = &p->names[p->slots[i] - 1];
        if (found->n == n && memcmp(found->text, text, n) == 0)
            break;
    }
    return i;
}

/* Ensures room for one more name. Returns false on failure. */
static bool
grow_rule_names(parser *p)
{
    if (p->n_names < p->cap_names)
        return true;
    const size_t cap = p->cap_names ? 2 * p->cap_names : 32;
    if (!dop_budget_take(p->a.budget, (cap - p->cap_names) * (sizeof *p->names + 2 * sizeof *p->slots))) {
        p->a.too_large = true;
        return false;
    }
    name *more = realloc(p->names, cap * sizeof *more);
    p->names = more ? more : p->names;
    uint32_t *slots = more ? calloc(2 * cap, sizeof *slots) : NULL;
    if (!slots) {
        p->status = DOP_NO_MEMORY(p->diag);
        return false;
    }
    free(p->slots);
    p->slots = slots;
    p->n_slots = 2 * cap;
    p->cap_names = cap;
    for (uint32_t i = 0; i < p->n_names; i++)
        slots[find_name_slot(p, p->names[i].text, p->names[i].n)] = i + 1;
    return true;
}

static name *
find_rule_name(parser *p, const char *text, size_t n)
{
    if (!grow_rule_names(p))
        return NULL;
    uint32_t *slot = &p->slots[find_name_slot(p, text, n)];
    if (*slot == 0) {
        p->names[p->n_names] = (name){text, n, dop_auto_rule(&p->a), text, false};
        *slot = (uint32_t)++p->n_names;
    }
    return &p->names[*slot - 1];
}

static uint32_t
read_gbnf_hex(parser *p, int digits)
{
    uint32_t c = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        int v = dop_hex_digit(peek_gbnf(p));
        if (v < 0) {
            report_gbnf_error(p, p->at, "expected a hexadecimal digit");
            return 0;
        }
        c = c * 16 + (uint32_t)v;
    }
    return c;
}

/* Reads one character of a literal or class, which may be an escape sequence. */
static uint32_t
read_gbnf_character(parser *p)
{
    if (peek_gbnf(p) != '\\') {
        dop_utf8_char c = dop_utf8_next(p->at, (size_t)(p->end - p->at));
        if (p->at >= p->end || !c.valid) {
            report_gbnf_error(p, p->at, p->at >= p->end ? "the text ends within a literal" : "this is not valid UTF-8");
            return 0;
        }
        p->at += c.len;
        return c.cp;
    }
    p->at++;
    char c = peek_gbnf(p);
    p->at++;
    switch (c) {
    case 'x':
        return read_gbnf_hex(p, 2);
    case 'u':
        return read_gbnf_hex(p, 4);
    case 'U':
        return read_gbnf_hex(p, 8);
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'n':
        return '\n';
    case '\\':
    case '"':
    case '[':
    case ']':
        return (uint32_t)c;
    default:
        report_gbnf_error(p, p->at - 1, "unknown escape: \\x \\u \\U \\t \\r \\n \\\\ \\\" \\[ \\] are known");
        return 0;
    }
}

static uint32_t
compile_gbnf_literal(parser *p, uint32_t from)
{
    p->at++;
    while (p->status == DOP_OK && peek_gbnf(p) != '"') {
        if (p->at >= p->end)
            report_gbnf_error(p, p->at, "a literal has no closing \"");
        uint32_t c = read_gbnf_character(p), to = dop_auto_state(&p->a);
        dop_charset set = {0};
        dop_charset_add(&set, c, c);
        dop_auto_chars(&p->a, from, &set, to);
        dop_charset_finish(&set);
        from = to;
    }
    p->at++;
    return from;
}

static uint32_t
compile_gbnf_class(parser *p, uint32_t from)
{
    dop_charset set = {0};
    p->at++;
    bool negated = peek_gbnf(p) == '^';
    p->at += negated;
    while (p->status == DOP_OK && peek_gbnf(p) != ']') {
        if (p->at >= p->end)
            report_gbnf_error(p, p->at, "a class of characters has no closing ]");
        uint32_t first = read_gbnf_character(p), last = first;
        if (peek_gbnf(p) == '-' && p->at + 1 < p->end && p->at[1] != ']') {
            p->at++;
            last = read_gbnf_character(p);
        }
        if (last < first)
            report_gbnf_error(p, p->at, "a range of characters goes backwards");
        dop_charset_add(&set, first, last);
    }
    p->at++;
    if (negated)
        dop_charset_negate(&set);
    uint32_t to = dop_auto_state(&p->a);
    dop_auto_chars(&p->a, from, &set, to);
    dop_charset_finish(&set);
    return to;
}

static void compile_gbnf_alternatives(parser *p, uint32_t rule, bool nested);

static uint32_t
compile_gbnf_group(parser *p)
{
    uint32_t rule = dop_auto_rule(&p->a);
    p->at++;
    skip_gbnf_blanks(p, true);
    if (++p->depth > DEEPEST)
        report_gbnf_error(p, p->at, "groups are nested too deeply");
    if (p->status == DOP_OK)
        compile_gbnf_alternatives(p, rule, true);
    p->depth--;
    if (peek_gbnf(p) != ')')
        report_gbnf_error(p, p->at, "expected )");
    p->at++;
    return rule;
}

static uint32_t
read_gbnf_number(parser *p)
{
    uint32_t n = 0;
    if (peek_gbnf(p) < '0' || peek_gbnf(p) > '9')
        report_gbnf_error(p, p->at, "expected a number");
    for (; peek_gbnf(p) >= '0' && peek_gbnf(p) <= '9' && n <= MOST_REPEATS; p->at++)
        n = n * 10 + (uint32_t)(*p->at - '0');
    if (n > MOST_REPEATS)
        report_gbnf_error(p, p->at, "more than 10000 repetitions");
    return n;
}

/* Reads a quantifier (*, +, ? or {...}). Returns false if none follows. */
static bool
read_gbnf_quantifier(parser *p, uint32_t *out_min, uint32_t *out_max)
{
    char c = peek_gbnf(p);
    *out_min = c == '+';
    *out_max = c == '?' ? 1 : DOP_AUTO_MANY;
    if (c == '*' || c == '+' || c == '?') {
        p->at++;
        return true;
    }
    if (c != '{')
        return false;
    p->at++;
    skip_gbnf_blanks(p, true);
    *out_min = peek_gbnf(p) == ',' ? 0 : read_gbnf_number(p);
    skip_gbnf_blanks(p, true);
    *out_max = *out_min;
    if (peek_gbnf(p) == ',') {
        p->at++;
        skip_gbnf_blanks(p, true);
        *out_max = peek_gbnf(p) == '}' ? DOP_AUTO_MANY : read_gbnf_number(p);
        skip_gbnf_blanks(p, true);
    }
    if (peek_gbnf(p) != '}' || *out_max < *out_min)
        report_gbnf_error(p, p->at, "expected {N}, {N,} or {N,M}");
    p->at++;
    return true;
}

static bool
is_element_start(const parser *p)
{
    char c = peek_gbnf(p);
    return c == '"' || c == '[' || c == '(' || c == '.' || c == '<' || is_gbnf_word(c);
}

/* Compiles an element into a rule of its own, so that it can be repeated. */
static uint32_t
compile_gbnf_element(parser *p)
{
    char c = peek_gbnf(p);
    if (c == '(')
        return compile_gbnf_group(p);
    if (is_gbnf_word(c)) {
        const char *text;
        size_t n = read_gbnf_word(p, &text);
        const name *found = find_rule_name(p, text, n);
        return found ? found->rule : 0;
    }
    uint32_t rule = dop_auto_rule(&p->a), from = p->a.failed || p->a.too_large ? 0 : p->a.rules[rule], to = from;
    if (c == '"') {
        to = compile_gbnf_literal(p, from);
    } else if (c == '[') {
        to = compile_gbnf_class(p, from);
    } else if (c == '.') {
        dop_charset any = {0};
        dop_charset_negate(&any);
        to = dop_auto_state(&p->a);
        dop_auto_chars(&p->a, from, &any, to);
        dop_charset_finish(&any);
        p->at++;
    } else {
        report_gbnf_error(p, p->at, "tokens in <> are not supported: write their text");
    }
    dop_auto_end(&p->a, to);
    return rule;
}

static uint32_t
compile_gbnf_sequence(parser *p, uint32_t from, bool nested)
{
    while (p->status == DOP_OK && is_element_start(p)) {
        /* A name followed by ::= begins the next rule. */
        if (is_gbnf_word(peek_gbnf(p))) {
            const char *before = p->at, *text;
            (void)read_gbnf_word(p, &text);
            skip_gbnf_blanks(p, false);
            bool next = gbnf_looks_at(p, "::=");
            p->at = before;
            if (next)
                break;
        }
        uint32_t rule = compile_gbnf_element(p), min, max;
        skip_gbnf_blanks(p, nested);
        if (p->status == DOP_OK && read_gbnf_quantifier(p, &min, &max)) {
            from = dop_auto_repeat(&p->a, from, rule, min, max);
            skip_gbnf_blanks(p, nested);
        } else {
            from = dop_auto_call(&p->a, from, rule);
        }
        if (p->status == DOP_OK &&
            (peek_gbnf(p) == '*' || peek_gbnf(p) == '+' || peek_gbnf(p) == '?' || peek_gbnf(p) == '{'))
            report_gbnf_error(p, p->at, "two repetitions behind one element");
    }
    return from;
}

static void
compile_gbnf_alternatives(parser *p, uint32_t rule, bool nested)
{
    uint32_t start = p->a.failed || p->a.too_large ? 0 : p->a.rules[rule];
    for (bool more = true; more && p->status == DOP_OK;) {
        uint32_t from = dop_auto_state(&p->a);
        dop_auto_nothing(&p->a, start, from);
        dop_auto_end(&p->a, compile_gbnf_sequence(p, from, nested));
        const char *before = p->at;
        skip_gbnf_blanks(p, true);
        more = peek_gbnf(p) == '|';
        if (more) {
            p->at++;
            skip_gbnf_blanks(p, true);
        } else if (!nested) {
            p->at = before;
        }
    }
}

static void
compile_gbnf_rule(parser *p)
{
    const char *text, *begin = p->at;
    size_t n = read_gbnf_word(p, &text);
    name *found = p->status == DOP_OK ? find_rule_name(p, text, n) : NULL;
    skip_gbnf_blanks(p, false);
    if (p->a.too_large || p->a.failed) /* dop_auto_check() reports the error */
        return;
    if (found && found->defined)
        report_gbnf_error(p, begin, "this rule is there twice");
    if (!gbnf_looks_at(p, "::="))
        report_gbnf_error(p, p->at, "expected ::=");
    if (!found || p->status != DOP_OK)
        return;
    found->defined = true;
    p->at += 3;
    skip_gbnf_blanks(p, true);
    compile_gbnf_alternatives(p, found->rule, false);
    skip_gbnf_blanks(p, false);
    if (p->at < p->end && *p->at != '\n' && *p->at != '\r')
        report_gbnf_error(p, p->at, "expected the end of the rule");
    skip_gbnf_blanks(p, true);
}

dop_status
dop_grammar_from_gbnf(const dop_vocab *vocab, const char *path, const char *text, size_t n, dop_budget *budget,
                      dop_diag *diag, dop_grammar **out_grammar)
{
    parser p = {.path = path, .text = text, .at = text, .end = text + n, .a.budget = budget, .diag = diag};
    bool root = false;
    *out_grammar = NULL;
    skip_gbnf_blanks(&p, true);
    if (!dop_budget_step(budget, n))
        p.a.too_large = true;
    while (p.status == DOP_OK && p.at < p.end && !p.a.failed && !p.a.too_large)
        compile_gbnf_rule(&p);
    for (size_t i = 0; i < p.n_names && p.status == DOP_OK && !p.a.failed && !p.a.too_large; i++) {
        if (!p.names[i].defined)
            report_gbnf_error(&p, p.names[i].first_use, "a rule of this name is not there");
        if (p.names[i].n == 4 && memcmp(p.names[i].text, "root", 4) == 0) {
            p.a.root = p.names[i].rule;
            root = true;
        }
    }
    if (p.status == DOP_OK && !root && !p.a.failed && !p.a.too_large)
        report_gbnf_error(&p, text, "there is no rule named root");
    free(p.names);
    free(p.slots);
    if (p.status == DOP_OK)
        return dop_grammar_make(vocab, &p.a, diag, out_grammar);
    dop_auto_finish(&p.a);
    return p.status;
}
