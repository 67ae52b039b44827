/* Methods and functions that chat templates use. */
#include <ctype.h>
#include <string.h>

#include "base/utf8.h"
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

/* What is left of a string behind its first `from` characters. */
static dop_j_str
skip_chars(dop_j_str s, int64_t from)
{
    for (; from > 0 && s.n > 0; from--) {
        size_t len = dop_utf8_next(s.s, s.n).len;
        s.s += len;
        s.n -= len;
    }
    return s;
}

/* find, rfind, index, rindex, count: where a text stands, in characters, or how often. */
static dop_j_val
find_text(dop_j_ctx *cx, dop_j_str s, dop_j_str name, dop_j_str what, const dop_j_args *a)
{
    int64_t from = dop_j_int_arg(a, 1, NULL, 0), found = 0;
    if (a->n > 2 || from < 0 || what.n == 0)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "%.*s works with a text that is not empty and a start", (int)name.n,
                          name.s);
    const dop_j_str rest = skip_chars(s, from);
    const char *p = rest.s, *end = s.s + s.n, *hit = NULL;
    const bool counts = dop_j_eq_lit(name, "count"), last = name.s[0] == 'r';
    while (p < end && (p = memmem(p, (size_t)(end - p), what.s, what.n)) != NULL) {
        hit = hit && !last ? hit : p;
        found++;
        p += last ? 1 : what.n;
    }
    if (counts)
        return dop_j_int(found);
    if (!hit && name.s[name.n - 1] == 'x')
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "%.*s: the text is not there", (int)name.n, name.s);
    return dop_j_int(hit ? (int64_t)dop_j_chars((dop_j_str){s.s, (size_t)(hit - s.s)}) : -1);
}

/* partition and rpartition: what stands before a separator, the separator, what stands behind it. */
static dop_j_val
partition(dop_j_ctx *cx, dop_j_str s, dop_j_str sep, bool last)
{
    dop_j_val l = last ? dop_j_rsplit(cx, s, &sep, 1) : dop_j_split(cx, s, &sep, 1), r = dop_j_new_list(cx);
    if (cx->status != DOP_OK)
        return r;
    const bool found = l.u.list->n == 2;
    const dop_j_val empty = dop_j_lit("");
    dop_j_push(cx, r.u.list, found || !last ? l.u.list->items[0] : empty);
    dop_j_push(cx, r.u.list, found ? dop_j_text(sep.s, sep.n) : empty);
    dop_j_push(cx, r.u.list, found ? l.u.list->items[1] : last ? l.u.list->items[0] : empty);
    return r;
}

/* Methods with one text as their argument. */
static dop_j_val
str_method_of(dop_j_ctx *cx, dop_j_str s, dop_j_str name, dop_j_str x, const dop_j_args *a, bool *known)
{
    static const char *const finds[] = {"find", "rfind", "index", "rindex", "count"};
    for (size_t i = 0; i < sizeof finds / sizeof *finds; i++)
        if (dop_j_eq_lit(name, finds[i]))
            return find_text(cx, s, name, x, a);
    if (dop_j_eq_lit(name, "removeprefix") || dop_j_eq_lit(name, "removesuffix")) {
        const bool front = dop_j_eq_lit(name, "removeprefix");
        const bool has = has_affix(dop_j_text(x.s, x.n), s, front);
        return dop_j_text(s.s + (has && front ? x.n : 0), s.n - (has ? x.n : 0));
    }
    if (dop_j_eq_lit(name, "partition") || dop_j_eq_lit(name, "rpartition"))
        return partition(cx, s, x, name.s[0] == 'r');
    *known = false;
    return (dop_j_val){.kind = J_UNDEF};
}

/* isdigit, isalpha, ...: whether there are characters and all are of a kind; ASCII's digits and letters. */
static bool
all_are(dop_j_str s, int (*is)(int))
{
    bool yes = s.n > 0;
    for (size_t i = 0; i < s.n; i++)
        yes &= is((unsigned char)s.s[i]) != 0;
    return yes;
}

