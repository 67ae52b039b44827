/* Python's FORMAT % VALUES and FORMAT.format(VALUES). Reference: "printf-style String Formatting" and "Format
 * Specification Mini-Language" in the documentation of its standard library. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding/utf8.h"
#include "text/jinja/arena.h"
#include "text/jinja/attribute.h"
#include "text/jinja/format.h"
#include "text/jinja/jinja.h"
#include "text/jinja/operator.h"
#include "text/jinja/print.h"
#include "text/jinja/value.h"

typedef struct form {
    dop_j_str fill;
    char align, sign, group, type; /* 0 if not given */
    bool alternative, zero;
    int64_t width, precision; /* precision: < 0 if not given */
} form;

enum { MAX_PRECISION = 500, NUMBER_CAP = 1024 };

/* Appends a padded text. usual: default alignment. head: length of the prefix (sign and base) that precedes padding
 * inside a number. */
static void
put_padded(dop_j_ctx *cx, dop_j_out *o, dop_j_str s, size_t head, const form *f, char usual)
{
    const int64_t n = (int64_t)dop_j_chars(cx, s);
    const char align = f->align ? f->align : usual;
    const uint64_t pad = f->width > n ? (uint64_t)(f->width - n) : 0;
    const uint64_t left = align == '^' ? pad / 2 : align == '<' ? 0 : pad;
    head = align == '=' ? head : 0;
    dop_j_put(cx, o, s.s, head);
    dop_j_fill(cx, o, f->fill, left);
    dop_j_put(cx, o, s.s + head, s.n - head);
    dop_j_fill(cx, o, f->fill, pad - left);
}

/* ---- numbers ---- */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
/* Formats the digits of a finite, non-negative number. */
static int
print_real_digits(double v, char type, int precision, bool alternative, char *t, size_t cap)
{
    char pattern[8];
    snprintf(pattern, sizeof pattern, "%%%s.*%c", alternative ? "#" : "", type);
    return snprintf(t, cap, pattern, precision, v);
}
#pragma GCC diagnostic pop

/* Formats a floating-point number without a format type: as str() does, or with at most `precision` digits. At least
 * one digit follows the point. */
static void
print_general_digits(dop_j_ctx *cx, double v, const form *f, char *t, size_t cap)
{
    dop_j_out o = {0};
    if (f->precision < 0) {
        dop_j_print(cx, &o, dop_j_float(v));
        snprintf(t, cap, "%s", o.s ? o.s : "");
        return;
    }
    const int p = f->precision > 0 ? (int)f->precision : 1;
    print_real_digits(v, 'e', p - 1, false, t, cap);
    const int exponent = atoi(strchr(t, 'e') + 1);
    /* %g would print all digits and no point here; Python prints an exponent */
    if (exponent == p - 1 && v != 0) {
        char *e = strchr(t, 'e'), *end = e;
        char tail[16];
        snprintf(tail, sizeof tail, "%s", e);
        while (strchr(t, '.') && (end[-1] == '0' || end[-1] == '.') && *(end - 1) != 0 && end > t + 1) {
            const bool point = end[-1] == '.';
            end--;
            if (point)
                break;
        }
        snprintf(end, cap - (size_t)(end - t), "%s", tail);
        return;
    }
    print_real_digits(v, 'g', p, false, t, cap);
    if (!strpbrk(t, ".e"))
        strncat(t, ".0", cap - strlen(t) - 1);
}

/* Appends the digits, with the group separator in the integer part. */
static void
put_grouped(dop_j_ctx *cx, dop_j_out *o, const char *digits, const form *f)
{
    const size_t whole = strspn(digits, "0123456789abcdefABCDEF"), size = f->type && strchr("bxXo", f->type) ? 4 : 3;
    const size_t n = f->type == 'e' || f->type == 'E' ? strspn(digits, "0123456789") : whole;
    for (size_t i = 0; i < n && f->group; i++) {
        if (i > 0 && (n - i) % size == 0)
            dop_j_put(cx, o, &f->group, 1);
        dop_j_put(cx, o, digits + i, 1);
    }
    dop_j_puts(cx, o, f->group ? digits + n : digits);
}

