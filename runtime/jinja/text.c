/* What filters and methods of strings share. */
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "runtime/jinja/jinja.h"

/* Letter by letter: what becomes several letters (sharp s) stays. */
dop_j_val
dop_j_change_case(dop_j_ctx *cx, dop_j_str s, dop_j_case how)
{
    dop_j_out o = {0};
    bool start = true;
    for (size_t i = 0; i < s.n && cx->status == DOP_OK;) {
        const dop_utf8_char u = dop_utf8_next(s.s + i, s.n - i);
        const bool up = how == CASE_UPPER || (start && how != CASE_LOWER);
        const utf8proc_int32_t cp = (utf8proc_int32_t)u.cp, lower = utf8proc_tolower(cp), upper = utf8proc_toupper(cp);
        char c[4];
        const size_t n = u.valid ? dop_utf8_put((uint32_t)(up ? upper : lower), c) : 0;
        dop_j_put(cx, &o, u.valid ? c : s.s + i, u.valid ? n : u.len);
        start = how == CASE_TITLE ? lower == upper : false;
        i += u.len;
    }
    return dop_j_take(&o);
}

bool
dop_j_is_cased(dop_j_ctx *cx, dop_j_str s, bool upper)
{
    dop_j_val same = dop_j_change_case(cx, s, upper ? CASE_UPPER : CASE_LOWER),
              other = dop_j_change_case(cx, s, upper ? CASE_LOWER : CASE_UPPER);
    return cx->status == DOP_OK && dop_j_str_eq(same.u.str, s) && !dop_j_str_eq(other.u.str, s);
}

dop_j_val
dop_j_replace(dop_j_ctx *cx, dop_j_str s, dop_j_str from, dop_j_str to, int64_t count)
{
    dop_j_out o = {0};
    size_t done = 0;
    while (count != 0 && cx->status == DOP_OK && from.n == 0) { /* nothing stands before and behind each character */
        const size_t len = done < s.n ? dop_utf8_next(s.s + done, s.n - done).len : 0;
        dop_j_put(cx, &o, to.s, to.n);
        dop_j_put(cx, &o, s.s + done, len);
        done += len;
        count--;
        if (len == 0)
            break;
    }
    while (count != 0 && done < s.n && cx->status == DOP_OK && from.n > 0) {
        const char *p = memmem(s.s + done, s.n - done, from.s, from.n);
        if (!p)
            break;
        dop_j_put(cx, &o, s.s + done, (size_t)(p - s.s) - done);
        dop_j_put(cx, &o, to.s, to.n);
        done = (size_t)(p - s.s) + from.n;
        count--;
    }
    dop_j_put(cx, &o, s.s + done, s.n - done);
    return dop_j_take(&o);
}

