/* The graph: flat arrays of nodes and regions in one arena, addressed by 32-bit handles.  Handle 0 means none.
 *
 * A node is a pure function over an index space (ops.def).  A region is one dispatch: a set of nodes with one root
 * shape.  A node may be listed in several regions: each recomputes it instead of reading it from memory. */
#ifndef DOPPLER_IR_GRAPH_GRAPH_H
#define DOPPLER_IR_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/base.h"
#include "base/label.h"
#include "base/storage/types.h"
#include "ir/tile.h"

typedef uint32_t dop_node_id;
typedef uint32_t dop_region_id;

typedef enum dop_op {
    DOP_OP_none,
#define OP(name, ...) DOP_OP_##name,
#include "ir/ops.def"
#undef OP
    DOP_OP_COUNT
} dop_op;

typedef enum dop_traits {
    DOP_LEAF = 1,
    DOP_VIEW = 2,
    DOP_PURE = 4,
    DOP_EFFECT = 8,
    DOP_STATISTIC = 16,
    DOP_ALONGSIDE = 32,
    DOP_PARTIAL = 64
} dop_traits;

/* How one output element reads a source along an axis (ops.def). access.h expresses every kind by one formula. */
typedef enum dop_access_kind {
    DOP_ACCESS_none, /* the axis is absent: broadcast */
    DOP_ACCESS_same,
    DOP_ACCESS_few,
    DOP_ACCESS_group,
    DOP_ACCESS_span,
    DOP_ACCESS_all,
    DOP_ACCESS_col,
    DOP_ACCESS_at,
    DOP_ACCESS_window
} dop_access_kind;
typedef enum dop_axis {
    DOP_AXIS_row,
    DOP_AXIS_pos,
    DOP_AXIS_part,
    DOP_AXIS_expert,
    DOP_AXIS_head,
    DOP_AXIS_col,
    DOP_AXES
} dop_axis;

enum { DOP_MAX_RANK = 4, DOP_MAX_SRCS = 7, DOP_MAX_ATTRS = 10, DOP_BY_STEP = 255 };

/* How an op reads one of its sources: a column of ops.def. */
typedef struct dop_access {
    uint8_t axis[DOP_AXES]; /* dop_access_kind of each axis */
    uint8_t by;             /* for kind `at`: number of the source that holds the index, or DOP_BY_STEP */
    uint8_t taps;           /* number of middle axes that are taps of windows */
} dop_access;

/* The kind of region that an op starts (ops.def). */
typedef enum dop_root {
    DOP_ROOT_none,
    DOP_ROOT_element,
    DOP_ROOT_row,
    DOP_ROOT_choice,
    DOP_ROOT_product, /* this and all later roots have holes (dop_node_has_holes) */
    DOP_ROOT_attention,
    DOP_ROOT_argmax,
    DOP_ROOT_group,
    DOP_ROOT_scan,
    DOP_ROOT_index,
    DOP_ROOT_positions,
    DOP_ROOT_moments
} dop_root;

/* How much of its sources one output element reads, over all axes, in ascending order. */
typedef enum dop_extent {
    DOP_EXTENT_none,
    DOP_EXTENT_element, /* one element, also through an index (gather) */
    DOP_EXTENT_few,
    DOP_EXTENT_head,
    DOP_EXTENT_row,
    DOP_EXTENT_all /* more than a row: products, attention and other ops with templates of their own */
} dop_extent;

typedef enum dop_attr_id {
#define ATTR(name, kind) DOP_A_##name,
#include "ir/attrs.def"
#undef ATTR
    DOP_A_COUNT
} dop_attr_id;

typedef enum dop_attr_kind { DOP_ATTR_F, DOP_ATTR_I, DOP_ATTR_S, DOP_ATTR_W, DOP_ATTR_O, DOP_ATTR_D } dop_attr_kind;
typedef enum dop_state_kind { DOP_STATE_append, DOP_STATE_replace } dop_state_kind;
typedef enum dop_mask {
    DOP_MASK_causal,
    DOP_MASK_full,
    DOP_MASK_segments,
    DOP_MASK_cache
} dop_mask; /* mask of attention (ops.def) */
/* True if attention with this mask reads the column `lasts` of the row table. */
static inline bool
dop_mask_has_lasts(dop_mask m)
{
    return m == DOP_MASK_full || m == DOP_MASK_segments;
}

