/* Evaluation of expressions and execution of statements. */
#include <math.h>
#include <string.h>

#include "runtime/text/jinja_internal.h"
#include "runtime/text/utf8.h"

typedef enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;

static flow exec_list(j_ctx *cx, j_node *const *list, size_t n);

/* ---- names ---- */

static const j_val *
lookup(const j_ctx *cx, j_str name)
{
    for (const j_scope *s = cx->scope; s; s = s->up) {
        const j_val *v = j_get(&s->vars, name);
        if (v)
            return v;
    }
    return NULL;
}

static void
bind(j_ctx *cx, j_str name, j_val v)
{
    j_set(cx, &cx->scope->vars, name, v);
}

/* Binds one value to one name, or its items to several. */
static void
bind_targets(j_ctx *cx, const j_node *n, j_val v)
{
    if (n->names_n == 1) {
        bind(cx, n->names[0], v);
        return;
    }
    const j_list *items = j_items(cx, v);
    if (!items || items->n != n->names_n) {
        j_fail(cx, n->line, DOP_E_INPUT, "cannot unpack a %s into %zu names", j_kind_name(v.kind), n->names_n);
        return;
    }
    for (size_t i = 0; i < n->names_n; i++)
        bind(cx, n->names[i], items->items[i]);
}

/* ---- expressions ---- */

static j_val
undefined_use(j_ctx *cx, j_val v, long line)
{
    return j_fail(cx, line, DOP_E_INPUT, "'%.*s' is undefined", v.u.str.n > 80 ? 80 : (int)v.u.str.n,
                  v.u.str.s ? v.u.str.s : "");
}

static j_val
item_of(j_ctx *cx, j_val v, j_val key, long line)
{
    if (v.kind == J_UNDEF)
        return undefined_use(cx, v, line);
    if (key.kind == J_STR)
        return j_attribute(cx, v, key.u.str, line);
    if (key.kind != J_INT || (v.kind != J_LIST && v.kind != J_STR))
        return j_undef((j_str){"item", 4});
    const j_list *items = j_items(cx, v);
    int64_t i = key.u.i;
    if (!items)
        return j_undef((j_str){"item", 4});
    if (i < 0)
        i += (int64_t)items->n;
    return i >= 0 && i < (int64_t)items->n ? items->items[i] : j_undef((j_str){"item", 4});
}

/* Bounds of a Python slice with a positive or negative step. */
static int64_t
slice_bound(j_val v, int64_t n, int64_t fallback, int64_t low, int64_t high)
{
    if (v.kind != J_INT)
        return fallback;
    int64_t i = v.u.i < 0 ? (v.u.i < -n ? low : v.u.i + n) : v.u.i;
    return i < low ? low : i > high ? high : i;
}

