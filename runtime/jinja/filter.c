/* Filters that chat templates use, by table. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "runtime/jinja/jinja.h"

static dop_j_val
string_of(dop_j_ctx *cx, dop_j_val v)
{
    dop_j_out o = {0};
    if (v.kind == J_STR)
        return v;
    dop_j_print(cx, &o, v);
    return dop_j_take(&o);
}

/* ---- text ---- */

static dop_j_val
indent_text(dop_j_ctx *cx, dop_j_str s, dop_j_str by, bool first, bool blank)
{
    dop_j_out o = {0};
    bool start = first;
    for (size_t i = 0; i < s.n && cx->status == DOP_OK; i++) {
        if (start && (blank || s.s[i] != '\n'))
            dop_j_put(cx, &o, by.s, by.n);
        dop_j_put(cx, &o, s.s + i, 1);
        start = s.s[i] == '\n';
    }
    if (start && blank)
        dop_j_put(cx, &o, by.s, by.n);
    return dop_j_take(&o);
}

/* ---- filters ---- */

typedef dop_j_val filter_fn(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a);

static dop_j_val
f_trim(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const dop_j_val *c = dop_j_arg(a, 0, "chars");
    dop_j_str s = string_of(cx, v).u.str;
    s = cx->status == DOP_OK ? dop_j_strip(s, c && c->kind == J_STR ? &c->u.str : NULL, true, true)
                             : (dop_j_str){"", 0};
    return dop_j_text(s.s, s.n);
}

static dop_j_val
f_length(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    if (v.kind == J_STR)
        return dop_j_int((int64_t)dop_j_chars(v.u.str));
    const dop_j_list *l = dop_j_items(cx, v);
    return l ? dop_j_int((int64_t)l->n) : dop_j_wrong(cx, a, "length", v);
}

/* The arguments of the filter that transformers puts in the place of Jinja's own. */
static dop_j_val
f_tojson(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    dop_j_out o = {0};
    const dop_j_val *separators = dop_j_arg(a, 2, "separators");
    dop_j_json_form form = {.indent = dop_j_int_arg(a, 1, "indent", -1),
                            .between = {", ", 2},
                            .behind_name = {": ", 2},
                            .ascii = dop_j_int_arg(a, 0, "ensure_ascii", 0) != 0,
                            .sort = dop_j_int_arg(a, 3, "sort_keys", 0) != 0};
    if (form.indent > 64)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "tojson: an indent of more than 64");
    if (form.indent >= 0)
        form.between.n = 1;
    if (separators && separators->kind != J_NONE) {
        const dop_j_list *two = separators->kind == J_LIST ? separators->u.list : NULL;
        if (!two || two->n != 2 || two->items[0].kind != J_STR || two->items[1].kind != J_STR)
            return dop_j_fail(cx, a->line, DOP_E_INPUT, "tojson: separators are two strings");
        form.between = two->items[0].u.str;
        form.behind_name = two->items[1].u.str;
    }
    dop_j_json(cx, &o, v, &form, 0);
    return dop_j_take(&o);
}

/* Attribute named by a filter argument, dots going deeper. */
static dop_j_val
deep_attribute(dop_j_ctx *cx, dop_j_val v, dop_j_str path, long line)
{
    while (path.n && cx->status == DOP_OK && v.kind != J_UNDEF) {
        const char *dot = memchr(path.s, '.', path.n);
        size_t n = dot ? (size_t)(dot - path.s) : path.n;
        v = dop_j_attribute(cx, v, (dop_j_str){path.s, n}, line);
        path.s += n + (dot ? 1 : 0);
        path.n -= n + (dot ? 1 : 0);
    }
    return v;
}

static dop_j_val
f_join(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const dop_j_list *l = dop_j_items(cx, v);
    const dop_j_val *attr = dop_j_arg(a, 1, "attribute");
    if (!l)
        return dop_j_wrong(cx, a, "join", v);
    if (attr && attr->kind == J_STR) {
        dop_j_val picked = dop_j_new_list(cx);
        for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++)
            dop_j_push(cx, picked.u.list, deep_attribute(cx, l->items[i], attr->u.str, a->line));
        l = cx->status == DOP_OK ? picked.u.list : l;
    }
    return dop_j_join(cx, l, dop_j_str_arg(cx, a, 0, "d", ""));
}

