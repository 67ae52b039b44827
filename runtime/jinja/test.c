/* Tests (`is NAME`) and attributes that chat templates use. */
#include <string.h>

#include "runtime/jinja/jinja.h"

/* Tests of the value alone: a set of kinds, or a comparison with one argument. */
static const struct {
    const char *name;
    unsigned kinds; /* bit per dop_j_kind */
} kind_tests[] = {
    {"undefined", 1u << J_UNDEF},
    {"none", 1u << J_NONE},
    {"string", 1u << J_STR},
    {"mapping", 1u << J_DICT | 1u << J_NAMESPACE},
    {"iterable", 1u << J_STR | 1u << J_LIST | 1u << J_DICT | 1u << J_UNDEF},
    {"sequence", 1u << J_STR | 1u << J_LIST | 1u << J_DICT | 1u << J_UNDEF},
    {"number", 1u << J_INT | 1u << J_BIG | 1u << J_FLOAT | 1u << J_BOOL},
    {"integer", 1u << J_INT | 1u << J_BIG},
    {"float", 1u << J_FLOAT},
    {"boolean", 1u << J_BOOL},
    {"callable", 1u << J_MACRO | 1u << J_FUNCTION},
};

static const struct {
    const char *name;
    const char *op; /* of '=', '!', '<', 'l' (<=), '>', 'g' (>=) */
} order_tests[] = {
    {"equalto", "="}, {"eq", "="},          {"==", "="}, {"sameas", "="}, {"ne", "!"}, {"!=", "!"},
    {"lt", "<"},      {"lessthan", "<"},    {"<", "<"},  {"le", "l"},     {"<=", "l"}, {"gt", ">"},
    {">", ">"},       {"greaterthan", ">"}, {"ge", "g"}, {">=", "g"},
};

static bool
order_test(dop_j_ctx *cx, char op, dop_j_val v, const dop_j_args *a)
{
    bool ok;
    if (a->n < 1) {
        dop_j_fail(cx, a->line, DOP_E_INPUT, "a test needs an argument");
        return false;
    }
    if (op == '=' || op == '!')
        return dop_j_equal(v, a->pos[0], 0) == (op == '=');
    int c = dop_j_order(v, a->pos[0], &ok);
    if (!ok)
        dop_j_wrong(cx, a, "a comparison", v);
    return op == '<' ? c < 0 : op == 'l' ? c <= 0 : op == '>' ? c > 0 : c >= 0;
}

bool
dop_j_test(dop_j_ctx *cx, dop_j_str name, dop_j_val v, const dop_j_args *a)
{
    if (dop_j_eq_lit(name, "defined"))
        return v.kind != J_UNDEF;
    for (size_t i = 0; i < sizeof kind_tests / sizeof *kind_tests; i++)
        if (dop_j_eq_lit(name, kind_tests[i].name))
            return (kind_tests[i].kinds >> v.kind) & 1u;
    for (size_t i = 0; i < sizeof order_tests / sizeof *order_tests; i++)
        if (dop_j_eq_lit(name, order_tests[i].name))
            return order_test(cx, order_tests[i].op[0], v, a);
    if (dop_j_eq_lit(name, "true") || dop_j_eq_lit(name, "false"))
        return v.kind == J_BOOL && v.u.b == dop_j_eq_lit(name, "true");
    if (v.kind == J_BOOL && (dop_j_eq_lit(name, "odd") || dop_j_eq_lit(name, "even")))
        return v.u.b == dop_j_eq_lit(name, "odd");
    if (dop_j_eq_lit(name, "odd") || dop_j_eq_lit(name, "even"))
        return v.kind == J_INT && (v.u.i % 2 != 0) == dop_j_eq_lit(name, "odd");
    if (dop_j_eq_lit(name, "divisibleby"))
        return v.kind == J_INT && a->n && a->pos[0].kind == J_INT && a->pos[0].u.i > 0 && v.u.i % a->pos[0].u.i == 0;
    if (dop_j_eq_lit(name, "lower") || dop_j_eq_lit(name, "upper")) {
        dop_j_out text = {0};
        dop_j_print(cx, &text, v);
        return dop_j_is_cased(cx, dop_j_take(&text).u.str, name.s[0] == 'u');
    }
    if (dop_j_eq_lit(name, "in") && a->n) {
        const dop_j_list *l = a->pos[0].kind == J_STR ? NULL : dop_j_items(cx, a->pos[0]);
        if (a->pos[0].kind == J_STR && v.kind == J_STR)
            return v.u.str.n == 0 || memmem(a->pos[0].u.str.s, a->pos[0].u.str.n, v.u.str.s, v.u.str.n);
        for (size_t i = 0; l && i < l->n; i++)
            if (dop_j_equal(l->items[i], v, 0))
                return true;
        return false;
    }
    dop_j_fail(cx, a->line, DOP_E_INPUT, "test \"%.*s\" is not known", name.n > 40 ? 40 : (int)name.n, name.s);
    return false;
}

static dop_j_val
loop_attribute(const dop_j_loop *l, dop_j_str name)
{
    int64_t at = (int64_t)l->at, n = (int64_t)l->items->n;
    if (dop_j_eq_lit(name, "index"))
        return dop_j_int(at + 1);
    if (dop_j_eq_lit(name, "index0"))
        return dop_j_int(at);
    if (dop_j_eq_lit(name, "revindex"))
        return dop_j_int(n - at);
    if (dop_j_eq_lit(name, "revindex0"))
        return dop_j_int(n - at - 1);
    if (dop_j_eq_lit(name, "first"))
        return dop_j_bool(at == 0);
    if (dop_j_eq_lit(name, "last"))
        return dop_j_bool(at + 1 == n);
    if (dop_j_eq_lit(name, "length"))
        return dop_j_int(n);
    if (dop_j_eq_lit(name, "depth") || dop_j_eq_lit(name, "depth0"))
        return dop_j_int((int64_t)l->depth - (name.n > 5));
    if (dop_j_eq_lit(name, "previtem") && at > 0)
        return l->items->items[at - 1];
    if (dop_j_eq_lit(name, "nextitem") && at + 1 < n)
        return l->items->items[at + 1];
    return dop_j_undef(name);
}

dop_j_val
dop_j_attribute(dop_j_ctx *cx, dop_j_val self, dop_j_str name, long line)
{
    const dop_j_val *v;
    (void)cx;
    (void)line;
    switch (self.kind) {
    case J_DICT:
    case J_NAMESPACE:
        v = dop_j_get(self.u.dict, name);
        return v ? *v : dop_j_undef(name);
    case J_LOOP:
        return loop_attribute(self.u.loop, name);
    default:
        return dop_j_undef(name);
    }
}
