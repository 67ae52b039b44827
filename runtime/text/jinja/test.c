/* Tests (`is NAME`). */
#include <math.h>
#include <string.h>

#include "runtime/text/jinja/jinja.h"

/* Tests that ask for the kind alone. */
static const struct {
    const char *name;
    unsigned kinds; /* bit per dop_j_kind */
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

/* Whether two values are one object of Python's, as far as templates can tell. */
static bool
is_same(dop_j_val a, dop_j_val b)
{
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case J_NONE:
        return true;
    case J_BOOL:
        return a.u.b == b.u.b;
    case J_INT: /* small ones are kept by Python */
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
is_test(dop_j_str name)
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

/* odd, even, divisibleby. */
static bool
divides(dop_j_ctx *cx, dop_j_val v, dop_j_val by, int64_t rest, const dop_j_args *a)
{
    double f;
    const dop_j_val r = dop_j_number(v, &f) ? dop_j_binary(cx, (dop_j_str){"%", 1}, v, by, a->line)
                                            : dop_j_wrong(cx, a, "this test", v);
    return cx->status == DOP_OK && dop_j_equal(cx, r, dop_j_int(rest));
}

static bool
is_case(dop_j_ctx *cx, dop_j_val v, const char *method)
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
        return divides(cx, v, dop_j_int(2), dop_j_eq_lit(name, "odd"), a);
    if (has_arg && dop_j_eq_lit(name, "divisibleby"))
        return divides(cx, v, arg, 0, a);
    if (has_arg && dop_j_eq_lit(name, "sameas"))
        return is_same(v, arg);
    if (dop_j_eq_lit(name, "lower") || dop_j_eq_lit(name, "upper"))
        return is_case(cx, v, name.s[0] == 'l' ? "islower" : "isupper");
    if (dop_j_eq_lit(name, "escaped"))
        return v.kind == J_STR && v.safe;
    if (arg.kind == J_STR || v.kind == J_STR) {
        const dop_j_str what = arg.kind == J_STR ? arg.u.str : v.u.str;
        if (dop_j_eq_lit(name, "filter"))
            return dop_j_has_filter(what);
        if (dop_j_eq_lit(name, "test"))
            return is_test(what);
    }
    dop_j_fail(cx, a->line, DOP_E_INPUT, "test \"%.*s\" is not known%s", name.n > 40 ? 40 : (int)name.n, name.s,
               has_arg ? "" : ", or needs an argument");
    return false;
}
