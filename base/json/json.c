#include "base/json/json.h"

#include "base/encoding/utf8.h"
#include "base/json/number.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Maximum digits of a number; Python's limit (sys.get_int_max_str_digits). */
enum { MAX_DIGITS = 4300 };

/* Bytes charged per value, container and member: approximately what Jansson 2.14 allocates. */
enum { VALUE_BYTES = 64, CONTAINER_BYTES = 192, MEMBER_BYTES = 96 };

typedef struct parser {
    const char *s;
    size_t n, at;
    const dop_json_how *how;
    dop_diag *diag;
    dop_buf text;     /* unescaped text of the last string with escapes */
    uint64_t charged; /* bytes charged to the budget so far */
    json_t *open[DOP_JSON_MAX_DEPTH];
    size_t depth;
} parser;

/* --- errors ------------------------------------------------------------------------------------------------------------------- */

/* Quotes the input at an offset for an error message, in one printable line. */
static void
quote_json_input(const parser *p, size_t at, char out[64])
{
    size_t n = 0;
    if (at >= p->n) {
        snprintf(out, 64, "at the end");
        return;
    }
    memcpy(out, "near '", 6);
    for (n = 6; at < p->n && n < 40; n++, at++) {
        const unsigned char c = (unsigned char)p->s[at];
        const bool word =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || strchr("+-._", c);
        if (n > 6 && (!word || c == 0))
            break;
        out[n] = c < 0x20 || c >= 0x7f ? '?' : (char)c;
        if (!word || c == 0) {
            n++;
            break;
        }
    }
    memcpy(out + n, "'", 2);
}

static dop_status refuse_json(const parser *p, size_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static dop_status
refuse_json(const parser *p, size_t at, const char *fmt, ...)
{
    char what[160];
    long line = 1, column = 1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < at && i < p->n && p->diag; i++) {
        if (p->s[i] == '\n') {
            line++;
            column = 1;
        } else {
            column += ((unsigned char)p->s[i] & 0xc0u) != 0x80u;
        }
    }
    return DOP_FAIL_AT(p->diag, DOP_E_INPUT, p->how->path, line, column, "invalid JSON: %s", what);
}

static dop_status
refuse_unexpected_json(const parser *p, const char *what)
{
    char near[64];
    quote_json_input(p, p->at, near);
    return refuse_json(p, p->at, "%s expected %s", what, near);
}

static dop_status
refuse_json_memory(const parser *p)
{
    return DOP_NO_MEMORY(p->diag);
}

/* Charges the budget for reading n bytes of text and for `bytes` of memory. */
static dop_status
charge_json(parser *p, size_t n, uint64_t bytes)
{
    dop_budget *b = p->how->budget;
    if (!dop_budget_step(b, 1 + n / 16) || !dop_budget_take(b, bytes))
        return dop_budget_fail(b, p->diag, "JSON");
    p->charged += bytes;
    return DOP_OK;
}

/* --- strings ------------------------------------------------------------------------------------------------------------------ */

/* Reads the four hexadecimal digits of \u; UINT32_MAX: invalid. */
static uint32_t
read_hex4(const parser *p, size_t at)
{
    uint32_t v = 0;
    for (size_t i = 0; i < 4; i++) {
        const int digit = at + i < p->n ? dop_hex_digit(p->s[at + i]) : -1;
        if (digit < 0)
            return UINT32_MAX;
        v = v << 4 | (uint32_t)digit;
    }
    return v;
}

