/* Activation functions: most are one op, quick GELU is several. */
#include "compiler/build/builder.h"

dop_node_id
dop_build_activation(builder *b, dop_act_kind kind, const char *name, dop_node_id x)
{
    static const dop_op acts[] = {
#define ACT(kind, op, names, rdrr) DOP_OP_##op,
#include "compiler/model/activations.def"
#undef ACT
    };
    dop_want want = {.type = b->opt->act_type};
    if (kind == DOP_ACT_QUICK_GELU) {
        char inner[32];
        snprintf(inner, sizeof inner, "%s_s", name);
        dop_node_id y = op1(b, DOP_OP_scale, inner, x, &(dop_attr){.f = 1.702}, b->opt->act_type);
        snprintf(inner, sizeof inner, "%s_g", name);
        return op2(b, DOP_OP_mul, name, x, op1(b, DOP_OP_sigmoid, inner, y, NULL, b->opt->act_type), NULL,
                   b->opt->act_type);
    }
    dop_node_id srcs[4] = {x, weight(b, DOP_W_act_alpha_p), weight(b, DOP_W_act_alpha_n), weight(b, DOP_W_act_beta)};
    return add_node(b, acts[kind], name, srcs, dop_op_of(acts[kind])->src_min, NULL, &want);
}
