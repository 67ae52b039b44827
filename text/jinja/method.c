/* Look-up of methods, and the methods of strings. */
#include <string.h>
#include <utf8proc.h>

#include "base/encoding/utf8.h"
#include "text/jinja/arena.h"
#include "text/jinja/args.h"
#include "text/jinja/case.h"
#include "text/jinja/jinja.h"
#include "text/jinja/method.h"
#include "text/jinja/method_other.h"
#include "text/jinja/text.h"
#include "text/jinja/value.h"

/* Returns a required argument as a string. Fails if it is missing or not a string. */
static dop_j_str
read_text_arg(dop_j_ctx *cx, const dop_j_args *a, size_t i, const char *name)
{
    const dop_j_val *v = dop_j_arg(a, i, name);
    if (!v || v->kind != J_STR)
        dop_j_fail(cx, a->line, DOP_E_INPUT, "an argument must be a string, not a %s",
                   v ? dop_j_kind_name(v->kind) : "none");
    return v && v->kind == J_STR ? v->u.str : (dop_j_str){"", 0};
}

/* Cuts a string by the arguments start and end, at positions `first` and `first` + 1. Returns false if the range is
 * empty because start is beyond end or the string. */
static bool
cut_argument_range(dop_j_ctx *cx, dop_j_str s, const dop_j_args *a, size_t first, dop_j_str *out, int64_t *start)
{
    *out = s;
    *start = 0;
    if (a->n <= first)
        return true;
    const int64_t n = (int64_t)dop_j_chars(cx, s);
    int64_t from = dop_j_int_arg(cx, a, first, NULL, 0), to = dop_j_int_arg(cx, a, first + 1, NULL, n);
    from = from < 0 ? (from < -n ? 0 : from + n) : from;
    to = to < 0 ? (to < -n ? 0 : to + n) : to > n ? n : to;
    *start = from;
    if (from > n)
        return false;
    *out = dop_j_cut(cx, s, from, to);
    return from <= to;
}

static bool
has_affix(dop_j_ctx *cx, dop_j_val v, dop_j_str s, bool front)
{
    if (v.kind == J_TUPLE) { /* tuple of alternatives */
        for (size_t i = 0; i < v.u.list->n && dop_j_step(cx, 1); i++)
            if (v.u.list->items[i].kind == J_STR && has_affix(cx, v.u.list->items[i], s, front))
                return true;
        return false;
    }
    const dop_j_str p = v.u.str;
    if (v.kind != J_STR)
        dop_j_fail(cx, 0, DOP_E_INPUT, "startswith and endswith take a string or a tuple of strings");
    dop_j_step(cx, v.kind == J_STR ? p.n / 32 : 0);
    return v.kind == J_STR && p.n <= s.n && (p.n == 0 || memcmp(front ? s.s : s.s + s.n - p.n, p.s, p.n) == 0);
}

static dop_j_val
m_affix(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    dop_j_str s;
    int64_t start;
    const dop_j_val *v = dop_j_arg(a, 0, NULL);
    if (!v)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "startswith and endswith need an argument");
    const bool inside = cut_argument_range(cx, self.u.str, a, 1, &s, &start);
    return dop_j_bool(has_affix(cx, *v, s, how == 's') && inside);
}

static dop_j_val
m_remove(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    const dop_j_str x = read_text_arg(cx, a, 0, NULL), s = self.u.str;
    if (!has_affix(cx, dop_j_str_val(x), s, how == 'p'))
        return dop_j_str_val(s);
    return dop_j_text(how == 'p' ? s.s + x.n : s.s, s.n - x.n);
}

static dop_j_val
m_case(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)a;
    return dop_j_change_case(cx, self.u.str, (dop_j_case)how);
}