static void
put_sign(dop_j_ctx *cx, dop_j_out *o, bool negative, const form *f)
{
    dop_j_puts(cx, o, negative ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "");
}

static void
put_real(dop_j_ctx *cx, dop_j_out *o, double v, const form *f)
{
    char t[NUMBER_CAP];
    dop_j_out number = {0};
    const char lower = (char)(f->type | 0x20);
    const bool percent = f->type == '%';
    if (f->precision > MAX_PRECISION) {
        dop_j_fail(cx, 0, DOP_E_LIMIT, "a format asks for more than %d digits", MAX_PRECISION);
        return;
    }
    put_sign(cx, &number, signbit(v) && !isnan(v), f);
    const size_t head = number.n;
    const int precision = f->precision < 0 ? 6 : lower == 'g' && f->precision == 0 ? 1 : (int)f->precision;
    v = percent ? v * 100 : v;
    dop_j_step(cx, 100);
    if (!isfinite(v))
        snprintf(t, sizeof t, "%s", isnan(v) ? (f->type == 'F' ? "NAN" : "nan") : f->type == 'F' ? "INF" : "inf");
    else if (f->type == 0)
        print_general_digits(cx, fabs(v), f, t, sizeof t);
    else
        print_real_digits(fabs(v),
                          percent          ? 'f'
                          : f->type == 'n' ? 'g'
                                           : f->type,
                          precision, f->alternative, t, sizeof t);
    put_grouped(cx, &number, t, f);
    dop_j_puts(cx, &number, percent ? "%" : "");
    const dop_j_str text = dop_j_take(&number).u.str;
    put_padded(cx, o, text, head < text.n ? head : 0, f, '>');
}

