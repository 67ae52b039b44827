/* Cuts a schedule between its regions, after the passes. Each part runs kernels of the whole model's schedule in their
 * original order, so every value has the same bits as in the whole model. A value crosses a cut if a region of one part
 * stores it and a region of a later part reads it. Usually this is the residual stream. */
#include "compiler/schedule/part_graph.h"

#include "compiler/schedule/region_facts.h"
#include "ir/graph/graph_add.h"
#include "ir/region/graph_regions.h"
#include "ir/region/region.h"
#include "ir/syntax/text.h"
#include "passes/fusion/region.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t NOWHERE = UINT32_MAX;

/* ---- layers ---- */

static uint32_t
find_labelled_layer(dop_label label, uint32_t n_layers)
{
    if (label.layer >= 0)
        return (uint32_t)label.layer < n_layers ? (uint32_t)label.layer : n_layers - 1;
    return strcmp(label.role, DOP_ROLE_HEAD) == 0 ? n_layers - 1 : *label.role ? 0 : NOWHERE;
}

bool
dop_parts_divide(const dop_cuts *cuts, const dop_graph *g, const dop_region *a, const dop_region *b)
{
    const uint32_t n_layers = cuts->end[cuts->n_parts - 1];
    const uint32_t x = find_labelled_layer(dop_region_label(g, a), n_layers),
                   y = find_labelled_layer(dop_region_label(g, b), n_layers);
    uint32_t p = 0, q = 0;
    if (x == NOWHERE || y == NOWHERE)
        return false;
    while (x >= cuts->end[p])
        p++;
    while (y >= cuts->end[q])
        q++;
    return p != q;
}

static dop_status
find_owners(const dop_graph *g, dop_diag *diag, dop_region_id **out_owner)
{
    dop_region_id *owner = calloc(g->n_nodes, sizeof *owner);
    *out_owner = owner;
    if (!owner)
        return DOP_NO_MEMORY(diag);
    for (dop_region_id r = 1; r < g->n_regions; r++)
        for (uint32_t i = 0; !g->regions[r].dead && i < g->regions[r].n_outs; i++)
            owner[dop_node_base(g, g->regions[r].outs[i], NULL)] = r;
    return DOP_OK;
}

dop_status
dop_region_layers(const dop_graph *g, uint32_t n_layers, dop_diag *diag, uint32_t *out_layers)
{
    dop_region_id *owner = NULL;
    dop_status st = DOP_OK;
    DOP_TRY(find_owners(g, diag, &owner));
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        const dop_region *reg = &g->regions[r];
        out_layers[r] = find_labelled_layer(dop_region_label(g, reg), n_layers);
        for (uint32_t i = 0; i < reg->info->n_reads; i++) {
            const dop_region_id from = owner[reg->info->reads[i]];
            if (from && (out_layers[r] == NOWHERE || out_layers[from] > out_layers[r]))
                out_layers[r] = out_layers[from];
        }
    }
    /* A region without a layer that reads only leaves gets the layer of its first reader. */
    for (dop_region_id r = 1; r < g->n_regions; r++)
        for (uint32_t i = 0; i < g->regions[r].info->n_reads; i++) {
            const dop_region_id from = owner[g->regions[r].info->reads[i]];
            if (from && out_layers[from] == NOWHERE)
                out_layers[from] = out_layers[r];
        }
    for (dop_region_id r = 1; r < g->n_regions; r++)
        out_layers[r] = out_layers[r] == NOWHERE ? n_layers - 1 : out_layers[r];
error:
    free(owner);
    return st;
}

/* ---- values that cross ---- */

/* Returns the bytes of one row of a value, or 0 if the value cannot cross a cut. */
static uint64_t
count_crossing_bytes(const dop_graph *g, dop_node_id id)
{
    const dop_node *n = dop_node_at(g, id);
    const bool rows = n->shape.dim[0].mul == 1 && n->shape.rank > 1;
    bool fixed = n->shape.dim[0].sym == DOP_SYM_T || n->shape.dim[0].sym == DOP_SYM_1;
    for (uint32_t i = 1; i < n->shape.rank; i++)
        fixed = fixed && n->shape.dim[i].sym == DOP_SYM_1;
    return rows && fixed ? dop_node_bytes(g, id) / dop_node_rows(g, id, g->max_t) : 0;
}

