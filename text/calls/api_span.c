#include "text/calls/api_span.h"

#include "base/encoding/utf8.h"

#include <ctype.h>
#include <string.h>

enum { DEEPEST = 200 };

size_t
dop_span_blank(const char *text, size_t n, size_t at)
{
    while (at < n && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r'))
        at++;
    return at;
}

static dop_span
skip_json_word(const char *text, size_t n, size_t *io_at, const char *what)
{
    const size_t len = strlen(what), left = n - *io_at;
    if (memcmp(text + *io_at, what, left < len ? left : len) != 0)
        return DOP_SPAN_BAD;
    *io_at += left < len ? left : len;
    return left < len ? DOP_SPAN_CUT : DOP_SPAN_GOOD;
}

static dop_span
skip_json_string(const char *text, size_t n, size_t *io_at)
{
    for (size_t i = *io_at + 1; i < n; i++) {
        if (text[i] == '"') {
            *io_at = i + 1;
            return DOP_SPAN_GOOD;
        }
        if (text[i] != '\\')
            continue;
        if (++i >= n)
            break;
        if (!strchr("\"\\/bfnrtu", text[i]) || text[i] == 0)
            return DOP_SPAN_BAD;
        for (size_t k = 1; text[i] == 'u' && k <= 4 && i + k < n; k++)
            if (!isxdigit((unsigned char)text[i + k]))
                return DOP_SPAN_BAD;
    }
    return DOP_SPAN_CUT;
}

static size_t
skip_digit_run(const char *text, size_t n, size_t at)
{
    while (at < n && isdigit((unsigned char)text[at]))
        at++;
    return at;
}

/* Skips a number. GOOD at the end of the text is provisional, because more digits may follow. */
static dop_span
skip_json_number(const char *text, size_t n, size_t *io_at)
{
    size_t at = *io_at + (text[*io_at] == '-' ? 1 : 0), end = skip_digit_run(text, n, at);
    if (end == n && end == at)
        return DOP_SPAN_CUT;
    if (end == at || (text[at] == '0' && end > at + 1))
        return DOP_SPAN_BAD;
    if (end < n && text[end] == '.') {
        at = end + 1;
        end = skip_digit_run(text, n, at);
        if (end == at)
            return end == n ? DOP_SPAN_CUT : DOP_SPAN_BAD;
    }
    if (end < n && (text[end] == 'e' || text[end] == 'E')) {
        at = end + 1;
        if (at < n && (text[at] == '+' || text[at] == '-'))
            at++;
        end = skip_digit_run(text, n, at);
        if (end == at)
            return end == n ? DOP_SPAN_CUT : DOP_SPAN_BAD;
    }
    *io_at = end;
    return DOP_SPAN_GOOD;
}

static dop_span skip_json_value(const char *text, size_t n, size_t *io_at, unsigned depth);

/* Skips the items of a list or an object and the closing bracket. *io_at is after the opening bracket. */
static dop_span
skip_json_items(const char *text, size_t n, size_t *io_at, bool named, unsigned depth)
{
    const char close = named ? '}' : ']';
    *io_at = dop_span_blank(text, n, *io_at);
    if (*io_at < n && text[*io_at] == close) {
        ++*io_at;
        return DOP_SPAN_GOOD;
    }
    for (;;) {
        dop_span s = DOP_SPAN_GOOD;
        *io_at = dop_span_blank(text, n, *io_at);
        if (*io_at >= n)
            return DOP_SPAN_CUT;
        if (named) {
            s = text[*io_at] == '"' ? skip_json_string(text, n, io_at) : DOP_SPAN_BAD;
            if (s != DOP_SPAN_GOOD)
                return s;
            *io_at = dop_span_blank(text, n, *io_at);
            if (*io_at >= n)
                return DOP_SPAN_CUT;
            if (text[(*io_at)++] != ':')
                return DOP_SPAN_BAD;
        }
        if ((s = skip_json_value(text, n, io_at, depth + 1)) != DOP_SPAN_GOOD)
            return s;
        *io_at = dop_span_blank(text, n, *io_at);
        if (*io_at >= n)
            return DOP_SPAN_CUT;
        const char c = text[(*io_at)++];
        if (c == close)
            return DOP_SPAN_GOOD;
        if (c != ',')
            return DOP_SPAN_BAD;
    }
}

static dop_span
skip_json_value(const char *text, size_t n, size_t *io_at, unsigned depth)
{
    *io_at = dop_span_blank(text, n, *io_at);
    if (depth > DEEPEST)
        return DOP_SPAN_BAD;
    if (*io_at >= n)
        return DOP_SPAN_CUT;
    switch (text[*io_at]) {
    case '"':
        return skip_json_string(text, n, io_at);
    case '{':
        ++*io_at;
        return skip_json_items(text, n, io_at, true, depth);
    case '[':
        ++*io_at;
        return skip_json_items(text, n, io_at, false, depth);
    case 't':
        return skip_json_word(text, n, io_at, "true");
    case 'f':
        return skip_json_word(text, n, io_at, "false");
    case 'n':
        return skip_json_word(text, n, io_at, "null");
    default:
        return text[*io_at] == '-' || isdigit((unsigned char)text[*io_at]) ? skip_json_number(text, n, io_at)
                                                                           : DOP_SPAN_BAD;
    }
}

dop_span
dop_span_json(const char *text, size_t n, size_t *io_at)
{
    return skip_json_value(text, n, io_at, 0);
}

void
dop_span_append(dop_buf *out, const char *text, size_t n)
{
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (quoted && c < 0x20) {
            dop_buf_printf(out, "\\u%04x", c);
            continue;
        }
        if (!quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r'))
            continue;
        dop_buf_append(out, text + i, 1);
        if (quoted && c == '\\' && i + 1 < n)
            dop_buf_append(out, text + ++i, 1);
        else if (c == '"')
            quoted = !quoted;
    }
}

json_t *
dop_span_string(const char *text, size_t n)
{
    dop_buf clean = {0};
    dop_span_append(&clean, text, n);
    json_t *v = NULL;
    if (!clean.failed && clean.size > 0)
        (void)dop_json_decode(clean.data, clean.size, NULL, NULL, &v);
    dop_buf_finish(&clean);
    if (json_is_string(v))
        return v;
    json_decref(v);
    return NULL;
}

void
dop_span_quote(dop_buf *out, const char *text, size_t n)
{
    dop_buf_puts(out, "\"");
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            dop_buf_printf(out, "\\%c", c);
        else if (c == '\n')
            dop_buf_puts(out, "\\n");
        else if (c == '\t')
            dop_buf_puts(out, "\\t");
        else if (c < 0x20)
            dop_buf_printf(out, "\\u%04x", c);
        else
            dop_buf_append(out, text + i, 1);
    }
    dop_buf_puts(out, "\"");
}

