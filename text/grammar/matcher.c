/* Follows texts through an automaton.
 *
 * A text may be in several configurations of the automaton at once (sets.h). Sets of configurations are cached with
 * their mask and their known successors, so a walk over the vocabulary consists mostly of look-ups. If the cache
 * exceeds its limit, everything but the sets of current matchers is dropped, even during a walk.
 *
 * A walk is done in time slices, so that other matchers and jobs can run in between. */
#include "base/os/clock.h"
#include "text/grammar/automaton.h"
#include "text/grammar/grammar_internal.h"
#include "text/grammar/sets.h"
#include "text/grammar/vocab.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_ANEW = 8 };
enum {
    DEAD = DOP_SET_DEAD,
    MOST_PLACES = 1 << 16, /* maximum number of configurations visited for one set */
    FIRST_PLACES = 1 << 10,
};
static const size_t most_bytes = 64u << 20; /* memory limit for a grammar's sets, stacks and masks */
/* Limits on steps for one mask and for all masks of a text. A trie node with a known successor set costs one step.
 * To compute a new set, each visited configuration and edge costs STEP_ANEW steps. */
static const uint64_t most_mask_steps = 128u << 20, most_text_steps = 1024u << 20;

typedef struct seen {
    dop_configuration at;
    uint32_t number; /* serial number of the set under construction when the configuration was visited */
} seen;

struct dop_grammar {
    const dop_vocab *vocab;
    dop_auto automaton; /* owned pushdown automaton */
    size_t auto_bytes;
    pthread_mutex_t lock;
    uint32_t owners;
    dop_matcher *matchers;
    dop_grammar *next, *before; /* neighbours in the pool's list of grammars, guarded by the pool's lock */
    dop_sets t;
    /* Scratch memory for computing one set. */
    dop_configuration *work, *found; /* [cap] work: queue of visited configurations; found: configurations that
                                      * accept a byte */
    seen *seen;                      /* [2 * cap] hash table of the configurations in work[] */
    uint32_t n_work, n_found, number, cap;
    bool accepts, too_many;
    uint64_t spent; /* steps since the start of the current walk slice or dop_matcher_accept() */
    dop_grammar_costs costs;
};

struct dop_matcher {
    dop_grammar *grammar;
    dop_matcher *next, *before;
    uint32_t set;
    uint32_t *mask; /* owned, [n_words] mask of `set` */
    bool ended;
    /* Walk over the vocabulary that computes the mask of `set`. */
    bool walks, ready; /* walks: a walk is in progress; ready: mask[] is complete */
    uint32_t node;     /* vocabulary node at which the walk continues */
    uint32_t *walk;    /* owned, [longest + 2] sets on the path to the node, by depth */
    uint64_t mask_steps, text_steps;
};

/* --- steps ---------------------------------------------------------------------------------------------------------------------- */

static bool
grow_scratch(dop_grammar *g, uint32_t cap)
{
    dop_configuration *work = realloc(g->work, cap * sizeof *work);
    g->work = work ? work : g->work;
    dop_configuration *found = realloc(g->found, cap * sizeof *found);
    g->found = found ? found : g->found;
    seen *table = calloc(2 * (size_t)cap, sizeof *table);
    if (!work || !found || !table) {
        free(table);
        return false;
    }
    free(g->seen);
    g->seen = table;
    g->cap = cap;
    return true;
}

static seen *
find_seen_slot(const dop_grammar *g, dop_configuration p)
{
    for (uint32_t i = dop_sets_mix(dop_sets_mix(7, p.state), p.stack);; i++) {
        seen *slot = &g->seen[i % (2 * g->cap)];
        if (slot->number != g->number || (slot->at.state == p.state && slot->at.stack == p.stack))
            return slot;
    }
}

/* Appends a configuration to the queue work[] unless it was already visited. */
static void
add_configuration(dop_grammar *g, dop_configuration p)
{
    seen *slot = find_seen_slot(g, p);
    if (slot->number == g->number)
        return;
    if (g->n_work == g->cap) {
        g->too_many |= g->cap >= MOST_PLACES;
        if (g->too_many)
            return;
        if (!grow_scratch(g, 4 * g->cap)) {
            g->t.failed = true;
            return;
        }
        for (uint32_t i = 0; i < g->n_work; i++)
            *find_seen_slot(g, g->work[i]) = (seen){g->work[i], g->number};
        slot = find_seen_slot(g, p);
    }
    *slot = (seen){p, g->number};
    g->work[g->n_work++] = p;
}

