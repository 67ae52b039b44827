/* Attributes of values. */
#include <string.h>

#include "text/jinja/arena.h"
#include "text/jinja/attribute.h"
#include "text/jinja/jinja.h"
#include "text/jinja/method.h"
#include "text/jinja/value.h"

static dop_j_val
find_loop_attribute(const dop_j_loop *l, dop_j_str name)
{
    const int64_t at = (int64_t)l->at, n = (int64_t)l->items->n;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"index", at + 1},
                   {"index0", at},
                   {"revindex", n - at},
                   {"revindex0", n - at - 1},
                   {"length", n},
                   {"depth", (int64_t)l->depth},
                   {"depth0", (int64_t)l->depth - 1}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (dop_j_eq_lit(name, numbers[i].name))
            return dop_j_int(numbers[i].value);
    if (dop_j_eq_lit(name, "first") || dop_j_eq_lit(name, "last"))
        return dop_j_bool(name.s[0] == 'f' ? at == 0 : at + 1 == n);
    if (dop_j_eq_lit(name, "previtem") && at > 0)
        return l->items->items[at - 1];
    if (dop_j_eq_lit(name, "nextitem") && at + 1 < n)
        return l->items->items[at + 1];
    return dop_j_undef(name);
}

static dop_j_val
find_macro_attribute(dop_j_ctx *cx, const dop_j_node *m, dop_j_str name)
{
    if (dop_j_eq_lit(name, "name"))
        return dop_j_str_val(m->s);
    if (dop_j_eq_lit(name, "catch_varargs") || dop_j_eq_lit(name, "catch_kwargs"))
        return dop_j_bool(name.s[6] == 'v' ? m->more_args : m->more_named);
    if (dop_j_eq_lit(name, "caller"))
        return dop_j_bool(m->asks_caller);
    if (!dop_j_eq_lit(name, "arguments"))
        return dop_j_undef(name);
    const dop_j_val l = dop_j_new_list(cx, J_TUPLE);
    for (size_t i = 0; i < m->names_n && cx->status == DOP_OK; i++)
        dop_j_push(cx, l, dop_j_str_val(m->names[i]));
    return l;
}

dop_j_val
dop_j_attribute(dop_j_ctx *cx, dop_j_val self, dop_j_str name, long line)
{
    const dop_j_method_row *method = dop_j_find_method(self.kind, name);
    const dop_j_val *v;
    if (self.kind == J_UNDEF)
        return dop_j_undefined_use(cx, self, line);
    if (method && !method->fn && self.kind != J_STR)
        return dop_j_undef(name);
    if (method) {
        dop_j_bound *bound = dop_j_alloc(cx, sizeof *bound);
        if (!bound)
            return dop_j_undef(name);
        *bound = (dop_j_bound){self, method};
        return (dop_j_val){.kind = J_METHOD, .u.method = bound};
    }
    switch (self.kind) {
    case J_DICT:
    case J_NAMESPACE:
        v = dop_j_get(cx, self.u.dict, dop_j_str_val(name));
        return v ? *v : dop_j_undef(name);
    case J_LOOP:
        return find_loop_attribute(self.u.loop, name);
    case J_MACRO:
        return find_macro_attribute(cx, self.u.macro->node, name);
    case J_TUPLE: /* pairs returned by groupby have named items */
        if (self.u.list->name && (dop_j_eq_lit(name, "grouper") || dop_j_eq_lit(name, "list")))
            return self.u.list->items[name.s[0] == 'l'];
        return dop_j_undef(name);
    case J_CYCLER:
        if (dop_j_eq_lit(name, "current"))
            return self.u.list->items[self.u.list->at % self.u.list->n];
        return dop_j_undef(name);
    default:
        return dop_j_undef(name);
    }
}
