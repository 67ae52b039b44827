/* What filters and methods of strings share. */
#include <string.h>

#include "runtime/jinja/jinja.h"
#include "runtime/text/utf8.h"

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