static bool
has_set_failure(const dop_grammar *g)
{
    return g->too_many || g->t.failed || g->t.full;
}

/* Epsilon closure: visits a configuration and all others reachable without accepting a byte. */
static void
visit_closure(dop_grammar *g, dop_configuration at)
{
    const dop_auto *a = &g->automaton;
    uint32_t done = g->n_work;
    add_configuration(g, at);
    for (; done < g->n_work && !has_set_failure(g); done++) {
        dop_configuration p = g->work[done];
        const dop_state *s = &a->states[p.state];
        if (s->has_bytes)
            g->found[g->n_found++] = p;
        if (s->is_end && p.stack == DOP_STACK_NONE)
            g->accepts = true;
        else if (s->is_end)
            add_configuration(g, (dop_configuration){g->t.stacks[p.stack].to, g->t.stacks[p.stack].below});
        for (uint32_t i = s->first; i != DOP_AUTO_NONE; i = a->edges[i].next) {
            const dop_edge *e = &a->edges[i];
            const dop_state *to = &a->states[e->to];
            g->spent += STEP_ANEW;
            if (e->kind == DOP_EDGE_NOTHING)
                add_configuration(g, (dop_configuration){e->to, p.stack});
            if (e->kind != DOP_EDGE_CALL)
                continue;
            /* Tail call: if only another return follows the call, the stack need not grow. */
            bool returns = to->is_end && to->first == DOP_AUTO_NONE;
            add_configuration(
                g, (dop_configuration){a->rules[e->rule], returns ? p.stack : dop_sets_push(&g->t, p.stack, e->to)});
        }
    }
    g->spent += STEP_ANEW;
}

static void
begin_new_set(dop_grammar *g)
{
    g->n_work = g->n_found = 0;
    g->accepts = false;
    if (++g->number == 0) { /* counter wrapped around: clear the marks of earlier sets */
        memset(g->seen, 0, 2 * (size_t)g->cap * sizeof *g->seen);
        g->number = 1;
    }
}

static uint32_t
make_start_set(dop_grammar *g)
{
    begin_new_set(g);
    visit_closure(g, (dop_configuration){g->automaton.rules[g->automaton.root], DOP_STACK_NONE});
    return has_set_failure(g) ? DEAD : dop_sets_intern(&g->t, g->found, g->n_found, g->accepts);
}

/* Computes the successor set for a byte and stores it in next[]. After a failure it returns DEAD and stores nothing. */
static uint32_t
compute_next_set(dop_grammar *g, uint32_t from, uint8_t byte)
{
    const dop_auto *a = &g->automaton;
    dop_sets *t = &g->t;
    begin_new_set(g);
    for (uint32_t i = 0; i < t->sets[from].n && !has_set_failure(g); i++) {
        dop_configuration p = t->places[t->sets[from].first + i];
        for (uint32_t k = a->states[p.state].first; k != DOP_AUTO_NONE; k = a->edges[k].next) {
            g->spent += STEP_ANEW;
            if (a->edges[k].kind == DOP_EDGE_BYTES && byte >= a->edges[k].lo && byte <= a->edges[k].hi)
                visit_closure(g, (dop_configuration){a->edges[k].to, p.stack});
        }
    }
    g->spent += STEP_ANEW * (uint64_t)g->n_found; /* for sorting them */
    const uint32_t to = has_set_failure(g) ? DEAD : dop_sets_intern(t, g->found, g->n_found, g->accepts);
    if (!t->sets[from].next && !has_set_failure(g))
        t->sets[from].next = dop_sets_alloc(t, 256 * sizeof(uint32_t));
    if (has_set_failure(g))
        return DEAD;
    t->sets[from].next[byte] = to;
    return to;
}

static inline uint32_t
find_next_set(dop_grammar *g, uint32_t from, uint8_t byte)
{
    const uint32_t *next = g->t.sets[from].next;
    uint32_t to = next ? next[byte] : DOP_SET_UNKNOWN;
    return to != DOP_SET_UNKNOWN ? to : from == DEAD ? DEAD : compute_next_set(g, from, byte);
}

/* --- caching ------------------------------------------------------------------------------------------------------------------ */

