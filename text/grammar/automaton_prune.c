/* Prunes an automaton: finds the states from which an end can be reached, and removes edges to all other states.
 * Texts that take these edges could never be finished. */
#include "text/grammar/automaton.h"

#include <stdlib.h>

typedef struct search {
    const dop_auto *a;
    bool no_bytes;  /* true: ignore edges that accept a byte */
    uint32_t *from; /* per edge: its source state */
    /* Per edge, 0 to 2: how many of its target and its called rule are not yet known to reach an end. */
    uint8_t *waits;
    uint32_t *by_target;           /* per state: its first incoming edge */
    uint32_t *by_rule;             /* per start state of a rule: the first edge that calls the rule */
    uint32_t *next_to, *next_call; /* per edge: next edge with the same target; next edge that calls the same rule */
    bool *ends;                    /* per state: true if an end can be reached */
    uint32_t *stack;
    size_t n_stack;
} search;

static void
mark_reaching_state(search *s, uint32_t state)
{
    if (s->ends[state])
        return;
    s->ends[state] = true;
    s->stack[s->n_stack++] = state;
}

static void
index_edges(search *s)
{
    const dop_auto *a = s->a;
    for (size_t i = 0; i < a->n_states; i++)
        s->by_target[i] = s->by_rule[i] = DOP_AUTO_NONE;
    for (uint32_t i = 0; i < a->n_states; i++)
        for (uint32_t e = a->states[i].first; e != DOP_AUTO_NONE; e = a->edges[e].next) {
            s->from[e] = i;
            s->waits[e] = s->no_bytes && a->edges[e].kind == DOP_EDGE_BYTES ? 2 : 1;
            s->next_to[e] = s->by_target[a->edges[e].to];
            s->by_target[a->edges[e].to] = e;
            if (a->edges[e].kind != DOP_EDGE_CALL)
                continue;
            const uint32_t start = a->rules[a->edges[e].rule];
            s->waits[e] = 2;
            s->next_call[e] = s->by_rule[start];
            s->by_rule[start] = e;
        }
}

static void
find_reaching_states(search *s)
{
    index_edges(s);
    for (uint32_t i = 0; i < s->a->n_states; i++)
        if (s->a->states[i].is_end)
            mark_reaching_state(s, i);
    while (s->n_stack > 0) {
        const uint32_t state = s->stack[--s->n_stack];
        for (uint32_t e = s->by_target[state]; e != DOP_AUTO_NONE; e = s->next_to[e])
            if (--s->waits[e] == 0)
                mark_reaching_state(s, s->from[e]);
        for (uint32_t e = s->by_rule[state]; e != DOP_AUTO_NONE; e = s->next_call[e])
            if (--s->waits[e] == 0)
                mark_reaching_state(s, s->from[e]);
    }
}

static void
drop_edges(dop_auto *a, const uint8_t *waits)
{
    for (size_t i = 0; i < a->n_states; i++) {
        uint32_t *link = &a->states[i].first;
        a->states[i].has_bytes = false;
        while (*link != DOP_AUTO_NONE) {
            const uint32_t e = *link;
            if (waits[e] > 0) {
                *link = a->edges[e].next;
                continue;
            }
            a->states[i].has_bytes |= a->edges[e].kind == DOP_EDGE_BYTES;
            link = &a->edges[e].next;
        }
    }
}

dop_status
dop_auto_find_ends(const dop_auto *a, bool no_bytes, dop_diag *diag, bool *out_ends, uint8_t *out_waits)
{
    search s = {.a = a, .no_bytes = no_bytes, .ends = out_ends, .waits = out_waits};
    dop_status st = DOP_OK;
    const uint64_t work = (a->n_edges * 13) + (a->n_states * 12);
    if (!dop_budget_take(a->budget, work) || !dop_budget_step(a->budget, a->n_edges + a->n_states))
        return dop_budget_fail(a->budget, diag, "the grammar");
    s.from = calloc(a->n_edges + 1, sizeof *s.from);
    s.next_to = calloc(a->n_edges + 1, sizeof *s.next_to);
    s.next_call = calloc(a->n_edges + 1, sizeof *s.next_call);
    s.by_target = calloc(a->n_states + 1, sizeof *s.by_target);
    s.by_rule = calloc(a->n_states + 1, sizeof *s.by_rule);
    s.stack = calloc(a->n_states + 1, sizeof *s.stack);
    if (!out_waits)
        s.waits = calloc(a->n_edges + 1, sizeof *s.waits);
    if (!s.from || !s.waits || !s.next_to || !s.next_call || !s.by_target || !s.by_rule || !s.stack)
        st = DOP_NO_MEMORY(diag);
    else
        find_reaching_states(&s);
    free(s.from);
    free(s.next_to);
    free(s.next_call);
    free(s.by_target);
    free(s.by_rule);
    free(s.stack);
    if (!out_waits)
        free(s.waits);
    dop_budget_give(a->budget, work);
    return st;
}

dop_status
dop_auto_prune(dop_auto *a, dop_diag *diag)
{
    bool *ends = calloc(a->n_states + 1, sizeof *ends);
    uint8_t *waits = calloc(a->n_edges + 1, sizeof *waits);
    dop_status st = ends && waits ? DOP_OK : DOP_NO_MEMORY(diag);
    if (st == DOP_OK && (st = dop_auto_find_ends(a, false, diag, ends, waits)) == DOP_OK) {
        if (ends[a->rules[a->root]])
            drop_edges(a, waits);
        else
            st = DOP_FAIL(diag, DOP_E_INPUT, "no text fits: whatever is begun can never be finished");
    }
    free(ends);
    free(waits);
    return st;
}
