#include "text/grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

void
dop_auto_finish(dop_auto *a)
{
    free(a->edges);
    free(a->states);
    free(a->rules);
    dop_buf_finish(&a->unenforced);
    memset(a, 0, sizeof *a);
}

/* Returns the array with room for one more item. On failure sets too_large or failed and returns it unchanged. */
static void *
grow_auto_array(dop_auto *a, void *items, size_t n, size_t *io_cap, size_t size)
{
    if (n < *io_cap)
        return items;
    size_t cap = *io_cap ? *io_cap + (*io_cap >> 1) : 64;
    if (!dop_budget_take(a->budget, (cap - *io_cap) * size)) {
        a->too_large = true;
        return items;
    }
    void *p = realloc(items, cap * size);
    if (!p) {
        a->failed = true;
        return items;
    }
    *io_cap = cap;
    return p;
}

/* Adds a state. After a failure it returns state 0, which is harmless because failed automata are discarded. */
uint32_t
dop_auto_state(dop_auto *a)
{
    a->states = grow_auto_array(a, a->states, a->n_states, &a->cap_states, sizeof *a->states);
    a->too_large |= a->n_states >= DOP_AUTO_MAX_STATES;
    if (a->failed || a->too_large)
        return 0;
    a->states[a->n_states] = (dop_state){.first = DOP_AUTO_NONE};
    return (uint32_t)a->n_states++;
}

static void
add_auto_edge(dop_auto *a, uint32_t from, dop_edge edge)
{
    enum { MOST = 4 * DOP_AUTO_MAX_STATES };
    a->edges = grow_auto_array(a, a->edges, a->n_edges, &a->cap_edges, sizeof *a->edges);
    a->too_large |= a->n_edges >= MOST || !dop_budget_step(a->budget, 1);
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
    add_auto_edge(a, from, (dop_edge){.to = to, .kind = DOP_EDGE_NOTHING});
}

void
dop_auto_bytes(dop_auto *a, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to)
{
    add_auto_edge(a, from, (dop_edge){.to = to, .kind = DOP_EDGE_BYTES, .lo = lo, .hi = hi});
}