/* Frees cached sets of a grammar. Keeps only the current sets of its matchers and of their walks. */
static bool
drop_cached_sets(dop_grammar *g)
{
    size_t n = 0;
    for (const dop_matcher *m = g->matchers; m; m = m->next)
        n += 1 + (m->walks ? g->vocab->nodes[m->node].depth + 1u : 0);
    uint32_t **roots = malloc((n + 1) * sizeof *roots);
    if (!roots)
        return false;
    n = 0;
    for (dop_matcher *m = g->matchers; m; m = m->next) {
        roots[n++] = &m->set;
        for (uint32_t d = 0; m->walks && d <= g->vocab->nodes[m->node].depth; d++)
            roots[n++] = &m->walk[d];
    }
    bool good = dop_sets_keep_only(&g->t, roots, n);
    free(roots);
    return good;
}

/* Frees the cached sets of all other grammars of the vocabulary that currently have no matcher. */
static void
trim_other_grammars(const dop_grammar *g)
{
    dop_pool *pool = g->vocab->pool;
    pthread_mutex_lock(&pool->lock);
    for (dop_grammar *other = pool->first; other; other = other->next) {
        if (other == g || pthread_mutex_trylock(&other->lock) != 0)
            continue;
        if (!other->matchers)
            (void)dop_sets_keep_only(&other->t, NULL, 0);
        pthread_mutex_unlock(&other->lock);
    }
    pthread_mutex_unlock(&pool->lock);
}

/* Handles a failure: frees memory so that the caller can retry (DOP_OK), or reports the error. again: the retry
 * failed, too. */
static dop_status
recover_set_memory(dop_grammar *g, bool again, dop_diag *diag)
{
    const bool too_many = g->too_many, failed = g->t.failed;
    const bool pool_full = g->t.full && g->t.bytes + (1u << 20) < g->t.most;
    g->too_many = g->t.failed = g->t.full = false;
    if (failed)
        return DOP_NO_MEMORY(diag);
    if (too_many)
        return DOP_FAIL(diag, DOP_E_LIMIT, "the grammar is too ambiguous: a text can be in more than %d places at once",
                        MOST_PLACES);
    if (again)
        return DOP_FAIL(diag, DOP_E_LIMIT, "the grammar takes too much memory");
    if (pool_full)
        trim_other_grammars(g);
    return drop_cached_sets(g) ? DOP_OK : DOP_NO_MEMORY(diag);
}

/* --- grammars ----------------------------------------------------------------------------------------------------------------- */

static void
add_to_pool(dop_grammar *g)
{
    dop_pool *pool = g->vocab->pool;
    pthread_mutex_lock(&pool->lock);
    g->next = pool->first;
    if (g->next)
        g->next->before = g;
    pool->first = g;
    pthread_mutex_unlock(&pool->lock);
}

static void
remove_from_pool(dop_grammar *g)
{
    dop_pool *pool = g->vocab->pool;
    pthread_mutex_lock(&pool->lock);
    if (g->next)
        g->next->before = g->before;
    if (g->before)
        g->before->next = g->next;
    else if (pool->first == g)
        pool->first = g->next;
    pthread_mutex_unlock(&pool->lock);
    dop_pool_give(pool, g->auto_bytes);
}

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
        return st != DOP_OK ? st : DOP_NO_MEMORY(diag);
    }
    dop_auto_shrink(automaton);
    g->vocab = vocab;
    g->automaton = *automaton;
    g->automaton.budget = NULL;
    memset(automaton, 0, sizeof *automaton);
    g->owners = 1;
    pthread_mutex_init(&g->lock, NULL);
    add_to_pool(g);
    size_t bytes = dop_auto_bytes_held(&g->automaton);
    if (!dop_pool_take(vocab->pool, bytes)) {
        trim_other_grammars(g);
        if (!dop_pool_take(vocab->pool, bytes)) {
            bytes = 0;
            st = DOP_FAIL(diag, DOP_E_LIMIT, "the grammar takes more memory than all those in use leave");
        }
    }
    g->auto_bytes = bytes;
    dop_sets_init(&g->t, vocab->pool, most_bytes);
    if (g->t.full) { /* retry: a new grammar needs so little memory that freeing caches suffices */
        g->t.full = false;
        trim_other_grammars(g);
        dop_sets_finish(&g->t);
        dop_sets_init(&g->t, vocab->pool, most_bytes);
    }
    if (st == DOP_OK && g->t.full)
        st = DOP_FAIL(diag, DOP_E_LIMIT, "the grammar takes more memory than all those in use leave");
    if (st == DOP_OK && (g->t.failed || !grow_scratch(g, FIRST_PLACES)))
        st = DOP_NO_MEMORY(diag);
    if (st == DOP_OK)
        *out_grammar = g;
    else
        dop_grammar_release(g);
    return st;
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
    remove_from_pool(g);
    dop_sets_finish(&g->t);
    dop_auto_finish(&g->automaton);
    free(g->work);
    free(g->found);
    free(g->seen);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

