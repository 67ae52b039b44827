/* Values of the Jinja interpreter and their texts, which are Python's. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "runtime/jinja/jinja.h"

typedef struct block {
    struct block *next;
    size_t used, cap;
} block;

enum { block_size = 64 * 1024, block_head = (sizeof(block) + 15) & ~15u };

dop_j_val
dop_j_fail(dop_j_ctx *cx, long line, dop_status code, const char *fmt, ...)
{
    char text[700];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (cx->status == DOP_OK) {
        cx->status = code;
        if (line > 0)
            DOP_FAIL(cx->diag, code, "%s, line %ld: %s", cx->name, line, text);
        else
            DOP_FAIL(cx->diag, code, "%s: %s", cx->name, text);
    }
    return (dop_j_val){.kind = J_UNDEF};
}

void *
dop_j_alloc(dop_j_ctx *cx, size_t n)
{
    block *b = cx->blocks;
    if (cx->status != DOP_OK)
        return NULL;
    if (n > J_MAX_ARENA || cx->arena_used > J_MAX_ARENA - n) {
        dop_j_fail(cx, 0, DOP_E_INPUT, "the template needs more than %d MiB", J_MAX_ARENA >> 20);
        return NULL;
    }
    n = (n + 15) & ~(size_t)15;
    if (!b || b->cap - b->used < n) {
        size_t cap = n > block_size ? n : block_size;
        b = calloc(1, block_head + cap);
        if (!b) {
            dop_j_fail(cx, 0, DOP_E_NOMEM, "out of memory");
            return NULL;
        }
        b->cap = cap;
        b->next = cx->blocks;
        cx->blocks = b;
    }
    void *p = (char *)b + block_head + b->used;
    b->used += n;
    cx->arena_used += n;
    return p;
}

void
dop_j_free_all(dop_j_ctx *cx)
{
    for (block *b = cx->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    cx->blocks = NULL;
}

dop_j_val
dop_j_lit(const char *s)
{
    return dop_j_text(s, strlen(s));
}

bool
dop_j_eq_lit(dop_j_str s, const char *t)
{
    return s.n == strlen(t) && memcmp(s.s, t, s.n) == 0;
}

bool
dop_j_str_eq(dop_j_str a, dop_j_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.s, b.s, a.n) == 0);
}

/* Doubles an array of the arena; false after an error. */
static bool
grow(dop_j_ctx *cx, void **p, size_t *cap, size_t n, size_t need, size_t elem)
{
    if (need <= *cap)
        return true;
    size_t c = *cap ? *cap * 2 : 8;
    while (c < need)
        c *= 2;
    if (c > J_MAX_ARENA / elem) {
        dop_j_fail(cx, 0, DOP_E_INPUT, "the template makes something too large");
        return false;
    }
    void *q = dop_j_alloc(cx, c * elem);
    if (!q)
        return false;
    if (n)
        memcpy(q, *p, n * elem);
    *p = q;
    *cap = c;
    return true;
}

void
dop_j_put(dop_j_ctx *cx, dop_j_out *o, const char *s, size_t n)
{
    void *p = o->s;
    if (n > J_MAX_ARENA || !grow(cx, &p, &o->cap, o->n, o->n + n + 1, 1))
        return;
    o->s = p;
    if (n)
        memcpy(o->s + o->n, s, n);
    o->n += n;
    o->s[o->n] = 0;
}

void
dop_j_puts(dop_j_ctx *cx, dop_j_out *o, const char *s)
{
    dop_j_put(cx, o, s, strlen(s));
}

dop_j_val
dop_j_take(const dop_j_out *o)
{
    return dop_j_text(o->s ? o->s : "", o->n);
}

dop_j_val
dop_j_new_list(dop_j_ctx *cx)
{
    dop_j_list *l = dop_j_alloc(cx, sizeof *l);
    return l ? (dop_j_val){.kind = J_LIST, .u.list = l} : (dop_j_val){.kind = J_UNDEF};
}

dop_j_val
dop_j_new_dict(dop_j_ctx *cx, dop_j_kind kind)
{
    dop_j_dict *d = dop_j_alloc(cx, sizeof *d);
    return d ? (dop_j_val){.kind = kind, .u.dict = d} : (dop_j_val){.kind = J_UNDEF};
}

