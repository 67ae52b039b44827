/* Evaluation of expressions. */
#include <string.h>

#include "runtime/jinja/jinja.h"

const dop_j_val *
dop_j_lookup(dop_j_ctx *cx, dop_j_str name)
{
    for (const dop_j_scope *s = cx->scope; s && dop_j_step(cx, 1); s = s->up) {
        const dop_j_val *v = dop_j_get(cx, &s->vars, dop_j_str_val(name));
        if (v)
            return v;
    }
    return NULL;
}

static dop_j_val
undefined(void)
{
    return dop_j_undef((dop_j_str){"value", 5});
}

/* ---- calls ---- */

/* The names and values of **DICTIONARY behind those that are written. */
static void
add_named(dop_j_ctx *cx, const dop_j_node *e, dop_j_val splat, dop_j_args *a)
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

dop_j_args
dop_j_eval_args(dop_j_ctx *cx, const dop_j_node *e, dop_j_val stack[J_STACK_ARGS])
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
        add_named(cx, e, dop_j_eval(cx, e->named_splat), &a);
    return a;
}

static dop_j_val
call_joiner(dop_j_ctx *cx, dop_j_list *joiner)
{
    (void)cx;
    return joiner->at++ == 0 ? dop_j_lit("") : joiner->items[0];
}

dop_j_val
dop_j_call(dop_j_ctx *cx, const dop_j_node *e, const dop_j_val *caller)
{
    dop_j_val stack[J_STACK_ARGS], self = undefined(), f;
    const dop_j_method_row *method = NULL;
    if (e->a->kind == JN_ATTR) {
        self = dop_j_eval(cx, e->a->a);
        if (cx->status == DOP_OK && self.kind == J_UNDEF)
            return dop_j_undefined_use(cx, self, e->line);
        method = cx->status == DOP_OK ? dop_j_find_method(self.kind, e->a->s) : NULL;
        f = method ? undefined() : dop_j_attribute(cx, self, e->a->s, e->line);
    } else {
        f = dop_j_eval(cx, e->a);
    }
    const dop_j_args a = dop_j_eval_args(cx, e, stack);
    if (cx->status != DOP_OK)
        return undefined();
    if (method)
        return dop_j_call_method(cx, self, method, &a);
    switch (f.kind) {
    case J_METHOD:
        return dop_j_call_method(cx, f.u.method->self, f.u.method->row, &a);
    case J_MACRO:
        return dop_j_call_macro(cx, f.u.macro, &a, caller);
    case J_FUNCTION:
        return dop_j_function(cx, f.u.str, &a);
    case J_JOINER:
        return call_joiner(cx, f.u.list);
    case J_LOOP:
        if (f.u.loop->node->recursive && a.n == 1)
            return dop_j_call_loop(cx, f.u.loop, a.pos[0]);
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

dop_j_val
dop_j_eval_filter(dop_j_ctx *cx, const dop_j_node *e, dop_j_val v)
{
    dop_j_val stack[J_STACK_ARGS];
    const dop_j_args a = dop_j_eval_args(cx, e, stack);
    return cx->status == DOP_OK ? dop_j_filter(cx, e->s, v, &a) : v;
}

static dop_j_val
eval_test(dop_j_ctx *cx, const dop_j_node *e)
{
    dop_j_val stack[J_STACK_ARGS], v = dop_j_eval(cx, e->a);
    const dop_j_args a = dop_j_eval_args(cx, e, stack);
    return cx->status == DOP_OK ? dop_j_bool(dop_j_test(cx, e->s, v, &a) != e->negate) : v;
}

/* ---- other expressions ---- */

static dop_j_val
eval_list(dop_j_ctx *cx, const dop_j_node *e)
{
    dop_j_val r = dop_j_new_list(cx, e->kind == JN_TUPLE ? J_TUPLE : J_LIST);
    for (size_t i = 0; i < e->list_n && cx->status == DOP_OK; i++)
        dop_j_push(cx, r, e->list[i]->kind == JN_SLICE && !e->list[i]->a ? undefined() : dop_j_eval(cx, e->list[i]));
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
compare(dop_j_ctx *cx, const dop_j_node *e)
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

/* A number with a sign. */
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
        return dop_j_read_int(cx, dop_j_take(&o).u.str, 10, &r) ? r : undefined(); /* -2^63 has 64 bits */
    }
    return dop_j_fail(cx, e->line, DOP_E_INPUT, "cannot negate a %s", dop_j_kind_name(v.kind));
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
eval_node(dop_j_ctx *cx, const dop_j_node *e)
{
    dop_j_val v, w;
    const dop_j_val *found;
    switch (e->kind) {
    case JN_CONST:
        return e->value;
    case JN_NAME:
        found = dop_j_lookup(cx, e->s);
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
        return dop_j_call(cx, e, NULL);
    case JN_FILTER:
        return dop_j_eval_filter(cx, e, dop_j_eval(cx, e->a));
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
        return e->c ? dop_j_eval(cx, e->c) : undefined();
    case JN_BINARY:
        v = dop_j_eval(cx, e->a);
        return dop_j_binary(cx, e->s, v, dop_j_eval(cx, e->b), e->line);
    case JN_COMPARE:
        return compare(cx, e);
    default:
        return dop_j_fail(cx, e->line, DOP_E_INTERNAL, "not an expression");
    }
}

dop_j_val
dop_j_eval(dop_j_ctx *cx, const dop_j_node *e)
{
    if (cx->status != DOP_OK || !e || !dop_j_step(cx, J_NODE_STEPS))
        return undefined();
    if (++cx->depth > J_MAX_DEPTH) {
        cx->depth--;
        return dop_j_fail(cx, e->line, DOP_E_LIMIT, "expressions are nested too deeply");
    }
    dop_j_val v = eval_node(cx, e);
    cx->depth--;
    return cx->status == DOP_OK ? v : undefined();
}
