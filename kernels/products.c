/* The products of a region: which meet in one epilogue, what their activation is made of, and what tiles follow from. */
#include "kernels/gen.h"

#include "kernels/weight_types.h"

#include <string.h>

uint32_t
dop_pow2_floor(uint32_t v)
{
    uint32_t p = 1;
    while (p * 2 <= v)
        p *= 2;
    return p;
}

bool
dop_depends_on(const dop_graph *g, const dop_region *r, dop_node_id id, dop_node_id from)
{
    id = dop_node_base(g, id, NULL);
    if (id == from)
        return true;
    if (!dop_region_has(r, id) || id < from) /* sources have smaller handles */
        return false;
    const dop_node *n = dop_node_at(g, id);
    for (uint32_t i = 0; i < n->n_srcs; i++)
        if (dop_depends_on(g, r, n->src[i], from))
            return true;
    return false;
}

static bool
on_any_matmul(const dop_gen *gen, const dop_parts *p, dop_node_id id)
{
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t m = 0; m < p->part[i].n_mats; m++)
            if (dop_depends_on(gen->e.g, gen->e.r, id, p->part[i].mats[m]))
                return true;
    return false;
}

/* Joins part b into a: their products meet in an output. */
static dop_status
join_parts(dop_gen *gen, dop_parts *p, uint32_t a, uint32_t b)
{
    dop_part *x = &p->part[a], *y = &p->part[b];
    if (x->rows != y->rows || x->n_mats + y->n_mats > DOP_MAX_MATS)
        return DOP_FAIL(gen->e.diag, DOP_E_INTERNAL, "products of different shape meet in one epilogue");
    for (uint32_t m = 0; m < y->n_mats; m++)
        x->mats[x->n_mats++] = y->mats[m];
    x->unit = x->unit > y->unit ? x->unit : y->unit;
    p->part[b] = p->part[--p->n];
    return DOP_OK;
}

static dop_status
collect_matmuls(dop_gen *gen, dop_parts *p)
{
    const dop_graph *g = gen->e.g;
    const dop_region *r = gen->e.r;
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, r->nodes[i]);
        if (n->op != DOP_OP_matmul)
            continue;
        const dop_node *w = dop_node_at(g, n->src[1]);
        const dop_weight_type *wt = dop_weight_type_of(w->type);
        if ((w->op != DOP_OP_weight && w->op != DOP_OP_dequant) || !wt)
            return DOP_FAIL(gen->e.diag, DOP_E_INPUT, "matmul %%%s: no kernel reads weights of type %s", n->name,
                            dop_type_of(w->type)->name);
        if (p->n == DOP_MAX_PARTS)
            return DOP_FAIL(gen->e.diag, DOP_E_INTERNAL, "too many matmuls in one region");
        p->part[p->n++] =
            (dop_part){.n_mats = 1, .mats = {r->nodes[i]}, .rows = dop_node_cols(g, r->nodes[i]), .unit = wt->unit};
        p->act = n->src[0];
        p->k = dop_node_cols(g, n->src[0]);
    }
    return DOP_OK;
}

dop_status
dop_gen_find_parts(dop_gen *gen, dop_parts *out)
{
    const dop_graph *g = gen->e.g;
    const dop_region *r = gen->e.r;
    dop_parts *p = out;
    memset(p, 0, sizeof *p);
    dop_status st = collect_matmuls(gen, p);
    for (uint32_t i = 0; st == DOP_OK && i < r->n_nodes; i++) {
        int first = -1;
        for (uint32_t a = 0; st == DOP_OK && a < p->n; a++) {
            if (!dop_depends_on(g, r, r->nodes[i], p->part[a].mats[0]))
                continue;
            if (first < 0)
                first = (int)a;
            else if ((st = join_parts(gen, p, (uint32_t)first, a)) == DOP_OK)
                a--;
        }
    }
    for (uint32_t i = 0; st == DOP_OK && i < r->n_nodes; i++) {
        dop_node_id id = r->nodes[i];
        const dop_node *n = dop_node_at(g, id);
        bool product = on_any_matmul(gen, p, id), out_here = dop_region_is_out(r, id);
        for (uint32_t a = 0; a < p->n && product; a++) {
            dop_part *part = &p->part[a];
            bool mine = false;
            for (uint32_t m = 0; m < part->n_mats; m++)
                mine = mine || dop_depends_on(g, r, id, part->mats[m]);
            if (mine && n->op == DOP_OP_argmax_part)
                part->argmax = id;
            else if (mine && out_here && part->n_outs < 8)
                part->outs[part->n_outs++] = id;
        }
        if (product)
            continue;
        bool feeds = dop_depends_on(g, r, p->act, id);
        bool stat = dop_is_statistic(n->op);
        if ((feeds && (stat || n->op == DOP_OP_attn_combine)) || (stat && n->op != DOP_OP_row_rms) ||
            (stat && !dop_emit_wide(&gen->e, n->src[0])) || out_here)
            p->staged = true;
        if (stat && p->n_stats < 4)
            p->stats[p->n_stats++] = id;
    }
    /* The row program: whatever the activation, a statistic or a stored row is made of. */
    for (uint32_t i = 0; st == DOP_OK && i < r->n_nodes; i++) {
        dop_node_id id = r->nodes[i];
        bool member = !on_any_matmul(gen, p, id) && dop_depends_on(g, r, p->act, id);
        for (uint32_t k = i; k < r->n_nodes && !member; k++)
            if (!on_any_matmul(gen, p, r->nodes[k]) && dop_depends_on(g, r, r->nodes[k], id))
                member = dop_is_statistic(dop_node_at(g, r->nodes[k])->op) || dop_region_is_out(r, r->nodes[k]);
        if (member && !on_any_matmul(gen, p, id) && p->n_prog < 64)
            p->prog[p->n_prog++] = id;
    }
    return st;
}

/* Most products that one output of the region is made of. */
static uint32_t
most_products(const dop_graph *g, const dop_region *r)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < r->n_outs; i++) {
        uint32_t n = 0;
        for (uint32_t k = 0; k < r->n_nodes; k++)
            n += dop_node_at(g, r->nodes[k])->op == DOP_OP_matmul && dop_depends_on(g, r, r->outs[i], r->nodes[k]);
        most = n > most ? n : most;
    }
    return most;
}

dop_products
dop_products_of(const dop_site *s)
{
    const dop_graph *g = s->g;
    dop_products p = {.most = most_products(g, s->r)};
    for (uint32_t i = 0; i < s->r->n_nodes; i++) {
        if (dop_node_at(g, s->r->nodes[i])->op != DOP_OP_matmul)
            continue;
        p.rows += dop_node_cols(g, s->r->nodes[i]);
        p.first = p.first ? p.first : s->r->nodes[i];
    }
    if (p.first) {
        p.k = dop_node_cols(g, dop_node_at(g, p.first)->src[0]);
        p.type = dop_node_at(g, dop_node_at(g, p.first)->src[1])->type;
    }
    return p;
}

dop_refusal
dop_products_refuse(const dop_site *s)
{
    for (uint32_t i = 0; i < s->r->n_nodes; i++) {
        const dop_node *n = dop_node_at(s->g, s->r->nodes[i]);
        if (n->op != DOP_OP_matmul)
            continue;
        const dop_node *w = dop_node_at(s->g, n->src[1]);
        if ((w->op != DOP_OP_weight && w->op != DOP_OP_dequant) || !dop_weight_type_of(w->type))
            return (dop_refusal){"no kernel reads weights of the type here", "--quant and a type that kernels read"};
    }
    return (dop_refusal){0};
}
