/* Evaluates expressions and executes statements. */
#include <string.h>

#include "text/jinja/arena.h"
#include "text/jinja/attribute.h"
#include "text/jinja/call.h"
#include "text/jinja/eval.h"
#include "text/jinja/filter.h"
#include "text/jinja/format.h"
#include "text/jinja/function.h"
#include "text/jinja/jinja.h"
#include "text/jinja/method.h"
#include "text/jinja/number.h"
#include "text/jinja/operator.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"
#include "text/jinja/value.h"

typedef enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;

static flow exec_statements(dop_j_ctx *cx, dop_j_node *const *list, size_t n);
static dop_j_val call_macro(dop_j_ctx *cx, const dop_j_macro *macro, const dop_j_args *a, const dop_j_val *caller);
static dop_j_val call_loop(dop_j_ctx *cx, const dop_j_loop *loop, dop_j_val items);

static const dop_j_val *
look_up_name(dop_j_ctx *cx, dop_j_str name)
{
    for (const dop_j_scope *s = cx->scope; s && dop_j_step(cx, 1); s = s->up) {
        const dop_j_val *v = dop_j_get(cx, &s->vars, dop_j_str_val(name));
        if (v)
            return v;
    }
    return NULL;
}

static dop_j_val
make_undefined(void)
{
    return dop_j_undef((dop_j_str){"value", 5});
}

/* ---- calls ---- */

/* Appends the entries of **DICTIONARY to a call's named arguments. */
static void
add_named_arguments(dop_j_ctx *cx, const dop_j_node *e, dop_j_val splat, dop_j_args *a)
{
    const dop_j_dict *d = splat.u.dict;
    if (splat.kind != J_DICT && splat.kind != J_NAMESPACE) {
        dop_j_fail(cx, e->line, DOP_E_INPUT, "what stands behind ** is a %s, not a mapping",
                   dop_j_kind_name(splat.kind));
        return;
    }
    dop_j_val *values = dop_j_alloc(cx, (a->named_n + d->n) * sizeof *values + 1);
    dop_j_str *names = dop_j_alloc(cx, (a->named_n + d->n) * sizeof *names + 1);
    if (!values || !names)
        return;
    for (size_t i = 0; i < a->named_n; i++) {
        values[i] = a->named[i];
        names[i] = a->names[i];
    }
    for (size_t i = 0; i < d->n && dop_j_step(cx, 1 + a->named_n / 4); i++) {
        const dop_j_val key = d->entries[i].key;
        if (key.kind != J_STR)
            dop_j_fail(cx, e->line, DOP_E_INPUT, "the names behind ** are strings");
        for (size_t k = 0; k < a->named_n && cx->status == DOP_OK; k++)
            if (dop_j_str_eq(names[k], key.u.str))
                dop_j_fail(cx, e->line, DOP_E_INPUT, "an argument is given twice");
        values[a->named_n + i] = d->entries[i].val;
        names[a->named_n + i] = key.u.str;
    }
    a->named = values;
    a->names = names;
    a->named_n += d->n;
}

static dop_j_args
eval_args(dop_j_ctx *cx, const dop_j_node *e, dop_j_val stack[J_STACK_ARGS])
{
    dop_j_args a = {.line = e->line, .names = e->names, .named_n = e->names_n};
    const size_t n = e->list_n - e->names_n;
    const dop_j_list *more = NULL;
    dop_j_val *values = e->list_n <= J_STACK_ARGS ? stack : dop_j_alloc(cx, e->list_n * sizeof *values);
    for (size_t i = 0; i < e->list_n && values && cx->status == DOP_OK; i++)
        values[i] = dop_j_eval(cx, e->list[i]);
    if (cx->status != DOP_OK)
        return (dop_j_args){0};
    a.pos = values;
    a.n = n;
    a.named = values + n;
    if (e->splat) {
        const dop_j_val v = dop_j_eval(cx, e->splat);
        if (cx->status == DOP_OK && !(more = dop_j_items(cx, v)))
            dop_j_fail(cx, e->line, DOP_E_INPUT, "what stands behind * is a %s", dop_j_kind_name(v.kind));
    }
    if (more && more->n) {
        dop_j_val *all = dop_j_alloc(cx, (n + more->n) * sizeof *all);
        if (!all || !dop_j_step(cx, more->n))
            return (dop_j_args){0};
        if (n)
            memcpy(all, values, n * sizeof *all);
        memcpy(all + n, more->items, more->n * sizeof *all);
        a.pos = all;
        a.n += more->n;
    }
    if (e->named_splat && cx->status == DOP_OK)
        add_named_arguments(cx, e, dop_j_eval(cx, e->named_splat), &a);
    return a;
}

