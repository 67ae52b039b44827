/* Methods and functions that chat templates use. */
#include <string.h>

#include "runtime/jinja/jinja.h"

/* ---- methods ---- */

static bool
has_affix(dop_j_val v, dop_j_str s, bool front)
{
    if (v.kind == J_LIST) { /* a tuple of alternatives */
        for (size_t i = 0; i < v.u.list->n; i++)
            if (v.u.list->items[i].kind == J_STR && has_affix(v.u.list->items[i], s, front))
                return true;
        return false;
    }
    dop_j_str p = v.u.str;
    return v.kind == J_STR && p.n <= s.n && (p.n == 0 || memcmp(front ? s.s : s.s + s.n - p.n, p.s, p.n) == 0);
}

static dop_j_val
str_method(dop_j_ctx *cx, dop_j_str s, dop_j_str name, const dop_j_args *a, bool *known)
{
    const dop_j_val *x = dop_j_arg(a, 0, NULL);
    const dop_j_str *chars = x && x->kind == J_STR ? &x->u.str : NULL;
    bool strips = dop_j_eq_lit(name, "strip"), l = dop_j_eq_lit(name, "lstrip"), r = dop_j_eq_lit(name, "rstrip");
    *known = true;
    if (strips || l || r) {
        s = dop_j_strip(s, chars, strips || l, strips || r);
        return dop_j_text(s.s, s.n);
    }
    if ((dop_j_eq_lit(name, "startswith") || dop_j_eq_lit(name, "endswith")) && x)
        return dop_j_bool(has_affix(*x, s, dop_j_eq_lit(name, "startswith")));
    if (dop_j_eq_lit(name, "split"))
        return dop_j_split(cx, s, chars, dop_j_int_arg(a, 1, "maxsplit", -1));
    if (dop_j_eq_lit(name, "splitlines"))
        return dop_j_split(cx, s, &(dop_j_str){"\n", 1}, -1);
    if ((dop_j_eq_lit(name, "replace") && a->n >= 2) || dop_j_eq_lit(name, "upper") || dop_j_eq_lit(name, "lower") ||
        dop_j_eq_lit(name, "title") || dop_j_eq_lit(name, "capitalize"))
        return dop_j_filter(cx, name, dop_j_text(s.s, s.n), a);
    if (dop_j_eq_lit(name, "join") && x) {
        const dop_j_list *items = dop_j_items(cx, *x);
        return items ? dop_j_join(cx, items, s) : dop_j_wrong(cx, a, "join", *x);
    }
    if ((dop_j_eq_lit(name, "find") || dop_j_eq_lit(name, "count") || dop_j_eq_lit(name, "index")) && chars &&
        chars->n) {
        int64_t found = 0;
        const char *p = s.s, *end = s.s + s.n, *first = NULL;
        while (p < end && (p = memmem(p, (size_t)(end - p), chars->s, chars->n)) != NULL) {
            first = first ? first : p;
            found++;
            p += chars->n;
        }
        if (dop_j_eq_lit(name, "count"))
            return dop_j_int(found);
        return dop_j_int(first ? (int64_t)dop_j_chars((dop_j_str){s.s, (size_t)(first - s.s)}) : -1);
    }
    *known = false;
    return (dop_j_val){.kind = J_UNDEF};
}

static dop_j_val
dict_method(dop_j_ctx *cx, dop_j_val self, dop_j_str name, const dop_j_args *a, bool *known)
{
    const dop_j_val *x = dop_j_arg(a, 0, "key"), *y = dop_j_arg(a, 1, "default");
    *known = true;
    if (dop_j_eq_lit(name, "items"))
        return dop_j_filter(cx, name, (dop_j_val){.kind = J_DICT, .u.dict = self.u.dict}, a);
    if (dop_j_eq_lit(name, "keys") || dop_j_eq_lit(name, "values")) {
        dop_j_val r = dop_j_new_list(cx);
        for (size_t i = 0; i < self.u.dict->n && cx->status == DOP_OK; i++)
            dop_j_push(cx, r.u.list,
                       name.s[0] == 'v' ? self.u.dict->vals[i]
                                        : dop_j_text(self.u.dict->keys[i].s, self.u.dict->keys[i].n));
        return r;
    }
    if (dop_j_eq_lit(name, "get") && x) {
        const dop_j_val *v = x->kind == J_STR ? dop_j_get(self.u.dict, x->u.str) : NULL;
        return v ? *v : y ? *y : (dop_j_val){.kind = J_NONE};
    }
    if (dop_j_eq_lit(name, "update") && x && x->kind == J_DICT) {
        for (size_t i = 0; i < x->u.dict->n; i++)
            dop_j_set(cx, self.u.dict, x->u.dict->keys[i], x->u.dict->vals[i]);
        return (dop_j_val){.kind = J_NONE};
    }
    *known = false;
    return (dop_j_val){.kind = J_UNDEF};
}

