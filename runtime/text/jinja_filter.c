/* Filters that chat templates use, by table. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text/jinja_internal.h"
#include "runtime/text/utf8.h"

j_val
j_wrong(j_ctx *cx, const j_args *a, const char *what, j_val v)
{
    return j_fail(cx, a->line, DOP_E_INPUT, "%s does not work on a %s", what, j_kind_name(v.kind));
}

static j_val
string_of(j_ctx *cx, j_val v)
{
    j_out o = {0};
    if (v.kind == J_STR)
        return v;
    j_print(cx, &o, v);
    return j_take(&o);
}

/* ---- text ---- */

typedef enum text_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITAL } text_case;

/* ASCII letters only: role names and the like. */
static j_val
change_case(j_ctx *cx, j_str s, text_case how)
{
    j_out o = {0};
    bool start = true;
    j_put(cx, &o, s.s, s.n);
    for (size_t i = 0; i < o.n; i++) {
        unsigned char c = (unsigned char)o.s[i];
        bool up = how == CASE_UPPER || (start && how != CASE_LOWER);
        o.s[i] = (char)(c >= 0x80 ? c : up ? toupper(c) : tolower(c));
        start = how == CASE_TITLE ? !(isalpha(c) || c >= 0x80 || c == '\'') : false;
    }
    return j_take(&o);
}

static j_val
replace_text(j_ctx *cx, j_str s, j_str from, j_str to, int64_t count)
{
    j_out o = {0};
    size_t done = 0;
    if (from.n == 0)
        return j_text(s.s, s.n);
    while (count != 0 && done < s.n && cx->status == DOP_OK) {
        const char *p = memmem(s.s + done, s.n - done, from.s, from.n);
        if (!p)
            break;
        j_put(cx, &o, s.s + done, (size_t)(p - s.s) - done);
        j_put(cx, &o, to.s, to.n);
        done = (size_t)(p - s.s) + from.n;
        count--;
    }
    j_put(cx, &o, s.s + done, s.n - done);
    return j_take(&o);
}

/* str.split(): at a separator, or at runs of white space when there is none. */
j_val
j_split(j_ctx *cx, j_str s, const j_str *sep, int64_t max)
{
    j_val l = j_new_list(cx);
    if (sep && sep->n == 0)
        return j_fail(cx, 0, DOP_E_INPUT, "split at an empty separator");
    if (!sep)
        s = j_strip(s, NULL, true, false);
    while (cx->status == DOP_OK && max != 0 && (sep || s.n)) {
        size_t at = 0, skip = 0;
        if (sep) {
            const char *p = s.n ? memmem(s.s, s.n, sep->s, sep->n) : NULL;
            if (!p)
                break;
            at = (size_t)(p - s.s);
            skip = sep->n;
        } else {
            for (; at < s.n; at += skip) {
                dop_utf8_char u = dop_utf8_next(s.s + at, s.n - at);
                if (j_is_space(u.cp))
                    break;
                skip = u.len;
            }
            skip = 0;
        }
        j_push(cx, l.u.list, j_text(s.s, at));
        s.s += at + skip;
        s.n -= at + skip;
        if (!sep)
            s = j_strip(s, NULL, true, false);
        max--;
    }
    if (cx->status == DOP_OK && (sep || s.n))
        j_push(cx, l.u.list, j_text(s.s, s.n));
    return l;
}

j_val
j_join(j_ctx *cx, const j_list *l, j_str sep)
{
    j_out o = {0};
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++) {
        if (i)
            j_put(cx, &o, sep.s, sep.n);
        j_print(cx, &o, l->items[i]);
    }
    return j_take(&o);
}

static j_val
indent_text(j_ctx *cx, j_str s, size_t width, bool first)
{
    j_out o = {0};
    bool start = first;
    for (size_t i = 0; i < s.n && cx->status == DOP_OK; i++) {
        if (start && s.s[i] != '\n')
            for (size_t k = 0; k < width; k++)
                j_puts(cx, &o, " ");
        j_put(cx, &o, s.s + i, 1);
        start = s.s[i] == '\n';
    }
    return j_take(&o);
}

