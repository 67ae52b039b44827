/* Activations of integer products: a row in int8 with a scale per 32 values (types/int.glsl). */
#include "kernels/gen/int8.h"
#include "kernels/gen/gen.h"
#include "kernels/gen/row_program.h"
#include "kernels/gen/templates.h"

enum { UNIT = 32, UNIT_BYTES = UNIT + 8, LANES_OF_UNIT = 8 };

static dop_type_ints
ints_of(const dop_graph *g, dop_node_id product)
{
    return dop_type_of(dop_product_type(g, product))->pack.ints;
}

/* True if a row of k values is quantized as it is computed; otherwise all of it must first be in shared memory as f32. */
static bool
quantizes_directly(const dop_tile *tile, const dop_target *t, uint32_t k)
{
    return tile->subgroup && t->subgroup >= LANES_OF_UNIT && k % UNIT == 0;
}

dop_refusal
dop_int8_refuses(const dop_site *s)
{
    for (uint32_t i = 0; i < s->r->info->product.n_mats; i++)
        if (ints_of(s->g, s->r->info->product.mats[i]) == DOP_INTS_NONE)
            return (dop_refusal){"some weights here have no integer product", "`quant`"};
    if (s->t->subgroup > 1 && s->t->subgroup < LANES_OF_UNIT)
        return (dop_refusal){"subgroups are smaller than 8", NULL};
    return (dop_refusal){0};
}

bool
dop_int8_levels(const dop_gen *gen)
{
    bool any = false;
    for (uint32_t i = 0; i < gen->e.r->info->product.n_mats; i++)
        any = any || ints_of(gen->e.g, gen->e.r->info->product.mats[i]) == DOP_INTS_LEVELS;
    return any && gen->descriptor->ints;
}

bool
dop_int8_part(const dop_graph *g, const dop_segment *part)
{
    bool all = true;
    for (uint32_t m = 0; m < part->n_mats; m++)
        all = all && ints_of(g, part->mats[m]) != DOP_INTS_NONE;
    return all;
}

bool
dop_int8_mixed(const dop_graph *g, const dop_region *r)
{
    bool some = false, all = true;
    for (uint32_t i = 0; i < r->info->product.n_parts; i++) {
        const bool ints = dop_int8_part(g, &r->info->product.parts[i]);
        some = some || ints;
        all = all && ints;
    }
    return some && !all;
}

/* True if the row is computed four values at a time, so that eight lanes can quantize a unit of 32 as they compute it. */
static bool
is_wide(const dop_site *s)
{
    const dop_product_facts *a = &s->r->info->product;
    bool wide = a->depth % UNIT == 0;
    for (uint32_t i = 0; i < a->n_activations; i++)
        wide = wide && dop_region_wide(s->g, s->r, a->activations[i]);
    for (uint32_t i = 0; i < a->prog.n_nodes; i++) {
        const dop_node_id id = a->prog.nodes[i];
        wide = wide &&
               dop_region_wide(s->g, s->r, dop_node_is(s->g, id, DOP_STATISTIC) ? dop_node_at(s->g, id)->src[0] : id);
    }
    return wide;
}

dop_refusal
dop_int8_refuses_mixed(const dop_site *s)
{
    const dop_product_facts *a = &s->r->info->product;
    if (!dop_int8_mixed(s->g, s->r))
        return (dop_refusal){"weights here are all of one kind", NULL};
    if (a->beside || s->r->info->tail.id || !is_wide(s))
        return (dop_refusal){"a row is not made four values at a time, or is not the only one", NULL};
    for (uint32_t i = 0; i < a->n_parts; i++)
        for (uint32_t m = 0; m < a->parts[i].n_mats; m++) {
            const dop_node *n = dop_node_at(s->g, a->parts[i].mats[m]);
            const dop_type type = dop_node_at(s->g, n->src[1])->type;
            if (!dop_int8_part(s->g, &a->parts[i]) && dop_type_of(type)->kind == DOP_KIND_QUANT)
                return dop_int8_refuses(s);
            if (a->parts[i].argmax)
                return (dop_refusal){"an arg-max is over all columns", NULL};
        }
    return s->t->subgroup < LANES_OF_UNIT ? (dop_refusal){"subgroups are smaller than 8", NULL} : (dop_refusal){0};
}

dop_type
dop_int8_type(const dop_site *s)
{
    dop_type t = DOP_TYPE_none;
    for (uint32_t i = 0; i < s->r->info->product.n_mats && dop_type_of(t)->pack.ints == DOP_INTS_NONE; i++)
        t = dop_product_type(s->g, s->r->info->product.mats[i]);
    return t;
}

const char *
dop_int8_avoid(const dop_site *s)
{
    return s->t->int_dot == DOP_INT_DOT_PREFER ? NULL : "rounds activations to 8 bits, only when asked for";
}

static bool
is_direct(const dop_gen *gen, const dop_rowprog *prog)
{
    return quantizes_directly(&gen->choice->tile, gen->e.target, prog->len) && dop_rowprog_wide(gen, prog);
}

uint32_t
dop_int8_bytes(const dop_gen *gen, const dop_rowprog *prog, uint32_t k_pad)
{
    return k_pad / UNIT * (is_direct(gen, prog) ? UNIT_BYTES : UNIT_BYTES + UNIT * 4u);
}

dop_status
dop_int8_declare(dop_gen *gen, const dop_rowprog *prog, uint32_t k_pad, dop_buf *decls, bool *out_direct)
{
    dop_keys keys = {0};
    *out_direct = is_direct(gen, prog);
    DOP_NUMBERS(gen, &keys, decls, {"XI_UNITS", k_pad / UNIT});
    DOP_RETURN_IF_ERROR(dop_template_fill(gen, "gemv_i8.glsl", &keys, decls));
    if (*out_direct)
        dop_buf_puts(decls, "#define DOP_X_PUT(i, x) dop_xi_put(i, x)\n");
    else
        DOP_RETURN_IF_ERROR(dop_template_fill(gen, "gemv_i8_row.glsl", &keys, decls));
    return DOP_OK;
}
