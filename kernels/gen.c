/* What all kernels have in common, before and while they are generated. */
#include "kernels/gen.h"

void
dop_gen_open(dop_gen *gen, const dop_site *s, const dop_descriptor *d, const dop_choice *choice, dop_diag *diag)
{
    *gen = (dop_gen){.descriptor = d, .choice = choice, .failures = dop_buf_failures()};
    dop_emit_init(&gen->e, s->g, s->r, s->t, diag);
    gen->e.routes = s->routes;
}

uint32_t
dop_gen_shared(dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    uint32_t sums = tile->subgroup ? tile->wg / gen->e.target->subgroup * 4 : tile->wg * 4;
    return sums + (gen->descriptor->shared ? gen->descriptor->shared(gen) : 0);
}