static dop_j_val
call_joiner(dop_j_ctx *cx, dop_j_list *joiner)
{
    (void)cx;
    return joiner->at++ == 0 ? dop_j_lit("") : joiner->items[0];
}

static dop_j_val
call_value(dop_j_ctx *cx, const dop_j_node *e, const dop_j_val *caller)
{
    dop_j_val stack[J_STACK_ARGS], self = make_undefined(), f;
    const dop_j_method_row *method = NULL;
    if (e->a->kind == JN_ATTR) {
        self = dop_j_eval(cx, e->a->a);
        if (cx->status == DOP_OK && self.kind == J_UNDEF)
            return dop_j_undefined_use(cx, self, e->line);
        method = cx->status == DOP_OK ? dop_j_find_method(self.kind, e->a->s) : NULL;
        f = method ? make_undefined() : dop_j_attribute(cx, self, e->a->s, e->line);
    } else {
        f = dop_j_eval(cx, e->a);
    }
    const dop_j_args a = eval_args(cx, e, stack);
    if (cx->status != DOP_OK)
        return make_undefined();
    if (method)
        return dop_j_call_method(cx, self, method, &a);
    switch (f.kind) {
    case J_METHOD:
        return dop_j_call_method(cx, f.u.method->self, f.u.method->row, &a);
    case J_MACRO:
        return call_macro(cx, f.u.macro, &a, caller);
    case J_FUNCTION:
        return dop_j_function(cx, f.u.str, &a);
    case J_JOINER:
        return call_joiner(cx, f.u.list);
    case J_LOOP:
        if (f.u.loop->node->recursive && a.n == 1)
            return call_loop(cx, f.u.loop, a.pos[0]);
        break;
    default:
        break;
    }
    const dop_j_str name = e->a->s;
    const int shown = name.n > 40 ? 40 : (int)name.n;
    if (e->a->kind == JN_ATTR)
        return dop_j_fail(cx, e->line, DOP_E_INPUT, "a %s has no method \"%.*s\"", dop_j_kind_name(self.kind), shown,
                          name.s);
    if (e->a->kind == JN_NAME && f.kind == J_UNDEF)
        return dop_j_fail(cx, e->line, DOP_E_INPUT, "there is no function \"%.*s\"", shown, name.s);
    return dop_j_fail(cx, e->line, DOP_E_INPUT, "a %s cannot be called", dop_j_kind_name(f.kind));
}

static dop_j_val
eval_filter(dop_j_ctx *cx, const dop_j_node *e, dop_j_val v)
{
    dop_j_val stack[J_STACK_ARGS];
    const dop_j_args a = eval_args(cx, e, stack);
    return cx->status == DOP_OK ? dop_j_filter(cx, e->s, v, &a) : v;
}

static dop_j_val
eval_test(dop_j_ctx *cx, const dop_j_node *e)
{
    dop_j_val stack[J_STACK_ARGS], v = dop_j_eval(cx, e->a);
    const dop_j_args a = eval_args(cx, e, stack);
    return cx->status == DOP_OK ? dop_j_bool(dop_j_test(cx, e->s, v, &a) != e->negate) : v;
}

/* ---- other expressions ---- */

