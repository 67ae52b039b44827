/* Text forms of values: Python's str() and repr(), and json.dumps(). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/encoding/utf8.h"
#include "text/jinja/arena.h"
#include "text/jinja/jinja.h"
#include "text/jinja/print.h"
#include "text/jinja/sort.h"
#include "text/jinja/value.h"

static void put_repr(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, unsigned depth);

static void
put_float(dop_j_ctx *cx, dop_j_out *o, double f)
{
    char t[32];
    dop_j_step(cx, 50);
    dop_j_put(cx, o, t, dop_real_text(f, t));
}

static void
put_int(dop_j_ctx *cx, dop_j_out *o, int64_t i)
{
    char t[32];
    snprintf(t, sizeof t, "%" PRId64, i);
    dop_j_puts(cx, o, t);
}

/* Python's str.isprintable() of one character. */
static bool
is_printable(uint32_t cp)
{
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_ZS:
        return cp == ' ';
    default:
        return true;
    }
}

static void
put_repr_str(dop_j_ctx *cx, dop_j_out *o, dop_j_str s)
{
    const char quote = s.n && memchr(s.s, '\'', s.n) && !memchr(s.s, '"', s.n) ? '"' : '\'';
    char t[16];
    size_t plain = 0; /* start of pending text that needs no escape */
    dop_j_put(cx, o, &quote, 1);
    dop_j_step(cx, s.n * 2);
    for (size_t i = 0; i < s.n && cx->status == DOP_OK;) {
        const dop_utf8_char u = dop_utf8_next(s.s + i, s.n - i);
        const char c = s.s[i];
        const char *named = c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : NULL;
        if (c != quote && c != '\\' && is_printable(u.cp)) {
            i += u.len;
            continue;
        }
        if (c == quote || c == '\\')
            snprintf(t, sizeof t, "\\%c", c);
        else
            snprintf(t, sizeof t, u.cp < 0x100 ? "\\x%02x" : u.cp < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)u.cp);
        dop_j_put(cx, o, s.s + plain, i - plain);
        dop_j_puts(cx, o, named ? named : t);
        plain = i += u.len;
    }
    dop_j_put(cx, o, s.s + plain, s.n - plain);
    dop_j_put(cx, o, &quote, 1);
}

static void
put_repr_items(dop_j_ctx *cx, dop_j_out *o, const dop_j_list *l, unsigned depth)
{
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++) {
        dop_j_puts(cx, o, i ? ", " : "");
        put_repr(cx, o, l->items[i], depth + 1);
    }
}

static void
put_repr_dict(dop_j_ctx *cx, dop_j_out *o, const dop_j_dict *d, unsigned depth)
{
    dop_j_puts(cx, o, "{");
    for (size_t i = 0; i < d->n && cx->status == DOP_OK; i++) {
        dop_j_puts(cx, o, i ? ", " : "");
        put_repr(cx, o, d->entries[i].key, depth + 1);
        dop_j_puts(cx, o, ": ");
        put_repr(cx, o, d->entries[i].val, depth + 1);
    }
    dop_j_puts(cx, o, "}");
}

static void
put_repr_range(dop_j_ctx *cx, dop_j_out *o, const dop_j_list *l)
{
    char t[96];
    snprintf(t, sizeof t,
             l->step == 1 ? "range(%" PRId64 ", %" PRId64 ")" : "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")",
             l->first, l->stop, l->step);
    dop_j_puts(cx, o, t);
}

static void
put_repr_list(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, unsigned depth)
{
    const bool tuple = v.kind == J_TUPLE, view = v.kind == J_VIEW;
    if (view)
        dop_j_puts(cx, o, v.u.list->name);
    dop_j_puts(cx, o, view ? "([" : tuple ? "(" : "[");
    put_repr_items(cx, o, v.u.list, depth);
    dop_j_puts(cx, o, view ? "])" : tuple ? (v.u.list->n == 1 ? ",)" : ")") : "]");
}