/* ---- filters ---- */

typedef j_val filter_fn(j_ctx *cx, j_val v, const j_args *a);

j_str
j_str_arg(j_ctx *cx, const j_args *a, size_t i, const char *name, const char *fallback)
{
    const j_val *v = j_arg(a, i, name);
    if (!v)
        return j_lit(fallback).u.str;
    if (v->kind != J_STR)
        j_fail(cx, a->line, DOP_E_INPUT, "an argument must be a string, not a %s", j_kind_name(v->kind));
    return v->kind == J_STR ? v->u.str : j_lit("").u.str;
}

int64_t
j_int_arg(const j_args *a, size_t i, const char *name, int64_t fallback)
{
    const j_val *v = j_arg(a, i, name);
    return v && v->kind == J_INT ? v->u.i : v && v->kind == J_BOOL ? v->u.b : fallback;
}

static j_val
f_trim(j_ctx *cx, j_val v, const j_args *a)
{
    const j_val *c = j_arg(a, 0, "chars");
    j_str s = string_of(cx, v).u.str;
    s = cx->status == DOP_OK ? j_strip(s, c && c->kind == J_STR ? &c->u.str : NULL, true, true) : (j_str){"", 0};
    return j_text(s.s, s.n);
}

static j_val
f_length(j_ctx *cx, j_val v, const j_args *a)
{
    if (v.kind == J_STR)
        return j_int((int64_t)j_chars(v.u.str));
    const j_list *l = j_items(cx, v);
    return l ? j_int((int64_t)l->n) : j_wrong(cx, a, "length", v);
}

static j_val
f_tojson(j_ctx *cx, j_val v, const j_args *a)
{
    j_out o = {0};
    int64_t indent = j_int_arg(a, 0, "indent", -1);
    if (indent > 64)
        return j_fail(cx, a->line, DOP_E_INPUT, "tojson: an indent of more than 64");
    j_json(cx, &o, v, indent, 0);
    return j_take(&o);
}

/* Attribute named by a filter argument, dots going deeper. */
static j_val
deep_attribute(j_ctx *cx, j_val v, j_str path, long line)
{
    while (path.n && cx->status == DOP_OK && v.kind != J_UNDEF) {
        const char *dot = memchr(path.s, '.', path.n);
        size_t n = dot ? (size_t)(dot - path.s) : path.n;
        v = j_attribute(cx, v, (j_str){path.s, n}, line);
        path.s += n + (dot ? 1 : 0);
        path.n -= n + (dot ? 1 : 0);
    }
    return v;
}

static j_val
f_join(j_ctx *cx, j_val v, const j_args *a)
{
    const j_list *l = j_items(cx, v);
    const j_val *attr = j_arg(a, 1, "attribute");
    if (!l)
        return j_wrong(cx, a, "join", v);
    if (attr && attr->kind == J_STR) {
        j_val picked = j_new_list(cx);
        for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++)
            j_push(cx, picked.u.list, deep_attribute(cx, l->items[i], attr->u.str, a->line));
        l = cx->status == DOP_OK ? picked.u.list : l;
    }
    return j_join(cx, l, j_str_arg(cx, a, 0, "d", ""));
}

static j_val
f_list(j_ctx *cx, j_val v, const j_args *a)
{
    const j_list *l = j_items(cx, v);
    j_val r = j_new_list(cx);
    if (!l)
        return j_wrong(cx, a, "list", v);
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++)
        j_push(cx, r.u.list, l->items[i]);
    return r;
}

static j_val
f_string(j_ctx *cx, j_val v, const j_args *a)
{
    (void)a;
    return string_of(cx, v);
}

static j_val
f_default(j_ctx *cx, j_val v, const j_args *a)
{
    const j_val *other = j_arg(a, 0, "default_value");
    bool falsy = j_int_arg(a, 1, "boolean", 0) != 0;
    (void)cx;
    if (v.kind == J_UNDEF || (falsy && !j_truth(v)))
        return other ? *other : j_lit("");
    return v;
}