bool
dop_span_next(const char *object, size_t n, size_t *io_at, dop_span_member *out)
{
    size_t at = dop_span_blank(object, n, *io_at);
    if (at >= n || (object[at] != '{' && object[at] != ','))
        return false;
    at = dop_span_blank(object, n, at + 1);
    const size_t name = at;
    if (at >= n || object[at] != '"' || skip_json_string(object, n, &at) != DOP_SPAN_GOOD)
        return false;
    out->name = object + name;
    out->n_name = at - name;
    at = dop_span_blank(object, n, dop_span_blank(object, n, at) + 1);
    const size_t value = at;
    if (skip_json_value(object, n, &at, 0) != DOP_SPAN_GOOD)
        return false;
    out->value = object + value;
    out->n_value = at - value;
    *io_at = at;
    return true;
}

/* --- literals --------------------------------------------------------------------------------------------------------------- */

typedef struct scan {
    const char *text, *quote;
    size_t n, at;
    dop_buf *out;
} scan;

static dop_span read_literal_value(scan *s, unsigned depth);

/* Judges from the following character whether a value may end here. Needed because some templates write strings
 * without escapes, where a quotation mark alone does not end the string. */
static dop_span
check_value_end(const scan *s, size_t at)
{
    at = dop_span_blank(s->text, s->n, at);
    if (at >= s->n)
        return DOP_SPAN_CUT;
    return strchr(",)]}:", s->text[at]) && s->text[at] ? DOP_SPAN_GOOD : DOP_SPAN_BAD;
}

/* Reads `want` hexadecimal digits at `at`. Returns CUT if the text ends first. */
static dop_span
read_hex_code_point(const scan *s, size_t at, size_t want, uint32_t *out)
{
    size_t n = 0;
    *out = 0;
    for (int digit; n < want && at + n < s->n && (digit = dop_hex_digit(s->text[at + n])) >= 0; n++)
        *out = *out << 4 | (uint32_t)digit;
    return n == want ? DOP_SPAN_GOOD : at + n >= s->n ? DOP_SPAN_CUT : DOP_SPAN_BAD;
}

