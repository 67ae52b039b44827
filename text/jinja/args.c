/* Arguments of calls, filters and tests, positional or by keyword. */
#include <string.h>

#include "text/jinja/arena.h"
#include "text/jinja/args.h"
#include "text/jinja/jinja.h"
#include "text/jinja/value.h"

const dop_j_val *
dop_j_arg(const dop_j_args *a, size_t index, const char *name)
{
    if (index < a->n)
        return &a->pos[index];
    for (size_t i = 0; name && i < a->named_n; i++)
        if (dop_j_eq_lit(a->names[i], name))
            return &a->named[i];
    return NULL;
}

dop_j_str
dop_j_str_arg(dop_j_ctx *cx, const dop_j_args *a, size_t i, const char *name, const char *fallback)
{
    const dop_j_val *v = dop_j_arg(a, i, name);
    if (!v || v->kind == J_NONE)
        return dop_j_lit(fallback).u.str;
    if (v->kind != J_STR)
        dop_j_fail(cx, a->line, DOP_E_INPUT, "an argument must be a string, not a %s", dop_j_kind_name(v->kind));
    return v->kind == J_STR ? v->u.str : dop_j_lit("").u.str;
}

int64_t
dop_j_int_arg(dop_j_ctx *cx, const dop_j_args *a, size_t i, const char *name, int64_t fallback)
{
    const dop_j_val *v = dop_j_arg(a, i, name);
    if (!v || v->kind == J_NONE)
        return fallback;
    if (v->kind != J_INT && v->kind != J_BOOL)
        dop_j_fail(cx, a->line, DOP_E_INPUT, "an argument must be an integer, not a %s", dop_j_kind_name(v->kind));
    return v->kind == J_INT ? v->u.i : v->kind == J_BOOL ? v->u.b : fallback;
}

bool
dop_j_bool_arg(const dop_j_args *a, size_t i, const char *name, bool fallback)
{
    const dop_j_val *v = dop_j_arg(a, i, name);
    return v ? dop_j_truth(*v) : fallback;
}

dop_j_val
dop_j_wrong(dop_j_ctx *cx, const dop_j_args *a, const char *what, dop_j_val v)
{
    if (v.kind == J_UNDEF && cx->status == DOP_OK && v.u.str.n)
        return dop_j_undefined_use(cx, v, a->line);
    return dop_j_fail(cx, a->line, DOP_E_INPUT, "%s does not work on a %s", what, dop_j_kind_name(v.kind));
}