static void
put_whole(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, const form *f)
{
    char t[72], *p = t + sizeof t - 1;
    dop_j_out number = {0};
    const int base = f->type == 'x' || f->type == 'X' ? 16 : f->type == 'o' ? 8 : f->type == 'b' ? 2 : 10;
    const bool big = v.kind == J_BIG;
    const int64_t i = v.kind == J_BOOL ? v.u.b : v.kind == J_INT ? v.u.i : 0;
    uint64_t rest = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    if (big && base != 10) {
        dop_j_fail(cx, 0, DOP_E_INPUT, "a number is too large to compute with");
        return;
    }
    *p = 0;
    do
        *--p = (f->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[rest % (unsigned)base];
    while ((rest /= (unsigned)base) != 0);
    const bool negative = big ? v.u.str.s[0] == '-' : i < 0;
    put_sign(cx, &number, negative, f);
    if (f->alternative && base != 10) {
        const char prefix[3] = {'0', f->type, 0};
        dop_j_puts(cx, &number, prefix);
    }
    const size_t head = number.n;
    for (int64_t n = (int64_t)strlen(p); n < f->precision && !big && n <= MAX_PRECISION; n++) /* only with the %
                                                                                               * operator */
        dop_j_puts(cx, &number, "0");
    put_grouped(cx, &number, big ? v.u.str.s + negative : p, f);
    const dop_j_str text = dop_j_take(&number).u.str;
    put_padded(cx, o, text, head < text.n ? head : 0, f, '>');
}

static void
put_padded_text(dop_j_ctx *cx, dop_j_out *o, dop_j_str s, const form *f, char usual)
{
    if (f->precision >= 0)
        s = dop_j_cut(cx, s, 0, f->precision);
    put_padded(cx, o, s, 0, f, usual);
}

/* Formats type "c": one character, given as a code point or as a string. */
static void
put_character(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, const form *f, long line)
{
    char c[4];
    dop_j_str s = v.u.str;
    if (v.kind == J_INT && v.u.i >= 0 && v.u.i < 0x110000 && (v.u.i < 0xd800 || v.u.i > 0xdfff))
        s = (dop_j_str){c, dop_utf8_put((uint32_t)v.u.i, c)};
    else if (v.kind != J_STR || dop_j_chars(cx, s) != 1)
        dop_j_fail(cx, line, DOP_E_INPUT, "%%c needs a character");
    if (cx->status == DOP_OK)
        put_padded(cx, o, s, 0, f, '>');
}

/* Applies a conversion: 's' str(), 'r' repr(), 'a' repr() with non-ASCII characters escaped. */
static dop_j_str
convert_format_value(dop_j_ctx *cx, char how, dop_j_val v)
{
    dop_j_out o = {0}, ascii = {0};
    if (how == 's')
        return dop_j_string(cx, v).u.str;
    dop_j_repr(cx, &o, v);
    const dop_j_str s = dop_j_take(&o).u.str;
    for (size_t i = 0; how == 'a' && i < s.n && dop_j_step(cx, 1);) {
        const dop_utf8_char u = dop_utf8_next(s.s + i, s.n - i);
        char t[16];
        snprintf(t, sizeof t,
                 u.cp < 0x80      ? "%c"
                 : u.cp < 0x100   ? "\\x%02x"
                 : u.cp < 0x10000 ? "\\u%04x"
                                  : "\\U%08x",
                 (unsigned)u.cp);
        dop_j_puts(cx, &ascii, t);
        i += u.len;
    }
    return how == 'a' ? dop_j_take(&ascii).u.str : s;
}

/* ---- FORMAT % VALUES ---- */

typedef struct percent_state {
    dop_j_str rest; /* unread part of the format */
    dop_j_val args;
    size_t used;
    long line;
} percent_state;

static dop_j_val
next_percent_value(dop_j_ctx *cx, percent_state *s)
{
    const bool tuple = s->args.kind == J_TUPLE;
    if (s->used >= (tuple ? s->args.u.list->n : 1))
        return dop_j_fail(cx, s->line, DOP_E_INPUT, "a format has more places than values");
    return tuple ? s->args.u.list->items[s->used++] : (s->used++, s->args);
}

static char
peek_format(const dop_j_str *s)
{
    return s->n ? s->s[0] : 0;
}

static void
skip_format_byte(dop_j_str *s)
{
    if (s->n)
        *s = (dop_j_str){s->s + 1, s->n - 1};
}

/* Reads a width or precision: digits, or '*' for the next value. Returns 0 if there is neither. */
static int64_t
read_percent_number(dop_j_ctx *cx, percent_state *s)
{
    int64_t n = 0;
    if (peek_format(&s->rest) == '*') {
        skip_format_byte(&s->rest);
        const dop_j_val v = next_percent_value(cx, s);
        if (v.kind != J_INT && cx->status == DOP_OK)
            dop_j_fail(cx, s->line, DOP_E_INPUT, "* wants an integer");
        return cx->status == DOP_OK ? v.u.i : 0;
    }
    for (; peek_format(&s->rest) >= '0' && peek_format(&s->rest) <= '9'; skip_format_byte(&s->rest))
        n = n > J_MAX_ARENA ? n : n * 10 + (peek_format(&s->rest) - '0');
    return n;
}

static void
read_percent_flags(dop_j_ctx *cx, percent_state *s, form *f)
{
    bool left = false, zero = false;
    for (;; skip_format_byte(&s->rest)) {
        const char c = peek_format(&s->rest);
        if (c == '-')
            left = true;
        else if (c == '0')
            zero = true;
        else if (c == '#')
            f->alternative = true;
        else if (c == '+' || (c == ' ' && f->sign != '+'))
            f->sign = c;
        else if (c != ' ')
            break;
    }
    f->width = read_percent_number(cx, s);
    if (f->width < 0) {
        left = true;
        f->width = f->width < -J_MAX_ARENA ? J_MAX_ARENA : -f->width;
    }
    f->align = left ? '<' : '>';
    f->zero = zero && !left;
    if (peek_format(&s->rest) == '.') {
        skip_format_byte(&s->rest);
        f->precision = read_percent_number(cx, s);
        f->precision = f->precision < 0 ? 0 : f->precision;
    }
    while (peek_format(&s->rest) && strchr("hlL", peek_format(&s->rest)))
        skip_format_byte(&s->rest);
}

/* Reads one conversion after its "%" and appends the formatted value. */
static void
format_percent_place(dop_j_ctx *cx, dop_j_out *o, percent_state *s)
{
    form f = {.fill = {" ", 1}, .precision = -1};
    const dop_j_val *named = NULL;
    if (peek_format(&s->rest) == '(') {
        const char *end = memchr(s->rest.s, ')', s->rest.n);
        if (!end || s->args.kind != J_DICT) {
            dop_j_fail(cx, s->line, DOP_E_INPUT, "a format with names needs a mapping");
            return;
        }
        const dop_j_str name = {s->rest.s + 1, (size_t)(end - s->rest.s) - 1};
        named = dop_j_get(cx, s->args.u.dict, dop_j_str_val(name));
        if (!named)
            dop_j_fail(cx, s->line, DOP_E_INPUT, "a format names a value that is not there");
        s->rest = (dop_j_str){end + 1, s->rest.n - name.n - 2};
    }
    read_percent_flags(cx, s, &f);
    const char how = peek_format(&s->rest);
    skip_format_byte(&s->rest);
    if (how == '%') {
        dop_j_puts(cx, o, "%");
        return;
    }
    if (!how || !strchr("srdiufFeEgGxXoca", how))
        dop_j_fail(cx, s->line, DOP_E_INPUT, "a format with %% has an unknown place");
    const dop_j_val v = cx->status != DOP_OK ? dop_j_none() : named ? *named : next_percent_value(cx, s);
    double real;
    if (cx->status != DOP_OK)
        return;
    f.type = how == 'i' || how == 'u' ? 'd' : how;
    if (strchr("sra", how)) {
        put_padded_text(cx, o, convert_format_value(cx, how, v), &f, '>');
    } else if (how == 'c') {
        put_character(cx, o, v, &f, s->line);
    } else if (!dop_j_number(v, &real) || (v.kind == J_FLOAT && strchr("xXo", how)) ||
               (f.type == 'd' && !isfinite(real))) {
        dop_j_fail(cx, s->line, DOP_E_INPUT, "%%%c needs a number, not a %s", how, dop_j_kind_name(v.kind));
    } else {
        if (f.zero) {
            f.fill = (dop_j_str){"0", 1};
            f.align = '=';
        }
        if (!strchr("dxXo", f.type))
            put_real(cx, o, real, &f);
        else if (v.kind != J_FLOAT)
            put_whole(cx, o, v, &f);
        else if (fabs(real) < 0x1p63)
            put_whole(cx, o, dop_j_int((int64_t)real), &f);
        else
            dop_j_fail(cx, s->line, DOP_E_INPUT, "a number is too large to compute with");
    }
}

dop_j_val
dop_j_percent(dop_j_ctx *cx, dop_j_str format, dop_j_val args, long line)
{
    dop_j_out o = {0};
    percent_state s = {.rest = format, .args = args, .line = line};
    while (s.rest.n && cx->status == DOP_OK) {
        const char *p = memchr(s.rest.s, '%', s.rest.n);
        const size_t n = p ? (size_t)(p - s.rest.s) : s.rest.n;
        dop_j_put(cx, &o, s.rest.s, n);
        s.rest = (dop_j_str){s.rest.s + n + (p ? 1 : 0), s.rest.n - n - (p ? 1 : 0)};
        if (p)
            format_percent_place(cx, &o, &s);
    }
    const bool many = args.kind == J_DICT || args.kind == J_LIST || args.kind == J_UNDEF;
    const size_t given = args.kind == J_TUPLE ? args.u.list->n : many ? 0 : 1;
    if (s.used < given)
        return dop_j_fail(cx, line, DOP_E_INPUT, "a format has fewer places than values");
    return dop_j_take(&o);
}

/* ---- FORMAT.format(VALUES) ---- */

static int64_t
read_spec_number(dop_j_str *s)
{
    int64_t n = -1;
    for (; peek_format(s) >= '0' && peek_format(s) <= '9'; skip_format_byte(s))
        n = n > J_MAX_ARENA ? n : (n < 0 ? 0 : n * 10) + (peek_format(s) - '0');
    return n;
}

/* Parses a format specification: [[fill]align][sign][#][0][width][grouping][.precision][type]. Returns false if it
 * is malformed. */
static bool
read_spec(dop_j_str s, form *f)
{
    const size_t first = s.n ? dop_utf8_next(s.s, s.n).len : 0;
    bool filled = false;
    *f = (form){.fill = {" ", 1}, .precision = -1};
    if (s.n > first && strchr("<>=^", s.s[first]) && s.s[first]) {
        f->fill = (dop_j_str){s.s, first};
        filled = true;
        f->align = s.s[first];
        s = (dop_j_str){s.s + first + 1, s.n - first - 1};
    } else if (s.n && strchr("<>=^", s.s[0])) {
        f->align = s.s[0];
        skip_format_byte(&s);
    }
    if (peek_format(&s) && strchr("+- ", peek_format(&s))) {
        f->sign = peek_format(&s);
        skip_format_byte(&s);
    }
    if (peek_format(&s) == 'z')
        skip_format_byte(&s);
    if (peek_format(&s) == '#') {
        f->alternative = true;
        skip_format_byte(&s);
    }
    if (peek_format(&s) == '0') {
        f->zero = !f->align;
        f->fill = filled ? f->fill : (dop_j_str){"0", 1};
        f->align = f->align ? f->align : '=';
    }
    f->width = read_spec_number(&s);
    if (peek_format(&s) == ',' || peek_format(&s) == '_') {
        f->group = peek_format(&s);
        skip_format_byte(&s);
    }
    if (peek_format(&s) == '.') {
        skip_format_byte(&s);
        f->precision = read_spec_number(&s);
        if (f->precision < 0)
            return false;
    }
    f->type = peek_format(&s);
    skip_format_byte(&s);
    return s.n == 0;
}

static void
put_formatted_value(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, dop_j_str spec, long line)
{
    form f;
    double real;
    if (spec.n == 0 || v.kind == J_UNDEF) {
        dop_j_print(cx, o, v);
        return;
    }
    bool ok = read_spec(spec, &f);
    const bool number = dop_j_number(v, &real), whole = number && v.kind != J_FLOAT;
    if (ok && v.kind == J_STR && (f.type == 0 || f.type == 's') && (f.align != '=' || f.zero)) {
        f.align = f.align == '=' ? '<' : f.align;
        put_padded_text(cx, o, v.u.str, &f, '<');
    } else if (ok && whole && f.type == 'c') {
        put_character(cx, o, v, &f, line);
    } else if (ok && whole && (f.type == 0 || strchr("bdoxXn", f.type)) && f.precision < 0) {
        put_whole(cx, o, v, &f);
    } else if (ok && number && (f.type == 0 ? !whole : strchr("eEfFgGn%", f.type) != NULL)) {
        put_real(cx, o, real, &f);
    } else {
        dop_j_fail(cx, line, DOP_E_INPUT, "the format \"%.*s\" does not fit a %s", spec.n > 40 ? 40 : (int)spec.n,
                   spec.s, dop_j_kind_name(v.kind));
    }
}

typedef struct fields {
    const dop_j_args *args;
    size_t automatic; /* number of replacement fields without a name so far */
    unsigned depth;
} fields;

static bool
is_digit_text(dop_j_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.s[i] < '0' || s.s[i] > '9')
            return false;
    return s.n > 0;
}

