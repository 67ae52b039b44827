/* Splits Jinja templates into tokens, with Hugging Face's environment: trim_blocks and lstrip_blocks on, the
 * template's last newline dropped. Reference: Jinja2's documentation, "Whitespace Control". */
#include <stdlib.h>
#include <string.h>

#include "base/encoding/utf8.h"
#include "text/jinja/arena.h"
#include "text/jinja/jinja.h"
#include "text/jinja/lex.h"
#include "text/jinja/number.h"
#include "text/jinja/value.h"

typedef struct lexer {
    dop_j_ctx *cx;
    const char *s;
    size_t n, at;
    long line;
    bool line_start; /* true if `at` is at the start of a line or of the template */
    dop_j_tok *toks;
    size_t count, cap;
} lexer;

static void
add_lex_token(lexer *l, dop_j_tok t)
{
    if (l->count == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 256;
        dop_j_tok *p = dop_j_alloc(l->cx, cap * sizeof *p);
        if (!p)
            return;
        if (l->count)
            memcpy(p, l->toks, l->count * sizeof *p);
        l->toks = p;
        l->cap = cap;
    }
    t.line = l->line;
    l->toks[l->count++] = t;
}

static void
count_lines(lexer *l, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        l->line += s[i] == '\n';
}

static bool
lexer_starts_with(const lexer *l, size_t at, const char *t)
{
    size_t n = strlen(t);
    return l->n - at >= n && memcmp(l->s + at, t, n) == 0;
}

/* Skips white space after "-%}", "-}}" and "-#}". */
static void
skip_lexer_space(lexer *l)
{
    while (l->at < l->n) {
        dop_utf8_char u = dop_utf8_next(l->s + l->at, l->n - l->at);
        if (!dop_j_is_space(u.cp))
            return;
        l->line += u.cp == '\n';
        l->line_start = u.cp == '\n';
        l->at += u.len;
    }
}

/* Skips the line break after a block or comment (trim_blocks). */
static void
trim_newline(lexer *l)
{
    if (l->at < l->n && l->s[l->at] == '\n') {
        l->at++;
        l->line++;
        l->line_start = true;
    }
}

/* Adds the text before a tag without the trailing white space that the tag strips. sign: the character after the
 * tag's opening mark ('-', '+' or another). */
static void
add_data(lexer *l, size_t from, size_t to, char sign, bool lstrip)
{
    size_t end = to;
    if (sign == '-') {
        end = from + dop_j_strip(l->cx, (dop_j_str){l->s + from, to - from}, NULL, false, true).n;
    } else if (sign != '+' && lstrip) {
        size_t p = to; /* start of the white space before the tag in its line */
        while (p > from && l->s[p - 1] != '\n') {
            const size_t before = dop_utf8_prev(l->s, p);
            if (!dop_j_is_space(dop_utf8_next(l->s + before, p - before).cp))
                break;
            p = before;
        }
        if ((p > from && l->s[p - 1] == '\n') || (p == from && l->line_start))
            end = p;
    }
    if (end > from)
        add_lex_token(l, (dop_j_tok){.kind = JT_DATA, .s = {l->s + from, end - from}});
    count_lines(l, l->s + from, to - from);
}

/* True if a sign and a digit are at `at`. */
static bool
is_exponent(const lexer *l, size_t at)
{
    return at + 1 < l->n && (l->s[at] == '+' || l->s[at] == '-') && l->s[at + 1] >= '0' && l->s[at + 1] <= '9';
}

/* Copies a number without the '_' between digits into a buffer. Returns its length in the source. */
static size_t
read_number_text(const lexer *l, char *out, size_t cap, bool *is_float)
{
    const bool after_dot = l->at > 0 && l->s[l->at - 1] == '.';
    size_t i = l->at, n = 0;
    *is_float = false;
    for (; i < l->n && n + 1 < cap; i++) {
        char c = l->s[i];
        bool digit = c >= '0' && c <= '9';
        bool next_digit = i + 1 < l->n && l->s[i + 1] >= '0' && l->s[i + 1] <= '9';
        if (c == '_' && next_digit)
            continue;
        if (after_dot && !digit) /* x.1.2 is two item look-ups */
            break;
        if (c == '.' && next_digit && !*is_float)
            *is_float = true;
        else if ((c == 'e' || c == 'E') && n > 0 && (next_digit || is_exponent(l, i + 1)))
            *is_float = true;
        else if ((c == '+' || c == '-') && n > 0 && (out[n - 1] | 0x20) == 'e')
            ;
        else if (!digit)
            break;
        out[n++] = c;
    }
    out[n] = 0;
    return i - l->at;
}

