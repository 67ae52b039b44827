/* Sets of places of an automaton, for matchers.
 *
 * A place is a state and a stack of states to return to.  Stacks are lists that share their ends, and equal stacks exist once, so
 * that a place is two numbers; equal sets exist once too.  Memory is counted before it is allocated, against a bound of the
 * tables' own and against the pool of all grammars of a vocabulary. */
#ifndef DOPPLER_TEXT_GRAMMAR_SETS_H
#define DOPPLER_TEXT_GRAMMAR_SETS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

enum {
    DOP_SET_UNKNOWN = 0, /* in next[]: the set that a byte leads to has not been made yet */
    DOP_SET_DEAD = 1,    /* the set without places */
    DOP_STACK_NONE = 0,  /* nothing to return to */
    DOP_SETS_N_HEADS = 1 << 14,
};

/* Memory that all grammars of a vocabulary may hold together, and what they hold of it. */
typedef struct dop_pool {
    pthread_mutex_t lock;
    atomic_size_t held; /* bytes */
    size_t most;
    struct dop_grammar *first; /* list of all grammars, under the lock */
} dop_pool;

bool dop_pool_take(dop_pool *pool, size_t bytes);
void dop_pool_give(dop_pool *pool, size_t bytes);

typedef struct dop_configuration {
    uint32_t state, stack;
} dop_configuration;

typedef struct dop_stack {
    uint32_t below, to; /* the rest of the stack, and the state on top, to which the end of a rule returns */
    uint32_t chain;     /* next stack with the same hash */
} dop_stack;

typedef struct dop_set {
    size_t first;      /* index in places[] of the set's first place */
    uint32_t n, chain; /* number of places; next set with the same hash */
    bool accepts;      /* the text may end */
    uint32_t *next;    /* owned, [256]: for each byte the set that it leads to; NULL: all unknown */
    uint32_t *mask;    /* owned: mask of the tokens that may come next; NULL: not made yet */
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
    bool full;   /* an allocation would have exceeded `most`, or the pool */
} dop_sets;

void dop_sets_init(dop_sets *t, dop_pool *pool, size_t most);
void dop_sets_finish(dop_sets *t);
/* Allocates zeroed memory that is charged to the tables; NULL: out of memory, or over a bound (failed, full). */
void *dop_sets_alloc(dop_sets *t, size_t bytes);
/* Pushes a state on a stack and returns the number of the new stack; DOP_STACK_NONE on failure. */
uint32_t dop_sets_push(dop_sets *t, uint32_t below, uint32_t to);
/* Returns the set of these places, which are sorted in place: an existing set if there is an equal one; DOP_SET_DEAD on failure. */
uint32_t dop_sets_intern(dop_sets *t, dop_configuration *places, uint32_t n, bool accepts);
/* Garbage collection: copies some sets to new tables, which replace the old ones.  io_sets: [n] pointers to numbers of sets, which
 * change.  False: out of memory, and nothing has changed. */
bool dop_sets_keep_only(dop_sets *t, uint32_t *const *io_sets, size_t n);
uint32_t dop_sets_mix(uint32_t h, uint32_t v);

#endif
