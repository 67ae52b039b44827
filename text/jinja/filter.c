/* Dispatch of filters and tests by name, and the filters that call other filters or tests. */
#include <math.h>
#include <string.h>

#include "text/jinja/arena.h"
#include "text/jinja/args.h"
#include "text/jinja/call.h"
#include "text/jinja/filter.h"
#include "text/jinja/filter_list.h"
#include "text/jinja/jinja.h"
#include "text/jinja/method.h"
#include "text/jinja/operator.h"
#include "text/jinja/print.h"
#include "text/jinja/value.h"

/* ---- tests ---- */

/* Tests that depend only on the value's kind. */
static const struct {
    const char *name;
    unsigned kinds; /* bit mask, one bit per dop_j_kind */
} kind_tests[] = {
    {"defined", ~(1u << J_UNDEF)},
    {"undefined", 1u << J_UNDEF},
    {"none", 1u << J_NONE},
    {"string", 1u << J_STR},
    {"mapping", 1u << J_DICT},
    {"iterable", 1u << J_STR | 1u << J_LIST | 1u << J_TUPLE | 1u << J_RANGE | 1u << J_VIEW | 1u << J_ITER |
                     1u << J_DICT | 1u << J_UNDEF | 1u << J_LOOP},
    {"sequence", 1u << J_STR | 1u << J_LIST | 1u << J_TUPLE | 1u << J_RANGE | 1u << J_DICT | 1u << J_UNDEF},
    {"number", 1u << J_INT | 1u << J_FLOAT | 1u << J_BOOL | 1u << J_BIG},
    {"integer", 1u << J_INT | 1u << J_BIG},
    {"float", 1u << J_FLOAT},
    {"boolean", 1u << J_BOOL},
    {"callable", 1u << J_MACRO | 1u << J_FUNCTION | 1u << J_METHOD | 1u << J_LOOP | 1u << J_JOINER | 1u << J_UNDEF},
};

static const struct {
    const char *name, *op;
} order_tests[] = {
    {"equalto", "=="},    {"eq", "=="}, {"==", "=="}, {"ne", "!="}, {"!=", "!="}, {"lt", "<"},
    {"lessthan", "<"},    {"<", "<"},   {"le", "<="}, {"<=", "<="}, {"gt", ">"},  {">", ">"},
    {"greaterthan", ">"}, {"ge", ">="}, {">=", ">="}, {"in", "in"},
};

/* True if the two values are the same object in Python ("is"), as far as templates can observe. */
static bool
is_same_object(dop_j_val a, dop_j_val b)
{
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case J_NONE:
        return true;
    case J_BOOL:
        return a.u.b == b.u.b;
    case J_INT: /* equal small integers are the same object in Python */
        return a.u.i == b.u.i;
    case J_STR:
        return dop_j_str_eq(a.u.str, b.u.str);
    case J_DICT:
    case J_NAMESPACE:
        return a.u.dict == b.u.dict;
    default:
        return dop_j_is_list(a) && a.u.list == b.u.list;
    }
}

static bool
is_test_name(dop_j_str name)
{
    static const char *const others[] = {"true",  "false", "odd",     "even",   "divisibleby", "sameas",
                                         "lower", "upper", "escaped", "filter", "test"};
    bool known = false;
    for (size_t i = 0; i < sizeof kind_tests / sizeof *kind_tests; i++)
        known |= dop_j_eq_lit(name, kind_tests[i].name);
    for (size_t i = 0; i < sizeof order_tests / sizeof *order_tests; i++)
        known |= dop_j_eq_lit(name, order_tests[i].name);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        known |= dop_j_eq_lit(name, others[i]);
    return known;
}

/* Implements odd, even and divisibleby. */
static bool
test_remainder(dop_j_ctx *cx, dop_j_val v, dop_j_val by, int64_t rest, const dop_j_args *a)
{
    double f;
    const dop_j_val r = dop_j_number(v, &f) ? dop_j_binary(cx, (dop_j_str){"%", 1}, v, by, a->line)
                                            : dop_j_wrong(cx, a, "this test", v);
    return cx->status == DOP_OK && dop_j_equal(cx, r, dop_j_int(rest));
}

static bool
test_letter_case(dop_j_ctx *cx, dop_j_val v, const char *method)
{
    const dop_j_val s = dop_j_string(cx, v);
    const dop_j_args none = {0};
    return cx->status == DOP_OK &&
           dop_j_truth(dop_j_call_method(cx, s, dop_j_find_method(J_STR, dop_j_lit(method).u.str), &none));
}

