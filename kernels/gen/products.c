/* The products of a region for generators: their parts, the computation of the activation, and the properties that determine
 * tiles. */
#include "kernels/gen/products.h"

#include "kernels/emit/weight_types.h"
#include "kernels/gen/gen.h"
#include "kernels/gen/int8.h"

uint32_t
dop_pow2_floor(uint32_t v)
{
    uint32_t p = 1;
    while (p * 2 <= v)
        p *= 2;
    return p;
}

uint32_t
dop_wg_of(const dop_target *t, uint32_t invocations)
{
    return t->max_workgroup >= invocations ? invocations : dop_pow2_floor(t->max_workgroup);
}

uint32_t
dop_part_unit(const dop_graph *g, const dop_segment *part)
{
    uint32_t unit = 0;
    for (uint32_t m = 0; m < part->n_mats; m++) {
        uint32_t u = dop_weight_type_of(dop_product_type(g, part->mats[m]))->unit;
        unit = u > unit ? u : unit;
    }
    return unit;
}

uint32_t
dop_products_unit(const dop_graph *g, const dop_region *r)
{
    uint32_t unit = 8;
    for (uint32_t i = 0; i < r->info->product.n_parts; i++) {
        uint32_t u = dop_part_unit(g, &r->info->product.parts[i]);
        unit = u > unit ? u : unit;
    }
    return unit;
}

/* Returns a product whose weights no kernel can read; 0: none. */
static dop_node_id
unread_weights(const dop_graph *g, const dop_region *r)
{
    const dop_product_facts *a = &r->info->product;
    for (uint32_t i = 0; i < a->n_mats; i++) {
        const dop_node *w = dop_node_at(g, dop_node_at(g, a->mats[i])->src[1]);
        if ((w->op != DOP_OP_weight && w->op != DOP_OP_dequant) || !dop_weight_type_of(w->type))
            return a->mats[i];
    }
    return 0;
}

dop_status
dop_gen_parts(const dop_gen *gen, dop_parts *out)
{
    const dop_graph *g = gen->e.g;
    const dop_product_facts *a = &gen->e.r->info->product;
    const dop_expert_facts *x = &gen->e.r->info->experts;
    dop_node_id unread = unread_weights(g, gen->e.r);
    if (unread)
        return DOP_FAIL(gen->e.diag, DOP_E_INPUT, "matmul %%%s: no kernel reads weights of type %s",
                        dop_node_at(g, unread)->name, dop_type_of(dop_product_type(g, unread))->name);
    *out = (dop_parts){.n = a->n_parts,
                       .part = a->parts,
                       .act = a->act,
                       .ints = gen->descriptor->ints,
                       .mixed = gen->descriptor->ints && dop_int8_mixed(g, gen->e.r),
                       .n_activations = a->n_activations,
                       .activations = a->activations,
                       .k = a->depth,
                       .staged = a->staged,
                       .n_stats = a->n_stats,
                       .stats = a->stats,
                       .n_prog = a->prog.n_nodes,
                       .prog = a->prog.nodes,
                       .unit = dop_products_unit(g, gen->e.r),
                       .experts = dop_node_has_experts(g, a->mats[0]),
                       .own_rows = dop_node_at(g, a->act)->shape.rank == 3,
                       .slots = x->slots,
                       .ids = x->ids,
                       .sum = x->sum,
                       .beside = a->beside,
                       .k2 = a->beside ? dop_product_depth(g, a->beside) : 0};
    return DOP_OK;
}

dop_products
dop_products_of(const dop_site *s)
{
    const dop_graph *g = s->g;
    const dop_analysis *a = s->r->info;
    const uint32_t summed = a->experts.sum ? a->experts.slots : 1; /* number of slots concatenated along the depth */
    dop_products p = {.most = a->product.most_mats, .k = a->product.depth * summed};
    if (a->product.beside)
        p.k += dop_product_depth(g, a->product.beside);
    for (uint32_t i = 0; i < a->product.n_mats; i++)
        if (!dop_region_part_is_awaited(s->r, dop_region_part(s->r, a->product.mats[i])))
            p.rows += dop_node_cols(g, a->product.mats[i]) / summed;
    if (a->product.n_mats > 0) {
        p.first = a->product.mats[0];
        p.type = dop_product_type(g, p.first);
    }
    return p;
}

dop_refusal
dop_products_refuse(const dop_site *s)
{
    if (unread_weights(s->g, s->r))
        return (dop_refusal){"no kernel reads weights of the type here", "`quant` and a type that kernels read"};
    return (dop_refusal){0};
}

void
dop_gen_call(dop_buf *calls, const char *call, uint32_t end)
{
    if (end)
        dop_buf_printf(calls, "    if (wg < %uu) {\n        %s\n        return;\n    }\n", end, call);
    else
        dop_buf_printf(calls, "    %s\n", call);
}

uint32_t
dop_gen_operations(const dop_gen *gen, dop_node_id id, uint32_t most)
{
    const dop_node *n = dop_node_at(gen->e.g, id);
    uint32_t sum = 1;
    if (!dop_region_has(gen->e.r, id))
        return 0;
    for (uint32_t i = 0; i < n->n_srcs && sum < most; i++)
        sum += dop_gen_operations(gen, n->src[i], most - sum);
    return sum;
}

dop_node_id
dop_gen_vector(const dop_gen *gen, dop_node_id id, uint32_t n_values)
{
    const dop_graph *g = gen->e.g;
    const dop_node *n = dop_node_at(g, id);
    if (!dop_region_has(gen->e.r, id))
        return n->op == DOP_OP_weight && n->shape.rank == 1 && dop_node_cols(g, id) == n_values ? id : 0;
    dop_node_id found = 0;
    for (uint32_t i = 0; i < n->n_srcs && !found; i++)
        found = dop_gen_vector(gen, n->src[i], n_values);
    return found;
}
