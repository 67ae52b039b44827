#include "text/grammar/sets.h"

#include <stdlib.h>
#include <string.h>

bool
dop_pool_take(dop_pool *pool, size_t bytes)
{
    if (atomic_fetch_add(&pool->held, bytes) + bytes <= pool->most)
        return true;
    atomic_fetch_sub(&pool->held, bytes);
    return false;
}

void
dop_pool_give(dop_pool *pool, size_t bytes)
{
    atomic_fetch_sub(&pool->held, bytes);
}

static bool
charge_set_bytes(dop_sets *t, size_t bytes)
{
    if (t->bytes + bytes > t->most || !dop_pool_take(t->pool, bytes)) {
        t->full = true;
        return false;
    }
    t->bytes += bytes;
    return true;
}

void *
dop_sets_alloc(dop_sets *t, size_t bytes)
{
    void *p = charge_set_bytes(t, bytes) ? calloc(1, bytes) : NULL;
    t->failed |= !p && !t->full;
    return p;
}

static void *
grow_sets_array(dop_sets *t, void *items, size_t n, size_t more, size_t *io_cap, size_t size)
{
    if (n + more <= *io_cap)
        return items;
    size_t cap = *io_cap ? *io_cap : 64;
    while (cap < n + more)
        cap += cap / 2;
    if (!charge_set_bytes(t, (cap - *io_cap) * size))
        return items;
    void *p = realloc(items, cap * size);
    if (!p) {
        t->failed = true;
        return items;
    }
    *io_cap = cap;
    return p;
}

void
dop_sets_init(dop_sets *t, dop_pool *pool, size_t most)
{
    memset(t, 0, sizeof *t);
    t->pool = pool;
    t->most = most;
    t->stack_heads = dop_sets_alloc(t, DOP_SETS_N_HEADS * sizeof *t->stack_heads);
    t->set_heads = dop_sets_alloc(t, DOP_SETS_N_HEADS * sizeof *t->set_heads);
    t->stacks = grow_sets_array(t, t->stacks, 0, 1, &t->cap_stacks, sizeof *t->stacks);
    t->sets = grow_sets_array(t, t->sets, 0, 2, &t->cap_sets, sizeof *t->sets);
    if (t->failed || t->full)
        return;
    t->stacks[0] = (dop_stack){0};
    t->sets[DOP_SET_UNKNOWN] = t->sets[DOP_SET_DEAD] = (dop_set){0};
    t->n_stacks = 1;
    t->n_sets = 2;
}

void
dop_sets_finish(dop_sets *t)
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
    if (t->pool)
        dop_pool_give(t->pool, t->bytes);
    memset(t, 0, sizeof *t);
}

uint32_t
dop_sets_mix(uint32_t h, uint32_t v)
{
    h = (h ^ v) * 0x9e3779b1u;
    return h ^ (h >> 15);
}

uint32_t
dop_sets_push(dop_sets *t, uint32_t below, uint32_t to)
{
    uint32_t *head = &t->stack_heads[dop_sets_mix(dop_sets_mix(1, below), to) % DOP_SETS_N_HEADS];
    for (uint32_t i = *head; i != DOP_STACK_NONE; i = t->stacks[i].chain)
        if (t->stacks[i].below == below && t->stacks[i].to == to)
            return i;
    t->stacks = grow_sets_array(t, t->stacks, t->n_stacks, 1, &t->cap_stacks, sizeof *t->stacks);
    if (t->failed || t->full)
        return DOP_STACK_NONE;
    t->stacks[t->n_stacks] = (dop_stack){below, to, *head};
    *head = (uint32_t)t->n_stacks;
    return (uint32_t)t->n_stacks++;
}

static int
compare_configurations(const void *x, const void *y)
{
    const dop_configuration *a = x, *b = y;
    if (a->state != b->state)
        return a->state < b->state ? -1 : 1;
    return a->stack < b->stack ? -1 : a->stack > b->stack;
}

