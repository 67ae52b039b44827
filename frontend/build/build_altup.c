/* Alternating updates (AltUp, https://arxiv.org/abs/2301.13310) and LAuReL (https://arxiv.org/abs/2411.07501) of Gemma 3n:
 * transformers, modeling_gemma3n.py, Gemma3nTextAltUp and Gemma3nTextLaurelBlock. */
#include "frontend/build/build_altup.h"
#include "frontend/build/builder.h"

#include <math.h>

/* Scales y to the root mean square of another row, whose reciprocal is `root`. A mean square of y below 1e-5 counts as
 * 1e-5. */
static dop_node_id
match_magnitude(builder *b, const char *name, dop_node_id y, dop_node_id root)
{
    char stat[32], least[32], by[32];
    snprintf(stat, sizeof stat, "%s_rms", name);
    snprintf(least, sizeof least, "%s_rms_m", name);
    snprintf(by, sizeof by, "%s_by", name);
    dop_node_id k = op1(b, DOP_OP_row_rms, stat, y, &(dop_attr){.f = 0}, DOP_TYPE_none);
    k = op1(b, DOP_OP_at_most, least, k, &(dop_attr){.f = 1 / sqrt(1e-5)}, DOP_TYPE_none);
    return op2(b, DOP_OP_mul, name, y, op2(b, DOP_OP_div, by, k, root, NULL, DOP_TYPE_none), NULL, DOP_TYPE_none);
}

/* Multiplies each of the streams 1 .. n - 1 of xs by its own matrix of a role, and concatenates the results. */
static dop_node_id
multiply_by_own(builder *b, const char *name, dop_role role, const dop_node_id *xs)
{
    const uint32_t n = b->a->altup.n, width = b->a->hidden;
    char part[40];
    dop_node_id all = xs[1];
    for (uint32_t i = 2; i < n; i++) {
        snprintf(part, sizeof part, "%s_in%u", name, i);
        all = op2(b, DOP_OP_concat, part, all, xs[i], NULL, DOP_TYPE_none);
    }
    snprintf(part, sizeof part, "%s_h", name);
    all = reshape(b, part, all, n - 1, width);
    all = add_node(b, DOP_OP_matmul_at, name, (dop_node_id[]){all, weight(b, role)}, 2, NULL, NULL);
    snprintf(part, sizeof part, "%s_r", name);
    return reshape(b, part, all, 0, (n - 1) * width);
}

void
dop_build_streams(builder *b, dop_node_id x, dop_node_id *out_streams)
{
    const uint32_t n = b->a->altup.n, width = b->a->hidden;
    set_role(b, "streams");
    for (uint32_t i = 0; i < n; i++)
        out_streams[i] = x;
    dop_node_id y = multiply_by_own(b, "streams", DOP_W_altup_in, out_streams);
    dop_node_id root = op1(b, DOP_OP_row_rms, "stream_rms", x, &(dop_attr){.f = 0}, DOP_TYPE_none);
    for (uint32_t i = 1; i < n; i++) {
        char own[24], name[24];
        snprintf(own, sizeof own, "stream%u_y", i);
        snprintf(name, sizeof name, "stream%u", i);
        out_streams[i] = match_magnitude(b, name, slice(b, own, y, (i - 1) * width, width), root);
    }
}

dop_node_id
dop_build_one_stream(builder *b, const dop_node_id *streams)
{
    const uint32_t n = b->a->altup.n, width = b->a->hidden;
    b->layer = -1;
    set_role(b, "streams");
    dop_node_id y = multiply_by_own(b, "one", DOP_W_altup_out, streams), sum = streams[0];
    dop_node_id root = op1(b, DOP_OP_row_rms, "one_rms", sum, &(dop_attr){.f = 0}, DOP_TYPE_none);
    for (uint32_t i = 1; i < n; i++) {
        char own[24], name[24], added[24];
        snprintf(own, sizeof own, "one%u_y", i);
        snprintf(name, sizeof name, "one%u", i);
        snprintf(added, sizeof added, "one_sum%u", i);
        dop_node_id part = match_magnitude(b, name, slice(b, own, y, (i - 1) * width, width), root);
        sum = op2(b, DOP_OP_add, added, sum, part, NULL, DOP_TYPE_none);
    }
    return scaled(b, "one_mean", sum, 1.0 / n, DOP_TYPE_none);
}

