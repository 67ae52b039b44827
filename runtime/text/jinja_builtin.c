/* Tests, methods and functions that chat templates use. */
#include <string.h>

#include "runtime/text/jinja_internal.h"

/* ---- tests ---- */

/* Tests of the value alone: a set of kinds, or a comparison with one argument. */
static const struct {
    const char *name;
    unsigned kinds; /* bit per j_kind */
} kind_tests[] = {
    {"undefined", 1u << J_UNDEF},
    {"none", 1u << J_NONE},
    {"string", 1u << J_STR},
    {"mapping", 1u << J_DICT | 1u << J_NAMESPACE},
    {"iterable", 1u << J_STR | 1u << J_LIST | 1u << J_DICT | 1u << J_UNDEF},
    {"sequence", 1u << J_STR | 1u << J_LIST | 1u << J_DICT | 1u << J_UNDEF},
    {"number", 1u << J_INT | 1u << J_FLOAT | 1u << J_BOOL},
    {"integer", 1u << J_INT},
    {"float", 1u << J_FLOAT},
    {"boolean", 1u << J_BOOL},
    {"callable", 1u << J_MACRO},
};

static const struct {
    const char *name;
    const char *op; /* of '=', '!', '<', 'l' (<=), '>', 'g' (>=) */
} order_tests[] = {
    {"equalto", "="},  {"eq", "="}, {"==", "="}, {"sameas", "="},      {"ne", "!"}, {"lt", "<"},
    {"lessthan", "<"}, {"le", "l"}, {"gt", ">"}, {"greaterthan", ">"}, {"ge", "g"},
};

static bool
order_test(j_ctx *cx, char op, j_val v, const j_args *a)
{
    bool ok;
    if (a->n < 1) {
        j_fail(cx, a->line, DOP_E_INPUT, "a test needs an argument");
        return false;
    }
    if (op == '=' || op == '!')
        return j_equal(v, a->pos[0], 0) == (op == '=');
    int c = j_order(v, a->pos[0], &ok);
    if (!ok)
        j_wrong(cx, a, "a comparison", v);
    return op == '<' ? c < 0 : op == 'l' ? c <= 0 : op == '>' ? c > 0 : c >= 0;
}

bool
j_test(j_ctx *cx, j_str name, j_val v, const j_args *a)
{
    if (j_eq_lit(name, "defined"))
        return v.kind != J_UNDEF;
    for (size_t i = 0; i < sizeof kind_tests / sizeof *kind_tests; i++)
        if (j_eq_lit(name, kind_tests[i].name))
            return (kind_tests[i].kinds >> v.kind) & 1u;
    for (size_t i = 0; i < sizeof order_tests / sizeof *order_tests; i++)
        if (j_eq_lit(name, order_tests[i].name))
            return order_test(cx, order_tests[i].op[0], v, a);
    if (j_eq_lit(name, "true") || j_eq_lit(name, "false"))
        return v.kind == J_BOOL && v.u.b == j_eq_lit(name, "true");
    if (v.kind == J_BOOL && (j_eq_lit(name, "odd") || j_eq_lit(name, "even")))
        return v.u.b == j_eq_lit(name, "odd");
    if (j_eq_lit(name, "odd") || j_eq_lit(name, "even"))
        return v.kind == J_INT && (v.u.i % 2 != 0) == j_eq_lit(name, "odd");
    if (j_eq_lit(name, "divisibleby"))
        return v.kind == J_INT && a->n && a->pos[0].kind == J_INT && a->pos[0].u.i > 0 && v.u.i % a->pos[0].u.i == 0;
    if (j_eq_lit(name, "in") && a->n) {
        const j_list *l = a->pos[0].kind == J_STR ? NULL : j_items(cx, a->pos[0]);
        if (a->pos[0].kind == J_STR && v.kind == J_STR)
            return v.u.str.n == 0 || memmem(a->pos[0].u.str.s, a->pos[0].u.str.n, v.u.str.s, v.u.str.n);
        for (size_t i = 0; l && i < l->n; i++)
            if (j_equal(l->items[i], v, 0))
                return true;
        return false;
    }
    j_fail(cx, a->line, DOP_E_INPUT, "test \"%.*s\" is not known", name.n > 40 ? 40 : (int)name.n, name.s);
    return false;
}

/* ---- methods ---- */

static bool
has_affix(j_val v, j_str s, bool front)
{
    if (v.kind == J_LIST) { /* a tuple of alternatives */
        for (size_t i = 0; i < v.u.list->n; i++)
            if (v.u.list->items[i].kind == J_STR && has_affix(v.u.list->items[i], s, front))
                return true;
        return false;
    }
    j_str p = v.u.str;
    return v.kind == J_STR && p.n <= s.n && (p.n == 0 || memcmp(front ? s.s : s.s + s.n - p.n, p.s, p.n) == 0);
}

