/* Prints placements for dumps. */
#include "kernels/nest/placement.h"

uint32_t
dop_placement_size(const dop_nest_placement *p, dop_place_axis axis, dop_level level)
{
    return p->at[axis][level] ? p->at[axis][level] : 1;
}

static void
put_movement(const char *name, const dop_movement *m, dop_buf *out)
{
    static const char *const paths[] = {"direct", "shared by pieces", "shared as a whole"};
    if (m->unit == 0)
        return;
    dop_buf_printf(out, "  %s: %s, %u values at a time", name, paths[m->path], m->unit);
    if (m->form)
        dop_buf_printf(out, ", as %s", m->form);
    if (m->ahead)
        dop_buf_printf(out, ", %u turn ahead", m->ahead);
    dop_buf_puts(out, "\n");
}

void
dop_placement_dump(const dop_nest_placement *p, dop_buf *out)
{
    const char *axes = p->axes ? p->axes : "tnk";
    static const char *const levels[] = {"grid", "piece", "group", "loop", "lane", "reg", "unit"};
    static const char *const sums[] = {"in registers", "lanes", "each by itself through shared memory",
                                       "lanes, then shared memory"};
    for (int a = 0; a < DOP_PLACE_AXES; a++) {
        bool any = false;
        dop_buf_printf(out, "  %c:", axes[a]);
        for (int l = 0; l < DOP_LEVELS; l++)
            if (p->at[a][l] > 1) {
                dop_buf_printf(out, "%s %s %u", any ? "," : "", levels[l], p->at[a][l]);
                any = true;
            }
        dop_buf_puts(out, any ? "\n" : " reg 1\n");
    }
    put_movement(p->operands[0] ? p->operands[0] : "x", &p->x, out);
    put_movement(p->operands[1] ? p->operands[1] : "w", &p->w, out);
    dop_buf_printf(out, "  sum of %c: %s, subgroups of %u\n", axes[DOP_PLACE_k], sums[p->sum], p->subgroup);
}