static void
put_repr(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, unsigned depth)
{
    if (!dop_j_step(cx, 1))
        return;
    if (depth > J_MAX_DEPTH) {
        dop_j_fail(cx, 0, DOP_E_LIMIT, "a value is nested too deeply");
        return;
    }
    switch (v.kind) {
    case J_UNDEF:
        dop_j_puts(cx, o, "Undefined");
        break;
    case J_STR:
        if (v.safe)
            dop_j_puts(cx, o, "Markup(");
        put_repr_str(cx, o, v.u.str);
        if (v.safe)
            dop_j_puts(cx, o, ")");
        break;
    case J_LIST:
    case J_TUPLE:
    case J_VIEW:
        put_repr_list(cx, o, v, depth);
        break;
    case J_RANGE:
        put_repr_range(cx, o, v.u.list);
        break;
    case J_DICT:
        put_repr_dict(cx, o, v.u.dict, depth);
        break;
    case J_NAMESPACE:
        dop_j_puts(cx, o, "<Namespace ");
        put_repr_dict(cx, o, v.u.dict, depth);
        dop_j_puts(cx, o, ">");
        break;
    default:
        dop_j_print(cx, o, v);
    }
}

void
dop_j_repr(dop_j_ctx *cx, dop_j_out *o, dop_j_val v)
{
    put_repr(cx, o, v, 0);
}

/* Prints a value without a text form, such as a function, as its type and an address, as Python does. The address is
 * a constant here; in Python it differs between runs. */
static void
put_object(dop_j_ctx *cx, dop_j_out *o, dop_j_val v)
{
    static const char address[] = " at 0x7f0000000000>";
    const char *type = "object";
    if (v.kind == J_MACRO) {
        dop_j_puts(cx, o, "<Macro ");
        put_repr_str(cx, o, v.u.macro->node->s);
        dop_j_puts(cx, o, ">");
        return;
    }
    if (v.kind == J_METHOD) {
        const dop_j_kind self = v.u.method->self.kind;
        type = self == J_STR     ? "str"
               : self == J_DICT  ? "dict"
               : self == J_LIST  ? "list"
               : self == J_TUPLE ? "tuple"
                                 : type;
        dop_j_puts(cx, o, "<built-in method ");
        dop_j_puts(cx, o, v.u.method->row->name);
        dop_j_puts(cx, o, " of ");
        dop_j_puts(cx, o, type);
        dop_j_puts(cx, o, " object");
    } else if (v.kind == J_FUNCTION) {
        dop_j_puts(cx, o, "<function ");
        dop_j_put(cx, o, v.u.str.s, v.u.str.n);
    } else {
        dop_j_puts(cx, o,
                   v.kind == J_ITER     ? "<generator object"
                   : v.kind == J_CYCLER ? "<Cycler object"
                                        : "<Joiner object");
    }
    dop_j_puts(cx, o, address);
}

void
dop_j_print(dop_j_ctx *cx, dop_j_out *o, dop_j_val v)
{
    char t[64];
    switch (v.kind) {
    case J_UNDEF:
        break;
    case J_NONE:
        dop_j_puts(cx, o, "None");
        break;
    case J_BOOL:
        dop_j_puts(cx, o, v.u.b ? "True" : "False");
        break;
    case J_INT:
        put_int(cx, o, v.u.i);
        break;
    case J_FLOAT:
        put_float(cx, o, v.u.f);
        break;
    case J_STR:
    case J_BIG:
        dop_j_put(cx, o, v.u.str.s, v.u.str.n);
        break;
    case J_LIST:
    case J_TUPLE:
    case J_RANGE:
    case J_VIEW:
    case J_DICT:
    case J_NAMESPACE:
        put_repr(cx, o, v, 0);
        break;
    case J_LOOP:
        snprintf(t, sizeof t, "<LoopContext %zu/%zu>", v.u.loop->at + 1, v.u.loop->items->n);
        dop_j_puts(cx, o, t);
        break;
    default:
        put_object(cx, o, v);
    }
}

dop_j_val
dop_j_string(dop_j_ctx *cx, dop_j_val v)
{
    dop_j_out o = {0};
    if (v.kind == J_STR)
        return v;
    dop_j_print(cx, &o, v);
    return dop_j_take(&o);
}

/* ---- JSON ---- */

static void
put_json_str(dop_j_ctx *cx, dop_j_out *o, dop_j_str s, bool ascii)
{
    static const char special[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    char t[16];
    size_t plain = 0;
    dop_j_puts(cx, o, "\"");
    dop_j_step(cx, s.n / 2);
    for (size_t i = 0; i < s.n && cx->status == DOP_OK;) {
        const char c = s.s[i];
        const char *p = c ? strchr(special, c) : NULL;
        uint32_t len = 1;
        if (p) {
            snprintf(t, sizeof t, "\\%c", letter[p - special]);
        } else if ((uint8_t)c < 0x20 || (ascii && (uint8_t)c >= 0x7f)) {
            const dop_utf8_char u = dop_utf8_next(s.s + i, s.n - i);
            if (u.cp >= 0x10000)
                snprintf(t, sizeof t, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (u.cp >> 10)),
                         (unsigned)(0xdc00 + (u.cp & 0x3ff)));
            else
                snprintf(t, sizeof t, "\\u%04x", (unsigned)u.cp);
            len = u.len;
        } else {
            i++;
            continue;
        }
        dop_j_put(cx, o, s.s + plain, i - plain);
        dop_j_puts(cx, o, t);
        plain = i += len;
    }
    dop_j_put(cx, o, s.s + plain, s.n - plain);
    dop_j_puts(cx, o, "\"");
}

