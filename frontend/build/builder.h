/* Helpers of the graph builder. Each adds one or a few nodes, named after their place. The first failure is kept; later calls do
 * nothing. Only files of the builder include this. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILDER_H
#define DOPPLER_FRONTEND_BUILD_BUILDER_H

#include "frontend/build/build.h"
#include "frontend/facts/vision.h"
#include "ir/graph/cache_row.h"
#include "ir/graph/dims.h"
#include "ir/graph/graph_add.h"

#include <stdio.h>
#include <string.h>

enum { PLACE = 16 };
/* Node names: %tok, %pos, %seq: inputs; %w.NAME: a weight; %L3.q and its successors %L3.qb (with bias), %L3.qh (split into
 * heads), %L3.qn (normalized), %L3.qr (rotated); %x3: the residual stream before layer 3; %x3a: after its attention. */
typedef struct builder {
    const dop_checkpoint *m;
    const dop_arch *a;
    const dop_build_options *opt;
    dop_graph *g;
    dop_diag *diag;
    dop_status status;                /* first failure; later calls do nothing and return 0 */
    dop_label label;                  /* label of the next nodes */
    int32_t layer;                    /* current layer; -1: none */
    char place[PLACE];                /* outside of layers: prefix of node names, such as "D0." */
    dop_type act_type;                /* storage type of activations between regions */
    dop_node_id tok, pos, seq, embed; /* input nodes, and the embedding weight */
    dop_node_id lasts, types;         /* inputs of the program `encode`; 0: none */
    dop_node_id relative;             /* weight with the table of dop_relative_table(); 0: none */
    dop_node_id ropes[DOP_MAX_ROPES];
    dop_node_id temper;   /* weight with the table of dop_temper_table(); 0: none */
    dop_node_id factors;  /* factors of adapter ranks, [T, ranks]; 0: no run-time adapters */
    dop_node_id adapters; /* adapter numbers of rows, [T, uses]; 0: products read all ranks */
    dop_node_id chosen;   /* attended positions, from the last layer with an index; 0: none */
    dop_node_id first;    /* residual stream before the first layer */
    /* Weights that the layer's alternating updates read twice: norm and router. */
    dop_node_id router[2];
    /* Nodes of build_pictures.c; 0: none. */
    dop_node_id shift, turns, picture_lasts, features, deep[DOP_VISION_MAX_DEEP], places[DOP_MAX_ROPES];
    dop_node_id inputs;                 /* per-layer inputs, [T, layers * width]; 0: none */
    dop_node_id (*caches)[2];           /* [n_layers] caches of keys and values after the step */
    dop_node_id joined[DOP_MAX_JOINED]; /* residual streams read by a drafter (dop_eagle.from); 0: none */
    dop_node_id *states;                /* states after the step, in layer order */
    uint32_t n_states;
} builder;
dop_node_id dop_build_adapted(builder *b, dop_role role, dop_node_id w, dop_node_id x, dop_node_id y);

/* Writes the name prefix of the next nodes: "L3." in a layer. */
static inline void
place_of(const builder *b, char out[PLACE])
{
    if (b->layer >= 0)
        snprintf(out, PLACE, "L%d.", (int)b->layer);
    else
        snprintf(out, PLACE, "%s", b->place);
}

static inline dop_node_id
add_node(builder *b, dop_op op, const char *name, const dop_node_id *srcs, uint32_t n_srcs, const dop_attr *attrs,
         const dop_want *want)
{
    dop_node_id id = 0;
    char place[PLACE] = "", full[96];
    if (b->status != DOP_OK)
        return 0;
    if (!(dop_op_of(op)->traits & DOP_LEAF)) /* names of leaves already have a prefix */
        place_of(b, place);
    snprintf(full, sizeof full, "%s%s", place, name);
    b->status = dop_graph_add(b->g, op, full, srcs, n_srcs, attrs, want, b->diag, &id);
    if (b->status != DOP_OK || (dop_op_of(op)->traits & DOP_LEAF))
        return id;
    dop_node_at(b->g, id)->label = b->label;
    return id;
}

/* Sets the label of the next nodes: the current layer and this role. */
static inline void
set_role(builder *b, const char *role)
{
    b->label = (dop_label){b->layer, role};
}

/* Adds a node with one source (op1) or two (op2). type none: f32. */
static inline dop_node_id
op1(builder *b, dop_op op, const char *name, dop_node_id x, const dop_attr *attrs, dop_type type)
{
    dop_want want = {.type = type};
    return add_node(b, op, name, &x, 1, attrs, type == DOP_TYPE_none ? NULL : &want);
}