static void
refuse_cut(dop_crossings *x, const char *why, dop_node_id at)
{
    x->refused = why;
    x->refused_at = at;
}

/* Checks that a state of region r is used in one part only. */
static void
check_state(const dop_graph *g, const uint32_t *numbers, dop_region_id r, dop_node_id value, uint32_t *part_of,
            dop_crossings *x)
{
    const dop_node_id state = dop_storage_node(g, value);
    if (dop_node_at(g, state)->op != DOP_OP_state)
        return;
    if (part_of[state] != 0 && part_of[state] != numbers[r] + 1)
        refuse_cut(x, "layers on both sides use this state", state);
    part_of[state] = numbers[r] + 1;
}

static void
check_read(const dop_graph *g, const uint32_t *numbers, dop_region_id r, dop_node_id base, dop_crossings *x)
{
    const dop_region_id from = x->owner[base];
    if (!from || numbers[from] == numbers[r])
        return;
    const uint64_t bytes = count_crossing_bytes(g, base);
    if (numbers[from] > numbers[r])
        refuse_cut(x, "an earlier part would wait for a later one", base);
    else if (dop_node_is(g, base, DOP_EFFECT) || bytes == 0)
        refuse_cut(x, "this value, which has no rows of the step, would cross", base);
    else if (bytes % 4 != 0)
        refuse_cut(x, "this value, whose rows are no multiple of 4 bytes, would cross (with `act` f32 they are)", base);
    else if (numbers[r] > x->last[base])
        x->last[base] = numbers[r];
}

dop_status
dop_crossings_find(const dop_graph *g, const uint32_t *numbers, dop_diag *diag, dop_crossings *out)
{
    dop_crossings *x = out;
    memset(x, 0, sizeof *x);
    uint32_t *part_of = calloc(g->n_nodes, sizeof *part_of); /* 1 + the part that uses each state; 0: none yet */
    x->last = calloc(g->n_nodes, sizeof *x->last);
    dop_status st = find_owners(g, diag, &x->owner);
    if (!part_of || !x->last)
        st = DOP_NO_MEMORY(diag);
    for (dop_region_id r = 1; r < g->n_regions && st == DOP_OK && !x->refused; r++) {
        const dop_region *reg = &g->regions[r];
        for (uint32_t i = 0; i < reg->info->n_reads && !x->refused; i++) {
            check_state(g, numbers, r, reg->info->reads[i], part_of, x);
            check_read(g, numbers, r, reg->info->reads[i], x);
        }
        for (uint32_t i = 0; i < reg->n_outs && !x->refused; i++)
            check_state(g, numbers, r, reg->outs[i], part_of, x);
    }
    /* A part that receives a value must not recompute it in one of its regions, because the value would be two nodes of
     * its graph. */
    for (dop_region_id r = 1; r < g->n_regions && st == DOP_OK && !x->refused; r++)
        for (uint32_t i = 0; i < g->regions[r].n_nodes; i++) {
            const dop_node_id id = g->regions[r].nodes[i];
            if (x->last[id] && numbers[r] > numbers[x->owner[id]] && numbers[r] <= x->last[id])
                refuse_cut(x, "this value would cross and be computed again", id);
        }
    free(part_of);
    if (st != DOP_OK)
        dop_crossings_finish(x);
    return st;
}

void
dop_crossings_finish(dop_crossings *x)
{
    free(x->owner);
    free(x->last);
    memset(x, 0, sizeof *x);
}

/* ---- the graph of a part ---- */

typedef struct cutter {
    const dop_graph *from;
    const uint32_t *numbers;
    const dop_crossings *x;
    uint32_t number, n;
    dop_arena *arena;
    dop_diag *diag;
    dop_graph *to;
    bool *wanted;     /* [from->n_nodes] nodes that the part's graph contains */
    dop_node_id *map; /* [from->n_nodes] node of the part's graph for each node of the whole graph; 0: none */
} cutter;

