/* The graph: flat arrays of nodes and regions in one arena, 32-bit handles, 0 is none.
 *
 * A node is a pure function over an index space (ops.def).  A region is one dispatch: a set of nodes with one root
 * shape.  A node may be listed by several regions: each recomputes it instead of reading it from memory. */
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

/* How one output element reads a source along an axis (ops.def): names of cases of the one form of access.h. */
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

typedef struct dop_access {
    uint8_t axis[DOP_AXES]; /* dop_access_kind */
    uint8_t by;             /* of `at`: the source that says where, or DOP_BY_STEP */
    uint8_t taps;           /* axes between the first and the last one that count the taps of windows */
} dop_access;

/* The kind of region that an op starts (ops.def). */
typedef enum dop_root {
    DOP_ROOT_none,
    DOP_ROOT_element,
    DOP_ROOT_row,
    DOP_ROOT_choice,
    DOP_ROOT_product, /* the first with holes (dop_node_has_holes) */
    DOP_ROOT_attention,
    DOP_ROOT_argmax,
    DOP_ROOT_group,
    DOP_ROOT_scan,
    DOP_ROOT_index,
    DOP_ROOT_positions,
    DOP_ROOT_moments
} dop_root;

/* How much of its sources an element reads, over all axes; in ascending order. */
typedef enum dop_extent {
    DOP_EXTENT_none,
    DOP_EXTENT_element, /* copies through an index too */
    DOP_EXTENT_few,
    DOP_EXTENT_head,
    DOP_EXTENT_row,
    DOP_EXTENT_all /* more than a row; such ops (products, attention) have their own templates */
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
} dop_mask; /* of attention (ops.def) */
/* Does attention with this mask read the column `lasts` of the row table? */
static inline bool
dop_mask_has_lasts(dop_mask m)
{
    return m == DOP_MASK_full || m == DOP_MASK_segments;
}

/* A row of ops.def as data. */
typedef struct dop_op_info {
    const char *name;
    uint8_t src_min, src_max;
    uint8_t traits; /* dop_traits */
    dop_root root;
    dop_access access[DOP_MAX_SRCS];
    uint8_t n_attrs;
    dop_attr_id attrs[DOP_MAX_ATTRS];
    const char *expr; /* "" unless element-wise */
} dop_op_info;

const dop_op_info *dop_op_of(dop_op op);

typedef union dop_attr {
    double f;
    int64_t i;
    const char *s; /* in the arena */
} dop_attr;

/* A symbolic dimension of a graph, by number; the length of an axis is a multiple of one.  The dimensions of language models come
 * first: T (rows of this step), S (positions of a sequence) and Q (sequences); then those that a graph declares
 * (dop_graph_declare()).  An axis of R is a ring: mul rows, in which position p has row p % mul, so that the ring holds only the
 * last positions. */
typedef enum dop_sym { DOP_SYM_1, DOP_SYM_T, DOP_SYM_S, DOP_SYM_Q, DOP_SYM_R, DOP_SYM_OWN, DOP_N_SYMS = 12 } dop_sym;
/* The length of an axis: mul, or mul times a dimension. */
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

/* Which column of the row table an input is; dop_graph_add() knows them by their names. */
typedef enum dop_input_kind {
    DOP_INPUT_other,
    DOP_INPUT_tokens,
    DOP_INPUT_positions,
    DOP_INPUT_sequences,
    DOP_INPUT_lasts, /* the last position that the row sees */
    DOP_INPUT_types  /* which text of a pair the row is of: 0 or 1 */
} dop_input_kind;

/* Where the values of a weight come from, as the builder of a graph says; passes carry it along, and texts do not have it. */
typedef enum dop_origin_kind {
    DOP_FROM_TEXT,     /* unknown */
    DOP_FROM_WEIGHT,   /* the model's weight of this index */
    DOP_FROM_ROPE,     /* the model's rotary table of this index */
    DOP_FROM_TEMPER,   /* the model's table of factors by which queries are multiplied */
    DOP_FROM_RELATIVE, /* the model's table of what scores grow by with the distance */
    DOP_FROM_TURNS,    /* the table of rotations by row and column of the model's vision part */
    /* Room for adapters of the model's weight of this index: their matrices A, and B; and for each sequence the factors of ranks and the
     * numbers of its adapters. */
    DOP_FROM_LORA_A,
    DOP_FROM_LORA_B,
    DOP_FROM_LORA_FACTORS,
    DOP_FROM_CONTROL, /* room for what adapters that are control vectors add behind the layer of this index */
    DOP_FROM_ONES,    /* a column of as many ones as `index` says */
    DOP_FROM_PLACES /* the table of rotations by row and column of a picture, of the model's rotary embedding of this index */
} dop_origin_kind;
typedef struct dop_origin {
    dop_origin_kind kind;
    uint32_t index;
    uint32_t first, rows; /* rows from `first` on; rows 0: all (passes/split_weights.c) */
} dop_origin;