void
dop_j_push(dop_j_ctx *cx, dop_j_list *l, dop_j_val v)
{
    void *p = l->items;
    if (!grow(cx, &p, &l->cap, l->n, l->n + 1, sizeof v))
        return;
    l->items = p;
    l->items[l->n++] = v;
}

const dop_j_val *
dop_j_get(const dop_j_dict *d, dop_j_str key)
{
    for (size_t i = 0; i < d->n; i++)
        if (dop_j_str_eq(d->keys[i], key))
            return &d->vals[i];
    return NULL;
}

void
dop_j_set(dop_j_ctx *cx, dop_j_dict *d, dop_j_str key, dop_j_val v)
{
    for (size_t i = 0; i < d->n; i++) {
        if (dop_j_str_eq(d->keys[i], key)) {
            d->vals[i] = v;
            return;
        }
    }
    size_t cap = d->cap;
    void *k = d->keys, *p = d->vals;
    if (!grow(cx, &k, &cap, d->n, d->n + 1, sizeof *d->keys) || !grow(cx, &p, &d->cap, d->n, d->n + 1, sizeof v))
        return;
    d->keys = k;
    d->vals = p;
    d->keys[d->n] = key;
    d->vals[d->n++] = v;
}

bool
dop_j_truth(dop_j_val v)
{
    switch (v.kind) {
    case J_UNDEF:
    case J_NONE:
        return false;
    case J_BOOL:
        return v.u.b;
    case J_INT:
        return v.u.i != 0;
    case J_FLOAT:
        return v.u.f != 0;
    case J_STR:
        return v.u.str.n != 0;
    case J_LIST:
        return v.u.list->n != 0;
    case J_DICT:
        return v.u.dict->n != 0;
    default:
        return true;
    }
}

static bool
number(dop_j_val v, double *out)
{
    *out = v.kind == J_BOOL  ? (double)v.u.b
           : v.kind == J_INT ? (double)v.u.i
           : v.kind == J_BIG ? dop_strtod(v.u.str.s, NULL)
                             : v.u.f;
    return v.kind == J_BOOL || v.kind == J_INT || v.kind == J_BIG || v.kind == J_FLOAT;
}

bool
dop_j_equal(dop_j_val a, dop_j_val b, unsigned depth)
{
    double x, y;
    if (a.kind == J_INT && b.kind == J_INT)
        return a.u.i == b.u.i;
    if (a.kind == J_BIG && b.kind == J_BIG)
        return dop_j_str_eq(a.u.str, b.u.str);
    if (number(a, &x) && number(b, &y))
        return x == y;
    if (a.kind != b.kind || depth > J_MAX_DEPTH)
        return false;
    switch (a.kind) {
    case J_UNDEF:
    case J_NONE:
        return true;
    case J_STR:
        return dop_j_str_eq(a.u.str, b.u.str);
    case J_LIST:
        if (a.u.list->n != b.u.list->n)
            return false;
        for (size_t i = 0; i < a.u.list->n; i++)
            if (!dop_j_equal(a.u.list->items[i], b.u.list->items[i], depth + 1))
                return false;
        return true;
    case J_DICT:
        if (a.u.dict->n != b.u.dict->n)
            return false;
        for (size_t i = 0; i < a.u.dict->n; i++) {
            const dop_j_val *v = dop_j_get(b.u.dict, a.u.dict->keys[i]);
            if (!v || !dop_j_equal(a.u.dict->vals[i], *v, depth + 1))
                return false;
        }
        return true;
    case J_NAMESPACE:
        return a.u.dict == b.u.dict;
    case J_MACRO:
        return a.u.macro == b.u.macro;
    case J_FUNCTION:
        return dop_j_str_eq(a.u.str, b.u.str);
    default:
        return a.u.loop == b.u.loop;
    }
}

int
dop_j_order(dop_j_val a, dop_j_val b, bool *ok)
{
    double x, y;
    *ok = true;
    if (a.kind == J_INT && b.kind == J_INT)
        return a.u.i < b.u.i ? -1 : a.u.i > b.u.i;
    if (number(a, &x) && number(b, &y))
        return x < y ? -1 : x > y;
    if (a.kind == J_STR && b.kind == J_STR) { /* bytewise is code point order in UTF-8 */
        size_t n = a.u.str.n < b.u.str.n ? a.u.str.n : b.u.str.n;
        int r = n ? memcmp(a.u.str.s, b.u.str.s, n) : 0;
        return r ? r : a.u.str.n < b.u.str.n ? -1 : a.u.str.n > b.u.str.n;
    }
    *ok = false;
    return 0;
}