static j_val
str_method(j_ctx *cx, j_str s, j_str name, const j_args *a, bool *known)
{
    const j_val *x = j_arg(a, 0, NULL);
    const j_str *chars = x && x->kind == J_STR ? &x->u.str : NULL;
    bool strips = j_eq_lit(name, "strip"), l = j_eq_lit(name, "lstrip"), r = j_eq_lit(name, "rstrip");
    *known = true;
    if (strips || l || r) {
        s = j_strip(s, chars, strips || l, strips || r);
        return j_text(s.s, s.n);
    }
    if ((j_eq_lit(name, "startswith") || j_eq_lit(name, "endswith")) && x)
        return j_bool(has_affix(*x, s, j_eq_lit(name, "startswith")));
    if (j_eq_lit(name, "split"))
        return j_split(cx, s, chars, j_int_arg(a, 1, "maxsplit", -1));
    if (j_eq_lit(name, "splitlines"))
        return j_split(cx, s, &(j_str){"\n", 1}, -1);
    if ((j_eq_lit(name, "replace") && a->n >= 2) || j_eq_lit(name, "upper") || j_eq_lit(name, "lower") ||
        j_eq_lit(name, "title") || j_eq_lit(name, "capitalize"))
        return j_filter(cx, name, j_text(s.s, s.n), a);
    if (j_eq_lit(name, "join") && x) {
        const j_list *items = j_items(cx, *x);
        return items ? j_join(cx, items, s) : j_wrong(cx, a, "join", *x);
    }
    if ((j_eq_lit(name, "find") || j_eq_lit(name, "count") || j_eq_lit(name, "index")) && chars && chars->n) {
        int64_t found = 0;
        const char *p = s.s, *end = s.s + s.n, *first = NULL;
        while (p < end && (p = memmem(p, (size_t)(end - p), chars->s, chars->n)) != NULL) {
            first = first ? first : p;
            found++;
            p += chars->n;
        }
        if (j_eq_lit(name, "count"))
            return j_int(found);
        return j_int(first ? (int64_t)j_chars((j_str){s.s, (size_t)(first - s.s)}) : -1);
    }
    *known = false;
    return (j_val){.kind = J_UNDEF};
}

static j_val
dict_method(j_ctx *cx, j_val self, j_str name, const j_args *a, bool *known)
{
    const j_val *x = j_arg(a, 0, "key"), *y = j_arg(a, 1, "default");
    *known = true;
    if (j_eq_lit(name, "items"))
        return j_filter(cx, name, (j_val){.kind = J_DICT, .u.dict = self.u.dict}, a);
    if (j_eq_lit(name, "keys") || j_eq_lit(name, "values")) {
        j_val r = j_new_list(cx);
        for (size_t i = 0; i < self.u.dict->n && cx->status == DOP_OK; i++)
            j_push(cx, r.u.list,
                   name.s[0] == 'v' ? self.u.dict->vals[i] : j_text(self.u.dict->keys[i].s, self.u.dict->keys[i].n));
        return r;
    }
    if (j_eq_lit(name, "get") && x) {
        const j_val *v = x->kind == J_STR ? j_get(self.u.dict, x->u.str) : NULL;
        return v ? *v : y ? *y : (j_val){.kind = J_NONE};
    }
    if (j_eq_lit(name, "update") && x && x->kind == J_DICT) {
        for (size_t i = 0; i < x->u.dict->n; i++)
            j_set(cx, self.u.dict, x->u.dict->keys[i], x->u.dict->vals[i]);
        return (j_val){.kind = J_NONE};
    }
    *known = false;
    return (j_val){.kind = J_UNDEF};
}

static j_val
list_method(j_ctx *cx, j_val self, j_str name, const j_args *a, bool *known)
{
    const j_val *x = j_arg(a, 0, NULL);
    *known = true;
    if (j_eq_lit(name, "append") && x) {
        j_push(cx, self.u.list, *x);
        return (j_val){.kind = J_NONE};
    }
    if (j_eq_lit(name, "extend") && x && x->kind == J_LIST) {
        for (size_t i = 0, n = x->u.list->n; i < n && cx->status == DOP_OK; i++)
            j_push(cx, self.u.list, x->u.list->items[i]);
        return (j_val){.kind = J_NONE};
    }
    if (j_eq_lit(name, "pop") && !x && self.u.list->n)
        return self.u.list->items[--self.u.list->n];
    if (j_eq_lit(name, "index") && x) {
        for (size_t i = 0; i < self.u.list->n; i++)
            if (j_equal(self.u.list->items[i], *x, 0))
                return j_int((int64_t)i);
        return j_fail(cx, a->line, DOP_E_INPUT, "index: the item is not in the list");
    }
    *known = false;
    return (j_val){.kind = J_UNDEF};
}

