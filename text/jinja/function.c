/* Global functions of templates: Jinja's, and those that transformers adds. */
#include <stdio.h>
#include <string.h>

#include "text/jinja/arena.h"
#include "text/jinja/args.h"
#include "text/jinja/function.h"
#include "text/jinja/jinja.h"
#include "text/jinja/print.h"
#include "text/jinja/value.h"

/* Adds entries to a dictionary from a mapping or a list of pairs. */
static void
add_members(dop_j_ctx *cx, dop_j_dict *d, dop_j_val from, const dop_j_args *a)
{
    const bool mapping = from.kind == J_DICT;
    const dop_j_list *l = mapping ? NULL : dop_j_items(cx, from);
    if (!mapping && (!l || from.kind == J_STR)) {
        dop_j_wrong(cx, a, "dict", from);
        return;
    }
    const size_t n = mapping ? from.u.dict->n : l->n;
    for (size_t i = 0; i < n && cx->status == DOP_OK; i++) {
        if (mapping) {
            dop_j_set(cx, d, from.u.dict->entries[i].key, from.u.dict->entries[i].val);
            continue;
        }
        const dop_j_list *pair = dop_j_items(cx, l->items[i]);
        if (!pair || pair->n != 2)
            dop_j_fail(cx, a->line, DOP_E_INPUT, "dict: an item is no pair");
        else
            dop_j_set(cx, d, pair->items[0], pair->items[1]);
    }
}

static dop_j_val
make_dict(dop_j_ctx *cx, const dop_j_args *a, int kind)
{
    const dop_j_val r = dop_j_new_dict(cx, (dop_j_kind)kind);
    if (cx->status == DOP_OK && a->n)
        add_members(cx, r.u.dict, a->pos[0], a);
    for (size_t i = 0; i < a->named_n && cx->status == DOP_OK; i++)
        dop_j_set(cx, r.u.dict, dop_j_str_val(a->names[i]), a->named[i]);
    return r;
}

static dop_j_val
make_range(dop_j_ctx *cx, const dop_j_args *a, int how)
{
    (void)how;
    const int64_t from = a->n > 1 ? dop_j_int_arg(cx, a, 0, NULL, 0) : 0;
    const int64_t to = dop_j_int_arg(cx, a, a->n > 1 ? 1 : 0, NULL, 0), step = dop_j_int_arg(cx, a, 2, NULL, 1);
    const int64_t far = INT64_MAX / 4;
    const dop_j_val r = dop_j_new_list(cx, J_RANGE);
    if (a->n < 1 || step == 0 || from > far || from < -far || to > far || to < -far || step > far || step < -far)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "range: arguments out of range");
    const int64_t n = step > 0 ? (to - from + step - 1) / step : (from - to - step - 1) / -step;
    if (n > J_MAX_RANGE)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "range: arguments out of range: more than %d items", J_MAX_RANGE);
    if (cx->status == DOP_OK) {
        r.u.list->first = from;
        r.u.list->stop = to;
        r.u.list->step = step;
    }
    for (int64_t i = 0; i < n && cx->status == DOP_OK; i++)
        dop_j_push(cx, r, dop_j_int(from + i * step));
    return r;
}

static dop_j_val
make_cycler(dop_j_ctx *cx, const dop_j_args *a, int how)
{
    const dop_j_val r = dop_j_new_list(cx, J_LIST);
    for (size_t i = 0; i < a->n && cx->status == DOP_OK; i++)
        dop_j_push(cx, r, a->pos[i]);
    if (how == J_JOINER && a->n == 0)
        dop_j_push(cx, r, dop_j_str_val(dop_j_str_arg(cx, a, 0, "sep", ", ")));
    if (cx->status != DOP_OK || r.u.list->n == 0)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "cycler needs an item");
    return (dop_j_val){.kind = (dop_j_kind)how, .u.list = r.u.list};
}

static dop_j_val
strftime_now(dop_j_ctx *cx, const dop_j_args *a, int how)
{
    char format[128], text[256];
    const dop_j_str f = dop_j_str_arg(cx, a, 0, "format", "");
    (void)how;
    if (f.n + 1 > sizeof format)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "strftime_now: the format is too long");
    memcpy(format, f.s, f.n);
    format[f.n] = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const size_t n = f.n ? strftime(text, sizeof text, format, &cx->now) : 0;
#pragma GCC diagnostic pop
    dop_j_out o = {0};
    dop_j_put(cx, &o, text, n);
    return dop_j_take(&o);
}

static dop_j_val
raise_exception(dop_j_ctx *cx, const dop_j_args *a, int how)
{
    const dop_j_val *v = dop_j_arg(a, 0, "message");
    const dop_j_str s = v ? dop_j_string(cx, *v).u.str : (dop_j_str){"", 0};
    (void)how;
    return dop_j_fail(cx, 0, DOP_E_INPUT, "the chat template refuses this conversation: %.*s",
                      s.n > 400 ? 400 : (int)s.n, s.s);
}

/* Fails for global functions of Jinja that are not supported. */
static dop_j_val
reject_function(dop_j_ctx *cx, const dop_j_args *a, int how)
{
    (void)how;
    return dop_j_fail(cx, a->line, DOP_E_INPUT, "this function of Jinja is not supported");
}

static const struct {
    const char *name;
    dop_j_val (*fn)(dop_j_ctx *cx, const dop_j_args *a, int how);
    int how;
} functions[] = {
    {"raise_exception", raise_exception, 0}, {"strftime_now", strftime_now, 0}, {"range", make_range, 0},
    {"namespace", make_dict, J_NAMESPACE},   {"dict", make_dict, J_DICT},       {"cycler", make_cycler, J_CYCLER},
    {"joiner", make_cycler, J_JOINER},       {"lipsum", reject_function, 0},    {"self", reject_function, 0},
};

dop_j_val
dop_j_function_value(dop_j_str name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (dop_j_eq_lit(name, functions[i].name))
            return (dop_j_val){.kind = J_FUNCTION, .u.str = name};
    return dop_j_undef(name);
}

dop_j_val
dop_j_function(dop_j_ctx *cx, dop_j_str name, const dop_j_args *a)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (!dop_j_eq_lit(name, functions[i].name))
            continue;
        const dop_j_val r = functions[i].fn(cx, a, functions[i].how);
        return cx->status == DOP_OK ? r : dop_j_none();
    }
    return dop_j_fail(cx, a->line, DOP_E_INTERNAL, "no function");
}

bool
dop_j_is_builtin(const char *name)
{
    return dop_j_function_value(dop_j_lit(name).u.str).kind == J_FUNCTION;
}