/* Decodes the Python escape at s->at, appends its character and advances s->at. Keeps the backslash before an
 * unknown character. Returns CUT if the text ends within the escape. */
static dop_span
read_python_escape(scan *s, dop_buf *out)
{
    enum { LONG_CODE = 6 };                                                                      /* bytes of \uXXXX */
    static const char from[] = "\\'\"ntrbfav0", to[] = "\\'\"\n\t\r\b\f\a\v\0", codes[] = "xuU"; /* with 2, 4 and 8
                                                                                                  * hex digits */
    const size_t next = s->at + LONG_CODE;
    const char c = s->at + 1 < s->n ? s->text[s->at + 1] : 0;
    const char *plain = c ? strchr(from, c) : NULL, *coded = c ? strchr(codes, c) : NULL;
    const size_t want = coded ? (size_t)2 << (coded - codes) : 0;
    uint32_t cp = 0, low = 0;
    size_t n = 2;
    dop_span got = coded              ? read_hex_code_point(s, s->at + 2, want, &cp)
                   : s->at + 1 < s->n ? DOP_SPAN_BAD
                                      : DOP_SPAN_CUT;
    if (got == DOP_SPAN_GOOD)
        n += want;
    if (got == DOP_SPAN_GOOD && c == 'u' &&
        cp >> 10 == 0xd800 >> 10) { /* possibly the first half of a surrogate pair, as in JSON */
        const dop_span second = next + 2 > s->n                         ? DOP_SPAN_CUT
                                : memcmp(s->text + next, "\\u", 2) == 0 ? read_hex_code_point(s, next + 2, want, &low)
                                                                        : DOP_SPAN_BAD;
        if (second == DOP_SPAN_GOOD && low >> 10 == 0xdc00 >> 10) {
            cp = 0x10000 + ((cp & 0x3ff) << 10 | (low & 0x3ff));
            n += LONG_CODE;
        }
        got = second == DOP_SPAN_CUT ? second : got;
    }
    if (got == DOP_SPAN_CUT)
        return got;
    char utf8[4];
    if (got == DOP_SPAN_GOOD)
        dop_buf_append(out, utf8, dop_utf8_put(cp > 0x10ffff || cp >> 11 == 0xd800 >> 11 ? 0xfffd : cp, utf8));
    else if (plain)
        dop_buf_append(out, &to[plain - from], 1);
    else if (c != '\n')
        dop_buf_append(out, s->text + s->at, 2);
    s->at += n;
    return DOP_SPAN_GOOD;
}

/* Reads a string up to its end mark. A backslash escapes only if the mark is one byte long. */
static dop_span
read_quoted_string(scan *s, const char *mark)
{
    const size_t len = strlen(mark);
    dop_buf plain = {0};
    dop_span got = DOP_SPAN_CUT;
    for (s->at += len; s->at < s->n && got == DOP_SPAN_CUT;) {
        const char c = s->text[s->at];
        if (s->n - s->at >= len && memcmp(s->text + s->at, mark, len) == 0 &&
            (len > 1 || check_value_end(s, s->at + 1) != DOP_SPAN_BAD)) {
            s->at += len;
            got = DOP_SPAN_GOOD;
        } else if (len == 1 && c == '\\') {
            if (read_python_escape(s, &plain) == DOP_SPAN_CUT)
                break;
        } else {
            dop_buf_append(&plain, &c, 1);
            s->at++;
        }
    }
    if (got == DOP_SPAN_GOOD)
        dop_span_quote(s->out, plain.size ? plain.data : "", plain.size);
    dop_buf_finish(&plain);
    return got;
}

/* Reads a double-quoted string, as JSON if possible; JSON strings keep their escapes. */
static dop_span
read_double_quoted(scan *s)
{
    size_t at = s->at;
    const dop_span got = skip_json_string(s->text, s->n, &at);
    if (got == DOP_SPAN_BAD || (got == DOP_SPAN_GOOD && check_value_end(s, at) == DOP_SPAN_BAD)) /* not a JSON string */
        return read_quoted_string(s, "\"");
    if (got == DOP_SPAN_GOOD) {
        dop_span_append(s->out, s->text + s->at, at - s->at);
        s->at = at;
    }
    return got;
}

