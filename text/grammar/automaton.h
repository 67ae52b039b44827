/* Pushdown automata over bytes, to which grammars and schemas are compiled.
 *
 * An automaton has states with edges.  An edge accepts a byte of a range, accepts nothing, or calls a rule; after a call the
 * automaton continues at the edge's own target.  A rule is a start state, and ends in any of the states that are
 * marked as its ends.  Builders take a state and return the state after what they add. */
#ifndef DOPPLER_TEXT_GRAMMAR_AUTOMATON_H
#define DOPPLER_TEXT_GRAMMAR_AUTOMATON_H

#include "base/budget.h"

enum { DOP_AUTO_MAX_STATES = 1 << 20 };

#define DOP_AUTO_NONE UINT32_MAX
#define DOP_AUTO_MANY UINT32_MAX /* as the largest number of repetitions: no limit */

typedef enum dop_edge_kind { DOP_EDGE_NOTHING, DOP_EDGE_BYTES, DOP_EDGE_CALL } dop_edge_kind;

typedef struct dop_edge {
    uint32_t next; /* next edge of the state that this edge leaves; DOP_AUTO_NONE: this is the last one */
    uint32_t to;   /* target state; of a call, the state after the rule has ended */
    uint32_t rule; /* DOP_EDGE_CALL: the rule that is called */
    uint8_t kind, lo, hi;
} dop_edge;

typedef struct dop_state {
    uint32_t first; /* first edge that leaves the state; DOP_AUTO_NONE: there is none */
    bool is_end, has_bytes;
} dop_state;

/* A pushdown automaton under construction or complete; zero-initialize. */
typedef struct dop_auto {
    dop_edge *edges; /* owned */
    dop_state *states;
    uint32_t *rules; /* start state of each rule */
    size_t n_edges, cap_edges, n_states, cap_states, n_rules, cap_rules;
    uint32_t root;      /* the rule that a text must match */
    bool failed;        /* out of memory */
    bool too_large;     /* more states than DOP_AUTO_MAX_STATES, or than the budget has */
    dop_buf unenforced; /* names of schema keywords that the automaton does not enforce, with ", " between them */
    dop_budget *budget; /* not owned; NULL: no limits.  What the automaton holds stays charged. */
} dop_auto;

void dop_auto_finish(dop_auto *a);
/* DOP_E_LIMIT: the grammar is too large.  DOP_E_INPUT: a rule calls itself before it accepts anything. */
dop_status dop_auto_check(const dop_auto *a, dop_diag *diag);
/* Drops the edges from which no text comes to an end, because a text that took one could never be finished.  DOP_E_INPUT: no text
 * comes to an end. */
dop_status dop_auto_prune(dop_auto *a, dop_diag *diag);
/* Finds for each state whether an end of its rule can be reached from it; no_bytes: without accepting a byte.  out_ends: [n_states],
 * zeroed.  out_waits: NULL, or [n_edges], zeroed; becomes 0 for the edges by which an end can be reached, and positive for others. */
dop_status dop_auto_find_ends(const dop_auto *a, bool no_bytes, dop_diag *diag, bool *out_ends, uint8_t *out_waits);
/* Shrinks the arrays to what they hold. */
void dop_auto_shrink(dop_auto *a);
size_t dop_auto_bytes_held(const dop_auto *a);

uint32_t dop_auto_state(dop_auto *a);
void dop_auto_nothing(dop_auto *a, uint32_t from, uint32_t to);
void dop_auto_bytes(dop_auto *a, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to);
/* Adds a rule with a start state. */
uint32_t dop_auto_rule(dop_auto *a);
void dop_auto_end(dop_auto *a, uint32_t state);

void dop_auto_call_to(dop_auto *a, uint32_t from, uint32_t rule, uint32_t to);

/* Builders: each adds edges from a state and returns the state after what it added. */
uint32_t dop_auto_call(dop_auto *a, uint32_t from, uint32_t rule);
uint32_t dop_auto_text(dop_auto *a, uint32_t from, const char *bytes, size_t n);
uint32_t dop_auto_repeat(dop_auto *a, uint32_t from, uint32_t rule, uint32_t min, uint32_t max);
/* Adds edges that accept the strings of n bytes, all within [first, last], that lie between lo and hi in dictionary order. */
void dop_auto_between(dop_auto *a, uint32_t from, const uint8_t *lo, const uint8_t *hi, size_t n, uint8_t first,
                      uint8_t last, uint32_t to);

/* A set of characters, as ranges of code points. */
typedef struct dop_charset {
    uint32_t (*ranges)[2]; /* owned: first and last code point */
    size_t n, cap;
    bool failed;
} dop_charset;

void dop_charset_add(dop_charset *set, uint32_t first, uint32_t last);
/* Replaces a set by its complement. */
void dop_charset_negate(dop_charset *set);
/* Intersects a set with another one. */
void dop_charset_limit(dop_charset *set, const dop_charset *other);
bool dop_charset_has(const dop_charset *set, uint32_t c);
void dop_charset_finish(dop_charset *set);
/* Adds edges from one state to another that accept one character of the set, in UTF-8. */
void dop_auto_chars(dop_auto *a, uint32_t from, const dop_charset *set, uint32_t to);

#endif