j_val
j_method(j_ctx *cx, j_val self, j_str name, const j_args *a, bool *known)
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
        if (j_eq_lit(name, "cycle") && a->n) {
            *known = true;
            return a->pos[self.u.loop->at % a->n];
        }
        return (j_val){.kind = J_UNDEF};
    default:
        return (j_val){.kind = J_UNDEF};
    }
}

static j_val
loop_attribute(const j_loop *l, j_str name)
{
    int64_t at = (int64_t)l->at, n = (int64_t)l->items->n;
    if (j_eq_lit(name, "index"))
        return j_int(at + 1);
    if (j_eq_lit(name, "index0"))
        return j_int(at);
    if (j_eq_lit(name, "revindex"))
        return j_int(n - at);
    if (j_eq_lit(name, "revindex0"))
        return j_int(n - at - 1);
    if (j_eq_lit(name, "first"))
        return j_bool(at == 0);
    if (j_eq_lit(name, "last"))
        return j_bool(at + 1 == n);
    if (j_eq_lit(name, "length"))
        return j_int(n);
    if (j_eq_lit(name, "depth"))
        return j_int((int64_t)l->depth);
    if (j_eq_lit(name, "previtem") && at > 0)
        return l->items->items[at - 1];
    if (j_eq_lit(name, "nextitem") && at + 1 < n)
        return l->items->items[at + 1];
    return j_undef(name);
}

j_val
j_attribute(j_ctx *cx, j_val self, j_str name, long line)
{
    const j_val *v;
    (void)cx;
    (void)line;
    switch (self.kind) {
    case J_DICT:
    case J_NAMESPACE:
        v = j_get(self.u.dict, name);
        return v ? *v : j_undef(name);
    case J_LOOP:
        return loop_attribute(self.u.loop, name);
    default:
        return j_undef(name);
    }
}

/* ---- functions ---- */

static j_val
make_range(j_ctx *cx, const j_args *a)
{
    int64_t from = a->n > 1 ? j_int_arg(a, 0, NULL, 0) : 0, to = j_int_arg(a, a->n > 1 ? 1 : 0, NULL, 0);
    int64_t step = j_int_arg(a, 2, NULL, 1), limit = 1 << 20;
    j_val r = j_new_list(cx);
    if (a->n < 1 || step == 0 || from > limit || from < -limit || to > limit || to < -limit || step > limit ||
        step < -limit)
        return j_fail(cx, a->line, DOP_E_INPUT, "range: arguments out of range");
    for (int64_t i = from; cx->status == DOP_OK && (step > 0 ? i < to : i > to); i += step)
        j_push(cx, r.u.list, j_int(i));
    return r;
}

static j_val
make_dict(j_ctx *cx, const j_args *a, j_kind kind)
{
    j_val r = j_new_dict(cx, kind);
    if (cx->status != DOP_OK)
        return r;
    if (a->n && a->pos[0].kind == J_DICT)
        for (size_t i = 0; i < a->pos[0].u.dict->n; i++)
            j_set(cx, r.u.dict, a->pos[0].u.dict->keys[i], a->pos[0].u.dict->vals[i]);
    for (size_t i = 0; i < a->named_n; i++)
        j_set(cx, r.u.dict, a->names[i], a->named[i]);
    return r;
}

static j_val
strftime_now(j_ctx *cx, const j_args *a)
{
    char format[128], text[256];
    j_str f = j_str_arg(cx, a, 0, NULL, "");
    if (f.n + 1 > sizeof format)
        return j_fail(cx, a->line, DOP_E_INPUT, "strftime_now: the format is too long");
    memcpy(format, f.s, f.n);
    format[f.n] = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = f.n ? strftime(text, sizeof text, format, &cx->now) : 0;
#pragma GCC diagnostic pop
    j_out o = {0};
    j_put(cx, &o, text, n);
    return j_take(&o);
}

j_val
j_function(j_ctx *cx, j_str name, const j_args *a, bool *known)
{
    *known = true;
    if (j_eq_lit(name, "raise_exception")) {
        j_str s = j_str_arg(cx, a, 0, NULL, "");
        return j_fail(cx, 0, DOP_E_INPUT, "the chat template refuses this conversation: %.*s",
                      s.n > 400 ? 400 : (int)s.n, s.s);
    }
    if (j_eq_lit(name, "range"))
        return make_range(cx, a);
    if (j_eq_lit(name, "namespace"))
        return make_dict(cx, a, J_NAMESPACE);
    if (j_eq_lit(name, "dict"))
        return make_dict(cx, a, J_DICT);
    if (j_eq_lit(name, "strftime_now"))
        return strftime_now(cx, a);
    *known = false;
    return (j_val){.kind = J_UNDEF};
}