static j_val
f_first(j_ctx *cx, j_val v, const j_args *a)
{
    const j_list *l = j_items(cx, v);
    return !l ? j_wrong(cx, a, "first", v) : l->n ? l->items[0] : j_undef((j_str){"first item", 10});
}

static j_val
f_last(j_ctx *cx, j_val v, const j_args *a)
{
    const j_list *l = j_items(cx, v);
    return !l ? j_wrong(cx, a, "last", v) : l->n ? l->items[l->n - 1] : j_undef((j_str){"last item", 9});
}

static j_val
f_reverse(j_ctx *cx, j_val v, const j_args *a)
{
    const j_list *l = j_items(cx, v);
    j_val r = j_new_list(cx);
    if (!l)
        return j_wrong(cx, a, "reverse", v);
    for (size_t i = l->n; i > 0 && cx->status == DOP_OK; i--)
        j_push(cx, r.u.list, l->items[i - 1]);
    return v.kind == J_STR && cx->status == DOP_OK ? j_join(cx, r.u.list, (j_str){"", 0}) : r;
}

static j_val
f_replace(j_ctx *cx, j_val v, const j_args *a)
{
    j_str from = j_str_arg(cx, a, 0, "old", ""), to = j_str_arg(cx, a, 1, "new", "");
    j_val s = string_of(cx, v);
    return cx->status == DOP_OK ? replace_text(cx, s.u.str, from, to, j_int_arg(a, 2, "count", -1)) : s;
}

static j_val
f_upper(j_ctx *cx, j_val v, const j_args *a)
{
    (void)a;
    v = string_of(cx, v);
    return cx->status == DOP_OK ? change_case(cx, v.u.str, CASE_UPPER) : v;
}

static j_val
f_lower(j_ctx *cx, j_val v, const j_args *a)
{
    (void)a;
    v = string_of(cx, v);
    return cx->status == DOP_OK ? change_case(cx, v.u.str, CASE_LOWER) : v;
}

static j_val
f_title(j_ctx *cx, j_val v, const j_args *a)
{
    (void)a;
    v = string_of(cx, v);
    return cx->status == DOP_OK ? change_case(cx, v.u.str, CASE_TITLE) : v;
}

static j_val
f_capitalize(j_ctx *cx, j_val v, const j_args *a)
{
    (void)a;
    v = string_of(cx, v);
    return cx->status == DOP_OK ? change_case(cx, v.u.str, CASE_CAPITAL) : v;
}

static j_val
f_indent(j_ctx *cx, j_val v, const j_args *a)
{
    int64_t width = j_int_arg(a, 0, "width", 4);
    if (v.kind != J_STR || width < 0 || width > 256)
        return j_wrong(cx, a, "indent", v);
    return indent_text(cx, v.u.str, (size_t)width, j_int_arg(a, 1, "first", 0) != 0);
}

static j_val
f_items(j_ctx *cx, j_val v, const j_args *a)
{
    j_val r = j_new_list(cx);
    if (v.kind == J_UNDEF)
        return r;
    if (v.kind != J_DICT)
        return j_wrong(cx, a, "items", v);
    for (size_t i = 0; i < v.u.dict->n && cx->status == DOP_OK; i++) {
        j_val pair = j_new_list(cx);
        if (cx->status != DOP_OK)
            break;
        j_push(cx, pair.u.list, j_text(v.u.dict->keys[i].s, v.u.dict->keys[i].n));
        j_push(cx, pair.u.list, v.u.dict->vals[i]);
        j_push(cx, r.u.list, pair);
    }
    return r;
}

static j_val
f_int(j_ctx *cx, j_val v, const j_args *a)
{
    (void)cx;
    if (v.kind == J_STR && v.u.str.n < 32) {
        char t[32], *end;
        memcpy(t, v.u.str.s, v.u.str.n);
        t[v.u.str.n] = 0;
        double d = strtod(t, &end);
        v = end != t && *end == 0 ? (j_val){.kind = J_FLOAT, .u.f = d} : v;
    }
    if (v.kind == J_FLOAT && fabs(v.u.f) < 0x1p63)
        return j_int((int64_t)v.u.f);
    return v.kind == J_INT ? v : v.kind == J_BOOL ? j_int(v.u.b) : j_int(j_int_arg(a, 0, "default", 0));
}