static inline dop_node_id
op2(builder *b, dop_op op, const char *name, dop_node_id x, dop_node_id y, const dop_attr *attrs, dop_type type)
{
    dop_want want = {.type = type};
    return add_node(b, op, name, (dop_node_id[]){x, y}, 2, attrs, type == DOP_TYPE_none ? NULL : &want);
}

/* Sets the origin of a weight leaf, which identifies the values to pack. Returns the leaf. */
static inline dop_node_id
comes_from(builder *b, dop_node_id leaf, dop_origin_kind kind, uint32_t index)
{
    if (leaf)
        dop_node_at(b->g, leaf)->origin = (dop_origin){.kind = kind, .index = index};
    return leaf;
}

static inline dop_node_id
leaf(builder *b, dop_op op, const char *node_name, const char *name, dop_type type, const dop_shape *shape)
{
    dop_want want = {type, *shape};
    dop_attr attr[2] = {{.s = name}, /* the second attribute is for states only */
                        {.i = dop_shape_appends(shape) ? DOP_STATE_append : DOP_STATE_replace}};
    return add_node(b, op, node_name, NULL, 0, attr, &want);
}

/* Adds the leaf of a weight. types: storage type of each weight in the plan, or NULL. */
static inline dop_node_id
weight_leaf(builder *b, const char *node_name, const dop_weights *weights, const dop_weight *w, const dop_type *types)
{
    const uint32_t dims[] = {w->experts, w->rows, w->cols}; /* the shape is the last `rank` of these */
    const uint32_t index = (uint32_t)(w - weights->items);
    dop_shape shape = {.rank = w->rank};
    for (uint32_t i = 0; i < w->rank; i++)
        shape.dim[i] = dop_dim_n(dims[3 - w->rank + i]);
    return comes_from(b, leaf(b, DOP_OP_weight, node_name, w->name, types ? types[index] : w->type, &shape),
                      DOP_FROM_WEIGHT, index);
}

/* Adds the weight of a role in the current layer (or outside); returns 0 if the facts do not require it. */
static inline dop_node_id
weight(builder *b, dop_role role)
{
    char node_name[64];
    dop_weight_need need;
    if (b->status != DOP_OK || !dop_arch_weight(b->a, b->layer, role, &need))
        return 0;
    snprintf(node_name, sizeof node_name, "w.%s", need.name);
    const dop_weight *w = dop_weights_find(&b->m->weights, need.name);
    if (!w) {
        b->status = DOP_FAIL(b->diag, DOP_E_INTERNAL, "the graph needs weight %s, which the model lacks", need.name);
        return 0;
    }
    return weight_leaf(b, node_name, &b->m->weights, w, b->opt->types);
}

/* Normalizes x without weights. */
static inline dop_node_id
plain_norm(builder *b, const char *name, const dop_norm *n, dop_node_id x)
{
    char stat[48];
    if (n->kind == DOP_NORM_LAYER) {
        snprintf(stat, sizeof stat, "%s_mean", name);
        dop_node_id mean = op1(b, DOP_OP_row_mean, stat, x, NULL, DOP_TYPE_none);
        snprintf(stat, sizeof stat, "%s_istd", name);
        dop_node_id k = op1(b, DOP_OP_row_istd, stat, x, &(dop_attr){.f = n->eps}, DOP_TYPE_none);
        snprintf(stat, sizeof stat, "%s_c", name);
        return op2(b, DOP_OP_mul, name, op2(b, DOP_OP_sub, stat, x, mean, NULL, DOP_TYPE_none), k, NULL, b->act_type);
    }
    snprintf(stat, sizeof stat, "%s_rms", name);
    dop_node_id k = op1(b, DOP_OP_row_rms, stat, x, &(dop_attr){.f = n->eps}, DOP_TYPE_none);
    return op2(b, DOP_OP_mul, name, x, k, NULL, b->act_type);
}

