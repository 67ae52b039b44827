/* The emitter, code generation from IR expressions: the value of a node at an index, with everything that the region makes inlined.
 *
 * Every value is a matrix [rows, cols], and an index is a pair of GLSL expressions (t, c).  Element-wise nodes of the region are
 * expanded recursively, and values from outside are loaded.  Values that a template itself computes (a product, a statistic, a
 * staged row) are bound to names beforehand.  With width 4, columns c .. c+3 are evaluated at once; c is a multiple of 4. */
#ifndef DOPPLER_KERNELS_EMIT_EMIT_H
#define DOPPLER_KERNELS_EMIT_EMIT_H

#include "ir/graph/graph.h"
#include "ir/target.h"

typedef enum dop_arg_kind {
    DOP_ARG_VALUE,  /* memory of a value, the step record, or numbers */
    DOP_ARG_COUNTS, /* counters: of finished workgroups, where the last one merges what all have made (dop_last_of in
                       common.glsl), or of claimed blocks (dop_claim) */
    DOP_ARG_SUMS,   /* `bytes` of scratch memory for sums that workgroups of the dispatch pass to each other */
    DOP_ARG_TABLE   /* the table of stages of a persistent dispatch */
} dop_arg_kind;
enum { DOP_COUNTS_MOST = 128 }; /* counters of a dispatch */

/* An argument of a kernel, eight bytes of the push constants or of the parameter record (caps.h): a device address, two numbers by
 * which dispatches of one kernel differ, or where memory begins in a view. */
typedef struct dop_kernel_arg {
    dop_node_id value; /* node that owns the memory: a leaf, or a stored value; 0: see kind */
    dop_arg_kind kind;
    uint32_t numbers; /* how many numbers the argument holds; 0: an address */
    uint32_t number[2];
    uint64_t bytes; /* of DOP_ARG_SUMS: size of the memory */
    bool read, written;
    bool mailbox;  /* the address of the value's mailbox, not of its ordinary memory */
    uint32_t view; /* memory that is read through a texel buffer: DOP_VIEW_*; 0: by its address */
} dop_kernel_arg;

/* How a stored value reaches its readers in a persistent dispatch: bits by node.  DOP_MAILBOX: stages read it from a mailbox
 * (common.glsl).  DOP_LEAVES: something after the dispatch reads it, so it is also stored in its ordinary memory.  The
 * mailbox of a cache write holds the row of this step, as f32. */
enum { DOP_MAILBOX = 1, DOP_LEAVES = 2 };

/* A binding: the GLSL name that stands for a node's value, instead of code that computes or loads it. */
typedef struct dop_bind {
    dop_node_id node;
    const char *name;
    bool indexed;     /* name[c] (a staged row of floats), else name alone */
    const char *base; /* indexed: subtracted from c; NULL: 0 */
    /* Statistics of a norm or softmax, from which its value is computed at every index that is asked for: `scale` is the factor,
     * `shift` the mean or the largest value (NULL: none).  NULL: the node's value has the name above. */
    const char *scale, *shift;
} dop_bind;

/* A value that the current block of code has computed at an index, for use by later expressions. */
typedef struct dop_memo {
    dop_node_id node;
    const char *t, *c;
    uint32_t width;
    const char *name;
} dop_memo;

typedef struct dop_emit {
    const dop_graph *g;
    const dop_region *r;
    const dop_target *target;
    dop_diag *diag;
    dop_status status; /* first failure; later calls do nothing */
    dop_buf *out;      /* statements go here */
    /* Where these are set, loads and the indices they need are written to them instead of `out`, so that all loads are issued
     * before the first value is used.  `constants` is for loads of what no dispatch of the step writes (weights), `early` for
     * all others. */
    dop_buf *constants, *early;
    const char *indent;
    uint32_t n_temps;
    uint32_t n_args, cap_args;
    dop_kernel_arg *args;
    uint64_t types_used; /* bits 1 << dop_type of weights decoded, for the type files to include */
    uint32_t caps;       /* DOP_CAP_* that the emitted code needs */
    uint32_t n_binds, cap_binds;
    dop_bind *binds;
    uint32_t n_memo, cap_memo;
    dop_memo *memo;
    uint32_t multiple;     /* rows of the region's values for each row of the step; 1 where these are equal */
    const uint8_t *routes; /* a stage of a persistent dispatch: DOP_MAILBOX and DOP_LEAVES by node; else NULL */
    uint32_t splits;       /* splits of the cache, where they are fewer than the graph's capacity; else 0 */
    const char *limit,
        *ring; /* limit of the positions that attention sees, and rows of its ring; NULL: not asked for yet */
    /* A stored value whose row length is a number of the dispatch, and its name; 0: none. */
    dop_node_id long_row;
    const char *row_values;
    bool viewing; /* loads may go through views: no workgroup of the dispatch writes the memory they read */
    dop_node_id vector, value; /* the weight vector and the value that are read through views; 0: none yet */
    bool addresses;            /* the code computes addresses: needs dop_at() of common.glsl */
    bool blocks;               /* the code loads or stores rows of caches in blocks: needs cache.glsl */
} dop_emit;

