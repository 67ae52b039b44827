/* What the rules of shapes.h are made of: the op that a rule is applied to, what rules ask of its sources, and those rules
 * that are in files of their own.  Internal to shapes.c, shape_rules.c, shapes_experts.c and shapes_state.c. */
#ifndef DOPPLER_IR_GRAPH_SHAPE_RULES_H
#define DOPPLER_IR_GRAPH_SHAPE_RULES_H

#include "ir/graph/shapes.h"

/* An op with its sources and attributes, before it is a node. */
typedef struct dop_rule {
    const dop_graph *g;
    const dop_op_info *info;
    dop_op op;
    const char *name; /* for messages */
    const dop_node *src[DOP_MAX_SRCS];
    uint32_t n_srcs;
    const dop_attr *attrs;
    const dop_want *want; /* never NULL */
    dop_diag *diag;
} dop_rule;

/* A failure that names the node and its op: DOP_RULE_BAD(c, "needs rank 2 or more"). */
#define DOP_RULE_BAD(c, ...) dop_rule_bad((c), __FILE__, __LINE__, __VA_ARGS__)
dop_status dop_rule_bad(const dop_rule *c, const char *src_file, int src_line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The failure that sources i and j do not fit. */
dop_status dop_rule_mismatch(const dop_rule *c, uint32_t i, uint32_t j);

static inline bool
dop_dim_equal(dop_dim a, dop_dim b)
{
    return a.mul == b.mul && a.sym == b.sym;
}

static inline dop_dim
dop_last_dim(const dop_node *n)
{
    return n->shape.dim[n->shape.rank - 1];
}

/* The value of an attribute that is an integer; 0: the op has none of that name. */
int64_t dop_rule_attr_i(const dop_rule *c, dop_attr_id a);

/* No axis is empty, only those are symbolic that may be, and the number of values is possible. */
dop_status dop_rule_check_shape(const dop_rule *c, const dop_shape *s);
dop_status dop_rule_need_rank(const dop_rule *c, uint32_t i, uint32_t rank);
/* Source i indexes rows: it is [n] of u32, with n the first axis of `rows` (NULL: of any length). */
dop_status dop_rule_need_ids(const dop_rule *c, uint32_t i, const dop_node *rows);
/* Source i gives the sequence of each of these rows, or one for all of them. */
dop_status dop_rule_need_sequences(const dop_rule *c, uint32_t i, const dop_node *rows);

/* shapes_experts.c: rules of ops that choose and use experts */
dop_status dop_rule_top_k(const dop_rule *c, dop_want *out);
dop_status dop_rule_group_rows(const dop_rule *c, dop_want *out);
dop_status dop_rule_experts(const dop_rule *c, dop_want *out); /* pick, matmul_at, weighted_sum */
dop_status dop_rule_dot_at(const dop_rule *c, dop_want *out);

/* shapes_state.c: rules of ops that read or write states */
dop_status dop_rule_state_write(const dop_rule *c, dop_want *out);
dop_status dop_rule_short_conv(const dop_rule *c, dop_want *out);
dop_status dop_rule_linear_scan(const dop_rule *c, dop_want *out);
dop_status dop_rule_attention(const dop_rule *c, dop_want *out); /* whole or split */
/* Which source of attention says how far its rows see; DOP_MAX_SRCS: none, because the mask is causal. */
uint32_t dop_rule_lasts(const dop_rule *c);
/* Which source of attention lists the positions that its rows see; DOP_MAX_SRCS: none, they see all. */
uint32_t dop_rule_chosen(const dop_rule *c);
dop_status dop_rule_index_scores(const dop_rule *c, dop_want *out);
dop_status dop_rule_top_positions(const dop_rule *c, dop_want *out);
dop_status dop_rule_attn_combine(const dop_rule *c, dop_want *out);

#endif
