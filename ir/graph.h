/* The graph: flat arrays of nodes and regions in one arena, 32-bit handles, 0 is none.
 *
 * A node is a pure function over an index space (ops.def).  A region is one dispatch: a set of nodes with one root
 * shape.  A node may be listed by several regions: each recomputes it instead of reading it from memory. */
#ifndef DOPPLER_IR_GRAPH_H
#define DOPPLER_IR_GRAPH_H

#include "ir/arena.h"
#include "ir/types.h"
#include "runtime/base.h"

typedef uint32_t dop_node_id;
typedef uint32_t dop_region_id;

typedef enum dop_op {
    DOP_OP_none,
#define OP(name, smin, smax, traits, reach, attrs, expr) DOP_OP_##name,
#include "ir/ops.def"
#undef OP
    DOP_OP_COUNT
} dop_op;

typedef enum dop_traits { DOP_LEAF = 1, DOP_VIEW = 2, DOP_PURE = 4, DOP_EFFECT = 8 } dop_traits;

/* Ordered: a larger reach reads more. */
typedef enum dop_reach {
    DOP_REACH_NONE,
    DOP_REACH_ELEM,
    DOP_REACH_DIMS,
    DOP_REACH_HEAD,
    DOP_REACH_ROW,
    DOP_REACH_ALL
} dop_reach;

typedef enum dop_attr_id {
#define ATTR(name, kind) DOP_A_##name,
#include "ir/attrs.def"
#undef ATTR
    DOP_A_COUNT
} dop_attr_id;

typedef enum dop_attr_kind { DOP_ATTR_F, DOP_ATTR_I, DOP_ATTR_S } dop_attr_kind;

/* KV heads whose cache splits one attention region can merge itself: their counts fill one cache line. */
enum { DOP_MAX_MERGES = 32 };
enum { DOP_MAX_RANK = 4, DOP_MAX_SRCS = 6, DOP_MAX_ATTRS = 6 };

typedef struct dop_op_info {
    const char *name;
    uint8_t src_min, src_max;
    uint8_t traits;
    dop_reach reach;
    uint8_t n_attrs;
    dop_attr_id attrs[DOP_MAX_ATTRS];
    const char *expr; /* "" unless element-wise */
} dop_op_info;

const dop_op_info *dop_op_of(dop_op op);
const char *dop_attr_name(dop_attr_id a);
dop_attr_kind dop_attr_kind_of(dop_attr_id a);
const char *dop_reach_name(dop_reach r);

typedef union dop_attr {
    double f;
    int64_t i;
    const char *s; /* in the arena */
} dop_attr;

/* One axis: mul, mul*T (tokens of this step) or mul*S (cache length). */
typedef enum dop_sym { DOP_SYM_1, DOP_SYM_T, DOP_SYM_S } dop_sym;
typedef struct dop_dim {
    uint32_t mul;
    dop_sym sym;
} dop_dim;

static inline dop_dim
dop_dim_n(uint32_t n)
{
    return (dop_dim){n, DOP_SYM_1};
}

typedef struct dop_shape {
    uint32_t rank; /* 1..DOP_MAX_RANK */
    dop_dim dim[DOP_MAX_RANK];
} dop_shape;

typedef struct dop_node {
    dop_op op;
    dop_type type; /* storage type when the value is in memory; arithmetic is f32 (u32 for ids) */
    dop_shape shape;
    uint32_t n_srcs;
    dop_node_id src[DOP_MAX_SRCS];
    dop_attr attr[DOP_MAX_ATTRS]; /* in the order of the op's row */
    const char *name;             /* printed as %name; unique, in the arena */
    const char *label;            /* where it belongs: "L3/qkv"; "" if nowhere */
} dop_node;

/* Templates: what one workgroup makes (templates.def has the joining rules). */
typedef enum dop_template {
    DOP_TPL_none,
#define TEMPLATE(name, ...) DOP_TPL_##name,
#include "ir/templates.def"
#undef TEMPLATE
    DOP_TPL_COUNT
} dop_template;
const char *dop_template_name(dop_template t);

typedef struct dop_region {
    dop_template tpl;
    uint32_t n_nodes; /* handle order, which is topological */
    dop_node_id *nodes;
    uint32_t n_outs; /* nodes stored to memory, in node order */
    dop_node_id *outs;
    const char *variant;       /* bound by select: name of a row of kernels.def; NULL before */
    bool dead;                 /* merged away; skipped everywhere and dropped by dop_graph_compact() */
    struct dop_analysis *info; /* what is known about it (region.h); of a dead region the last state */
} dop_region;

typedef struct dop_graph {
    dop_arena *arena;
    const char *name;            /* "decode", "prefill", "score" */
    uint32_t max_t;              /* T is at most this; 1 in decode */
    uint32_t max_s;              /* cache length S */
    dop_node *nodes;             /* [0] is unused */
    uint32_t n_nodes, cap_nodes; /* n_nodes counts [0] */
    dop_region *regions;         /* [0] is unused; n_regions <= 1: no regions formed yet */
    uint32_t n_regions, cap_regions;
    dop_node_id *outs; /* results of the graph, kept alive */
    uint32_t n_outs, cap_outs;
    uint64_t next_name; /* number of the next made-up name, x<number> */
} dop_graph;