static j_val
slice_of(j_ctx *cx, const j_node *e, j_val v)
{
    j_val part[3] = {{.kind = J_NONE}, {.kind = J_NONE}, {.kind = J_NONE}};
    for (size_t i = 0; i < 3; i++)
        if (e->list[i])
            part[i] = j_eval(cx, e->list[i]);
    int64_t step = part[2].kind == J_INT ? part[2].u.i : 1;
    const j_list *items = v.kind == J_LIST || v.kind == J_STR ? j_items(cx, v) : NULL;
    if (cx->status != DOP_OK)
        return (j_val){.kind = J_UNDEF};
    if (!items)
        return j_undef((j_str){"slice", 5});
    if (step == 0 || step < -INT32_MAX || step > INT32_MAX)
        return j_fail(cx, e->line, DOP_E_INPUT, "cannot slice a %s that way", j_kind_name(v.kind));
    int64_t n = (int64_t)items->n;
    int64_t from = slice_bound(part[0], n, step > 0 ? 0 : n - 1, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
    int64_t to = slice_bound(part[1], n, step > 0 ? n : -1, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
    j_val out = j_new_list(cx);
    j_out text = {0};
    for (int64_t i = from; cx->status == DOP_OK && (step > 0 ? i < to : i > to); i += step) {
        if (v.kind == J_STR)
            j_put(cx, &text, items->items[i].u.str.s, items->items[i].u.str.n);
        else
            j_push(cx, out.u.list, items->items[i]);
    }
    return v.kind == J_STR ? j_take(&text) : out;
}

static bool
as_number(j_val v, double *f)
{
    if (v.kind != J_INT && v.kind != J_FLOAT && v.kind != J_BOOL)
        return false;
    *f = v.kind == J_INT ? (double)v.u.i : v.kind == J_BOOL ? (double)v.u.b : v.u.f;
    return true;
}

static j_val
repeat(j_ctx *cx, j_str s, int64_t times)
{
    j_out o = {0};
    for (int64_t i = 0; i < times && s.n && cx->status == DOP_OK; i++)
        j_put(cx, &o, s.s, s.n);
    return j_take(&o);
}

/* Integer arithmetic as in Python: // and % round towards minus infinity; *ok false on overflow or another operator. */
static j_val
integer_op(j_str op, int64_t x, int64_t y, bool *ok)
{
    int64_t r = 0;
    *ok = true;
    if (j_eq_lit(op, "+"))
        *ok = !__builtin_add_overflow(x, y, &r);
    else if (j_eq_lit(op, "-"))
        *ok = !__builtin_sub_overflow(x, y, &r);
    else if (j_eq_lit(op, "*"))
        *ok = !__builtin_mul_overflow(x, y, &r);
    else if ((j_eq_lit(op, "//") || j_eq_lit(op, "%")) && y != 0 && !(x == INT64_MIN && y == -1)) {
        int64_t q = x / y - (x % y != 0 && (x < 0) != (y < 0));
        r = j_eq_lit(op, "%") ? x - q * y : q;
    } else {
        *ok = false;
    }
    return j_int(r);
}

static j_val
binary(j_ctx *cx, const j_node *e)
{
    j_val x = j_eval(cx, e->a), y = j_eval(cx, e->b);
    double f, g;
    bool ok;
    if (cx->status != DOP_OK)
        return x;
    if (j_eq_lit(e->s, "~") || (j_eq_lit(e->s, "+") && x.kind == J_STR && y.kind == J_STR)) {
        j_out o = {0};
        j_print(cx, &o, x);
        j_print(cx, &o, y);
        return j_take(&o);
    }
    if (x.kind == J_UNDEF || y.kind == J_UNDEF)
        return undefined_use(cx, x.kind == J_UNDEF ? x : y, e->line);
    if (j_eq_lit(e->s, "+") && x.kind == J_LIST && y.kind == J_LIST) {
        j_val l = j_new_list(cx);
        for (size_t i = 0; i < x.u.list->n + y.u.list->n && cx->status == DOP_OK; i++)
            j_push(cx, l.u.list, i < x.u.list->n ? x.u.list->items[i] : y.u.list->items[i - x.u.list->n]);
        return l;
    }
    if (x.kind == J_BOOL) /* numbers in Python */
        x = j_int(x.u.b);
    if (y.kind == J_BOOL)
        y = j_int(y.u.b);
    if (j_eq_lit(e->s, "*") && ((x.kind == J_STR && y.kind == J_INT) || (x.kind == J_INT && y.kind == J_STR)))
        return x.kind == J_STR ? repeat(cx, x.u.str, y.u.i) : repeat(cx, y.u.str, x.u.i);
    if (x.kind == J_INT && y.kind == J_INT) {
        j_val r = integer_op(e->s, x.u.i, y.u.i, &ok);
        if (ok)
            return r;
    }
    if (as_number(x, &f) && as_number(y, &g)) {
        double r = NAN;
        if (j_eq_lit(e->s, "+") || j_eq_lit(e->s, "-"))
            r = j_eq_lit(e->s, "+") ? f + g : f - g;
        else if (j_eq_lit(e->s, "*"))
            r = f * g;
        else if (j_eq_lit(e->s, "**"))
            r = pow(f, g);
        else if (g != 0)
            r = j_eq_lit(e->s, "/") ? f / g : j_eq_lit(e->s, "//") ? floor(f / g) : f - floor(f / g) * g;
        else
            return j_fail(cx, e->line, DOP_E_INPUT, "division by zero");
        if (j_eq_lit(e->s, "**") && x.kind == J_INT && y.kind == J_INT && g >= 0 && fabs(r) < 0x1p53)
            return j_int((int64_t)r);
        return (j_val){.kind = J_FLOAT, .u.f = r};
    }
    return j_fail(cx, e->line, DOP_E_INPUT, "cannot compute %s %.*s %s", j_kind_name(x.kind), (int)e->s.n, e->s.s,
                  j_kind_name(y.kind));
}

static bool
contains(j_ctx *cx, j_val in, j_val what, long line)
{
    if (in.kind == J_STR) {
        if (what.kind != J_STR) {
            j_fail(cx, line, DOP_E_INPUT, "a %s cannot be in a string", j_kind_name(what.kind));
            return false;
        }
        return what.u.str.n == 0 || (in.u.str.n && memmem(in.u.str.s, in.u.str.n, what.u.str.s, what.u.str.n) != NULL);
    }
    if (in.kind == J_DICT)
        return what.kind == J_STR && j_get(in.u.dict, what.u.str) != NULL;
    const j_list *items = j_items(cx, in);
    if (!items) {
        j_fail(cx, line, DOP_E_INPUT, "nothing can be in a %s", j_kind_name(in.kind));
        return false;
    }
    cx->steps += items->n / 16;
    for (size_t i = 0; i < items->n; i++)
        if (j_equal(items->items[i], what, 0))
            return true;
    return false;
}

static bool
compare_one(j_ctx *cx, j_str op, j_val x, j_val y, long line)
{
    bool ok;
    if (j_eq_lit(op, "==") || j_eq_lit(op, "!="))
        return j_equal(x, y, 0) == j_eq_lit(op, "==");
    if (j_eq_lit(op, "in") || j_eq_lit(op, "not in"))
        return contains(cx, y, x, line) == j_eq_lit(op, "in");
    int c = j_order(x, y, &ok);
    if (!ok) {
        j_fail(cx, line, DOP_E_INPUT, "%s and %s have no order", j_kind_name(x.kind), j_kind_name(y.kind));
        return false;
    }
    return op.s[0] == '<' ? (op.n == 2 ? c <= 0 : c < 0) : (op.n == 2 ? c >= 0 : c > 0);
}

static j_val
compare(j_ctx *cx, const j_node *e)
{
    j_val x = j_eval(cx, e->a);
    for (size_t i = 0; i < e->list_n && cx->status == DOP_OK; i++) {
        j_val y = j_eval(cx, e->list[i]);
        if (cx->status != DOP_OK || !compare_one(cx, e->names[i], x, y, e->line))
            return j_bool(false);
        x = y;
    }
    return j_bool(true);
}

enum { max_args = 32 };

/* Evaluates the arguments of a call into room for max_args values. */
static j_args
eval_args(j_ctx *cx, const j_node *e, j_val *room)
{
    j_args a = {.pos = room, .line = e->line, .names = e->names, .named_n = e->names_n};
    if (e->list_n > max_args) {
        j_fail(cx, e->line, DOP_E_INPUT, "more than %d arguments", max_args);
        return (j_args){0};
    }
    for (size_t i = 0; i < e->list_n; i++)
        room[i] = j_eval(cx, e->list[i]);
    a.n = e->list_n - e->names_n;
    a.named = room + a.n;
    return a;
}

const j_val *
j_arg(const j_args *a, size_t index, const char *name)
{
    if (index < a->n)
        return &a->pos[index];
    for (size_t i = 0; name && i < a->named_n; i++)
        if (j_eq_lit(a->names[i], name))
            return &a->named[i];
    return NULL;
}

static j_val
call(j_ctx *cx, const j_node *e)
{
    j_val room[max_args];
    j_args a = eval_args(cx, e, room);
    bool known = false;
    j_val r;
    if (cx->status != DOP_OK)
        return (j_val){.kind = J_UNDEF};
    if (e->a->kind == JN_ATTR) {
        j_val self = j_eval(cx, e->a->a);
        if (cx->status != DOP_OK)
            return self;
        if (self.kind == J_UNDEF)
            return undefined_use(cx, self, e->line);
        r = j_method(cx, self, e->a->s, &a, &known);
        if (known || cx->status != DOP_OK)
            return r;
        return j_fail(cx, e->line, DOP_E_INPUT, "a %s has no method \"%.*s\"", j_kind_name(self.kind),
                      e->a->s.n > 40 ? 40 : (int)e->a->s.n, e->a->s.s);
    }
    j_val f = j_eval(cx, e->a);
    if (f.kind == J_MACRO)
        return j_call_macro(cx, f.u.macro, &a);
    if (e->a->kind == JN_NAME && f.kind == J_UNDEF) {
        r = j_function(cx, e->a->s, &a, &known);
        if (known || cx->status != DOP_OK)
            return r;
        return j_fail(cx, e->line, DOP_E_INPUT, "there is no function \"%.*s\"", e->a->s.n > 40 ? 40 : (int)e->a->s.n,
                      e->a->s.s);
    }
    return j_fail(cx, e->line, DOP_E_INPUT, "a %s cannot be called", j_kind_name(f.kind));
}

j_val
j_call_macro(j_ctx *cx, const j_node *m, const j_args *a)
{
    j_scope scope = {.up = cx->root}, *caller = cx->scope;
    j_out text = {0}, *out = cx->out;
    if (a->n > m->names_n)
        return j_fail(cx, a->line, DOP_E_INPUT, "macro \"%.*s\" takes %zu arguments", (int)m->s.n, m->s.s, m->names_n);
    if (++cx->depth > J_MAX_DEPTH) {
        cx->depth--;
        return j_fail(cx, a->line, DOP_E_INPUT, "macros are nested too deeply");
    }
    cx->scope = &scope;
    for (size_t i = 0; i < m->names_n && cx->status == DOP_OK; i++) {
        size_t first_default = m->names_n - m->list_n;
        const j_val *v = i < a->n ? &a->pos[i] : NULL;
        for (size_t k = 0; !v && k < a->named_n; k++)
            if (j_str_eq(a->names[k], m->names[i]))
                v = &a->named[k];
        bind(cx, m->names[i],
             v                    ? *v
             : i >= first_default ? j_eval(cx, m->list[i - first_default])
                                  : j_undef(m->names[i]));
    }
    cx->out = &text;
    exec_list(cx, m->body, m->body_n);
    cx->out = out;
    cx->scope = caller;
    cx->depth--;
    return j_take(&text);
}

static j_val
eval_filter(j_ctx *cx, const j_node *e, j_val v)
{
    j_val room[max_args];
    j_args a = eval_args(cx, e, room);
    return cx->status == DOP_OK ? j_filter(cx, e->s, v, &a) : v;
}

static j_val
eval_test(j_ctx *cx, const j_node *e)
{
    j_val room[max_args], v = j_eval(cx, e->a);
    j_args a = eval_args(cx, e, room);
    return cx->status == DOP_OK ? j_bool(j_test(cx, e->s, v, &a) != e->negate) : v;
}

static j_val
eval_collection(j_ctx *cx, const j_node *e)
{
    bool dict = e->kind == JN_DICT;
    j_val r = dict ? j_new_dict(cx, J_DICT) : j_new_list(cx);
    for (size_t i = 0; i < e->list_n && cx->status == DOP_OK; i += dict ? 2 : 1) {
        j_val v = j_eval(cx, e->list[i]);
        if (!dict) {
            j_push(cx, r.u.list, v);
            continue;
        }
        j_val item = j_eval(cx, e->list[i + 1]);
        if (cx->status == DOP_OK && v.kind != J_STR)
            return j_fail(cx, e->line, DOP_E_INPUT, "a %s cannot be a key here", j_kind_name(v.kind));
        if (cx->status == DOP_OK)
            j_set(cx, r.u.dict, v.u.str, item);
    }
    return r;
}

static j_val
negate(j_ctx *cx, const j_node *e)
{
    j_val v = j_eval(cx, e->a);
    if (v.kind == J_INT && v.u.i != INT64_MIN)
        return j_int(-v.u.i);
    if (v.kind == J_FLOAT)
        return (j_val){.kind = J_FLOAT, .u.f = -v.u.f};
    return j_fail(cx, e->line, DOP_E_INPUT, "cannot negate a %s", j_kind_name(v.kind));
}

static j_val
eval_node(j_ctx *cx, const j_node *e)
{
    j_val v;
    const j_val *found;
    switch (e->kind) {
    case JN_CONST:
        return e->value;
    case JN_NAME:
        found = lookup(cx, e->s);
        return found ? *found : j_undef(e->s);
    case JN_LIST:
    case JN_DICT:
        return eval_collection(cx, e);
    case JN_ATTR:
        v = j_eval(cx, e->a);
        return v.kind == J_UNDEF ? undefined_use(cx, v, e->line) : j_attribute(cx, v, e->s, e->line);
    case JN_ITEM:
        v = j_eval(cx, e->a);
        return item_of(cx, v, j_eval(cx, e->b), e->line);
    case JN_SLICE:
        v = j_eval(cx, e->a);
        return v.kind == J_UNDEF ? undefined_use(cx, v, e->line) : slice_of(cx, e, v);
    case JN_CALL:
        return call(cx, e);
    case JN_FILTER:
        return eval_filter(cx, e, j_eval(cx, e->a));
    case JN_TEST:
        return eval_test(cx, e);
    case JN_NOT:
        return j_bool(!j_truth(j_eval(cx, e->a)));
    case JN_NEG:
        return negate(cx, e);
    case JN_AND:
        v = j_eval(cx, e->a);
        return j_truth(v) ? j_eval(cx, e->b) : v;
    case JN_OR:
        v = j_eval(cx, e->a);
        return j_truth(v) ? v : j_eval(cx, e->b);
    case JN_IF_EXPR:
        if (j_truth(j_eval(cx, e->a)))
            return j_eval(cx, e->b);
        return e->c ? j_eval(cx, e->c) : j_undef((j_str){"value", 5});
    case JN_BINARY:
        return binary(cx, e);
    case JN_COMPARE:
        return compare(cx, e);
    default:
        return j_fail(cx, e->line, DOP_E_INTERNAL, "not an expression");
    }
}

j_val
j_eval(j_ctx *cx, const j_node *e)
{
    if (cx->status != DOP_OK || !e)
        return (j_val){.kind = J_UNDEF};
    if (++cx->steps > J_MAX_STEPS)
        return j_fail(cx, e->line, DOP_E_INPUT, "the template does not come to an end");
    if (++cx->depth > J_MAX_DEPTH) {
        cx->depth--;
        return j_fail(cx, e->line, DOP_E_INPUT, "expressions are nested too deeply");
    }
    j_val v = eval_node(cx, e);
    cx->depth--;
    return cx->status == DOP_OK ? v : (j_val){.kind = J_UNDEF};
}

/* ---- statements ---- */

/* Items of a loop that pass its "if". */
static const j_list *
loop_items(j_ctx *cx, const j_node *n)
{
    j_val v = j_eval(cx, n->a);
    const j_list *items = cx->status == DOP_OK ? j_items(cx, v) : NULL;
    if (!items) {
        j_fail(cx, n->line, DOP_E_INPUT, "cannot loop over a %s", j_kind_name(v.kind));
        return NULL;
    }
    if (!n->b)
        return items;
    j_val kept = j_new_list(cx);
    j_scope scope = {.up = cx->scope};
    for (size_t i = 0; i < items->n && cx->status == DOP_OK; i++) {
        scope.vars.n = 0;
        cx->scope = &scope;
        bind_targets(cx, n, items->items[i]);
        if (j_truth(j_eval(cx, n->b)))
            j_push(cx, kept.u.list, items->items[i]);
        cx->scope = scope.up;
    }
    return cx->status == DOP_OK ? kept.u.list : NULL;
}

static flow
exec_for(j_ctx *cx, const j_node *n)
{
    const j_list *items = loop_items(cx, n);
    if (!items)
        return FLOW_NEXT;
    if (items->n == 0)
        return exec_list(cx, n->other, n->other_n);
    j_loop *loop = j_alloc(cx, sizeof *loop);
    if (!loop)
        return FLOW_NEXT;
    loop->items = items;
    loop->depth = ++cx->loop_depth;
    j_scope scope = {.up = cx->scope};
    for (size_t i = 0; i < items->n && cx->status == DOP_OK; i++) {
        scope.vars.n = 0; /* names do not outlive a turn, their room does */
        cx->scope = &scope;
        loop->at = i;
        if (++cx->steps > J_MAX_STEPS)
            j_fail(cx, n->line, DOP_E_INPUT, "the template does not come to an end");
        bind_targets(cx, n, items->items[i]);
        bind(cx, (j_str){"loop", 4}, (j_val){.kind = J_LOOP, .u.loop = loop});
        flow f = exec_list(cx, n->body, n->body_n);
        cx->scope = scope.up;
        if (f == FLOW_BREAK)
            break;
    }
    cx->loop_depth--;
    return FLOW_NEXT;
}

/* Runs statements with their output going into a string. */
static flow
captured(j_ctx *cx, const j_node *n, j_val *out_text)
{
    j_out text = {0}, *out = cx->out;
    j_scope scope = {.up = cx->scope};
    cx->scope = &scope;
    cx->out = &text;
    flow f = exec_list(cx, n->body, n->body_n);
    cx->out = out;
    cx->scope = scope.up;
    *out_text = j_take(&text);
    for (size_t i = 0; i < n->list_n && cx->status == DOP_OK; i++)
        *out_text = eval_filter(cx, n->list[i], *out_text);
    return f;
}

static void
exec_set(j_ctx *cx, const j_node *n)
{
    j_val v = j_eval(cx, n->a);
    if (cx->status != DOP_OK)
        return;
    if (!n->s.n) {
        bind_targets(cx, n, v);
        return;
    }
    const j_val *ns = lookup(cx, n->s);
    if (!ns || ns->kind != J_NAMESPACE)
        j_fail(cx, n->line, DOP_E_INPUT, "\"%.*s\" is no namespace", n->s.n > 40 ? 40 : (int)n->s.n, n->s.s);
    else
        j_set(cx, ns->u.dict, n->names[0], v);
}

static flow
exec_scope(j_ctx *cx, const j_node *n)
{
    j_scope scope = {.up = cx->scope};
    for (size_t i = 0; i < n->names_n; i++)
        j_set(cx, &scope.vars, n->names[i], j_eval(cx, n->list[i]));
    cx->scope = &scope;
    flow f = exec_list(cx, n->body, n->body_n);
    cx->scope = scope.up;
    return f;
}

static flow
exec(j_ctx *cx, const j_node *n)
{
    j_val v;
    flow f;
    switch (n->kind) {
    case JN_DATA:
        j_put(cx, cx->out, n->s.s, n->s.n);
        return FLOW_NEXT;
    case JN_OUTPUT:
        v = j_eval(cx, n->a);
        if (cx->status == DOP_OK)
            j_print(cx, cx->out, v);
        return FLOW_NEXT;
    case JN_FOR:
        return exec_for(cx, n);
    case JN_IF:
        if (j_truth(j_eval(cx, n->a)))
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
        j_print(cx, cx->out, v);
        return f;
    case JN_MACRO:
        bind(cx, n->s, (j_val){.kind = J_MACRO, .u.macro = n});
        return FLOW_NEXT;
    case JN_SCOPE:
        return exec_scope(cx, n);
    case JN_DO:
        j_eval(cx, n->a);
        return FLOW_NEXT;
    case JN_BREAK:
    case JN_CONTINUE:
        if (!cx->loop_depth)
            j_fail(cx, n->line, DOP_E_INPUT, "break or continue outside of a loop");
        return n->kind == JN_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
    default:
        j_fail(cx, n->line, DOP_E_INTERNAL, "not a statement");
        return FLOW_NEXT;
    }
}

static flow
exec_list(j_ctx *cx, j_node *const *list, size_t n)
{
    flow f = FLOW_NEXT;
    if (n && ++cx->depth > J_MAX_DEPTH)
        j_fail(cx, list[0]->line, DOP_E_INPUT, "blocks are nested too deeply");
    for (size_t i = 0; i < n && f == FLOW_NEXT && cx->status == DOP_OK; i++) {
        if (++cx->steps > J_MAX_STEPS)
            j_fail(cx, list[i]->line, DOP_E_INPUT, "the template does not come to an end");
        else
            f = exec(cx, list[i]);
    }
    cx->depth -= n ? 1 : 0;
    return f;
}

void
j_run(j_ctx *cx)
{
    exec_list(cx, cx->tree, cx->tree_n);
}