static dop_j_val
list_method(dop_j_ctx *cx, dop_j_val self, dop_j_str name, const dop_j_args *a, bool *known)
{
    const dop_j_val *x = dop_j_arg(a, 0, NULL);
    *known = true;
    if (dop_j_eq_lit(name, "append") && x) {
        dop_j_push(cx, self.u.list, *x);
        return (dop_j_val){.kind = J_NONE};
    }
    if (dop_j_eq_lit(name, "extend") && x && x->kind == J_LIST) {
        for (size_t i = 0, n = x->u.list->n; i < n && cx->status == DOP_OK; i++)
            dop_j_push(cx, self.u.list, x->u.list->items[i]);
        return (dop_j_val){.kind = J_NONE};
    }
    if (dop_j_eq_lit(name, "pop") && !x && self.u.list->n)
        return self.u.list->items[--self.u.list->n];
    if (dop_j_eq_lit(name, "index") && x) {
        for (size_t i = 0; i < self.u.list->n; i++)
            if (dop_j_equal(self.u.list->items[i], *x, 0))
                return dop_j_int((int64_t)i);
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "index: the item is not in the list");
    }
    *known = false;
    return (dop_j_val){.kind = J_UNDEF};
}

dop_j_val
dop_j_method(dop_j_ctx *cx, dop_j_val self, dop_j_str name, const dop_j_args *a, bool *known)
{
    *known = false;
    switch (self.kind) {
    case J_STR:
        return str_method(cx, self.u.str, name, a, known);
    case J_DICT:
    case J_NAMESPACE:
        return dict_method(cx, self, name, a, known);
    case J_LIST:
        return list_method(cx, self, name, a, known);
    case J_LOOP:
        if (dop_j_eq_lit(name, "cycle") && a->n) {
            *known = true;
            return a->pos[self.u.loop->at % a->n];
        }
        return (dop_j_val){.kind = J_UNDEF};
    default:
        return (dop_j_val){.kind = J_UNDEF};
    }
}

/* ---- functions ---- */

static dop_j_val
make_range(dop_j_ctx *cx, const dop_j_args *a)
{
    int64_t from = a->n > 1 ? dop_j_int_arg(a, 0, NULL, 0) : 0, to = dop_j_int_arg(a, a->n > 1 ? 1 : 0, NULL, 0);
    int64_t step = dop_j_int_arg(a, 2, NULL, 1), limit = 1 << 20;
    dop_j_val r = dop_j_new_list(cx);
    if (a->n < 1 || step == 0 || from > limit || from < -limit || to > limit || to < -limit || step > limit ||
        step < -limit)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "range: arguments out of range");
    for (int64_t i = from; cx->status == DOP_OK && (step > 0 ? i < to : i > to); i += step)
        dop_j_push(cx, r.u.list, dop_j_int(i));
    return r;
}

static dop_j_val
make_dict(dop_j_ctx *cx, const dop_j_args *a, dop_j_kind kind)
{
    dop_j_val r = dop_j_new_dict(cx, kind);
    if (cx->status != DOP_OK)
        return r;
    if (a->n && a->pos[0].kind == J_DICT)
        for (size_t i = 0; i < a->pos[0].u.dict->n; i++)
            dop_j_set(cx, r.u.dict, a->pos[0].u.dict->keys[i], a->pos[0].u.dict->vals[i]);
    for (size_t i = 0; i < a->named_n; i++)
        dop_j_set(cx, r.u.dict, a->names[i], a->named[i]);
    return r;
}

static dop_j_val
strftime_now(dop_j_ctx *cx, const dop_j_args *a)
{
    char format[128], text[256];
    dop_j_str f = dop_j_str_arg(cx, a, 0, NULL, "");
    if (f.n + 1 > sizeof format)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "strftime_now: the format is too long");
    memcpy(format, f.s, f.n);
    format[f.n] = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = f.n ? strftime(text, sizeof text, format, &cx->now) : 0;
#pragma GCC diagnostic pop
    dop_j_out o = {0};
    dop_j_put(cx, &o, text, n);
    return dop_j_take(&o);
}

dop_j_val
dop_j_function(dop_j_ctx *cx, dop_j_str name, const dop_j_args *a, bool *known)
{
    *known = true;
    if (dop_j_eq_lit(name, "raise_exception")) {
        dop_j_str s = dop_j_str_arg(cx, a, 0, NULL, "");
        return dop_j_fail(cx, 0, DOP_E_INPUT, "the chat template refuses this conversation: %.*s",
                          s.n > 400 ? 400 : (int)s.n, s.s);
    }
    if (dop_j_eq_lit(name, "range"))
        return make_range(cx, a);
    if (dop_j_eq_lit(name, "namespace"))
        return make_dict(cx, a, J_NAMESPACE);
    if (dop_j_eq_lit(name, "dict"))
        return make_dict(cx, a, J_DICT);
    if (dop_j_eq_lit(name, "strftime_now"))
        return strftime_now(cx, a);
    *known = false;
    return (dop_j_val){.kind = J_UNDEF};
}
