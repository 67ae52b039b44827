/* Filters of sequences and mappings. */
#include <string.h>

#include "text/jinja/arena.h"
#include "text/jinja/args.h"
#include "text/jinja/case.h"
#include "text/jinja/filter_list.h"
#include "text/jinja/jinja.h"
#include "text/jinja/number.h"
#include "text/jinja/operator.h"
#include "text/jinja/print.h"
#include "text/jinja/sort.h"
#include "text/jinja/text.h"
#include "text/jinja/value.h"

const dop_j_list *
dop_j_items_of(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, const char *what)
{
    const dop_j_list *l = dop_j_items(cx, v);
    if (!l)
        dop_j_wrong(cx, a, what, v);
    return l;
}

dop_j_val
dop_j_attribute_of(dop_j_ctx *cx, dop_j_val item, dop_j_val attribute, long line)
{
    if (attribute.kind != J_STR)
        return attribute.kind == J_NONE ? item : dop_j_item(cx, item, attribute, line);
    dop_j_str path = attribute.u.str;
    for (bool more = true; more && cx->status == DOP_OK;) {
        const char *dot = path.n ? memchr(path.s, '.', path.n) : NULL;
        const size_t n = dot ? (size_t)(dot - path.s) : path.n;
        const dop_j_str part = {path.s, n};
        dop_j_val key = dop_j_str_val(part);
        size_t digits = 0;
        while (digits < n && part.s[digits] >= '0' && part.s[digits] <= '9')
            digits++;
        if (digits == n && n > 0)
            dop_j_read_int(cx, part, 10, &key);
        item = dop_j_item(cx, item, key, line);
        more = dot != NULL;
        if (more)
            path = (dop_j_str){dot + 1, path.n - n - 1};
    }
    return item;
}

/* Sort key of items: an attribute. Strings compare case-insensitively unless `exact`. */
typedef struct key_rule {
    dop_j_val attribute, other; /* other: replaces an undefined attribute, unless None */
    bool exact;
    long line;
} key_rule;

static key_rule
make_key_rule(const dop_j_args *a, size_t exact, size_t attribute)
{
    const dop_j_val *attr = dop_j_arg(a, attribute, "attribute");
    return (key_rule){attr ? *attr : dop_j_none(), dop_j_none(), dop_j_bool_arg(a, exact, "case_sensitive", false),
                      a->line};
}

static dop_j_val
make_item_key(dop_j_ctx *cx, dop_j_val item, const key_rule *rule)
{
    dop_j_val v = dop_j_attribute_of(cx, item, rule->attribute, rule->line);
    if (v.kind == J_UNDEF && rule->other.kind != J_NONE)
        v = rule->other;
    return v.kind == J_STR && !rule->exact && cx->status == DOP_OK ? dop_j_change_case(cx, v.u.str, CASE_LOWER) : v;
}

/* Returns the sort key of an item. The attribute of `sort` may be several, separated by commas. */
static dop_j_val
make_sort_key(dop_j_ctx *cx, dop_j_val item, const key_rule *rule)
{
    const dop_j_str all = rule->attribute.u.str;
    if (rule->attribute.kind != J_STR || !all.n || !memchr(all.s, ',', all.n))
        return make_item_key(cx, item, rule);
    const dop_j_str comma = {",", 1};
    const dop_j_val parts = dop_j_split(cx, all, &comma, -1), keys = dop_j_new_list(cx, J_TUPLE);
    for (size_t i = 0; cx->status == DOP_OK && i < parts.u.list->n; i++) {
        key_rule one = *rule;
        one.attribute = parts.u.list->items[i];
        dop_j_push(cx, keys, make_item_key(cx, item, &one));
    }
    return keys;
}

/* Returns a list of the items, sorted stably by key. */
static dop_j_val
sort_filter_items(dop_j_ctx *cx, const dop_j_list *l, const key_rule *rule, bool down)
{
    const dop_j_val r = dop_j_new_list(cx, J_LIST);
    const size_t n = l->n;
    dop_j_keyed *a = dop_j_alloc(cx, n * sizeof *a + 1);
    if (!a)
        return r;
    for (size_t i = 0; i < n && cx->status == DOP_OK; i++)
        a[i] = (dop_j_keyed){make_sort_key(cx, l->items[i], rule), l->items[i]};
    dop_j_sort(cx, a, n, down, rule->line);
    for (size_t i = 0; i < n && cx->status == DOP_OK; i++)
        dop_j_push(cx, r, a[i].item);
    return r;
}

static dop_j_val
f_sort(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_list *l = dop_j_items_of(cx, v, a, "sort");
    const key_rule rule = make_key_rule(a, 1, 2);
    return l ? sort_filter_items(cx, l, &rule, dop_j_bool_arg(a, 0, "reverse", false)) : v;
}

dop_j_val
dop_j_pairs(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a)
{
    const dop_j_val r = dop_j_new_list(cx, J_ITER);
    if (v.kind == J_UNDEF)
        return r;
    if (v.kind != J_DICT)
        return dop_j_wrong(cx, a, "items", v);
    for (size_t i = 0; i < v.u.dict->n && cx->status == DOP_OK; i++)
        dop_j_push(cx, r, dop_j_pair(cx, v.u.dict->entries[i].key, v.u.dict->entries[i].val));
    return r;
}

