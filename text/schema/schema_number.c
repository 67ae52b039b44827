/* JSON numbers. Bounds and multiples are terms of regular.h, exact for all numbers without an exponent. */
#include "text/schema/schema_number.h"
#include "text/schema/schema_base.h"
#include "text/schema/schema_internal.h"
#include "text/schema/schema_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WHOLE_DIGITS = 15, /* maximum digits before the point, exact as a double; larger if a bound has more */
    FRACTION_DIGITS = 15,
    MOST_DIGITS = 22,
    MOST_STATES = 200000,
    MOST_MULTIPLE = 20000,
    MOST_PLACES = 10
};
static const uint64_t most_steps = 20000000, most_bytes = 48u << 20;

/* Adds any JSON number from a state. Returns the state after it. */
uint32_t
dop_schema_any_number(dop_schema *s, uint32_t from)
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

/* Writes the absolute value of a number as decimal digits. Returns false if it has too many digits before the point.
 * Keeps a limited number of digits after the point; *out_cut is true if further ones were dropped. */
static bool
write_decimal(const json_t *v, dop_decimal *out, bool *out_cut)
{
    char text[64], digits[40] = "";
    int exponent = 0;
    size_t n = 0;
    *out_cut = false;
    if (json_is_integer(v)) {
        const json_int_t x = json_integer_value(v);
        snprintf(out->whole, sizeof out->whole, "%llu", x < 0 ? 0 - (unsigned long long)x : (unsigned long long)x);
        out->part[0] = 0;
        return true;
    }
    const double x = fabs(json_real_value(v));
    for (int precision = 1; precision <= 17; precision++) { /* shortest text that yields the same number */
        snprintf(text, sizeof text, "%.*e", precision - 1, x);
        if (strtod(text, NULL) == x)
            break;
    }
    for (const char *c = text; *c && *c != 'e'; c++)
        if (*c != '.')
            digits[n++] = *c;
    digits[n] = 0;
    const char *e = strchr(text, 'e');
    exponent = e ? atoi(e + 1) : 0;
    if (exponent >= MOST_DIGITS - 1)
        return false;
    size_t w = 0, p = 0;
    for (int i = 0; i <= exponent; i++)
        out->whole[w++] = (size_t)i < n ? digits[i] : '0';
    if (w == 0)
        out->whole[w++] = '0';
    for (int i = exponent + 1; i < (int)n; i++) {
        if (p >= MOST_DIGITS - 2) {
            *out_cut = true;
            break;
        }
        out->part[p++] = i < 0 ? '0' : digits[i];
    }
    out->whole[w] = out->part[p] = 0;
    while (p > 0 && !*out_cut && out->part[p - 1] == '0')
        out->part[--p] = 0;
    return true;
}

typedef struct number {
    dop_regular *r;
    dop_term plus, minus; /* terms of the digits of numbers without a sign, and of digits after a minus */
    size_t whole, part;   /* maximum digits before and after the point */
    bool limits;          /* true if some keyword restricts the numbers */
} number;

/* Adds a bound: numbers must be at least v, or at most v. */
static void
add_number_bound(dop_schema *s, number *n, const char *keyword, const json_t *v, bool at_least, bool strict)
{
    dop_decimal d = {.strict = strict};
    bool cut;
    const bool negative = json_number_value(v) < 0;
    n->limits = true;
    if (!write_decimal(v, &d, &cut)) { /* the bound is outside the range of numbers in the grammar */
        if (negative != at_least) {
            if (at_least || negative)
                dop_schema_unenforced(s, keyword);
        }
        return;
    }
    const size_t whole = strlen(d.whole), part = strlen(d.part);
    n->whole = whole + 1 > n->whole && !(at_least == negative) ? whole + 1 : whole > n->whole ? whole : n->whole;
    n->part = part > n->part ? part : n->part;
    /* After a minus, a larger absolute value is a smaller number, so bounds change sides. */
    d.at_least = at_least != negative;
    if (cut) /* the grammar has no number between the bound and its kept digits */
        d.strict = d.at_least;
    const dop_term side = dop_regular_compare(n->r, &d);
    if (negative) {
        n->minus = dop_regular_and(n->r, n->minus, side);
        n->plus = at_least ? n->plus : DOP_TERM_NONE;
    } else {
        n->plus = dop_regular_and(n->r, n->plus, side);
        n->minus = at_least ? DOP_TERM_NONE : n->minus;
    }
}

