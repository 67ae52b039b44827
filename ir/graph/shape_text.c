/* Formats shapes as text, and checks names. */
#include "ir/graph/shapes.h"

#include <stdio.h>
#include <string.h>

const char *
dop_shape_text(const dop_graph *g, const dop_shape *s, char out_text[DOP_SHAPE_TEXT])
{
    size_t n = 0;
    out_text[n++] = '[';
    for (uint32_t i = 0; i < s->rank && i < DOP_MAX_RANK; i++) {
        const dop_dim d = s->dim[i];
        const char *known = d.sym > DOP_SYM_1 && d.sym < DOP_N_SYMS ? g->dim_names[d.sym] : "";
        const char *sym = d.sym == DOP_SYM_R ? "R" : known ? known : "?", *comma = i ? "," : "";
        int k = d.mul == 1 && *sym ? snprintf(out_text + n, DOP_SHAPE_TEXT - n, "%s%s", comma, sym)
                                   : snprintf(out_text + n, DOP_SHAPE_TEXT - n, "%s%u%s", comma, d.mul, sym);
        n += (size_t)k;
    }
    out_text[n++] = ']';
    out_text[n] = 0;
    return out_text;
}

bool
dop_dim_name_ok(const char *name, size_t n)
{
    bool ok = n >= 1 && n <= 8 && name[0] >= 'A' && name[0] <= 'Z' && !(n == 1 && name[0] == 'R');
    for (size_t i = 1; i < n && ok; i++)
        ok = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
             (name[i] >= '0' && name[i] <= '9');
    return ok;
}

bool
dop_name_ok(const char *s)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/";
    size_t n = strspn(s, allowed);
    return n >= 1 && n <= 200 && s[n] == 0;
}
