#include "runtime/grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

void
dop_auto_finish(dop_auto *a)
{
    free(a->edges);
    free(a->states);
    free(a->rules);
    memset(a, 0, sizeof *a);
}

/* Returns the items with room for one more. */
static void *
grow(dop_auto *a, void *items, size_t n, size_t *io_cap, size_t size)
{
    if (n < *io_cap)
        return items;
    size_t cap = *io_cap ? 2 * *io_cap : 64;
    void *p = realloc(items, cap * size);
    if (!p) {
        a->failed = true;
        return items;
    }
    *io_cap = cap;
    return p;
}

/* Where there is no room it returns state 0, which is always there; the automaton is thrown away then. */
uint32_t
dop_auto_state(dop_auto *a)
{
    a->states = grow(a, a->states, a->n_states, &a->cap_states, sizeof *a->states);
    a->too_large |= a->n_states >= DOP_AUTO_MAX_STATES;
    if (a->failed || a->too_large)
        return 0;
    a->states[a->n_states] = (dop_state){.first = DOP_AUTO_NONE};
    return (uint32_t)a->n_states++;
}

static void
add_edge(dop_auto *a, uint32_t from, dop_edge edge)
{
    enum { MOST = 4 * DOP_AUTO_MAX_STATES };
    a->edges = grow(a, a->edges, a->n_edges, &a->cap_edges, sizeof *a->edges);
    a->too_large |= a->n_edges >= MOST;
    if (a->failed || a->too_large)
        return;
    edge.next = a->states[from].first;
    a->edges[a->n_edges] = edge;
    a->states[from].first = (uint32_t)a->n_edges++;
    a->states[from].has_bytes |= edge.kind == DOP_EDGE_BYTES;
}

void
dop_auto_nothing(dop_auto *a, uint32_t from, uint32_t to)
{
    add_edge(a, from, (dop_edge){.to = to, .kind = DOP_EDGE_NOTHING});
}

void
dop_auto_bytes(dop_auto *a, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to)
{
    add_edge(a, from, (dop_edge){.to = to, .kind = DOP_EDGE_BYTES, .lo = lo, .hi = hi});
}

uint32_t
dop_auto_rule(dop_auto *a)
{
    uint32_t start = dop_auto_state(a);
    a->rules = grow(a, a->rules, a->n_rules, &a->cap_rules, sizeof *a->rules);
    if (a->failed || a->too_large)
        return 0;
    a->rules[a->n_rules] = start;
    return (uint32_t)a->n_rules++;
}

void
dop_auto_end(dop_auto *a, uint32_t state)
{
    if (!a->failed && !a->too_large)
        a->states[state].is_end = true;
}

uint32_t
dop_auto_call(dop_auto *a, uint32_t from, uint32_t rule)
{
    uint32_t to = dop_auto_state(a);
    add_edge(a, from, (dop_edge){.to = to, .rule = rule, .kind = DOP_EDGE_CALL});
    return to;
}

uint32_t
dop_auto_text(dop_auto *a, uint32_t from, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t to = dop_auto_state(a);
        dop_auto_bytes(a, from, (uint8_t)bytes[i], (uint8_t)bytes[i], to);
        from = to;
    }
    return from;
}

uint32_t
dop_auto_repeat(dop_auto *a, uint32_t from, uint32_t rule, uint32_t min, uint32_t max)
{
    for (uint32_t i = 0; i < min && !a->too_large && !a->failed; i++)
        from = dop_auto_call(a, from, rule);
    if (max == DOP_AUTO_MANY) {
        uint32_t again = dop_auto_state(a);
        dop_auto_nothing(a, from, again);
        dop_auto_nothing(a, dop_auto_call(a, again, rule), again);
        return again;
    }
    uint32_t end = dop_auto_state(a);
    dop_auto_nothing(a, from, end);
    for (uint32_t i = min; i < max && !a->too_large && !a->failed; i++) {
        from = dop_auto_call(a, from, rule);
        dop_auto_nothing(a, from, end);
    }
    return end;
}

static bool
all_are(const uint8_t *bytes, size_t n, uint8_t value)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