/* Reads the escape sequence at a backslash into p->text. */
static dop_status
read_escape(parser *p)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char c = p->at + 1 < p->n ? p->s[p->at + 1] : 0, *name = c ? strchr(names, c) : NULL;
    if (name) {
        dop_buf_append(&p->text, &values[name - names], 1);
        p->at += 2;
        return DOP_OK;
    }
    uint32_t cp = c == 'u' ? read_hex4(p, p->at + 2) : UINT32_MAX;
    if (cp == UINT32_MAX)
        return refuse_json(p, p->at, "invalid escape in a string");
    p->at += 6;
    if (cp >= 0xd800 && cp < 0xdc00 && p->n - p->at >= 6 && p->s[p->at] == '\\' && p->s[p->at + 1] == 'u') {
        const uint32_t low = read_hex4(p, p->at + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
            p->at += 6;
        }
    }
    char utf8[4];
    dop_buf_append(&p->text, utf8, dop_utf8_put(cp >= 0xd800 && cp < 0xe000 ? 0xfffd : cp, utf8));
    return DOP_OK;
}

/* Reads the string at a quotation mark.  *out_s is valid until the next string is read. */
static dop_status
read_json_string(parser *p, const char **out_s, size_t *out_n)
{
    const size_t open = p->at;
    bool plain = true;
    p->text.size = 0;
    for (size_t from = ++p->at;;) {
        while (p->at < p->n && p->s[p->at] != '"' && p->s[p->at] != '\\' && (unsigned char)p->s[p->at] >= 0x20)
            p->at++;
        const size_t len = p->at - from, good = dop_utf8_check(p->s + from, len);
        if (good < len)
            return refuse_json(p, from + good, "the byte 0x%02x is not UTF-8", (unsigned char)p->s[from + good]);
        if (p->at >= p->n)
            return refuse_json(p, open, "a string without end");
        if ((unsigned char)p->s[p->at] < 0x20)
            return refuse_json(p, p->at, "control character 0x%02x in a string", (unsigned char)p->s[p->at]);
        const bool end = p->s[p->at] == '"';
        if (end && plain) {
            *out_s = p->s + from;
            *out_n = len;
            break;
        }
        plain = false;
        dop_buf_append(&p->text, p->s + from, len);
        if (end) {
            *out_s = p->text.data ? p->text.data : "";
            *out_n = p->text.size;
            break;
        }
        dop_status st = read_escape(p);
        if (st != DOP_OK)
            return st;
        from = p->at;
    }
    p->at++;
    return p->text.failed ? refuse_json_memory(p) : DOP_OK;
}

/* --- numbers ------------------------------------------------------------------------------------------------------------------ */

static size_t
skip_digits(const parser *p, size_t at)
{
    while (at < p->n && p->s[at] >= '0' && p->s[at] <= '9')
        at++;
    return at;
}

/* Returns the end of the number at an offset (RFC 8259, section 6); 0: not a number. */
static size_t
find_number_end(const parser *p, size_t at, bool *out_real)
{
    const char *s = p->s;
    *out_real = false;
    at += at < p->n && s[at] == '-';
    size_t end = at < p->n && s[at] == '0' ? at + 1 : skip_digits(p, at);
    if (end == at)
        return 0;
    if (end + 1 < p->n && s[end] == '.' && skip_digits(p, end + 1) > end + 1) {
        *out_real = true;
        end = skip_digits(p, end + 1);
    }
    if (end + 1 < p->n && (s[end] == 'e' || s[end] == 'E')) {
        const size_t digits = end + 1 + (s[end + 1] == '+' || s[end + 1] == '-');
        if (skip_digits(p, digits) > digits) {
            *out_real = true;
            end = skip_digits(p, digits);
        }
    }
    return end;
}

/* Creates a number value from its text of n bytes.  Numbers without a Jansson value become objects with the digits. */
static json_t *
make_number_value(const char *text, size_t n, bool real, bool exact)
{
    char *end;
    errno = 0;
    if (!real) {
        const long long i = strtoll(text, &end, 10);
        if (errno == 0)
            return json_integer(i);
        if (exact)
            return dop_json_kept_number(text, n);
    }
    const double d = dop_strtod(text, &end);
    if (!isinf(d))
        return json_real(d);
    return exact   ? dop_json_kept_number(text, n)
           : d > 0 ? dop_json_kept_number("Infinity", 8)
                   : dop_json_kept_number("-Infinity", 9);
}

