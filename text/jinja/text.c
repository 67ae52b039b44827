/* Text functions shared by filters and string methods. */
#include <string.h>

#include "base/encoding/utf8.h"
#include "text/jinja/arena.h"
#include "text/jinja/jinja.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"
#include "text/jinja/value.h"

dop_j_val
dop_j_replace(dop_j_ctx *cx, dop_j_str s, dop_j_str from, dop_j_str to, int64_t count)
{
    dop_j_out o = {0};
    dop_j_str rest = s;
    /* The empty text matches before each character and at the end. */
    while (count != 0 && cx->status == DOP_OK && from.n == 0) {
        const size_t len = rest.n ? dop_utf8_next(rest.s, rest.n).len : 0;
        dop_j_put(cx, &o, to.s, to.n);
        dop_j_put(cx, &o, rest.s, len);
        rest = (dop_j_str){rest.s + len, rest.n - len};
        count--;
        if (len == 0)
            break;
    }
    while (count != 0 && from.n > 0 && cx->status == DOP_OK) {
        const char *p = dop_j_find(cx, rest, from);
        if (!p)
            break;
        dop_j_put(cx, &o, rest.s, (size_t)(p - rest.s));
        dop_j_put(cx, &o, to.s, to.n);
        rest.n -= (size_t)(p - rest.s) + from.n;
        rest.s = p + from.n;
        count--;
    }
    if (o.n == 0)
        return dop_j_str_val(rest.n == s.n ? s : rest);
    dop_j_put(cx, &o, rest.s, rest.n);
    return dop_j_take(&o);
}

/* Returns the offset of the first character that is (or is not) white space. */
static size_t
find_space_boundary(dop_j_ctx *cx, dop_j_str s, bool space)
{
    size_t at = 0;
    while (at < s.n && dop_j_step(cx, 2)) {
        const dop_utf8_char u = dop_utf8_next(s.s + at, s.n - at);
        if (dop_j_is_space(u.cp) == space)
            break;
        at += u.len;
    }
    return at;
}

static dop_j_val
split_space(dop_j_ctx *cx, dop_j_str s, int64_t max)
{
    dop_j_val l = dop_j_new_list(cx, J_LIST);
    while (cx->status == DOP_OK) {
        const size_t from = find_space_boundary(cx, s, false);
        s = (dop_j_str){s.s + from, s.n - from};
        if (s.n == 0)
            break;
        const size_t end = max-- == 0 ? s.n : find_space_boundary(cx, s, true);
        dop_j_push(cx, l, dop_j_text(s.s, end));
        s = (dop_j_str){s.s + end, s.n - end};
    }
    return l;
}

dop_j_val
dop_j_split(dop_j_ctx *cx, dop_j_str s, const dop_j_str *sep, int64_t max)
{
    const char *p;
    if (!sep)
        return split_space(cx, s, max);
    if (sep->n == 0)
        return dop_j_fail(cx, 0, DOP_E_INPUT, "split at an empty separator");
    dop_j_val l = dop_j_new_list(cx, J_LIST);
    while (max-- != 0 && (p = dop_j_find(cx, s, *sep)) != NULL && cx->status == DOP_OK) {
        dop_j_push(cx, l, dop_j_text(s.s, (size_t)(p - s.s)));
        s.n -= (size_t)(p - s.s) + sep->n;
        s.s = p + sep->n;
    }
    dop_j_push(cx, l, dop_j_str_val(s));
    return l;
}

/* Returns the start of the last separator, or of the last run of white space if sep is NULL. Returns SIZE_MAX if
 * there is none. */
static size_t
find_last_separator(dop_j_ctx *cx, dop_j_str s, const dop_j_str *sep, size_t *len)
{
    if (sep) {
        *len = sep->n;
        for (size_t at = s.n < sep->n ? 0 : s.n - sep->n + 1; at > 0 && dop_j_step(cx, 1 + sep->n / 32); at--)
            if (memcmp(s.s + at - 1, sep->s, sep->n) == 0)
                return at - 1;
        return SIZE_MAX;
    }
    size_t end = s.n, at = s.n;
    while (at > 0 && dop_j_step(cx, 3)) {
        const size_t before = dop_utf8_prev(s.s, at);
        if (dop_j_is_space(dop_utf8_next(s.s + before, at - before).cp)) {
            end = at;
            const dop_j_str left = dop_j_strip(cx, (dop_j_str){s.s, before}, NULL, false, true);
            *len = end - left.n;
            return left.n;
        }
        at = before;
    }
    return SIZE_MAX;
}