static dop_j_val
f_pairs(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    return dop_j_pairs(cx, v, a);
}

static dop_j_val
f_dictsort(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const bool by_value = dop_j_eq_lit(dop_j_str_arg(cx, a, 1, "by", "key"), "value");
    const key_rule rule = {dop_j_int(by_value), dop_j_none(), dop_j_bool_arg(a, 0, "case_sensitive", false), a->line};
    if (v.kind != J_DICT || cx->status != DOP_OK)
        return dop_j_wrong(cx, a, "dictsort", v);
    const dop_j_list *l = dop_j_items(cx, dop_j_pairs(cx, v, a));
    return l ? sort_filter_items(cx, l, &rule, dop_j_bool_arg(a, 2, "reverse", false)) : v;
}

static dop_j_val
f_groupby(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_val *other = dop_j_arg(a, 1, "default");
    const dop_j_list *l = dop_j_items_of(cx, v, a, "groupby");
    key_rule rule = make_key_rule(a, 2, 0), plain;
    const dop_j_val r = dop_j_new_list(cx, J_LIST);
    dop_j_val last = dop_j_none(), group = dop_j_none();
    rule.other = other ? *other : dop_j_none();
    plain = rule;
    plain.exact = true;
    if (!l || cx->status != DOP_OK)
        return r;
    const dop_j_val all = sort_filter_items(cx, l, &rule, false);
    for (size_t i = 0; cx->status == DOP_OK && i < all.u.list->n; i++) {
        const dop_j_val item = all.u.list->items[i], key = make_item_key(cx, item, &rule);
        if (i == 0 || !dop_j_equal(cx, key, last)) {
            group = dop_j_new_list(cx, J_LIST);
            dop_j_val pair = dop_j_pair(cx, make_item_key(cx, item, &plain), group);
            if (cx->status != DOP_OK)
                break;
            pair.u.list->name = "group"; /* enables the item names `grouper` and `list` */
            dop_j_push(cx, r, pair);
        }
        last = key;
        dop_j_push(cx, group, item);
    }
    return r;
}

static dop_j_val
f_unique(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_list *l = dop_j_items_of(cx, v, a, "unique");
    const key_rule rule = make_key_rule(a, 0, 1);
    const dop_j_val r = dop_j_new_list(cx, J_ITER), seen = dop_j_new_dict(cx, J_DICT);
    for (size_t i = 0; l && i < l->n && cx->status == DOP_OK; i++) {
        const dop_j_val key = make_item_key(cx, l->items[i], &rule);
        if (cx->status != DOP_OK || dop_j_get(cx, seen.u.dict, key))
            continue;
        dop_j_set(cx, seen.u.dict, key, dop_j_none());
        dop_j_push(cx, r, l->items[i]);
    }
    return r;
}

/* min (how < 0) and max (how > 0). */
static dop_j_val
f_extreme(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    const dop_j_list *l = dop_j_items_of(cx, v, a, how < 0 ? "min" : "max");
    const key_rule rule = make_key_rule(a, 0, 1);
    dop_j_val best = dop_j_undef((dop_j_str){"item", 4}), best_key = best;
    for (size_t i = 0; l && i < l->n && cx->status == DOP_OK; i++) {
        const dop_j_val key = make_item_key(cx, l->items[i], &rule);
        bool ok = true;
        const int c = i == 0 || cx->status != DOP_OK ? how : dop_j_order(cx, key, best_key, &ok);
        if (!ok)
            return dop_j_wrong(cx, a, how < 0 ? "min" : "max", key);
        if (c * how > 0) {
            best = l->items[i];
            best_key = key;
        }
    }
    return best;
}

static dop_j_val
f_sum(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_list *l = dop_j_items_of(cx, v, a, "sum");
    const dop_j_val *attr = dop_j_arg(a, 0, "attribute"), *start = dop_j_arg(a, 1, "start");
    dop_j_val total = start ? *start : dop_j_int(0);
    for (size_t i = 0; l && i < l->n && cx->status == DOP_OK; i++) {
        const dop_j_val x = dop_j_attribute_of(cx, l->items[i], attr ? *attr : dop_j_none(), a->line);
        total = dop_j_binary(cx, (dop_j_str){"+", 1}, total, x, a->line);
    }
    return total;
}

static dop_j_val
f_length(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    if (v.kind == J_STR)
        return dop_j_int((int64_t)dop_j_chars(cx, v.u.str));
    if (v.kind == J_DICT)
        return dop_j_int((int64_t)v.u.dict->n);
    if (v.kind == J_LOOP)
        return dop_j_int((int64_t)v.u.loop->items->n);
    if (v.kind == J_UNDEF)
        return dop_j_int(0);
    return dop_j_is_list(v) && v.kind != J_ITER ? dop_j_int((int64_t)v.u.list->n) : dop_j_wrong(cx, a, "length", v);
}