/* Evaluates a replacement field's name.attribute[item]... */
static dop_j_val
find_field_value(dop_j_ctx *cx, fields *f, dop_j_str name)
{
    size_t n = 0;
    while (n < name.n && name.s[n] != '.' && name.s[n] != '[')
        n++;
    dop_j_str first = {name.s, n}, rest = {name.s + n, name.n - n};
    const dop_j_val *v = NULL;
    if (n == 0) {
        v = f->automatic < f->args->n ? &f->args->pos[f->automatic] : NULL;
        f->automatic++;
    } else if (is_digit_text(first)) {
        const int64_t i = read_spec_number(&first);
        v = (uint64_t)i < f->args->n ? &f->args->pos[i] : NULL;
    } else {
        for (size_t i = 0; !v && i < f->args->named_n && dop_j_step(cx, 1); i++)
            v = dop_j_str_eq(f->args->names[i], first) ? &f->args->named[i] : NULL;
    }
    if (!v)
        return dop_j_fail(cx, f->args->line, DOP_E_INPUT, "format: a place has no value");
    dop_j_val r = *v;
    while (rest.n && cx->status == DOP_OK) {
        const bool item = rest.s[0] == '[';
        skip_format_byte(&rest);
        for (n = 0; n < rest.n && (item ? rest.s[n] != ']' : rest.s[n] != '.' && rest.s[n] != '[');)
            n++;
        dop_j_str key = {rest.s, n};
        rest = (dop_j_str){rest.s + n, rest.n - n};
        if (item)
            skip_format_byte(&rest);
        if (r.kind == J_UNDEF)
            return dop_j_undefined_use(cx, r, f->args->line);
        r = !item                ? dop_j_attribute(cx, r, key, f->args->line)
            : is_digit_text(key) ? dop_j_item(cx, r, dop_j_int(read_spec_number(&key)), f->args->line)
                                 : dop_j_item(cx, r, dop_j_str_val(key), f->args->line);
    }
    return r;
}

