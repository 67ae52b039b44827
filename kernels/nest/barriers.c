/* Inserts barriers where shared memory accesses of statements require them: between writes of some invocations and reads of
 * others (RAW and WAR). Each element is written by only one invocation, so two writes need no barrier between them. */
#include "kernels/nest/barriers.h"
#include "kernels/nest/nest.h"

/* Shared memory read and written since the last barrier, as bits from dop_nest_memory(). */
typedef struct traffic {
    uint32_t read, written;
} traffic;

static traffic
unite_traffic(traffic a, traffic b)
{
    return (traffic){a.read | b.read, a.written | b.written};
}

static bool
collide(traffic before, traffic after)
{
    return (before.written & after.read) != 0 || (before.read & after.written) != 0;
}

/* Returns what a statement reads and writes, including nested statements and called functions. */
static traffic
find_effects(const dop_nest *n, const dop_stmt *s)
{
    traffic t = {s->reads, s->writes};
    const dop_stmt *f = s->kind == DOP_STMT_call ? dop_nest_find(n, s->name) : NULL;
    const dop_stmt *lists[] = {s->body, s->other, f ? f->body : NULL};
    for (int i = 0; i < 3; i++)
        for (const dop_stmt *c = lists[i]; c; c = c->next)
            t = unite_traffic(t, find_effects(n, c));
    return t;
}

/* Walks over a block after the accesses `t`. Counts the barriers that it needs, and inserts them if `put` is set. */
static traffic walk_barriers(dop_nest *n, dop_stmt **at, traffic t, bool put, uint32_t *count);

static void
meet_before(dop_nest *n, dop_stmt ***at, traffic *t, bool put, uint32_t *count)
{
    *t = (traffic){0};
    (*count)++;
    if (!put)
        return;
    dop_stmt *b = dop_nest_new(n, DOP_STMT_barrier);
    b->value = n->placement.step ? n->placement.step : "";
    b->together = true;
    b->next = **at;
    **at = b;
    *at = &b->next;
}

/* Returns the accesses that may precede an iteration of the loop, as a fixed point starting from `t`. Also counts the
 * barriers per iteration. */
static traffic
at_turn(dop_nest *n, dop_stmt *loop, traffic t, uint32_t *out_count)
{
    for (;;) {
        *out_count = 0;
        const traffic out = unite_traffic(t, walk_barriers(n, &loop->body, t, false, out_count));
        if (out.read == t.read && out.written == t.written)
            return t;
        t = out;
    }
}

/* Processes a loop. If accesses before the loop would force extra barriers into every iteration, inserts one barrier before
 * the loop instead. */
static traffic
walk_loop(dop_nest *n, dop_stmt ***at, traffic t, bool put, uint32_t *count)
{
    dop_stmt *loop = **at;
    uint32_t alone, after, unused = 0;
    at_turn(n, loop, (traffic){0}, &alone);
    at_turn(n, loop, t, &after);
    if (after > alone)
        meet_before(n, at, &t, put, count);
    t = at_turn(n, loop, t, &after);
    walk_barriers(n, &loop->body, t, put, put ? count : &unused);
    *count += put ? 0 : after;
    return t;
}

/* Processes a loop that subgroups execute independently: barriers inside of it become the call that it names (in_step). */
static traffic
walk_subgroup_loop(dop_nest *n, dop_stmt ***at, traffic t, traffic all, bool put, uint32_t *count)
{
    dop_stmt *loop = **at;
    if (collide(t, all))
        meet_before(n, at, &t, put, count);
    const char *outside = n->placement.step;
    uint32_t unused = 0;
    n->placement.step = loop->in_step;
    const traffic turn = at_turn(n, loop, (traffic){0}, &unused);
    walk_barriers(n, &loop->body, turn, put, &unused);
    n->placement.step = outside;
    return unite_traffic(t, all);
}

/* Returns the accesses of a statement since its last barrier, if it calls a function that contains one. */
static traffic
left_by(dop_nest *n, const dop_stmt *s, traffic all)
{
    const dop_stmt *f = s->kind == DOP_STMT_call ? dop_nest_find(n, s->name) : NULL;
    dop_stmt *body = f ? f->body : NULL;
    uint32_t unused = 0;
    return f ? unite_traffic((traffic){s->reads, s->writes}, walk_barriers(n, &body, (traffic){0}, false, &unused))
             : all;
}

static traffic
walk_barriers(dop_nest *n, dop_stmt **at, traffic t, bool put, uint32_t *count)
{
    for (; *at; at = &(*at)->next) {
        const traffic all = find_effects(n, *at);
        dop_stmt *s = *at;
        const bool loop = s->kind == DOP_STMT_for && !s->apart;
        const bool choice = s->kind == DOP_STMT_if && !s->apart;
        if (s->kind == DOP_STMT_barrier || s->shows)
            t = (traffic){0};
        if (all.read == 0 && all.written == 0)
            continue;
        if (loop && s->in_step) {
            t = walk_subgroup_loop(n, &at, t, all, put, count);
        } else if (loop) {
            t = walk_loop(n, &at, t, put, count);
        } else if (choice) {
            const traffic yes = walk_barriers(n, &s->body, t, put, count),
                          no = walk_barriers(n, &s->other, t, put, count);
            t = unite_traffic(yes, no);
        } else {
            if (collide(t, all))
                meet_before(n, &at, &t, put, count);
            if (collide(all, all) && (s->body || s->kind == DOP_STMT_code) && !s->disjoint)
                dop_nest_fail(n, "memory changes hands where invocations part:", s->name ? s->name : s->value);
            t = unite_traffic(t, left_by(n, s, all));
        }
    }
    return t;
}

void
dop_nest_meet(dop_nest *n)
{
    uint32_t count = 0;
    for (dop_stmt *s = n->first; s; s = s->next)
        if (s->kind == DOP_STMT_function)
            walk_barriers(n, &s->body, (traffic){0}, true, &count);
}