static dop_j_val
f_list(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const dop_j_list *l = dop_j_items(cx, v);
    dop_j_val r = dop_j_new_list(cx);
    if (!l)
        return dop_j_wrong(cx, a, "list", v);
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++)
        dop_j_push(cx, r.u.list, l->items[i]);
    return r;
}

static dop_j_val
f_string(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    (void)a;
    return string_of(cx, v);
}

static dop_j_val
f_default(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const dop_j_val *other = dop_j_arg(a, 0, "default_value");
    bool falsy = dop_j_int_arg(a, 1, "boolean", 0) != 0;
    (void)cx;
    if (v.kind == J_UNDEF || (falsy && !dop_j_truth(v)))
        return other ? *other : dop_j_lit("");
    return v;
}

static dop_j_val
f_first(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const dop_j_list *l = dop_j_items(cx, v);
    return !l ? dop_j_wrong(cx, a, "first", v) : l->n ? l->items[0] : dop_j_undef((dop_j_str){"first item", 10});
}

static dop_j_val
f_last(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const dop_j_list *l = dop_j_items(cx, v);
    return !l ? dop_j_wrong(cx, a, "last", v) : l->n ? l->items[l->n - 1] : dop_j_undef((dop_j_str){"last item", 9});
}

static dop_j_val
f_reverse(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const dop_j_list *l = dop_j_items(cx, v);
    dop_j_val r = dop_j_new_list(cx);
    if (!l)
        return dop_j_wrong(cx, a, "reverse", v);
    for (size_t i = l->n; i > 0 && cx->status == DOP_OK; i--)
        dop_j_push(cx, r.u.list, l->items[i - 1]);
    return v.kind == J_STR && cx->status == DOP_OK ? dop_j_join(cx, r.u.list, (dop_j_str){"", 0}) : r;
}

static dop_j_val
f_replace(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    dop_j_str from = dop_j_str_arg(cx, a, 0, "old", ""), to = dop_j_str_arg(cx, a, 1, "new", "");
    dop_j_val s = string_of(cx, v);
    return cx->status == DOP_OK ? dop_j_replace(cx, s.u.str, from, to, dop_j_int_arg(a, 2, "count", -1)) : s;
}

static dop_j_val
f_upper(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    (void)a;
    v = string_of(cx, v);
    return cx->status == DOP_OK ? dop_j_change_case(cx, v.u.str, CASE_UPPER) : v;
}

static dop_j_val
f_lower(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    (void)a;
    v = string_of(cx, v);
    return cx->status == DOP_OK ? dop_j_change_case(cx, v.u.str, CASE_LOWER) : v;
}

/* What Jinja takes for words: each begins with a capital. */
static dop_j_val
title_words(dop_j_ctx *cx, dop_j_str s)
{
    dop_j_out o = {0};
    for (size_t i = 0; i < s.n && cx->status == DOP_OK;) {
        const size_t from = i;
        for (bool first = true; i < s.n; first = false) {
            dop_utf8_char u = dop_utf8_next(s.s + i, s.n - i);
            if (!first && (dop_j_is_space(u.cp) || (u.cp < 0x80 && strchr("-({[<", (int)u.cp))))
                break;
            i += u.len;
            if (first && (dop_j_is_space(u.cp) || (u.cp < 0x80 && strchr("-({[<", (int)u.cp))))
                break;
        }
        dop_j_str word = dop_j_change_case(cx, (dop_j_str){s.s + from, i - from}, CASE_CAPITAL).u.str;
        if (cx->status == DOP_OK)
            dop_j_put(cx, &o, word.s, word.n);
    }
    return dop_j_take(&o);
}

static dop_j_val
f_title(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    (void)a;
    v = string_of(cx, v);
    return cx->status == DOP_OK ? title_words(cx, v.u.str) : v;
}

static dop_j_val
f_capitalize(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    (void)a;
    v = string_of(cx, v);
    return cx->status == DOP_OK ? dop_j_change_case(cx, v.u.str, CASE_CAPITAL) : v;
}

static dop_j_val
f_indent(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const dop_j_val *by = dop_j_arg(a, 0, "width");
    int64_t width = dop_j_int_arg(a, 0, "width", 4);
    char spaces[256];
    memset(spaces, ' ', sizeof spaces);
    if (v.kind != J_STR || width < 0 || width > 256)
        return dop_j_wrong(cx, a, "indent", v);
    return indent_text(cx, v.u.str, by && by->kind == J_STR ? by->u.str : (dop_j_str){spaces, (size_t)width},
                       dop_j_int_arg(a, 1, "first", 0) != 0, dop_j_int_arg(a, 2, "blank", 0) != 0);
}

