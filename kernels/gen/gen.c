/* Generator state (dop_gen): initialization, shared memory size, and texts that outlive it. */
#include "kernels/gen/gen.h"
#include "kernels/gen/int8.h"
#include "kernels/gen/templates.h"
#include "kernels/nest/finish.h"
#include "kernels/nest/nest.h"
#include "kernels/nest/print.h"

void
dop_gen_open(dop_gen *gen, const dop_site *s, const dop_descriptor *d, const dop_selection *choice, dop_diag *diag)
{
    *gen = (dop_gen){.site = *s, .descriptor = d, .choice = choice, .grid = {1, 1, 1}, .failures = dop_buf_failures()};
    dop_emit_init(&gen->e, s->g, s->r, s->t, diag);
    gen->e.routes = s->routes;
}

uint32_t
dop_gen_shared(dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    uint32_t sums = tile->subgroup ? tile->wg / gen->e.target->subgroup * 4 : tile->wg * 4;
    return sums + (gen->descriptor->shared ? gen->descriptor->shared(gen) : 0) +
           (dop_int8_levels(gen) ? DOP_LEVEL_BYTES : 0);
}

dop_status
dop_gen_print_nest(dop_gen *gen, dop_nest *n)
{
    dop_buf dump = {0};
    dop_status st = gen->e.status == DOP_OK ? dop_nest_finish(n) : gen->e.status;
    if (st != DOP_OK)
        return st;
    dop_nest_print(n, &gen->main);
    dop_nest_dump(n, &dump);
    gen->nest = dop_gen_keep(gen, &dump);
    return gen->e.status;
}

void
dop_gen_library(dop_gen *gen, dop_nest *n, const char *file, const dop_number *numbers, size_t count)
{
    dop_keys keys = {0};
    dop_buf text = {0};
    dop_keys_numbers(gen, &keys, &text, numbers, count);
    const dop_status st = file ? dop_template_fill(gen, file, &keys, &text) : DOP_OK;
    if (gen->e.status == DOP_OK)
        gen->e.status = st;
    dop_nest_hole(n, file ? file : "numbers", dop_gen_keep(gen, &text));
}