static void
put_json_break(dop_j_ctx *cx, dop_j_out *o, const dop_j_json_form *form, unsigned depth)
{
    if (!form->lines)
        return;
    dop_j_puts(cx, o, "\n");
    dop_j_fill(cx, o, form->indent, depth);
}

static void put_json_value(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, const dop_j_json_form *form, unsigned depth);

/* Appends the name of a member as JSON. Numbers, booleans and None become strings. */
static void
put_json_name(dop_j_ctx *cx, dop_j_out *o, dop_j_val key, const dop_j_json_form *form)
{
    if (key.kind == J_STR) {
        put_json_str(cx, o, key.u.str, form->ascii);
        return;
    }
    if (key.kind < J_NONE || key.kind > J_FLOAT)
        dop_j_fail(cx, 0, DOP_E_INPUT, "tojson: a %s cannot be a name", dop_j_kind_name(key.kind));
    dop_j_puts(cx, o, "\"");
    put_json_value(cx, o, key, form, 0);
    dop_j_puts(cx, o, "\"");
}

static void
put_json_members(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, const dop_j_json_form *form, unsigned depth)
{
    const bool list = v.kind != J_DICT;
    const size_t n = list ? v.u.list->n : v.u.dict->n;
    dop_j_keyed *by_name = !list && form->sort ? dop_j_alloc(cx, n * sizeof *by_name + 1) : NULL;
    for (size_t i = 0; by_name && i < n; i++)
        by_name[i] = (dop_j_keyed){v.u.dict->entries[i].key, v.u.dict->entries[i].val};
    if (by_name)
        dop_j_sort(cx, by_name, n, false, 0);
    dop_j_puts(cx, o, list ? "[" : "{");
    for (size_t i = 0; i < n && cx->status == DOP_OK; i++) {
        if (i > 0)
            dop_j_put(cx, o, form->between.s, form->between.n);
        put_json_break(cx, o, form, depth + 1);
        if (list) {
            put_json_value(cx, o, v.u.list->items[i], form, depth + 1);
            continue;
        }
        put_json_name(cx, o, by_name ? by_name[i].key : v.u.dict->entries[i].key, form);
        dop_j_put(cx, o, form->behind_name.s, form->behind_name.n);
        put_json_value(cx, o, by_name ? by_name[i].item : v.u.dict->entries[i].val, form, depth + 1);
    }
    if (n)
        put_json_break(cx, o, form, depth);
    dop_j_puts(cx, o, list ? "]" : "}");
}

static void
put_json_value(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, const dop_j_json_form *form, unsigned depth)
{
    if (!dop_j_step(cx, 1))
        return;
    if (depth > J_MAX_DEPTH) {
        dop_j_fail(cx, 0, DOP_E_LIMIT, "a value is nested too deeply");
        return;
    }
    switch (v.kind) {
    case J_NONE:
        dop_j_puts(cx, o, "null");
        break;
    case J_BOOL:
        dop_j_puts(cx, o, v.u.b ? "true" : "false");
        break;
    case J_FLOAT:
        if (isfinite(v.u.f))
            put_float(cx, o, v.u.f);
        else
            dop_j_puts(cx, o, isnan(v.u.f) ? "NaN" : v.u.f < 0 ? "-Infinity" : "Infinity");
        break;
    case J_INT:
    case J_BIG:
        dop_j_print(cx, o, v);
        break;
    case J_STR:
        put_json_str(cx, o, v.u.str, form->ascii);
        break;
    case J_LIST:
    case J_TUPLE:
    case J_DICT:
        put_json_members(cx, o, v, form, depth);
        break;
    default:
        dop_j_fail(cx, 0, DOP_E_INPUT, "tojson does not work on a %s", dop_j_kind_name(v.kind));
    }
}

void
dop_j_json(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, const dop_j_json_form *form)
{
    put_json_value(cx, o, v, form, 0);
}
