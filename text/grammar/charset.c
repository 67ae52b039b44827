/* Sets of characters, and byte edges that accept them in UTF-8. */
#include "text/grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

enum { LAST = 0x10ffff, FIRST_SURROGATE = 0xd800, LAST_SURROGATE = 0xdfff };

void
dop_charset_finish(dop_charset *set)
{
    free(set->ranges);
    memset(set, 0, sizeof *set);
}

void
dop_charset_add(dop_charset *set, uint32_t first, uint32_t last)
{
    if (set->n == set->cap) {
        size_t cap = set->cap ? 2 * set->cap : 8;
        void *p = realloc(set->ranges, cap * sizeof *set->ranges);
        if (!p) {
            set->failed = true;
            return;
        }
        set->ranges = p;
        set->cap = cap;
    }
    set->ranges[set->n][0] = first;
    set->ranges[set->n++][1] = last;
}

static int
compare_range_starts(const void *x, const void *y)
{
    const uint32_t *a = x, *b = y;
    return a[0] < b[0] ? -1 : a[0] > b[0];
}

/* Sorts the ranges of a set and merges overlapping or adjacent ones. */
static void
sort_char_ranges(dop_charset *set)
{
    size_t n = 0;
    if (set->n == 0)
        return;
    qsort(set->ranges, set->n, sizeof *set->ranges, compare_range_starts);
    for (size_t i = 1; i < set->n; i++) {
        if (set->ranges[i][0] > set->ranges[n][1] + 1) {
            n++;
            memmove(set->ranges[n], set->ranges[i], sizeof *set->ranges);
        } else if (set->ranges[i][1] > set->ranges[n][1]) {
            set->ranges[n][1] = set->ranges[i][1];
        }
    }
    set->n = n + 1;
}

void
dop_charset_negate(dop_charset *set)
{
    dop_charset out = {.failed = set->failed};
    uint32_t next = 0;
    sort_char_ranges(set);
    for (size_t i = 0; i < set->n; i++) {
        if (set->ranges[i][0] > next)
            dop_charset_add(&out, next, set->ranges[i][0] - 1);
        next = set->ranges[i][1] + 1;
    }
    if (next <= LAST)
        dop_charset_add(&out, next, LAST);
    dop_charset_finish(set);
    *set = out;
}

void
dop_charset_limit(dop_charset *set, const dop_charset *other)
{
    dop_charset out = {.failed = set->failed || other->failed};
    for (size_t i = 0; i < set->n; i++)
        for (size_t k = 0; k < other->n; k++) {
            const uint32_t *x = set->ranges[i], *y = other->ranges[k];
            uint32_t first = x[0] > y[0] ? x[0] : y[0], last = x[1] < y[1] ? x[1] : y[1];
            if (first <= last)
                dop_charset_add(&out, first, last);
        }
    dop_charset_finish(set);
    *set = out;
    sort_char_ranges(set);
}

bool
dop_charset_has(const dop_charset *set, uint32_t c)
{
    for (size_t i = 0; i < set->n; i++)
        if (c >= set->ranges[i][0] && c <= set->ranges[i][1])
            return true;
    return false;
}

static size_t
encode_utf8_bytes(uint32_t c, uint8_t out[4])
{
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (uint8_t)(0x80 | (c & 0x3f));
    out[0] = (uint8_t)(marks[n] | c);
    return n;
}

void
dop_auto_chars(dop_auto *a, uint32_t from, const dop_charset *set, uint32_t to)
{
    /* Code point ranges with UTF-8 sequences of equal length. Excludes surrogates, which are not characters. */
    static const uint32_t spans[][2] = {
        {0, 0x7f}, {0x80, 0x7ff}, {0x800, FIRST_SURROGATE - 1}, {LAST_SURROGATE + 1, 0xffff}, {0x10000, LAST}};
    dop_charset whole = {0};
    a->failed |= set->failed;
    for (size_t i = 0; i < set->n; i++)
        dop_charset_add(&whole, set->ranges[i][0], set->ranges[i][1]);
    a->failed |= whole.failed;
    if (!a->failed)
        sort_char_ranges(&whole);
    for (size_t i = 0; i < whole.n && !a->failed; i++)
        for (size_t k = 0; k < sizeof spans / sizeof *spans; k++) {
            uint32_t first = whole.ranges[i][0], last = whole.ranges[i][1];
            first = first > spans[k][0] ? first : spans[k][0];
            last = last < spans[k][1] ? last : spans[k][1];
            uint8_t lo[4], hi[4];
            if (first > last)
                continue;
            size_t n = encode_utf8_bytes(first, lo);
            (void)encode_utf8_bytes(last, hi);
            dop_auto_between(a, from, lo, hi, n, 0x80, 0xbf, to);
        }
    dop_charset_finish(&whole);
}