static void expand_format(dop_j_ctx *cx, dop_j_out *o, dop_j_str s, fields *f);

/* Expands a replacement field, the text between braces: name, !conversion, :specification. */
static void
put_replacement_field(dop_j_ctx *cx, dop_j_out *o, dop_j_str s, fields *f)
{
    size_t n = 0;
    dop_j_out spec = {0};
    bool bracket = false;
    for (; n < s.n && (bracket || (s.s[n] != '!' && s.s[n] != ':')); n++)
        bracket = s.s[n] == '[' || (bracket && s.s[n] != ']');
    dop_j_val v = find_field_value(cx, f, (dop_j_str){s.s, n});
    dop_j_str rest = {s.s + n, s.n - n};
    if (peek_format(&rest) == '!' && cx->status == DOP_OK) {
        if (rest.n < 2 || !strchr("sra", rest.s[1]) || (rest.n > 2 && rest.s[2] != ':'))
            dop_j_fail(cx, f->args->line, DOP_E_INPUT, "format: a conversion is one of !s !r !a");
        else
            v = dop_j_str_val(convert_format_value(cx, rest.s[1], v));
        rest = (dop_j_str){rest.s + 2, cx->status == DOP_OK ? rest.n - 2 : 0};
    }
    skip_format_byte(&rest); /* skip ':' */
    f->depth++;
    if (rest.n)
        expand_format(cx, &spec, rest, f);
    f->depth--;
    if (cx->status == DOP_OK)
        put_formatted_value(cx, o, v, dop_j_take(&spec).u.str, f->args->line);
}