/* Properties of an op: one row of ops.def. */
typedef struct dop_op_info {
    const char *name;
    uint8_t src_min, src_max;
    uint8_t traits; /* dop_traits */
    dop_root root;
    dop_access access[DOP_MAX_SRCS];
    uint8_t n_attrs;
    dop_attr_id attrs[DOP_MAX_ATTRS];
    const char *expr; /* GLSL and C expression of an element-wise op; "" for other ops */
} dop_op_info;

const dop_op_info *dop_op_of(dop_op op);

typedef union dop_attr {
    double f;
    int64_t i;
    const char *s; /* allocated in the graph's arena */
} dop_attr;

/* A symbolic dimension, by number.  The length of an axis may be a multiple of it.  The dimensions of language models come first:
 * T (rows of this step), S (positions of a sequence) and Q (sequences).  Then come those that a graph declares
 * (dop_graph_declare()).  An axis of R is a ring of `mul` rows: position p is in row p % mul, so that the ring keeps only the
 * last positions. */
typedef enum dop_sym { DOP_SYM_1, DOP_SYM_T, DOP_SYM_S, DOP_SYM_Q, DOP_SYM_R, DOP_SYM_OWN, DOP_N_SYMS = 12 } dop_sym;
/* The length of an axis: a constant `mul`, or `mul` times a dimension. */
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

/* The column of the row table that an input reads.  dop_graph_add() recognizes it by the input's name. */
typedef enum dop_input_kind {
    DOP_INPUT_other,
    DOP_INPUT_tokens,
    DOP_INPUT_positions,
    DOP_INPUT_sequences,
    DOP_INPUT_lasts, /* last position that the row attends to */
    DOP_INPUT_types  /* token type (segment id) of the row in a text pair: 0 or 1 */
} dop_input_kind;

/* Origin of a weight's values, set by the builder of a graph.  Passes copy it to new nodes; the text form omits it. */
typedef enum dop_origin_kind {
    DOP_FROM_TEXT,     /* unknown */
    DOP_FROM_WEIGHT,   /* model weight number `index` */
    DOP_FROM_ROPE,     /* rotary table number `index` of the model */
    DOP_FROM_TEMPER,   /* per-position query scales of the model (attention temperature) */
    DOP_FROM_RELATIVE, /* relative position biases of attention scores */
    DOP_FROM_TURNS,    /* rotations by row and column for the model's vision tower */
    /* Space for LoRA adapters of model weight number `index`: their A and B matrices, and for each sequence its rank factors and
     * adapter numbers. */
    DOP_FROM_LORA_A,
    DOP_FROM_LORA_B,
    DOP_FROM_LORA_FACTORS,
    DOP_FROM_CONTROL, /* space for the control vector added after layer number `index` */
    DOP_FROM_ONES,    /* a column of `index` ones */
    DOP_FROM_PLACES   /* rotations by row and column of a picture, for rotary embedding number `index` */
} dop_origin_kind;
typedef struct dop_origin {
    dop_origin_kind kind;
    uint32_t index;
    uint32_t first, rows; /* rows [first, first + rows) of the weight; rows 0: all (passes/split_weights.c) */
} dop_origin;

typedef struct dop_node {
    dop_op op;
    dop_type type; /* storage type in memory; arithmetic uses f32 (u32 for ids) */
    dop_shape shape;
    uint32_t n_srcs;
    dop_node_id src[DOP_MAX_SRCS];
    dop_attr attr[DOP_MAX_ATTRS]; /* attribute values, in the order of the op's row in ops.def */
    const char *name;             /* unique in the graph, printed as %name; allocated in the arena */
    dop_label label;              /* layer and role of the node; the role's text lives at least as long as the arena */
    dop_input_kind input;         /* inputs only: column of the row table */
    dop_origin origin;            /* weights only: origin of the values */
} dop_node;

/* Templates: the kinds of kernels that compute regions.  Each defines what one workgroup computes and what may be fused
 * (templates.def). */
typedef enum dop_template {
    DOP_TPL_none,
#define TEMPLATE(name, ...) DOP_TPL_##name,
#include "ir/templates.def"
#undef TEMPLATE
    DOP_TPL_COUNT
} dop_template;

