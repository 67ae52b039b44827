/* Adapters added at run time. An adapted product gains two low-rank products: the A matrices of all adapters form one matrix
 * (concatenated rows), and so do the B matrices (concatenated columns). Between the two, a row's values are multiplied by its
 * sequence's factors: 0 for ranks of unused adapters. In steps of few rows the second product reads only the ranks of the row's
 * own adapters. */
#include "frontend/build/build_adapter.h"
#include "frontend/build/builder.h"

void
dop_build_adapter_factors(builder *b)
{
    const dop_shape ids = {1, {{1, DOP_SYM_T}}};
    if (b->opt->ranks == 0)
        return;
    const uint32_t ranks = b->opt->ranks, uses = b->opt->uses;
    const dop_shape table = {2, {dop_dim_n(b->g->max_q), dop_dim_n(ranks + uses)}};
    dop_node_id w =
        comes_from(b, leaf(b, DOP_OP_weight, "lora", "lora", DOP_TYPE_f32, &table), DOP_FROM_LORA_FACTORS, 0);
    dop_node_id seq = b->seq;
    if (b->status == DOP_OK && dop_node_at(b->g, seq)->shape.dim[0].sym != DOP_SYM_T)
        seq = leaf(b, DOP_OP_input, "lora_seq", "sequences", DOP_TYPE_u32, &ids);
    const dop_node_id both = op2(b, DOP_OP_gather, "lora_u", w, seq, NULL, DOP_TYPE_none);
    b->factors = slice(b, "lora_f", both, 0, ranks);
    b->adapters = b->opt->chosen ? slice(b, "lora_n", both, ranks, uses) : 0;
}

/* Adds an adapter matrix of weight w: A [ranks, cols] or B [rows, ranks]. */
static dop_node_id
add_adapter_matrix(builder *b, dop_node_id w, dop_origin_kind kind)
{
    char name[64], node_name[72];
    if (b->status != DOP_OK)
        return 0;
    const dop_node *n = dop_node_at(b->g, w);
    const bool is_a = kind == DOP_FROM_LORA_A;
    const dop_shape shape = {
        2, {is_a ? dop_dim_n(b->opt->ranks) : n->shape.dim[0], is_a ? n->shape.dim[1] : dop_dim_n(b->opt->ranks)}};
    snprintf(name, sizeof name, "%s.%s", is_a ? "lora_a" : "lora_b", dop_node_s(b->g, w, DOP_A_name));
    snprintf(node_name, sizeof node_name, "w.%s", name);
    return comes_from(b, leaf(b, DOP_OP_weight, node_name, name, DOP_TYPE_f16, &shape), kind, n->origin.index);
}

/* Multiplies low [T, ranks] by a matrix [rows, ranks]. In steps of few rows it reads only the ranks of the row's own adapters.
 * used: number of leading ranks that may be nonzero; 0: all. */
static dop_node_id
multiply_by_used_ranks(builder *b, const char *name, dop_node_id low, dop_node_id w, uint32_t used)
{
    const dop_node_id srcs[] = {low, w, b->adapters};
    const dop_attr attrs[] = {{.i = b->opt->rank}, {.i = used < b->opt->rank ? used : 0}};
    return b->adapters ? add_node(b, DOP_OP_dot_at, name, srcs, 3, attrs, &(dop_want){.type = DOP_TYPE_f32})
                       : op2(b, DOP_OP_matmul, name, low, w, NULL, DOP_TYPE_none);
}

dop_node_id
dop_build_adapted(builder *b, dop_role role, dop_node_id w, dop_node_id x, dop_node_id y)
{
    char name[64];
    if (b->status != DOP_OK)
        return 0;
    if (!b->factors || dop_node_at(b->g, w)->shape.rank != 2 || dop_node_at(b->g, w)->origin.kind != DOP_FROM_WEIGHT)
        return y;
    snprintf(name, sizeof name, "%s_la", dop_role_name(role));
    dop_node_id low = op2(b, DOP_OP_matmul, name, x, add_adapter_matrix(b, w, DOP_FROM_LORA_A), NULL, DOP_TYPE_none);
    snprintf(name, sizeof name, "%s_lf", dop_role_name(role));
    low = op2(b, DOP_OP_mul, name, low, b->factors, NULL, DOP_TYPE_none);
    snprintf(name, sizeof name, "%s_lb", dop_role_name(role));
    low = multiply_by_used_ranks(b, name, low, add_adapter_matrix(b, w, DOP_FROM_LORA_B), 0);
    snprintf(name, sizeof name, "%s_l", dop_role_name(role));
    return op2(b, DOP_OP_add, name, y, low, NULL, dop_node_at(b->g, y)->type);
}

dop_node_id
dop_build_controlled(builder *b, uint32_t i, dop_node_id x)
{
    char name[24], node_name[32];
    if (!b->factors || b->status != DOP_OK || b->a->altup.n || b->a->encoder.used)
        return x;
    const dop_shape shape = {2, {dop_dim_n(b->a->hidden), dop_dim_n(b->opt->ranks)}};
    b->layer = (int32_t)i;
    snprintf(node_name, sizeof node_name, "w.L%u.controls", i);
    const dop_node_id w =
        comes_from(b, leaf(b, DOP_OP_weight, node_name, node_name + 2, DOP_TYPE_f16, &shape), DOP_FROM_CONTROL, i);
    /* two ranks: a direction rounded to 16 bits, and the rounding error */
    const dop_node_id y = multiply_by_used_ranks(b, "controls", b->factors, w, 2);
    b->layer = -1;
    snprintf(name, sizeof name, "x%ul", i + 1);
    return op2(b, DOP_OP_add, name, x, y, NULL, dop_node_at(b->g, x)->type);
}