typedef struct dop_index {
    const char *t, *c; /* GLSL expressions of type uint: an identifier or a constant */
} dop_index;

void dop_emit_init(dop_emit *e, const dop_graph *g, const dop_region *r, const dop_target *target, dop_diag *diag);

/* Begins a new block of code and forgets the values computed so far, whose names end with their block.  Bindings stay. */
void dop_emit_scope(dop_emit *e, dop_buf *out, const char *indent);
void dop_emit_bind(dop_emit *e, dop_node_id node, const char *name, bool indexed, const char *base);
/* Binds an unsplit norm or softmax to the names of its row's statistics (dop_bind). */
void dop_emit_bind_norm(dop_emit *e, dop_node_id node, const char *scale, const char *shift);

/* printf into the arena, for names and index expressions that outlive a call. */
const char *dop_emit_str(dop_emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A statement that loads may depend on. */
void dop_emit_index(dop_emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void dop_emit_line(dop_emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Argument number of the memory that holds the node ("a3"); 0 is the step record. */
const char *dop_emit_arg(dop_emit *e, dop_node_id node, bool written);
const char *dop_emit_step(dop_emit *e);
/* The record of a row of the step ("a0.rows[t]"), and its position. */
const char *dop_emit_row(dop_emit *e, const char *row);
const char *dop_emit_position(dop_emit *e, const char *row);
/* The position by which a row of attention sees what it sees: its own, or the last one of the cache where the mask says so. */
const char *dop_emit_seen_position(dop_emit *e, dop_node_id attention, const char *row);
/* Memory for DOP_COUNTS_MOST counters of the dispatch, which are zero before it and after it. */
const char *dop_emit_counts(dop_emit *e);
/* Memory for sums that other workgroups read, of the most bytes that any call asks for. */
const char *dop_emit_sums(dop_emit *e, uint64_t bytes);
/* A number by which dispatches of this kernel may differ ("a3.x").  Every call gives another one. */
const char *dop_emit_number(dop_emit *e, uint32_t value);
/* The first position that a query at `position` sees, for the region's attention or the one whose splits it merges.  The limit
 * is a constant where it is the same for all layers, else a number of the dispatch.  "0u": there is no limit. */
const char *dop_emit_first(dop_emit *e, dop_node_id attention, const char *position);
/* Rows of the ring that holds the caches of the region's attention: a constant where all layers have the same, else a number of the
 * dispatch; NULL: no attention of the graph has a ring. */
const char *dop_emit_ring(dop_emit *e, dop_node_id attention);
/* The row of a position (an expression without side effects) in append state that lies in pages.  `table` is where the page
 * table of its sequence begins, in words of the step record (dop_emit_page_table()); `words` is the type of the reference
 * through which it is read. */
const char *dop_emit_page_table(dop_emit *e, const char *sequence);
const char *dop_emit_page_row(dop_emit *e, const char *words, const char *table, const char *position);
/* "step.n_rows", or "1u" when the graph has one token; in a stage all rows that there may be, because those after the last one
 * are computed like that one (common.glsl). */
const char *dop_emit_n_tokens(dop_emit *e);
/* The rows of a value that has `multiple` for each row of the step. */
const char *dop_emit_rows(dop_emit *e, uint32_t multiple);

/* Keeps the first failure, and returns a placeholder for the value. */
const char *dop_emit_fail(dop_emit *e, dop_status st, const char *what, dop_node_id node);
/* Makes space for one more item of a list in the arena, where its old memory stays. */
bool dop_emit_grow(dop_emit *e, void **items, uint32_t n, uint32_t *cap, size_t size);
/* The argument of this storage and kind, which is added if it is new. */
const char *dop_emit_add_arg(dop_emit *e, dop_node_id storage, dop_arg_kind kind, bool written, bool mailbox);
/* The argument of memory that the dispatch only reads.  While e->viewing is set, and where the kernel has DOP_CAP_texels, one
 * vector of weights and one value of earlier dispatches are read through views. */
const char *dop_emit_source_arg(dop_emit *e, dop_node_id node);
/* The argument of a cache of keys or values that attention reads: through `view` where the kernel has DOP_CAP_texels, the cache
 * has no blocks and the dispatch writes none of it; else an address. */
const char *dop_emit_cache_arg(dop_emit *e, dop_node_id node, uint32_t view);
/* The matrix of a product, as the functions of weight types take it (DOP_W of common.glsl): in a view where the kernel has
 * DOP_CAP_texels, else an address. */
const char *dop_emit_matrix_arg(dop_emit *e, dop_node_id weight);

/* The `aux` argument of a weight matrix's load functions (weight_types.h); notes that the type's file is needed. */
const char *dop_emit_weight(dop_emit *e, dop_node_id node);
uint32_t dop_weight_aux(const dop_graph *g, dop_node_id node); /* `aux` as a number */

/* Address of a weight matrix; where the weight has rank 3, of the matrix of `expert` (a GLSL expression). */
const char *dop_emit_matrix(dop_emit *e, dop_node_id node, const char *expert);
/* The address `a` where the condition `first` holds, else `b`. */
const char *dop_emit_either(dop_emit *e, const char *first, const char *a, const char *b);

/* Of row t of windows (op unfold), names of the place of its first tap, before padding, and of the first row of its picture; and how
 * many rows the source has. */
typedef struct dop_window_row {
    const char *x, *y, *first, *rows;
} dop_window_row;
/* Names of a row and a column of the source, which are inside it, and of whether the source has the place at all; where it has not, the
 * value is 0. */
typedef struct dop_window_place {
    const char *row, *col, *in;
} dop_window_place;
/* Append the statements that find a row's place, and the place of one of its columns. */
dop_window_row dop_emit_window_row(dop_emit *e, dop_node_id unfold, const char *t);
dop_window_place dop_emit_window(dop_emit *e, dop_node_id unfold, const dop_window_row *row, const char *column);
/* Appends the statements that compute the node's value at the index and returns the value's name. */
const char *dop_emit_value(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width);
/* emit_combine.c: the value of attn_combine. */
const char *dop_emit_combine(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width);
/* emit_load.c: a load of a value from outside the region, of which `start` columns are skipped; a new variable with the value of an
 * expression; and whether a value has rows: one that does not depend on the token is a row vector, for which t is dropped. */
const char *dop_emit_load(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width, uint32_t start);
/* A value of a row that other workgroups of the dispatch make (dop_product_facts.awaited), and the statement that waits for all of these,
 * which must come before and stand in no loop. */
void dop_emit_await(dop_emit *e, dop_node_id node);
const char *dop_emit_awaited(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width, uint32_t start);
const char *dop_emit_temp(dop_emit *e, uint32_t width, const char *expr);
bool dop_emit_has_rows(const dop_graph *g, dop_node_id id);
/* Index of a value in the memory of its node: t * row_values + c + start, shortened where a part is zero. */
const char *dop_emit_flat(dop_emit *e, dop_node_id node, dop_index ix, uint32_t row_values, uint32_t start);
/* Is the node a state that every step replaces, or its successor? */
bool dop_is_replace_state(const dop_graph *g, dop_node_id id);
/* emit_store.c: statement that stores a value (a name from dop_emit_value) to the node's memory: scratch, result, or, for state_write,
 * the row of the cache at this token's position. */
void dop_emit_store(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width, const char *value);
/* Does this step's row of a cache write come from another stage, through a mailbox? */
bool dop_emit_in_mailbox(const dop_emit *e, dop_node_id node);
/* Argument with the address of a value's mailbox, for code that sends or receives by itself. */
const char *dop_emit_mailbox_arg(dop_emit *e, dop_node_id node, bool written);
const char *dop_emit_receive(dop_emit *e, dop_node_id node, const char *c);
/* A replace state has copies for each sequence.  dop_emit_replace_copy: where the copy begins that is current for the sequence, or the one
 * that lies `steps` behind it (an expression; 1u: the one that this step writes).  dop_emit_sequence: the sequence of a
 * row, 0u where there is only one. */
const char *dop_emit_replace_copy(dop_emit *e, dop_node_id state, const char *sequence, const char *steps);
const char *dop_emit_sequence(dop_emit *e, dop_node_id sequences, const char *row);
/* The number of rows of row t's sequence directly before it in the step, or directly after it; counted up to `most`. */
const char *dop_emit_neighbours(dop_emit *e, const char *t, uint32_t most, bool behind);
/* Row t of the step.  Stages also compute places for further rows than the step has (compiler/schedule/persistent.h); these repeat the
 * last row, also where a row depends on those before it. */
const char *dop_emit_own_row(dop_emit *e, const char *t);
/* Can the node be evaluated 4 columns at a time?  (Every width on the way is a multiple of 4 or 1.) */
bool dop_emit_wide(const dop_emit *e, dop_node_id node);

/* Distance in values between rows of a stored node; weights are padded for vector loads. */
uint32_t dop_row_values(const dop_graph *g, dop_node_id id);

#endif
