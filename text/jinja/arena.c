/* Errors, limits and memory of the Jinja interpreter, and text builders. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/arena.h"
#include "text/jinja/jinja.h"

/* Arena block. Small allocations share blocks; each large one has its own block, so that realloc() can grow it. */
typedef struct block {
    struct block *prev, *next;
    size_t used, cap;
} block;

enum { block_size = 64 * 1024, own_block = 16 * 1024, block_head = (sizeof(block) + 15) & ~15u };

void
dop_j_init(dop_j_ctx *cx, const char *name, dop_budget *budget, dop_diag *diag)
{
    *cx = (dop_j_ctx){.name = name, .budget = budget, .diag = diag};
    cx->own = (dop_budget){.steps = J_MAX_STEPS, .bytes = J_MAX_ARENA};
}

dop_j_val
dop_j_fail(dop_j_ctx *cx, long line, dop_status code, const char *fmt, ...)
{
    char text[700];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (cx->status == DOP_OK) {
        cx->status = code;
        if (line > 0)
            DOP_FAIL(cx->diag, code, "%s, line %ld: %s", cx->name, line, text);
        else
            DOP_FAIL(cx->diag, code, "%s: %s", cx->name, text);
    }
    return (dop_j_val){.kind = J_UNDEF};
}

/* Returns true if work may continue. own, outer: the charges to the interpreter's and the caller's budget succeeded.
 * Records an error if either did not. */
static bool
check_budgets(dop_j_ctx *cx, bool own, bool outer)
{
    if (own && outer)
        return cx->status == DOP_OK;
    if (cx->status == DOP_OK)
        cx->status = dop_budget_fail(own ? cx->budget : &cx->own, cx->diag, cx->name);
    return false;
}

bool
dop_j_charge(dop_j_ctx *cx)
{
    const uint64_t owed = cx->owed;
    cx->owed = 0;
    return check_budgets(cx, dop_budget_step(&cx->own, owed), dop_budget_step(cx->budget, owed));
}

static bool
take_arena_bytes(dop_j_ctx *cx, size_t n)
{
    return check_budgets(cx, dop_budget_take(&cx->own, n), dop_budget_take(cx->budget, n));
}

static void *
add_arena_block(dop_j_ctx *cx, size_t cap, size_t used)
{
    if (!take_arena_bytes(cx, cap))
        return NULL;
    block *b = calloc(1, block_head + cap), *head = cx->blocks;
    if (!b) {
        dop_budget_give(cx->budget, cap);
        dop_j_fail(cx, 0, DOP_E_NOMEM, "out of memory");
        return NULL;
    }
    *b = (block){.cap = cap, .used = used};
    /* A large block is inserted second, because small allocations come from the first block. */
    if (head && used == cap) {
        b->prev = head;
        b->next = head->next;
        head->next = b;
    } else {
        b->next = head;
        cx->blocks = b;
    }
    if (b->next)
        b->next->prev = b;
    return (char *)b + block_head;
}

void *
dop_j_alloc(dop_j_ctx *cx, size_t n)
{
    block *b = cx->blocks;
    if (cx->status != DOP_OK)
        return NULL;
    if (n > J_MAX_ARENA) {
        take_arena_bytes(cx, n);
        return NULL;
    }
    n = (n + 15) & ~(size_t)15;
    if (n >= own_block)
        return add_arena_block(cx, n, n);
    if (!b || b->cap - b->used < n) {
        if (!add_arena_block(cx, block_size, 0))
            return NULL;
        b = cx->blocks;
    }
    void *p = (char *)b + block_head + b->used;
    b->used += n;
    return p;
}

/* Grows the block of a large array; the added bytes are not zeroed. */
static void *
enlarge_arena_block(dop_j_ctx *cx, void *p, size_t n)
{
    block *b = (block *)(void *)((char *)p - block_head);
    const size_t more = n - b->cap;
    if (!take_arena_bytes(cx, more))
        return NULL;
    block *q = realloc(b, block_head + n);
    if (!q) {
        dop_budget_give(cx->budget, more);
        dop_j_fail(cx, 0, DOP_E_NOMEM, "out of memory");
        return NULL;
    }
    q->used = q->cap = n;
    if (q->prev)
        q->prev->next = q;
    else
        cx->blocks = q;
    if (q->next)
        q->next->prev = q;
    return (char *)q + block_head;
}

bool
dop_j_grow(dop_j_ctx *cx, void **p, size_t *cap, size_t need, size_t elem)
{
    if (need <= *cap)
        return cx->status == DOP_OK;
    size_t c = *cap ? *cap * 2 : elem == 1 ? 64 : 4;
    while (c < need)
        c *= 2;
    if (cx->status != DOP_OK)
        return false;
    if (c > J_MAX_ARENA / elem)
        /* Exceeds the budget in order to record the error. */
        return take_arena_bytes(cx, J_MAX_ARENA) && take_arena_bytes(cx, J_MAX_ARENA);
    const size_t old = *cap * elem, rounded = (c * elem + 15) & ~(size_t)15;
    void *q = old >= own_block ? enlarge_arena_block(cx, *p, rounded) : dop_j_alloc(cx, rounded);
    if (!q)
        return false;
    if (old > 0 && old < own_block)
        memcpy(q, *p, old);
    *p = q;
    *cap = c;
    return true;
}

void
dop_j_free_all(dop_j_ctx *cx)
{
    for (block *b = cx->blocks, *next; b; b = next) {
        next = b->next;
        dop_budget_give(cx->budget, b->cap);
        free(b);
    }
    cx->blocks = NULL;
}

void
dop_j_put(dop_j_ctx *cx, dop_j_out *o, const char *s, size_t n)
{
    void *p = o->s;
    if (n > J_MAX_ARENA) {
        take_arena_bytes(cx, n);
        return;
    }
    if (!dop_j_step(cx, n / 32 + 1) || !dop_j_grow(cx, &p, &o->cap, o->n + n + 1, 1))
        return;
    o->s = p;
    if (n)
        memcpy(o->s + o->n, s, n);
    o->n += n;
    o->s[o->n] = 0;
}

void
dop_j_puts(dop_j_ctx *cx, dop_j_out *o, const char *s)
{
    dop_j_put(cx, o, s, strlen(s));
}

void
dop_j_fill(dop_j_ctx *cx, dop_j_out *o, dop_j_str s, uint64_t times)
{
    void *p = o->s;
    if (s.n == 0 || times == 0)
        return;
    if (times > J_MAX_ARENA / s.n) {
        take_arena_bytes(cx, J_MAX_ARENA + (size_t)1);
        return;
    }
    if (!dop_j_step(cx, times * s.n / 16 + 1) || !dop_j_grow(cx, &p, &o->cap, o->n + s.n * (size_t)times + 1, 1))
        return;
    o->s = p;
    for (uint64_t i = 0; i < times; i++, o->n += s.n)
        memcpy(o->s + o->n, s.s, s.n);
    o->s[o->n] = 0;
}

dop_j_val
dop_j_take(const dop_j_out *o)
{
    return dop_j_text(o->s ? o->s : "", o->n);
}