static dop_j_val
f_items(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    dop_j_val r = dop_j_new_list(cx);
    if (v.kind == J_UNDEF)
        return r;
    if (v.kind != J_DICT)
        return dop_j_wrong(cx, a, "items", v);
    for (size_t i = 0; i < v.u.dict->n && cx->status == DOP_OK; i++) {
        dop_j_val pair = dop_j_new_list(cx);
        if (cx->status != DOP_OK)
            break;
        dop_j_push(cx, pair.u.list, dop_j_text(v.u.dict->keys[i].s, v.u.dict->keys[i].n));
        dop_j_push(cx, pair.u.list, v.u.dict->vals[i]);
        dop_j_push(cx, r.u.list, pair);
    }
    return r;
}

static dop_j_val
f_int(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    (void)cx;
    if (v.kind == J_STR && v.u.str.n < 32) {
        char t[32], *end;
        memcpy(t, v.u.str.s, v.u.str.n);
        t[v.u.str.n] = 0;
        double d = strtod(t, &end);
        v = end != t && *end == 0 ? (dop_j_val){.kind = J_FLOAT, .u.f = d} : v;
    }
    if (v.kind == J_FLOAT && fabs(v.u.f) < 0x1p63)
        return dop_j_int((int64_t)v.u.f);
    return v.kind == J_INT || v.kind == J_BIG ? v
           : v.kind == J_BOOL                 ? dop_j_int(v.u.b)
                                              : dop_j_int(dop_j_int_arg(a, 0, "default", 0));
}

static dop_j_val
f_abs(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    if (v.kind == J_INT && v.u.i != INT64_MIN)
        return dop_j_int(v.u.i < 0 ? -v.u.i : v.u.i);
    return v.kind == J_FLOAT ? (dop_j_val){.kind = J_FLOAT, .u.f = fabs(v.u.f)} : dop_j_wrong(cx, a, "abs", v);
}

/* Order of two items; strings without regard to (ASCII) case unless `exact`, as Jinja sorts. */
static int
order_items(dop_j_val a, dop_j_val b, bool exact, bool *ok)
{
    if (exact || a.kind != J_STR || b.kind != J_STR)
        return dop_j_order(a, b, ok);
    *ok = true;
    for (size_t i = 0; i < a.u.str.n && i < b.u.str.n; i++) {
        int x = tolower((unsigned char)a.u.str.s[i]), y = tolower((unsigned char)b.u.str.s[i]);
        if (x != y)
            return x < y ? -1 : 1;
    }
    return a.u.str.n < b.u.str.n ? -1 : a.u.str.n > b.u.str.n;
}

enum { max_sort = 4096 }; /* items that sort and unique take: both are quadratic */

/* Sorting must be stable.  Lists are short, so insertion sort will do. */
static dop_j_val
f_sort(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const dop_j_val *attr = dop_j_arg(a, 2, "attribute");
    bool down = dop_j_int_arg(a, 0, "reverse", 0) != 0, exact = dop_j_int_arg(a, 1, "case_sensitive", 0) != 0, ok;
    dop_j_val r = f_list(cx, v, a);
    if (cx->status != DOP_OK)
        return r;
    if (r.u.list->n > max_sort)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "sort: more than %d items", max_sort);
    for (size_t i = 1; i < r.u.list->n; i++) {
        dop_j_val x = r.u.list->items[i];
        size_t k = i;
        for (; k > 0 && cx->status == DOP_OK; k--) {
            dop_j_val y = r.u.list->items[k - 1], xa = x, ya = y;
            if (attr && attr->kind == J_STR) {
                xa = deep_attribute(cx, x, attr->u.str, a->line);
                ya = deep_attribute(cx, y, attr->u.str, a->line);
            }
            int c = order_items(xa, ya, exact, &ok);
            if (!ok)
                return dop_j_wrong(cx, a, "sort", xa);
            if (down ? c <= 0 : c >= 0)
                break;
            r.u.list->items[k] = y;
        }
        r.u.list->items[k] = x;
    }
    return r;
}