static dop_j_val
f_list(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_list *l = dop_j_items_of(cx, v, a, "list");
    const dop_j_val r = dop_j_new_list(cx, J_LIST);
    for (size_t i = 0; l && i < l->n && cx->status == DOP_OK; i++)
        dop_j_push(cx, r, l->items[i]);
    return r;
}

/* first (how 'f') and last (how 'l'). */
static dop_j_val
f_end(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    if (v.kind == J_STR)
        return dop_j_item(cx, v, dop_j_int(how == 'f' ? 0 : -1), a->line);
    if (v.kind == J_ITER && how == 'f')
        return v.u.list->at < v.u.list->n ? v.u.list->items[v.u.list->at++]
                                          : dop_j_undef((dop_j_str){"first item", 10});
    const dop_j_list *l = v.kind == J_ITER ? NULL : dop_j_items(cx, v);
    if (!l)
        return dop_j_wrong(cx, a, how == 'f' ? "first" : "last", v);
    return l->n ? l->items[how == 'f' ? 0 : l->n - 1] : dop_j_undef((dop_j_str){"item", 4});
}

static dop_j_val
f_reverse(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_list *l = dop_j_items_of(cx, v, a, "reverse");
    const dop_j_val r = dop_j_new_list(cx, v.kind == J_ITER || v.kind == J_STR ? J_LIST : J_ITER);
    for (size_t i = l ? l->n : 0; i > 0 && cx->status == DOP_OK; i--)
        dop_j_push(cx, r, l->items[i - 1]);
    return v.kind == J_STR && cx->status == DOP_OK ? dop_j_join(cx, r.u.list, (dop_j_str){"", 0}) : r;
}

static dop_j_val
f_join(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_list *l = dop_j_items_of(cx, v, a, "join");
    const dop_j_val *attr = dop_j_arg(a, 1, "attribute"), *sep = dop_j_arg(a, 0, "d");
    const dop_j_val picked = dop_j_new_list(cx, J_LIST);
    for (size_t i = 0; l && attr && i < l->n && cx->status == DOP_OK; i++)
        dop_j_push(cx, picked, dop_j_attribute_of(cx, l->items[i], *attr, a->line));
    if (!l || cx->status != DOP_OK)
        return v;
    const dop_j_str between = sep ? dop_j_string(cx, *sep).u.str : (dop_j_str){"", 0};
    return dop_j_join(cx, attr ? picked.u.list : l, between);
}

/* batch: splits a list into lists of N consecutive items. */
static dop_j_val
f_batch(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_list *l = dop_j_items_of(cx, v, a, "batch");
    const dop_j_val *fill = dop_j_arg(a, 1, "fill_with");
    const int64_t n = dop_j_int_arg(cx, a, 0, "linecount", 0);
    const dop_j_val r = dop_j_new_list(cx, J_ITER);
    dop_j_val part = r;
    for (size_t i = 0; l && i < l->n && cx->status == DOP_OK; i++) {
        if (i == 0 || (int64_t)part.u.list->n == n) {
            part = dop_j_new_list(cx, J_LIST);
            dop_j_push(cx, r, part);
        }
        dop_j_push(cx, part, l->items[i]);
    }
    while (l && l->n && fill && fill->kind != J_NONE && cx->status == DOP_OK && (int64_t)part.u.list->n < n)
        dop_j_push(cx, part, *fill);
    return r;
}

/* slice: splits a list into N lists of about equal length. */
static dop_j_val
f_slice(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_list *l = dop_j_items_of(cx, v, a, "slice");
    const dop_j_val *fill = dop_j_arg(a, 1, "fill_with");
    const int64_t n = dop_j_int_arg(cx, a, 0, "slices", 0);
    const dop_j_val r = dop_j_new_list(cx, J_ITER);
    if (n <= 0)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "slice: the number of slices is not positive");
    size_t at = 0;
    for (int64_t i = 0; l && i < n && cx->status == DOP_OK; i++) {
        const dop_j_val part = dop_j_new_list(cx, J_LIST);
        const size_t extra = l->n % (size_t)n, end = at + l->n / (size_t)n + ((size_t)i < extra ? 1 : 0);
        for (; at < end && cx->status == DOP_OK; at++)
            dop_j_push(cx, part, l->items[at]);
        if (fill && fill->kind != J_NONE && (size_t)i >= extra)
            dop_j_push(cx, part, *fill);
        dop_j_push(cx, r, part);
    }
    return r;
}

const dop_j_filter_row dop_j_list_filters[] = {
    {"length", f_length, 0}, {"count", f_length, 0},    {"list", f_list, 0},         {"first", f_end, 'f'},
    {"last", f_end, 'l'},    {"reverse", f_reverse, 0}, {"join", f_join, 0},         {"sort", f_sort, 0},
    {"unique", f_unique, 0}, {"items", f_pairs, 0},     {"dictsort", f_dictsort, 0}, {"groupby", f_groupby, 0},
    {"min", f_extreme, -1},  {"max", f_extreme, 1},     {"sum", f_sum, 0},           {"batch", f_batch, 0},
    {"slice", f_slice, 0},   {NULL, NULL, 0},
};
