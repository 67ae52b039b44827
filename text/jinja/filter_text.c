/* Text filters. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding/utf8.h"
#include "text/jinja/arena.h"
#include "text/jinja/args.h"
#include "text/jinja/call.h"
#include "text/jinja/case.h"
#include "text/jinja/filter_list.h"
#include "text/jinja/format.h"
#include "text/jinja/jinja.h"
#include "text/jinja/method.h"
#include "text/jinja/number.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"
#include "text/jinja/value.h"

/* escape (how 'e'), forceescape ('f') and safe ('s'). */
static dop_j_val
f_escape(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)a;
    v = how == 'e' ? v : dop_j_string(cx, v);
    v.safe = how == 'e' ? v.safe : how == 's';
    return dop_j_escape(cx, v);
}

static dop_j_val
f_string(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)a;
    (void)how;
    return dop_j_string(cx, v);
}

/* Filters that change the case; the value is first converted to a string. */
static dop_j_val
f_case(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)a;
    v = dop_j_string(cx, v);
    return cx->status == DOP_OK ? dop_j_change_case(cx, v.u.str, (dop_j_case)how) : v;
}

static dop_j_val
f_trim(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_val *c = dop_j_arg(a, 0, "chars");
    v = dop_j_string(cx, v);
    return dop_j_str_val(dop_j_strip(cx, v.u.str, c && c->kind == J_STR ? &c->u.str : NULL, true, true));
}

static dop_j_val
f_replace(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_val *old = dop_j_arg(a, 0, "old"), *new = dop_j_arg(a, 1, "new");
    if (!old || !new)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "replace needs two strings");
    const dop_j_str s = dop_j_string(cx, v).u.str, from = dop_j_string(cx, *old).u.str,
                    to = dop_j_string(cx, *new).u.str;
    return dop_j_replace(cx, s, from, to, dop_j_int_arg(cx, a, 2, "count", -1));
}

/* title: capitalizes each word, with Jinja's definition of words. */
static dop_j_val
f_title(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)a;
    (void)how;
    const dop_j_str s = dop_j_string(cx, v).u.str;
    dop_j_out o = {0};
    for (size_t i = 0; i < s.n && cx->status == DOP_OK;) {
        const size_t from = i;
        for (bool first = true; i < s.n; first = false) {
            dop_utf8_char u = dop_utf8_next(s.s + i, s.n - i);
            const bool between = dop_j_is_space(u.cp) || (u.cp < 0x80 && u.cp && strchr("-({[<", (int)u.cp));
            if (!first && between)
                break;
            i += u.len;
            if (first && between)
                break;
        }
        const dop_j_str word = {s.s + from, i - from}, first = dop_j_cut(cx, word, 0, 1);
        const dop_j_str upper = dop_j_change_case(cx, first, CASE_UPPER).u.str;
        const dop_j_str rest = dop_j_change_case(cx, (dop_j_str){word.s + first.n, word.n - first.n}, CASE_LOWER).u.str;
        dop_j_put(cx, &o, upper.s, upper.n);
        dop_j_put(cx, &o, rest.s, rest.n);
    }
    return dop_j_take(&o);
}

static dop_j_val
f_indent(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_val *by = dop_j_arg(a, 0, "width");
    const bool text = by && by->kind == J_STR, first = dop_j_bool_arg(a, 1, "first", false),
               blank = dop_j_bool_arg(a, 2, "blank", false);
    const int64_t width = text ? 1 : dop_j_int_arg(cx, a, 0, "width", 4);
    const dop_j_str with = text ? by->u.str : (dop_j_str){" ", 1};
    const uint64_t times = width > 0 ? (uint64_t)width : 0;
    dop_j_out whole = {0}, o = {0};
    if (v.kind != J_STR)
        return dop_j_wrong(cx, a, "indent", v);
    dop_j_put(cx, &whole, v.u.str.s, v.u.str.n);
    dop_j_puts(cx, &whole, "\n"); /* as Jinja does, to preserve a trailing line break */
    const dop_j_val lines = dop_j_split_lines(cx, dop_j_take(&whole).u.str, false);
    for (size_t i = 0; cx->status == DOP_OK && i < lines.u.list->n; i++) {
        const dop_j_str line = lines.u.list->items[i].u.str;
        if (i > 0)
            dop_j_puts(cx, &o, "\n");
        if (i == 0 ? first : blank || line.n > 0)
            dop_j_fill(cx, &o, with, times);
        dop_j_put(cx, &o, line.s, line.n);
    }
    return dop_j_take(&o);
}

static dop_j_val
f_format(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_val args = a->named_n ? dop_j_new_dict(cx, J_DICT) : dop_j_new_list(cx, J_TUPLE);
    for (size_t i = 0; i < a->named_n && cx->status == DOP_OK; i++)
        dop_j_set(cx, args.u.dict, dop_j_str_val(a->names[i]), a->named[i]);
    for (size_t i = 0; !a->named_n && i < a->n && cx->status == DOP_OK; i++)
        dop_j_push(cx, args, a->pos[i]);
    v = dop_j_string(cx, v);
    return cx->status == DOP_OK ? dop_j_percent(cx, v.u.str, args, a->line) : v;
}

