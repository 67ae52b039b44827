#include "kernels/nest/reduce.h"

static const struct {
    const char *none, *add, *lanes, *workgroup;
} reductions[] = {
    [DOP_REDUCE_sum] = {"0.0", "dop_sum", "subgroupAdd", "dop_wg_sum"},
    [DOP_REDUCE_squares] = {"0.0", "dop_sumsq", "subgroupAdd", "dop_wg_sum"},
    [DOP_REDUCE_most] = {"-3.4e38", NULL, "subgroupMax", "dop_wg_max"},
};

void
dop_reduce_begin(dop_nest *n, dop_reduction r, const char *name)
{
    dop_nest_let(n, "float", name, "%s", reductions[r].none);
}

const char *
dop_reduce_add(dop_nest *n, dop_reduction r, const char *name, const char *value, uint32_t width)
{
    const char *v = value;
    if (reductions[r].add)
        return dop_nest_text(n, "%s += %s(%s)", name, reductions[r].add, v);
    if (width == 4)
        v = dop_nest_text(n, "max(max(%s.x, %s.y), max(%s.z, %s.w))", v, v, v, v);
    return dop_nest_text(n, "%s = max(%s, %s)", name, name, v);
}

const char *
dop_reduce_all(dop_nest *n, dop_reduction r, dop_reduce_by by, const char *name)
{
    if (by == DOP_BY_alone)
        return name;
    if (by >= DOP_BY_own)
        return dop_nest_text(n, "dop_own_sum(%uu, %s)", (uint32_t)by - DOP_BY_own, name);
    return dop_nest_text(n, "%s(%s)", by == DOP_BY_lanes ? reductions[r].lanes : reductions[r].workgroup, name);
}

void
dop_reduce_note(dop_stmt *s, dop_reduce_by by)
{
    s->together = by >= DOP_BY_workgroup;
    s->shows = by >= DOP_BY_own;
}