/* Splits from the end, so that with a limit the unsplit rest is the first item. */
dop_j_val
dop_j_rsplit(dop_j_ctx *cx, dop_j_str s, const dop_j_str *sep, int64_t max)
{
    if (max < 0)
        return dop_j_split(cx, s, sep, max);
    if (sep && sep->n == 0)
        return dop_j_fail(cx, 0, DOP_E_INPUT, "split at an empty separator");
    dop_j_val back = dop_j_new_list(cx, J_LIST), l = dop_j_new_list(cx, J_LIST);
    if (!sep)
        s = dop_j_strip(cx, s, NULL, false, true);
    while (cx->status == DOP_OK && max-- > 0 && (sep || s.n)) {
        size_t len = 0;
        const size_t at = find_last_separator(cx, s, sep, &len);
        if (!sep && (at == SIZE_MAX || at == 0)) /* only one word is left */
            s = dop_j_strip(cx, s, NULL, true, false);
        if (at == SIZE_MAX || (!sep && at == 0))
            break;
        dop_j_push(cx, back, dop_j_text(s.s + at + len, s.n - at - len));
        s.n = at;
    }
    if (sep || s.n)
        dop_j_push(cx, l, dop_j_str_val(s));
    for (size_t i = cx->status == DOP_OK ? back.u.list->n : 0; i > 0; i--)
        dop_j_push(cx, l, back.u.list->items[i - 1]);
    return l;
}

/* Returns the length in bytes of the line break at `at`, or 0 if there is none. */
static size_t
measure_line_break(dop_j_str s, size_t at)
{
    const unsigned char c = (unsigned char)s.s[at];
    if (c == '\r')
        return at + 1 < s.n && s.s[at + 1] == '\n' ? 2 : 1;
    if ((c >= '\n' && c <= '\f') || (c >= 0x1c && c <= 0x1e))
        return 1;
    if (c != 0xc2 && c != 0xe2)
        return 0;
    const dop_utf8_char u = dop_utf8_next(s.s + at, s.n - at);
    return u.cp == 0x85 || u.cp == 0x2028 || u.cp == 0x2029 ? u.len : 0;
}

dop_j_val
dop_j_split_lines(dop_j_ctx *cx, dop_j_str s, bool keep_ends)
{
    dop_j_val l = dop_j_new_list(cx, J_LIST);
    dop_j_step(cx, s.n / 4);
    for (size_t at = 0, from = 0; cx->status == DOP_OK && at < s.n; from = at) {
        size_t len = 0;
        while (at < s.n && (len = measure_line_break(s, at)) == 0)
            at++;
        dop_j_push(cx, l, dop_j_text(s.s + from, (keep_ends ? at + len : at) - from));
        at += len;
    }
    return l;
}

dop_j_val
dop_j_join(dop_j_ctx *cx, const dop_j_list *l, dop_j_str sep)
{
    dop_j_out o = {0};
    for (size_t i = 0; i < l->n && cx->status == DOP_OK; i++) {
        if (i)
            dop_j_put(cx, &o, sep.s, sep.n);
        dop_j_print(cx, &o, l->items[i]);
    }
    return dop_j_take(&o);
}

/* ---- HTML ---- */

dop_j_val
dop_j_escape(dop_j_ctx *cx, dop_j_val v)
{
    static const struct {
        char c;
        const char *text;
    } signs[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&#34;"}, {'\'', "&#39;"}};
    dop_j_out o = {0};
    if (v.kind == J_STR && v.safe)
        return v;
    v = dop_j_string(cx, v);
    for (size_t i = 0; cx->status == DOP_OK && i < v.u.str.n; i++) {
        const char *text = NULL;
        for (size_t k = 0; k < sizeof signs / sizeof *signs; k++)
            text = signs[k].c == v.u.str.s[i] ? signs[k].text : text;
        dop_j_put(cx, &o, text ? text : v.u.str.s + i, text ? strlen(text) : 1);
    }
    v = dop_j_take(&o);
    v.safe = true;
    return v;
}

dop_j_val
dop_j_escape_items(dop_j_ctx *cx, dop_j_val v)
{
    if (v.kind == J_STR)
        return dop_j_escape(cx, v);
    if (v.kind != J_TUPLE && v.kind != J_LIST && v.kind != J_DICT)
        return v;
    const bool dict = v.kind == J_DICT;
    const dop_j_val r = dict ? dop_j_new_dict(cx, J_DICT) : dop_j_new_list(cx, v.kind);
    const size_t n = dict ? v.u.dict->n : v.u.list->n;
    for (size_t i = 0; i < n && cx->status == DOP_OK; i++) {
        const dop_j_val item = dict ? v.u.dict->entries[i].val : v.u.list->items[i];
        const dop_j_val escaped = item.kind == J_STR ? dop_j_escape(cx, item) : item;
        if (dict)
            dop_j_set(cx, r.u.dict, v.u.dict->entries[i].key, escaped);
        else
            dop_j_push(cx, r, escaped);
    }
    return r;
}
