/* Follows texts through an automaton.
 *
 * A text may be at several places of the automaton at once: a place is a state and a stack of states to return to.  Stacks are
 * lists that share their ends, and equal stacks exist once, so that a place is two numbers.  Sets of places are kept, each with
 * its mask and with the sets to which bytes were found to lead, so that walking through the vocabulary is mostly looking up.  When
 * all that takes too much memory, it is thrown away except for the sets of current matchers. */
#include "base/clock.h"
#include "runtime/grammar/automaton.h"
#include "runtime/grammar/grammar_internal.h"
#include "runtime/grammar/vocab.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    UNKNOWN = 0,         /* of next[]: nobody went there */
    DEAD = 1,            /* the set without places */
    NO_STACK = 0,        /* nothing to return to */
    MOST_PLACES = 16384, /* of a set, with those on the way to it */
    N_SEEN = 2 * MOST_PLACES,
};
static const size_t most_bytes = 96u << 20; /* of sets, stacks and masks */

typedef struct place {
    uint32_t state, stack;
} place;

typedef struct seen {
    place at;
    uint32_t number; /* of the set that was being made */
} seen;

typedef struct stack {
    uint32_t below, to; /* what is under it, and the state that a rule's end returns to */
    uint32_t chain;     /* next with the same hash */
} stack;

typedef struct set {
    size_t first; /* of places[] */
    uint32_t n, chain;
    bool accepts;   /* the text may end */
    uint32_t *next; /* [256]; NULL: all unknown */
    uint32_t *mask;
} set;

typedef struct tables {
    stack *stacks;
    set *sets;
    place *places;
    size_t n_stacks, cap_stacks, n_sets, cap_sets, n_places, cap_places;
    uint32_t *stack_heads, *set_heads; /* [N_HEADS] */
    size_t bytes;
    bool failed;
} tables;

enum { N_HEADS = 1 << 14 };

struct dop_grammar {
    const dop_vocab *vocab;
    dop_auto automaton; /* owned */
    pthread_mutex_t lock;
    uint32_t owners;
    dop_matcher *matchers;
    tables t;
    /* These serve to make one set. */
    place *work, *found; /* [MOST_PLACES] */
    seen *seen;          /* [N_SEEN]: a table by hash of what is in work[] */
    uint32_t n_work, n_found, number;
    uint32_t *walk; /* [longest + 1]: sets on the way to a node */
    bool accepts, too_many;
    dop_grammar_costs costs;
};

struct dop_matcher {
    dop_grammar *grammar;
    dop_matcher *next, *before;
    uint32_t set, moved; /* moved: while memory is freed, the number that the set gets by that */
    uint32_t *mask;      /* owned, [n_words] */
    bool ended;
};

/* --- tables --------------------------------------------------------------------------------------------------------------------- */

static void *
grow(tables *t, void *items, size_t n, size_t more, size_t *io_cap, size_t size)
{
    if (n + more <= *io_cap)
        return items;
    size_t cap = *io_cap ? *io_cap : 64;
    while (cap < n + more)
        cap *= 2;
    void *p = realloc(items, cap * size);
    if (!p) {
        t->failed = true;
        return items;
    }
    t->bytes += (cap - *io_cap) * size;
    *io_cap = cap;
    return p;
}

static void
tables_finish(tables *t)
{
    for (size_t i = 0; i < t->n_sets; i++) {
        free(t->sets[i].next);
        free(t->sets[i].mask);
    }
    free(t->stacks);
    free(t->sets);
    free(t->places);
    free(t->stack_heads);
    free(t->set_heads);
    memset(t, 0, sizeof *t);
}

static uint32_t
mix(uint32_t h, uint32_t v)
{
    h = (h ^ v) * 0x9e3779b1u;
    return h ^ (h >> 15);
}

static uint32_t
push(tables *t, uint32_t below, uint32_t to)
{
    uint32_t *head = &t->stack_heads[mix(mix(1, below), to) % N_HEADS];
    for (uint32_t i = *head; i != NO_STACK; i = t->stacks[i].chain)
        if (t->stacks[i].below == below && t->stacks[i].to == to)
            return i;
    t->stacks = grow(t, t->stacks, t->n_stacks, 1, &t->cap_stacks, sizeof *t->stacks);
    if (t->failed)
        return NO_STACK;
    t->stacks[t->n_stacks] = (stack){below, to, *head};
    *head = (uint32_t)t->n_stacks;
    return (uint32_t)t->n_stacks++;
}

