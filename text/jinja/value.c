/* Values of the Jinja interpreter: dictionaries, equality, order and hashes, with Python's semantics. */
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "base/encoding/utf8.h"
#include "text/jinja/arena.h"
#include "text/jinja/jinja.h"
#include "text/jinja/number.h"
#include "text/jinja/value.h"

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

const char *
dop_j_find(dop_j_ctx *cx, dop_j_str in, dop_j_str what)
{
    if (!dop_j_step(cx, 1) || what.n > in.n)
        return NULL;
    const char *p = what.n ? memmem(in.s, in.n, what.s, what.n) : in.s;
    dop_j_step(cx, (p ? (size_t)(p - in.s) : in.n) / 8);
    return p;
}

dop_j_val
dop_j_new_list(dop_j_ctx *cx, dop_j_kind kind)
{
    dop_j_list *l = dop_j_alloc(cx, sizeof *l);
    return l ? (dop_j_val){.kind = kind, .u.list = l} : (dop_j_val){.kind = J_UNDEF};
}

dop_j_val
dop_j_new_dict(dop_j_ctx *cx, dop_j_kind kind)
{
    dop_j_dict *d = dop_j_alloc(cx, sizeof *d);
    return d ? (dop_j_val){.kind = kind, .u.dict = d} : (dop_j_val){.kind = J_UNDEF};
}

void
dop_j_push(dop_j_ctx *cx, dop_j_val list, dop_j_val v)
{
    if (!dop_j_step(cx, 1))
        return;
    void *p = list.u.list->items;
    if (!dop_j_grow(cx, &p, &list.u.list->cap, list.u.list->n + 1, sizeof v))
        return;
    list.u.list->items = p;
    list.u.list->items[list.u.list->n++] = v;
}

dop_j_val
dop_j_pair(dop_j_ctx *cx, dop_j_val a, dop_j_val b)
{
    dop_j_val pair = dop_j_new_list(cx, J_TUPLE);
    dop_j_push(cx, pair, a);
    dop_j_push(cx, pair, b);
    return pair;
}

dop_j_val
dop_j_undefined_use(dop_j_ctx *cx, dop_j_val v, long line)
{
    return dop_j_fail(cx, line, DOP_E_INPUT, "'%.*s' is undefined", v.u.str.n > 80 ? 80 : (int)v.u.str.n,
                      v.u.str.s ? v.u.str.s : "");
}

/* ---- numbers ---- */

bool
dop_j_number(dop_j_val v, double *out)
{
    switch (v.kind) {
    case J_BOOL:
        *out = v.u.b ? 1.0 : 0.0;
        return true;
    case J_INT:
        *out = (double)v.u.i;
        return true;
    case J_FLOAT:
        *out = v.u.f;
        return true;
    case J_BIG:
        return dop_j_read_float(v.u.str, out);
    default:
        *out = 0.0;
        return false;
    }
}

static bool
read_whole_number(dop_j_val v, int64_t *out)
{
    *out = v.kind == J_BOOL ? v.u.b : v.kind == J_INT ? v.u.i : 0;
    return v.kind == J_BOOL || v.kind == J_INT;
}

bool
dop_j_truth(dop_j_val v)
{
    double f;
    switch (v.kind) {
    case J_UNDEF:
    case J_NONE:
        return false;
    case J_BOOL:
    case J_INT:
    case J_FLOAT:
        return dop_j_number(v, &f) && f != 0.0;
    case J_STR:
        return v.u.str.n != 0;
    case J_LIST:
    case J_TUPLE:
    case J_RANGE:
    case J_VIEW:
        return v.u.list->n != 0;
    case J_DICT:
        return v.u.dict->n != 0;
    default:
        return true;
    }
}

/* ---- equality and order ---- */

static bool compare_equal(dop_j_ctx *cx, dop_j_val a, dop_j_val b, unsigned depth);

static bool
check_value_depth(dop_j_ctx *cx, unsigned depth)
{
    if (depth > J_MAX_DEPTH)
        dop_j_fail(cx, 0, DOP_E_LIMIT, "a value is nested too deeply");
    return depth > J_MAX_DEPTH;
}

static bool
equal_lists(dop_j_ctx *cx, const dop_j_list *a, const dop_j_list *b, unsigned depth)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!compare_equal(cx, a->items[i], b->items[i], depth + 1))
            return false;
    return true;
}