uint32_t
dop_auto_rule(dop_auto *a)
{
    uint32_t start = dop_auto_state(a);
    a->rules = grow_auto_array(a, a->rules, a->n_rules, &a->cap_rules, sizeof *a->rules);
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

void
dop_auto_call_to(dop_auto *a, uint32_t from, uint32_t rule, uint32_t to)
{
    add_auto_edge(a, from, (dop_edge){.to = to, .rule = rule, .kind = DOP_EDGE_CALL});
}

uint32_t
dop_auto_call(dop_auto *a, uint32_t from, uint32_t rule)
{
    uint32_t to = dop_auto_state(a);
    add_auto_edge(a, from, (dop_edge){.to = to, .rule = rule, .kind = DOP_EDGE_CALL});
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
all_bytes_are(const uint8_t *bytes, size_t n, uint8_t value)
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
    if (!all_bytes_are(lo + 1, n - 1, first)) {
        uint32_t next = dop_auto_state(a);
        dop_auto_bytes(a, from, l, l, next);
        dop_auto_between(a, next, lo + 1, highs, n - 1, first, last, to);
        l++;
    }
    if (!all_bytes_are(hi + 1, n - 1, last)) {
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

static void
shrink_auto_array(void **io_items, size_t n, size_t *io_cap, size_t size)
{
    void *p = realloc(*io_items, (n + 1) * size);
    if (p) {
        *io_items = p;
        *io_cap = n + 1;
    }
}

void
dop_auto_shrink(dop_auto *a)
{
    void *edges = a->edges, *states = a->states, *rules = a->rules;
    shrink_auto_array(&edges, a->n_edges, &a->cap_edges, sizeof *a->edges);
    shrink_auto_array(&states, a->n_states, &a->cap_states, sizeof *a->states);
    shrink_auto_array(&rules, a->n_rules, &a->cap_rules, sizeof *a->rules);
    a->edges = edges;
    a->states = states;
    a->rules = rules;
}

size_t
dop_auto_bytes_held(const dop_auto *a)
{
    return a->cap_edges * sizeof *a->edges + a->cap_states * sizeof *a->states + a->cap_rules * sizeof *a->rules;
}

/* --- checking -------------------------------------------------------------------------------------------------------------------- */

/* Search for left recursion. The rules that rule r calls before it accepts a byte are calls[first[r]] to
 * calls[first[r + 1] - 1]. */
typedef struct walk {
    const dop_auto *a;
    const bool *nullable; /* per state: true if an end of its rule can be reached without accepting a byte */
    uint32_t *seen;       /* per state: 1 + the last rule whose search visited it */
    uint32_t *stack;      /* states still to be visited */
    uint32_t *calls, *first;
    size_t n_calls;
} walk;

static bool
collect_rule_calls(walk *w, uint32_t rule)
{
    const dop_auto *a = w->a;
    size_t n = 0;
    uint64_t steps = 1;
    w->first[rule] = (uint32_t)w->n_calls;
    w->stack[n++] = a->rules[rule];
    w->seen[a->rules[rule]] = rule + 1;
    while (n > 0) {
        const dop_state *s = &a->states[w->stack[--n]];
        for (uint32_t i = s->first; i != DOP_AUTO_NONE; i = a->edges[i].next, steps++) {
            const dop_edge *e = &a->edges[i];
            if (e->kind == DOP_EDGE_CALL && w->n_calls < a->n_edges)
                w->calls[w->n_calls++] = e->rule;
            bool goes = e->kind == DOP_EDGE_NOTHING || (e->kind == DOP_EDGE_CALL && w->nullable[a->rules[e->rule]]);
            if (goes && w->seen[e->to] != rule + 1) {
                w->seen[e->to] = rule + 1;
                w->stack[n++] = e->to;
            }
        }
    }
    w->first[rule + 1] = (uint32_t)w->n_calls;
    return dop_budget_step(a->budget, steps);
}

/* Depth-first search for a cycle of calls. at: [n_rules], zeroed by the caller: 1 + the next call of each rule to
 * visit, or UINT32_MAX when the rule is done. */
static bool
has_call_cycle(const walk *w, uint32_t *path, uint32_t *at)
{
    for (uint32_t r = 0; r < w->a->n_rules; r++) {
        size_t n = 0;
        if (at[r] != 0)
            continue;
        path[n++] = r;
        at[r] = w->first[r] + 1;
        while (n > 0) {
            const uint32_t rule = path[n - 1], next = at[rule] - 1;
            if (next == w->first[rule + 1]) {
                at[rule] = UINT32_MAX;
                n--;
                continue;
            }
            at[rule]++;
            const uint32_t to = w->calls[next];
            if (at[to] != 0 && at[to] != UINT32_MAX)
                return true;
            if (at[to] == 0) {
                path[n++] = to;
                at[to] = w->first[to] + 1;
            }
        }
    }
    return false;
}

static dop_status
check_left_recursion(const dop_auto *a, const bool *nullable, dop_diag *diag)
{
    walk w = {.a = a, .nullable = nullable};
    dop_status st = DOP_OK;
    w.seen = calloc(a->n_states + 1, sizeof *w.seen);
    w.stack = calloc(a->n_states + a->n_rules + 1, sizeof *w.stack);
    w.calls = calloc(a->n_edges + 1, sizeof *w.calls);
    w.first = calloc(a->n_rules + 2, sizeof *w.first);
    uint32_t *at = calloc(a->n_rules + 1, sizeof *at);
    if (!w.seen || !w.stack || !w.calls || !w.first || !at)
        DOP_TRY(DOP_NO_MEMORY(diag));
    for (uint32_t r = 0; r < a->n_rules; r++)
        if (!collect_rule_calls(&w, r))
            DOP_TRY(dop_budget_fail(a->budget, diag, "the grammar"));
    if (has_call_cycle(&w, w.stack, at))
        DOP_TRY(DOP_FAIL(diag, DOP_E_INPUT, "a rule begins with itself (left recursion), so that it never ends"));
error:
    free(w.seen);
    free(w.stack);
    free(w.calls);
    free(w.first);
    free(at);
    return st;
}

dop_status
dop_auto_check(const dop_auto *a, dop_diag *diag)
{
    if (a->failed)
        return DOP_NO_MEMORY(diag);
    if (a->too_large && a->budget && a->budget->end != DOP_BUDGET_LEFT)
        return dop_budget_fail(a->budget, diag, "the grammar");
    if (a->too_large)
        return DOP_FAIL(diag, DOP_E_LIMIT, "the grammar is too large: it needs more than %d states",
                        DOP_AUTO_MAX_STATES);
    const uint64_t work = a->n_states * 16 + a->n_edges * 4;
    bool *nullable = calloc(a->n_states + 1, sizeof *nullable);
    dop_status st = nullable ? DOP_OK : DOP_NO_MEMORY(diag);
    if (st == DOP_OK && !dop_budget_take(a->budget, work))
        st = dop_budget_fail(a->budget, diag, "the grammar");
    if (st == DOP_OK && (st = dop_auto_find_ends(a, true, diag, nullable, NULL)) == DOP_OK)
        st = check_left_recursion(a, nullable, diag);
    if (st != DOP_E_LIMIT)
        dop_budget_give(a->budget, work);
    free(nullable);
    return st;
}
