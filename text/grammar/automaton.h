/* Pushdown automata over bytes, the compiled form of grammars and schemas.
 *
 * An automaton consists of states with edges. An edge accepts a byte in a range, accepts nothing (epsilon), or calls
 * a rule and then continues at its target. A rule has one start state and one or more end states. Builder functions
 * receive a state, add edges to it, and return the state after them. */
#ifndef DOPPLER_TEXT_GRAMMAR_AUTOMATON_H
#define DOPPLER_TEXT_GRAMMAR_AUTOMATON_H

#include "base/budget.h"

enum { DOP_AUTO_MAX_STATES = 1 << 20 };

#define DOP_AUTO_NONE UINT32_MAX
#define DOP_AUTO_MANY UINT32_MAX /* maximum repetition count: unlimited */

typedef enum dop_edge_kind { DOP_EDGE_NOTHING, DOP_EDGE_BYTES, DOP_EDGE_CALL } dop_edge_kind;

typedef struct dop_edge {
    uint32_t next; /* next edge of the same source state; DOP_AUTO_NONE: last edge */
    uint32_t to;   /* target state; for calls the state after the rule ends */
    uint32_t rule; /* DOP_EDGE_CALL: the called rule */
    uint8_t kind, lo, hi;
} dop_edge;

typedef struct dop_state {
    uint32_t first; /* first outgoing edge; DOP_AUTO_NONE: no edges */
    bool is_end, has_bytes;
} dop_state;

/* Pushdown automaton, complete or under construction. Zero-initialize. */
typedef struct dop_auto {
    dop_edge *edges; /* owned, as are states and rules */
    dop_state *states;
    uint32_t *rules; /* [n_rules] start state of each rule */
    size_t n_edges, cap_edges, n_states, cap_states, n_rules, cap_rules;
    uint32_t root;      /* rule that a whole text must match */
    bool failed;        /* true after an allocation failure */
    bool too_large;     /* true if DOP_AUTO_MAX_STATES or the budget was exceeded */
    dop_buf unenforced; /* names of schema keywords that the automaton does not enforce, separated by ", " */
    dop_budget *budget; /* not owned; NULL: no limits. Memory of the automaton stays charged. */
} dop_auto;

void dop_auto_finish(dop_auto *a);
/* Fails with DOP_E_LIMIT if the grammar is too large, and with DOP_E_INPUT if a rule calls itself before it accepts
 * a byte (left recursion). */
dop_status dop_auto_check(const dop_auto *a, dop_diag *diag);
/* Removes edges after which no end can be reached, because such a text could never be finished. Fails with
 * DOP_E_INPUT if no text can be finished. */
dop_status dop_auto_prune(dop_auto *a, dop_diag *diag);
/* Finds the states from which an end of their rule can be reached; no_bytes: without accepting a byte. out_ends:
 * [n_states], zeroed by the caller. out_waits: NULL or [n_edges], zeroed; set to 0 for edges through which an end
 * can be reached, positive for others. */
dop_status dop_auto_find_ends(const dop_auto *a, bool no_bytes, dop_diag *diag, bool *out_ends, uint8_t *out_waits);
/* Shrinks the arrays to their contents. */
void dop_auto_shrink(dop_auto *a);
size_t dop_auto_bytes_held(const dop_auto *a);

uint32_t dop_auto_state(dop_auto *a);
void dop_auto_nothing(dop_auto *a, uint32_t from, uint32_t to);
void dop_auto_bytes(dop_auto *a, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to);
/* Adds a rule with a new start state. Returns its index. */
uint32_t dop_auto_rule(dop_auto *a);
void dop_auto_end(dop_auto *a, uint32_t state);

void dop_auto_call_to(dop_auto *a, uint32_t from, uint32_t rule, uint32_t to);

/* Builders: each adds edges from a state and returns the state after them. */
uint32_t dop_auto_call(dop_auto *a, uint32_t from, uint32_t rule);
uint32_t dop_auto_text(dop_auto *a, uint32_t from, const char *bytes, size_t n);
uint32_t dop_auto_repeat(dop_auto *a, uint32_t from, uint32_t rule, uint32_t min, uint32_t max);
/* Adds edges that accept the n-byte strings between lo and hi in lexicographic order, with all bytes within [first,
 * last]. */
void dop_auto_between(dop_auto *a, uint32_t from, const uint8_t *lo, const uint8_t *hi, size_t n, uint8_t first,
                      uint8_t last, uint32_t to);

/* Set of characters, stored as ranges of code points. */
typedef struct dop_charset {
    uint32_t (*ranges)[2]; /* [n] owned: first and last code point */
    size_t n, cap;
    bool failed;
} dop_charset;

void dop_charset_add(dop_charset *set, uint32_t first, uint32_t last);
/* Replaces a set with its complement. */
void dop_charset_negate(dop_charset *set);
/* Intersects a set with another one. */
void dop_charset_limit(dop_charset *set, const dop_charset *other);
bool dop_charset_has(const dop_charset *set, uint32_t c);
void dop_charset_finish(dop_charset *set);
/* Adds edges from one state to another that accept one character of the set in UTF-8. */
void dop_auto_chars(dop_auto *a, uint32_t from, const dop_charset *set, uint32_t to);

#endif