const char *
dop_grammar_unenforced(const dop_grammar *grammar)
{
    return grammar->automaton.unenforced.size ? grammar->automaton.unenforced.data : "";
}

dop_grammar_costs
dop_grammar_cost(dop_grammar *grammar)
{
    pthread_mutex_lock(&grammar->lock);
    dop_grammar_costs c = grammar->costs;
    c.bytes = grammar->t.bytes + grammar->auto_bytes;
    pthread_mutex_unlock(&grammar->lock);
    return c;
}

size_t
dop_vocab_held(const dop_vocab *vocab)
{
    return atomic_load(&vocab->pool->held);
}

/* --- matchers ----------------------------------------------------------------------------------------------------------------- */

dop_status
dop_matcher_create(dop_grammar *grammar, dop_diag *diag, dop_matcher **out_matcher)
{
    const dop_vocab *v = grammar->vocab;
    dop_matcher *m = calloc(1, sizeof *m);
    dop_status st = DOP_OK;
    *out_matcher = NULL;
    if (m) {
        m->mask = calloc((size_t)v->n_words + 1, sizeof *m->mask);
        m->walk = calloc((size_t)v->longest + 2, sizeof *m->walk);
    }
    if (!m || !m->mask || !m->walk) {
        if (m) {
            free(m->mask);
            free(m->walk);
        }
        free(m);
        return DOP_NO_MEMORY(diag);
    }
    m->grammar = dop_grammar_share(grammar);
    m->set = DEAD;
    pthread_mutex_lock(&grammar->lock);
    m->next = grammar->matchers;
    if (m->next)
        m->next->before = m;
    grammar->matchers = m;
    m->set = make_start_set(grammar);
    for (bool again = false; st == DOP_OK && has_set_failure(grammar); again = true)
        if ((st = recover_set_memory(grammar, again, diag)) == DOP_OK)
            m->set = make_start_set(grammar);
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
    free(m->walk);
    free(m);
}

/* Computes the mask of the matcher's set. Walks over the vocabulary's trie and allows the tokens whose bytes do not
 * lead to DEAD. Returns when the walk is complete or this slice's steps are used up. */
static dop_status
continue_mask_walk(dop_matcher *m, uint64_t slice, dop_diag *diag)
{
    dop_grammar *g = m->grammar;
    const dop_vocab *v = g->vocab;
    bool again = false;
    while (m->node < v->n_nodes && g->spent <= slice) {
        const dop_vocab_node *n = &v->nodes[m->node];
        uint32_t to = find_next_set(g, m->walk[n->depth], n->byte);
        g->spent++;
        if (has_set_failure(g)) {
            dop_status st = recover_set_memory(g, again, diag);
            if (st != DOP_OK)
                return st;
            again = true;
            continue;
        }
        again = false;
        if (to == DEAD) {
            m->node = n->end;
            continue;
        }
        m->walk[n->depth + 1] = to;
        /* If no token ends at a node, its `token` equals the next node's, and the loop does nothing. */
        for (uint32_t k = n->token; k < v->nodes[m->node + 1].token; k++)
            m->mask[v->tokens[k] / 32] |= 1u << (v->tokens[k] % 32);
        m->node++;
    }
    return DOP_OK;
}

static void
finish_mask_walk(dop_matcher *m)
{
    dop_grammar *g = m->grammar;
    const dop_vocab *v = g->vocab;
    const bool accepts = g->t.sets[m->set].accepts;
    for (size_t i = 0; i < v->n_end_ids && accepts; i++)
        if (v->end_ids[i] < v->n_vocab)
            m->mask[v->end_ids[i] / 32] |= 1u << (v->end_ids[i] % 32);
    m->walks = false;
    m->ready = true;
    g->costs.masks_made++;
    /* Caches the mask with its set. Without room, the next text that reaches this set computes it again. */
    uint32_t *kept = dop_sets_alloc(&g->t, ((size_t)v->n_words + 1) * sizeof *kept);
    g->t.failed = g->t.full = false;
    if (kept)
        memcpy(kept, m->mask, v->n_words * sizeof *kept);
    g->t.sets[m->set].mask = kept;
}