typedef enum dop_tile_span { DOP_TILE_one, DOP_TILE_span, DOP_TILE_whole } dop_tile_span;
enum { DOP_HOLE_ELEMENTS = 1, DOP_HOLE_ROWS = 2, DOP_HOLE_SCALAR = 4, DOP_HOLE_HEADS = 8, DOP_HOLE_CHOICE = 16 };
enum { DOP_JOIN_ELEMENT = 1, DOP_JOIN_ROW = 2, DOP_JOIN_PARTIAL = 4, DOP_JOIN_CHOICE = 8, DOP_JOIN_HEADS = 16 };
typedef struct dop_template_info {
    const char *name;
    uint8_t kind;               /* how a region may be fused into another one: a DOP_JOIN_* value; 0: not at all */
    uint8_t tile[DOP_AXES];     /* dop_tile_span of each axis */
    uint8_t joins;              /* DOP_JOIN_* mask of consumers that may be fused into the epilogue */
    uint8_t hole[DOP_MAX_SRCS]; /* DOP_HOLE_* mask for each source of the root */
    uint32_t meets, partials, statistics, merges; /* capacities; see templates.def */
    uint32_t held, cost, lengths, siblings, tail, beside, activations, waits;
    const char *makes;
} dop_template_info;

typedef struct dop_region {
    dop_template tpl;
    uint32_t n_nodes; /* nodes are in handle order, which is topological */
    dop_node_id *nodes;
    uint32_t n_outs; /* nodes stored to memory, in handle order */
    dop_node_id *outs;
    const char *variant;       /* kernel that the pass `select` chose: name of a row in kernels.def; NULL: none yet */
    dop_tile tile;             /* tile that `select` chose with the variant */
    bool dead;                 /* merged into another region; skipped everywhere, and removed by dop_graph_compact() */
    struct dop_analysis *info; /* analysis of the region (region.h); outdated if the region is dead */
} dop_region;

/* Positions that attention reads, and the cache rows that hold them. */
typedef struct dop_reach {
    uint32_t window; /* sliding window: positions that a query attends to, itself included; 0: unlimited */
    /* Length of a chunk in positions: a query attends only to its own chunk.  0: no chunks. */
    uint32_t chunk;
    uint32_t ring; /* rows of a ring cache (position p is in row p % ring); 0: every position has its own row */
    dop_mask mask;
} dop_reach;

typedef struct dop_graph {
    dop_arena *arena;
    const char *name; /* "decode", "prefill", "score" */
    union {           /* bounds of dimensions, indexed by dop_sym; 1 for dimensions that are not declared */
        uint32_t bound[DOP_N_SYMS];
        struct {
            uint32_t bound_1;
            uint32_t max_t; /* bound of T, rows per step; 1 in decode */
            uint32_t max_s; /* bound of S, positions per sequence */
            uint32_t max_q; /* bound of Q, sequences; 1 after dop_graph_init() */
        };
    };
    bool stays;      /* rows keep their position from step to step, and no state is stored (dop_step) */
    bool keeps_each; /* a step stores replace state after each row of a sequence if there are enough copies */
    bool
        rows_apart; /* batch-invariant attention: a row is summed on its own, independent of the windows of other rows */
    uint32_t copies; /* copies of each replace state (dop_step of base/step_record.h); 2 after dop_graph_init() */
    const char *dim_names[DOP_N_SYMS]; /* names of dimensions, indexed by dop_sym; NULL: not declared */
    dop_node *nodes;                   /* [0] is unused */
    uint32_t n_nodes, cap_nodes;       /* n_nodes includes [0] */
    dop_region *regions;               /* [0] is unused; n_regions <= 1: no regions yet */
    uint32_t n_regions, cap_regions;
    dop_node_id *outs; /* results of the graph, which keep their sources alive */
    uint32_t n_outs, cap_outs;
    /* Summary of the attention nodes added so far: is there any, any with chunks, any with ring caches, and do their reaches
     * differ?  reach: the reach of all attention nodes, unless reaches_differ is set. */
    bool has_attention, has_chunks, has_rings, reaches_differ;
    dop_reach reach;
    uint64_t next_name; /* number of the next generated name, x<number> */
} dop_graph;

/* Requested or resulting type and shape of a node. */
typedef struct dop_want {
    dop_type type;
    dop_shape shape;
} dop_want;

static inline dop_node *
dop_node_at(const dop_graph *g, dop_node_id id)
{
    return &g->nodes[id];
}

/* Copies the label, and the origin if `made` is a weight, from the node that a pass replaces. */
static inline void
dop_node_carry(dop_node *made, const dop_node *from)
{
    made->label = from->label;
    made->origin = made->op == DOP_OP_weight ? from->origin : (dop_origin){0};
}

/* Returns the index of the node in a list of n ids in handle order; n if the list does not contain it. */
static inline uint32_t
dop_ids_find(const dop_node_id *ids, uint32_t n, dop_node_id id)
{
    uint32_t from = 0, to = n;
    while (from < to) {
        uint32_t mid = from + (to - from) / 2;
        if (ids[mid] < id)
            from = mid + 1;
        else
            to = mid;
    }
    return from < n && ids[from] == id ? from : n;
}

