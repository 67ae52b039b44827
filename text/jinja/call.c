/* Method calls. Handles str.format() separately, which resolves attributes itself. */
#include "text/jinja/call.h"
#include "text/jinja/arena.h"
#include "text/jinja/args.h"
#include "text/jinja/format.h"
#include "text/jinja/jinja.h"

static dop_j_val
call_format_method(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    if (how != 'm')
        return dop_j_str_format(cx, self.u.str, a);
    const dop_j_val *map = dop_j_arg(a, 0, NULL); /* the rest implements format_map() */
    if (!map || map->kind != J_DICT)
        return dop_j_wrong(cx, a, "format_map", map ? *map : dop_j_none());
    const size_t n = map->u.dict->n;
    dop_j_str *names = dop_j_alloc(cx, n * sizeof *names + 1);
    dop_j_val *values = dop_j_alloc(cx, n * sizeof *values + 1);
    for (size_t i = 0; values && names && i < n; i++) {
        const dop_j_entry *e = &map->u.dict->entries[i];
        names[i] = e->key.kind == J_STR ? e->key.u.str : (dop_j_str){"", 0};
        values[i] = e->val;
    }
    const dop_j_args named = {.names = names, .named = values, .named_n = n, .line = a->line};
    return cx->status == DOP_OK ? dop_j_str_format(cx, self.u.str, &named) : self;
}

dop_j_val
dop_j_call_method(dop_j_ctx *cx, dop_j_val self, const dop_j_method_row *row, const dop_j_args *a)
{
    if (row->how == 'F' || row->how == 'm')
        return call_format_method(cx, self, a, row->how);
    if (!row->fn)
        return dop_j_fail(cx, a->line, DOP_E_INPUT,
                          "the method \"%s\" would change a value, which templates may not do", row->name);
    dop_j_val r = row->fn(cx, self, a, row->how);
    r.safe |= r.kind == J_STR && self.kind == J_STR && self.safe;
    return cx->status == DOP_OK ? r : dop_j_none();
}
