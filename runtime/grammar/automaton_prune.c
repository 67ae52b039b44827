/* Finds the states of an automaton from which an end can be reached.  Edges to others are dropped, because they would let a text
 * begin that can never be finished. */
#include "runtime/grammar/automaton.h"

#include <stdlib.h>

typedef struct search {
    const dop_auto *a;
    uint32_t *from;      /* per edge: its state */
    uint8_t *waits;      /* per edge: of its target and the rule that it calls, how many have not reached an end */
    uint32_t *by_target; /* per state: the first edge that leads there */
    uint32_t *by_rule;   /* per state that begins a rule: the first edge that calls it */
    uint32_t *next_to, *next_call; /* per edge: the next one of these */
    bool *ends;                    /* per state: an end can be reached */
    uint32_t *stack;
    size_t n_stack;
} search;

static void
reach(search *s, uint32_t state)
{
    if (s->ends[state])
        return;
    s->ends[state] = true;
    s->stack[s->n_stack++] = state;
}

static void
note_edges(search *s)
{
    const dop_auto *a = s->a;
    for (size_t i = 0; i < a->n_states; i++)
        s->by_target[i] = s->by_rule[i] = DOP_AUTO_NONE;
    for (uint32_t i = 0; i < a->n_states; i++)
        for (uint32_t e = a->states[i].first; e != DOP_AUTO_NONE; e = a->edges[e].next) {
            s->from[e] = i;
            s->waits[e] = 1;
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
find_ends(search *s)
{
    note_edges(s);
    for (uint32_t i = 0; i < s->a->n_states; i++)
        if (s->a->states[i].is_end)
            reach(s, i);
    while (s->n_stack > 0) {
        const uint32_t state = s->stack[--s->n_stack];
        for (uint32_t e = s->by_target[state]; e != DOP_AUTO_NONE; e = s->next_to[e])
            if (--s->waits[e] == 0)
                reach(s, s->from[e]);
        for (uint32_t e = s->by_rule[state]; e != DOP_AUTO_NONE; e = s->next_call[e])
            if (--s->waits[e] == 0)
                reach(s, s->from[e]);
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
dop_auto_prune(dop_auto *a, dop_diag *diag)
{
    search s = {.a = a};
    dop_status st = DOP_OK;
    s.from = calloc(a->n_edges + 1, sizeof *s.from);
    s.waits = calloc(a->n_edges + 1, sizeof *s.waits);
    s.next_to = calloc(a->n_edges + 1, sizeof *s.next_to);
    s.next_call = calloc(a->n_edges + 1, sizeof *s.next_call);
    s.by_target = calloc(a->n_states + 1, sizeof *s.by_target);
    s.by_rule = calloc(a->n_states + 1, sizeof *s.by_rule);
    s.ends = calloc(a->n_states + 1, sizeof *s.ends);
    s.stack = calloc(a->n_states + 1, sizeof *s.stack);
    if (!s.from || !s.waits || !s.next_to || !s.next_call || !s.by_target || !s.by_rule || !s.ends || !s.stack) {
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    } else {
        find_ends(&s);
        if (s.ends[a->rules[a->root]])
            drop_edges(a, s.waits);
        else
            st = DOP_FAIL(diag, DOP_E_INPUT, "no text fits: whatever is begun can never be finished");
    }
    free(s.from);
    free(s.waits);
    free(s.next_to);
    free(s.next_call);
    free(s.by_target);
    free(s.by_rule);
    free(s.ends);
    free(s.stack);
    return st;
}