static dop_j_val
eval_list(dop_j_ctx *cx, const dop_j_node *e)
{
    dop_j_val r = dop_j_new_list(cx, e->kind == JN_TUPLE ? J_TUPLE : J_LIST);
    for (size_t i = 0; i < e->list_n && cx->status == DOP_OK; i++)
        dop_j_push(cx, r,
                   e->list[i]->kind == JN_SLICE && !e->list[i]->a ? make_undefined() : dop_j_eval(cx, e->list[i]));
    return r;
}

static dop_j_val
eval_dict(dop_j_ctx *cx, const dop_j_node *e)
{
    dop_j_val r = dop_j_new_dict(cx, J_DICT);
    for (size_t i = 0; i < e->list_n && cx->status == DOP_OK; i += 2) {
        const dop_j_val key = dop_j_eval(cx, e->list[i]), v = dop_j_eval(cx, e->list[i + 1]);
        if (cx->status == DOP_OK)
            dop_j_set(cx, r.u.dict, key, v);
    }
    return r;
}

static dop_j_val
eval_compare(dop_j_ctx *cx, const dop_j_node *e)
{
    dop_j_val x = dop_j_eval(cx, e->a);
    for (size_t i = 0; i < e->list_n && cx->status == DOP_OK; i++) {
        dop_j_val y = dop_j_eval(cx, e->list[i]);
        if (cx->status != DOP_OK || !dop_j_compare(cx, e->names[i], x, y, e->line))
            return dop_j_bool(false);
        x = y;
    }
    return dop_j_bool(true);
}

/* Evaluates unary + and -. */
static dop_j_val
eval_signed(dop_j_ctx *cx, const dop_j_node *e)
{
    const dop_j_val v = dop_j_eval(cx, e->a);
    const bool plus = e->kind == JN_POS;
    if (cx->status != DOP_OK)
        return v;
    if (v.kind == J_UNDEF)
        return dop_j_undefined_use(cx, v, e->line);
    if (v.kind == J_BOOL)
        return dop_j_int(plus ? v.u.b : -v.u.b);
    if (v.kind == J_INT && (plus || v.u.i != INT64_MIN))
        return dop_j_int(plus ? v.u.i : -v.u.i);
    if (v.kind == J_FLOAT)
        return dop_j_float(plus ? v.u.f : -v.u.f);
    if (v.kind == J_BIG && (plus || v.u.str.s[0] == '-'))
        return plus ? v : dop_j_fail(cx, e->line, DOP_E_INPUT, "a number is too large to compute with");
    if (v.kind == J_BIG) {
        dop_j_out o = {0};
        dop_j_val r;
        dop_j_puts(cx, &o, "-");
        dop_j_put(cx, &o, v.u.str.s, v.u.str.n);
        return dop_j_read_int(cx, dop_j_take(&o).u.str, 10, &r) ? r : make_undefined(); /* -2^63 fits in 64 bits, 2^63
                                                                                    * does not */
    }
    return dop_j_fail(cx, e->line, DOP_E_INPUT, "cannot negate a %s", dop_j_kind_name(v.kind));
}

/* Evaluates a binary operator. With a string as the left operand, % formats. */
static dop_j_val
eval_binary(dop_j_ctx *cx, const dop_j_node *e)
{
    const dop_j_val x = dop_j_eval(cx, e->a), y = dop_j_eval(cx, e->b);
    if (cx->status != DOP_OK || x.kind != J_STR || !dop_j_eq_lit(e->s, "%"))
        return dop_j_binary(cx, e->s, x, y, e->line);
    dop_j_val r = dop_j_percent(cx, x.u.str, x.safe ? dop_j_escape_items(cx, y) : y, e->line);
    r.safe = x.safe && r.kind == J_STR;
    return r;
}

static dop_j_val
eval_slice(dop_j_ctx *cx, const dop_j_node *e)
{
    dop_j_val part[3], v = dop_j_eval(cx, e->a);
    for (size_t i = 0; i < 3; i++)
        part[i] = e->list[i] ? dop_j_eval(cx, e->list[i]) : dop_j_none();
    return cx->status == DOP_OK ? dop_j_slice(cx, v, part, e->line) : v;
}

