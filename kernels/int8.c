/* The activation side of integer products: one row in 8 bits with a factor per 32 values (types/int.glsl). */
#include "kernels/gen.h"

#include "kernels/weight_types.h"

#include <stdio.h>

enum { UNIT = 32, UNIT_BYTES = UNIT + 8, LANES_OF_UNIT = 8 };

/* Types with a dop_wdoti_T. */
static bool
has_product(dop_type t)
{
    switch (t) {
    case DOP_TYPE_q4_0:
    case DOP_TYPE_q4_1:
    case DOP_TYPE_q5_0:
    case DOP_TYPE_q5_1:
    case DOP_TYPE_q8_0:
    case DOP_TYPE_q4_k:
    case DOP_TYPE_q5_k:
    case DOP_TYPE_q6_k:
    case DOP_TYPE_mxfp4:
    case DOP_TYPE_int4_g128:
    case DOP_TYPE_int4_g64:
    case DOP_TYPE_int4_g32:
        return true;
    default:
        return false;
    }
}

/* Is a row of k values quantized as it is computed, or must all of it first be in shared memory as f32? */
static bool
quantizes_directly(const dop_tile *tile, const dop_target *t, uint32_t k)
{
    return tile->subgroup && t->subgroup >= LANES_OF_UNIT && k % UNIT == 0;
}

dop_refusal
dop_int8_refuses(const dop_site *s)
{
    for (uint32_t i = 0; i < s->r->info->n_products; i++) {
        const dop_node *n = dop_node_at(s->g, s->r->info->products[i]);
        if (!has_product(dop_node_at(s->g, n->src[1])->type))
            return (dop_refusal){"some weights here have no integer product", "--quant and a type of 4 to 8 bits"};
    }
    if (s->t->subgroup > 1 && s->t->subgroup < LANES_OF_UNIT)
        return (dop_refusal){"subgroups are smaller than 8", NULL};
    return (dop_refusal){0};
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
    dop_keys_num(gen, &keys, "STEPS", k_pad / UNIT);
    dop_status st = dop_template_fill(gen, "gemv_i8.glsl", &keys, decls);
    if (st == DOP_OK && *out_direct)
        dop_buf_puts(decls, "#define DOP_X_PUT(i, x) dop_xi_put(i, x)\n");
    else if (st == DOP_OK)
        st = dop_template_fill(gen, "gemv_i8_row.glsl", &keys, decls);
    return st;
}