/* Returns the index of the node in the region's list; n_nodes if the region does not contain it. */
static inline uint32_t
dop_region_find(const dop_region *r, dop_node_id id)
{
    return dop_ids_find(r->nodes, r->n_nodes, id);
}

/* True if the region computes (or recomputes) the node. */
static inline bool
dop_region_has(const dop_region *r, dop_node_id id)
{
    return dop_region_find(r, id) < r->n_nodes;
}

/* Return an attribute of a node; 0 or "" if the op does not have it.  dop_node_has: true if the op has it. */
double dop_node_f(const dop_graph *g, dop_node_id id, dop_attr_id a);
int64_t dop_node_i(const dop_graph *g, dop_node_id id, dop_attr_id a);
const char *dop_node_s(const dop_graph *g, dop_node_id id, dop_attr_id a);
bool dop_node_has(const dop_graph *g, dop_node_id id, dop_attr_id a);
/* True if the node writes append state that is stored in blocks (cache_row.h).  The values of a block must be computed together,
 * by a region that computes whole heads. */
bool dop_node_writes_blocks(const dop_graph *g, dop_node_id id);
extern const dop_access dop_access_blocks;
/* dop_attention_cached: true if an attention node reads a cache, and not keys and values of this step.  The others return
 * optional sources of an attention node; 0: none. */
bool dop_attention_cached(const dop_graph *g, dop_node_id attention);
dop_node_id dop_attention_sinks(const dop_graph *g, dop_node_id attention);
dop_node_id dop_attention_relative(const dop_graph *g, dop_node_id attention);
dop_node_id dop_attention_lasts(const dop_graph *g, dop_node_id attention);
/* Returns the list of positions that rows attend to (attribute top); 0: rows attend to all positions. */
dop_node_id dop_attention_chosen(const dop_graph *g, dop_node_id attention);
/* Return how node `id` reads its source `k`, and the root kind of its region.  Both refine ops.def by the storage of states, by
 * where attention finds its keys, and by the optional sources present. */
const dop_access *dop_node_access(const dop_graph *g, dop_node_id id, uint32_t k);
static inline dop_root
dop_node_root(const dop_graph *g, dop_node_id id)
{
    return dop_node_writes_blocks(g, id) ? DOP_ROOT_row : dop_op_of(g->nodes[id].op)->root;
}
static inline bool
dop_node_is(const dop_graph *g, dop_node_id id, dop_traits t)
{
    return (dop_op_of(g->nodes[id].op)->traits & t) != 0;
}
/* Returns the node whose shape is the index space of `id`.  For a write into a state it is the written value. */
static inline dop_node_id
dop_node_space(const dop_graph *g, dop_node_id id)
{
    return dop_node_is(g, id, DOP_EFFECT) ? g->nodes[id].src[1] : id;
}
/* True for inputs of the graph.  They are columns of the row table and have no buffers of their own. */
bool dop_node_is_input(const dop_graph *g, dop_node_id id);
/* True if another source chooses the row that is read from some source. */
bool dop_node_gathers(const dop_graph *g, dop_node_id id);
/* True if the node is element-wise or a copy through an index. */
static inline bool
dop_node_is_element(const dop_graph *g, dop_node_id id)
{
    return dop_op_of(g->nodes[id].op)->root == DOP_ROOT_element;
}
/* True if the node is the root of a template with loops of its own, where producers can be fused only into the template's holes. */
static inline bool
dop_node_has_holes(const dop_graph *g, dop_node_id id)
{
    return dop_op_of(g->nodes[id].op)->root >= DOP_ROOT_product;
}
/* True if the node sums over the heads or slots of its source number k. */
static inline bool
dop_node_sums_heads(const dop_graph *g, dop_node_id id, uint32_t k)
{
    const dop_access *a = dop_node_access(g, id, k);
    return a->axis[DOP_AXIS_head] == DOP_ACCESS_all && a->axis[DOP_AXIS_col] == DOP_ACCESS_same;
}
/* True if another source chooses the matrix (expert) that is read from some source. */
bool dop_node_has_experts(const dop_graph *g, dop_node_id id);
/* True if the node merges partial results (attn_combine, argmax_merge). */
bool dop_node_merges(const dop_graph *g, dop_node_id id);

/* Follows views to the node that owns the memory.  *out_start (may be NULL): first value of slices on the last axis.  This is the
 * owner's last axis, unless a slice follows a reshape that changed it. */
dop_node_id dop_node_base(const dop_graph *g, dop_node_id id, uint32_t *out_start);

