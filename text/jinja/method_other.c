/* Methods of values other than strings. */
#include <math.h>
#include <string.h>

#include "text/jinja/arena.h"
#include "text/jinja/args.h"
#include "text/jinja/jinja.h"
#include "text/jinja/method_other.h"
#include "text/jinja/value.h"

/* ---- dictionaries ---- */

static dop_j_val
m_get(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)how;
    if (a->n < 1)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "get needs a key");
    const dop_j_val *v = dop_j_get(cx, self.u.dict, a->pos[0]), *other = dop_j_arg(a, 1, NULL);
    return v ? *v : other ? *other : dop_j_none();
}

static dop_j_val
m_view(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)a;
    const dop_j_val r = dop_j_new_list(cx, J_VIEW);
    if (cx->status != DOP_OK)
        return r;
    r.u.list->name = how == 'i' ? "dict_items" : how == 'k' ? "dict_keys" : "dict_values";
    for (size_t i = 0; i < self.u.dict->n && cx->status == DOP_OK; i++) {
        const dop_j_entry *e = &self.u.dict->entries[i];
        dop_j_push(cx, r, how == 'i' ? dop_j_pair(cx, e->key, e->val) : how == 'k' ? e->key : e->val);
    }
    return r;
}

static dop_j_val
m_copy(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)a;
    const dop_j_val r = how == 'd' ? dop_j_new_dict(cx, J_DICT) : dop_j_new_list(cx, J_LIST);
    if (how == 'd')
        for (size_t i = 0; i < self.u.dict->n && cx->status == DOP_OK; i++)
            dop_j_set(cx, r.u.dict, self.u.dict->entries[i].key, self.u.dict->entries[i].val);
    else
        for (size_t i = 0; i < self.u.list->n && cx->status == DOP_OK; i++)
            dop_j_push(cx, r, self.u.list->items[i]);
    return r;
}

static const dop_j_method_row dict_methods[] = {
    {"get", m_get, 0},       {"items", m_view, 'i'}, {"keys", m_view, 'k'}, {"values", m_view, 'v'},
    {"copy", m_copy, 'd'},   {"clear", NULL, 0},     {"pop", NULL, 0},      {"popitem", NULL, 0},
    {"setdefault", NULL, 0}, {"update", NULL, 0},    {NULL, NULL, 0},
};

/* ---- lists ---- */

static dop_j_val
m_index(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    const dop_j_list *l = self.u.list;
    int64_t n = 0;
    if (a->n < 1)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "index and count need an argument");
    int64_t from = dop_j_int_arg(cx, a, 1, NULL, 0), to = dop_j_int_arg(cx, a, 2, NULL, (int64_t)l->n);
    from = from < 0 ? (from < -(int64_t)l->n ? 0 : from + (int64_t)l->n) : from;
    to = to < 0 ? to + (int64_t)l->n : to > (int64_t)l->n ? (int64_t)l->n : to;
    for (int64_t i = from; i < to && cx->status == DOP_OK; i++) {
        const bool same = dop_j_equal(cx, l->items[i], a->pos[0]);
        if (same && how == 'i')
            return dop_j_int(i);
        n += same;
    }
    return how == 'c' ? dop_j_int(n) : dop_j_fail(cx, a->line, DOP_E_INPUT, "index: the item is not in the list");
}

/* list.pop(), which modifies the list. Jinja's sandbox forbids it since 3.1.5 and allowed it before. */
static dop_j_val
m_pop(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)how;
    dop_j_list *l = self.u.list;
    const int64_t at = dop_j_int_arg(cx, a, 0, NULL, -1), i = at < 0 ? at + (int64_t)l->n : at;
    if (i < 0 || i >= (int64_t)l->n || !dop_j_step(cx, l->n / 8))
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "pop: the list has %zu items", l->n);
    const dop_j_val popped = l->items[i];
    memmove(l->items + i, l->items + i + 1, (--l->n - (size_t)i) * sizeof *l->items);
    return popped;
}

static const dop_j_method_row list_methods[] = {
    {"index", m_index, 'i'}, {"count", m_index, 'c'}, {"copy", m_copy, 'l'}, {"pop", m_pop, 0},
    {"append", NULL, 0},     {"clear", NULL, 0},      {"extend", NULL, 0},   {"insert", NULL, 0},
    {"remove", NULL, 0},     {"reverse", NULL, 0},    {"sort", NULL, 0},     {NULL, NULL, 0},
};
static const dop_j_method_row tuple_methods[] = {{"index", m_index, 'i'}, {"count", m_index, 'c'}, {NULL, NULL, 0}};

/* ---- loops, cyclers, joiners, numbers ---- */

static dop_j_val
m_cycle(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)how;
    return a->n ? a->pos[self.u.loop->at % a->n] : dop_j_fail(cx, a->line, DOP_E_INPUT, "cycle needs arguments");
}

static dop_j_val
m_changed(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)how;
    dop_j_loop *loop = self.u.loop;
    const dop_j_val now = dop_j_new_list(cx, J_TUPLE);
    for (size_t i = 0; i < a->n && cx->status == DOP_OK; i++)
        dop_j_push(cx, now, a->pos[i]);
    const bool same = cx->status == DOP_OK && loop->has_changed && dop_j_equal(cx, loop->changed, now);
    loop->changed = now;
    loop->has_changed = true;
    return dop_j_bool(!same);
}

static dop_j_val
m_next(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)cx;
    (void)a;
    dop_j_list *l = self.u.list;
    const size_t at = l->at % l->n;
    l->at = how == 'n' ? l->at + 1 : 0;
    return how == 'n' ? l->items[at] : dop_j_none();
}

static dop_j_val
m_is_integer(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)cx;
    (void)a;
    (void)how;
    return dop_j_bool(isfinite(self.u.f) && floor(self.u.f) == self.u.f);
}

static const dop_j_method_row loop_methods[] = {{"cycle", m_cycle, 0}, {"changed", m_changed, 0}, {NULL, NULL, 0}};
static const dop_j_method_row cycler_methods[] = {{"next", m_next, 'n'}, {"reset", m_next, 'r'}, {NULL, NULL, 0}};
static const dop_j_method_row float_methods[] = {{"is_integer", m_is_integer, 0}, {NULL, NULL, 0}};

const dop_j_method_row *
dop_j_other_methods(dop_j_kind kind)
{
    switch (kind) {
    case J_DICT:
        return dict_methods;
    case J_LIST:
        return list_methods;
    case J_TUPLE:
    case J_RANGE:
        return tuple_methods;
    case J_LOOP:
        return loop_methods;
    case J_CYCLER:
        return cycler_methods;
    case J_FLOAT:
        return float_methods;
    default:
        return NULL;
    }
}