static dop_j_val
eval_jinja_node(dop_j_ctx *cx, const dop_j_node *e)
{
    dop_j_val v, w;
    const dop_j_val *found;
    switch (e->kind) {
    case JN_CONST:
        return e->value;
    case JN_NAME:
        found = look_up_name(cx, e->s);
        return found ? *found : dop_j_function_value(e->s);
    case JN_LIST:
    case JN_TUPLE:
        return eval_list(cx, e);
    case JN_DICT:
        return eval_dict(cx, e);
    case JN_ATTR:
        v = dop_j_eval(cx, e->a);
        return v.kind == J_UNDEF ? dop_j_undefined_use(cx, v, e->line) : dop_j_attribute(cx, v, e->s, e->line);
    case JN_ITEM:
        v = dop_j_eval(cx, e->a);
        w = dop_j_eval(cx, e->b);
        return cx->status == DOP_OK ? dop_j_item(cx, v, w, e->line) : v;
    case JN_SLICE:
        return eval_slice(cx, e);
    case JN_CALL:
        return call_value(cx, e, NULL);
    case JN_FILTER:
        return eval_filter(cx, e, dop_j_eval(cx, e->a));
    case JN_TEST:
        return eval_test(cx, e);
    case JN_NOT:
        return dop_j_bool(!dop_j_truth(dop_j_eval(cx, e->a)));
    case JN_NEG:
    case JN_POS:
        return eval_signed(cx, e);
    case JN_AND:
        v = dop_j_eval(cx, e->a);
        return dop_j_truth(v) ? dop_j_eval(cx, e->b) : v;
    case JN_OR:
        v = dop_j_eval(cx, e->a);
        return dop_j_truth(v) ? v : dop_j_eval(cx, e->b);
    case JN_IF_EXPR:
        if (dop_j_truth(dop_j_eval(cx, e->a)))
            return dop_j_eval(cx, e->b);
        return e->c ? dop_j_eval(cx, e->c) : make_undefined();
    case JN_BINARY:
        return eval_binary(cx, e);
    case JN_COMPARE:
        return eval_compare(cx, e);
    default:
        return dop_j_fail(cx, e->line, DOP_E_INTERNAL, "not an expression");
    }
}

dop_j_val
dop_j_eval(dop_j_ctx *cx, const dop_j_node *e)
{
    if (cx->status != DOP_OK || !e || !dop_j_step(cx, J_NODE_STEPS))
        return make_undefined();
    if (++cx->depth > J_MAX_DEPTH) {
        cx->depth--;
        return dop_j_fail(cx, e->line, DOP_E_LIMIT, "expressions are nested too deeply");
    }
    dop_j_val v = eval_jinja_node(cx, e);
    cx->depth--;
    return cx->status == DOP_OK ? v : make_undefined();
}

/* ---- statements: names ---- */

static void
bind_name(dop_j_ctx *cx, dop_j_str name, dop_j_val v)
{
    dop_j_set(cx, &cx->scope->vars, dop_j_str_val(name), v);
}

static void
bind_attribute(dop_j_ctx *cx, const dop_j_node *target, dop_j_val v)
{
    const dop_j_str name = target->a->s;
    const dop_j_val *ns = look_up_name(cx, name);
    if (!ns || ns->kind != J_NAMESPACE)
        dop_j_fail(cx, target->line, DOP_E_INPUT, "\"%.*s\" is no namespace", name.n > 40 ? 40 : (int)name.n, name.s);
    else
        dop_j_set(cx, ns->u.dict, dop_j_str_val(target->s), v);
}