static dop_j_val
m_strip(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    const dop_j_val *v = dop_j_arg(a, 0, NULL);
    const bool chars = v && v->kind != J_NONE;
    const dop_j_str c = chars ? read_text_arg(cx, a, 0, NULL) : (dop_j_str){"", 0};
    return dop_j_str_val(dop_j_strip(cx, self.u.str, chars ? &c : NULL, how != 'r', how != 'l'));
}

static dop_j_val
m_split(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    const dop_j_val *v = dop_j_arg(a, 0, "sep");
    const bool given = v && v->kind != J_NONE;
    const dop_j_str sep = given ? read_text_arg(cx, a, 0, "sep") : (dop_j_str){"", 0};
    const int64_t max = dop_j_int_arg(cx, a, 1, "maxsplit", -1);
    return (how == 'r' ? dop_j_rsplit : dop_j_split)(cx, self.u.str, given ? &sep : NULL, max);
}

static dop_j_val
m_split_lines(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)how;
    return dop_j_split_lines(cx, self.u.str, dop_j_bool_arg(a, 0, "keepends", false));
}

static dop_j_val
m_replace(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_str from = read_text_arg(cx, a, 0, NULL), to = read_text_arg(cx, a, 1, NULL);
    return dop_j_replace(cx, self.u.str, from, to, dop_j_int_arg(cx, a, 2, "count", -1));
}

static dop_j_val
m_join(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_val *v = dop_j_arg(a, 0, NULL);
    const dop_j_list *l = v ? dop_j_items(cx, *v) : NULL;
    for (size_t i = 0; l && i < l->n && dop_j_step(cx, 1); i++)
        if (l->items[i].kind != J_STR)
            return dop_j_wrong(cx, a, "join", l->items[i]);
    if (l && self.safe && cx->status == DOP_OK) {
        const dop_j_val all = {.kind = J_LIST, .u.list = (dop_j_list *)(uintptr_t)l},
                        escaped = dop_j_escape_items(cx, all);
        l = cx->status == DOP_OK ? escaped.u.list : l;
    }
    return l ? dop_j_join(cx, l, self.u.str) : dop_j_wrong(cx, a, "join", v ? *v : dop_j_none());
}

/* find, rfind, index, rindex: position of a text in a string, in characters. */
static dop_j_val
m_find(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    dop_j_str s;
    int64_t start;
    const dop_j_str what = read_text_arg(cx, a, 0, NULL);
    const bool inside = cut_argument_range(cx, self.u.str, a, 1, &s, &start), last = how == 'r' || how == 'R';
    const char *hit = inside && !last ? dop_j_find(cx, s, what) : NULL;
    for (size_t at = !inside || !last || what.n > s.n ? 0 : s.n - what.n + 1; !hit && at > 0; at--) {
        if (!dop_j_step(cx, 1 + what.n / 32))
            break;
        if (what.n == 0 || memcmp(s.s + at - 1, what.s, what.n) == 0)
            hit = s.s + at - 1;
    }
    if (!hit && (how == 'I' || how == 'R'))
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "index: the text is not there");
    return dop_j_int(hit ? start + (int64_t)dop_j_chars(cx, (dop_j_str){s.s, (size_t)(hit - s.s)}) : -1);
}

static dop_j_val
m_count(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)how;
    dop_j_str s;
    int64_t start, n = 0;
    const char *p;
    const dop_j_str what = read_text_arg(cx, a, 0, NULL);
    if (!cut_argument_range(cx, self.u.str, a, 1, &s, &start))
        return dop_j_int(0);
    if (what.n == 0)
        return dop_j_int((int64_t)dop_j_chars(cx, s) + 1);
    for (; (p = dop_j_find(cx, s, what)) != NULL; n++)
        s = (dop_j_str){p + what.n, s.n - (size_t)(p - s.s) - what.n};
    return dop_j_int(n);
}