/* Reads a number with a base prefix: 0x1f, 0o17 or 0b101. Returns its length in bytes, or 0 if there is none. */
static size_t
add_based(lexer *l)
{
    const char c = l->s[l->at] == '0' && l->at + 1 < l->n ? (char)(l->s[l->at + 1] | 0x20) : 0;
    const int base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
    size_t end = l->at + 2;
    while (base && end < l->n &&
           (l->s[end] == '_' || (dop_hex_digit(l->s[end]) >= 0 && dop_hex_digit(l->s[end]) < base)))
        end++;
    dop_j_val v;
    if (!base || end == l->at + 2 || !dop_j_read_int(l->cx, (dop_j_str){l->s + l->at, end - l->at}, base, &v))
        return 0;
    add_lex_token(l, (dop_j_tok){.kind = v.kind == J_INT ? JT_INT : JT_BIG,
                                 .i = v.kind == J_INT ? v.u.i : 0,
                                 .s = v.kind == J_INT ? (dop_j_str){"", 0} : v.u.str});
    return end - l->at;
}

static void
add_number(lexer *l)
{
    char text[400];
    bool is_float;
    dop_j_val v;
    size_t used = add_based(l);
    if (used == 0) {
        used = read_number_text(l, text, sizeof text, &is_float);
        const dop_j_str digits = {l->s + l->at, used};
        if (is_float)
            add_lex_token(l, (dop_j_tok){.kind = JT_FLOAT, .f = dop_strtod(text, NULL)});
        else if (!dop_j_read_int(l->cx, digits, 10, &v))
            dop_j_fail(l->cx, l->line, DOP_E_INPUT, "a number is not written as one");
        else if (v.kind == J_INT)
            add_lex_token(l, (dop_j_tok){.kind = JT_INT, .i = v.u.i});
        else
            add_lex_token(l, (dop_j_tok){.kind = JT_BIG, .s = v.u.str});
    }
    l->at += used;
}

static int
read_lexer_hex(const char *s, size_t n, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        int d = dop_hex_digit(s[i]);
        if (d < 0)
            return -1;
        *out = *out << 4 | (uint32_t)d;
    }
    return 0;
}

/* Decodes one escape sequence of a string literal as Python does. Returns its length in the source in bytes. */
static size_t
read_string_escape(const char *s, size_t n, char *out, size_t *out_n)
{
    static const char from[] = "nrtabfv\\'\"", to[] = "\n\r\t\a\b\f\v\\'\"";
    const char *p = s[1] ? strchr(from, s[1]) : NULL;
    size_t digits = s[1] == 'x' ? 2 : s[1] == 'u' ? 4 : s[1] == 'U' ? 8 : 0;
    uint32_t cp;
    if (p) {
        *out = to[p - from];
        *out_n = 1;
        return 2;
    }
    if (s[1] == '\n') {
        *out_n = 0;
        return 2;
    }
    if (s[1] >= '0' && s[1] <= '7') { /* up to three octal digits */
        size_t k = 1;
        for (cp = 0; k < 4 && k < n && s[k] >= '0' && s[k] <= '7'; k++)
            cp = cp * 8 + (uint32_t)(s[k] - '0');
        *out_n = dop_utf8_put(cp, out);
        return k;
    }
    if (digits && n >= 2 + digits && read_lexer_hex(s + 2, digits, &cp) == 0 && cp <= 0x10ffff &&
        (cp < 0xd800 || cp > 0xdfff)) {
        *out_n = dop_utf8_put(cp, out);
        return 2 + digits;
    }
    out[0] = '\\'; /* not an escape: keep both characters */
    *out_n = 1;
    return 1;
}