static void
put_float(dop_j_ctx *cx, dop_j_out *o, double f)
{
    char t[32];
    dop_j_put(cx, o, t, dop_real_text(f, t));
}

static void
put_int(dop_j_ctx *cx, dop_j_out *o, int64_t i)
{
    char t[32];
    snprintf(t, sizeof t, "%" PRId64, i);
    dop_j_puts(cx, o, t);
}

static void
repr_str(dop_j_ctx *cx, dop_j_out *o, dop_j_str s)
{
    char quote = memchr(s.s, '\'', s.n) && !memchr(s.s, '"', s.n) ? '"' : '\'', t[16];
    dop_j_put(cx, o, &quote, 1);
    for (size_t i = 0; i < s.n; i++) {
        char c = s.s[i];
        if (c == quote || c == '\\') {
            snprintf(t, sizeof t, "\\%c", c);
            dop_j_puts(cx, o, t);
        } else if (c == '\n' || c == '\r' || c == '\t') {
            dop_j_puts(cx, o, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        } else if ((uint8_t)c < 0x20 || c == 0x7f) {
            snprintf(t, sizeof t, "\\x%02x", (unsigned)(uint8_t)c);
            dop_j_puts(cx, o, t);
        } else {
            dop_j_put(cx, o, &c, 1);
        }
    }
    dop_j_put(cx, o, &quote, 1);
}

void
dop_j_repr(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, unsigned depth)
{
    if (depth > J_MAX_DEPTH) {
        dop_j_fail(cx, 0, DOP_E_INPUT, "a value is nested too deeply");
        return;
    }
    switch (v.kind) {
    case J_UNDEF:
        dop_j_puts(cx, o, "Undefined");
        break;
    case J_STR:
        repr_str(cx, o, v.u.str);
        break;
    case J_LIST:
        dop_j_puts(cx, o, "[");
        for (size_t i = 0; i < v.u.list->n && cx->status == DOP_OK; i++) {
            dop_j_puts(cx, o, i ? ", " : "");
            dop_j_repr(cx, o, v.u.list->items[i], depth + 1);
        }
        dop_j_puts(cx, o, "]");
        break;
    case J_DICT:
        dop_j_puts(cx, o, "{");
        for (size_t i = 0; i < v.u.dict->n && cx->status == DOP_OK; i++) {
            dop_j_puts(cx, o, i ? ", " : "");
            repr_str(cx, o, v.u.dict->keys[i]);
            dop_j_puts(cx, o, ": ");
            dop_j_repr(cx, o, v.u.dict->vals[i], depth + 1);
        }
        dop_j_puts(cx, o, "}");
        break;
    default:
        dop_j_print(cx, o, v);
    }
}

void
dop_j_print(dop_j_ctx *cx, dop_j_out *o, dop_j_val v)
{
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
    case J_DICT:
        dop_j_repr(cx, o, v, 0);
        break;
    default:
        dop_j_fail(cx, 0, DOP_E_INPUT, "a %s cannot be printed", dop_j_kind_name(v.kind));
    }
}

static void
json_str(dop_j_ctx *cx, dop_j_out *o, dop_j_str s, bool ascii)
{
    char t[16];
    dop_j_puts(cx, o, "\"");
    for (size_t i = 0; i < s.n; i++) {
        dop_utf8_char u = dop_utf8_next(s.s + i, s.n - i);
        if (ascii && u.cp >= 0x80) {
            if (u.cp >= 0x10000)
                snprintf(t, sizeof t, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (u.cp >> 10)),
                         (unsigned)(0xdc00 + (u.cp & 0x3ff)));
            else
                snprintf(t, sizeof t, "\\u%04x", (unsigned)u.cp);
            dop_j_puts(cx, o, t);
            i += u.len - 1;
            continue;
        }
        static const char plain[] = "\"\\\b\f\n\r\t", name[] = "\"\\bfnrt";
        char c = s.s[i];
        const char *p = c ? strchr(plain, c) : NULL;
        if (p) {
            t[0] = '\\';
            t[1] = name[p - plain];
            dop_j_put(cx, o, t, 2);
        } else if ((uint8_t)c < 0x20) {
            snprintf(t, sizeof t, "\\u%04x", (unsigned)(uint8_t)c);
            dop_j_puts(cx, o, t);
        } else {
            dop_j_put(cx, o, &c, 1);
        }
    }
    dop_j_puts(cx, o, "\"");
}