/* Returns the term of the multiples of v. Returns `otherwise` and reports the keyword if they need too many states. */
static dop_term
make_multiples_term(dop_schema *s, number *n, const json_t *v, const char *keyword, dop_term otherwise)
{
    dop_decimal d = {.strict = false};
    bool cut;
    char digits[64];
    if (!json_is_number(v) || json_number_value(v) <= 0)
        return otherwise;
    if (write_decimal(v, &d, &cut) && !cut && strlen(d.part) <= MOST_PLACES && strlen(d.whole) <= MOST_PLACES) {
        snprintf(digits, sizeof digits, "%s%s", d.whole, d.part);
        const unsigned long long of = strtoull(digits, NULL, 10);
        if (of > 0 && of <= MOST_MULTIPLE)
            return dop_regular_multiple(n->r, (uint32_t)of, (uint32_t)strlen(d.part));
    }
    dop_schema_unenforced(s, keyword);
    return otherwise;
}

static void
add_number_keywords(dop_schema *s, number *n, const json_t *schema, bool with_multiples)
{
    const json_t *min = json_object_get(schema, "minimum"), *max = json_object_get(schema, "maximum"),
                 *above = json_object_get(schema, "exclusiveMinimum"),
                 *below = json_object_get(schema, "exclusiveMaximum"), *of = json_object_get(schema, "multipleOf");
    const struct {
        const char *name;
        const json_t *v;
        bool at_least, strict;
    } bounds[] = {
        {"minimum", min, true, json_is_true(above)}, /* boolean form of older drafts */
        {"maximum", max, false, json_is_true(below)},
        {"exclusiveMinimum", json_is_boolean(above) ? NULL : above, true, true},
        {"exclusiveMaximum", json_is_boolean(below) ? NULL : below, false, true},
    };
    for (size_t i = 0; i < 4; i++) {
        if (bounds[i].v && !json_is_number(bounds[i].v))
            dop_schema_refuse(s, "%s is a number", bounds[i].name);
        else if (bounds[i].v)
            add_number_bound(s, n, bounds[i].name, bounds[i].v, bounds[i].at_least, bounds[i].strict);
    }
    if (!of || !with_multiples)
        return;
    const dop_term t = make_multiples_term(s, n, of, "multipleOf", DOP_TERM_ANY);
    n->limits = true;
    n->plus = dop_regular_and(n->r, n->plus, t);
    n->minus = dop_regular_and(n->r, n->minus, t);
}

static void
add_number_nots(dop_schema *s, number *n, const dop_conjunction *c)
{
    for (size_t i = 0; i < c->n_nots; i++) {
        const json_t *of = json_object_get(c->nots[i], "multipleOf"), *v;
        json_t *list = dop_schema_pinned(c->nots[i]);
        size_t k;
        if (of) {
            const dop_term t = dop_regular_not(n->r, make_multiples_term(s, n, of, "not", DOP_TERM_NONE));
            n->limits = true;
            n->plus = dop_regular_and(n->r, n->plus, t);
            n->minus = dop_regular_and(n->r, n->minus, t);
        }
        json_array_foreach(list, k, v)
        {
            char text[64];
            dop_decimal d = {.strict = false};
            bool cut;
            if (!json_is_number(v) || !write_decimal(v, &d, &cut) || cut)
                continue;
            snprintf(text, sizeof text, "%s%s%s", d.whole, d.part[0] ? "." : "", d.part);
            dop_term *side = json_number_value(v) < 0 ? &n->minus : &n->plus;
            n->limits = true;
            *side = dop_regular_and(n->r, *side, dop_regular_not(n->r, dop_regular_text(n->r, text, strlen(text))));
        }
        json_decref(list);
    }
}

