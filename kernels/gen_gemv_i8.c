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
    case DOP_TYPE_int4_g128:
    case DOP_TYPE_int4_g64:
    case DOP_TYPE_int4_g32:
        return true;
    default:
        return false;
    }
}

bool
dop_is_int8(dop_variant_id v)
{
    return (dop_variant_of(v)->caps & DOP_CAP_int_dot) != 0;
}

/* Is a row of k values quantized as it is made, or does all of it have to lie in shared memory as f32 before? */
static bool
quantizes_directly(const dop_tile *tile, const dop_target *t, uint32_t k)
{
    return tile->subgroup && t->subgroup >= LANES_OF_UNIT && k % UNIT == 0;
}

const char *
dop_int8_refuses(const dop_graph *g, const dop_region *r, const dop_target *t)
{
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, r->nodes[i]);
        if (n->op == DOP_OP_matmul && !has_product(dop_node_at(g, n->src[1])->type))
            return "some weights here have no integer product";
    }
    if (t->subgroup > 1 && t->subgroup < LANES_OF_UNIT)
        return "subgroups are smaller than 8";
    return NULL;
}

dop_status
dop_int8_declare(dop_gen *gen, const dop_rowprog *prog, uint32_t k_pad, dop_buf *decls, bool *out_direct)
{
    dop_keys keys = {0};
    *out_direct = quantizes_directly(&gen->choice->tile, gen->e.target, prog->len) && dop_rowprog_wide(gen, prog);
    dop_keys_num(gen, &keys, "STEPS", k_pad / UNIT);
    gen->shared += k_pad / UNIT * (*out_direct ? UNIT_BYTES : UNIT_BYTES + UNIT * 4u);
    dop_status st = dop_template_fill(gen, "gemv_i8.glsl", &keys, decls);
    if (st == DOP_OK && *out_direct)
        dop_buf_puts(decls, "#define DOP_X_PUT(i, x) dop_xi_put(i, x)\n");
    else if (st == DOP_OK)
        st = dop_template_fill(gen, "gemv_i8_row.glsl", &keys, decls);
    return st;
}