/* Applies the norm of a role to x; returns x if the facts have no such norm. */
static inline dop_node_id
norm(builder *b, const char *name, dop_role role, dop_node_id x)
{
    const dop_norm n = dop_arch_norm(b->a, b->layer, role);
    dop_want want = {.type = b->act_type};
    if (n.kind == DOP_NORM_NONE)
        return x;
    if (n.plain) {
        return plain_norm(b, name, &n, x);
    }
    dop_node_id srcs[3] = {x, weight(b, role), 0};
    if (n.kind == DOP_NORM_RMS) {
        dop_attr attrs[] = {{.f = n.eps}, {.f = n.add}};
        return add_node(b, DOP_OP_rmsnorm, name, srcs, 2, attrs, &want);
    }
    if (n.add != 0) {
        char sum[48];
        snprintf(sum, sizeof sum, "%s_w", name);
        srcs[1] = op1(b, DOP_OP_offset, sum, srcs[1], &(dop_attr){.f = n.add}, DOP_TYPE_none);
    }
    srcs[2] = weight(b, (dop_role)(role + 1)); /* weights.def: the bias of a norm follows its weight */
    dop_attr attrs[] = {{.f = n.eps}};
    return add_node(b, DOP_OP_layernorm, name, srcs, srcs[2] ? 3 : 2, attrs, &want);
}

/* Returns x times the weight of `role`, plus its bias if any. */
static inline dop_node_id
project(builder *b, dop_role role, dop_node_id x)
{
    char name[48];
    dop_node_id w = weight(b, role), y = op2(b, DOP_OP_matmul, dop_role_name(role), x, w, NULL, b->act_type);
    y = dop_build_adapted(b, role, w, x, y);
    dop_node_id bias = weight(b, dop_role_bias(role));
    if (!bias)
        return y;
    snprintf(name, sizeof name, "%sb", dop_role_name(role));
    return op2(b, DOP_OP_add, name, y, bias, NULL, b->act_type);
}

static inline dop_node_id
reshape(builder *b, const char *name, dop_node_id x, uint32_t heads, uint32_t dim)
{
    dop_want want = {.shape = {heads ? 3 : 2, {{1, DOP_SYM_T}, dop_dim_n(heads ? heads : dim)}}};
    if (heads)
        want.shape.dim[2] = dop_dim_n(dim);
    return add_node(b, DOP_OP_reshape, name, &x, 1, NULL, &want);
}

/* Returns columns start .. start + n - 1 of each row of x. */
static inline dop_node_id
slice(builder *b, const char *name, dop_node_id x, uint32_t start, uint32_t n)
{
    dop_want want = {.shape = {2, {{1, DOP_SYM_T}, dop_dim_n(n)}}};
    return add_node(b, DOP_OP_slice, name, &x, 1, &(dop_attr){.i = start}, &want);
}

static inline dop_node_id
scaled(builder *b, const char *name, dop_node_id x, double by, dop_type type)
{
    return by == 1 ? x : op1(b, DOP_OP_scale, name, x, &(dop_attr){.f = by}, type);
}

/* Attributes of op attention, as in ir/attrs.def; all zero: plain causal attention. */
typedef struct attention_attrs {
    double scale, cap;
    uint32_t window, chunk, alibi, mask, relative, top, alibi_root;
} attention_attrs;

static inline dop_node_id
add_attention_as(builder *b, const char *name, const dop_node_id *srcs, uint32_t n_srcs, const attention_attrs *a)
{
    /* in the order of ir/ops.def */
    const dop_attr attrs[] = {{.f = a->scale}, {.i = a->window},   {.f = a->cap}, {.i = a->chunk},     {.i = a->alibi},
                              {.i = a->mask},  {.i = a->relative}, {.i = a->top}, {.i = a->alibi_root}};
    return add_node(b, DOP_OP_attention, name, srcs, n_srcs, attrs, &(dop_want){.type = b->act_type});
}

static inline dop_node_id
add_attention(builder *b, const dop_node_id *srcs, uint32_t n_srcs, const attention_attrs *a)
{
    return add_attention_as(b, "attn", srcs, n_srcs, a);
}

/* Adds the state with an encoder's keys or values ("k", "v") for cross-attention in layer b->layer: [Q, rows, KV, head dim].
 * Another program of the plan writes it. Block types are for growing caches only, and become f16. */
static inline dop_node_id
cross_state(builder *b, const dop_arch *a, const char *which, dop_type type)
{
    const dop_attention *t = dop_layer_attention(&a->layers[b->layer]);
    char name[32], node_name[40];
    const dop_shape shape = {
        4, {{1, DOP_SYM_Q}, {a->cross.rows, DOP_SYM_R}, dop_dim_n(t->n_kv_heads), dop_dim_n(t->head_dim)}};
    snprintf(name, sizeof name, "L%d.cross_%s", (int)b->layer, which);
    snprintf(node_name, sizeof node_name, "s.%s", name);
    return leaf(b, DOP_OP_state, node_name, name, dop_cache_blocks(type) ? DOP_TYPE_f16 : type, &shape);
}

#endif