static dop_j_val
f_unique(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const dop_j_list *l = dop_j_items(cx, v);
    bool exact = dop_j_int_arg(a, 0, "case_sensitive", 0) != 0, ok;
    dop_j_val r = dop_j_new_list(cx);
    if (!l || l->n > max_sort)
        return dop_j_wrong(cx, a, "unique", v);
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++) {
        bool seen = false;
        for (size_t k = 0; k < r.u.list->n && !seen; k++)
            seen = dop_j_equal(r.u.list->items[k], l->items[i], 0) ||
                   (order_items(r.u.list->items[k], l->items[i], exact, &ok) == 0 && ok);
        if (!seen)
            dop_j_push(cx, r.u.list, l->items[i]);
    }
    return r;
}

/* select, reject, selectattr, rejectattr. */
static dop_j_val
pick(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, bool by_attr, bool keep)
{
    /* A false value is taken for an empty list. */
    const dop_j_list *l = dop_j_items(cx, dop_j_truth(v) ? v : dop_j_undef((dop_j_str){"", 0}));
    size_t skip = by_attr ? 1 : 0;
    dop_j_val r = dop_j_new_list(cx);
    if (!l || (by_attr && (a->n < 1 || a->pos[0].kind != J_STR)) || (a->n > skip && a->pos[skip].kind != J_STR))
        return dop_j_wrong(cx, a, "select", v);
    dop_j_args rest = {.line = a->line};
    if (a->n > skip + 1) {
        rest.pos = a->pos + skip + 1;
        rest.n = a->n - skip - 1;
    }
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++) {
        dop_j_val x = by_attr ? deep_attribute(cx, l->items[i], a->pos[0].u.str, a->line) : l->items[i];
        bool yes = a->n > skip ? dop_j_test(cx, a->pos[skip].u.str, x, &rest) : dop_j_truth(x);
        if (yes == keep)
            dop_j_push(cx, r.u.list, l->items[i]);
    }
    return r;
}

static dop_j_val
f_select(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    return pick(cx, v, a, false, true);
}

static dop_j_val
f_reject(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    return pick(cx, v, a, false, false);
}

static dop_j_val
f_selectattr(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    return pick(cx, v, a, true, true);
}

static dop_j_val
f_rejectattr(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    return pick(cx, v, a, true, false);
}

static dop_j_val
f_map(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const dop_j_list *l = dop_j_items(cx, dop_j_truth(v) ? v : dop_j_undef((dop_j_str){"", 0}));
    const dop_j_val *attr = dop_j_arg(a, SIZE_MAX, "attribute"), *other = dop_j_arg(a, SIZE_MAX, "default");
    dop_j_val r = dop_j_new_list(cx);
    dop_j_args rest = {.line = a->line};
    if (!l || (!attr && (a->n < 1 || a->pos[0].kind != J_STR)) || (attr && attr->kind != J_STR))
        return dop_j_wrong(cx, a, "map", v);
    if (a->n > 1) {
        rest.pos = a->pos + 1;
        rest.n = a->n - 1;
    }
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++) {
        dop_j_val x = attr ? deep_attribute(cx, l->items[i], attr->u.str, a->line)
                           : dop_j_filter(cx, a->pos[0].u.str, l->items[i], &rest);
        dop_j_push(cx, r.u.list, x.kind == J_UNDEF && other ? *other : x);
    }
    return r;
}

static dop_j_val
f_safe(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    (void)cx;
    (void)a;
    return v;
}

static dop_j_val
f_dictsort(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const bool exact = dop_j_int_arg(a, 0, "case_sensitive", 0) != 0, down = dop_j_int_arg(a, 2, "reverse", 0) != 0;
    const size_t by = dop_j_eq_lit(dop_j_str_arg(cx, a, 1, "by", "key"), "value") ? 1 : 0;
    dop_j_val l = cx->status == DOP_OK ? f_items(cx, v, a) : v;
    if (cx->status != DOP_OK)
        return l;
    for (size_t i = 1; i < l.u.list->n; i++) {
        dop_j_val x = l.u.list->items[i];
        size_t k = i;
        for (; k > 0; k--) {
            bool ok;
            int c = order_items(x.u.list->items[by], l.u.list->items[k - 1].u.list->items[by], exact, &ok);
            if (!ok)
                return dop_j_wrong(cx, a, "dictsort", x.u.list->items[by]);
            if (down ? c <= 0 : c >= 0)
                break;
            l.u.list->items[k] = l.u.list->items[k - 1];
        }
        l.u.list->items[k] = x;
    }
    return l;
}

