/* Activation functions: one op each, except compositions such as quick GELU. */
#include "frontend/build/build_activation.h"
#include "frontend/build/builder.h"

dop_node_id
dop_build_activation(builder *b, dop_act_kind kind, const char *name, dop_node_id x)
{
    static const dop_op activations[] = {
#define ACT(kind, op, names, rdrr) DOP_OP_##op,
#include "frontend/facts/activations.def"
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
    for (uint32_t i = 1; i < n; i++) /* the learned values */
        srcs[i] = weight(b, (dop_role)(DOP_W_act_alpha_p + i - 1));
    return add_node(b, activations[kind], name, srcs, n, NULL, &(dop_want){.type = b->act_type});
}

/* Returns the clamped gated activation; activations.def has the formula. */
static dop_node_id
build_clamped_gate(builder *b, dop_node_id gate, dop_node_id up)
{
    const dop_attr limit = {.f = 7}, below = {.f = -7}, by = {.f = 1.702}, one = {.f = 1};
    const dop_type t = b->act_type;
    gate = op1(b, DOP_OP_at_most, "gate_c", gate, &limit, t);
    up = op1(b, DOP_OP_at_least, "up_c", op1(b, DOP_OP_at_most, "up_m", up, &limit, t), &below, t);
    dop_node_id s = op1(b, DOP_OP_sigmoid, "gate_g", op1(b, DOP_OP_scale, "gate_s", gate, &by, t), NULL, t);
    gate = op2(b, DOP_OP_mul, "act", gate, s, NULL, t);
    return op2(b, DOP_OP_mul, "gated", op1(b, DOP_OP_offset, "up_1", up, &one, t), gate, NULL, t);
}

dop_node_id
dop_build_gated(builder *b, const dop_ffn *f, const char *name, dop_node_id gate, dop_node_id up)
{
    char act[24];
    snprintf(act, sizeof act, "%s_a", name);
    if (f->act == DOP_ACT_CLAMPED && gate)
        return build_clamped_gate(b, gate, up);
    if (!gate)
        return dop_build_activation(b, f->act, strcmp(name, "gated") == 0 ? "act" : act, up);
    gate = dop_build_activation(b, f->act, strcmp(name, "gated") == 0 ? "act" : act, gate);
    return op2(b, DOP_OP_mul, name, gate, up, NULL, b->act_type);
}