void
dop_auto_between(dop_auto *a, uint32_t from, const uint8_t *lo, const uint8_t *hi, size_t n, uint8_t first,
                 uint8_t last, uint32_t to)
{
    enum { LONGEST = 32 };
    uint8_t lows[LONGEST], highs[LONGEST];
    if (a->failed || a->too_large || n > LONGEST)
        return;
    if (n == 1) {
        dop_auto_bytes(a, from, lo[0], hi[0], to);
        return;
    }
    memset(lows, first, n);
    memset(highs, last, n);
    uint8_t l = lo[0], h = hi[0];
    if (l == h) {
        uint32_t next = dop_auto_state(a);
        dop_auto_bytes(a, from, l, l, next);
        dop_auto_between(a, next, lo + 1, hi + 1, n - 1, first, last, to);
        return;
    }
    if (!all_are(lo + 1, n - 1, first)) {
        uint32_t next = dop_auto_state(a);
        dop_auto_bytes(a, from, l, l, next);
        dop_auto_between(a, next, lo + 1, highs, n - 1, first, last, to);
        l++;
    }
    if (!all_are(hi + 1, n - 1, last)) {
        uint32_t next = dop_auto_state(a);
        dop_auto_bytes(a, from, h, h, next);
        dop_auto_between(a, next, lows, hi + 1, n - 1, first, last, to);
        h--;
    }
    if (l <= h) {
        uint32_t next = dop_auto_state(a);
        dop_auto_bytes(a, from, l, h, next);
        dop_auto_between(a, next, lows, highs, n - 1, first, last, to);
    }
}

/* --- checking -------------------------------------------------------------------------------------------------------------------- */

typedef struct walk {
    const dop_auto *a;
    uint32_t *seen;  /* per state: number of the walk that was there */
    uint32_t *stack; /* states to go on from */
    uint32_t number;
    bool *nullable; /* per rule */
    uint8_t *mark;  /* per rule: 1 under way, 2 done */
} walk;

/* Follows a rule from its start as far as that takes no byte.  Returns whether it came to an end.  calls: gets the rules that are
 * called on the way; NULL: they are not wanted. */
static bool
walk_rule(walk *w, uint32_t rule, uint32_t *calls, size_t *out_n_calls)
{
    const dop_auto *a = w->a;
    size_t n = 0, n_calls = 0;
    bool end = false;
    w->number++;
    w->stack[n++] = a->rules[rule];
    w->seen[a->rules[rule]] = w->number;
    while (n > 0) {
        const dop_state *s = &a->states[w->stack[--n]];
        end |= s->is_end;
        for (uint32_t i = s->first; i != DOP_AUTO_NONE; i = a->edges[i].next) {
            const dop_edge *e = &a->edges[i];
            if (e->kind == DOP_EDGE_CALL && calls)
                calls[n_calls++] = e->rule;
            bool goes = e->kind == DOP_EDGE_NOTHING || (e->kind == DOP_EDGE_CALL && w->nullable[e->rule]);
            if (goes && w->seen[e->to] != w->number) {
                w->seen[e->to] = w->number;
                w->stack[n++] = e->to;
            }
        }
    }
    if (out_n_calls)
        *out_n_calls = n_calls;
    return end;
}

static dop_status
no_circles(walk *w, uint32_t rule, uint32_t depth, dop_diag *diag)
{
    enum { DEEPEST = 2000 };
    size_t n = 0, n_edges = w->a->n_edges;
    dop_status st = DOP_OK;
    if (w->mark[rule] == 2)
        return DOP_OK;
    if (w->mark[rule] == 1 || depth > DEEPEST)
        return DOP_FAIL(diag, DOP_E_INPUT, "a rule begins with itself (left recursion), so that it never ends");
    uint32_t *calls = malloc((n_edges + 1) * sizeof *calls);
    if (!calls)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    w->mark[rule] = 1;
    (void)walk_rule(w, rule, calls, &n);
    uint32_t *fewer = realloc(calls, (n + 1) * sizeof *calls);
    calls = fewer ? fewer : calls;
    for (size_t i = 0; i < n && st == DOP_OK; i++)
        st = no_circles(w, calls[i], depth + 1, diag);
    w->mark[rule] = 2;
    free(calls);
    return st;
}

dop_status
dop_auto_check(const dop_auto *a, dop_diag *diag)
{
    if (a->failed)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if (a->too_large)
        return DOP_FAIL(diag, DOP_E_INPUT, "the grammar is too large: it needs more than %d states",
                        DOP_AUTO_MAX_STATES);
    walk w = {.a = a};
    w.seen = calloc(a->n_states + 1, sizeof *w.seen);
    w.stack = calloc(a->n_states + 1, sizeof *w.stack);
    w.nullable = calloc(a->n_rules + 1, 1);
    w.mark = calloc(a->n_rules + 1, 1);
    dop_status st = DOP_OK;
    if (!w.seen || !w.stack || !w.nullable || !w.mark)
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    for (bool changed = true; changed && st == DOP_OK;) {
        changed = false;
        for (uint32_t r = 0; r < a->n_rules; r++)
            if (!w.nullable[r] && walk_rule(&w, r, NULL, NULL))
                w.nullable[r] = changed = true;
    }
    for (uint32_t r = 0; r < a->n_rules && st == DOP_OK; r++)
        st = no_circles(&w, r, 0, diag);
    free(w.seen);
    free(w.stack);
    free(w.nullable);
    free(w.mark);
    return st;
}