static void
json_break(dop_j_ctx *cx, dop_j_out *o, int64_t indent, unsigned depth)
{
    if (indent < 0)
        return;
    dop_j_puts(cx, o, "\n");
    for (int64_t i = 0; i < indent * depth && cx->status == DOP_OK; i++)
        dop_j_puts(cx, o, " ");
}

/* The place of the member that comes after the one at `before` in the order of names; SIZE_MAX: of the first one. */
static size_t
next_by_name(const dop_j_dict *d, size_t before)
{
    size_t best = SIZE_MAX;
    bool ok;
    for (size_t i = 0; i < d->n; i++) {
        dop_j_val name = {.kind = J_STR, .u.str = d->keys[i]};
        if (before != SIZE_MAX && dop_j_order(name, (dop_j_val){.kind = J_STR, .u.str = d->keys[before]}, &ok) <= 0)
            continue;
        if (best == SIZE_MAX || dop_j_order(name, (dop_j_val){.kind = J_STR, .u.str = d->keys[best]}, &ok) < 0)
            best = i;
    }
    return best;
}

static void
json_members(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, const dop_j_json_form *form, unsigned depth)
{
    const bool list = v.kind == J_LIST;
    const size_t n = list ? v.u.list->n : v.u.dict->n;
    size_t at = SIZE_MAX;
    dop_j_puts(cx, o, list ? "[" : "{");
    for (size_t i = 0; i < n && cx->status == DOP_OK; i++) {
        if (i > 0)
            dop_j_put(cx, o, form->between.s, form->between.n);
        json_break(cx, o, form->indent, depth + 1);
        at = !list && form->sort ? next_by_name(v.u.dict, at) : i;
        if (!list) {
            json_str(cx, o, v.u.dict->keys[at], form->ascii);
            dop_j_put(cx, o, form->behind_name.s, form->behind_name.n);
        }
        dop_j_json(cx, o, list ? v.u.list->items[i] : v.u.dict->vals[at], form, depth + 1);
    }
    if (n)
        json_break(cx, o, form->indent, depth);
    dop_j_puts(cx, o, list ? "]" : "}");
}

void
dop_j_json(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, const dop_j_json_form *form, unsigned depth)
{
    if (depth > J_MAX_DEPTH) {
        dop_j_fail(cx, 0, DOP_E_INPUT, "a value is nested too deeply");
        return;
    }
    switch (v.kind) {
    case J_NONE:
        dop_j_puts(cx, o, "null");
        break;
    case J_BOOL:
        dop_j_puts(cx, o, v.u.b ? "true" : "false");
        break;
    case J_STR:
        json_str(cx, o, v.u.str, form->ascii);
        break;
    case J_FLOAT:
        if (isnan(v.u.f) || isinf(v.u.f)) {
            dop_j_puts(cx, o, isnan(v.u.f) ? "NaN" : v.u.f < 0 ? "-Infinity" : "Infinity");
            break;
        } /* fallthrough */
    case J_INT:
    case J_BIG:
        dop_j_print(cx, o, v);
        break;
    case J_LIST:
    case J_DICT:
        json_members(cx, o, v, form, depth);
        break;
    default:
        dop_j_fail(cx, 0, DOP_E_INPUT, "a %s has no JSON form", dop_j_kind_name(v.kind));
    }
}

static dop_j_val
copy_text(dop_j_ctx *cx, const char *s, size_t n)
{
    char *p = dop_j_alloc(cx, n + 1);
    if (!p)
        return (dop_j_val){.kind = J_UNDEF};
    memcpy(p, s, n);
    return dop_j_text(p, n);
}

/* A number that Jansson has no value for: as Python reads it, a real where it has a point, an exponent or a name. */
static dop_j_val
kept_number(dop_j_ctx *cx, const json_t *j)
{
    const char *digits = dop_json_number_text(j);
    dop_j_val v = {.kind = J_FLOAT};
    if (digits[strspn(digits, "-0123456789")]) {
        dop_json_number(j, &v.u.f);
        return v;
    }
    v = copy_text(cx, digits, strlen(digits));
    if (v.kind == J_STR)
        v.kind = J_BIG;
    return v;
}