/* True if an earlier part makes the value, and this part or a later one reads it. */
static bool
is_received(const cutter *c, dop_node_id id)
{
    return c->x->last[id] >= c->number && c->x->last[id] > 0 && c->numbers[c->x->owner[id]] < c->number;
}

static bool
is_sent(const cutter *c, dop_node_id id)
{
    return c->x->last[id] > c->number && c->numbers[c->x->owner[id]] <= c->number;
}

/* Marks the nodes of the part's graph: the nodes of its regions, their sources, and the values that the part receives
 * or sends. */
static void
mark_wanted(cutter *c)
{
    const dop_graph *g = c->from;
    for (dop_region_id r = 1; r < g->n_regions; r++)
        for (uint32_t i = 0; c->numbers[r] == c->number && i < g->regions[r].n_nodes; i++) {
            const dop_node_id id = g->regions[r].nodes[i];
            c->wanted[id] = true;
            for (uint32_t k = 0; k < dop_node_at(g, id)->n_srcs; k++)
                c->wanted[dop_node_at(g, id)->src[k]] = true;
        }
    for (dop_node_id id = g->n_nodes; id-- > 1;) {
        c->wanted[id] = c->wanted[id] || is_received(c, id) || is_sent(c, id);
        if (c->wanted[id] && dop_node_is(g, id, DOP_VIEW))
            c->wanted[dop_node_at(g, id)->src[0]] = true;
    }
}

static dop_status
copy_part_node(cutter *c, dop_node_id id)
{
    const dop_node *n = dop_node_at(c->from, id);
    const dop_want want = {n->type, n->shape};
    dop_node_id srcs[DOP_MAX_SRCS];
    dop_status st;
    if (is_received(c, id)) {
        const dop_attr name = {.s = n->name};
        st = dop_graph_add(c->to, DOP_OP_received, n->name, NULL, 0, &name, &want, c->diag, &c->map[id]);
    } else {
        for (uint32_t i = 0; i < n->n_srcs; i++)
            srcs[i] = c->map[n->src[i]];
        st = dop_graph_add(c->to, n->op, n->name, srcs, n->n_srcs, n->attr, &want, c->diag, &c->map[id]);
    }
    if (st == DOP_OK)
        dop_node_carry(dop_node_at(c->to, c->map[id]), n);
    return st;
}

/* Adds the outputs of the part's graph: first the whole graph's outputs that the part makes, in order, then the values
 * that it sends. The logits therefore come first in the last part. */
static dop_status
copy_outputs(cutter *c)
{
    const dop_graph *g = c->from;
    for (uint32_t i = 0; i < g->n_outs; i++) {
        const dop_region_id owner = c->x->owner[dop_node_base(g, g->outs[i], NULL)];
        if (owner && c->numbers[owner] == c->number)
            DOP_RETURN_IF_ERROR(dop_graph_output(c->to, c->map[g->outs[i]], c->diag));
    }
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        if (is_sent(c, id))
            DOP_RETURN_IF_ERROR(dop_graph_output(c->to, c->map[id], c->diag));
    return DOP_OK;
}

static dop_status
copy_region(cutter *c, dop_region_id r)
{
    const dop_region *reg = &c->from->regions[r];
    dop_region_id made;
    dop_node_id *ids = malloc((reg->n_nodes + (size_t)reg->n_outs) * sizeof *ids);
    if (!ids)
        return DOP_NO_MEMORY(c->diag);
    for (uint32_t i = 0; i < reg->n_nodes; i++)
        ids[i] = c->map[reg->nodes[i]];
    for (uint32_t i = 0; i < reg->n_outs; i++)
        ids[reg->n_nodes + i] = c->map[reg->outs[i]];
    dop_status st = DOP_OK;
    DOP_TRY(dop_graph_add_region(c->to, reg->tpl, ids, reg->n_nodes, ids + reg->n_nodes, reg->n_outs, c->diag, &made));
    c->to->regions[made].variant = reg->variant, c->to->regions[made].tile = reg->tile;
error:
    free(ids);
    return st;
}

