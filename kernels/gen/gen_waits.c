/* Waits within a dispatch of products: parts whose values others read as whole rows come first in the grid, and the other
 * parts' epilogues wait for them (waits.glsl). In a persistent dispatch mailboxes do this instead. */
#include "kernels/gen/gen_waits.h"
#include "kernels/gen/gen.h"
#include "kernels/gen/templates.h"
#include "kernels/nest/nest.h"

enum { MOST_WAITS = 1 << 24, AT = DOP_COUNTS_MOST - 2 };

static bool
waits(const dop_gen *gen)
{
    return gen->e.r->info->product.n_awaited > 0 && !gen->e.routes;
}

void
dop_waits_order(const dop_gen *gen, const dop_parts *p, uint32_t *order)
{
    uint32_t n = 0;
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < p->n; i++)
            if (dop_region_part_is_awaited(gen->e.r, i) == (pass == 0))
                order[n++] = i;
}

struct dop_stmt *
dop_waits_declare(dop_gen *gen, dop_nest *n)
{
    gen->hands_on = gen->hands_on || waits(gen);
    return waits(gen) ? dop_nest_hole(n, "waits", NULL) : NULL;
}

void
dop_waits_define(dop_gen *gen, struct dop_stmt *hole, uint32_t makers, uint32_t takers, const char *tiles)
{
    dop_keys keys = {0};
    dop_buf text = {0};
    if (!hole)
        return;
    const char *times = tiles ? dop_emit_str(&gen->e, " * (%s)", tiles) : "";
    dop_buf_printf(&text, "#define MAKERS (%uu%s)\n#define TAKERS (%uu%s)\n", makers, times, takers, times);
    DOP_NUMBERS(gen, &keys, &text, {"DONE_AT", AT}, {"MOST_WAITS", MOST_WAITS});
    dop_keys_set(&keys, "COUNTS", dop_emit_counts(&gen->e));
    const dop_status st = dop_template_fill(gen, "waits.glsl", &keys, &text);
    if (gen->e.status == DOP_OK)
        gen->e.status = st;
    hole->value = dop_gen_keep(gen, &text);
}

const char *
dop_waits_call(dop_gen *gen, uint32_t part, const char *call)
{
    if (!waits(gen))
        return call;
    return dop_emit_str(&gen->e, "%s dop_ends(%s);", call,
                        dop_region_part_is_awaited(gen->e.r, part) ? "true" : "false");
}
