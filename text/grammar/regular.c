#include "text/grammar/regular.h"
#include "base/encoding/utf8.h"
#include "text/grammar/sets.h"

#include <stdlib.h>
#include <string.h>

enum { LAST = 0x10ffff, DEEPEST = 2000 };

static void *
grow_regular_array(dop_regular *r, void *items, size_t n, size_t *io_cap, size_t size)
{
    if (n < *io_cap)
        return items;
    size_t cap = *io_cap ? *io_cap + *io_cap / 2 : 64;
    void *p = dop_budget_take(r->budget, (cap - *io_cap) * size) ? realloc(items, cap * size) : NULL;
    if (!p) {
        r->limited |= r->budget && r->budget->end != DOP_BUDGET_LEFT;
        r->failed |= !r->limited;
        return items;
    }
    *io_cap = cap;
    return p;
}

static bool
has_regular_failure(const dop_regular *r)
{
    return r->failed || r->limited;
}

static uint32_t *
find_term_bucket(const dop_regular *r, const dop_term_node *node)
{
    uint32_t h = dop_sets_mix(dop_sets_mix(node->kind, node->a), node->b);
    h = dop_sets_mix(dop_sets_mix(h, node->min), node->max);
    return &r->heads[h & (r->n_heads - 1)];
}

static void
grow_term_buckets(dop_regular *r)
{
    const size_t n = r->n_heads ? 4 * r->n_heads : 256;
    uint32_t *heads = dop_budget_take(r->budget, (n - r->n_heads) * sizeof *heads) ? calloc(n, sizeof *heads) : NULL;
    if (!heads) {
        r->limited |= r->budget && r->budget->end != DOP_BUDGET_LEFT;
        r->failed |= !r->limited;
        return;
    }
    free(r->heads);
    r->heads = heads;
    r->n_heads = n;
    for (uint32_t i = DOP_TERM_ONE; i < r->n_terms; i++) {
        uint32_t *head = find_term_bucket(r, &r->terms[i]);
        r->terms[i].chain = *head;
        *head = i;
    }
}

dop_term
dop_regular_node(dop_regular *r, dop_term_node node)
{
    if (r->n_terms >= r->n_heads)
        grow_term_buckets(r);
    if (has_regular_failure(r))
        return DOP_TERM_NONE;
    uint32_t *head = find_term_bucket(r, &node);
    for (uint32_t i = *head; i != 0; i = r->terms[i].chain) {
        const dop_term_node *t = &r->terms[i];
        if (t->kind == node.kind && t->a == node.a && t->b == node.b && t->min == node.min && t->max == node.max)
            return i;
    }
    r->limited |= !dop_budget_step(r->budget, 4);
    r->terms = grow_regular_array(r, r->terms, r->n_terms, &r->cap_terms, sizeof *r->terms);
    if (has_regular_failure(r))
        return DOP_TERM_NONE;
    node.chain = *head;
    r->terms[r->n_terms] = node;
    *head = (uint32_t)r->n_terms;
    return (uint32_t)r->n_terms++;
}

void
dop_regular_init(dop_regular *r, dop_budget *budget)
{
    dop_charset all = {0};
    memset(r, 0, sizeof *r);
    r->budget = budget;
    dop_charset_add(&all, 0, LAST);
    r->terms = grow_regular_array(r, r->terms, 0, &r->cap_terms, sizeof *r->terms);
    if (!has_regular_failure(r)) {
        r->terms[0] = (dop_term_node){.kind = DOP_TERM_NOTHING, .plain = true};
        r->terms[1] = (dop_term_node){.kind = DOP_TERM_EPSILON, .nullable = true, .plain = true};
        r->terms[2] =
            (dop_term_node){.kind = DOP_TERM_REPEAT, .nullable = true, .plain = true, .a = 3, .max = DOP_AUTO_MANY};
        r->n_terms = 3;
        (void)dop_regular_set(r, &all); /* creates DOP_TERM_ONE */
    }
    dop_charset_finish(&all);
}

void
dop_regular_finish(dop_regular *r)
{
    for (size_t i = 0; i < r->n_sets; i++)
        dop_charset_finish(&r->sets[i]);
    for (size_t i = 0; i < r->n_words; i++)
        free(r->words[i].words);
    dop_budget_give(r->budget, r->n_heads * sizeof *r->heads + r->cap_terms * sizeof *r->terms +
                                   r->cap_sets * sizeof *r->sets + r->cap_words * sizeof *r->words);
    free(r->sets);
    free(r->words);
    free(r->bounds);
    free(r->terms);
    free(r->heads);
    memset(r, 0, sizeof *r);
}

