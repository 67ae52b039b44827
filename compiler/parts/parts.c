#include "compiler/parts/parts.h"

#include "compiler/schedule/part_graph.h"
#include "compiler/schedule/persistent.h"
#include "compiler/write/plan_write.h"
#include "ir/graph/dims.h"

#include <stdlib.h>
#include <string.h>

/* Sets numbers[n_regions] to the part that runs each region of a schedule. */
static dop_status
number_regions(const dop_compilation *c, const dop_schedule *s, const dop_cuts *cuts, uint32_t *numbers, dop_diag *diag)
{
    DOP_RETURN_IF_ERROR(dop_region_layers(&s->g, c->model.arch.n_layers, diag, numbers));
    for (dop_region_id r = 1; r < s->g.n_regions; r++) {
        uint32_t part = 0;
        while (numbers[r] >= cuts->end[part])
            part++;
        numbers[r] = part;
    }
    return DOP_OK;
}

/* Finds the part that runs each region of a schedule, and the values that cross the cuts. */
static dop_status
find_cut_crossings(const dop_compilation *c, const dop_schedule *s, const dop_cuts *cuts, dop_diag *diag,
                   uint32_t **out_numbers, dop_crossings *out_crossings)
{
    uint32_t *numbers = calloc(s->g.n_regions, sizeof *numbers);
    *out_numbers = numbers;
    memset(out_crossings, 0, sizeof *out_crossings);
    DOP_RETURN_IF_ERROR(numbers ? number_regions(c, s, cuts, numbers, diag) : DOP_NO_MEMORY(diag));
    return dop_crossings_find(&s->g, numbers, diag, out_crossings);
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
        st = find_cut_crossings(c, s, &cuts, diag, &numbers, &x);
        if (st == DOP_OK && x.refused &&
            !(*out_why = dop_arena_printf(&c->arena, "%s (%%%s of %s)", x.refused,
                                          dop_node_at(&s->g, x.refused_at)->name, dop_schedule_name(s))))
            st = DOP_NO_MEMORY(diag);
        dop_crossings_finish(&x);
        free(numbers);
    }
    return st;
}

/* Copies all kernels of the whole model to the part. Kernels that the part does not use are marked as dropped, so they
 * are not written. */
static dop_status
take_kernels(const dop_compilation *c, dop_compilation *p, dop_diag *diag)
{
    const dop_kernel_set *all = &c->kernels;
    p->kernels = (dop_kernel_set){all->n, all->n, calloc(all->n ? all->n : 1, sizeof *all->items)};
    if (!p->kernels.items)
        return DOP_NO_MEMORY(diag);
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

/* Clears the `dropped` flag of kernels of the whole model that only the persistent form of a part's schedule uses. */
static void
use_kernels(const dop_compilation *c, dop_compilation *p, const dop_schedule *s)
{
    const dop_persistent *f = s->persistent;
    for (dop_region_id r = f ? f->n_stages + 1 : 0; f && r < s->g.n_regions; r++)
        if (f->regions[r].kernel < c->kernels.n)
            p->kernels.items[f->regions[r].kernel].dropped = c->kernels.items[f->regions[r].kernel].dropped;
}

/* Builds persistent dispatches for the part's decode schedules and compiles their kernels. Their stages are the part's
 * own regions. */
static dop_status
make_persistent(const dop_compilation *c, dop_compilation *p, dop_diag *diag)
{
    dop_kernel_set own = {0};
    dop_status st = DOP_OK;
    if (!c->target->persistent || c->options.no_spirv)
        return DOP_OK;
    for (uint32_t i = 0; i < p->n_schedules && st == DOP_OK; i++)
        if (p->schedules[i].phase == DOP_PHASE_DECODE) {
            st = dop_persistent_build(p, &p->schedules[i], diag);
            use_kernels(c, p, &p->schedules[i]);
        }
    /* The new kernels come after those of the whole model, which are already compiled. */
    own.n = p->kernels.n - c->kernels.n;
    own.items = p->kernels.items + c->kernels.n;
    if (st == DOP_OK && own.n > 0)
        st = dop_kernel_set_compile(&own, c->target, c->options.threads, &c->options.progress, diag);
    if (st == DOP_OK)
        dop_compilation_drop_persistent(p);
    return st;
}

static dop_status
take_weights(const dop_compilation *c, dop_compilation *p, dop_diag *diag)
{
    dop_status st = DOP_OK;
    dop_pack_init(&p->pack, &c->model, c->ctx);
    p->pack.threads = c->options.threads;
    p->pack.imatrix = c->imatrix;
    for (uint32_t i = 0; i < p->n_schedules && st == DOP_OK; i++)
        if ((st = dop_pack_add_graph(&p->pack, &p->schedules[i].g, diag)) == DOP_OK && dop_target_views(c->target))
            dop_pack_join(&p->pack, &p->schedules[i].g);
    return st == DOP_OK ? dop_pack_layout(&p->pack, dop_compilation_max_segment(c), diag) : st;
}

/* Returns DOP_PART_*: properties of the whole model's states that every part needs. */
static uint32_t
collect_part_flags(const dop_graph *g)
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
    *p = *c; /* shared fields are copies; the part's own are reset below */
    memset(&p->kernels, 0, sizeof p->kernels);
    memset(&p->pack, 0, sizeof p->pack);
    memset(p->schedules, 0, sizeof p->schedules);
    p->n_schedules = 0;
    p->n_shared_kernels = c->kernels.n;
    dop_arena_init(&p->arena);
    dop_cut *cut = dop_arena_alloc(&p->arena, sizeof *cut);
    if (!cut)
        return DOP_NO_MEMORY(diag);
    *cut = (dop_cut){.number = number,
                     .n_parts = cuts->n_parts,
                     .first_layer = number ? cuts->end[number - 1] : 0,
                     .end_layer = cuts->end[number],
                     .flags = collect_part_flags(&c->schedules[0].g),
                     .rewind = dop_compilation_rewind(c)};
    p->cut = cut;
    return DOP_OK;
}