static bool
is_at_mark(const scan *s, const char *mark)
{
    return mark && s->n - s->at >= strlen(mark) && memcmp(s->text + s->at, mark, strlen(mark)) == 0;
}

static dop_span
read_literal_key(scan *s)
{
    const size_t from = s->at;
    if (is_at_mark(s, s->quote))
        return read_quoted_string(s, s->quote);
    if (s->text[s->at] == '"')
        return read_double_quoted(s);
    if (s->text[s->at] == '\'')
        return read_quoted_string(s, "'");
    while (s->at < s->n && (isalnum((unsigned char)s->text[s->at]) || strchr("_-.$", s->text[s->at])) && s->text[s->at])
        s->at++;
    if (s->at == s->n)
        return DOP_SPAN_CUT;
    if (s->at == from)
        return DOP_SPAN_BAD;
    dop_span_quote(s->out, s->text + from, s->at - from);
    return DOP_SPAN_GOOD;
}

static dop_span
read_literal_group(scan *s, char close, unsigned depth)
{
    const bool named = close == '}';
    dop_buf_puts(s->out, named ? "{" : "[");
    for (bool first = true;; first = false) {
        dop_span got;
        s->at = dop_span_blank(s->text, s->n, s->at);
        if (s->at < s->n && s->text[s->at] == close)
            break;
        if (!first) {
            if (s->at < s->n && s->text[s->at] != ',')
                return DOP_SPAN_BAD;
            s->at = dop_span_blank(s->text, s->n, s->at + 1);
            if (s->at < s->n && s->text[s->at] == close) /* trailing comma */
                break;
            dop_buf_puts(s->out, ",");
        }
        if (s->at >= s->n)
            return DOP_SPAN_CUT;
        if (named) {
            if ((got = read_literal_key(s)) != DOP_SPAN_GOOD)
                return got;
            s->at = dop_span_blank(s->text, s->n, s->at);
            if (s->at >= s->n)
                return DOP_SPAN_CUT;
            if (s->text[s->at++] != ':')
                return DOP_SPAN_BAD;
            dop_buf_puts(s->out, ":");
        }
        if ((got = read_literal_value(s, depth + 1)) != DOP_SPAN_GOOD)
            return got;
    }
    s->at++;
    dop_buf_puts(s->out, named ? "}" : "]");
    return DOP_SPAN_GOOD;
}

static dop_span
read_literal_value(scan *s, unsigned depth)
{
    static const char *const words[][2] = {{"true", "true"}, {"false", "false"}, {"null", "null"},
                                           {"True", "true"}, {"False", "false"}, {"None", "null"}};
    s->at = dop_span_blank(s->text, s->n, s->at);
    if (depth > DEEPEST)
        return DOP_SPAN_BAD;
    if (s->at >= s->n)
        return DOP_SPAN_CUT;
    const char c = s->text[s->at];
    if (is_at_mark(s, s->quote))
        return read_quoted_string(s, s->quote);
    if (s->quote && s->n - s->at < strlen(s->quote) && memcmp(s->text + s->at, s->quote, s->n - s->at) == 0)
        return DOP_SPAN_CUT;
    if (c == '"')
        return read_double_quoted(s);
    if (c == '\'')
        return read_quoted_string(s, "'");
    if (c == '{' || c == '[' || c == '(') {
        s->at++;
        return read_literal_group(s, c == '{' ? '}' : c == '[' ? ']' : ')', depth);
    }
    if (c == '-' || isdigit((unsigned char)c)) {
        const size_t from = s->at;
        const dop_span got = skip_json_number(s->text, s->n, &s->at);
        if (got == DOP_SPAN_GOOD)
            dop_buf_append(s->out, s->text + from, s->at - from);
        return got;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const dop_span got = skip_json_word(s->text, s->n, &s->at, words[i][0]);
        if (got == DOP_SPAN_GOOD)
            dop_buf_puts(s->out, words[i][1]);
        if (got != DOP_SPAN_BAD)
            return got;
    }
    return DOP_SPAN_BAD;
}

dop_span
dop_span_literal(const char *text, size_t n, const char *quote, size_t *io_at, dop_buf *out)
{
    scan s = {text, quote, n, *io_at, out};
    const dop_span got = read_literal_value(&s, 0);
    *io_at = s.at;
    return got;
}