uint32_t
dop_sets_intern(dop_sets *t, dop_configuration *places, uint32_t n, bool accepts)
{
    uint32_t h = accepts;
    if ((n == 0 && !accepts) || t->failed || t->full)
        return DOP_SET_DEAD;
    qsort(places, n, sizeof *places, compare_configurations);
    for (uint32_t i = 0; i < n; i++)
        h = dop_sets_mix(dop_sets_mix(h, places[i].state), places[i].stack);
    uint32_t *head = &t->set_heads[h % DOP_SETS_N_HEADS];
    for (uint32_t i = *head; i != 0; i = t->sets[i].chain) {
        const dop_set *s = &t->sets[i];
        if (s->n == n && s->accepts == accepts &&
            (n == 0 || memcmp(t->places + s->first, places, n * sizeof *places) == 0))
            return i;
    }
    t->sets = grow_sets_array(t, t->sets, t->n_sets, 1, &t->cap_sets, sizeof *t->sets);
    t->places = grow_sets_array(t, t->places, t->n_places, n, &t->cap_places, sizeof *t->places);
    if (t->failed || t->full)
        return DOP_SET_DEAD;
    if (n)
        memcpy(t->places + t->n_places, places, n * sizeof *places);
    t->sets[t->n_sets] = (dop_set){.first = t->n_places, .n = n, .chain = *head, .accepts = accepts};
    t->n_places += n;
    *head = (uint32_t)t->n_sets;
    return (uint32_t)t->n_sets++;
}

/* --- garbage collection --------------------------------------------------------------------------------------------------------- */

/* Copies the stacks used by some sets to new tables. moved: [n_stacks], zeroed by the caller, receives the new index
 * of each. One pass suffices, because a stack has a larger index than the stacks below it. */
static void
copy_used_stacks(const dop_sets *from, dop_sets *to, uint32_t *const *sets, size_t n, uint32_t *moved)
{
    for (size_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < from->sets[*sets[k]].n; i++) {
            uint32_t s = from->places[from->sets[*sets[k]].first + i].stack;
            for (; s != DOP_STACK_NONE && !moved[s]; s = from->stacks[s].below)
                moved[s] = 1;
        }
    for (size_t s = 1; s < from->n_stacks; s++)
        if (moved[s])
            moved[s] = dop_sets_push(to, moved[from->stacks[s].below], from->stacks[s].to);
}

bool
dop_sets_keep_only(dop_sets *t, uint32_t *const *io_sets, size_t n)
{
    dop_sets to;
    uint32_t *moved = calloc(t->n_stacks + 1, sizeof *moved), *numbers = calloc(n + 1, sizeof *numbers);
    dop_configuration *places = NULL;
    size_t most = 0;
    /* The new tables are not charged while both exist, because their contents are part of the old ones. */
    dop_pool unlimited = {.most = SIZE_MAX};
    dop_sets_init(&to, &unlimited, SIZE_MAX);
    for (size_t k = 0; k < n; k++)
        most = t->sets[*io_sets[k]].n > most ? t->sets[*io_sets[k]].n : most;
    places = malloc((most + 1) * sizeof *places);
    bool good = moved && numbers && places && !to.failed;
    if (good)
        copy_used_stacks(t, &to, io_sets, n, moved);
    for (size_t k = 0; k < n && good; k++) {
        const dop_set *s = &t->sets[*io_sets[k]];
        for (uint32_t i = 0; i < s->n; i++) {
            const dop_configuration p = t->places[s->first + i];
            places[i] = (dop_configuration){p.state, moved[p.stack]};
        }
        numbers[k] = dop_sets_intern(&to, places, s->n, s->accepts);
        good = !to.failed;
    }
    if (good) {
        for (size_t k = 0; k < n; k++)
            *io_sets[k] = numbers[k];
        dop_pool *pool = t->pool;
        const size_t bound = t->most;
        dop_sets_finish(t);
        atomic_fetch_add(&pool->held, to.bytes);
        to.pool = pool;
        to.most = bound;
        *t = to;
    } else {
        dop_sets_finish(&to);
    }
    free(moved);
    free(numbers);
    free(places);
    return good;
}
