/* Sets of places of an automaton, for matchers.
 *
 * A place is a state and a stack of states to return to.  Stacks are lists that share their ends, and equal stacks exist once, so
 * that a place is two numbers; equal sets exist once too.  Memory is counted before it is allocated, against a bound of the
 * tables' own and against the pool of all grammars of a vocabulary. */
#ifndef DOPPLER_RUNTIME_TEXT_GRAMMAR_SETS_H
#define DOPPLER_RUNTIME_TEXT_GRAMMAR_SETS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

enum {
    DOP_SET_UNKNOWN = 0, /* of next[]: nobody went there */
    DOP_SET_DEAD = 1,    /* the set without places */
    DOP_STACK_NONE = 0,  /* nothing to return to */
    DOP_SETS_N_HEADS = 1 << 14,
};

/* Memory that all grammars of a vocabulary may hold together, and what they hold of it. */
typedef struct dop_pool {
    pthread_mutex_t lock;
    atomic_size_t held; /* bytes */
    size_t most;
    struct dop_grammar *first; /* under the lock: all grammars */
} dop_pool;

bool dop_pool_take(dop_pool *pool, size_t bytes);
void dop_pool_give(dop_pool *pool, size_t bytes);

typedef struct dop_configuration {
    uint32_t state, stack;
} dop_configuration;

typedef struct dop_stack {
    uint32_t below, to; /* what is under it, and the state that a rule's end returns to */
    uint32_t chain;     /* next with the same hash */
} dop_stack;

typedef struct dop_set {
    size_t first; /* of places[] */
    uint32_t n, chain;
    bool accepts;   /* the text may end */
    uint32_t *next; /* owned, [256]; NULL: all unknown */
    uint32_t *mask; /* owned; NULL: not made yet */
} dop_set;

typedef struct dop_sets {
    dop_pool *pool;
    dop_stack *stacks;
    dop_set *sets;
    dop_configuration *places;
    size_t n_stacks, cap_stacks, n_sets, cap_sets, n_places, cap_places;
    uint32_t *stack_heads, *set_heads; /* [DOP_SETS_N_HEADS] */
    size_t bytes, most;
    bool failed; /* out of memory */
    bool full;   /* more bytes are needed than there may be */
} dop_sets;

void dop_sets_init(dop_sets *t, dop_pool *pool, size_t most);
void dop_sets_finish(dop_sets *t);
/* Zeroed memory that counts as the tables'; NULL: failed or full. */
void *dop_sets_alloc(dop_sets *t, size_t bytes);
/* The stack with one more state; DOP_STACK_NONE where it fails. */
uint32_t dop_sets_push(dop_sets *t, uint32_t below, uint32_t to);
/* The set of these places, which are put in order; DOP_SET_DEAD where it fails. */
uint32_t dop_sets_intern(dop_sets *t, dop_configuration *places, uint32_t n, bool accepts);
/* Moves sets to new tables, which take the place of the old ones; io_sets: [n] numbers of sets, which change.  False: out of memory,
 * and nothing has changed. */
bool dop_sets_keep_only(dop_sets *t, uint32_t *const *io_sets, size_t n);
uint32_t dop_sets_mix(uint32_t h, uint32_t v);

#endif