static dop_status
read_json_number(parser *p, json_t **out)
{
    bool real;
    const size_t from = p->at, end = find_number_end(p, from, &real), n = end - from;
    char few[64], *text = few;
    if (end == 0)
        return refuse_unexpected_json(p, "a value");
    if (n > MAX_DIGITS)
        return refuse_json(p, from, "a number of %zu digits, at most %d are read", n, MAX_DIGITS);
    if (n >= sizeof few && !(text = malloc(n + 1)))
        return refuse_json_memory(p);
    memcpy(text, p->s + from, n);
    text[n] = 0;
    *out = make_number_value(text, n, real, (p->how->flags & DOP_JSON_EXACT) != 0);
    if (text != few)
        free(text);
    p->at = end;
    return *out ? charge_json(p, n, VALUE_BYTES) : refuse_json_memory(p);
}

/* --- values ------------------------------------------------------------------------------------------------------------------- */

static void
skip_json_space(parser *p)
{
    while (p->at < p->n && (p->s[p->at] == ' ' || p->s[p->at] == '\n' || p->s[p->at] == '\r' || p->s[p->at] == '\t'))
        p->at++;
}

static bool
json_word_is(const parser *p, const char *word)
{
    const size_t n = strlen(word);
    return p->n - p->at >= n && memcmp(p->s + p->at, word, n) == 0;
}

/* Reads true, false, null or a number; also NaN, Infinity and -Infinity, as Python writes them. */
static dop_status
read_json_word(parser *p, json_t **out)
{
    static const char *const words[] = {"true", "false", "null", "Infinity", "-Infinity", "NaN"};
    size_t i = 0;
    while (i < sizeof words / sizeof *words && !json_word_is(p, words[i]))
        i++;
    if (i == sizeof words / sizeof *words)
        return read_json_number(p, out);
    *out = i == 0   ? json_true()
           : i == 1 ? json_false()
           : i == 2 ? json_null()
                    : dop_json_kept_number(words[i], strlen(words[i]));
    p->at += strlen(words[i]);
    return *out ? charge_json(p, 1, i < 3 ? 0 : CONTAINER_BYTES) : refuse_json_memory(p);
}

/* Reads a value.  For an array or object it reads only the opening bracket and pushes the container on the stack p->open. */
static dop_status
read_json_value(parser *p, json_t **out)
{
    const char c = p->at < p->n ? p->s[p->at] : 0;
    const char *s;
    size_t n;
    dop_status st = DOP_OK;
    *out = NULL;
    if (c == '"') {
        if ((st = read_json_string(p, &s, &n)) != DOP_OK || (st = charge_json(p, n, VALUE_BYTES + n)) != DOP_OK)
            return st;
        *out = json_stringn_nocheck(s, n);
    } else if (c == '{' || c == '[') {
        if (p->depth == DOP_JSON_MAX_DEPTH)
            return refuse_json(p, p->at, "nested more than %d deep", DOP_JSON_MAX_DEPTH);
        if ((st = charge_json(p, 1, CONTAINER_BYTES)) != DOP_OK)
            return st;
        *out = c == '{' ? json_object() : json_array();
        p->at++;
        if (*out)
            p->open[p->depth++] = *out;
    } else {
        return read_json_word(p, out);
    }
    return *out ? DOP_OK : refuse_json_memory(p);
}

static dop_status
refuse_duplicate_name(const parser *p, size_t at)
{
    char near[64];
    quote_json_input(p, at + 1, near);
    return refuse_json(p, at, "a name comes twice in an object, %s", near);
}

