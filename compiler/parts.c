#include "compiler/parts.h"

#include "compiler/part_graph.h"
#include "compiler/plan_write.h"

#include <stdlib.h>
#include <string.h>

/* numbers[n_regions]: the part that runs each region of a schedule. */
static dop_status
number_regions(const dop_compilation *c, const dop_schedule *s, const dop_cuts *cuts, uint32_t *numbers, dop_diag *diag)
{
    dop_status st = dop_region_layers(&s->g, c->model.arch.n_layers, diag, numbers);
    for (dop_region_id r = 1; r < s->g.n_regions && st == DOP_OK; r++) {
        uint32_t part = 0;
        while (numbers[r] >= cuts->end[part])
            part++;
        numbers[r] = part;
    }
    return st;
}

/* How a schedule's values cross. */
static dop_status
cross(const dop_compilation *c, const dop_schedule *s, const dop_cuts *cuts, dop_diag *diag, uint32_t **out_numbers,
      dop_crossings *out_crossings)
{
    uint32_t *numbers = calloc(s->g.n_regions, sizeof *numbers);
    *out_numbers = numbers;
    memset(out_crossings, 0, sizeof *out_crossings);
    dop_status st = numbers ? number_regions(c, s, cuts, numbers, diag) : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    return st == DOP_OK ? dop_crossings_find(&s->g, numbers, diag, out_crossings) : st;
}

dop_status
dop_parts_may_cut(dop_compilation *c, uint32_t layer, dop_diag *diag, const char **out_why)
{
    const dop_cuts cuts = {.n_parts = 2, .end = {layer, c->model.arch.n_layers}};
    dop_status st = DOP_OK;
    *out_why = NULL;
    for (uint32_t i = 0; i < c->n_schedules && st == DOP_OK && !*out_why; i++) {
        const dop_schedule *s = &c->schedules[i];
        uint32_t *numbers;
        dop_crossings x;
        st = cross(c, s, &cuts, diag, &numbers, &x);
        if (st == DOP_OK && x.refused &&
            !(*out_why = dop_arena_printf(&c->arena, "%s (%%%s of %s)", x.refused,
                                          dop_node_at(&s->g, x.refused_at)->name, dop_schedule_name(s))))
            st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
        dop_crossings_finish(&x);
        free(numbers);
    }
    return st;
}

/* The kernels that the part uses; the others are not written. */
static dop_status
take_kernels(const dop_compilation *c, dop_compilation *p, dop_diag *diag)
{
    const dop_kernel_set *all = &c->kernels;
    p->kernels = (dop_kernel_set){all->n, all->n, calloc(all->n ? all->n : 1, sizeof *all->items)};
    if (!p->kernels.items)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < all->n; i++) {
        p->kernels.items[i] = all->items[i];
        p->kernels.items[i].dropped = true;
    }
    for (uint32_t i = 0; i < p->n_schedules; i++)
        for (dop_region_id r = 1; r < p->schedules[i].g.n_regions; r++)
            p->kernels.items[p->schedules[i].regions[r].kernel].dropped =
                all->items[p->schedules[i].regions[r].kernel].dropped;
    return DOP_OK;
}

static dop_status
take_weights(const dop_compilation *c, dop_compilation *p, dop_diag *diag)
{
    const uint64_t limit = c->options.max_alloc ? c->options.max_alloc : c->target.max_alloc;
    dop_status st = DOP_OK;
    dop_pack_init(&p->pack, &c->model, c->ctx);
    p->pack.threads = c->options.threads;
    for (uint32_t i = 0; i < p->n_schedules && st == DOP_OK; i++)
        st = dop_pack_add_graph(&p->pack, &p->schedules[i].g, diag);
    return st == DOP_OK ? dop_pack_layout(&p->pack, limit < (1ull << 31) ? limit : 1ull << 31, diag) : st;
}

/* What every part is to know of the states of all. */
static uint32_t
flags_of(const dop_graph *g)
{
    uint32_t flags = dop_graph_replaces(g) ? DOP_PART_REPLACES : 0;
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        if (dop_node_at(g, id)->op == DOP_OP_state &&
            (!dop_shape_appends(&dop_node_at(g, id)->shape) || dop_cache_ring(g, id) || !dop_graph_page(g)))
            flags |= DOP_PART_UNPAGED;
    return flags;
}

static dop_status
start_part(dop_compilation *c, const dop_cuts *cuts, uint32_t number, dop_compilation *p, dop_diag *diag)
{
    *p = *c; /* what is shared; what is the part's own is made anew */
    memset(&p->kernels, 0, sizeof p->kernels);
    memset(&p->pack, 0, sizeof p->pack);
    memset(p->schedules, 0, sizeof p->schedules);
    p->n_schedules = 0;
    dop_arena_init(&p->arena);
    dop_cut *cut = dop_arena_alloc(&p->arena, sizeof *cut);
    if (!cut)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    *cut = (dop_cut){.number = number,
                     .n_parts = cuts->n_parts,
                     .first_layer = number ? cuts->end[number - 1] : 0,
                     .end_layer = cuts->end[number],
                     .flags = flags_of(&c->schedules[0].g),
                     .rewind = dop_compilation_rewind(c)};
    p->cut = cut;
    return DOP_OK;
}

/* One schedule of all parts. */
static dop_status
cut_schedule(const dop_compilation *c, const dop_schedule *s, const dop_cuts *cuts, dop_compilation *parts,
             dop_diag *diag)
{
    uint32_t *numbers;
    dop_crossings x;
    dop_status st = cross(c, s, cuts, diag, &numbers, &x);
    if (st == DOP_OK && x.refused)
        st = DOP_FAIL(diag, DOP_E_INPUT, "the model cannot be cut there: %s (%%%s of %s)", x.refused,
                      dop_node_at(&s->g, x.refused_at)->name, dop_schedule_name(s));
    for (uint32_t k = 0; k < cuts->n_parts && st == DOP_OK; k++)
        st = dop_schedule_take_part(s, numbers, &x, k, cuts->n_parts, &parts[k].arena, diag,
                                    &parts[k].schedules[parts[k].n_schedules++]);
    dop_crossings_finish(&x);
    free(numbers);
    return st;
}

dop_status
dop_parts_cut(dop_compilation *c, const dop_cuts *cuts, dop_diag *diag, dop_compilation *out_parts)
{
    dop_status st = DOP_OK;
    memset(out_parts, 0, cuts->n_parts * sizeof *out_parts);
    for (uint32_t k = 0; k < cuts->n_parts && st == DOP_OK; k++)
        st = start_part(c, cuts, k, &out_parts[k], diag);
    for (uint32_t i = 0; i < c->n_schedules && st == DOP_OK; i++)
        st = cut_schedule(c, &c->schedules[i], cuts, out_parts, diag);
    for (uint32_t k = 0; k < cuts->n_parts && st == DOP_OK; k++) {
        st = take_weights(c, &out_parts[k], diag);
        if (st == DOP_OK)
            st = take_kernels(c, &out_parts[k], diag);
    }
    if (st != DOP_OK)
        dop_parts_finish(out_parts, cuts->n_parts);
    return st;
}

void
dop_parts_finish(dop_compilation *parts, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        free(parts[k].kernels.items);
        for (uint32_t i = 0; i < parts[k].n_schedules; i++)
            dop_fusion_log_finish(&parts[k].schedules[i].log);
        dop_pack_finish(&parts[k].pack);
        dop_arena_finish(&parts[k].arena);
        memset(&parts[k], 0, sizeof parts[k]);
    }
}