/* Binds a value to a name, or its items to several names. */
static void
bind_target(dop_j_ctx *cx, const dop_j_node *target, dop_j_val v)
{
    if (cx->status != DOP_OK)
        return;
    if (target->kind == JN_NAME) {
        bind_name(cx, target->s, v);
    } else if (target->kind == JN_ATTR) {
        bind_attribute(cx, target, v);
    } else {
        const dop_j_list *items = dop_j_items(cx, v);
        if (!items || items->n != target->list_n)
            dop_j_fail(cx, target->line, DOP_E_INPUT, "cannot unpack a %s into %zu names", dop_j_kind_name(v.kind),
                       target->list_n);
        for (size_t i = 0; cx->status == DOP_OK && i < target->list_n; i++)
            bind_target(cx, target->list[i], items->items[i]);
    }
}

static dop_j_scope *
make_scope(dop_j_ctx *cx, dop_j_scope *up)
{
    dop_j_scope *scope = dop_j_alloc(cx, sizeof *scope);
    if (scope)
        scope->up = up;
    return scope;
}

/* ---- macros ---- */

/* Binds varargs and kwargs, the arguments in excess of a macro's parameters, if its body mentions them. */
static void
bind_extra_arguments(dop_j_ctx *cx, const dop_j_node *m, const dop_j_args *a)
{
    dop_j_val more = m->more_args ? dop_j_new_list(cx, J_TUPLE) : dop_j_none();
    dop_j_val named = m->more_named ? dop_j_new_dict(cx, J_DICT) : dop_j_none();
    if (a->n > m->names_n && !m->more_args)
        dop_j_fail(cx, a->line, DOP_E_INPUT, "macro \"%.*s\" takes %zu arguments", (int)m->s.n, m->s.s, m->names_n);
    for (size_t i = m->names_n; i < a->n && cx->status == DOP_OK; i++)
        dop_j_push(cx, more, a->pos[i]);
    for (size_t k = 0; k < a->named_n && dop_j_step(cx, 1 + m->names_n / 4); k++) {
        bool known = false;
        for (size_t i = 0; i < m->names_n; i++)
            known |= dop_j_str_eq(a->names[k], m->names[i]);
        if (!known && !m->more_named)
            dop_j_fail(cx, a->line, DOP_E_INPUT, "macro \"%.*s\" has no parameter \"%.*s\"", (int)m->s.n, m->s.s,
                       a->names[k].n > 40 ? 40 : (int)a->names[k].n, a->names[k].s);
        else if (!known)
            dop_j_set(cx, named.u.dict, dop_j_str_val(a->names[k]), a->named[k]);
    }
    if (m->more_args)
        bind_name(cx, (dop_j_str){"varargs", 7}, more);
    if (m->more_named)
        bind_name(cx, (dop_j_str){"kwargs", 6}, named);
}

static void
bind_parameters(dop_j_ctx *cx, const dop_j_node *m, const dop_j_args *a)
{
    const size_t first_default = m->names_n - m->list_n;
    for (size_t i = 0; i < m->names_n && dop_j_step(cx, 1 + a->named_n / 4); i++) {
        const dop_j_val *v = i < a->n ? &a->pos[i] : NULL;
        for (size_t k = 0; k < a->named_n; k++) {
            if (!dop_j_str_eq(a->names[k], m->names[i]))
                continue;
            if (v)
                dop_j_fail(cx, a->line, DOP_E_INPUT, "an argument is given twice");
            v = &a->named[k];
        }
        bind_name(cx, m->names[i],
                  v                    ? *v
                  : i >= first_default ? dop_j_eval(cx, m->list[i - first_default])
                                       : dop_j_undef(m->names[i]));
    }
}