/* Reads a member of the innermost open object: name, colon, and value (as far as read_json_value() goes). */
static dop_status
read_json_member(parser *p, json_t *object)
{
    const size_t at = p->at;
    const char *s;
    char *name;
    size_t n;
    json_t *value = NULL;
    if (p->at >= p->n || p->s[p->at] != '"')
        return refuse_unexpected_json(p, json_object_size(object) ? "a name in quotes" : "a name in quotes or '}'");
    dop_status st = read_json_string(p, &s, &n);
    if (st != DOP_OK || (st = charge_json(p, n, MEMBER_BYTES + n)) != DOP_OK)
        return st;
    if ((p->how->flags & DOP_JSON_UNIQUE) && json_object_getn(object, s, n))
        return refuse_duplicate_name(p, at);
    skip_json_space(p);
    if (p->at >= p->n || p->s[p->at] != ':')
        return refuse_unexpected_json(p, "':'");
    p->at++;
    skip_json_space(p);
    if (!(name = malloc(n + 1))) /* copied, because reading the value may overwrite p->text */
        return refuse_json_memory(p);
    memcpy(name, s, n);
    if ((st = read_json_value(p, &value)) == DOP_OK && json_object_setn_new_nocheck(object, name, n, value) != 0)
        st = refuse_json_memory(p);
    free(name);
    return st;
}

/* Continues after a value: reads commas, further members and closing brackets until the outermost value is complete. */
static dop_status
read_json_members(parser *p)
{
    dop_status st = DOP_OK;
    for (bool first = true; p->depth > 0 && st == DOP_OK;) {
        json_t *in = p->open[p->depth - 1], *value;
        const bool object = json_is_object(in);
        const size_t open = p->depth;
        skip_json_space(p);
        if (p->at < p->n && p->s[p->at] == (object ? '}' : ']')) {
            p->at++;
            p->depth--;
            first = false;
            continue;
        }
        if (!first) {
            if (p->at >= p->n || p->s[p->at] != ',')
                return refuse_unexpected_json(p, object ? "',' or '}'" : "',' or ']'");
            p->at++;
            skip_json_space(p);
        }
        if (object)
            st = read_json_member(p, in);
        else if ((st = read_json_value(p, &value)) == DOP_OK && json_array_append_new(in, value) != 0)
            st = refuse_json_memory(p);
        first = p->depth > open;
    }
    return st;
}

static dop_status
read_json_text(parser *p, json_t **out)
{
    if (p->n - p->at >= 2 && (memcmp(p->s + p->at, "\xff\xfe", 2) == 0 || memcmp(p->s + p->at, "\xfe\xff", 2) == 0))
        return refuse_json(p, p->at, "the text is UTF-16; JSON is UTF-8");
    if (json_word_is(p, "\xef\xbb\xbf"))
        p->at += 3;
    skip_json_space(p);
    if (p->at >= p->n)
        return refuse_json(p, p->at, p->n ? "there is no value" : "it is empty");
    dop_status st = read_json_value(p, out);
    if (st != DOP_OK || (st = read_json_members(p)) != DOP_OK)
        return st;
    if (p->how->end) {
        *p->how->end = p->at;
        return DOP_OK;
    }
    skip_json_space(p);
    return p->at < p->n ? refuse_unexpected_json(p, "the end") : DOP_OK;
}

dop_status
dop_json_decode(const void *text, size_t n, const dop_json_how *how, dop_diag *diag, json_t **out_value)
{
    static const dop_json_how plain = {0};
    parser p = {.s = text ? text : "", .n = text ? n : 0, .how = how ? how : &plain, .diag = diag};
    *out_value = NULL;
    dop_status st = read_json_text(&p, out_value);
    dop_buf_finish(&p.text);
    if (st != DOP_OK) {
        dop_budget_give(p.how->budget, p.charged);
        json_decref(*out_value);
        *out_value = NULL;
    }
    return st;
}

dop_status
dop_json_decode_file(const dop_json_how *how, dop_diag *diag, json_t **out_value)
{
    dop_map map;
    *out_value = NULL;
    dop_status st = DOP_OK;
    DOP_TRY(dop_map_open(how->path, diag, &map));
    DOP_TRY(dop_json_decode(map.data, (size_t)map.size, how, diag, out_value));
error:
    dop_map_close(&map);
    return st;
}
