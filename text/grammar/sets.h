/* Sets of automaton configurations, for matchers.
 *
 * A configuration is a state and a return stack. Stacks are linked lists with shared tails. Equal stacks exist only
 * once, so a configuration is two integers; equal sets exist only once, too. Memory is charged before it is
 * allocated, to a limit of these tables and to the pool of all grammars of a vocabulary. */
#ifndef DOPPLER_TEXT_GRAMMAR_SETS_H
#define DOPPLER_TEXT_GRAMMAR_SETS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

enum {
    DOP_SET_UNKNOWN = 0, /* in next[]: successor set not computed yet */
    DOP_SET_DEAD = 1,    /* the empty, non-accepting set */
    DOP_STACK_NONE = 0,  /* the empty stack */
    DOP_SETS_N_HEADS = 1 << 14,
};

/* Memory pool of all grammars of a vocabulary. */
typedef struct dop_pool {
    pthread_mutex_t lock;
    atomic_size_t held; /* bytes in use */
    size_t most;
    struct dop_grammar *first; /* list of all grammars, guarded by the lock */
} dop_pool;

bool dop_pool_take(dop_pool *pool, size_t bytes);
void dop_pool_give(dop_pool *pool, size_t bytes);

typedef struct dop_configuration {
    uint32_t state, stack;
} dop_configuration;

typedef struct dop_stack {
    uint32_t below, to; /* below: rest of the stack; to: return state on top */
    uint32_t chain;     /* next stack in the same hash bucket */
} dop_stack;

typedef struct dop_set {
    size_t first;      /* index of the set's first configuration in places[] */
    uint32_t n, chain; /* n: number of configurations; chain: next set in the same hash bucket */
    bool accepts;      /* true if the text may end here */
    uint32_t *next;    /* [256] owned: successor set for each byte; NULL: all unknown */
    uint32_t *mask;    /* owned: mask of allowed next tokens; NULL: not computed yet */
} dop_set;

typedef struct dop_sets {
    dop_pool *pool;
    dop_stack *stacks;
    dop_set *sets;
    dop_configuration *places;
    size_t n_stacks, cap_stacks, n_sets, cap_sets, n_places, cap_places;
    uint32_t *stack_heads, *set_heads; /* [DOP_SETS_N_HEADS] hash buckets */
    size_t bytes, most;
    bool failed; /* true after an allocation failure */
    bool full;   /* true if an allocation would have exceeded `most` or the pool */
} dop_sets;

void dop_sets_init(dop_sets *t, dop_pool *pool, size_t most);
void dop_sets_finish(dop_sets *t);
/* Allocates zeroed memory charged to the tables. Returns NULL and sets `failed` (out of memory) or `full` (limit
 * exceeded). */
void *dop_sets_alloc(dop_sets *t, size_t bytes);
/* Pushes a state on a stack. Returns the new stack, or DOP_STACK_NONE on failure. */
uint32_t dop_sets_push(dop_sets *t, uint32_t below, uint32_t to);
/* Returns the set of these configurations, an existing one if equal. Sorts `places`. Returns DOP_SET_DEAD on
 * failure. */
uint32_t dop_sets_intern(dop_sets *t, dop_configuration *places, uint32_t n, bool accepts);
/* Garbage collection: replaces the tables with new ones that contain only some sets. io_sets: [n] pointers to
 * indices of sets, which are updated. Returns false, changing nothing, if memory is exhausted. */
bool dop_sets_keep_only(dop_sets *t, uint32_t *const *io_sets, size_t n);
uint32_t dop_sets_mix(uint32_t h, uint32_t v);

#endif