static j_val
f_abs(j_ctx *cx, j_val v, const j_args *a)
{
    if (v.kind == J_INT && v.u.i != INT64_MIN)
        return j_int(v.u.i < 0 ? -v.u.i : v.u.i);
    return v.kind == J_FLOAT ? (j_val){.kind = J_FLOAT, .u.f = fabs(v.u.f)} : j_wrong(cx, a, "abs", v);
}

/* Order of two items; strings without regard to (ASCII) case unless `exact`, as Jinja sorts. */
static int
order_items(j_val a, j_val b, bool exact, bool *ok)
{
    if (exact || a.kind != J_STR || b.kind != J_STR)
        return j_order(a, b, ok);
    *ok = true;
    for (size_t i = 0; i < a.u.str.n && i < b.u.str.n; i++) {
        int x = tolower((unsigned char)a.u.str.s[i]), y = tolower((unsigned char)b.u.str.s[i]);
        if (x != y)
            return x < y ? -1 : 1;
    }
    return a.u.str.n < b.u.str.n ? -1 : a.u.str.n > b.u.str.n;
}

enum { max_sort = 4096 }; /* items that sort and unique take: both are quadratic */

/* Merge sort would be stable for free; lists here are short, so insertion sort. */
static j_val
f_sort(j_ctx *cx, j_val v, const j_args *a)
{
    const j_val *attr = j_arg(a, 2, "attribute");
    bool down = j_int_arg(a, 0, "reverse", 0) != 0, exact = j_int_arg(a, 1, "case_sensitive", 0) != 0, ok;
    j_val r = f_list(cx, v, a);
    if (cx->status != DOP_OK)
        return r;
    if (r.u.list->n > max_sort)
        return j_fail(cx, a->line, DOP_E_INPUT, "sort: more than %d items", max_sort);
    for (size_t i = 1; i < r.u.list->n; i++) {
        j_val x = r.u.list->items[i];
        size_t k = i;
        for (; k > 0 && cx->status == DOP_OK; k--) {
            j_val y = r.u.list->items[k - 1], xa = x, ya = y;
            if (attr && attr->kind == J_STR) {
                xa = deep_attribute(cx, x, attr->u.str, a->line);
                ya = deep_attribute(cx, y, attr->u.str, a->line);
            }
            int c = order_items(xa, ya, exact, &ok);
            if (!ok)
                return j_wrong(cx, a, "sort", xa);
            if (down ? c <= 0 : c >= 0)
                break;
            r.u.list->items[k] = y;
        }
        r.u.list->items[k] = x;
    }
    return r;
}

static j_val
f_unique(j_ctx *cx, j_val v, const j_args *a)
{
    const j_list *l = j_items(cx, v);
    bool exact = j_int_arg(a, 0, "case_sensitive", 0) != 0, ok;
    j_val r = j_new_list(cx);
    if (!l || l->n > max_sort)
        return j_wrong(cx, a, "unique", v);
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++) {
        bool seen = false;
        for (size_t k = 0; k < r.u.list->n && !seen; k++)
            seen = j_equal(r.u.list->items[k], l->items[i], 0) ||
                   (order_items(r.u.list->items[k], l->items[i], exact, &ok) == 0 && ok);
        if (!seen)
            j_push(cx, r.u.list, l->items[i]);
    }
    return r;
}

/* select, reject, selectattr, rejectattr. */
static j_val
pick(j_ctx *cx, j_val v, const j_args *a, bool by_attr, bool keep)
{
    const j_list *l = j_items(cx, j_truth(v) ? v : j_undef((j_str){"", 0})); /* nothing is an empty list */
    size_t skip = by_attr ? 1 : 0;
    j_val r = j_new_list(cx);
    if (!l || (by_attr && (a->n < 1 || a->pos[0].kind != J_STR)) || (a->n > skip && a->pos[skip].kind != J_STR))
        return j_wrong(cx, a, "select", v);
    j_args rest = {.line = a->line};
    if (a->n > skip + 1) {
        rest.pos = a->pos + skip + 1;
        rest.n = a->n - skip - 1;
    }
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++) {
        j_val x = by_attr ? deep_attribute(cx, l->items[i], a->pos[0].u.str, a->line) : l->items[i];
        bool yes = a->n > skip ? j_test(cx, a->pos[skip].u.str, x, &rest) : j_truth(x);
        if (yes == keep)
            j_push(cx, r.u.list, l->items[i]);
    }
    return r;
}