/* Returns the node that owns the memory of a value: follows views to their base, and state writes to the state. */
dop_node_id dop_storage_node(const dop_graph *g, dop_node_id id);
/* Returns the columns of a value as a matrix: the product of the axes after the row axes; for a vector, its length. */
uint32_t dop_node_cols(const dop_graph *g, dop_node_id id);
/* Facts of a product node.  depth: K, values that one output sums over; cols: N, columns per slot; slots: 1 unless each slot uses
 * its own matrix; type: storage type of the weights. */
uint32_t dop_product_depth(const dop_graph *g, dop_node_id id);
uint32_t dop_product_cols(const dop_graph *g, dop_node_id id);
uint32_t dop_product_slots(const dop_graph *g, dop_node_id id);
dop_type dop_product_type(const dop_graph *g, dop_node_id id);
/* Split sizes of flash decoding, for an attn_split node.  dop_split_round: preferred multiple of cache rows per split; 0: any
 * number (ops.def).  For n cache rows, dop_split_len returns the rows per split, and dop_split_count the number of non-empty
 * splits. */
uint32_t dop_split_round(const dop_graph *g, dop_node_id id);
uint32_t dop_split_len(const dop_graph *g, dop_node_id id, uint32_t n);
uint32_t dop_split_count(const dop_graph *g, dop_node_id id, uint32_t n);
bool dop_node_per_token(const dop_graph *g, dop_node_id id); /* true if axis 0 is T or a multiple of it */
/* Returns the rows of the value per row of the step; 0 if its rows do not correspond to rows of a step. */
uint32_t dop_node_row_multiple(const dop_graph *g, dop_node_id id);
/* Returns the rows of a value as a matrix: the product of its row axes (dop_shape_row_axes), with `t` for T. */
uint64_t dop_node_rows(const dop_graph *g, dop_node_id id, uint32_t t);
/* Returns the number of KV heads in a cache. */
uint32_t dop_cache_heads(const dop_graph *g, dop_node_id cache);
/* Return the rows per sequence of append state.  dop_cache_ring: rows of a ring; 0 if the state is not a ring. */
uint32_t dop_cache_rows(const dop_graph *g, dop_node_id cache);
uint32_t dop_cache_ring(const dop_graph *g, dop_node_id cache);
/* Returns the ALiBi slope of head h of `heads`, which is subtracted from the head's scores for each position of distance.  With n
 * the largest power of two <= `heads`, the slope is 2^(-max (h + 1) / n) for heads below n.  The other heads use the values
 * halfway between. */
double dop_alibi_slope(uint32_t max, uint32_t heads, uint32_t h);
/* True if attention reads the whole state (mask cache), because another program fills it. */
bool dop_state_is_filled(const dop_graph *g, dop_node_id state);
/* Returns the divisor of an attention node's ALiBi slopes. */
double dop_alibi_root(const dop_graph *g, dop_node_id attention);
/* Returns the reach of an attention node, whole or split.  dop_reach_first returns the first position that a query at `position`
 * attends to.  dop_reach_last returns the last one; `last` is the value of `lasts` in the query's row. */
dop_reach dop_attention_reach(const dop_graph *g, dop_node_id attention);
uint32_t dop_reach_first(const dop_reach *r, uint32_t position);
uint32_t dop_reach_last(const dop_reach *r, uint32_t position, uint32_t last);
/* Page size of caches, in positions.  With several sequences, append state that is not a ring is stored in pages of a shared
 * pool, which page tables refer to (dop_step of base/step_record.h).  The size is a power of two; 0: every state is contiguous. */
enum { DOP_PAGE = 64 };
uint32_t dop_graph_page(const dop_graph *g);
/* Returns some replace state of the graph; 0 if there is none. */
dop_node_id dop_graph_replaces(const dop_graph *g);
/* True if the rows of a step may belong to several sequences (input "sequences" has one value per row). */
bool dop_graph_mixes(const dop_graph *g);
/* True if the node is an output of the graph. */
bool dop_graph_is_out(const dop_graph *g, dop_node_id id);

/* The vector that a row program iterates over: a row, or one head of it. */
typedef struct dop_unit {
    uint32_t len;   /* length of the vector, in values */
    uint32_t units; /* vectors per token: 1, or the number of heads */
} dop_unit;

/* Returns a digest of the whole graph, regions included.  Graphs with equal text have equal digests. */
uint64_t dop_graph_hash(const dop_graph *g);
/* Returns a digest of the graph without the variants and tiles that the pass `select` bound to regions. */
uint64_t dop_graph_hash_unbound(const dop_graph *g);

#endif