static int
by_place(const void *x, const void *y)
{
    const place *a = x, *b = y;
    if (a->state != b->state)
        return a->state < b->state ? -1 : 1;
    return a->stack < b->stack ? -1 : a->stack > b->stack;
}

/* The set of these places, which are put in order. */
static uint32_t
intern(tables *t, place *places, uint32_t n, bool accepts)
{
    uint32_t h = accepts;
    if (n == 0 && !accepts && t->n_sets > DEAD)
        return DEAD;
    qsort(places, n, sizeof *places, by_place);
    for (uint32_t i = 0; i < n; i++)
        h = mix(mix(h, places[i].state), places[i].stack);
    uint32_t *head = &t->set_heads[h % N_HEADS];
    for (uint32_t i = *head; i != 0; i = t->sets[i].chain) {
        const set *s = &t->sets[i];
        if (s->n == n && s->accepts == accepts &&
            (n == 0 || memcmp(t->places + s->first, places, n * sizeof *places) == 0))
            return i;
    }
    t->sets = grow(t, t->sets, t->n_sets, 1, &t->cap_sets, sizeof *t->sets);
    t->places = grow(t, t->places, t->n_places, n, &t->cap_places, sizeof *t->places);
    if (t->failed)
        return DEAD;
    if (n)
        memcpy(t->places + t->n_places, places, n * sizeof *places);
    t->sets[t->n_sets] = (set){.first = t->n_places, .n = n, .chain = *head, .accepts = accepts};
    t->n_places += n;
    *head = (uint32_t)t->n_sets;
    return (uint32_t)t->n_sets++;
}

static void
tables_init(tables *t)
{
    memset(t, 0, sizeof *t);
    t->stack_heads = calloc(N_HEADS, sizeof *t->stack_heads);
    t->set_heads = calloc(N_HEADS, sizeof *t->set_heads);
    t->failed = !t->stack_heads || !t->set_heads;
    t->stacks = grow(t, t->stacks, 0, 1, &t->cap_stacks, sizeof *t->stacks);
    t->sets = grow(t, t->sets, 0, 2, &t->cap_sets, sizeof *t->sets);
    if (t->failed)
        return;
    t->stacks[0] = (stack){0};
    t->sets[UNKNOWN] = t->sets[DEAD] = (set){0};
    t->n_stacks = 1;
    t->n_sets = 2;
}

/* --- steps ---------------------------------------------------------------------------------------------------------------------- */

/* Adds a place to those from which the search goes on, unless it is among them. */
static void
add_place(dop_grammar *g, place p)
{
    for (uint32_t i = mix(mix(7, p.state), p.stack);; i++) {
        seen *slot = &g->seen[i % N_SEEN];
        if (slot->number == g->number && slot->at.state == p.state && slot->at.stack == p.stack)
            return;
        if (slot->number == g->number)
            continue;
        g->too_many |= g->n_work == MOST_PLACES;
        if (g->too_many)
            return;
        *slot = (seen){p, g->number};
        g->work[g->n_work++] = p;
        return;
    }
}

/* Goes to a place and to all that can be reached from it without a byte.  Only those that accept bytes become part of the set,
 * because the others matter no more. */
static void
reach(dop_grammar *g, place from)
{
    const dop_auto *a = &g->automaton;
    uint32_t next = g->n_work;
    add_place(g, from);
    for (; next < g->n_work && !g->too_many; next++) {
        place p = g->work[next];
        const dop_state *s = &a->states[p.state];
        if (s->has_bytes)
            g->found[g->n_found++] = p;
        if (s->is_end && p.stack == NO_STACK)
            g->accepts = true;
        else if (s->is_end)
            add_place(g, (place){g->t.stacks[p.stack].to, g->t.stacks[p.stack].below});
        for (uint32_t i = s->first; i != DOP_AUTO_NONE; i = a->edges[i].next) {
            const dop_edge *e = &a->edges[i];
            const dop_state *to = &a->states[e->to];
            if (e->kind == DOP_EDGE_NOTHING)
                add_place(g, (place){e->to, p.stack});
            if (e->kind != DOP_EDGE_CALL)
                continue;
            /* Where nothing but another return follows the call, the stack need not grow, as with tail calls. */
            bool returns = to->is_end && to->first == DOP_AUTO_NONE;
            add_place(g, (place){a->rules[e->rule], returns ? p.stack : push(&g->t, p.stack, e->to)});
        }
    }
}