typedef struct dop_node {
    dop_op op;
    dop_type type; /* storage type when the value is in memory; arithmetic is f32 (u32 for ids) */
    dop_shape shape;
    uint32_t n_srcs;
    dop_node_id src[DOP_MAX_SRCS];
    dop_attr attr[DOP_MAX_ATTRS]; /* in the order of the op's row */
    const char *name;             /* printed as %name; unique in the graph; in the arena */
    dop_label label;              /* layer and role of the node; the role's text is in the arena, or lives as long */
    dop_input_kind input;         /* of inputs: which column of the row table */
    dop_origin origin;            /* of weights: where the values come from */
} dop_node;

/* Templates, the kinds of kernels that regions need: what one workgroup makes, and what may join (templates.def). */
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
    uint8_t kind;               /* how a region enters other regions: one of DOP_JOIN_*; 0: it does not */
    uint8_t tile[DOP_AXES];     /* dop_tile_span */
    uint8_t joins;              /* DOP_JOIN_* */
    uint8_t hole[DOP_MAX_SRCS]; /* DOP_HOLE_* by source of the root */
    uint32_t meets, partials, statistics, merges; /* capacities: templates.def */
    uint32_t held, cost, lengths, siblings, tail, beside, activations, waits;
    const char *makes;
} dop_template_info;

typedef struct dop_region {
    dop_template tpl;
    uint32_t n_nodes; /* handle order, which is topological */
    dop_node_id *nodes;
    uint32_t n_outs; /* nodes stored to memory, in node order */
    dop_node_id *outs;
    const char *variant;       /* kernel that the pass `select` chose: name of a row of kernels.def; NULL: none yet */
    dop_tile tile;             /* tile that `select` chose with the variant */
    bool dead;                 /* merged away; skipped everywhere and dropped by dop_graph_compact() */
    struct dop_analysis *info; /* analysis of the region (region.h); of a dead region the last one */
} dop_region;

/* Which positions attention reads, and where they are. */
typedef struct dop_reach {
    uint32_t window; /* positions that a query sees, itself included; 0: any number */
    /* Positions come in chunks of this many, and a query sees none before its own chunk; 0: no chunks. */
    uint32_t chunk;
    uint32_t ring; /* rows of the cache, where position p has row p % ring; 0: every position has a row */
    dop_mask mask;
} dop_reach;

typedef struct dop_graph {
    dop_arena *arena;
    const char *name; /* "decode", "prefill", "score" */
    union {           /* bounds of dimensions by number; 1 where a graph has none of that number */
        uint32_t bound[DOP_N_SYMS];
        struct {
            uint32_t bound_1;
            uint32_t max_t; /* T is at most this; 1 in decode */
            uint32_t max_s; /* positions of a sequence, S */
            uint32_t max_q; /* sequences, Q; dop_graph_init() makes it 1 */
        };
    };
    bool stays;      /* the pick leaves the row at its position: a step keeps nothing of it (dop_step) */
    bool keeps_each; /* a step writes a copy after each row of a sequence, if there are copies enough */
    bool rows_apart; /* attention takes rows one by one: no sum begins where the window of another row does */
    uint32_t copies; /* of each replace state (dop_step of base/step_record.h); dop_graph_init() makes it 2 */
    const char *dim_names[DOP_N_SYMS]; /* NULL: there is no dimension of that number */
    dop_node *nodes;                   /* [0] is unused */
    uint32_t n_nodes, cap_nodes;       /* n_nodes counts [0] */
    dop_region *regions;               /* [0] is unused; n_regions <= 1: no regions formed yet */
    uint32_t n_regions, cap_regions;
    dop_node_id *outs; /* results of the graph, kept alive */
    uint32_t n_outs, cap_outs;
    /* About the attention nodes added so far: are there any, any with chunks, any with rings, and any whose reach differs from the
     * others'?  reach: that of all attention nodes, unless reaches_differ. */
    bool has_attention, has_chunks, has_rings, reaches_differ;
    dop_reach reach;
    uint64_t next_name; /* number of the next made-up name, x<number> */
} dop_graph;

