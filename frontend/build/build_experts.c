/* Mixtures of experts: routing, the products of the chosen experts, and the shared expert. */
#include "frontend/build/build_experts.h"
#include "frontend/build/build_activation.h"
#include "frontend/build/builder.h"

/* Computes the ids and weights [T,k] of each row's chosen experts from the router's logits [T,n]. The normalized softmax scores
 * of the chosen experts equal the softmax of their logits, which is used if nothing else needs the scores. */
static void
choose_experts(builder *b, const dop_experts *x, dop_node_id logits, dop_node_id *out_ids, dop_node_id *out_weights)
{
    const dop_attr how[] = {{.i = x->active}, {.i = x->groups}, {.i = x->group_best}, {.i = x->group_keep}};
    const dop_type f32 = DOP_TYPE_none;
    const bool softmax = x->score == DOP_SCORE_SOFTMAX, plain = !x->correction && x->groups == 1;
    if (x->score == DOP_SCORE_NEAR) {
        *out_ids = op1(b, DOP_OP_top_k, "ids", logits, how, f32);
        *out_weights = op2(b, DOP_OP_near_softmax, "weights", logits, *out_ids, &(dop_attr){.f = x->near}, f32);
        return;
    }
    const bool after = softmax && x->normalized && plain && !x->scaled;
    dop_node_id scores = logits, by = logits;
    if (!after)
        scores = op1(b, softmax ? DOP_OP_softmax : DOP_OP_sigmoid, "scores", logits, NULL, f32);
    if (x->correction)
        by = op2(b, DOP_OP_add, "scores_c", scores, weight(b, DOP_W_router_correction), NULL, f32);
    else if (!plain)
        by = scores;
    *out_ids = op1(b, DOP_OP_top_k, "ids", by, how, f32);
    dop_node_id w = op2(b, DOP_OP_pick, "picked", scores, *out_ids, NULL, f32);
    if (after)
        w = op1(b, DOP_OP_softmax, "weights", w, NULL, f32);
    dop_node_id taken = w; /* scores times the experts' own scales; the normalizing sum below excludes scales */
    if (x->scaled) {
        taken = op2(b, DOP_OP_mul, "scores_e", scores, weight(b, DOP_W_expert_scale), NULL, f32);
        taken = op2(b, DOP_OP_pick, "picked_e", taken, *out_ids, NULL, f32);
    }
    if (x->normalized && !after) {
        const dop_attr k = {.f = x->active}, eps = {.f = x->sum_eps};
        dop_node_id sum =
            op1(b, DOP_OP_scale, "weight_sum", op1(b, DOP_OP_row_mean, "weight_mean", w, NULL, f32), &k, f32);
        if (x->sum_eps > 0)
            sum = op1(b, DOP_OP_offset, "weight_sum_e", sum, &eps, f32);
        w = op2(b, DOP_OP_div, "weights", taken, sum, NULL, f32);
    } else if (x->scaled) {
        w = taken;
    }
    if (x->scale != 1) {
        const dop_attr scale = {.f = x->scale};
        w = op1(b, DOP_OP_scale, "weights_s", w, &scale, f32);
    }
    *out_weights = w;
}

/* Multiplies x by the chosen experts' matrices of a role, [T,k,..], without biases. */
static dop_node_id
multiply_by_experts(builder *b, dop_role role, dop_node_id x, dop_node_id ids)
{
    dop_want want = {.type = b->act_type};
    return add_node(b, DOP_OP_matmul_at, dop_role_name(role), (dop_node_id[]){x, weight(b, role), ids}, 3, NULL, &want);
}

/* Returns the biases of the chosen experts, [T,k,..]; 0: none. */
static dop_node_id
get_expert_bias(builder *b, dop_role role, dop_node_id ids)
{
    const dop_node_id bias = weight(b, dop_role_bias(role));
    return bias ? op2(b, DOP_OP_gather, dop_role_name(dop_role_bias(role)), bias, ids, NULL, DOP_TYPE_none) : 0;
}

static dop_node_id
build_expert_product(builder *b, dop_role role, const char *biased, dop_node_id x, dop_node_id ids)
{
    dop_node_id y = multiply_by_experts(b, role, x, ids), bias = get_expert_bias(b, role, ids);
    return bias ? op2(b, DOP_OP_add, biased, y, bias, NULL, b->act_type) : y;
}

/* Returns the shared expert's result, times its gate if it has one. */
static dop_node_id
build_shared_expert(builder *b, const dop_ffn *f, dop_node_id in)
{
    dop_node_id gate = f->gated ? project(b, DOP_W_shared_gate, in) : 0, up = project(b, DOP_W_shared_up, in), mix = 0;
    if (f->experts.shared_gate) {
        mix = op2(b, DOP_OP_matmul, "shared_router", in, weight(b, DOP_W_shared_router), NULL, DOP_TYPE_none);
        mix = op1(b, DOP_OP_sigmoid, "shared_mix", mix, NULL, DOP_TYPE_none);
    }
    dop_node_id y = dop_build_gated(b, f, "shared_gated", gate, up);
    set_role(b, "shared_down");
    y = project(b, DOP_W_shared_down, y);
    return mix ? op2(b, DOP_OP_mul, "shared_mixed", y, mix, NULL, b->act_type) : y;
}

dop_node_id
dop_build_experts(builder *b, const dop_ffn *f, dop_node_id in, dop_node_id by)
{
    const dop_experts *x = &f->experts;
    dop_node_id ids, weights, bias, gate = 0;
    set_role(b, "router");
    dop_node_id logits = op2(b, DOP_OP_matmul, "router", by, weight(b, DOP_W_router), NULL, DOP_TYPE_none);
    if (x->router_scale > 0)
        logits = scaled(b, "router_s", logits, x->router_scale, DOP_TYPE_none);
    if (x->router_bias)
        logits = op2(b, DOP_OP_add, "router_b", logits, weight(b, DOP_W_router_bias), NULL, DOP_TYPE_none);
    dop_node_id shared = x->shared_width ? build_shared_expert(b, f, in) : 0;
    set_role(b, "router");
    choose_experts(b, x, logits, &ids, &weights);
    set_role(b, "expert_up");
    if (f->gated)
        gate = build_expert_product(b, DOP_W_expert_gate, "expert_gateb", in, ids);
    dop_node_id y = build_expert_product(b, DOP_W_expert_up, "expert_upb", in, ids);
    if (x->scales_input) { /* scaling the product equals scaling its input */
        weights = reshape(b, "weightsh", weights, 1, 1);
        gate = gate ? op2(b, DOP_OP_mul, "expert_gatew", gate, weights, NULL, b->act_type) : 0;
        y = op2(b, DOP_OP_mul, "expert_upw", y, weights, NULL, b->act_type);
    }
    y = dop_build_gated(b, f, "gated", gate, y);
    set_role(b, "expert_down");
    y = multiply_by_experts(b, DOP_W_expert_down, y, ids);
    y = x->scales_input ? reshape(b, "experts", y, 0, b->a->hidden)
                        : op2(b, DOP_OP_weighted_sum, "experts", y, weights, NULL, b->act_type);
    /* Biases are summed separately so that the sum over slots can be fused with the product. */
    bias = get_expert_bias(b, DOP_W_expert_down, ids);
    if (bias) {
        bias = op2(b, DOP_OP_weighted_sum, "expert_biases", bias, weights, NULL, DOP_TYPE_none);
        y = op2(b, DOP_OP_add, "experts_b", y, bias, NULL, b->act_type);
    }
    return shared ? op2(b, DOP_OP_add, "experts_s", y, shared, NULL, b->act_type) : y;
}