static dop_j_val
f_center(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_val width = dop_j_int(dop_j_int_arg(cx, a, 0, "width", 80));
    return dop_j_call_method(cx, dop_j_string(cx, v), dop_j_find_method(J_STR, dop_j_lit("center").u.str),
                             &(dop_j_args){.pos = &width, .n = 1, .line = a->line});
}

static dop_j_val
f_truncate(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_str s = dop_j_string(cx, v).u.str, end = dop_j_str_arg(cx, a, 2, "end", "..."), space = {" ", 1};
    const int64_t length = dop_j_int_arg(cx, a, 0, "length", 255), leeway = dop_j_int_arg(cx, a, 3, "leeway", 5);
    const int64_t n = (int64_t)dop_j_chars(cx, s), keep = length - (int64_t)dop_j_chars(cx, end);
    if (keep < 0 || leeway < 0)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "truncate: the length is shorter than what marks the end");
    if (n - leeway <= length)
        return dop_j_str_val(s);
    dop_j_str kept = dop_j_cut(cx, s, 0, keep);
    if (!dop_j_bool_arg(a, 1, "killwords", false)) {
        const dop_j_val parts = dop_j_rsplit(cx, kept, &space, 1);
        kept = cx->status == DOP_OK ? parts.u.list->items[0].u.str : kept;
    }
    dop_j_out o = {0};
    dop_j_put(cx, &o, kept.s, kept.n);
    dop_j_put(cx, &o, end.s, end.n);
    return dop_j_take(&o);
}

static dop_j_val
f_wordcount(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)a;
    (void)how;
    const dop_j_str s = dop_j_string(cx, v).u.str;
    const dop_j_method_row *alnum = dop_j_find_method(J_STR, dop_j_lit("isalnum").u.str);
    const dop_j_args none = {0};
    int64_t words = 0;
    bool inside = false;
    for (size_t i = 0; i < s.n && dop_j_step(cx, 2);) {
        const size_t len = dop_utf8_next(s.s + i, s.n - i).len;
        const bool word = s.s[i] == '_' || dop_j_truth(dop_j_call_method(cx, dop_j_text(s.s + i, len), alnum, &none));
        words += word && !inside;
        inside = word;
        i += len;
    }
    return dop_j_int(words);
}

static dop_j_val
f_filesize(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const bool binary = dop_j_bool_arg(a, 0, "binary", false);
    const double base = binary ? 1024 : 1000;
    double bytes, unit = base;
    char text[400];
    dop_j_out o = {0};
    if (!dop_j_number(v, &bytes) && !(v.kind == J_STR && dop_j_read_float(v.u.str, &bytes)))
        return dop_j_wrong(cx, a, "filesizeformat", v);
    if (bytes < base) {
        snprintf(text, sizeof text, bytes == 1 ? "1 Byte" : "%.0f Bytes", trunc(bytes));
    } else {
        const char *prefix = "kMGTPEZY";
        while (bytes >= unit * base && prefix[1]) {
            unit *= base;
            prefix++;
        }
        snprintf(text, sizeof text, "%.1f %c%sB", bytes / unit, binary && *prefix == 'k' ? 'K' : *prefix,
                 binary ? "i" : "");
    }
    dop_j_puts(cx, &o, text);
    return dop_j_take(&o);
}

static void
put_quoted(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, bool query)
{
    const dop_j_str s = dop_j_string(cx, v).u.str;
    for (size_t i = 0; i < s.n && cx->status == DOP_OK; i++) {
        const unsigned char c = (unsigned char)s.s[i];
        char t[4];
        const bool letter = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        snprintf(t, sizeof t, "%%%02X", c);
        if (letter || (c && strchr(query ? "_.-~" : "_.-~/", c)))
            dop_j_put(cx, o, s.s + i, 1);
        else
            dop_j_puts(cx, o, query && c == ' ' ? "+" : t);
    }
}

static dop_j_val
f_urlencode(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    dop_j_out o = {0};
    const bool pairs = v.kind == J_DICT || dop_j_is_list(v);
    const dop_j_list *l = NULL;
    if (!pairs)
        put_quoted(cx, &o, v, false);
    else
        l = dop_j_items(cx, v.kind == J_DICT ? dop_j_pairs(cx, v, a) : v);
    for (size_t i = 0; l && i < l->n && cx->status == DOP_OK; i++) {
        const dop_j_list *pair = dop_j_items(cx, l->items[i]);
        if (!pair || pair->n != 2)
            return dop_j_wrong(cx, a, "urlencode", l->items[i]);
        dop_j_puts(cx, &o, i ? "&" : "");
        put_quoted(cx, &o, pair->items[0], true);
        dop_j_puts(cx, &o, "=");
        put_quoted(cx, &o, pair->items[1], true);
    }
    return dop_j_take(&o);
}