static dop_j_val
call_macro(dop_j_ctx *cx, const dop_j_macro *macro, const dop_j_args *a, const dop_j_val *caller)
{
    const dop_j_node *m = macro->node;
    dop_j_scope *scope = make_scope(cx, macro->scope), *before = cx->scope;
    dop_j_out text = {0}, *out = cx->out;
    if (!scope)
        return dop_j_none();
    if (++cx->depth > J_MAX_DEPTH) {
        cx->depth--;
        return dop_j_fail(cx, a->line, DOP_E_LIMIT, "macros are nested too deeply");
    }
    const size_t loops = cx->loop_depth;
    cx->scope = scope;
    cx->loop_depth = 0;
    bind_extra_arguments(cx, m, a);
    if (caller || (m->asks_caller && m->kind == JN_MACRO))
        bind_name(cx, (dop_j_str){"caller", 6}, caller ? *caller : dop_j_undef((dop_j_str){"caller", 6}));
    bind_parameters(cx, m, a);
    cx->out = &text;
    exec_statements(cx, m->body, m->body_n);
    cx->out = out;
    cx->scope = before;
    cx->loop_depth = loops;
    cx->depth--;
    return dop_j_take(&text);
}

/* Returns a closure of a macro or a call block's body in the current scope. */
static dop_j_val
make_macro_value(dop_j_ctx *cx, const dop_j_node *n)
{
    dop_j_macro *macro = dop_j_alloc(cx, sizeof *macro);
    if (!macro)
        return dop_j_none();
    *macro = (dop_j_macro){n, cx->scope};
    return (dop_j_val){.kind = J_MACRO, .u.macro = macro};
}

/* ---- loops ---- */

/* Returns the items of a loop that satisfy its "if". */
static const dop_j_list *
list_loop_items(dop_j_ctx *cx, const dop_j_node *n, dop_j_val v)
{
    const dop_j_list *items = cx->status == DOP_OK ? dop_j_items(cx, v) : NULL;
    if (!items) {
        dop_j_fail(cx, n->line, DOP_E_INPUT, "cannot loop over a %s", dop_j_kind_name(v.kind));
        return NULL;
    }
    if (!n->b)
        return items;
    dop_j_val kept = dop_j_new_list(cx, J_LIST);
    dop_j_scope *scope = make_scope(cx, cx->scope);
    for (size_t i = 0; i < items->n && cx->status == DOP_OK; i++) {
        dop_j_clear(&scope->vars);
        cx->scope = scope;
        bind_target(cx, n->target, items->items[i]);
        if (dop_j_truth(dop_j_eval(cx, n->b)))
            dop_j_push(cx, kept, items->items[i]);
        cx->scope = scope->up;
    }
    return cx->status == DOP_OK ? kept.u.list : NULL;
}

static void
exec_for(dop_j_ctx *cx, const dop_j_node *n, dop_j_val over, size_t depth)
{
    const dop_j_list *items = list_loop_items(cx, n, over);
    if (!items)
        return;
    dop_j_loop *loop = dop_j_alloc(cx, sizeof *loop);
    dop_j_scope *scope = make_scope(cx, cx->scope);
    if (!loop || !scope)
        return;
    *loop = (dop_j_loop){.items = items, .depth = depth, .node = n};
    cx->scope = scope;
    if (items->n == 0)
        exec_statements(cx, n->other, n->other_n);
    cx->loop_depth++;
    for (size_t i = 0; i < items->n && dop_j_step(cx, J_NODE_STEPS); i++) {
        dop_j_clear(&scope->vars); /* names live for one iteration; the next one reuses their memory */
        cx->scope = scope;
        loop->at = i;
        bind_target(cx, n->target, items->items[i]);
        bind_name(cx, (dop_j_str){"loop", 4}, (dop_j_val){.kind = J_LOOP, .u.loop = loop});
        if (exec_statements(cx, n->body, n->body_n) == FLOW_BREAK)
            break;
    }
    cx->loop_depth--;
    cx->scope = scope->up;
}

/* Evaluates loop(items) in a recursive loop: runs the loop over the items and returns its output. */
static dop_j_val
call_loop(dop_j_ctx *cx, const dop_j_loop *loop, dop_j_val items)
{
    dop_j_out text = {0}, *out = cx->out;
    cx->out = &text;
    if (++cx->depth > J_MAX_DEPTH)
        dop_j_fail(cx, loop->node->line, DOP_E_LIMIT, "loops are nested too deeply");
    else
        exec_for(cx, loop->node, items, loop->depth + 1);
    cx->depth--;
    cx->out = out;
    return dop_j_take(&text);
}

