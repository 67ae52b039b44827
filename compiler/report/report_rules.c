/* Names fusions by the ops that they join. */
#include "compiler/report/report_rules.h"
#include "compiler/report/report.h"
#include "ir/graph/access.h"
#include "passes/fusion/region.h"

#include <string.h>

static bool
is_norm_part(dop_op op)
{
    return op == DOP_OP_row_rms || op == DOP_OP_rmsnorm || op == DOP_OP_row_istd || op == DOP_OP_layernorm;
}

static dop_root
get_op_root(const dop_graph *g, dop_node_id id)
{
    return dop_op_of(dop_node_at(g, id)->op)->root;
}

/* Returns the name of a fusion by the kinds of its ops, for combinations of ops without a name of their own. */
static const char *
name_rule_by_kinds(const dop_graph *g, const dop_fusion_event *e)
{
    dop_root p = get_op_root(g, e->producer), c = get_op_root(g, e->consumer);
    dop_extent pr = dop_node_extent(g, e->producer), cr = dop_node_extent(g, e->consumer);
    bool p_elem = pr == DOP_EXTENT_element, c_elem = cr == DOP_EXTENT_element;
    bool p_row = pr > DOP_EXTENT_element && pr<DOP_EXTENT_all, c_row = cr> DOP_EXTENT_element && cr < DOP_EXTENT_all;
    if (c == DOP_ROOT_attention)
        return "prologue+attention";
    if (p == DOP_ROOT_attention && c_elem)
        return "attention+element";
    if (c == DOP_ROOT_product)
        return p_elem ? "element+matmul" : "row+matmul";
    if (p == DOP_ROOT_product)
        return "matmul+element";
    if (p_elem && c_elem)
        return "element+element";
    if (p_elem && c_row)
        return "element+reduction";
    if (p_row && c_elem)
        return "reduction+element";
    return p_row && c_row ? "reduction+reduction" : e->pass;
}

const char *
dop_fusion_rule(const dop_graph *g, const dop_fusion_event *e)
{
    const dop_node *consumer = dop_node_at(g, e->consumer);
    dop_op p = dop_node_at(g, e->producer)->op, c = consumer->op;
    if (strncmp(e->pass, "merge-", 6) == 0)
        return p == DOP_OP_matmul ? "siblings" : "sibling-rows";
    if (strcmp(e->pass, "meet-products") == 0)
        return "matmul+sum";
    if (strcmp(e->pass, "share-row") == 0)
        return "one-row";
    if (c == DOP_OP_matmul_at && consumer->n_srcs == 2 && strcmp(e->pass, "fuse-epilogue") == 0)
        return "heads+matmul";
    if (p == DOP_OP_gather && c == DOP_OP_scale)
        return "gather+scale";
    if (p == DOP_OP_silu && c == DOP_OP_mul)
        return "silu+gate";
    if ((p == DOP_OP_gelu || p == DOP_OP_gelu_tanh) && c == DOP_OP_mul)
        return "gelu+gate";
    if (p == DOP_OP_add && is_norm_part(c))
        return "residual+rmsnorm";
    if (is_norm_part(p) && c == DOP_OP_mul)
        return "row-statistic";
    if (p == DOP_OP_matmul && c == DOP_OP_add)
        for (uint32_t i = 0; i < consumer->n_srcs; i++)
            if (dop_node_at(g, consumer->src[i])->op == DOP_OP_weight)
                return "matmul+bias";
    if (p == DOP_OP_matmul && c == DOP_OP_add)
        return "matmul+residual";
    if (p == DOP_OP_rope && dop_node_is(g, e->consumer, DOP_EFFECT))
        return "rope+kv-write";
    if (dop_node_is(g, e->consumer, DOP_EFFECT))
        return "kv-write";
    if (c == DOP_OP_rope)
        return "head-rope";
    if (p == DOP_OP_attn_combine)
        return "split-kv-combine";
    if (c == DOP_OP_argmax_part)
        return "lm-head+argmax";
    return name_rule_by_kinds(g, e);
}

bool
dop_report_residual_rules(const dop_report_schedule *s, const char **out_add, const char **out_norm)
{
    static const dop_op norms[] = {DOP_OP_row_rms, DOP_OP_rmsnorm, DOP_OP_row_istd, DOP_OP_layernorm};
    bool apart = false;
    *out_add = *out_norm = NULL;
    for (size_t k = 0; k < sizeof norms / sizeof *norms && !apart; k++) {
        const char *norm = dop_op_of(norms[k])->name;
        for (uint32_t i = 0; i < s->n_refusals; i++)
            apart =
                apart || (strcmp(s->refusals[i].producer, "add") == 0 && strcmp(s->refusals[i].consumer, norm) == 0);
        for (uint32_t i = 0; i < s->n_fusions && apart; i++) {
            const dop_report_fusion *f = &s->fusions[i];
            if (strcmp(f->rule, "residual+rmsnorm") == 0)
                return false;
            if (strcmp(f->consumer, "add") == 0 && (!*out_add || strcmp(f->rule, "matmul+residual") == 0))
                *out_add = f->rule;
            if (strcmp(f->producer, norm) == 0 && (!*out_norm || strcmp(f->rule, "row-statistic") == 0))
                *out_norm = f->rule;
        }
    }
    return *out_add && *out_norm;
}
