/* Evaluation of expressions and execution of statements. */
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "runtime/jinja/jinja.h"

typedef enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;

static flow exec_list(dop_j_ctx *cx, dop_j_node *const *list, size_t n);

/* ---- names ---- */

static const dop_j_val *
lookup(const dop_j_ctx *cx, dop_j_str name)
{
    for (const dop_j_scope *s = cx->scope; s; s = s->up) {
        const dop_j_val *v = dop_j_get(&s->vars, name);
        if (v)
            return v;
    }
    return NULL;
}

static void
bind(dop_j_ctx *cx, dop_j_str name, dop_j_val v)
{
    dop_j_set(cx, &cx->scope->vars, name, v);
}

/* Binds one value to one name, or its items to several. */
static void
bind_targets(dop_j_ctx *cx, const dop_j_node *n, dop_j_val v)
{
    if (n->names_n == 1) {
        bind(cx, n->names[0], v);
        return;
    }
    const dop_j_list *items = dop_j_items(cx, v);
    if (!items || items->n != n->names_n) {
        dop_j_fail(cx, n->line, DOP_E_INPUT, "cannot unpack a %s into %zu names", dop_j_kind_name(v.kind), n->names_n);
        return;
    }
    for (size_t i = 0; i < n->names_n; i++)
        bind(cx, n->names[i], items->items[i]);
}

/* ---- expressions ---- */

static dop_j_val
undefined_use(dop_j_ctx *cx, dop_j_val v, long line)
{
    return dop_j_fail(cx, line, DOP_E_INPUT, "'%.*s' is undefined", v.u.str.n > 80 ? 80 : (int)v.u.str.n,
                      v.u.str.s ? v.u.str.s : "");
}

static dop_j_val
item_of(dop_j_ctx *cx, dop_j_val v, dop_j_val key, long line)
{
    if (v.kind == J_UNDEF)
        return undefined_use(cx, v, line);
    if (key.kind == J_STR)
        return dop_j_attribute(cx, v, key.u.str, line);
    if (key.kind == J_BOOL)
        key = dop_j_int(key.u.b);
    if (key.kind != J_INT || (v.kind != J_LIST && v.kind != J_STR))
        return dop_j_undef((dop_j_str){"item", 4});
    const dop_j_list *items = dop_j_items(cx, v);
    int64_t i = key.u.i;
    if (!items)
        return dop_j_undef((dop_j_str){"item", 4});
    if (i < 0)
        i += (int64_t)items->n;
    return i >= 0 && i < (int64_t)items->n ? items->items[i] : dop_j_undef((dop_j_str){"item", 4});
}

/* Bounds of a Python slice with a positive or negative step. */
static int64_t
slice_bound(dop_j_val v, int64_t n, int64_t fallback, int64_t low, int64_t high)
{
    if (v.kind != J_INT)
        return fallback;
    int64_t i = v.u.i < 0 ? (v.u.i < -n ? low : v.u.i + n) : v.u.i;
    return i < low ? low : i > high ? high : i;
}