/* ---- numbers ---- */

static dop_j_val
f_float(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    (void)cx;
    dop_j_val r = {.kind = J_FLOAT};
    char t[64], *end;
    if (v.kind == J_STR && v.u.str.n < sizeof t) {
        memcpy(t, v.u.str.s, v.u.str.n);
        t[v.u.str.n] = 0;
        r.u.f = strtod(t, &end);
        if (end != t && *end == 0)
            return r;
    }
    const dop_j_val *other = dop_j_arg(a, 0, "default");
    r.u.f = v.kind == J_INT ? (double)v.u.i : v.kind == J_BOOL ? (double)v.u.b : v.kind == J_FLOAT ? v.u.f : 0;
    return other && v.kind != J_INT && v.kind != J_BOOL && v.kind != J_FLOAT ? *other : r;
}

/* Half to even, as Python's round(); "ceil" and "floor" as Jinja has them. */
static dop_j_val
f_round(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const int64_t digits = dop_j_int_arg(a, 0, "precision", 0);
    dop_j_str how = dop_j_str_arg(cx, a, 1, "method", "common");
    double f = v.kind == J_INT ? (double)v.u.i : v.u.f, by = pow(10, (double)digits);
    char t[400];
    if ((v.kind != J_INT && v.kind != J_FLOAT) || digits < 0 || digits > 15)
        return dop_j_wrong(cx, a, "round", v);
    if (v.kind == J_INT && dop_j_eq_lit(how, "common"))
        return v;
    if (dop_j_eq_lit(how, "common"))
        f = snprintf(t, sizeof t, "%.*f", (int)digits, f) < (int)sizeof t ? strtod(t, NULL) : f;
    else
        f = (dop_j_eq_lit(how, "ceil") ? ceil(f * by) : floor(f * by)) / by;
    return (dop_j_val){.kind = J_FLOAT, .u.f = f};
}

/* The least or the greatest item. */
static dop_j_val
extreme(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int sign)
{
    const dop_j_list *l = dop_j_items(cx, v);
    const dop_j_val *attr = dop_j_arg(a, 1, "attribute");
    const bool exact = dop_j_int_arg(a, 0, "case_sensitive", 0) != 0;
    dop_j_val best = dop_j_undef((dop_j_str){"item", 4}), best_key = best;
    if (!l)
        return dop_j_wrong(cx, a, sign < 0 ? "min" : "max", v);
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++) {
        dop_j_val key = l->items[i];
        bool ok = true;
        if (attr && attr->kind == J_STR)
            key = deep_attribute(cx, key, attr->u.str, a->line);
        const int c = i == 0 ? sign : order_items(key, best_key, exact, &ok);
        if (!ok)
            return dop_j_wrong(cx, a, sign < 0 ? "min" : "max", key);
        if (c * sign > 0) {
            best = l->items[i];
            best_key = key;
        }
    }
    return best;
}

static dop_j_val
f_min(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    return extreme(cx, v, a, -1);
}

static dop_j_val
f_max(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    return extreme(cx, v, a, 1);
}

static dop_j_val
f_sum(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const dop_j_list *l = dop_j_items(cx, v);
    const dop_j_val *attr = dop_j_arg(a, 0, "attribute");
    int64_t whole = dop_j_int_arg(a, 1, "start", 0);
    double real = (double)whole;
    bool is_whole = true;
    if (!l)
        return dop_j_wrong(cx, a, "sum", v);
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++) {
        dop_j_val x = l->items[i];
        if (attr && attr->kind == J_STR)
            x = deep_attribute(cx, x, attr->u.str, a->line);
        if (x.kind != J_INT && x.kind != J_FLOAT && x.kind != J_BOOL)
            return dop_j_wrong(cx, a, "sum", x);
        is_whole &= x.kind != J_FLOAT && !__builtin_add_overflow(whole, x.kind == J_INT ? x.u.i : x.u.b, &whole);
        real += x.kind == J_INT ? (double)x.u.i : x.kind == J_BOOL ? (double)x.u.b : x.u.f;
    }
    return is_whole ? dop_j_int(whole) : (dop_j_val){.kind = J_FLOAT, .u.f = real};
}