static bool
equal_dicts(dop_j_ctx *cx, const dop_j_dict *a, const dop_j_dict *b, unsigned depth)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n && cx->status == DOP_OK; i++) {
        const dop_j_val *v = dop_j_get(cx, b, a->entries[i].key);
        if (!v || !compare_equal(cx, a->entries[i].val, *v, depth + 1))
            return false;
    }
    return true;
}

static bool
compare_equal(dop_j_ctx *cx, dop_j_val a, dop_j_val b, unsigned depth)
{
    double x, y;
    int64_t i, k;
    if (!dop_j_step(cx, 1) || check_value_depth(cx, depth))
        return false;
    if (read_whole_number(a, &i) && read_whole_number(b, &k))
        return i == k;
    if (a.kind == J_BIG && (b.kind == J_BIG || b.kind == J_INT))
        return b.kind == J_BIG && dop_j_str_eq(a.u.str, b.u.str);
    if (dop_j_number(a, &x) && dop_j_number(b, &y))
        return x == y;
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case J_UNDEF:
    case J_NONE:
        return true;
    case J_STR:
        return dop_j_step(cx, a.u.str.n / 32) && dop_j_str_eq(a.u.str, b.u.str);
    case J_LIST:
    case J_TUPLE:
    case J_RANGE:
        return a.u.list == b.u.list || equal_lists(cx, a.u.list, b.u.list, depth);
    case J_DICT:
        return a.u.dict == b.u.dict || equal_dicts(cx, a.u.dict, b.u.dict, depth);
    case J_NAMESPACE:
        return a.u.dict == b.u.dict;
    case J_MACRO:
        return a.u.macro == b.u.macro;
    case J_FUNCTION:
        return dop_j_str_eq(a.u.str, b.u.str);
    case J_METHOD:
        return a.u.method->row == b.u.method->row && compare_equal(cx, a.u.method->self, b.u.method->self, depth + 1);
    case J_LOOP:
        return a.u.loop == b.u.loop;
    default:
        return a.u.list == b.u.list;
    }
}

bool
dop_j_equal(dop_j_ctx *cx, dop_j_val a, dop_j_val b)
{
    return compare_equal(cx, a, b, 0);
}

static int
compare_str_order(dop_j_ctx *cx, dop_j_str a, dop_j_str b)
{
    const size_t n = a.n < b.n ? a.n : b.n;
    dop_j_step(cx, n / 32);
    const int r = n ? memcmp(a.s, b.s, n) : 0; /* byte order equals code point order in UTF-8 */
    return r ? (r < 0 ? -1 : 1) : a.n < b.n ? -1 : a.n > b.n;
}

static int
compare_order(dop_j_ctx *cx, dop_j_val a, dop_j_val b, unsigned depth, bool *ok)
{
    double x, y;
    int64_t i, k;
    *ok = true;
    if (!dop_j_step(cx, 1) || check_value_depth(cx, depth))
        return 0;
    if (read_whole_number(a, &i) && read_whole_number(b, &k))
        return i < k ? -1 : i > k;
    if (dop_j_number(a, &x) && dop_j_number(b, &y)) {
        *ok = !isnan(x) && !isnan(y);
        return x < y ? -1 : x > y;
    }
    if (a.kind == J_STR && b.kind == J_STR)
        return compare_str_order(cx, a.u.str, b.u.str);
    if ((a.kind == J_LIST || a.kind == J_TUPLE) && a.kind == b.kind) {
        const dop_j_list *p = a.u.list, *q = b.u.list;
        for (size_t n = 0; n < p->n && n < q->n && cx->status == DOP_OK; n++)
            if (!compare_equal(cx, p->items[n], q->items[n], depth + 1))
                return compare_order(cx, p->items[n], q->items[n], depth + 1, ok);
        return p->n < q->n ? -1 : p->n > q->n;
    }
    *ok = false;
    return 0;
}

int
dop_j_order(dop_j_ctx *cx, dop_j_val a, dop_j_val b, bool *ok)
{
    return compare_order(cx, a, b, 0, ok);
}

/* ---- dictionaries ---- */

enum { few_entries = 8 }; /* maximum entries of a dictionary without an index */