static dop_j_val
str_method(dop_j_ctx *cx, dop_j_str s, dop_j_str name, const dop_j_args *a, bool *known)
{
    static const struct {
        const char *name;
        dop_j_case how;
    } cases[] = {{"upper", CASE_UPPER}, {"lower", CASE_LOWER}, {"title", CASE_TITLE}, {"capitalize", CASE_CAPITAL}};
    static const struct {
        const char *name;
        int (*is)(int);
    } kinds[] = {{"isdigit", isdigit}, {"isalpha", isalpha}, {"isalnum", isalnum}, {"isspace", isspace}};
    const dop_j_val *x = dop_j_arg(a, 0, NULL);
    const dop_j_str *chars = x && x->kind == J_STR ? &x->u.str : NULL;
    bool strips = dop_j_eq_lit(name, "strip"), l = dop_j_eq_lit(name, "lstrip"), r = dop_j_eq_lit(name, "rstrip");
    *known = true;
    if (strips || l || r) {
        s = dop_j_strip(s, chars, strips || l, strips || r);
        return dop_j_text(s.s, s.n);
    }
    if ((dop_j_eq_lit(name, "startswith") && x && a->n <= 2) || (dop_j_eq_lit(name, "endswith") && x && a->n == 1))
        return dop_j_bool(has_affix(*x, skip_chars(s, dop_j_int_arg(a, 1, NULL, 0)), dop_j_eq_lit(name, "startswith")));
    if (dop_j_eq_lit(name, "split"))
        return dop_j_split(cx, s, chars, dop_j_int_arg(a, 1, "maxsplit", -1));
    if (dop_j_eq_lit(name, "rsplit"))
        return dop_j_rsplit(cx, s, chars, dop_j_int_arg(a, 1, "maxsplit", -1));
    if (dop_j_eq_lit(name, "splitlines"))
        return dop_j_split_lines(cx, s, dop_j_int_arg(a, 0, "keepends", 0) != 0);
    if (dop_j_eq_lit(name, "replace") && a->n >= 2)
        return dop_j_filter(cx, name, dop_j_text(s.s, s.n), a);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (dop_j_eq_lit(name, cases[i].name))
            return dop_j_change_case(cx, s, cases[i].how);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (dop_j_eq_lit(name, kinds[i].name))
            return dop_j_bool(all_are(s, kinds[i].is));
    if (dop_j_eq_lit(name, "islower") || dop_j_eq_lit(name, "isupper"))
        return dop_j_bool(dop_j_is_cased(cx, s, name.s[2] == 'u'));
    if (dop_j_eq_lit(name, "join") && x) {
        const dop_j_list *items = dop_j_items(cx, *x);
        return items ? dop_j_join(cx, items, s) : dop_j_wrong(cx, a, "join", *x);
    }
    if (chars)
        return str_method_of(cx, s, name, *chars, a, known);
    *known = false;
    return (dop_j_val){.kind = J_UNDEF};
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
    if (dop_j_eq_lit(name, "copy"))
        return make_dict(cx, &(dop_j_args){.pos = &self, .n = 1, .line = a->line}, J_DICT);
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
    if (dop_j_eq_lit(name, "pop") && self.u.list->n) {
        dop_j_list *l = self.u.list;
        const int64_t at = dop_j_int_arg(a, 0, NULL, -1), i = at < 0 ? at + (int64_t)l->n : at;
        if (i < 0 || i >= (int64_t)l->n)
            return dop_j_fail(cx, a->line, DOP_E_INPUT, "pop: the list has %zu items", l->n);
        dop_j_val popped = l->items[i];
        memmove(l->items + i, l->items + i + 1, (--l->n - (size_t)i) * sizeof *l->items);
        return popped;
    }
    if (dop_j_eq_lit(name, "index") && x) {
        for (size_t i = 0; i < self.u.list->n; i++)
            if (dop_j_equal(self.u.list->items[i], *x, 0))
                return dop_j_int((int64_t)i);
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "index: the item is not in the list");
    }
    if (dop_j_eq_lit(name, "count") && x) {
        int64_t n = 0;
        for (size_t i = 0; i < self.u.list->n; i++)
            n += dop_j_equal(self.u.list->items[i], *x, 0);
        return dop_j_int(n);
    }
    if (dop_j_eq_lit(name, "copy"))
        return dop_j_filter(cx, dop_j_lit("list").u.str, self, a);
    *known = false;
    return (dop_j_val){.kind = J_UNDEF};
}

static dop_j_val
loop_method(dop_j_ctx *cx, dop_j_loop *loop, dop_j_str name, const dop_j_args *a, bool *known)
{
    *known = true;
    if (dop_j_eq_lit(name, "cycle") && a->n)
        return a->pos[loop->at % a->n];
    if (dop_j_eq_lit(name, "changed")) {
        dop_j_val now = dop_j_new_list(cx);
        for (size_t i = 0; i < a->n && cx->status == DOP_OK; i++)
            dop_j_push(cx, now.u.list, a->pos[i]);
        const bool same = cx->status == DOP_OK && loop->has_changed && dop_j_equal(loop->changed, now, 0);
        loop->changed = now;
        loop->has_changed = true;
        return dop_j_bool(!same);
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
        return loop_method(cx, self.u.loop, name, a, known);
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

typedef dop_j_val function_fn(dop_j_ctx *cx, const dop_j_args *a);

static dop_j_val
raise_exception(dop_j_ctx *cx, const dop_j_args *a)
{
    dop_j_str s = dop_j_str_arg(cx, a, 0, NULL, "");
    return dop_j_fail(cx, 0, DOP_E_INPUT, "the chat template refuses this conversation: %.*s",
                      s.n > 400 ? 400 : (int)s.n, s.s);
}

static dop_j_val
make_namespace(dop_j_ctx *cx, const dop_j_args *a)
{
    return make_dict(cx, a, J_NAMESPACE);
}

static dop_j_val
make_mapping(dop_j_ctx *cx, const dop_j_args *a)
{
    return make_dict(cx, a, J_DICT);
}

static const struct {
    const char *name;
    function_fn *fn;
} functions[] = {
    {"raise_exception", raise_exception}, {"range", make_range}, {"namespace", make_namespace}, {"dict", make_mapping},
    {"strftime_now", strftime_now},
};

dop_j_val
dop_j_function_value(dop_j_str name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (dop_j_eq_lit(name, functions[i].name))
            return (dop_j_val){.kind = J_FUNCTION, .u.str = name};
    return dop_j_undef(name);
}

dop_j_val
dop_j_function(dop_j_ctx *cx, dop_j_str name, const dop_j_args *a)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (dop_j_eq_lit(name, functions[i].name))
            return functions[i].fn(cx, a);
    return dop_j_fail(cx, a->line, DOP_E_INTERNAL, "no function");
}