static void
add_string(lexer *l)
{
    char quote = l->s[l->at];
    size_t end = l->at + 1;
    while (end < l->n && l->s[end] != quote)
        end += l->s[end] == '\\' && end + 1 < l->n ? 2 : 1;
    if (end >= l->n) {
        dop_j_fail(l->cx, l->line, DOP_E_INPUT, "a string has no end");
        return;
    }
    char *text = dop_j_alloc(l->cx, end - l->at + 4);
    size_t n = 0;
    if (!text)
        return;
    for (size_t i = l->at + 1; i < end;) {
        if (l->s[i] == '\\' && i + 1 < end) {
            char c[4];
            size_t len;
            i += read_string_escape(l->s + i, end - i, c, &len);
            memcpy(text + n, c, len);
            n += len;
        } else {
            text[n++] = l->s[i++];
        }
    }
    add_lex_token(l, (dop_j_tok){.kind = JT_STR, .s = {text, n}});
    count_lines(l, l->s + l->at, end - l->at);
    l->at = end + 1;
}

static void
add_name(lexer *l)
{
    size_t from = l->at;
    while (l->at < l->n) {
        uint8_t c = (uint8_t)l->s[l->at];
        if (!(c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80))
            break;
        l->at++;
    }
    add_lex_token(l, (dop_j_tok){.kind = JT_NAME, .s = {l->s + from, l->at - from}});
}

static bool
add_op(lexer *l)
{
    static const char *const ops[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "(",
                                      ")",  "[",  "]",  "{",  "}",  "<",  ">", "=", ".", ",", ":", "|"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (lexer_starts_with(l, l->at, ops[i])) {
            add_lex_token(l, (dop_j_tok){.kind = JT_OP, .s = {ops[i], strlen(ops[i])}});
            l->at += strlen(ops[i]);
            return true;
        }
    }
    return false;
}

/* Reads the tokens inside a tag, including its end mark. */
static void
lex_tag(lexer *l, bool block)
{
    const char *close = block ? "%}" : "}}";
    long open_line = l->line;
    int nesting = 0;
    while (l->cx->status == DOP_OK) {
        if (l->at >= l->n) {
            dop_j_fail(l->cx, open_line, DOP_E_INPUT, "a tag has no end");
            return;
        }
        char c = l->s[l->at];
        bool minus = c == '-' || (c == '+' && block);
        if (nesting == 0 && (lexer_starts_with(l, l->at, close) || (minus && lexer_starts_with(l, l->at + 1, close)))) {
            add_lex_token(l, (dop_j_tok){.kind = block ? JT_BLOCK_END : JT_VAR_END});
            l->at += minus ? 3 : 2;
            l->line_start = false;
            if (c == '-')
                skip_lexer_space(l);
            else if (block && c != '+')
                trim_newline(l);
            return;
        }
        if (c == '\n')
            l->line++;
        if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
            l->at++;
            continue;
        }
        nesting += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
        if (c == '"' || c == '\'')
            add_string(l);
        else if (c >= '0' && c <= '9')
            add_number(l);
        else if (c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (uint8_t)c >= 0x80)
            add_name(l);
        else if (!add_op(l))
            dop_j_fail(l->cx, l->line, DOP_E_INPUT, "unexpected character '%c' (0x%02x)", c >= ' ' ? c : '?',
                       (unsigned)(uint8_t)c);
    }
}

static void
lex_comment(lexer *l)
{
    if (l->at >= l->n) /* as in Jinja, "{#" at the end of the template needs no "#}" */
        return;
    const char *end = memmem(l->s + l->at, l->n - l->at, "#}", 2);
    if (!end) {
        dop_j_fail(l->cx, l->line, DOP_E_INPUT, "a comment has no end");
        return;
    }
    size_t stop = (size_t)(end - l->s);
    count_lines(l, l->s + l->at, stop - l->at);
    char last = stop > l->at ? l->s[stop - 1] : ' ';
    l->at = stop + 2;
    l->line_start = false;
    if (last == '-')
        skip_lexer_space(l);
    else if (last != '+')
        trim_newline(l);
}

