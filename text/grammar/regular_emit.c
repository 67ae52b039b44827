/* Converts terms to automata. Each of the finitely many derivatives of a term becomes a state. If there are too
 * many, a plain term becomes a nondeterministic automaton instead (Thompson 1968). */
#include "text/grammar/regular.h"

#include <stdlib.h>
#include <string.h>

enum { LAST = 0x10ffff };

typedef struct move {
    uint32_t from, to; /* state indices */
    uint32_t lo, hi;   /* first and last character */
} move;

typedef struct explorer {
    dop_regular *r;
    uint32_t *state_of; /* owned, [cap]: 1 + the state of each term; 0: no state yet */
    dop_term *terms;    /* owned: term of each state */
    move *moves;        /* owned transitions */
    size_t cap, n_terms, cap_terms, n_moves, cap_moves;
    bool failed, too_many;
} explorer;

static void *
grow_explorer_array(explorer *x, void *items, size_t need, size_t *io_cap, size_t size)
{
    if (need <= *io_cap)
        return items;
    size_t cap = *io_cap ? *io_cap : 64;
    while (cap < need)
        cap *= 2;
    if (!dop_budget_take(x->r->budget, (cap - *io_cap) * size)) {
        x->too_many = true;
        return items;
    }
    char *p = realloc(items, cap * size);
    if (!p) {
        x->failed = true;
        return items;
    }
    memset(p + *io_cap * size, 0, (cap - *io_cap) * size);
    *io_cap = cap;
    return p;
}

static uint32_t
find_term_state(explorer *x, dop_term t)
{
    x->state_of = grow_explorer_array(x, x->state_of, (size_t)t + 1, &x->cap, sizeof *x->state_of);
    x->terms = grow_explorer_array(x, x->terms, x->n_terms + 1, &x->cap_terms, sizeof *x->terms);
    if (x->failed || x->too_many)
        return 0;
    if (x->state_of[t] == 0) {
        x->terms[x->n_terms++] = t;
        x->state_of[t] = (uint32_t)x->n_terms;
    }
    return x->state_of[t] - 1;
}

static void
add_move(explorer *x, move m)
{
    if (x->n_moves > 0) { /* extend the last move if the states are equal and the characters adjacent */
        move *last = &x->moves[x->n_moves - 1];
        if (last->from == m.from && last->to == m.to && last->hi + 1 == m.lo) {
            last->hi = m.hi;
            return;
        }
    }
    x->moves = grow_explorer_array(x, x->moves, x->n_moves + 1, &x->cap_moves, sizeof *x->moves);
    if (!x->failed && !x->too_many)
        x->moves[x->n_moves++] = m;
}