static j_val
f_select(j_ctx *cx, j_val v, const j_args *a)
{
    return pick(cx, v, a, false, true);
}

static j_val
f_reject(j_ctx *cx, j_val v, const j_args *a)
{
    return pick(cx, v, a, false, false);
}

static j_val
f_selectattr(j_ctx *cx, j_val v, const j_args *a)
{
    return pick(cx, v, a, true, true);
}

static j_val
f_rejectattr(j_ctx *cx, j_val v, const j_args *a)
{
    return pick(cx, v, a, true, false);
}

static j_val
f_map(j_ctx *cx, j_val v, const j_args *a)
{
    const j_list *l = j_items(cx, j_truth(v) ? v : j_undef((j_str){"", 0}));
    const j_val *attr = j_arg(a, SIZE_MAX, "attribute"), *other = j_arg(a, SIZE_MAX, "default");
    j_val r = j_new_list(cx);
    j_args rest = {.line = a->line};
    if (!l || (!attr && (a->n < 1 || a->pos[0].kind != J_STR)) || (attr && attr->kind != J_STR))
        return j_wrong(cx, a, "map", v);
    if (a->n > 1) {
        rest.pos = a->pos + 1;
        rest.n = a->n - 1;
    }
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++) {
        j_val x = attr ? deep_attribute(cx, l->items[i], attr->u.str, a->line)
                       : j_filter(cx, a->pos[0].u.str, l->items[i], &rest);
        j_push(cx, r.u.list, x.kind == J_UNDEF && other ? *other : x);
    }
    return r;
}

static j_val
f_safe(j_ctx *cx, j_val v, const j_args *a)
{
    (void)cx;
    (void)a;
    return v;
}

static j_val
f_dictsort(j_ctx *cx, j_val v, const j_args *a)
{
    j_val l = f_items(cx, v, a);
    if (cx->status != DOP_OK)
        return l;
    for (size_t i = 1; i < l.u.list->n; i++) { /* pairs by key */
        j_val x = l.u.list->items[i];
        size_t k = i;
        bool ok;
        for (; k > 0 && order_items(x.u.list->items[0], l.u.list->items[k - 1].u.list->items[0], false, &ok) < 0; k--)
            l.u.list->items[k] = l.u.list->items[k - 1];
        l.u.list->items[k] = x;
    }
    return l;
}

static const struct {
    const char *name;
    filter_fn *fn;
} filters[] = {
    {"trim", f_trim},
    {"length", f_length},
    {"count", f_length},
    {"tojson", f_tojson},
    {"join", f_join},
    {"list", f_list},
    {"string", f_string},
    {"default", f_default},
    {"d", f_default},
    {"first", f_first},
    {"last", f_last},
    {"reverse", f_reverse},
    {"replace", f_replace},
    {"upper", f_upper},
    {"lower", f_lower},
    {"title", f_title},
    {"capitalize", f_capitalize},
    {"indent", f_indent},
    {"items", f_items},
    {"int", f_int},
    {"abs", f_abs},
    {"sort", f_sort},
    {"unique", f_unique},
    {"select", f_select},
    {"reject", f_reject},
    {"selectattr", f_selectattr},
    {"rejectattr", f_rejectattr},
    {"map", f_map},
    {"safe", f_safe},
    {"dictsort", f_dictsort},
};

j_val
j_filter(j_ctx *cx, j_str name, j_val v, const j_args *a)
{
    if (cx->status != DOP_OK)
        return v;
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (j_eq_lit(name, filters[i].name))
            return filters[i].fn(cx, v, a);
    return j_fail(cx, a->line, DOP_E_INPUT, "filter \"%.*s\" is not known", name.n > 40 ? 40 : (int)name.n, name.s);
}
