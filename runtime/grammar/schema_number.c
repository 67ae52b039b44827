/* Numbers of JSON, with bounds that are whole numbers. */
#include "runtime/grammar/schema_internal.h"

#include <math.h>
#include <string.h>

enum { WHOLE_DIGITS = 15, FRACTION_DIGITS = 15 };
static const int64_t most = 999999999999999; /* exact as a double too */

typedef struct bounds {
    int64_t min, max;                            /* of whole numbers */
    bool has_min, has_max, above_min, below_max; /* above, below: the bound itself is not allowed */
} bounds;

static bool
bound(dop_schema *s, const json_t *schema, const char *name, int64_t *out)
{
    const json_t *v = json_object_get(schema, name);
    double x = json_number_value(v);
    if (!v)
        return false;
    if (!json_is_number(v) || x != floor(x) || fabs(x) > (double)most) {
        dop_schema_refuse(s, "%s is supported for whole numbers of at most %d digits", name, WHOLE_DIGITS);
        return false;
    }
    *out = (int64_t)x;
    return true;
}

static bounds
bounds_of(dop_schema *s, const json_t *schema)
{
    bounds b = {.min = -most, .max = most};
    int64_t x;
    if (bound(s, schema, "minimum", &x)) {
        b.has_min = true;
        b.min = x;
    }
    if (bound(s, schema, "exclusiveMinimum", &x) && (!b.has_min || x >= b.min)) {
        b.has_min = b.above_min = true;
        b.min = x;
    }
    if (bound(s, schema, "maximum", &x)) {
        b.has_max = true;
        b.max = x;
    }
    if (bound(s, schema, "exclusiveMaximum", &x) && (!b.has_max || x <= b.max)) {
        b.has_max = b.below_max = true;
        b.max = x;
    }
    return b;
}

/* Adds whole numbers from lo to hi, both at least 0, without leading zeros. */
static void
digits_between(dop_schema *s, uint32_t from, int64_t lo, int64_t hi, uint32_t to)
{
    int64_t least = 0;
    for (int n = 1; n <= WHOLE_DIGITS; n++) {
        int64_t largest = least ? least * 10 - 1 : 9, first = lo > least ? lo : least,
                last = hi < largest ? hi : largest;
        char low[24], high[24];
        if (first <= last) {
            snprintf(low, sizeof low, "%0*lld", n, (long long)first);
            snprintf(high, sizeof high, "%0*lld", n, (long long)last);
            dop_auto_between(&s->a, from, (const uint8_t *)low, (const uint8_t *)high, (size_t)n, '0', '9', to);
        }
        least = largest + 1;
    }
}

static void
whole_between(dop_schema *s, uint32_t from, int64_t lo, int64_t hi, uint32_t to)
{
    if (hi >= 0)
        digits_between(s, from, lo > 0 ? lo : 0, hi, to);
    if (lo < 0)
        digits_between(s, dop_schema_text(s, from, "-"), hi < 0 ? -hi : 1, -lo, to);
}

/* Adds a point and digits, of which the last one is not 0, so that the number is not a whole one. */
static uint32_t
fraction(dop_schema *s, uint32_t from)
{
    uint32_t start, digit = dop_schema_rule_new(s, &start), end = dop_auto_state(&s->a), to = dop_auto_state(&s->a);
    dop_auto_bytes(&s->a, start, '0', '9', end);
    dop_auto_end(&s->a, end);
    uint32_t at = dop_auto_repeat(&s->a, dop_schema_text(s, from, "."), digit, 0, FRACTION_DIGITS - 1);
    dop_auto_bytes(&s->a, at, '1', '9', to);
    return to;
}

/* Adds the numbers between whole bounds that are not whole themselves.  Below 0 these are -n.f, which lies between -n - 1 and -n. */
static void
parts_between(dop_schema *s, uint32_t from, int64_t lo, int64_t hi, uint32_t to)
{
    uint32_t point = dop_auto_state(&s->a);
    if (hi > 0)
        digits_between(s, from, lo > 0 ? lo : 0, hi - 1, point);
    if (lo < 0)
        digits_between(s, dop_schema_text(s, from, "-"), hi < 0 ? -hi : 0, -lo - 1, point);
    dop_auto_nothing(&s->a, fraction(s, point), to);
}

/* Adds any number that JSON can write. */
static uint32_t
any_number(dop_schema *s, uint32_t from)
{
    uint32_t start, digit = dop_schema_rule_new(s, &start), end = dop_auto_state(&s->a);
    dop_auto_bytes(&s->a, start, '0', '9', end);
    dop_auto_end(&s->a, end);
    uint32_t sign = dop_auto_state(&s->a), whole = dop_auto_state(&s->a), to = dop_auto_state(&s->a);
    dop_auto_nothing(&s->a, from, sign);
    dop_auto_nothing(&s->a, dop_schema_text(s, from, "-"), sign);
    dop_auto_nothing(&s->a, dop_schema_text(s, sign, "0"), whole);
    uint32_t first = dop_auto_state(&s->a), part = dop_auto_state(&s->a);
    dop_auto_bytes(&s->a, sign, '1', '9', first);
    dop_auto_nothing(&s->a, dop_auto_repeat(&s->a, first, digit, 0, WHOLE_DIGITS - 1), whole);
    dop_auto_nothing(&s->a, whole, part);
    dop_auto_nothing(&s->a, dop_auto_repeat(&s->a, dop_schema_text(s, whole, "."), digit, 1, FRACTION_DIGITS), part);
    dop_auto_nothing(&s->a, part, to);
    uint32_t e = dop_auto_state(&s->a), exponent = dop_auto_state(&s->a);
    dop_auto_bytes(&s->a, part, 'e', 'e', e);
    dop_auto_bytes(&s->a, part, 'E', 'E', e);
    dop_auto_nothing(&s->a, e, exponent);
    dop_auto_bytes(&s->a, e, '+', '+', exponent);
    dop_auto_bytes(&s->a, e, '-', '-', exponent);
    dop_auto_nothing(&s->a, dop_auto_repeat(&s->a, exponent, digit, 1, 2), to);
    return to;
}

uint32_t
dop_schema_number(dop_schema *s, uint32_t from, const json_t *schema, bool whole)
{
    bounds b = bounds_of(s, schema);
    uint32_t to = dop_auto_state(&s->a);
    if (!whole && !b.has_min && !b.has_max)
        return any_number(s, from);
    if (b.min > b.max || ((b.above_min || b.below_max) && b.min == b.max))
        dop_schema_refuse(s, "minimum is more than maximum");
    int64_t lo = b.above_min ? b.min + 1 : b.min, hi = b.below_max ? b.max - 1 : b.max;
    if (whole && lo > hi)
        dop_schema_refuse(s, "no whole number lies between the bounds");
    if (s->status != DOP_OK)
        return to;
    if (lo <= hi)
        whole_between(s, from, lo, hi, to);
    if (!whole)
        parts_between(s, from, b.min, b.max, to);
    return to;
}
