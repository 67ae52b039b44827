/* Activation functions: most are one op, quick GELU is several. */
#include "compiler/build/builder.h"

dop_node_id
dop_build_activation(builder *b, dop_act_kind kind, const char *name, dop_node_id x)
{
    static const dop_op activations[] = {
#define ACT(kind, op, names, rdrr) DOP_OP_##op,
#include "compiler/model/activations.def"
#undef ACT
    };
    if (kind == DOP_ACT_QUICK_GELU) {
        char inner[32];
        snprintf(inner, sizeof inner, "%s_s", name);
        dop_node_id y = op1(b, DOP_OP_scale, inner, x, &(dop_attr){.f = 1.702}, b->act_type);
        snprintf(inner, sizeof inner, "%s_g", name);
        return op2(b, DOP_OP_mul, name, x, op1(b, DOP_OP_sigmoid, inner, y, NULL, b->act_type), NULL, b->act_type);
    }
    const uint32_t n = dop_op_of(activations[kind])->src_min;
    dop_node_id srcs[4] = {x};
    for (uint32_t i = 1; i < n; i++) /* learned values */
        srcs[i] = weight(b, (dop_role)(DOP_W_act_alpha_p + i - 1));
    return add_node(b, activations[kind], name, srcs, n, NULL, &(dop_want){.type = b->act_type});
}