/* Returns the AltUp router's result [T, n]: tanh of its product with the normalized stream x, scaled by 1 / hidden. */
static dop_node_id
build_altup_router(builder *b, const char *name, dop_node_id x)
{
    char normed[32], by[32], routed[32];
    snprintf(normed, sizeof normed, "%s_n", name);
    snprintf(routed, sizeof routed, "%s_r", name);
    snprintf(by, sizeof by, "%s_s", name);
    const dop_attr attrs[] = {{.f = b->a->altup.norm.eps}, {.f = b->a->altup.norm.add}};
    x = op2(b, DOP_OP_rmsnorm, normed, x, b->router[0], attrs, b->act_type);
    x = op2(b, DOP_OP_matmul, routed, x, b->router[1], NULL, DOP_TYPE_none);
    return op1(b, DOP_OP_tanh, name, scaled(b, by, x, 1.0 / b->a->hidden, DOP_TYPE_none), NULL, DOP_TYPE_none);
}

/* Returns to + x * c[:, at]; c[:, at] is a factor per row. */
static dop_node_id
add_scaled_column(builder *b, const char *name, dop_node_id to, dop_node_id x, dop_node_id c, uint32_t at)
{
    char factor[40], product[40];
    snprintf(factor, sizeof factor, "%s_c", name);
    snprintf(product, sizeof product, "%s_p", name);
    x = op2(b, DOP_OP_mul, product, x, slice(b, factor, c, at, 1), NULL, DOP_TYPE_none);
    return op2(b, DOP_OP_add, name, to, x, NULL, DOP_TYPE_none);
}

void
dop_build_predictions(builder *b, dop_node_id *streams)
{
    const uint32_t n = b->a->altup.n;
    dop_node_id next[DOP_MAX_STREAMS];
    set_role(b, "predict");
    b->router[0] = weight(b, DOP_W_altup_norm);
    b->router[1] = weight(b, DOP_W_altup_router);
    dop_node_id m = build_altup_router(b, "predict_m", streams[b->a->altup.active]);
    dop_node_id c = op2(b, DOP_OP_matmul, "predict", m, weight(b, DOP_W_altup_predict), NULL, DOP_TYPE_none);
    for (uint32_t j = 0; j < n; j++) {
        next[j] = streams[j];
        for (uint32_t i = 0; i < n; i++) {
            char name[32];
            snprintf(name, sizeof name, "predict%u_%u", j, i);
            next[j] = add_scaled_column(b, name, next[j], streams[i], c, j * n + i);
        }
    }
    memcpy(streams, next, n * sizeof *streams);
}

void
dop_build_corrections(builder *b, dop_node_id *streams, dop_node_id x)
{
    const uint32_t n = b->a->altup.n;
    set_role(b, "correct");
    dop_node_id m = build_altup_router(b, "correct_m", x);
    dop_node_id c = op2(b, DOP_OP_matmul, "correct", m, weight(b, DOP_W_altup_correct), NULL, DOP_TYPE_none);
    c = op1(b, DOP_OP_offset, "correct_1", c, &(dop_attr){.f = 1}, DOP_TYPE_none);
    dop_node_id by = op2(b, DOP_OP_sub, "correct_d", x, streams[b->a->altup.active], NULL, DOP_TYPE_none);
    for (uint32_t j = 0; j < n; j++) {
        char name[32];
        snprintf(name, sizeof name, "correct%u", j);
        streams[j] = add_scaled_column(b, name, streams[j], by, c, j);
    }
}

dop_node_id
dop_build_laurel(builder *b, dop_node_id in)
{
    set_role(b, "laurel");
    dop_node_id y = project(b, DOP_W_laurel_b, project(b, DOP_W_laurel_a, in));
    return op2(b, DOP_OP_add, "laurel", in, norm(b, "laurel_n", DOP_W_laurel_norm, y), NULL, DOP_TYPE_none);
}