/* ---- statements ---- */

/* Runs statements and returns their output as a string. */
static flow
capture_block_output(dop_j_ctx *cx, const dop_j_node *n, dop_j_val *out_text)
{
    dop_j_out text = {0}, *out = cx->out;
    dop_j_scope *scope = make_scope(cx, cx->scope);
    *out_text = dop_j_none();
    if (!scope)
        return FLOW_NEXT;
    cx->scope = scope;
    cx->out = &text;
    flow f = exec_statements(cx, n->body, n->body_n);
    cx->out = out;
    cx->scope = scope->up;
    *out_text = dop_j_take(&text);
    for (size_t i = 0; i < n->list_n && cx->status == DOP_OK; i++)
        *out_text = eval_filter(cx, n->list[i], *out_text);
    return f;
}

/* Runs a block in a scope of its own. The values of a "with" tag are evaluated in the outer scope. */
static flow
exec_scope(dop_j_ctx *cx, const dop_j_node *n)
{
    dop_j_scope *outer = cx->scope, *scope = make_scope(cx, outer);
    if (!scope)
        return FLOW_NEXT;
    for (size_t i = 0; i < n->list_n; i++) {
        const dop_j_val v = dop_j_eval(cx, n->list[i]->a);
        cx->scope = scope;
        bind_target(cx, n->list[i]->target, v);
        cx->scope = outer;
    }
    cx->scope = scope;
    const flow f = exec_statements(cx, n->body, n->body_n);
    cx->scope = outer;
    return f;
}

static void
print_expression_value(dop_j_ctx *cx, dop_j_val v)
{
    if (cx->status == DOP_OK)
        dop_j_print(cx, cx->out, v);
}

static flow
exec_statement(dop_j_ctx *cx, const dop_j_node *n)
{
    dop_j_val v;
    flow f;
    switch (n->kind) {
    case JN_DATA:
        dop_j_put(cx, cx->out, n->s.s, n->s.n);
        return FLOW_NEXT;
    case JN_OUTPUT:
        print_expression_value(cx, dop_j_eval(cx, n->a));
        return FLOW_NEXT;
    case JN_FOR:
        exec_for(cx, n, dop_j_eval(cx, n->a), 1);
        return FLOW_NEXT;
    case JN_IF:
        if (dop_j_truth(dop_j_eval(cx, n->a)))
            return exec_statements(cx, n->body, n->body_n);
        return exec_statements(cx, n->other, n->other_n);
    case JN_SET:
        bind_target(cx, n->target, dop_j_eval(cx, n->a));
        return FLOW_NEXT;
    case JN_SET_BLOCK:
        f = capture_block_output(cx, n, &v);
        bind_target(cx, n->target, v);
        return f;
    case JN_FILTER_BLOCK:
        f = capture_block_output(cx, n, &v);
        print_expression_value(cx, v);
        return f;
    case JN_MACRO:
        bind_name(cx, n->s, make_macro_value(cx, n));
        return FLOW_NEXT;
    case JN_CALL_BLOCK:
        v = make_macro_value(cx, n);
        print_expression_value(cx, call_value(cx, n->a, &v));
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
exec_statements(dop_j_ctx *cx, dop_j_node *const *list, size_t n)
{
    flow f = FLOW_NEXT;
    if (n && ++cx->depth > J_MAX_DEPTH)
        dop_j_fail(cx, list[0]->line, DOP_E_LIMIT, "blocks are nested too deeply");
    for (size_t i = 0; i < n && f == FLOW_NEXT && dop_j_step(cx, J_NODE_STEPS); i++)
        f = exec_statement(cx, list[i]);
    cx->depth -= n ? 1 : 0;
    return f;
}

void
dop_j_run(dop_j_ctx *cx)
{
    exec_statements(cx, cx->tree, cx->tree_n);
    dop_j_charge(cx);
}
