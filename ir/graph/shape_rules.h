/* Building blocks of the shape rules: the op that a rule is applied to, checks of its sources, and the rules of experts and
 * states.  Internal to shapes.c, shape_rules.c, shapes_experts.c and shapes_state.c. */
#ifndef DOPPLER_IR_GRAPH_SHAPE_RULES_H
#define DOPPLER_IR_GRAPH_SHAPE_RULES_H

#include "ir/graph/shapes.h"

/* An op with its sources and attributes, before it becomes a node. */
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

/* Reports a failure that names the node and its op: DOP_RULE_BAD(c, "needs rank 2 or more"). */
#define DOP_RULE_BAD(c, ...) dop_rule_bad((c), __FILE__, __LINE__, __VA_ARGS__)
dop_status dop_rule_bad(const dop_rule *c, const char *src_file, int src_line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Reports that the shapes of sources i and j do not fit. */
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

/* Returns an integer attribute; 0 if the op does not have it. */
int64_t dop_rule_attr_i(const dop_rule *c, dop_attr_id a);

/* Fails if an axis is empty, an axis is symbolic that must not be, or the shape has too many values. */
dop_status dop_rule_check_shape(const dop_rule *c, const dop_shape *s);
dop_status dop_rule_need_rank(const dop_rule *c, uint32_t i, uint32_t rank);
/* Fails unless source i is a list of row ids: u32 [n], with n the first axis of `rows` (NULL: of any length). */
dop_status dop_rule_need_ids(const dop_rule *c, uint32_t i, const dop_node *rows);
/* Fails unless source i gives the sequence of each of these rows, or one for all of them. */
dop_status dop_rule_need_sequences(const dop_rule *c, uint32_t i, const dop_node *rows);

/* Rules of ops that choose and use experts (shapes_experts.c). */
dop_status dop_rule_top_k(const dop_rule *c, dop_want *out);
dop_status dop_rule_group_rows(const dop_rule *c, dop_want *out);
dop_status dop_rule_experts(const dop_rule *c, dop_want *out); /* pick, near_softmax, matmul_at, weighted_sum */
dop_status dop_rule_dot_at(const dop_rule *c, dop_want *out);

/* Rules of ops that read or write states (shapes_state.c). */
dop_status dop_rule_state_write(const dop_rule *c, dop_want *out);
dop_status dop_rule_short_conv(const dop_rule *c, dop_want *out);
dop_status dop_rule_linear_scan(const dop_rule *c, dop_want *out);
dop_status dop_rule_attention(const dop_rule *c, dop_want *out); /* attention and attn_split */
/* Returns the number of the attention source that holds each row's last position; DOP_MAX_SRCS if the mask needs none. */
uint32_t dop_rule_lasts(const dop_rule *c);
/* Returns the number of the attention source that lists the positions to attend to; DOP_MAX_SRCS if there is none. */
uint32_t dop_rule_chosen(const dop_rule *c);
dop_status dop_rule_index_scores(const dop_rule *c, dop_want *out);
dop_status dop_rule_top_positions(const dop_rule *c, dop_want *out);
dop_status dop_rule_attn_combine(const dop_rule *c, dop_want *out);

#endif