/* str.split(): at a separator, or at runs of white space when there is none. */
dop_j_val
dop_j_split(dop_j_ctx *cx, dop_j_str s, const dop_j_str *sep, int64_t max)
{
    dop_j_val l = dop_j_new_list(cx);
    if (sep && sep->n == 0)
        return dop_j_fail(cx, 0, DOP_E_INPUT, "split at an empty separator");
    if (!sep)
        s = dop_j_strip(s, NULL, true, false);
    while (cx->status == DOP_OK && max != 0 && (sep || s.n)) {
        size_t at = 0, skip = 0;
        if (sep) {
            const char *p = s.n ? memmem(s.s, s.n, sep->s, sep->n) : NULL;
            if (!p)
                break;
            at = (size_t)(p - s.s);
            skip = sep->n;
        } else {
            for (; at < s.n; at += skip) {
                dop_utf8_char u = dop_utf8_next(s.s + at, s.n - at);
                if (dop_j_is_space(u.cp))
                    break;
                skip = u.len;
            }
            skip = 0;
        }
        dop_j_push(cx, l.u.list, dop_j_text(s.s, at));
        s.s += at + skip;
        s.n -= at + skip;
        if (!sep)
            s = dop_j_strip(s, NULL, true, false);
        max--;
    }
    if (cx->status == DOP_OK && (sep || s.n))
        dop_j_push(cx, l.u.list, dop_j_text(s.s, s.n));
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

/* The same from the end: with a limit, what is left over stands first. */
dop_j_val
dop_j_rsplit(dop_j_ctx *cx, dop_j_str s, const dop_j_str *sep, int64_t max)
{
    dop_j_val all = dop_j_split(cx, s, sep, -1), r = dop_j_new_list(cx);
    if (cx->status != DOP_OK || max < 0 || all.u.list->n <= (size_t)max + (sep ? 1 : 0))
        return all;
    const dop_j_list *parts = all.u.list;
    const size_t n_left = parts->n - (size_t)max;
    const dop_j_str last = n_left ? parts->items[n_left - 1].u.str : (dop_j_str){s.s, 0};
    const char *from = sep ? s.s : parts->items[0].u.str.s;
    if (n_left)
        dop_j_push(cx, r.u.list, dop_j_text(from, (size_t)(last.s + last.n - from)));
    for (size_t i = n_left; i < parts->n && cx->status == DOP_OK; i++)
        dop_j_push(cx, r.u.list, parts->items[i]);
    return r;
}

dop_j_val
dop_j_split_lines(dop_j_ctx *cx, dop_j_str s, bool keep_ends)
{
    dop_j_val l = dop_j_new_list(cx);
    for (size_t at = 0, from = 0; cx->status == DOP_OK && at < s.n; from = at) {
        while (at < s.n && s.s[at] != '\n' && s.s[at] != '\r')
            at++;
        const size_t end = at;
        if (at < s.n)
            at += s.s[at] == '\r' && at + 1 < s.n && s.s[at + 1] == '\n' ? 2 : 1;
        dop_j_push(cx, l.u.list, dop_j_text(s.s + from, (keep_ends ? at : end) - from));
    }
    return l;
}

/* One of %s %r %d %i %f %e %g %x with its flags, width and precision, which stand from `spec` on. */
static void
format_one(dop_j_ctx *cx, dop_j_out *o, dop_j_str spec, dop_j_val v, long line)
{
    const char how = spec.s[spec.n - 1];
    char form[24], text[512];
    dop_j_out value = {0};
    snprintf(form, sizeof form, "%%%.*s", (int)(spec.n - 1), spec.s);
    const size_t n = strlen(form);
    if (how == 's' || how == 'r') {
        if (how == 's')
            dop_j_print(cx, &value, v);
        else
            dop_j_repr(cx, &value, v, 0);
        if (spec.n > 1)
            dop_j_fail(cx, line, DOP_E_INPUT, "a format of a string with a width");
        dop_j_put(cx, o, value.s ? value.s : "", value.n);
        return;
    }
    if (v.kind != J_INT && v.kind != J_FLOAT && v.kind != J_BOOL) {
        dop_j_fail(cx, line, DOP_E_INPUT, "%%%c needs a number, not a %s", how, dop_j_kind_name(v.kind));
        return;
    }
    const bool whole = how == 'd' || how == 'i' || how == 'x';
    const double f = v.kind == J_FLOAT ? v.u.f : v.kind == J_INT ? (double)v.u.i : (double)v.u.b;
    const long long i = v.kind == J_INT    ? v.u.i
                        : v.kind == J_BOOL ? v.u.b
                                           : (long long)(f > -0x1p62 && f < 0x1p62 ? f : 0);
    snprintf(form + n, sizeof form - n, whole ? "ll%c" : "%c", how);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const int len = whole ? snprintf(text, sizeof text, form, i) : snprintf(text, sizeof text, form, f);
#pragma GCC diagnostic pop
    dop_j_put(cx, o, text, len < 0 ? 0 : (size_t)len < sizeof text ? (size_t)len : sizeof text - 1);
}

dop_j_val
dop_j_format(dop_j_ctx *cx, dop_j_str format, const dop_j_val *args, size_t n, long line)
{
    enum { LONGEST = 8 };
    dop_j_out o = {0};
    size_t used = 0;
    for (size_t i = 0; i < format.n && cx->status == DOP_OK;) {
        if (format.s[i] != '%') {
            dop_j_put(cx, &o, format.s + i++, 1);
            continue;
        }
        const dop_j_str rest = {format.s + i + 1, format.n - i - 1};
        size_t len = 0;
        while (len < rest.n && len < LONGEST && strchr("-+ 0123456789.", rest.s[len]) && rest.s[len])
            len++;
        const char how = len < rest.n ? rest.s[len] : 0;
        if (how == '%' && len == 0) {
            dop_j_put(cx, &o, "%", 1);
        } else if (!how || !strchr("srdifegx", how)) {
            return dop_j_fail(cx, line, DOP_E_INPUT, "a format with %% is not one of %%s %%r %%d %%i %%f %%e %%g %%x");
        } else if (used == n) {
            return dop_j_fail(cx, line, DOP_E_INPUT, "a format has more places than values");
        } else {
            format_one(cx, &o, (dop_j_str){rest.s, len + 1}, args[used++], line);
        }
        i += len + 2;
    }
    if (used < n)
        return dop_j_fail(cx, line, DOP_E_INPUT, "a format has fewer places than values");
    return dop_j_take(&o);
}