static bool
is_hashable_value(dop_j_ctx *cx, dop_j_val v, unsigned depth)
{
    for (size_t i = 0; v.kind == J_TUPLE && i < v.u.list->n; i++)
        if (!dop_j_step(cx, 1) || check_value_depth(cx, depth) || !is_hashable_value(cx, v.u.list->items[i], depth + 1))
            return false;
    return v.kind != J_LIST && v.kind != J_DICT;
}

bool
dop_j_hashable(dop_j_ctx *cx, dop_j_val v)
{
    return is_hashable_value(cx, v, 0);
}

/* Returns the hash of a value. Equal values have equal hashes, including numbers of different kinds. */
static uint64_t
hash_jinja_value(dop_j_ctx *cx, dop_j_val v, unsigned depth)
{
    double f;
    uint64_t h = (uint64_t)v.kind;
    if (!dop_j_step(cx, 1) || check_value_depth(cx, depth))
        return 0;
    if (dop_j_number(v, &f)) {
        f += 0.0; /* maps -0.0 to 0.0 */
        return XXH3_64bits(&f, sizeof f);
    }
    switch (v.kind) {
    case J_STR:
        dop_j_step(cx, v.u.str.n / 32);
        return XXH3_64bits(v.u.str.s ? v.u.str.s : "", v.u.str.n);
    case J_TUPLE:
        for (size_t i = 0; i < v.u.list->n && cx->status == DOP_OK; i++)
            h = h * 0x9e3779b97f4a7c15u + hash_jinja_value(cx, v.u.list->items[i], depth + 1);
        return h;
    default: /* other kinds are rarely keys, so a constant hash suffices */
        return h;
    }
}

/* Returns the slot of a key, or the empty slot where the key belongs. */
static size_t
find_dict_slot(dop_j_ctx *cx, const dop_j_dict *d, dop_j_val key, uint64_t hash)
{
    size_t at = (size_t)hash & (d->slots_n - 1);
    while (d->slots[at] != 0 && dop_j_step(cx, 1)) {
        const dop_j_entry *e = &d->entries[d->slots[at] - 1];
        if (e->hash == hash && compare_equal(cx, e->key, key, 0))
            break;
        at = (at + 1) & (d->slots_n - 1);
    }
    return at;
}

static void
build_dict_index(dop_j_ctx *cx, dop_j_dict *d)
{
    const size_t n = d->slots_n ? d->slots_n * 4 : 64;
    uint32_t *slots = dop_j_alloc(cx, n * sizeof *slots);
    if (!slots)
        return;
    for (size_t i = 0; i < d->n && d->slots_n == 0; i++)
        d->entries[i].hash = hash_jinja_value(cx, d->entries[i].key, 0);
    d->slots = slots;
    d->slots_n = n;
    for (size_t i = 0; i < d->n && dop_j_step(cx, 1); i++) {
        size_t at = (size_t)d->entries[i].hash & (n - 1);
        while (slots[at] != 0 && dop_j_step(cx, 1))
            at = (at + 1) & (n - 1);
        slots[at] = (uint32_t)i + 1;
    }
}

static dop_j_entry *
find_dict_entry(dop_j_ctx *cx, const dop_j_dict *d, dop_j_val key, uint64_t *hash)
{
    if (d->slots_n == 0) {
        for (size_t i = 0; i < d->n; i++) {
            const dop_j_val k = d->entries[i].key;
            if (k.kind == J_STR && key.kind == J_STR ? dop_j_str_eq(k.u.str, key.u.str) : compare_equal(cx, k, key, 0))
                return &d->entries[i];
        }
        return NULL;
    }
    *hash = hash_jinja_value(cx, key, 0);
    const size_t at = find_dict_slot(cx, d, key, *hash);
    return cx->status == DOP_OK && d->slots[at] ? &d->entries[d->slots[at] - 1] : NULL;
}

const dop_j_val *
dop_j_get(dop_j_ctx *cx, const dop_j_dict *d, dop_j_val key)
{
    uint64_t hash;
    if (!dop_j_step(cx, 1))
        return NULL;
    if (!dop_j_hashable(cx, key)) {
        dop_j_fail(cx, 0, DOP_E_INPUT, "a %s cannot be a key", dop_j_kind_name(key.kind));
        return NULL;
    }
    const dop_j_entry *e = find_dict_entry(cx, d, key, &hash);
    return e ? &e->val : NULL;
}