/* Appends a node; computes type and shape by the op's shape rule.  Leaves, casts, reshapes and slices take the shape or
 * type from *want (others: want may be NULL, and want->type other than none sets the storage type).  attrs: values in
 * the order of the op's row; NULL where all may be left out.  name NULL makes one up (x<number>).  Strings are copied.  Errors: wrong arity,
 * shapes that do not fit.  Two nodes of one name, and state not threaded linearly, are left to dop_graph_verify(). */
typedef struct dop_want {
    dop_type type;
    dop_shape shape;
} dop_want;

static inline dop_node *
dop_node_at(const dop_graph *g, dop_node_id id)
{
    return &g->nodes[id];
}

/* For passes: gives a node that was made from another one its label and, if it is a weight, its origin. */
static inline void
dop_node_carry(dop_node *made, const dop_node *from)
{
    made->label = from->label;
    made->origin = made->op == DOP_OP_weight ? from->origin : (dop_origin){0};
}

/* Where the node stands in a list of n in handle order; n: it does not. */
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

/* Where the node stands in the region's list; n_nodes: it does not. */
static inline uint32_t
dop_region_find(const dop_region *r, dop_node_id id)
{
    return dop_ids_find(r->nodes, r->n_nodes, id);
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
/* Does the node write append state that is stored in blocks (cache_row.h)?  Then the values of a block must be made together, by a
 * region that makes whole heads. */
bool dop_node_writes_blocks(const dop_graph *g, dop_node_id id);
extern const dop_access dop_access_blocks;
/* Does an attention node read a cache, not keys and values of this step?  And the optional sources of an attention node, 0:
 * none. */
bool dop_attention_cached(const dop_graph *g, dop_node_id attention);
dop_node_id dop_attention_sinks(const dop_graph *g, dop_node_id attention);
dop_node_id dop_attention_relative(const dop_graph *g, dop_node_id attention);
dop_node_id dop_attention_lasts(const dop_graph *g, dop_node_id attention);
/* The list of positions that its rows see (attribute top); 0: they see all. */
dop_node_id dop_attention_chosen(const dop_graph *g, dop_node_id attention);
/* How node `id` reads its source number `k`, and what its region is built around: as ops.def says, refined by how a state is
 * stored, by where attention finds its keys and by which of its optional sources it has. */
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
/* The node whose shape is the index space of `id`: a write into a state has that of what it writes. */
static inline dop_node_id
dop_node_space(const dop_graph *g, dop_node_id id)
{
    return dop_node_is(g, id, DOP_EFFECT) ? g->nodes[id].src[1] : id;
}
/* Tokens and positions are parts of the step record, not buffers of their own. */
bool dop_node_is_input(const dop_graph *g, dop_node_id id);
/* Does another source say which row of some source is read? */
bool dop_node_gathers(const dop_graph *g, dop_node_id id);
/* Is the node element-wise, or a copy through an index? */
static inline bool
dop_node_is_element(const dop_graph *g, dop_node_id id)
{
    return dop_op_of(g->nodes[id].op)->root == DOP_ROOT_element;
}
/* Is the node the root of a template with loops of its own, which producers enter only through the template's holes? */
static inline bool
dop_node_has_holes(const dop_graph *g, dop_node_id id)
{
    return dop_op_of(g->nodes[id].op)->root >= DOP_ROOT_product;
}
/* Does the node sum over the heads or slots of its source number k? */
static inline bool
dop_node_sums_heads(const dop_graph *g, dop_node_id id, uint32_t k)
{
    const dop_access *a = dop_node_access(g, id, k);
    return a->axis[DOP_AXIS_head] == DOP_ACCESS_all && a->axis[DOP_AXIS_col] == DOP_ACCESS_same;
}
/* Does another source say which matrix of some source is read? */
bool dop_node_has_experts(const dop_graph *g, dop_node_id id);
/* Does the node merge partial results (attn_combine, argmax_merge)? */
bool dop_node_merges(const dop_graph *g, dop_node_id id);

/* Follows views to the node that owns the bytes.  *out_start: first value on the last axis (slices), may be NULL; the
 * axis is the owner's unless a slice follows a reshape that changed it. */
dop_node_id dop_node_base(const dop_graph *g, dop_node_id id, uint32_t *out_start);

/* The node that owns a value's memory: the base behind views, and the state behind what is written into it. */
dop_node_id dop_storage_node(const dop_graph *g, dop_node_id id);
uint32_t dop_node_cols(const dop_graph *g, dop_node_id id);
/* Facts of a product node: values that one output sums over (K), columns of a slot (N), slots (1 unless each slot has its own
 * matrix), and the storage type of the weights. */
uint32_t dop_product_depth(const dop_graph *g, dop_node_id id);
uint32_t dop_product_cols(const dop_graph *g, dop_node_id id);
uint32_t dop_product_slots(const dop_graph *g, dop_node_id id);
dop_type dop_product_type(const dop_graph *g, dop_node_id id);
/* Facts of an attn_split node.  dop_split_round: the number of cache rows of which a split has a whole multiple where possible; 0:
 * any number (ops.def).  With n cache rows in all, dop_split_len: rows of a split; dop_split_count: splits that have rows. */
uint32_t dop_split_round(const dop_graph *g, dop_node_id id);
uint32_t dop_split_len(const dop_graph *g, dop_node_id id, uint32_t n);
uint32_t dop_split_count(const dop_graph *g, dop_node_id id, uint32_t n);
bool dop_node_per_token(const dop_graph *g, dop_node_id id); /* axis 0 is T or a multiple of it */
/* How many rows the value has for each row of a step; 0: its rows are none of a step. */
uint32_t dop_node_row_multiple(const dop_graph *g, dop_node_id id);
/* Rows of a value as a matrix. */
uint64_t dop_node_rows(const dop_graph *g, dop_node_id id, uint32_t t);
/* Heads of keys or values in a cache. */
uint32_t dop_cache_heads(const dop_graph *g, dop_node_id cache);
/* Rows that a sequence has in append state.  dop_cache_ring: rows of a ring; 0: the state is no ring. */
uint32_t dop_cache_rows(const dop_graph *g, dop_node_id cache);
uint32_t dop_cache_ring(const dop_graph *g, dop_node_id cache);
/* The ALiBi slope of head h of `heads`, which is subtracted from the head's scores for each position of distance.  With n the
 * largest power of two not above `heads`: 2^(-max (h + 1) / n) for the heads below n, and for the others the values halfway
 * between. */
double dop_alibi_slope(uint32_t max, uint32_t heads, uint32_t h);
/* Is the state read whole by attention (mask cache), because another program fills it? */
bool dop_state_is_filled(const dop_graph *g, dop_node_id state);
/* What the slopes of an attention node are divided by. */
double dop_alibi_root(const dop_graph *g, dop_node_id attention);
/* The reach of an attention node, whole or split.  dop_reach_first: the first position that a query at `position` sees;
 * dop_reach_last: the last one, where the query's row of the row table says `last`. */
dop_reach dop_attention_reach(const dop_graph *g, dop_node_id attention);
uint32_t dop_reach_first(const dop_reach *r, uint32_t position);
uint32_t dop_reach_last(const dop_reach *r, uint32_t position, uint32_t last);
/* Positions in a page.  Where there are several sequences, append state that is not a ring lies in pages of a pool, each of a
 * power of two of rows, which page tables name (dop_step of base/step_record.h).  0: every state is in one piece. */
enum { DOP_PAGE = 64 };
uint32_t dop_graph_page(const dop_graph *g);
/* A replace state of the graph, whichever it has; 0: none. */
dop_node_id dop_graph_replaces(const dop_graph *g);
/* May the rows of a step be of several sequences?  (Input "sequences" has one value for each.) */
bool dop_graph_mixes(const dop_graph *g);
/* Is the node an output of the graph? */
bool dop_graph_is_out(const dop_graph *g, dop_node_id id);

/* The vector that a row program walks over: a row, or one head of it. */
typedef struct dop_unit {
    uint32_t len;   /* values */
    uint32_t units; /* vectors per token: 1, or the number of heads */
} dop_unit;

/* A digest of the whole graph, regions included: equal text, equal digest. */
uint64_t dop_graph_hash(const dop_graph *g);
/* A digest of the graph without the variants and tiles that the pass `select` bound to regions. */
uint64_t dop_graph_hash_unbound(const dop_graph *g);

#endif
