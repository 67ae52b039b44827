/* Number terms of regular.h for decimal numbers without sign and exponent, in JSON's syntax: multiples of a number,
 * and numbers on one side of a bound. Checking the number's syntax needs another term.
 *
 * DOP_TERM_MULTIPLE: a = divisor of number x 10^places; b = places; min = 1 + remaining digits after the point (0:
 * before the point); max = remainder so far.
 * DOP_TERM_COMPARE: a = index of the bound; b = number of digits read in the current part; min = 1 after the point;
 * max = result of the comparison so far: 0 equal, 1 less, 2 more. */
#include "text/grammar/regular.h"

#include <stdlib.h>
#include <string.h>

enum { EQUAL, LESS, MORE };

static dop_term derive_number(dop_regular *r, const dop_term_node *n, uint32_t c);

/* --- multiples ---------------------------------------------------------------------------------------------------------------- */

static uint32_t
scale_remainder(uint32_t remainder, uint32_t of, uint32_t digits)
{
    uint64_t r = remainder;
    for (; digits > 0; digits--)
        r = r * 10 % of;
    return (uint32_t)r;
}

static bool
is_multiple_state(const dop_term_node *n)
{
    return scale_remainder(n->max, n->a, n->min > 0 ? n->min - 1 : n->b) == 0;
}

dop_term
dop_regular_multiple(dop_regular *r, uint32_t of, uint32_t places)
{
    dop_term_node n = {.kind = DOP_TERM_MULTIPLE, .a = of, .b = places};
    r->derive_number = derive_number;
    n.nullable = is_multiple_state(&n);
    return dop_regular_node(r, n);
}

static dop_term
derive_multiple(dop_regular *r, dop_term_node n, uint32_t c)
{
    if (c == '.') {
        if (n.min > 0 || n.b == 0)
            return DOP_TERM_NONE;
        n.min = n.b + 1;
    } else if (c >= '0' && c <= '9') {
        if (n.min == 1)
            return DOP_TERM_NONE;
        n.max = (uint32_t)(((uint64_t)n.max * 10 + (c - '0')) % n.a);
        n.min -= n.min > 0;
    } else {
        return DOP_TERM_NONE;
    }
    n.nullable = is_multiple_state(&n);
    return dop_regular_node(r, n);
}

/* --- bounds -------------------------------------------------------------------------------------------------------------------- */

/* Compares the number's integer part, which ended after n->b digits, with the bound's. */
static uint32_t
compare_whole_part(const dop_decimal *d, const dop_term_node *n)
{
    const size_t digits = strlen(d->whole);
    return n->b < digits ? LESS : n->b > digits ? MORE : n->max;
}

static bool
satisfies_bound(const dop_regular *r, const dop_term_node *n)
{
    const dop_decimal *d = &r->bounds[n->a];
    uint32_t order = n->min ? n->max : compare_whole_part(d, n);
    if (order == EQUAL && (!n->min || n->b < strlen(d->part))) /* less, unless the bound's remaining digits are all 0 */
        for (const char *c = d->part + (n->min ? n->b : 0); *c; c++)
            order = *c != '0' ? LESS : order;
    return order == EQUAL ? !d->strict : (order == MORE) == d->at_least;
}

dop_term
dop_regular_compare(dop_regular *r, const dop_decimal *bound)
{
    if (r->n_bounds == r->cap_bounds) {
        const size_t cap = r->cap_bounds + 16;
        dop_decimal *p = realloc(r->bounds, cap * sizeof *p);
        if (!p) {
            r->failed = true;
            return DOP_TERM_NONE;
        }
        r->bounds = p;
        r->cap_bounds = cap;
    }
    r->derive_number = derive_number;
    r->bounds[r->n_bounds] = *bound;
    dop_term_node n = {.kind = DOP_TERM_COMPARE, .a = (uint32_t)r->n_bounds++};
    n.nullable = satisfies_bound(r, &n);
    return dop_regular_node(r, n);
}

static uint32_t
compare_digit(uint32_t order, uint32_t digit, char of)
{
    const uint32_t other = of ? (uint32_t)(of - '0') : 0;
    return order != EQUAL || digit == other ? order : digit < other ? LESS : MORE;
}

static dop_term
derive_compare(dop_regular *r, dop_term_node n, uint32_t c)
{
    const dop_decimal *d = &r->bounds[n.a];
    const size_t digits = strlen(n.min ? d->part : d->whole);
    if (c == '.' && !n.min) {
        n.max = compare_whole_part(d, &n);
        n.min = 1;
        n.b = 0;
    } else if (c >= '0' && c <= '9') {
        n.max = n.b < digits ? compare_digit(n.max, c - '0', (n.min ? d->part : d->whole)[n.b])
                : n.min      ? compare_digit(n.max, c - '0', 0)
                             : MORE;
        n.b += n.b <= digits;
    } else {
        return DOP_TERM_NONE;
    }
    if (n.min && n.max != EQUAL) /* further digits are irrelevant */
        n.b = 0;
    n.nullable = satisfies_bound(r, &n);
    return dop_regular_node(r, n);
}

static dop_term
derive_number(dop_regular *r, const dop_term_node *n, uint32_t c)
{
    return n->kind == DOP_TERM_MULTIPLE ? derive_multiple(r, *n, c) : derive_compare(r, *n, c);
}
