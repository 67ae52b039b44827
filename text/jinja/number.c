/* Parsers for numbers, as Python's float() and int(). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/arena.h"
#include "text/jinja/jinja.h"
#include "text/jinja/number.h"

/* Copies the text of a number without the '_' between digits. Returns its length, or 0 if the text is not a number
 * or too long. */
static size_t
copy_plain_digits(dop_j_str s, char *out, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        const bool between = i > 0 && i + 1 < s.n && dop_hex_digit(s.s[i - 1]) >= 0 && dop_hex_digit(s.s[i + 1]) >= 0;
        if (s.s[i] == '_' ? !between : (n + 1 >= cap || s.s[i] == 0))
            return 0;
        if (s.s[i] != '_')
            out[n++] = s.s[i];
    }
    out[n] = 0;
    return n;
}

static bool
is_number_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

static dop_j_str
trim_number_text(dop_j_str s)
{
    while (s.n && is_number_blank(s.s[0]))
        s = (dop_j_str){s.s + 1, s.n - 1};
    while (s.n && is_number_blank(s.s[s.n - 1]))
        s.n--;
    return s;
}

bool
dop_j_read_float(dop_j_str s, double *out)
{
    static const char *const words[] = {"inf", "infinity", "nan"};
    char t[512], *end;
    const size_t n = copy_plain_digits(trim_number_text(s), t, sizeof t);
    const char *p = t + (n && (t[0] == '-' || t[0] == '+'));
    bool word = false;
    for (size_t i = 0; n && i < 3; i++)
        word |= strcasecmp(p, words[i]) == 0;
    if (!n || (!word && strspn(p, "0123456789.eE+-") != strlen(p)))
        return false;
    *out = dop_strtod(t, &end);
    return end != t && *end == 0;
}

bool
dop_j_read_int(dop_j_ctx *cx, dop_j_str s, int base, dop_j_val *out)
{
    char t[512], *end;
    const size_t n = copy_plain_digits(trim_number_text(s), t, sizeof t);
    const size_t sign = n && (t[0] == '-' || t[0] == '+');
    const char *digits = t + sign;
    /* A prefix (0x, 0o, 0b) must match the base; with base 0 it determines the base. */
    if (digits[0] == '0' && strchr("xXoObB", digits[1]) && digits[1]) {
        const int based = (digits[1] | 0x20) == 'x' ? 16 : (digits[1] | 0x20) == 'o' ? 8 : 2;
        if (base == 0 || base == based) {
            base = based;
            digits += 2;
        }
    }
    base = base == 0 ? 10 : base;
    if (n == sign || dop_hex_digit(digits[0]) < 0 || base < 2 || base > 36)
        return false;
    errno = 0;
    const long long magnitude = strtoll(digits, &end, base);
    if (*end != 0 || end == digits)
        return false;
    *out = dop_j_int(t[0] == '-' ? -magnitude : magnitude);
    if (errno != ERANGE)
        return true;
    while (*digits == '0')
        digits++;
    dop_j_out o = {0};
    dop_j_put(cx, &o, "-", sign && t[0] == '-');
    dop_j_puts(cx, &o, digits);
    *out = dop_j_take(&o);
    if (t[0] == '-' && strcmp(digits, "9223372036854775808") == 0)
        *out = dop_j_int(INT64_MIN);
    else
        out->kind = J_BIG;
    return base == 10;
}