static void
expand_format(dop_j_ctx *cx, dop_j_out *o, dop_j_str s, fields *f)
{
    if (f->depth > 2)
        dop_j_fail(cx, f->args->line, DOP_E_INPUT, "format: places are nested too deeply");
    while (s.n && cx->status == DOP_OK) {
        size_t n = 0;
        while (n < s.n && s.s[n] != '{' && s.s[n] != '}')
            n++;
        dop_j_put(cx, o, s.s, n);
        s = (dop_j_str){s.s + n, s.n - n};
        if (s.n == 0)
            return;
        if (s.n > 1 && s.s[1] == s.s[0] && f->depth == 0) {
            dop_j_put(cx, o, s.s, 1);
            s = (dop_j_str){s.s + 2, s.n - 2};
            continue;
        }
        size_t end = 1, open = 1;
        for (; s.s[0] == '{' && end < s.n && open > 0; end++)
            open += s.s[end] == '{' ? 1 : s.s[end] == '}' ? SIZE_MAX : 0;
        if (s.s[0] == '}' || open > 0) {
            dop_j_fail(cx, f->args->line, DOP_E_INPUT, "format: a single '%c'", s.s[0]);
            return;
        }
        put_replacement_field(cx, o, (dop_j_str){s.s + 1, end - 2}, f);
        s = (dop_j_str){s.s + end, s.n - end};
    }
}

dop_j_val
dop_j_str_format(dop_j_ctx *cx, dop_j_str format, const dop_j_args *a)
{
    dop_j_out o = {0};
    fields f = {.args = a};
    expand_format(cx, &o, format, &f);
    return dop_j_take(&o);
}