static dop_status
prepare_mask(dop_matcher *m, uint64_t slice, dop_diag *diag)
{
    dop_grammar *g = m->grammar;
    const dop_vocab *v = g->vocab;
    dop_status st = DOP_OK;
    const uint32_t *kept = g->t.sets[m->set].mask;
    if (m->ready)
        return DOP_OK;
    if (kept) {
        memcpy(m->mask, kept, v->n_words * sizeof *kept);
        g->costs.masks_found++;
        m->ready = true;
        m->walks = false;
        return DOP_OK;
    }
    if (!m->walks) {
        memset(m->mask, 0, v->n_words * sizeof *m->mask);
        m->walk[0] = m->set;
        m->node = 0;
        m->mask_steps = 0;
        m->walks = true;
    }
    const double begin = dop_now_ms();
    g->spent = 0;
    st = continue_mask_walk(m, slice, diag);
    m->mask_steps += g->spent;
    m->text_steps += g->spent;
    g->costs.steps += g->spent;
    g->costs.walk_ms += dop_now_ms() - begin;
    if (st == DOP_OK && (m->mask_steps > most_mask_steps || m->text_steps > most_text_steps))
        st = DOP_FAIL(diag, DOP_E_LIMIT, "the grammar takes too many steps");
    if (st == DOP_OK && m->node >= v->n_nodes)
        finish_mask_walk(m);
    if (st != DOP_OK)
        m->walks = false;
    return st;
}

dop_status
dop_matcher_prepare(dop_matcher *matcher, uint64_t steps, dop_diag *diag, bool *out_ready)
{
    pthread_mutex_lock(&matcher->grammar->lock);
    dop_status st = prepare_mask(matcher, steps, diag);
    *out_ready = matcher->ready;
    pthread_mutex_unlock(&matcher->grammar->lock);
    return st;
}

const uint32_t *
dop_matcher_mask(dop_matcher *matcher, dop_diag *diag)
{
    pthread_mutex_lock(&matcher->grammar->lock);
    dop_status st = prepare_mask(matcher, most_mask_steps, diag);
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

/* Returns the set reached from `set` by the bytes of a token. */
static uint32_t
follow_token_bytes(dop_grammar *g, uint32_t set, uint32_t id, const char *bytes, size_t n)
{
    if (dop_tokenizer_is_special(g->vocab->tok, id))
        set = find_next_set(g, set, (uint8_t)DOP_VOCAB_SPECIAL);
    for (size_t i = 0; i < n && set != DEAD; i++)
        set = find_next_set(g, set, (uint8_t)bytes[i]);
    return set;
}

dop_status
dop_matcher_accept(dop_matcher *matcher, uint32_t id, dop_diag *diag)
{
    dop_grammar *g = matcher->grammar;
    size_t n = 0;
    dop_status st = DOP_OK;
    const char *bytes = dop_tokenizer_piece(g->vocab->tok, id, &n);
    pthread_mutex_lock(&g->lock);
    bool good = !matcher->ended;
    if (dop_vocab_is_end(g->vocab, id)) {
        good &= g->t.sets[matcher->set].accepts;
        matcher->ended |= good;
    } else if (good && bytes && n > 0) {
        g->spent = 0;
        matcher->walks = false;
        uint32_t to = follow_token_bytes(g, matcher->set, id, bytes, n);
        for (bool again = false; st == DOP_OK && has_set_failure(g); again = true)
            if ((st = recover_set_memory(g, again, diag)) == DOP_OK)
                to = follow_token_bytes(g, matcher->set, id, bytes, n);
        matcher->text_steps += g->spent;
        good = to != DEAD;
        if (st == DOP_OK && good) {
            matcher->set = to;
            matcher->ready = false;
        }
    } else {
        good = false;
    }
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
    const dop_set *s = &matcher->grammar->t.sets[matcher->set];
    bool must = matcher->ended || (s->accepts && s->n == 0);
    pthread_mutex_unlock(&matcher->grammar->lock);
    return must;
}