dop_j_val
dop_j_from_json(dop_j_ctx *cx, const json_t *j, unsigned depth)
{
    if (depth > J_MAX_DEPTH)
        return dop_j_fail(cx, 0, DOP_E_INPUT, "the conversation is nested too deeply");
    if (dop_json_number_text(j))
        return kept_number(cx, j);
    switch (json_typeof(j)) {
    case JSON_TRUE:
    case JSON_FALSE:
        return dop_j_bool(json_is_true(j));
    case JSON_INTEGER:
        return dop_j_int(json_integer_value(j));
    case JSON_REAL:
        return (dop_j_val){.kind = J_FLOAT, .u.f = json_real_value(j)};
    case JSON_STRING:
        return copy_text(cx, json_string_value(j), json_string_length(j));
    case JSON_ARRAY: {
        dop_j_val l = dop_j_new_list(cx);
        for (size_t i = 0; i < json_array_size(j) && cx->status == DOP_OK; i++)
            dop_j_push(cx, l.u.list, dop_j_from_json(cx, json_array_get(j, i), depth + 1));
        return l;
    }
    case JSON_OBJECT: {
        dop_j_val d = dop_j_new_dict(cx, J_DICT);
        const char *key;
        size_t n;
        json_t *v;
        json_object_keylen_foreach((json_t *)(uintptr_t)j, key, n, v)
        {
            dop_j_val k = copy_text(cx, key, n), item = dop_j_from_json(cx, v, depth + 1);
            if (cx->status != DOP_OK)
                break;
            dop_j_set(cx, d.u.dict, k.u.str, item);
        }
        return d;
    }
    default:
        return (dop_j_val){.kind = J_NONE};
    }
}

const char *
dop_j_kind_name(dop_j_kind k)
{
    static const char *const names[] = {"undefined value", "none", "boolean", "integer",   "float",
                                        "string",          "list", "mapping", "namespace", "macro",
                                        "function",        "loop", "integer"};
    return names[k];
}

const dop_j_list *
dop_j_items(dop_j_ctx *cx, dop_j_val v)
{
    if (v.kind == J_LIST)
        return v.u.list;
    if (v.kind != J_DICT && v.kind != J_STR && v.kind != J_UNDEF)
        return NULL;
    dop_j_val l = dop_j_new_list(cx);
    if (cx->status != DOP_OK)
        return NULL;
    if (v.kind == J_DICT)
        for (size_t i = 0; i < v.u.dict->n; i++)
            dop_j_push(cx, l.u.list, dop_j_text(v.u.dict->keys[i].s, v.u.dict->keys[i].n));
    if (v.kind == J_STR) {
        for (size_t i = 0; i < v.u.str.n && cx->status == DOP_OK;) {
            size_t len = dop_utf8_next(v.u.str.s + i, v.u.str.n - i).len;
            dop_j_push(cx, l.u.list, dop_j_text(v.u.str.s + i, len));
            i += len;
        }
    }
    return l.u.list;
}

size_t
dop_j_chars(dop_j_str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; n++)
        i += dop_utf8_next(s.s + i, s.n - i).len;
    return n;
}

bool
dop_j_is_space(uint32_t cp)
{
    return dop_utf8_is_space(cp) || (cp >= 0x1c && cp <= 0x1f);
}

/* Whether a character is white space, or one of `chars`. */
static bool
strippable(dop_j_str c, uint32_t cp, const dop_j_str *chars)
{
    if (!chars)
        return dop_j_is_space(cp);
    for (size_t i = 0; i < chars->n;) {
        size_t len = dop_utf8_next(chars->s + i, chars->n - i).len;
        if (len == c.n && memcmp(chars->s + i, c.s, len) == 0)
            return true;
        i += len;
    }
    return false;
}

dop_j_str
dop_j_strip(dop_j_str s, const dop_j_str *chars, bool left, bool right)
{
    while (left && s.n) {
        dop_utf8_char u = dop_utf8_next(s.s, s.n);
        if (!strippable((dop_j_str){s.s, u.len}, u.cp, chars))
            break;
        s.s += u.len;
        s.n -= u.len;
    }
    while (right && s.n) {
        size_t at = dop_utf8_prev(s.s, s.n);
        dop_utf8_char u = dop_utf8_next(s.s + at, s.n - at);
        if (!strippable((dop_j_str){s.s + at, s.n - at}, u.cp, chars))
            break;
        s.n = at;
    }
    return s;
}