dop_term
dop_regular_set(dop_regular *r, const dop_charset *set)
{
    dop_charset own = {0}, all = {0};
    dop_charset_add(&all, 0, LAST);
    for (size_t i = 0; i < set->n; i++)
        dop_charset_add(&own, set->ranges[i][0], set->ranges[i][1]);
    own.failed |= set->failed;
    dop_charset_limit(&own, &all); /* sorts and merges the ranges */
    dop_charset_finish(&all);
    r->failed |= own.failed;
    r->limited |= !dop_budget_step(r->budget, own.n + 1);
    for (size_t i = 0; i < r->n_sets && own.n > 0; i++)
        if (r->sets[i].n == own.n && memcmp(r->sets[i].ranges, own.ranges, own.n * sizeof *own.ranges) == 0) {
            dop_charset_finish(&own);
            return dop_regular_node(r, (dop_term_node){.kind = DOP_TERM_SET, .plain = true, .a = (uint32_t)i});
        }
    if (own.n > 0)
        r->sets = grow_regular_array(r, r->sets, r->n_sets, &r->cap_sets, sizeof *r->sets);
    if (has_regular_failure(r) || own.n == 0) {
        dop_charset_finish(&own);
        return DOP_TERM_NONE;
    }
    r->sets[r->n_sets++] = own;
    return dop_regular_node(r, (dop_term_node){.kind = DOP_TERM_SET, .plain = true, .a = (uint32_t)(r->n_sets - 1)});
}

dop_term
dop_regular_cat(dop_regular *r, dop_term a, dop_term b)
{
    if (has_regular_failure(r) || a == DOP_TERM_NONE || b == DOP_TERM_NONE)
        return DOP_TERM_NONE;
    if (a == DOP_TERM_EMPTY || (a == DOP_TERM_ANY && b == DOP_TERM_ANY))
        return b;
    if (b == DOP_TERM_EMPTY)
        return a;
    const dop_term_node x = r->terms[a], y = r->terms[b];
    if (x.kind == DOP_TERM_CAT) {
        if (r->depth > DEEPEST) {
            r->limited = true;
            return DOP_TERM_NONE;
        }
        r->depth++;
        const dop_term rest = dop_regular_cat(r, x.b, b), whole = dop_regular_cat(r, x.a, rest);
        r->depth--;
        return whole;
    }
    if (a == DOP_TERM_ANY && y.kind == DOP_TERM_CAT && y.a == DOP_TERM_ANY)
        return b;
    return dop_regular_node(
        r,
        (dop_term_node){
            .kind = DOP_TERM_CAT, .nullable = x.nullable && y.nullable, .plain = x.plain && y.plain, .a = a, .b = b});
}