static size_t
find_after_space(const lexer *l, size_t at)
{
    while (at < l->n) {
        const dop_utf8_char u = dop_utf8_next(l->s + at, l->n - at);
        if (!dop_j_is_space(u.cp))
            break;
        at += u.len;
    }
    return at;
}

/* True if the tag's first word, after an optional sign, is `word`. Sets *out_end to the offset after the word and
 * white space. */
static bool
match_raw_word(const lexer *l, size_t at, const char *word, size_t *out_end)
{
    const bool sign = at < l->n && (l->s[at] == '-' || l->s[at] == '+');
    at = find_after_space(l, at + sign);
    if (!lexer_starts_with(l, at, word))
        return false;
    *out_end = find_after_space(l, at + strlen(word));
    return true;
}

/* Reads {% raw %} ... {% endraw %}. Returns false if `at`, right after "{%", does not start such a block. */
static bool
lex_raw(lexer *l)
{
    size_t p, e;
    if (!match_raw_word(l, l->at, "raw", &p))
        return false;
    const bool trim = lexer_starts_with(l, p, "-%}");
    if (!trim && !lexer_starts_with(l, p, "%}"))
        return false;
    l->at = p + (trim ? 3 : 2);
    l->line_start = false;
    if (trim) /* unlike other tags, a raw tag keeps the following line break unless it has a '-' */
        skip_lexer_space(l);
    for (size_t q = l->at; q + 2 < l->n; q++) {
        if (!lexer_starts_with(l, q, "{%") || !match_raw_word(l, q + 2, "endraw", &e))
            continue;
        const char sign = e < l->n ? l->s[e] : ' ';
        const size_t close = e + (sign == '-' || sign == '+');
        if (!lexer_starts_with(l, close, "%}"))
            continue;
        add_data(l, l->at, q, l->s[q + 2], true);
        l->at = close + 2;
        l->line_start = false;
        if (sign == '-')
            skip_lexer_space(l);
        else if (sign != '+')
            trim_newline(l);
        return true;
    }
    dop_j_fail(l->cx, l->line, DOP_E_INPUT, "a raw block has no end");
    return true;
}

/* Copies the template, converting line breaks to
 * and dropping the last one. */
static char *
normalize_line_breaks(dop_j_ctx *cx, const char *s, size_t n, size_t *out_n)
{
    char *t = dop_j_alloc(cx, n + 1);
    size_t k = 0;
    if (!t)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\r') {
            t[k++] = '\n';
            i += i + 1 < n && s[i + 1] == '\n';
        } else {
            t[k++] = s[i];
        }
    }
    *out_n = k && t[k - 1] == '\n' ? k - 1 : k;
    return t;
}

dop_j_tok *
dop_j_lex(dop_j_ctx *cx, const char *s, size_t n, size_t *out_n)
{
    lexer l = {.cx = cx, .line = 1, .line_start = true};
    l.s = normalize_line_breaks(cx, s, n, &l.n);
    dop_j_step(cx, n); /* charge for the whole function, which is linear */
    while (cx->status == DOP_OK && l.at < l.n) {
        size_t p = l.at;
        while (p + 1 < l.n && !(l.s[p] == '{' && (l.s[p + 1] == '{' || l.s[p + 1] == '%' || l.s[p + 1] == '#')))
            p++;
        if (p + 1 >= l.n) {
            add_data(&l, l.at, l.n, '+', false);
            break;
        }
        char kind = l.s[p + 1], sign = p + 2 < l.n ? l.s[p + 2] : ' ';
        add_data(&l, l.at, p, sign, kind != '{');
        l.at = p + 2;
        l.line_start = false;
        if (kind == '%' && lex_raw(&l))
            continue;
        if (sign == '-' || (sign == '+' && kind != '{'))
            l.at++;
        if (kind == '#') {
            lex_comment(&l);
        } else {
            add_lex_token(&l, (dop_j_tok){.kind = kind == '%' ? JT_BLOCK_BEGIN : JT_VAR_BEGIN});
            lex_tag(&l, kind == '%');
        }
    }
    add_lex_token(&l, (dop_j_tok){.kind = JT_EOF});
    *out_n = l.count;
    return cx->status == DOP_OK ? l.toks : NULL;
}