bool
dop_j_test(dop_j_ctx *cx, dop_j_str name, dop_j_val v, const dop_j_args *a)
{
    const dop_j_val arg = a->n ? a->pos[0] : a->named_n ? a->named[0] : dop_j_none();
    const bool has_arg = a->n || a->named_n;
    for (size_t i = 0; i < sizeof kind_tests / sizeof *kind_tests; i++)
        if (dop_j_eq_lit(name, kind_tests[i].name))
            return (kind_tests[i].kinds >> v.kind) & 1u;
    for (size_t i = 0; i < sizeof order_tests / sizeof *order_tests; i++)
        if (has_arg && dop_j_eq_lit(name, order_tests[i].name))
            return dop_j_compare(cx, dop_j_lit(order_tests[i].op).u.str, v, arg, a->line);
    if (dop_j_eq_lit(name, "true") || dop_j_eq_lit(name, "false"))
        return v.kind == J_BOOL && v.u.b == dop_j_eq_lit(name, "true");
    if (dop_j_eq_lit(name, "odd") || dop_j_eq_lit(name, "even"))
        return test_remainder(cx, v, dop_j_int(2), dop_j_eq_lit(name, "odd"), a);
    if (has_arg && dop_j_eq_lit(name, "divisibleby"))
        return test_remainder(cx, v, arg, 0, a);
    if (has_arg && dop_j_eq_lit(name, "sameas"))
        return is_same_object(v, arg);
    if (dop_j_eq_lit(name, "lower") || dop_j_eq_lit(name, "upper"))
        return test_letter_case(cx, v, name.s[0] == 'l' ? "islower" : "isupper");
    if (dop_j_eq_lit(name, "escaped"))
        return v.kind == J_STR && v.safe;
    if (arg.kind == J_STR || v.kind == J_STR) {
        const dop_j_str what = arg.kind == J_STR ? arg.u.str : v.u.str;
        if (dop_j_eq_lit(name, "filter"))
            return dop_j_has_filter(what);
        if (dop_j_eq_lit(name, "test"))
            return is_test_name(what);
    }
    dop_j_fail(cx, a->line, DOP_E_INPUT, "test \"%.*s\" is not known%s", name.n > 40 ? 40 : (int)name.n, name.s,
               has_arg ? "" : ", or needs an argument");
    return false;
}

/* ---- filters ---- */

/* select, reject, selectattr, rejectattr. how: bit 0: keep items that pass the test; bit 1: test an attribute. */
static dop_j_val
f_pick(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    const size_t skip = how & 2 ? 1 : 0;
    const dop_j_val r = dop_j_new_list(cx, J_ITER);
    if (!dop_j_truth(v))
        return r;
    const dop_j_list *l = dop_j_items_of(cx, v, a, "select");
    if (!l || a->n < skip || (a->n > skip && a->pos[skip].kind != J_STR))
        return dop_j_wrong(cx, a, "select", v);
    dop_j_args rest = {.line = a->line, .names = a->names, .named = a->named, .named_n = a->named_n};
    if (a->n > skip + 1) {
        rest.pos = a->pos + skip + 1;
        rest.n = a->n - skip - 1;
    }
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++) {
        const dop_j_val x = skip ? dop_j_attribute_of(cx, l->items[i], a->pos[0], a->line) : l->items[i];
        const bool yes = a->n > skip ? dop_j_test(cx, a->pos[skip].u.str, x, &rest) : dop_j_truth(x);
        if (yes == ((how & 1) != 0))
            dop_j_push(cx, r, l->items[i]);
    }
    return r;
}

static dop_j_val
f_map(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_val *attr = a->n ? NULL : dop_j_arg(a, SIZE_MAX, "attribute"),
                    *other = dop_j_arg(a, SIZE_MAX, "default");
    const dop_j_val r = dop_j_new_list(cx, J_ITER);
    if (!dop_j_truth(v))
        return r;
    const dop_j_list *l = dop_j_items_of(cx, v, a, "map");
    dop_j_args rest = {.line = a->line, .names = a->names, .named = a->named, .named_n = a->named_n};
    if (!l || (!attr && (a->n < 1 || a->pos[0].kind != J_STR)))
        return dop_j_wrong(cx, a, "map", v);
    if (a->n > 1) {
        rest.pos = a->pos + 1;
        rest.n = a->n - 1;
    }
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++) {
        const dop_j_val x = attr ? dop_j_attribute_of(cx, l->items[i], *attr, a->line)
                                 : dop_j_filter(cx, a->pos[0].u.str, l->items[i], &rest);
        dop_j_push(cx, r, attr && x.kind == J_UNDEF && other && other->kind != J_NONE ? *other : x);
    }
    return r;
}

static const dop_j_filter_row rows[] = {
    {"select", f_pick, 1},     {"reject", f_pick, 0}, {"selectattr", f_pick, 3},
    {"rejectattr", f_pick, 2}, {"map", f_map, 0},     {NULL, NULL, 0},
};

static const dop_j_filter_row *
find_filter(dop_j_str name)
{
    const dop_j_filter_row *const tables[] = {rows, dop_j_value_filters, dop_j_list_filters, dop_j_text_filters};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const dop_j_filter_row *row = tables[t]; row->name; row++)
            if (dop_j_eq_lit(name, row->name))
                return row;
    return NULL;
}

bool
dop_j_has_filter(dop_j_str name)
{
    return find_filter(name) != NULL;
}

dop_j_val
dop_j_filter(dop_j_ctx *cx, dop_j_str name, dop_j_val v, const dop_j_args *a)
{
    static const char *const keep_safe[] = {"upper",  "lower",  "capitalize", "title", "trim",
                                            "center", "string", "default",    "d"};
    if (!dop_j_step(cx, J_NODE_STEPS))
        return v;
    const dop_j_filter_row *row = find_filter(name);
    if (!row)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "filter \"%.*s\" is not known", name.n > 40 ? 40 : (int)name.n,
                          name.s);
    if (++cx->depth > J_MAX_DEPTH)
        dop_j_fail(cx, a->line, DOP_E_LIMIT, "filters are nested too deeply");
    dop_j_val r = cx->status == DOP_OK ? row->fn(cx, v, a, row->how) : v;
    cx->depth--;
    for (size_t i = 0; v.kind == J_STR && v.safe && r.kind == J_STR && i < sizeof keep_safe / sizeof *keep_safe; i++)
        r.safe |= dop_j_eq_lit(name, keep_safe[i]);
    return cx->status == DOP_OK ? r : v;
}