static int
compare_term_ids(const void *x, const void *y)
{
    const uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

/* Lists the operands of a right-nested chain a, (b, (c ...)) of terms of one kind. Returns their number. out may be
 * NULL. */
static size_t
list_chain_terms(const dop_regular *r, dop_term t, uint8_t kind, dop_term *out)
{
    size_t n = 0;
    for (; r->terms[t].kind == kind; t = r->terms[t].b) {
        if (out)
            out[n] = r->terms[t].a;
        n++;
    }
    if (out)
        out[n] = t;
    return n + 1;
}

/* Merges all character sets in a list of alternatives into one, at the position of the first. */
static void
merge_term_sets(dop_regular *r, dop_term *list, size_t *io_n)
{
    dop_charset set = {0};
    size_t n = 0, first = SIZE_MAX, n_sets = 0;
    for (size_t i = 0; i < *io_n; i++) {
        const dop_term_node *t = &r->terms[list[i]];
        if (t->kind != DOP_TERM_SET) {
            list[n++] = list[i];
            continue;
        }
        for (size_t k = 0; k < r->sets[t->a].n; k++)
            dop_charset_add(&set, r->sets[t->a].ranges[k][0], r->sets[t->a].ranges[k][1]);
        if (n_sets++ == 0) {
            first = n;
            list[n++] = list[i];
        }
    }
    *io_n = n;
    if (n_sets > 1)
        list[first] = dop_regular_set(r, &set);
    dop_charset_finish(&set);
}

/* Returns the normal form of an alternative or intersection: a sorted chain without duplicates. Equal terms then
 * have equal nodes. */
static dop_term
make_term_chain(dop_regular *r, uint8_t kind, dop_term a, dop_term b)
{
    const size_t n_a = list_chain_terms(r, a, kind, NULL), n_b = list_chain_terms(r, b, kind, NULL);
    dop_term *list = malloc((n_a + n_b) * sizeof *list);
    size_t n = n_a + n_b, m = 0;
    if (!list || !dop_budget_step(r->budget, n)) {
        r->failed |= !list;
        r->limited |= list != NULL;
        free(list);
        return DOP_TERM_NONE;
    }
    (void)list_chain_terms(r, a, kind, list);
    (void)list_chain_terms(r, b, kind, list + n_a);
    if (kind == DOP_TERM_ALT)
        merge_term_sets(r, list, &n);
    qsort(list, n, sizeof *list, compare_term_ids);
    for (size_t i = 0; i < n; i++)
        if (m == 0 || list[m - 1] != list[i])
            list[m++] = list[i];
    dop_term t = m > 0 ? list[m - 1] : DOP_TERM_NONE;
    for (size_t i = m - 1; i-- > 0 && !has_regular_failure(r);) {
        const dop_term_node x = r->terms[list[i]], y = r->terms[t];
        t = dop_regular_node(
            r, (dop_term_node){.kind = kind,
                               .nullable = kind == DOP_TERM_ALT ? x.nullable || y.nullable : x.nullable && y.nullable,
                               .plain = kind == DOP_TERM_ALT && x.plain && y.plain,
                               .a = list[i],
                               .b = t});
    }
    free(list);
    return t;
}

dop_term
dop_regular_alt(dop_regular *r, dop_term a, dop_term b)
{
    if (has_regular_failure(r) || a == b || b == DOP_TERM_NONE || a == DOP_TERM_ANY)
        return a;
    if (a == DOP_TERM_NONE || b == DOP_TERM_ANY)
        return b;
    return make_term_chain(r, DOP_TERM_ALT, a, b);
}

dop_term
dop_regular_and(dop_regular *r, dop_term a, dop_term b)
{
    if (has_regular_failure(r) || a == b || b == DOP_TERM_ANY || a == DOP_TERM_NONE)
        return a;
    if (a == DOP_TERM_ANY || b == DOP_TERM_NONE)
        return b;
    if (a == DOP_TERM_EMPTY || b == DOP_TERM_EMPTY)
        return r->terms[a == DOP_TERM_EMPTY ? b : a].nullable ? DOP_TERM_EMPTY : DOP_TERM_NONE;
    return make_term_chain(r, DOP_TERM_AND, a, b);
}

dop_term
dop_regular_not(dop_regular *r, dop_term a)
{
    if (has_regular_failure(r))
        return DOP_TERM_NONE;
    if (a == DOP_TERM_NONE || a == DOP_TERM_ANY)
        return a == DOP_TERM_NONE ? DOP_TERM_ANY : DOP_TERM_NONE;
    if (r->terms[a].kind == DOP_TERM_NOT)
        return r->terms[a].a;
    return dop_regular_node(r, (dop_term_node){.kind = DOP_TERM_NOT, .nullable = !r->terms[a].nullable, .a = a});
}

dop_term
dop_regular_repeat(dop_regular *r, dop_term a, uint32_t min, uint32_t max)
{
    if (has_regular_failure(r) || (max == 1 && min == 1))
        return a;
    if (a == DOP_TERM_ONE && min == 0 && max == DOP_AUTO_MANY)
        return DOP_TERM_ANY;
    if (max == 0 || a == DOP_TERM_EMPTY || (a == DOP_TERM_NONE && min == 0))
        return DOP_TERM_EMPTY;
    if (a == DOP_TERM_NONE)
        return a;
    const dop_term_node x = r->terms[a];
    if (x.nullable)
        min = 0;
    if (x.kind == DOP_TERM_REPEAT && x.min == 0) { /* repetition of up to x.max repetitions */
        const bool many = x.max == DOP_AUTO_MANY || max == DOP_AUTO_MANY || (uint64_t)x.max * max >= DOP_AUTO_MANY;
        return dop_regular_repeat(r, x.a, 0, many ? DOP_AUTO_MANY : x.max * max);
    }
    if (x.kind == DOP_TERM_REPEAT && x.min == 1 && x.max == DOP_AUTO_MANY)
        return dop_regular_repeat(r, x.a, min, DOP_AUTO_MANY);
    return dop_regular_node(
        r, (dop_term_node){
               .kind = DOP_TERM_REPEAT, .nullable = min == 0, .plain = x.plain, .a = a, .min = min, .max = max});
}

dop_term
dop_regular_text(dop_regular *r, const char *text, size_t n)
{
    dop_term t = DOP_TERM_EMPTY;
    for (size_t end = n; end > 0;) { /* backwards, so that each step creates only one term */
        size_t at = end - 1;
        while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
            at--;
        const uint32_t c = dop_utf8_next(text + at, end - at).cp;
        dop_charset one = {0};
        dop_charset_add(&one, c, c);
        t = dop_regular_cat(r, dop_regular_set(r, &one), t);
        dop_charset_finish(&one);
        end = at;
    }
    return t;
}

/* --- words -------------------------------------------------------------------------------------------------------------------- */

static int
compare_word_bytes(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

dop_term
dop_regular_words(dop_regular *r, const char **words, size_t n)
{
    r->words = grow_regular_array(r, r->words, r->n_words, &r->cap_words, sizeof *r->words);
    r->limited |= !dop_budget_step(r->budget, n * 8);
    if (has_regular_failure(r) || n == 0) {
        free(words);
        return DOP_TERM_NONE;
    }
    qsort(words, n, sizeof *words, compare_word_bytes);
    r->words[r->n_words] = (dop_words){words, n};
    return dop_regular_node(
        r, (dop_term_node){
               .kind = DOP_TERM_WORDS, .nullable = !words[0][0], .a = (uint32_t)r->n_words++, .max = (uint32_t)n});
}

/* Binary search: returns the first of words [min, max) whose bytes from `at` on are not less than the n given bytes.
 * after: skips words that begin with these bytes, too. */
static uint32_t
find_first_word(const dop_words *w, uint32_t min, uint32_t max, size_t at, const char *bytes, size_t n, bool after)
{
    while (min < max) {
        const uint32_t mid = min + (max - min) / 2;
        const int order = strncmp(w->words[mid] + at, bytes, n);
        if (order < 0 || (after && order == 0))
            min = mid + 1;
        else
            max = mid;
    }
    return min;
}

static size_t
encode_utf8_text(uint32_t c, char out[5])
{
    const size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(marks[n] | c);
    out[n] = 0;
    return n;
}

static dop_term
derive_words(dop_regular *r, const dop_term_node *t, uint32_t c)
{
    char bytes[5];
    const dop_words *w = &r->words[t->a];
    const size_t n = encode_utf8_text(c, bytes);
    const uint32_t min = c ? find_first_word(w, t->min, t->max, t->b, bytes, n, false) : 0;
    const uint32_t max = c ? find_first_word(w, min, t->max, t->b, bytes, n, true) : 0;
    if (min >= max)
        return DOP_TERM_NONE;
    return dop_regular_node(r, (dop_term_node){.kind = DOP_TERM_WORDS,
                                               .nullable = !w->words[min][t->b + n],
                                               .a = t->a,
                                               .b = t->b + (uint32_t)n,
                                               .min = min,
                                               .max = max});
}

static void
add_word_borders(dop_regular *r, const dop_term_node *t, dop_charset *io_borders)
{
    const dop_words *w = &r->words[t->a];
    for (uint32_t i = t->min; i < t->max;) {
        char bytes[5];
        const char *at = w->words[i] + t->b;
        if (!*at) {
            i++;
            continue;
        }
        const uint32_t c = dop_utf8_next(at, strlen(at)).cp;
        const size_t n = encode_utf8_text(c, bytes);
        dop_charset_add(io_borders, c, c);
        dop_charset_add(io_borders, c + 1, c + 1);
        i = find_first_word(w, i, t->max, t->b, bytes, n, true);
        r->limited |= !dop_budget_step(r->budget, 8);
    }
}

/* --- derivatives ---------------------------------------------------------------------------------------------------------------- */

bool
dop_regular_nullable(const dop_regular *r, dop_term t)
{
    return r->terms[t].nullable;
}

static dop_term
derive_chain(dop_regular *r, dop_term t, uint32_t c)
{
    const uint8_t kind = r->terms[t].kind;
    dop_term sum = kind == DOP_TERM_ALT ? DOP_TERM_NONE : DOP_TERM_ANY;
    for (bool more = true; more && !has_regular_failure(r);) {
        more = r->terms[t].kind == kind;
        const dop_term one = dop_regular_derive(r, more ? r->terms[t].a : t, c);
        sum = kind == DOP_TERM_ALT ? dop_regular_alt(r, sum, one) : dop_regular_and(r, sum, one);
        if (sum == (kind == DOP_TERM_ALT ? DOP_TERM_ANY : DOP_TERM_NONE))
            break;
        t = more ? r->terms[t].b : t;
    }
    return sum;
}

static dop_term
derive_repeat(dop_regular *r, dop_term t, uint32_t c)
{
    const dop_term_node n = r->terms[t];
    const dop_term one = dop_regular_derive(r, n.a, c);
    if (one == DOP_TERM_NONE)
        return one;
    return dop_regular_cat(
        r, one, dop_regular_repeat(r, n.a, n.min > 0 ? n.min - 1 : 0, n.max == DOP_AUTO_MANY ? n.max : n.max - 1));
}

dop_term
dop_regular_derive(dop_regular *r, dop_term t, uint32_t c)
{
    const dop_term_node n = r->terms[t];
    dop_term one = DOP_TERM_NONE;
    if (has_regular_failure(r) || t == DOP_TERM_NONE || t == DOP_TERM_ANY)
        return t;
    if (r->depth > DEEPEST || !dop_budget_step(r->budget, 1)) {
        r->limited = true;
        return DOP_TERM_NONE;
    }
    r->depth++;
    switch (n.kind) {
    case DOP_TERM_SET:
        one = dop_charset_has(&r->sets[n.a], c) ? DOP_TERM_EMPTY : DOP_TERM_NONE;
        break;
    case DOP_TERM_CAT:
        one = dop_regular_cat(r, dop_regular_derive(r, n.a, c), n.b);
        if (r->terms[n.a].nullable)
            one = dop_regular_alt(r, one, dop_regular_derive(r, n.b, c));
        break;
    case DOP_TERM_ALT:
    case DOP_TERM_AND:
        one = derive_chain(r, t, c);
        break;
    case DOP_TERM_NOT:
        one = dop_regular_not(r, dop_regular_derive(r, n.a, c));
        break;
    case DOP_TERM_REPEAT:
        one = derive_repeat(r, t, c);
        break;
    case DOP_TERM_WORDS:
        one = derive_words(r, &n, c);
        break;
    case DOP_TERM_MULTIPLE:
    case DOP_TERM_COMPARE:
        one = r->derive_number(r, &n, c);
        break;
    default:
        break;
    }
    r->depth--;
    return one;
}

void
dop_regular_borders(dop_regular *r, dop_term t, dop_charset *io_borders)
{
    const dop_term_node n = r->terms[t];
    if (has_regular_failure(r) || r->depth > DEEPEST || !dop_budget_step(r->budget, 1)) {
        r->limited = true;
        return;
    }
    r->depth++;
    switch (n.kind) {
    case DOP_TERM_SET:
        for (size_t i = 0; i < r->sets[n.a].n; i++) {
            dop_charset_add(io_borders, r->sets[n.a].ranges[i][0], r->sets[n.a].ranges[i][0]);
            dop_charset_add(io_borders, r->sets[n.a].ranges[i][1] + 1, r->sets[n.a].ranges[i][1] + 1);
        }
        break;
    case DOP_TERM_CAT:
        dop_regular_borders(r, n.a, io_borders);
        if (r->terms[n.a].nullable)
            dop_regular_borders(r, n.b, io_borders);
        break;
    case DOP_TERM_ALT:
    case DOP_TERM_AND:
        for (; r->terms[t].kind == n.kind; t = r->terms[t].b)
            dop_regular_borders(r, r->terms[t].a, io_borders);
        dop_regular_borders(r, t, io_borders);
        break;
    case DOP_TERM_NOT:
    case DOP_TERM_REPEAT:
        dop_regular_borders(r, n.a, io_borders);
        break;
    case DOP_TERM_WORDS:
        add_word_borders(r, &n, io_borders);
        break;
    case DOP_TERM_MULTIPLE:
    case DOP_TERM_COMPARE:
        for (uint32_t c = '.'; c <= '9' + 1; c++)
            dop_charset_add(io_borders, c, c);
        break;
    default:
        break;
    }
    r->depth--;
    r->failed |= io_borders->failed;
}