/* ---- others ---- */

static dop_j_val
f_attr(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    dop_j_str name = dop_j_str_arg(cx, a, 0, "name", ""); /* a member of a mapping is no attribute of it */
    return cx->status != DOP_OK || v.kind == J_DICT ? dop_j_undef(name) : dop_j_attribute(cx, v, name, a->line);
}

static dop_j_val
f_escape(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    static const struct {
        char c;
        const char *text;
    } signs[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&#34;"}, {'\'', "&#39;"}};
    dop_j_out o = {0};
    (void)a;
    v = string_of(cx, v);
    for (size_t i = 0; cx->status == DOP_OK && i < v.u.str.n; i++) {
        const char *text = NULL;
        for (size_t k = 0; k < sizeof signs / sizeof *signs; k++)
            text = signs[k].c == v.u.str.s[i] ? signs[k].text : text;
        dop_j_put(cx, &o, text ? text : v.u.str.s + i, text ? strlen(text) : 1);
    }
    return dop_j_take(&o);
}

static dop_j_val
f_format(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    v = string_of(cx, v);
    return cx->status == DOP_OK ? dop_j_format(cx, v.u.str, a->pos, a->n, a->line) : v;
}

/* Lists of N neighbours. */
static dop_j_val
f_batch(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const dop_j_list *l = dop_j_items(cx, v);
    const dop_j_val *fill = dop_j_arg(a, 1, "fill_with");
    const int64_t n = dop_j_int_arg(a, 0, "linecount", 0);
    dop_j_val r = dop_j_new_list(cx), part = r;
    if (!l || n < 1 || n > max_sort)
        return dop_j_wrong(cx, a, "batch", v);
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++) {
        if (i % (size_t)n == 0) {
            part = dop_j_new_list(cx);
            dop_j_push(cx, r.u.list, part);
        }
        if (cx->status == DOP_OK)
            dop_j_push(cx, part.u.list, l->items[i]);
    }
    while (fill && fill->kind != J_NONE && l->n > 0 && cx->status == DOP_OK && part.u.list->n < (size_t)n)
        dop_j_push(cx, part.u.list, *fill);
    return r;
}

/* Pairs of a value of the attribute and the items that have it, in the order of the values. */
static dop_j_val
f_groupby(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    dop_j_str attr = dop_j_str_arg(cx, a, 0, "attribute", "");
    const dop_j_val by[3] = {dop_j_bool(false), dop_j_bool(false), {.kind = J_STR, .u.str = attr}};
    dop_j_val all = f_sort(cx, v, &(dop_j_args){.pos = by, .n = 3, .line = a->line}), r = dop_j_new_list(cx);
    const dop_j_list *group = NULL;
    for (size_t i = 0; cx->status == DOP_OK && i < all.u.list->n; i++) {
        bool ok;
        dop_j_val key = deep_attribute(cx, all.u.list->items[i], attr, a->line);
        if (!group || order_items(group->items[0], key, false, &ok) != 0) {
            dop_j_val pair = dop_j_new_list(cx), items = dop_j_new_list(cx);
            if (cx->status != DOP_OK)
                break;
            dop_j_push(cx, pair.u.list, key);
            dop_j_push(cx, pair.u.list, items);
            dop_j_push(cx, r.u.list, pair);
            group = pair.u.list;
        }
        if (cx->status == DOP_OK)
            dop_j_push(cx, group->items[1].u.list, all.u.list->items[i]);
    }
    return r;
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
    {"float", f_float},
    {"round", f_round},
    {"min", f_min},
    {"max", f_max},
    {"sum", f_sum},
    {"attr", f_attr},
    {"escape", f_escape},
    {"e", f_escape},
    {"format", f_format},
    {"batch", f_batch},
    {"groupby", f_groupby},
};

dop_j_val
dop_j_filter(dop_j_ctx *cx, dop_j_str name, dop_j_val v, const dop_j_args *a)
{
    if (cx->status != DOP_OK)
        return v;
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (dop_j_eq_lit(name, filters[i].name))
            return filters[i].fn(cx, v, a);
    return dop_j_fail(cx, a->line, DOP_E_INPUT, "filter \"%.*s\" is not known", name.n > 40 ? 40 : (int)name.n, name.s);
}