void
dop_j_set(dop_j_ctx *cx, dop_j_dict *d, dop_j_val key, dop_j_val v)
{
    uint64_t hash = 0;
    if (!dop_j_step(cx, 1))
        return;
    if (!dop_j_hashable(cx, key)) {
        dop_j_fail(cx, 0, DOP_E_INPUT, "a %s cannot be a key", dop_j_kind_name(key.kind));
        return;
    }
    if (d->slots_n ? d->n >= d->slots_n / 2 : d->n >= few_entries)
        build_dict_index(cx, d);
    dop_j_entry *e = find_dict_entry(cx, d, key, &hash);
    void *p = d->entries;
    if (e) {
        e->val = v;
        return;
    }
    if (!dop_j_grow(cx, &p, &d->cap, d->n + 1, sizeof *d->entries))
        return;
    d->entries = p;
    d->entries[d->n++] = (dop_j_entry){key, v, hash};
    if (d->slots_n)
        d->slots[find_dict_slot(cx, d, key, hash)] = (uint32_t)d->n;
}

void
dop_j_clear(dop_j_dict *d)
{
    d->n = 0;
    if (d->slots_n)
        memset(d->slots, 0, d->slots_n * sizeof *d->slots);
}

/* ---- sequences and texts ---- */

/* Converts a number that Jansson cannot represent, as Python does: to a float if the text has a point, an exponent
 * or letters, otherwise to an integer. */
static dop_j_val
convert_kept_number(const char *digits, const json_t *j)
{
    double f = 0.0;
    if (!digits[strspn(digits, "-0123456789")])
        return (dop_j_val){.kind = J_BIG, .u.str = {digits, strlen(digits)}};
    dop_json_number(j, &f);
    return dop_j_float(f);
}

dop_j_val
dop_j_from_json(dop_j_ctx *cx, const json_t *j)
{
    dop_j_val r = {.kind = J_NONE};
    const char *digits = dop_json_number_text(j);
    if (!dop_j_step(cx, 2))
        return r;
    if (digits)
        return convert_kept_number(digits, j);
    if (++cx->depth > J_MAX_DEPTH)
        dop_j_fail(cx, 0, DOP_E_INPUT, "a value is nested too deeply");
    switch (json_typeof(j)) {
    case JSON_TRUE:
    case JSON_FALSE:
        r = dop_j_bool(json_is_true(j));
        break;
    case JSON_INTEGER:
        r = dop_j_int(json_integer_value(j));
        break;
    case JSON_REAL:
        r = dop_j_float(json_real_value(j));
        break;
    case JSON_STRING:
        r = dop_j_text(json_string_value(j), json_string_length(j));
        break;
    case JSON_ARRAY:
        r = dop_j_new_list(cx, J_LIST);
        for (size_t i = 0; i < json_array_size(j) && cx->status == DOP_OK; i++)
            dop_j_push(cx, r, dop_j_from_json(cx, json_array_get(j, i)));
        break;
    case JSON_OBJECT: {
        const char *key;
        size_t n;
        json_t *v;
        r = dop_j_new_dict(cx, J_DICT);
        json_object_keylen_foreach((json_t *)(uintptr_t)j, key, n, v)
        {
            if (cx->status != DOP_OK)
                break;
            dop_j_set(cx, r.u.dict, dop_j_text(key, n), dop_j_from_json(cx, v));
        }
        break;
    }
    default:
        break;
    }
    cx->depth--;
    return r;
}

const char *
dop_j_kind_name(dop_j_kind k)
{
    static const char *const names[] = {[J_UNDEF] = "undefined value",
                                        [J_NONE] = "none",
                                        [J_BOOL] = "boolean",
                                        [J_INT] = "integer",
                                        [J_BIG] = "integer beyond 64 bits",
                                        [J_FLOAT] = "float",
                                        [J_STR] = "string",
                                        [J_LIST] = "list",
                                        [J_TUPLE] = "tuple",
                                        [J_RANGE] = "range",
                                        [J_VIEW] = "view of a mapping",
                                        [J_ITER] = "generator",
                                        [J_DICT] = "mapping",
                                        [J_NAMESPACE] = "namespace",
                                        [J_MACRO] = "macro",
                                        [J_FUNCTION] = "function",
                                        [J_METHOD] = "method",
                                        [J_LOOP] = "loop",
                                        [J_CYCLER] = "cycler",
                                        [J_JOINER] = "joiner"};
    return names[k];
}