/* partition and rpartition: returns the text before a separator, the separator, and the text after it. */
static dop_j_val
m_partition(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    const dop_j_str sep = read_text_arg(cx, a, 0, NULL);
    const dop_j_val l = (how == 'r' ? dop_j_rsplit : dop_j_split)(cx, self.u.str, &sep, 1);
    const dop_j_val empty = dop_j_lit(""), r = dop_j_new_list(cx, J_TUPLE);
    if (cx->status != DOP_OK)
        return empty;
    const dop_j_val *parts = l.u.list->items;
    const bool found = l.u.list->n == 2;
    dop_j_push(cx, r, found || how != 'r' ? parts[0] : empty);
    dop_j_push(cx, r, found ? dop_j_str_val(sep) : empty);
    dop_j_push(cx, r, found ? parts[1] : how == 'r' ? parts[0] : empty);
    return r;
}

/* Implements center, ljust, rjust and zfill. */
static dop_j_val
m_pad(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    const dop_j_str s = self.u.str, fill = how == 'z' ? (dop_j_str){"0", 1} : dop_j_str_arg(cx, a, 1, NULL, " ");
    const int64_t n = (int64_t)dop_j_chars(cx, s), width = dop_j_int_arg(cx, a, 0, NULL, 0);
    const uint64_t pad = width > n ? (uint64_t)(width - n) : 0;
    const uint64_t left = how == 'c' ? pad / 2 + (pad & (uint64_t)width & 1) : how == 'l' ? 0 : pad;
    const size_t sign = how == 'z' && s.n && (s.s[0] == '-' || s.s[0] == '+');
    dop_j_out o = {0};
    if (dop_j_chars(cx, fill) != 1)
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "the fill character is one character");
    dop_j_put(cx, &o, s.s, sign);
    dop_j_fill(cx, &o, fill, left);
    dop_j_put(cx, &o, s.s + sign, s.n - sign);
    dop_j_fill(cx, &o, fill, pad - left);
    return dop_j_take(&o);
}

static dop_j_val
m_expand_tabs(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)how;
    const int64_t size = dop_j_int_arg(cx, a, 0, "tabsize", 8);
    const dop_j_str s = self.u.str;
    dop_j_out o = {0};
    int64_t column = 0;
    for (size_t i = 0; i < s.n && cx->status == DOP_OK;) {
        const size_t len = dop_utf8_next(s.s + i, s.n - i).len;
        if (s.s[i] == '\t') {
            const int64_t n = size > 0 ? size - column % size : 0;
            dop_j_fill(cx, &o, (dop_j_str){" ", 1}, (uint64_t)n);
            column += n;
        } else {
            dop_j_put(cx, &o, s.s + i, len);
            column = s.s[i] == '\n' || s.s[i] == '\r' ? 0 : column + 1;
        }
        i += len;
    }
    return dop_j_take(&o);
}

/* ---- isalpha() and similar ---- */

static bool
is_character_kind(uint32_t cp, int how, bool first)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    const bool letter = c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO, decimal = c == UTF8PROC_CATEGORY_ND;
    const bool script = cp == 0xb2 || cp == 0xb3 || cp == 0xb9 || cp == 0x2070 || (cp >= 0x2074 && cp <= 0x2079) ||
                        (cp >= 0x2080 && cp <= 0x2089);
    switch (how) {
    case 'a':
        return letter;
    case 'n':
        return letter || decimal || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
    case '9':
        return decimal;
    case 'd':
        return decimal || script;
    case 'N':
        return decimal || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
    case 's':
        return dop_j_is_space(cp);
    case 'A':
        return cp < 0x80;
    case 'i':
        return letter || cp == '_' || c == UTF8PROC_CATEGORY_NL ||
               (!first &&
                (decimal || c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_PC));
    default: /* isprintable */
        return cp == ' ' || (c != UTF8PROC_CATEGORY_CN && c < UTF8PROC_CATEGORY_ZS);
    }
}

/* isalpha() and similar: true if the string is not empty and all characters are of the kind. isascii and isprintable
 * accept an empty string. */