static dop_j_val
slice_of(dop_j_ctx *cx, const dop_j_node *e, dop_j_val v)
{
    dop_j_val part[3] = {{.kind = J_NONE}, {.kind = J_NONE}, {.kind = J_NONE}};
    for (size_t i = 0; i < 3; i++)
        if (e->list[i])
            part[i] = dop_j_eval(cx, e->list[i]);
    int64_t step = part[2].kind == J_INT ? part[2].u.i : 1;
    const dop_j_list *items = v.kind == J_LIST || v.kind == J_STR ? dop_j_items(cx, v) : NULL;
    if (cx->status != DOP_OK)
        return (dop_j_val){.kind = J_UNDEF};
    if (!items)
        return dop_j_undef((dop_j_str){"slice", 5});
    if (step == 0 || step < -INT32_MAX || step > INT32_MAX)
        return dop_j_fail(cx, e->line, DOP_E_INPUT, "cannot slice a %s that way", dop_j_kind_name(v.kind));
    int64_t n = (int64_t)items->n;
    int64_t from = slice_bound(part[0], n, step > 0 ? 0 : n - 1, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
    int64_t to = slice_bound(part[1], n, step > 0 ? n : -1, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
    dop_j_val out = dop_j_new_list(cx);
    dop_j_out text = {0};
    for (int64_t i = from; cx->status == DOP_OK && (step > 0 ? i < to : i > to); i += step) {
        if (v.kind == J_STR)
            dop_j_put(cx, &text, items->items[i].u.str.s, items->items[i].u.str.n);
        else
            dop_j_push(cx, out.u.list, items->items[i]);
    }
    return v.kind == J_STR ? dop_j_take(&text) : out;
}

static bool
as_number(dop_j_val v, double *f)
{
    if (v.kind == J_BIG) {
        *f = dop_strtod(v.u.str.s, NULL);
        return true;
    }
    if (v.kind != J_INT && v.kind != J_FLOAT && v.kind != J_BOOL)
        return false;
    *f = v.kind == J_INT ? (double)v.u.i : v.kind == J_BOOL ? (double)v.u.b : v.u.f;
    return true;
}

static dop_j_val
repeat(dop_j_ctx *cx, dop_j_str s, int64_t times)
{
    dop_j_out o = {0};
    if (times <= 0 || s.n == 0)
        return dop_j_take(&o);
    if ((uint64_t)times > J_MAX_ARENA / s.n) {
        dop_j_fail(cx, 0, DOP_E_INPUT, "the template needs more than %d MiB", J_MAX_ARENA >> 20);
        return dop_j_take(&o);
    }
    const size_t total = s.n * (size_t)times;
    dop_j_put(cx, &o, s.s, s.n);
    while (o.n < total && cx->status == DOP_OK) /* doubles what has been written so far */
        dop_j_put(cx, &o, o.s, o.n < total - o.n ? o.n : total - o.n);
    return dop_j_take(&o);
}

/* Integer arithmetic as in Python: // and % round towards minus infinity; *ok false on overflow or another operator. */
static dop_j_val
integer_op(dop_j_str op, int64_t x, int64_t y, bool *ok)
{
    int64_t r = 0;
    *ok = true;
    if (dop_j_eq_lit(op, "+"))
        *ok = !__builtin_add_overflow(x, y, &r);
    else if (dop_j_eq_lit(op, "-"))
        *ok = !__builtin_sub_overflow(x, y, &r);
    else if (dop_j_eq_lit(op, "*"))
        *ok = !__builtin_mul_overflow(x, y, &r);
    else if ((dop_j_eq_lit(op, "//") || dop_j_eq_lit(op, "%")) && y != 0 && !(x == INT64_MIN && y == -1)) {
        int64_t q = x / y - (x % y != 0 && (x < 0) != (y < 0));
        r = dop_j_eq_lit(op, "%") ? x - q * y : q;
    } else {
        *ok = false;
    }
    return dop_j_int(r);
}

static dop_j_val
binary(dop_j_ctx *cx, const dop_j_node *e)
{
    dop_j_val x = dop_j_eval(cx, e->a), y = dop_j_eval(cx, e->b);
    double f, g;
    bool ok;
    if (cx->status != DOP_OK)
        return x;
    if (dop_j_eq_lit(e->s, "~") || (dop_j_eq_lit(e->s, "+") && x.kind == J_STR && y.kind == J_STR)) {
        dop_j_out o = {0};
        dop_j_print(cx, &o, x);
        dop_j_print(cx, &o, y);
        return dop_j_take(&o);
    }
    if (x.kind == J_UNDEF || y.kind == J_UNDEF)
        return undefined_use(cx, x.kind == J_UNDEF ? x : y, e->line);
    if (dop_j_eq_lit(e->s, "+") && x.kind == J_LIST && y.kind == J_LIST) {
        dop_j_val l = dop_j_new_list(cx);
        for (size_t i = 0; i < x.u.list->n + y.u.list->n && cx->status == DOP_OK; i++)
            dop_j_push(cx, l.u.list, i < x.u.list->n ? x.u.list->items[i] : y.u.list->items[i - x.u.list->n]);
        return l;
    }
    if (dop_j_eq_lit(e->s, "%") && x.kind == J_STR)
        return y.kind == J_LIST ? dop_j_format(cx, x.u.str, y.u.list->items, y.u.list->n, e->line)
                                : dop_j_format(cx, x.u.str, &y, 1, e->line);
    if (x.kind == J_BOOL) /* in Python, booleans are numbers */
        x = dop_j_int(x.u.b);
    if (y.kind == J_BOOL)
        y = dop_j_int(y.u.b);
    if (dop_j_eq_lit(e->s, "*") && ((x.kind == J_STR && y.kind == J_INT) || (x.kind == J_INT && y.kind == J_STR)))
        return x.kind == J_STR ? repeat(cx, x.u.str, y.u.i) : repeat(cx, y.u.str, x.u.i);
    if (x.kind == J_INT && y.kind == J_INT) {
        dop_j_val r = integer_op(e->s, x.u.i, y.u.i, &ok);
        if (ok)
            return r;
    }
    if (as_number(x, &f) && as_number(y, &g)) {
        double r = NAN;
        if (dop_j_eq_lit(e->s, "+") || dop_j_eq_lit(e->s, "-"))
            r = dop_j_eq_lit(e->s, "+") ? f + g : f - g;
        else if (dop_j_eq_lit(e->s, "*"))
            r = f * g;
        else if (dop_j_eq_lit(e->s, "**"))
            r = pow(f, g);
        else if (g != 0)
            r = dop_j_eq_lit(e->s, "/") ? f / g : dop_j_eq_lit(e->s, "//") ? floor(f / g) : f - floor(f / g) * g;
        else
            return dop_j_fail(cx, e->line, DOP_E_INPUT, "division by zero");
        if (dop_j_eq_lit(e->s, "**") && x.kind == J_INT && y.kind == J_INT && g >= 0 && fabs(r) < 0x1p53)
            return dop_j_int((int64_t)r);
        return (dop_j_val){.kind = J_FLOAT, .u.f = r};
    }
    return dop_j_fail(cx, e->line, DOP_E_INPUT, "cannot compute %s %.*s %s", dop_j_kind_name(x.kind), (int)e->s.n,
                      e->s.s, dop_j_kind_name(y.kind));
}

static bool
contains(dop_j_ctx *cx, dop_j_val in, dop_j_val what, long line)
{
    if (in.kind == J_STR) {
        if (what.kind != J_STR) {
            dop_j_fail(cx, line, DOP_E_INPUT, "a %s cannot be in a string", dop_j_kind_name(what.kind));
            return false;
        }
        return what.u.str.n == 0 || (in.u.str.n && memmem(in.u.str.s, in.u.str.n, what.u.str.s, what.u.str.n) != NULL);
    }
    if (in.kind == J_DICT)
        return what.kind == J_STR && dop_j_get(in.u.dict, what.u.str) != NULL;
    const dop_j_list *items = dop_j_items(cx, in);
    if (!items) {
        dop_j_fail(cx, line, DOP_E_INPUT, "nothing can be in a %s", dop_j_kind_name(in.kind));
        return false;
    }
    cx->steps += items->n / 16;
    for (size_t i = 0; i < items->n; i++)
        if (dop_j_equal(items->items[i], what, 0))
            return true;
    return false;
}

static bool
compare_one(dop_j_ctx *cx, dop_j_str op, dop_j_val x, dop_j_val y, long line)
{
    bool ok;
    if (dop_j_eq_lit(op, "==") || dop_j_eq_lit(op, "!="))
        return dop_j_equal(x, y, 0) == dop_j_eq_lit(op, "==");
    if (dop_j_eq_lit(op, "in") || dop_j_eq_lit(op, "not in"))
        return contains(cx, y, x, line) == dop_j_eq_lit(op, "in");
    int c = dop_j_order(x, y, &ok);
    if (!ok) {
        dop_j_fail(cx, line, DOP_E_INPUT, "%s and %s have no order", dop_j_kind_name(x.kind), dop_j_kind_name(y.kind));
        return false;
    }
    return op.s[0] == '<' ? (op.n == 2 ? c <= 0 : c < 0) : (op.n == 2 ? c >= 0 : c > 0);
}

static dop_j_val
compare(dop_j_ctx *cx, const dop_j_node *e)
{
    dop_j_val x = dop_j_eval(cx, e->a);
    for (size_t i = 0; i < e->list_n && cx->status == DOP_OK; i++) {
        dop_j_val y = dop_j_eval(cx, e->list[i]);
        if (cx->status != DOP_OK || !compare_one(cx, e->names[i], x, y, e->line))
            return dop_j_bool(false);
        x = y;
    }
    return dop_j_bool(true);
}

enum { max_args = 32 };

/* Evaluates the arguments of a call into `values`, which holds max_args of them. */
static dop_j_args
eval_args(dop_j_ctx *cx, const dop_j_node *e, dop_j_val *values)
{
    dop_j_args a = {.pos = values, .line = e->line, .names = e->names, .named_n = e->names_n};
    if (e->list_n > max_args) {
        dop_j_fail(cx, e->line, DOP_E_INPUT, "more than %d arguments", max_args);
        return (dop_j_args){0};
    }
    for (size_t i = 0; i < e->list_n; i++)
        values[i] = dop_j_eval(cx, e->list[i]);
    a.n = e->list_n - e->names_n;
    a.named = values + a.n;
    return a;
}

static dop_j_val call_macro(dop_j_ctx *cx, const dop_j_macro *macro, const dop_j_args *a, const dop_j_val *caller);
static dop_j_val call_loop(dop_j_ctx *cx, const dop_j_loop *loop, dop_j_val items);

/* caller: what the body of a call block is to the macro, or NULL. */
static dop_j_val
call(dop_j_ctx *cx, const dop_j_node *e, const dop_j_val *caller)
{
    dop_j_val values[max_args];
    dop_j_args a = eval_args(cx, e, values);
    bool known = false;
    dop_j_val r;
    if (cx->status != DOP_OK)
        return (dop_j_val){.kind = J_UNDEF};
    if (e->a->kind == JN_ATTR) {
        dop_j_val self = dop_j_eval(cx, e->a->a);
        if (cx->status != DOP_OK)
            return self;
        if (self.kind == J_UNDEF)
            return undefined_use(cx, self, e->line);
        r = dop_j_method(cx, self, e->a->s, &a, &known);
        if (known || cx->status != DOP_OK)
            return r;
        return dop_j_fail(cx, e->line, DOP_E_INPUT, "a %s has no method \"%.*s\"", dop_j_kind_name(self.kind),
                          e->a->s.n > 40 ? 40 : (int)e->a->s.n, e->a->s.s);
    }
    dop_j_val f = dop_j_eval(cx, e->a);
    if (f.kind == J_MACRO)
        return call_macro(cx, f.u.macro, &a, caller);
    if (f.kind == J_FUNCTION)
        return dop_j_function(cx, f.u.str, &a);
    if (f.kind == J_LOOP && f.u.loop->node->recursive && a.n == 1)
        return call_loop(cx, f.u.loop, a.pos[0]);
    if (e->a->kind == JN_NAME && f.kind == J_UNDEF)
        return dop_j_fail(cx, e->line, DOP_E_INPUT, "there is no function \"%.*s\"",
                          e->a->s.n > 40 ? 40 : (int)e->a->s.n, e->a->s.s);
    return dop_j_fail(cx, e->line, DOP_E_INPUT, "a %s cannot be called", dop_j_kind_name(f.kind));
}

static dop_j_scope *
new_scope(dop_j_ctx *cx, dop_j_scope *up)
{
    dop_j_scope *scope = dop_j_alloc(cx, sizeof *scope);
    if (scope)
        scope->up = up;
    return scope;
}

/* The arguments beyond the parameters, for a body that names them. */
static void
bind_more(dop_j_ctx *cx, const dop_j_node *m, const dop_j_args *a)
{
    dop_j_val more = dop_j_new_list(cx), named = dop_j_new_dict(cx, J_DICT);
    for (size_t i = m->names_n; i < a->n && cx->status == DOP_OK; i++)
        dop_j_push(cx, more.u.list, a->pos[i]);
    if (a->n > m->names_n && !m->more_args)
        dop_j_fail(cx, a->line, DOP_E_INPUT, "macro \"%.*s\" takes %zu arguments", (int)m->s.n, m->s.s, m->names_n);
    for (size_t k = 0; k < a->named_n && cx->status == DOP_OK; k++) {
        bool known = false;
        for (size_t i = 0; i < m->names_n; i++)
            known |= dop_j_str_eq(a->names[k], m->names[i]);
        if (!known && !m->more_named)
            dop_j_fail(cx, a->line, DOP_E_INPUT, "macro \"%.*s\" has no parameter \"%.*s\"", (int)m->s.n, m->s.s,
                       a->names[k].n > 40 ? 40 : (int)a->names[k].n, a->names[k].s);
        else if (!known)
            dop_j_set(cx, named.u.dict, a->names[k], a->named[k]);
    }
    bind(cx, (dop_j_str){"varargs", 7}, more);
    bind(cx, (dop_j_str){"kwargs", 6}, named);
}

static dop_j_val
call_macro(dop_j_ctx *cx, const dop_j_macro *macro, const dop_j_args *a, const dop_j_val *caller)
{
    const dop_j_node *m = macro->node;
    dop_j_scope *scope = new_scope(cx, macro->scope), *before = cx->scope;
    dop_j_out text = {0}, *out = cx->out;
    if (!scope)
        return (dop_j_val){.kind = J_UNDEF};
    if (++cx->depth > J_MAX_DEPTH) {
        cx->depth--;
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "macros are nested too deeply");
    }
    cx->scope = scope;
    bind_more(cx, m, a);
    if (caller)
        bind(cx, (dop_j_str){"caller", 6}, *caller);
    for (size_t i = 0; i < m->names_n && cx->status == DOP_OK; i++) {
        size_t first_default = m->names_n - m->list_n;
        const dop_j_val *v = i < a->n ? &a->pos[i] : NULL;
        for (size_t k = 0; !v && k < a->named_n; k++)
            if (dop_j_str_eq(a->names[k], m->names[i]))
                v = &a->named[k];
        bind(cx, m->names[i],
             v                    ? *v
             : i >= first_default ? dop_j_eval(cx, m->list[i - first_default])
                                  : dop_j_undef(m->names[i]));
    }
    cx->out = &text;
    exec_list(cx, m->body, m->body_n);
    cx->out = out;
    cx->scope = before;
    cx->depth--;
    return dop_j_take(&text);
}

static dop_j_val
eval_filter(dop_j_ctx *cx, const dop_j_node *e, dop_j_val v)
{
    dop_j_val values[max_args];
    dop_j_args a = eval_args(cx, e, values);
    return cx->status == DOP_OK ? dop_j_filter(cx, e->s, v, &a) : v;
}

static dop_j_val
eval_test(dop_j_ctx *cx, const dop_j_node *e)
{
    dop_j_val values[max_args], v = dop_j_eval(cx, e->a);
    dop_j_args a = eval_args(cx, e, values);
    return cx->status == DOP_OK ? dop_j_bool(dop_j_test(cx, e->s, v, &a) != e->negate) : v;
}

static dop_j_val
eval_collection(dop_j_ctx *cx, const dop_j_node *e)
{
    bool dict = e->kind == JN_DICT;
    dop_j_val r = dict ? dop_j_new_dict(cx, J_DICT) : dop_j_new_list(cx);
    for (size_t i = 0; i < e->list_n && cx->status == DOP_OK; i += dict ? 2 : 1) {
        dop_j_val v = dop_j_eval(cx, e->list[i]);
        if (!dict) {
            dop_j_push(cx, r.u.list, v);
            continue;
        }
        dop_j_val item = dop_j_eval(cx, e->list[i + 1]);
        if (cx->status == DOP_OK && v.kind != J_STR)
            return dop_j_fail(cx, e->line, DOP_E_INPUT, "a %s cannot be a key here", dop_j_kind_name(v.kind));
        if (cx->status == DOP_OK)
            dop_j_set(cx, r.u.dict, v.u.str, item);
    }
    return r;
}

static dop_j_val
negate(dop_j_ctx *cx, const dop_j_node *e)
{
    dop_j_val v = dop_j_eval(cx, e->a);
    if (v.kind == J_INT && v.u.i != INT64_MIN)
        return dop_j_int(-v.u.i);
    if (v.kind == J_FLOAT)
        return (dop_j_val){.kind = J_FLOAT, .u.f = -v.u.f};
    return dop_j_fail(cx, e->line, DOP_E_INPUT, "cannot negate a %s", dop_j_kind_name(v.kind));
}

static dop_j_val
eval_node(dop_j_ctx *cx, const dop_j_node *e)
{
    dop_j_val v;
    const dop_j_val *found;
    switch (e->kind) {
    case JN_CONST:
        return e->value;
    case JN_NAME:
        found = lookup(cx, e->s);
        return found ? *found : dop_j_function_value(e->s);
    case JN_LIST:
    case JN_DICT:
        return eval_collection(cx, e);
    case JN_ATTR:
        v = dop_j_eval(cx, e->a);
        return v.kind == J_UNDEF ? undefined_use(cx, v, e->line) : dop_j_attribute(cx, v, e->s, e->line);
    case JN_ITEM:
        v = dop_j_eval(cx, e->a);
        return item_of(cx, v, dop_j_eval(cx, e->b), e->line);
    case JN_SLICE:
        v = dop_j_eval(cx, e->a);
        return v.kind == J_UNDEF ? undefined_use(cx, v, e->line) : slice_of(cx, e, v);
    case JN_CALL:
        return call(cx, e, NULL);
    case JN_FILTER:
        return eval_filter(cx, e, dop_j_eval(cx, e->a));
    case JN_TEST:
        return eval_test(cx, e);
    case JN_NOT:
        return dop_j_bool(!dop_j_truth(dop_j_eval(cx, e->a)));
    case JN_NEG:
        return negate(cx, e);
    case JN_AND:
        v = dop_j_eval(cx, e->a);
        return dop_j_truth(v) ? dop_j_eval(cx, e->b) : v;
    case JN_OR:
        v = dop_j_eval(cx, e->a);
        return dop_j_truth(v) ? v : dop_j_eval(cx, e->b);
    case JN_IF_EXPR:
        if (dop_j_truth(dop_j_eval(cx, e->a)))
            return dop_j_eval(cx, e->b);
        return e->c ? dop_j_eval(cx, e->c) : dop_j_undef((dop_j_str){"value", 5});
    case JN_BINARY:
        return binary(cx, e);
    case JN_COMPARE:
        return compare(cx, e);
    default:
        return dop_j_fail(cx, e->line, DOP_E_INTERNAL, "not an expression");
    }
}

dop_j_val
dop_j_eval(dop_j_ctx *cx, const dop_j_node *e)
{
    if (cx->status != DOP_OK || !e)
        return (dop_j_val){.kind = J_UNDEF};
    if (++cx->steps > J_MAX_STEPS)
        return dop_j_fail(cx, e->line, DOP_E_INPUT, "the template does not come to an end");
    if (++cx->depth > J_MAX_DEPTH) {
        cx->depth--;
        return dop_j_fail(cx, e->line, DOP_E_INPUT, "expressions are nested too deeply");
    }
    dop_j_val v = eval_node(cx, e);
    cx->depth--;
    return cx->status == DOP_OK ? v : (dop_j_val){.kind = J_UNDEF};
}

/* ---- statements ---- */

/* Items of a loop over a value that pass its "if". */
static const dop_j_list *
loop_items(dop_j_ctx *cx, const dop_j_node *n, dop_j_val v)
{
    const dop_j_list *items = cx->status == DOP_OK ? dop_j_items(cx, v) : NULL;
    if (!items) {
        dop_j_fail(cx, n->line, DOP_E_INPUT, "cannot loop over a %s", dop_j_kind_name(v.kind));
        return NULL;
    }
    if (!n->b)
        return items;
    dop_j_val kept = dop_j_new_list(cx);
    dop_j_scope *scope = new_scope(cx, cx->scope);
    for (size_t i = 0; i < items->n && cx->status == DOP_OK; i++) {
        scope->vars.n = 0;
        cx->scope = scope;
        bind_targets(cx, n, items->items[i]);
        if (dop_j_truth(dop_j_eval(cx, n->b)))
            dop_j_push(cx, kept.u.list, items->items[i]);
        cx->scope = scope->up;
    }
    return cx->status == DOP_OK ? kept.u.list : NULL;
}

static flow
exec_for(dop_j_ctx *cx, const dop_j_node *n, dop_j_val over, size_t depth)
{
    const dop_j_list *items = loop_items(cx, n, over);
    if (!items)
        return FLOW_NEXT;
    if (items->n == 0)
        return exec_list(cx, n->other, n->other_n);
    dop_j_loop *loop = dop_j_alloc(cx, sizeof *loop);
    dop_j_scope *scope = new_scope(cx, cx->scope);
    if (!loop || !scope)
        return FLOW_NEXT;
    *loop = (dop_j_loop){.items = items, .depth = depth, .node = n};
    cx->loop_depth++;
    for (size_t i = 0; i < items->n && cx->status == DOP_OK; i++) {
        scope->vars.n = 0; /* the names of an iteration end with it; their memory is used again */
        cx->scope = scope;
        loop->at = i;
        if (++cx->steps > J_MAX_STEPS)
            dop_j_fail(cx, n->line, DOP_E_INPUT, "the template does not come to an end");
        bind_targets(cx, n, items->items[i]);
        bind(cx, (dop_j_str){"loop", 4}, (dop_j_val){.kind = J_LOOP, .u.loop = loop});
        flow f = exec_list(cx, n->body, n->body_n);
        cx->scope = scope->up;
        if (f == FLOW_BREAK)
            break;
    }
    cx->loop_depth--;
    return FLOW_NEXT;
}

/* loop(items) in a recursive loop: its text with other items. */
static dop_j_val
call_loop(dop_j_ctx *cx, const dop_j_loop *loop, dop_j_val items)
{
    dop_j_out text = {0}, *out = cx->out;
    cx->out = &text;
    if (++cx->depth > J_MAX_DEPTH)
        dop_j_fail(cx, loop->node->line, DOP_E_INPUT, "loops are nested too deeply");
    else
        exec_for(cx, loop->node, items, loop->depth + 1);
    cx->depth--;
    cx->out = out;
    return dop_j_take(&text);
}

/* Runs statements and returns what they print as a string. */
static flow
captured(dop_j_ctx *cx, const dop_j_node *n, dop_j_val *out_text)
{
    dop_j_out text = {0}, *out = cx->out;
    dop_j_scope *scope = new_scope(cx, cx->scope);
    if (!scope)
        return FLOW_NEXT;
    cx->scope = scope;
    cx->out = &text;
    flow f = exec_list(cx, n->body, n->body_n);
    cx->out = out;
    cx->scope = scope->up;
    *out_text = dop_j_take(&text);
    for (size_t i = 0; i < n->list_n && cx->status == DOP_OK; i++)
        *out_text = eval_filter(cx, n->list[i], *out_text);
    return f;
}

static void
exec_set(dop_j_ctx *cx, const dop_j_node *n)
{
    dop_j_val v = dop_j_eval(cx, n->a);
    if (cx->status != DOP_OK)
        return;
    if (!n->s.n) {
        bind_targets(cx, n, v);
        return;
    }
    const dop_j_val *ns = lookup(cx, n->s);
    if (!ns || ns->kind != J_NAMESPACE)
        dop_j_fail(cx, n->line, DOP_E_INPUT, "\"%.*s\" is no namespace", n->s.n > 40 ? 40 : (int)n->s.n, n->s.s);
    else
        dop_j_set(cx, ns->u.dict, n->names[0], v);
}

static flow
exec_scope(dop_j_ctx *cx, const dop_j_node *n)
{
    dop_j_scope *scope = new_scope(cx, cx->scope);
    for (size_t i = 0; scope && i < n->names_n; i++)
        dop_j_set(cx, &scope->vars, n->names[i], dop_j_eval(cx, n->list[i]));
    if (!scope)
        return FLOW_NEXT;
    cx->scope = scope;
    flow f = exec_list(cx, n->body, n->body_n);
    cx->scope = scope->up;
    return f;
}

/* A macro, or a call block's body, as it sees the names here. */
static dop_j_val
macro_value(dop_j_ctx *cx, const dop_j_node *n)
{
    dop_j_macro *macro = dop_j_alloc(cx, sizeof *macro);
    if (!macro)
        return (dop_j_val){.kind = J_UNDEF};
    *macro = (dop_j_macro){n, cx->scope};
    return (dop_j_val){.kind = J_MACRO, .u.macro = macro};
}

static flow
exec(dop_j_ctx *cx, const dop_j_node *n)
{
    dop_j_val v;
    flow f;
    switch (n->kind) {
    case JN_DATA:
        dop_j_put(cx, cx->out, n->s.s, n->s.n);
        return FLOW_NEXT;
    case JN_OUTPUT:
        v = dop_j_eval(cx, n->a);
        if (cx->status == DOP_OK)
            dop_j_print(cx, cx->out, v);
        return FLOW_NEXT;
    case JN_FOR:
        return exec_for(cx, n, dop_j_eval(cx, n->a), 1);
    case JN_IF:
        if (dop_j_truth(dop_j_eval(cx, n->a)))
            return exec_list(cx, n->body, n->body_n);
        return exec_list(cx, n->other, n->other_n);
    case JN_SET:
        exec_set(cx, n);
        return FLOW_NEXT;
    case JN_SET_BLOCK:
        f = captured(cx, n, &v);
        bind_targets(cx, n, v);
        return f;
    case JN_FILTER_BLOCK:
        f = captured(cx, n, &v);
        dop_j_print(cx, cx->out, v);
        return f;
    case JN_MACRO:
        bind(cx, n->s, macro_value(cx, n));
        return FLOW_NEXT;
    case JN_CALL_BLOCK:
        v = macro_value(cx, n);
        v = call(cx, n->a, &v);
        if (cx->status == DOP_OK)
            dop_j_print(cx, cx->out, v);
        return FLOW_NEXT;
    case JN_SCOPE:
        return exec_scope(cx, n);
    case JN_DO:
        dop_j_eval(cx, n->a);
        return FLOW_NEXT;
    case JN_BREAK:
    case JN_CONTINUE:
        if (!cx->loop_depth)
            dop_j_fail(cx, n->line, DOP_E_INPUT, "break or continue outside of a loop");
        return n->kind == JN_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
    default:
        dop_j_fail(cx, n->line, DOP_E_INTERNAL, "not a statement");
        return FLOW_NEXT;
    }
}

static flow
exec_list(dop_j_ctx *cx, dop_j_node *const *list, size_t n)
{
    flow f = FLOW_NEXT;
    if (n && ++cx->depth > J_MAX_DEPTH)
        dop_j_fail(cx, list[0]->line, DOP_E_INPUT, "blocks are nested too deeply");
    for (size_t i = 0; i < n && f == FLOW_NEXT && cx->status == DOP_OK; i++) {
        if (++cx->steps > J_MAX_STEPS)
            dop_j_fail(cx, list[i]->line, DOP_E_INPUT, "the template does not come to an end");
        else
            f = exec(cx, list[i]);
    }
    cx->depth -= n ? 1 : 0;
    return f;
}

void
dop_j_run(dop_j_ctx *cx)
{
    exec_list(cx, cx->tree, cx->tree_n);
}