static int
compare_borders(const void *x, const void *y)
{
    const uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

static int
compare_moves(const void *x, const void *y)
{
    const move *a = x, *b = y;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return a->lo < b->lo ? -1 : a->lo > b->lo;
}

/* Adds the outgoing moves of a state: the derivative of its term for each range of characters. */
static void
explore_state(explorer *x, uint32_t state)
{
    dop_charset borders = {0};
    const dop_term t = x->terms[state];
    dop_charset_add(&borders, 0, 0);
    dop_regular_borders(x->r, t, &borders);
    uint32_t *at = borders.failed ? NULL : malloc((borders.n + 1) * sizeof *at);
    size_t n = 0;
    x->failed |= !at;
    for (size_t i = 0; i < borders.n && at; i++)
        at[i] = borders.ranges[i][0];
    if (at)
        qsort(at, borders.n, sizeof *at, compare_borders);
    for (size_t i = 0; i < borders.n && at; i++)
        if (at[i] <= LAST && (n == 0 || at[n - 1] != at[i]))
            at[n++] = at[i];
    for (size_t i = 0; i < n && !x->failed && !x->too_many; i++) {
        const dop_term to = dop_regular_derive(x->r, t, at[i]);
        x->failed |= x->r->failed;
        x->too_many |= x->r->limited;
        if (to != DOP_TERM_NONE && !x->failed && !x->too_many)
            add_move(x, (move){state, find_term_state(x, to), at[i], i + 1 < n ? at[i + 1] - 1 : LAST});
    }
    free(at);
    dop_charset_finish(&borders);
}

/* Adds edges for one character of a set: byte edges for plain characters, a rule call for the rest. */
static void
add_set_edges(const dop_spelling *how, dop_auto *a, uint32_t from, const dop_charset *set, uint32_t to)
{
    dop_charset plain = {0}, others = {0};
    for (size_t i = 0; i < set->n; i++) {
        dop_charset_add(&plain, set->ranges[i][0], set->ranges[i][1]);
        dop_charset_add(&others, set->ranges[i][0], set->ranges[i][1]);
    }
    dop_charset_limit(&plain, &how->plain);
    for (size_t i = 0; i < plain.n; i++)
        dop_auto_bytes(a, from, (uint8_t)plain.ranges[i][0], (uint8_t)plain.ranges[i][1], to);
    dop_charset rest = {0};
    for (size_t i = 0; i < how->plain.n; i++)
        dop_charset_add(&rest, how->plain.ranges[i][0], how->plain.ranges[i][1]);
    dop_charset_negate(&rest);
    dop_charset_limit(&others, &rest);
    a->failed |= plain.failed || others.failed || rest.failed;
    if (others.n > 0 && how->rule)
        dop_auto_call_to(a, from, how->rule(how->user, &others), to);
    dop_charset_finish(&plain);
    dop_charset_finish(&others);
    dop_charset_finish(&rest);
}

static void
emit_explored(explorer *x, const dop_spelling *how, dop_auto *a, uint32_t from, uint32_t to)
{
    uint32_t *states = malloc((x->n_terms + 1) * sizeof *states);
    a->failed |= !states;
    if (x->n_moves > 0)
        qsort(x->moves, x->n_moves, sizeof *x->moves, compare_moves);
    for (size_t i = 0; i < x->n_terms && states; i++) {
        states[i] = dop_auto_state(a);
        if (dop_regular_nullable(x->r, x->terms[i]))
            dop_auto_nothing(a, states[i], to);
    }
    if (states)
        dop_auto_nothing(a, from, states[0]);
    for (size_t i = 0, k; i < x->n_moves && states && !a->failed && !a->too_large; i = k) {
        dop_charset set = {0};
        for (k = i; k < x->n_moves && x->moves[k].from == x->moves[i].from && x->moves[k].to == x->moves[i].to; k++)
            dop_charset_add(&set, x->moves[k].lo, x->moves[k].hi);
        a->failed |= set.failed;
        add_set_edges(how, a, states[x->moves[i].from], &set, states[x->moves[i].to]);
        dop_charset_finish(&set);
    }
    free(states);
}

/* --- plain terms with too many derivatives ----------------------------------------------------------------------------------------- */

static uint32_t
emit_nondeterministic(dop_regular *r, dop_term t, const dop_spelling *how, dop_auto *a, uint32_t from, uint32_t depth)
{
    const dop_term_node n = r->terms[t];
    enum { DEEPEST = 1000 };
    uint32_t to;
    if (depth > DEEPEST || a->too_large || a->failed) {
        a->too_large = true;
        return from;
    }
    switch (n.kind) {
    case DOP_TERM_EPSILON:
        return from;
    case DOP_TERM_SET:
        to = dop_auto_state(a);
        add_set_edges(how, a, from, &r->sets[n.a], to);
        return to;
    case DOP_TERM_CAT:
        for (; r->terms[t].kind == DOP_TERM_CAT; t = r->terms[t].b)
            from = emit_nondeterministic(r, r->terms[t].a, how, a, from, depth + 1);
        return emit_nondeterministic(r, t, how, a, from, depth + 1);
    case DOP_TERM_ALT:
        to = dop_auto_state(a);
        for (; r->terms[t].kind == DOP_TERM_ALT; t = r->terms[t].b)
            dop_auto_nothing(a, emit_nondeterministic(r, r->terms[t].a, how, a, from, depth + 1), to);
        dop_auto_nothing(a, emit_nondeterministic(r, t, how, a, from, depth + 1), to);
        return to;
    case DOP_TERM_REPEAT: {
        const uint32_t rule = dop_auto_rule(a);
        if (!a->failed && !a->too_large)
            dop_auto_end(a, emit_nondeterministic(r, n.a, how, a, a->rules[rule], depth + 1));
        return dop_auto_repeat(a, from, rule, n.min, n.max);
    }
    default: /* empty language */
        return dop_auto_state(a);
    }
}

dop_status
dop_regular_emit(dop_regular *r, dop_term t, size_t most, const dop_spelling *how, dop_auto *a, uint32_t from,
                 uint32_t to, dop_diag *diag)
{
    explorer x = {.r = r};
    bool any = false;
    dop_status st = DOP_OK;
    const bool fresh = !r->limited && !r->failed;
    if (fresh)
        (void)find_term_state(&x, t);
    for (uint32_t i = 0; i < x.n_terms && !x.failed && !x.too_many; i++) {
        explore_state(&x, i);
        any |= dop_regular_nullable(r, x.terms[i]);
        x.too_many |= x.n_terms > most || x.n_moves > 16 * most;
    }
    a->failed |= x.failed || r->failed;
    if (a->failed)
        st = DOP_NO_MEMORY(diag);
    else if (fresh && x.too_many && r->terms[t].plain && !(r->budget && r->budget->end != DOP_BUDGET_LEFT))
        dop_auto_nothing(a, emit_nondeterministic(r, t, how, a, from, 0), to);
    else if (x.too_many || !fresh)
        st = DOP_FAIL(diag, DOP_E_LIMIT, "a regular expression takes too many states");
    else if (!any)
        st = DOP_FAIL(diag, DOP_E_INPUT, "no text fits");
    else
        emit_explored(&x, how, a, from, to);
    dop_budget_give(r->budget,
                    x.cap * sizeof *x.state_of + x.cap_terms * sizeof *x.terms + x.cap_moves * sizeof *x.moves);
    free(x.state_of);
    free(x.terms);
    free(x.moves);
    return st;
}