static dop_term
make_digits_term(dop_regular *r, uint32_t first, uint32_t min, uint32_t max)
{
    dop_charset set = {0};
    dop_charset_add(&set, first, '9');
    const dop_term t = dop_regular_repeat(r, dop_regular_set(r, &set), min, max);
    dop_charset_finish(&set);
    return t;
}

/* Returns the term of integers without leading zeros, and of numbers with a fraction that does not end in 0. */
static dop_term
make_number_syntax(const number *n, unsigned bits)
{
    dop_regular *r = n->r;
    const uint32_t most = (uint32_t)(n->whole > MOST_DIGITS ? MOST_DIGITS : n->whole);
    const dop_term whole =
        dop_regular_alt(r, dop_regular_text(r, "0", 1),
                        dop_regular_cat(r, make_digits_term(r, '1', 1, 1), make_digits_term(r, '0', 0, most - 1)));
    dop_term part =
        dop_regular_cat(r, make_digits_term(r, '0', 0, (uint32_t)n->part - 1), make_digits_term(r, '1', 1, 1));
    part = dop_regular_cat(r, dop_regular_text(r, ".", 1), part);
    dop_term t = bits & DOP_IS_INTEGER ? whole : DOP_TERM_NONE;
    return bits & DOP_IS_REAL ? dop_regular_alt(r, t, dop_regular_cat(r, whole, part)) : t;
}

static dop_status
emit_number_term(dop_schema *s, number *n, unsigned bits, uint32_t from, uint32_t to)
{
    dop_diag own = {0};
    dop_spelling how = {0};
    dop_regular *r = n->r;
    const dop_term all = make_number_syntax(n, bits), zero = dop_regular_text(r, "0", 1),
                   sign = dop_regular_text(r, "-", 1);
    const dop_term minus = dop_regular_and(r, dop_regular_and(r, all, dop_regular_not(r, zero)), n->minus);
    const dop_term t = dop_regular_alt(r, dop_regular_and(r, all, n->plus), dop_regular_cat(r, sign, minus));
    dop_charset_add(&how.plain, '-', '9');
    dop_status st = r->limited ? DOP_E_LIMIT : dop_regular_emit(r, t, MOST_STATES, &how, &s->a, from, to, &own);
    s->a.failed |= r->failed || how.plain.failed;
    dop_charset_finish(&how.plain);
    return st;
}

void
dop_schema_add_number(dop_schema *s, const dop_conjunction *c, unsigned bits, uint32_t from, uint32_t to)
{
    dop_budget own = {.steps = most_steps, .bytes = most_bytes};
    dop_regular *r = malloc(sizeof *r);
    s->a.failed |= !r;
    dop_status st = DOP_E_LIMIT;
    for (size_t tries = 0; tries < 2 && r && st == DOP_E_LIMIT && dop_schema_goes_on(s); tries++) {
        number n = {
            .r = r, .plus = DOP_TERM_ANY, .minus = DOP_TERM_ANY, .whole = WHOLE_DIGITS, .part = FRACTION_DIGITS};
        own = (dop_budget){.steps = most_steps, .bytes = most_bytes};
        dop_regular_init(r, &own);
        for (size_t i = 0; i < c->n; i++)
            add_number_keywords(s, &n, c->all[i], tries == 0);
        if (tries == 0)
            add_number_nots(s, &n, c);
        else
            dop_schema_unenforced(s, "multipleOf");
        if (!n.limits && bits == DOP_IS_NUMBER) {
            dop_auto_nothing(&s->a, dop_schema_any_number(s, from), to);
            st = DOP_OK;
        } else if (s->status == DOP_OK) {
            st = emit_number_term(s, &n, bits, from, to);
        }
        dop_regular_finish(r);
        s->a.too_large |= !dop_budget_step(s->a.budget, most_steps - own.steps);
    }
    free(r);
    if (st == DOP_E_INPUT)
        dop_schema_note_empty(s, "minimum is more than maximum, or no number that is allowed lies between the bounds");
}