/* Adds the regions of a schedule of the whole model to parts from .. to - 1. */
static dop_status
cut_schedule(const dop_compilation *c, const dop_schedule *s, const dop_cuts *cuts, uint32_t from, uint32_t to,
             dop_compilation *parts, dop_diag *diag)
{
    uint32_t *numbers;
    dop_crossings x;
    dop_status st = DOP_OK;
    DOP_TRY(find_cut_crossings(c, s, cuts, diag, &numbers, &x));
    if (x.refused)
        DOP_TRY(DOP_FAIL(diag, DOP_E_INPUT, "the model cannot be cut there: %s (%%%s of %s)", x.refused,
                         dop_node_at(&s->g, x.refused_at)->name, dop_schedule_name(s)));
    for (uint32_t k = from; k < to; k++)
        DOP_TRY(dop_schedule_take_part(s, numbers, &x, k, cuts->n_parts, &parts[k].arena, diag,
                                       &parts[k].schedules[parts[k].n_schedules++]));
error:
    dop_crossings_finish(&x);
    free(numbers);
    return st;
}

/* Makes parts from .. to - 1 of a compilation. */
static dop_status
cut_compilation(dop_compilation *c, const dop_cuts *cuts, uint32_t from, uint32_t to, dop_compilation *out_parts,
                dop_diag *diag)
{
    for (uint32_t k = from; k < to; k++)
        DOP_RETURN_IF_ERROR(start_part(c, cuts, k, &out_parts[k], diag));
    for (uint32_t i = 0; i < c->n_schedules; i++)
        DOP_RETURN_IF_ERROR(cut_schedule(c, &c->schedules[i], cuts, from, to, out_parts, diag));
    for (uint32_t k = from; k < to; k++) {
        DOP_RETURN_IF_ERROR(take_weights(c, &out_parts[k], diag));
        DOP_RETURN_IF_ERROR(take_kernels(c, &out_parts[k], diag));
        DOP_RETURN_IF_ERROR(make_persistent(c, &out_parts[k], diag));
    }
    return DOP_OK;
}

/* True if schedule b of the next part receives exactly the values that schedule a sends: equal names, types and shapes. */
static bool
schedules_match(const dop_schedule *a, const dop_schedule *b)
{
    if (strcmp(a->g.name, b->g.name) != 0 || a->n_sent != b->n_received)
        return false;
    for (uint32_t i = 0; i < a->n_sent; i++) {
        const dop_node *x = dop_node_at(&a->g, a->sent[i]), *y = dop_node_at(&b->g, b->received[i]);
        if (x->type != y->type || strcmp(x->name, y->name) != 0 || !dop_shape_equal(&x->shape, &y->shape))
            return false;
    }
    return true;
}

static dop_status
check_match(const dop_compilation *a, const dop_compilation *b, dop_diag *diag)
{
    bool match = a->n_schedules == b->n_schedules;
    for (uint32_t i = 0; i < a->n_schedules && match; i++)
        match = schedules_match(&a->schedules[i], &b->schedules[i]);
    return match ? DOP_OK
                 : DOP_FAIL(diag, DOP_E_INPUT,
                            "targets %s and %s divide the model into other dispatches before layer %u, so that other "
                            "values would cross: take one target for both parts",
                            a->target->name, b->target->name, b->cut->first_layer);
}

dop_status
dop_parts_make(dop_compilation *list, uint32_t n, const dop_cuts *cuts, dop_diag *diag, dop_compilation *out_parts)
{
    dop_status st = DOP_OK;
    memset(out_parts, 0, cuts->n_parts * sizeof *out_parts);
    if (n == 1)
        DOP_TRY(cut_compilation(&list[0], cuts, 0, cuts->n_parts, out_parts, diag));
    for (uint32_t k = 0; k < n && n > 1; k++)
        DOP_TRY(cut_compilation(&list[k], cuts, k, k + 1, out_parts, diag));
    for (uint32_t k = 1; k < cuts->n_parts; k++)
        DOP_TRY(check_match(&out_parts[k - 1], &out_parts[k], diag));
error:
    if (st != DOP_OK)
        dop_parts_finish(out_parts, cuts->n_parts);
    return st;
}

void
dop_parts_finish(dop_compilation *parts, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = parts[k].n_shared_kernels; i < parts[k].kernels.n; i++)
            dop_buf_finish(&parts[k].kernels.items[i].spirv);
        free(parts[k].kernels.items);
        for (uint32_t i = 0; i < parts[k].n_schedules; i++)
            dop_fusion_log_finish(&parts[k].schedules[i].log);
        dop_pack_finish(&parts[k].pack);
        dop_arena_finish(&parts[k].arena);
        memset(&parts[k], 0, sizeof parts[k]);
    }
}