static void
begin_set(dop_grammar *g)
{
    g->n_work = g->n_found = 0;
    g->accepts = false;
    g->number++;
}

static uint32_t
start(dop_grammar *g)
{
    begin_set(g);
    reach(g, (place){g->automaton.rules[g->automaton.root], NO_STACK});
    return intern(&g->t, g->found, g->n_found, g->accepts);
}

static uint32_t
step_anew(dop_grammar *g, uint32_t from, uint8_t byte)
{
    const dop_auto *a = &g->automaton;
    tables *t = &g->t;
    begin_set(g);
    for (uint32_t i = 0; i < t->sets[from].n; i++) {
        place p = t->places[t->sets[from].first + i];
        for (uint32_t k = a->states[p.state].first; k != DOP_AUTO_NONE; k = a->edges[k].next)
            if (a->edges[k].kind == DOP_EDGE_BYTES && byte >= a->edges[k].lo && byte <= a->edges[k].hi)
                reach(g, (place){a->edges[k].to, p.stack});
    }
    uint32_t to = intern(t, g->found, g->n_found, g->accepts);
    if (!t->sets[from].next) {
        t->sets[from].next = calloc(256, sizeof(uint32_t));
        t->bytes += 256 * sizeof(uint32_t);
    }
    if (t->sets[from].next)
        t->sets[from].next[byte] = to;
    else
        t->failed = true;
    return to;
}

static inline uint32_t
step(dop_grammar *g, uint32_t from, uint8_t byte)
{
    const uint32_t *next = g->t.sets[from].next;
    uint32_t to = next ? next[byte] : UNKNOWN;
    return to != UNKNOWN ? to : from == DEAD ? DEAD : step_anew(g, from, byte);
}

/* Makes the mask of a set: it allows all tokens whose bytes lead somewhere. */
static uint32_t *
make_mask(dop_grammar *g, uint32_t from)
{
    const dop_vocab *v = g->vocab;
    uint32_t *mask = calloc(v->n_words, sizeof *mask);
    if (!mask)
        return NULL;
    double begin = dop_now_ms();
    g->walk[0] = from;
    for (uint32_t i = 0; i < v->n_nodes;) {
        const dop_vocab_node *n = &v->nodes[i];
        uint32_t to = step(g, g->walk[n->depth], n->byte);
        if (to == DEAD) {
            i = n->end;
            continue;
        }
        g->walk[n->depth + 1] = to;
        /* Where the first token of a node ends in a descendant, the next node has the same one, so the loop does nothing. */
        for (uint32_t k = n->token; k < v->nodes[i + 1].token; k++)
            mask[v->tokens[k] / 32] |= 1u << (v->tokens[k] % 32);
        i++;
    }
    for (size_t i = 0; i < v->n_end_ids && g->t.sets[from].accepts; i++)
        if (v->end_ids[i] < v->n_vocab)
            mask[v->end_ids[i] / 32] |= 1u << (v->end_ids[i] % 32);
    g->costs.masks_made++;
    g->costs.walk_ms += dop_now_ms() - begin;
    g->t.bytes += v->n_words * sizeof *mask;
    return mask;
}

/* --- what is kept ------------------------------------------------------------------------------------------------------------- */

static uint32_t
move_stack(const tables *from, uint32_t s, tables *to)
{
    return s == NO_STACK ? NO_STACK : push(to, move_stack(from, from->stacks[s].below, to), from->stacks[s].to);
}