const dop_j_list *
dop_j_items(dop_j_ctx *cx, dop_j_val v)
{
    if (dop_j_is_list(v) && v.kind != J_ITER)
        return v.u.list;
    if (v.kind != J_ITER && v.kind != J_DICT && v.kind != J_STR && v.kind != J_UNDEF && v.kind != J_LOOP)
        return NULL;
    dop_j_val l = dop_j_new_list(cx, J_LIST);
    if (cx->status != DOP_OK)
        return NULL;
    if (v.kind == J_ITER) {
        *l.u.list = (dop_j_list){.n = v.u.list->n - v.u.list->at};
        if (l.u.list->n)
            l.u.list->items = v.u.list->items + v.u.list->at;
        v.u.list->at = v.u.list->n;
    } else if (v.kind == J_DICT) {
        for (size_t i = 0; i < v.u.dict->n && cx->status == DOP_OK; i++)
            dop_j_push(cx, l, v.u.dict->entries[i].key);
    } else if (v.kind == J_LOOP) { /* Python would iterate over the loop's remaining items; no known template needs
                                    * this */
        dop_j_fail(cx, 0, DOP_E_INPUT, "a loop cannot be looped over");
    } else if (v.kind == J_STR) {
        for (size_t i = 0; i < v.u.str.n && cx->status == DOP_OK;) {
            size_t len = dop_utf8_next(v.u.str.s + i, v.u.str.n - i).len;
            dop_j_push(cx, l, dop_j_text(v.u.str.s + i, len));
            i += len;
        }
    }
    return cx->status == DOP_OK ? l.u.list : NULL;
}

/* Returns the byte offset of the character at an index, or the text's length if it has fewer characters. */
static size_t
find_char_offset(dop_j_ctx *cx, dop_j_str s, int64_t index)
{
    size_t at = 0;
    for (; index > 0 && at < s.n; index--)
        at += (uint8_t)s.s[at] < 0x80 ? 1 : dop_utf8_next(s.s + at, s.n - at).len;
    dop_j_step(cx, at);
    return at;
}

size_t
dop_j_chars(dop_j_ctx *cx, dop_j_str s)
{
    size_t n = 0;
    dop_j_step(cx, s.n / 8);
    for (size_t i = 0; i < s.n; i++) /* valid UTF-8: each byte except continuation bytes begins a character */
        n += ((uint8_t)s.s[i] & 0xc0) != 0x80;
    return n;
}

dop_j_str
dop_j_cut(dop_j_ctx *cx, dop_j_str s, int64_t from, int64_t to)
{
    const size_t a = find_char_offset(cx, s, from);
    const dop_j_str rest = {s.s + a, s.n - a};
    return (dop_j_str){rest.s, to > from ? find_char_offset(cx, rest, to - from) : 0};
}

bool
dop_j_is_space(uint32_t cp)
{
    return dop_utf8_is_space(cp) || (cp >= 0x1c && cp <= 0x1f);
}

/* True if the character is white space or, if `chars` is given, one of them. */
static bool
is_strippable(dop_j_ctx *cx, dop_j_str c, uint32_t cp, const dop_j_str *chars)
{
    if (!chars)
        return dop_j_is_space(cp);
    for (size_t i = 0; i < chars->n && dop_j_step(cx, 2);) {
        size_t len = dop_utf8_next(chars->s + i, chars->n - i).len;
        if (len == c.n && memcmp(chars->s + i, c.s, len) == 0)
            return true;
        i += len;
    }
    return false;
}

dop_j_str
dop_j_strip(dop_j_ctx *cx, dop_j_str s, const dop_j_str *chars, bool left, bool right)
{
    while (left && s.n && dop_j_step(cx, 2)) {
        dop_utf8_char u = dop_utf8_next(s.s, s.n);
        if (!is_strippable(cx, (dop_j_str){s.s, u.len}, u.cp, chars))
            break;
        s.s += u.len;
        s.n -= u.len;
    }
    while (right && s.n && dop_j_step(cx, 2)) {
        size_t at = dop_utf8_prev(s.s, s.n);
        dop_utf8_char u = dop_utf8_next(s.s + at, s.n - at);
        if (!is_strippable(cx, (dop_j_str){s.s + at, s.n - at}, u.cp, chars))
            break;
        s.n = at;
    }
    return s;
}