/* Everything is allocated in `arena`, which outlives the graph. */
dop_status dop_graph_init(dop_graph *g, dop_arena *arena, const char *name, uint32_t max_t, uint32_t max_s,
                          dop_diag *diag);

/* Appends a node; computes type and shape by the op's shape rule.  Leaves, casts, reshapes and slices take the shape or
 * type from *want (others: want may be NULL, and want->type other than none sets the storage type).  attrs: values in
 * the order of the op's row.  name NULL makes one up (x<number>).  Strings are copied.  Errors: wrong arity,
 * shapes that do not fit.  Two nodes of one name, and state not threaded linearly, are left to dop_graph_verify(). */
typedef struct dop_want {
    dop_type type;
    dop_shape shape;
} dop_want;
dop_status dop_graph_add(dop_graph *g, dop_op op, const char *name, const dop_node_id *srcs, uint32_t n_srcs,
                         const dop_attr *attrs, const dop_want *want, dop_diag *diag, dop_node_id *out_id);
dop_status dop_graph_output(dop_graph *g, dop_node_id id, dop_diag *diag);
/* A region over these nodes, described (region.h). */
dop_status dop_graph_add_region(dop_graph *g, dop_template tpl, const dop_node_id *nodes, uint32_t n_nodes,
                                const dop_node_id *outs, uint32_t n_outs, dop_diag *diag, dop_region_id *out_id);

static inline dop_node *
dop_node_at(const dop_graph *g, dop_node_id id)
{
    return &g->nodes[id];
}

/* Where the node stands in the region's list; n_nodes: it does not. */
static inline uint32_t
dop_region_find(const dop_region *r, dop_node_id id)
{
    uint32_t from = 0, to = r->n_nodes;
    while (from < to) {
        uint32_t mid = from + (to - from) / 2;
        if (r->nodes[mid] < id)
            from = mid + 1;
        else
            to = mid;
    }
    return from < r->n_nodes && r->nodes[from] == id ? from : r->n_nodes;
}

/* Does the region make (or recompute) the node? */
static inline bool
dop_region_has(const dop_region *r, dop_node_id id)
{
    return dop_region_find(r, id) < r->n_nodes;
}

double dop_node_f(const dop_graph *g, dop_node_id id, dop_attr_id a);
int64_t dop_node_i(const dop_graph *g, dop_node_id id, dop_attr_id a);
const char *dop_node_s(const dop_graph *g, dop_node_id id, dop_attr_id a);
bool dop_node_has(const dop_graph *g, dop_node_id id, dop_attr_id a);

/* The op's reach, refined by shape: ROW over one head of [T,H,D] is HEAD. */
dop_reach dop_node_reach(const dop_graph *g, dop_node_id id);

/* Follows views to the node that owns the bytes.  *out_start: first value on the last axis (slices), may be NULL; the
 * axis is the owner's unless a slice follows a reshape that changed it. */
dop_node_id dop_node_base(const dop_graph *g, dop_node_id id, uint32_t *out_start);

/* A value as a matrix [rows, cols]: rows is axis 0 (1 for a rank-1 weight vector that broadcasts), cols the product of
 * the others.  `t` replaces T. */
uint64_t dop_dim_value(const dop_graph *g, dop_dim d, uint32_t t);
uint32_t dop_node_cols(const dop_graph *g, dop_node_id id);
/* Cache rows of one split of the attn_split node, of n rows in all (ops.def). */
uint32_t dop_split_len(const dop_graph *g, dop_node_id id, uint32_t n);
bool dop_node_per_token(const dop_graph *g, dop_node_id id); /* axis 0 is T */
bool dop_shape_equal(const dop_shape *a, const dop_shape *b);

/* The vector that a row program walks over: a row, or one head of it. */
typedef struct dop_unit {
    uint32_t len;   /* values */
    uint32_t units; /* vectors per token: 1, or the number of heads */
} dop_unit;
/* The unit of one node: heads for [T,H,D], else the row; a statistic has the unit of what it is over, a cache write that
 * of what it writes. */
dop_unit dop_node_unit(const dop_graph *g, dop_node_id id);

/* Uses of each node by other nodes and as a graph output: counts[n_nodes], in the arena. */
dop_status dop_graph_use_counts(dop_graph *g, dop_diag *diag, uint32_t **out_counts);

/* A digest of the whole graph, regions included: equal text, equal digest. */
uint64_t dop_graph_hash(const dop_graph *g);
/* Drops dead regions and unreachable nodes, keeping order.  A node whose sources were replaced by later nodes moves
 * behind them, so a pass may rewrite freely and compact afterwards; ids change.  Error: a cycle. */
dop_status dop_graph_compact(dop_graph *g, dop_diag *diag);

#endif