static dop_j_val
m_is(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)a;
    const dop_j_str s = self.u.str;
    bool yes = s.n > 0 || how == 'A' || how == 'p';
    for (size_t i = 0; i < s.n && yes && dop_j_step(cx, 4);) {
        const dop_utf8_char u = dop_utf8_next(s.s + i, s.n - i);
        yes = is_character_kind(u.cp, how, i == 0);
        i += u.len;
    }
    return dop_j_bool(yes);
}

/* islower, isupper, istitle: true if the string has cased letters, and all have the case of the method. */
static dop_j_val
m_is_case(dop_j_ctx *cx, dop_j_val self, const dop_j_args *a, int how)
{
    (void)a;
    const dop_j_str s = self.u.str;
    bool cased = false, yes = true, inside = false;
    for (size_t i = 0; i < s.n && yes && dop_j_step(cx, 4);) {
        const dop_utf8_char u = dop_utf8_next(s.s + i, s.n - i);
        const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)u.cp);
        const bool upper = c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LT, lower = c == UTF8PROC_CATEGORY_LL;
        if (how == CASE_TITLE)
            yes = upper ? !inside : lower ? inside : true;
        else
            yes = how == CASE_UPPER ? !lower && c != UTF8PROC_CATEGORY_LT : !upper;
        inside = upper || lower;
        cased |= inside;
        i += u.len;
    }
    return dop_j_bool(yes && cased);
}

static const dop_j_method_row str_methods[] = {
    {"capitalize", m_case, CASE_CAPITAL},
    {"casefold", m_case, CASE_FOLD},
    {"center", m_pad, 'c'},
    {"count", m_count, 0},
    {"endswith", m_affix, 'e'},
    {"expandtabs", m_expand_tabs, 0},
    {"find", m_find, 'f'},
    {"format", NULL, 'F'},
    {"format_map", NULL, 'm'},
    {"index", m_find, 'I'},
    {"isalnum", m_is, 'n'},
    {"isalpha", m_is, 'a'},
    {"isascii", m_is, 'A'},
    {"isdecimal", m_is, '9'},
    {"isdigit", m_is, 'd'},
    {"isidentifier", m_is, 'i'},
    {"islower", m_is_case, CASE_LOWER},
    {"isnumeric", m_is, 'N'},
    {"isprintable", m_is, 'p'},
    {"isspace", m_is, 's'},
    {"istitle", m_is_case, CASE_TITLE},
    {"isupper", m_is_case, CASE_UPPER},
    {"join", m_join, 0},
    {"ljust", m_pad, 'l'},
    {"lower", m_case, CASE_LOWER},
    {"lstrip", m_strip, 'l'},
    {"partition", m_partition, 'p'},
    {"removeprefix", m_remove, 'p'},
    {"removesuffix", m_remove, 's'},
    {"replace", m_replace, 0},
    {"rfind", m_find, 'r'},
    {"rindex", m_find, 'R'},
    {"rjust", m_pad, 'r'},
    {"rpartition", m_partition, 'r'},
    {"rsplit", m_split, 'r'},
    {"rstrip", m_strip, 'r'},
    {"split", m_split, 'l'},
    {"splitlines", m_split_lines, 0},
    {"startswith", m_affix, 's'},
    {"strip", m_strip, 'b'},
    {"swapcase", m_case, CASE_SWAP},
    {"title", m_case, CASE_TITLE},
    {"upper", m_case, CASE_UPPER},
    {"zfill", m_pad, 'z'},
    {NULL, NULL, 0},
};

const dop_j_method_row *
dop_j_find_method(dop_j_kind kind, dop_j_str name)
{
    const dop_j_method_row *rows = kind == J_STR ? str_methods : dop_j_other_methods(kind);
    for (; rows && rows->name; rows++)
        if (dop_j_eq_lit(name, rows->name))
            return rows;
    return NULL;
}
