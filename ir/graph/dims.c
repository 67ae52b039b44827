/* Functions of axes and shapes, shared by the graph and the shape rules. */
#include "ir/graph/dims.h"
#include "ir/graph/cache_row.h"
#include "ir/graph/shapes.h"

#include <string.h>

uint64_t
dop_dim_value(const dop_graph *g, dop_dim d, uint32_t t)
{
    return (uint64_t)d.mul * (d.sym == DOP_SYM_T ? t : d.sym == DOP_SYM_R ? 1 : g->bound[d.sym]);
}

uint32_t
dop_shape_row_axes(const dop_shape *s)
{
    uint32_t n = 1;
    while (n < s->rank && s->dim[n - 1].sym != DOP_SYM_1 && s->dim[n].sym != DOP_SYM_1)
        n++;
    return n;
}

bool
dop_shape_is_rows(const dop_shape *s)
{
    return s->dim[0].sym < DOP_SYM_OWN && dop_shape_row_axes(s) == (dop_shape_appends(s) ? 2 : 1);
}

bool
dop_shape_appends(const dop_shape *s)
{
    return s->rank > 1 && s->dim[0].sym == DOP_SYM_Q && (s->dim[1].sym == DOP_SYM_S || s->dim[1].sym == DOP_SYM_R);
}

bool
dop_shape_blocks(const dop_shape *s, dop_type type)
{
    return dop_cache_blocks(type) && dop_shape_appends(s) && s->dim[s->rank - 1].mul % DOP_CACHE_BLOCK == 0;
}

bool
dop_shape_equal(const dop_shape *a, const dop_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->dim[i].mul != b->dim[i].mul || a->dim[i].sym != b->dim[i].sym)
            return false;
    }
    return true;
}

uint64_t
dop_shape_product(const dop_shape *s, uint32_t out_n_sym[DOP_N_SYMS])
{
    uint64_t p = 1;
    memset(out_n_sym, 0, DOP_N_SYMS * sizeof out_n_sym[0]);
    for (uint32_t i = 0; i < s->rank; i++) {
        p *= s->dim[i].mul;
        out_n_sym[s->dim[i].sym]++;
    }
    return p;
}