static dop_j_val
f_xmlattr(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    dop_j_out o = {0};
    if (v.kind != J_DICT)
        return dop_j_wrong(cx, a, "xmlattr", v);
    for (size_t i = 0; i < v.u.dict->n && cx->status == DOP_OK; i++) {
        const dop_j_entry *e = &v.u.dict->entries[i];
        if (e->val.kind == J_NONE || e->val.kind == J_UNDEF)
            continue;
        if (e->key.kind != J_STR)
            return dop_j_wrong(cx, a, "xmlattr", e->key);
        for (size_t k = 0; k < e->key.u.str.n; k++)
            if (strchr("/>= \t\n\r\f\v", e->key.u.str.s[k]))
                return dop_j_fail(cx, a->line, DOP_E_INPUT, "xmlattr: a name has a character that names cannot have");
        const dop_j_str key = dop_j_escape(cx, e->key).u.str, text = dop_j_escape(cx, e->val).u.str;
        dop_j_puts(cx, &o, o.n || dop_j_bool_arg(a, 0, "autospace", true) ? " " : "");
        dop_j_put(cx, &o, key.s, key.n);
        dop_j_puts(cx, &o, "=\"");
        dop_j_put(cx, &o, text.s, text.n);
        dop_j_puts(cx, &o, "\"");
    }
    return dop_j_take(&o);
}

/* striptags: removes tags and comments, collapses white space, and decodes character references. */
static dop_j_val
f_striptags(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    static const struct {
        const char *name, *text;
    } entities[] = {{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#34;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
    const dop_j_str s = dop_j_string(cx, v).u.str;
    dop_j_out o = {0};
    (void)a;
    (void)how;
    for (size_t i = 0; i < s.n && cx->status == DOP_OK;) {
        const dop_j_str rest = {s.s + i, s.n - i};
        const bool comment = rest.n >= 4 && memcmp(rest.s, "<!--", 4) == 0;
        const char *end = *rest.s == '<' ? dop_j_find(cx, rest, dop_j_lit(comment ? "-->" : ">").u.str) : NULL;
        if (!end)
            dop_j_put(cx, &o, rest.s, 1);
        i += end ? (size_t)(end - rest.s) + (comment ? 3 : 1) : 1;
    }
    dop_j_val r = dop_j_split(cx, dop_j_take(&o).u.str, NULL, -1);
    if (cx->status != DOP_OK)
        return v;
    r = dop_j_join(cx, r.u.list, (dop_j_str){" ", 1});
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
        r = dop_j_replace(cx, r.u.str, dop_j_lit(entities[i].name).u.str, dop_j_lit(entities[i].text).u.str, -1);
    return r;
}

/* tojson, with the arguments of transformers' replacement of Jinja's filter. */
static dop_j_val
f_tojson(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    dop_j_out o = {0}, level = {0};
    const dop_j_val *indent = dop_j_arg(a, 1, "indent"), *separators = dop_j_arg(a, 2, "separators");
    dop_j_json_form form = {.lines = indent && indent->kind != J_NONE,
                            .between = {", ", 2},
                            .behind_name = {": ", 2},
                            .ascii = dop_j_bool_arg(a, 0, "ensure_ascii", false),
                            .sort = dop_j_bool_arg(a, 3, "sort_keys", false)};
    if (form.lines && indent->kind == J_STR) {
        form.indent = indent->u.str;
    } else if (form.lines) {
        const int64_t n = dop_j_int_arg(cx, a, 1, "indent", 0);
        dop_j_fill(cx, &level, (dop_j_str){" ", 1}, n > 0 ? (uint64_t)n : 0);
        form.indent = dop_j_take(&level).u.str;
    }
    if (form.lines)
        form.between.n = 1;
    if (separators && separators->kind != J_NONE) {
        const dop_j_list *two = separators->kind == J_STR ? NULL : dop_j_items(cx, *separators);
        if (!two || two->n != 2 || two->items[0].kind != J_STR || two->items[1].kind != J_STR)
            return dop_j_fail(cx, a->line, DOP_E_INPUT, "tojson: separators are two strings");
        form.between = two->items[0].u.str;
        form.behind_name = two->items[1].u.str;
    }
    dop_j_json(cx, &o, v, &form);
    return dop_j_take(&o);
}

const dop_j_filter_row dop_j_text_filters[] = {
    {"trim", f_trim, 0},
    {"tojson", f_tojson, 0},
    {"string", f_string, 0},
    {"upper", f_case, CASE_UPPER},
    {"lower", f_case, CASE_LOWER},
    {"capitalize", f_case, CASE_CAPITAL},
    {"title", f_title, 0},
    {"replace", f_replace, 0},
    {"indent", f_indent, 0},
    {"safe", f_escape, 's'},
    {"escape", f_escape, 'e'},
    {"e", f_escape, 'e'},
    {"forceescape", f_escape, 'f'},
    {"format", f_format, 0},
    {"center", f_center, 0},
    {"truncate", f_truncate, 0},
    {"wordcount", f_wordcount, 0},
    {"filesizeformat", f_filesize, 0},
    {"urlencode", f_urlencode, 0},
    {"xmlattr", f_xmlattr, 0},
    {"striptags", f_striptags, 0},
    {NULL, NULL, 0},
};