/* Frees memory: keeps only the sets in which matchers are. */
static void
forget(dop_grammar *g)
{
    tables t;
    tables_init(&t);
    for (dop_matcher *m = g->matchers; m && !t.failed; m = m->next) {
        const set *s = &g->t.sets[m->set];
        for (uint32_t i = 0; i < s->n && !t.failed; i++) {
            place p = g->t.places[s->first + i];
            g->found[i] = (place){p.state, move_stack(&g->t, p.stack, &t)};
        }
        m->moved = intern(&t, g->found, s->n, s->accepts);
    }
    if (t.failed) {
        tables_finish(&t);
        return;
    }
    for (dop_matcher *m = g->matchers; m; m = m->next)
        m->set = m->moved;
    tables_finish(&g->t);
    g->t = t;
}

static dop_status
trouble(const dop_grammar *g, dop_diag *diag)
{
    if (g->t.failed)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if (g->too_many)
        return DOP_FAIL(diag, DOP_E_INPUT, "the grammar is too ambiguous: a text can be in more than %d places at once",
                        MOST_PLACES);
    return DOP_OK;
}

/* --- grammars ----------------------------------------------------------------------------------------------------------------- */

dop_status
dop_grammar_make(const dop_vocab *vocab, dop_auto *automaton, dop_diag *diag, dop_grammar **out_grammar)
{
    *out_grammar = NULL;
    dop_status st = dop_auto_check(automaton, diag);
    if (st == DOP_OK)
        st = dop_auto_prune(automaton, diag);
    dop_grammar *g = st == DOP_OK ? calloc(1, sizeof *g) : NULL;
    if (!g) {
        dop_auto_finish(automaton);
        return st != DOP_OK ? st : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    g->vocab = vocab;
    g->automaton = *automaton;
    memset(automaton, 0, sizeof *automaton);
    g->owners = 1;
    pthread_mutex_init(&g->lock, NULL);
    tables_init(&g->t);
    g->work = malloc(((size_t)MOST_PLACES + 1) * sizeof *g->work);
    g->found = malloc(((size_t)MOST_PLACES + 1) * sizeof *g->found);
    g->seen = calloc(N_SEEN, sizeof *g->seen);
    g->walk = calloc((size_t)vocab->longest + 2, sizeof *g->walk);
    if (g->t.failed || !g->work || !g->found || !g->seen || !g->walk) {
        dop_grammar_release(g);
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    *out_grammar = g;
    return DOP_OK;
}

dop_grammar *
dop_grammar_share(dop_grammar *grammar)
{
    pthread_mutex_lock(&grammar->lock);
    grammar->owners++;
    pthread_mutex_unlock(&grammar->lock);
    return grammar;
}

void
dop_grammar_release(dop_grammar *grammar)
{
    dop_grammar *g = grammar;
    if (!g)
        return;
    pthread_mutex_lock(&g->lock);
    bool last = --g->owners == 0;
    pthread_mutex_unlock(&g->lock);
    if (!last)
        return;
    tables_finish(&g->t);
    dop_auto_finish(&g->automaton);
    free(g->work);
    free(g->found);
    free(g->seen);
    free(g->walk);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

dop_grammar_costs
dop_grammar_cost(dop_grammar *grammar)
{
    pthread_mutex_lock(&grammar->lock);
    dop_grammar_costs c = grammar->costs;
    c.bytes = grammar->t.bytes;
    pthread_mutex_unlock(&grammar->lock);
    return c;
}

/* --- matchers ----------------------------------------------------------------------------------------------------------------- */

dop_status
dop_matcher_create(dop_grammar *grammar, dop_diag *diag, dop_matcher **out_matcher)
{
    dop_matcher *m = calloc(1, sizeof *m);
    *out_matcher = NULL;
    if (!m || !(m->mask = calloc((size_t)grammar->vocab->n_words + 1, sizeof *m->mask))) {
        free(m);
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    m->grammar = dop_grammar_share(grammar);
    pthread_mutex_lock(&grammar->lock);
    m->set = start(grammar);
    m->next = grammar->matchers;
    if (m->next)
        m->next->before = m;
    grammar->matchers = m;
    dop_status st = trouble(grammar, diag);
    pthread_mutex_unlock(&grammar->lock);
    if (st == DOP_OK)
        *out_matcher = m;
    else
        dop_matcher_destroy(m);
    return st;
}

void
dop_matcher_destroy(dop_matcher *matcher)
{
    dop_matcher *m = matcher;
    if (!m)
        return;
    pthread_mutex_lock(&m->grammar->lock);
    if (m->next)
        m->next->before = m->before;
    if (m->before)
        m->before->next = m->next;
    else
        m->grammar->matchers = m->next;
    pthread_mutex_unlock(&m->grammar->lock);
    dop_grammar_release(m->grammar);
    free(m->mask);
    free(m);
}

static dop_status
find_mask(dop_matcher *m, dop_diag *diag)
{
    dop_grammar *g = m->grammar;
    dop_status st = trouble(g, diag);
    if (st != DOP_OK)
        return st;
    if (g->t.bytes > most_bytes)
        forget(g);
    if (!g->t.sets[m->set].mask) {
        uint32_t *mask = make_mask(g, m->set); /* This may move sets[]. */
        g->t.failed |= !mask;
        g->t.sets[m->set].mask = mask;
    } else {
        g->costs.masks_found++;
    }
    if ((st = trouble(g, diag)) == DOP_OK)
        memcpy(m->mask, g->t.sets[m->set].mask, g->vocab->n_words * sizeof *m->mask);
    return st;
}

const uint32_t *
dop_matcher_mask(dop_matcher *matcher, dop_diag *diag)
{
    pthread_mutex_lock(&matcher->grammar->lock);
    dop_status st = find_mask(matcher, diag);
    pthread_mutex_unlock(&matcher->grammar->lock);
    return st == DOP_OK ? matcher->mask : NULL;
}

dop_status
dop_matcher_apply(dop_matcher *matcher, float *logits, uint32_t n_vocab, dop_diag *diag)
{
    const uint32_t *mask = dop_matcher_mask(matcher, diag);
    uint32_t any = 0;
    if (!mask)
        return diag ? diag->code : DOP_E_NOMEM;
    for (uint32_t w = 0; w < dop_div_up_u32(n_vocab, 32); w++) {
        uint32_t bits = mask[w], n = n_vocab - w * 32 < 32 ? n_vocab - w * 32 : 32;
        any |= bits;
        if (bits == UINT32_MAX)
            continue;
        for (uint32_t k = 0; k < n; k++)
            if (!(bits >> k & 1))
                logits[w * 32 + k] = -INFINITY;
    }
    return any ? DOP_OK
               : DOP_FAIL(diag, DOP_E_INPUT, "no token of the vocabulary goes on with what the grammar wants next");
}

dop_status
dop_matcher_accept(dop_matcher *matcher, uint32_t id, dop_diag *diag)
{
    dop_grammar *g = matcher->grammar;
    size_t n = 0;
    const char *bytes = dop_tokenizer_piece(g->vocab->tok, id, &n);
    pthread_mutex_lock(&g->lock);
    uint32_t to = matcher->set;
    bool good = !matcher->ended;
    if (dop_vocab_is_end(g->vocab, id)) {
        good &= g->t.sets[to].accepts;
        matcher->ended = good;
    } else {
        good &= bytes && n > 0;
        if (good && dop_tokenizer_is_special(g->vocab->tok, id))
            to = step(g, to, (uint8_t)DOP_VOCAB_SPECIAL);
        for (size_t i = 0; i < n && good; i++)
            to = step(g, to, (uint8_t)bytes[i]);
        good &= to != DEAD;
    }
    dop_status st = trouble(g, diag);
    if (st == DOP_OK && good)
        matcher->set = to;
    pthread_mutex_unlock(&g->lock);
    return st != DOP_OK || good ? st : DOP_FAIL(diag, DOP_E_INPUT, "token %u is not what the grammar wants next", id);
}

bool
dop_matcher_may_end(const dop_matcher *matcher)
{
    pthread_mutex_lock(&matcher->grammar->lock);
    bool may = matcher->grammar->t.sets[matcher->set].accepts;
    pthread_mutex_unlock(&matcher->grammar->lock);
    return may;
}

bool
dop_matcher_must_end(const dop_matcher *matcher)
{
    pthread_mutex_lock(&matcher->grammar->lock);
    const set *s = &matcher->grammar->t.sets[matcher->set];
    bool must = matcher->ended || (s->accepts && s->n == 0);
    pthread_mutex_unlock(&matcher->grammar->lock);
    return must;
}