static dop_status
copy_part_graph(cutter *c)
{
    const dop_graph *g = c->from;
    dop_status st = dop_graph_init_like(c->to, c->arena, g, c->diag);
    mark_wanted(c);
    for (dop_node_id id = 1; id < g->n_nodes && st == DOP_OK; id++)
        if (c->wanted[id])
            st = copy_part_node(c, id);
    if (st == DOP_OK)
        st = copy_outputs(c);
    for (dop_region_id r = 1; r < g->n_regions && st == DOP_OK; r++)
        if (c->numbers[r] == c->number)
            st = copy_region(c, r);
    return st;
}

/* Copies the kernels of the part's regions. Only the node numbers of their arguments change. */
static dop_status
copy_built(const cutter *c, const dop_schedule *whole, dop_schedule *out)
{
    uint32_t n = 1;
    out->regions = dop_arena_alloc(c->arena, c->to->n_regions * sizeof *out->regions);
    if (!out->regions)
        return DOP_NO_MEMORY(c->diag);
    for (dop_region_id r = 1; r < c->from->n_regions; r++) {
        if (c->numbers[r] != c->number)
            continue;
        dop_built_region *b = &out->regions[n++];
        *b = whole->regions[r];
        dop_kernel_arg *args = dop_arena_alloc(c->arena, b->n_args * sizeof *args + 1);
        if (!args)
            return DOP_NO_MEMORY(c->diag);
        for (uint32_t i = 0; i < b->n_args; i++) {
            args[i] = b->args[i];
            args[i].value = c->map[b->args[i].value];
        }
        b->args = args;
        out->n_body += r <= whole->n_body;
    }
    /* A part that sends values runs all its regions, even in a step whose logits are not needed. */
    if (c->number + 1 < c->n || out->n_body == 0)
        out->n_body = n - 1;
    return DOP_OK;
}

static dop_status
list_crossings(const cutter *c, dop_schedule *out)
{
    for (dop_node_id id = 1; id < c->from->n_nodes; id++) {
        const bool received = is_received(c, id), sent = is_sent(c, id);
        if ((received && out->n_received == DOP_PART_MAX_VALUES) || (sent && out->n_sent == DOP_PART_MAX_VALUES))
            return DOP_FAIL(c->diag, DOP_E_INPUT, "more than %d values of a row would cross from part %u of %u",
                            DOP_PART_MAX_VALUES, c->number, c->n);
        if (received)
            out->received[out->n_received++] = c->map[id];
        if (sent)
            out->sent[out->n_sent++] = c->map[id];
    }
    return DOP_OK;
}

dop_status
dop_schedule_take_part(const dop_schedule *whole, const uint32_t *numbers, const dop_crossings *x, uint32_t number,
                       uint32_t n, dop_arena *arena, dop_diag *diag, dop_schedule *out)
{
    cutter c = {&whole->g, numbers, x, number, n, arena, diag, &out->g, NULL, NULL};
    bool changed;
    *out = (dop_schedule){
        .phase = whole->phase, .mixed = whole->mixed, .embeds = whole->embeds, .adapted = whole->adapted};
    dop_fusion_log_init(&out->log);
    c.wanted = calloc(whole->g.n_nodes, sizeof *c.wanted);
    c.map = calloc(whole->g.n_nodes, sizeof *c.map);
    dop_pass_ctx cx = {.arena = arena, .diag = diag};
    dop_status st = DOP_OK;
    DOP_TRY(c.wanted && c.map ? copy_part_graph(&c) : DOP_NO_MEMORY(diag));
    DOP_TRY(dop_pass_place(&cx, &out->g, &changed));
    DOP_TRY(dop_graph_verify(&out->g, "a part", diag));
    DOP_TRY(copy_built(&c, whole, out));
    DOP_TRY(list_crossings(&c, out));
    out->placement = cx.placement;
    out->before = out->g;
    for (dop_node_id id = 1; id < out->g.n_nodes; id++)
        out->n_ops += dop_node_computed(&out->g, id);
error:
    free(c.wanted);
    free(c.map);
    return st;
}
