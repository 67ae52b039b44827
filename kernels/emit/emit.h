/* The emitter: generates GLSL for the value of a node at an index, with all producers in the region inlined.
 *
 * Every value is a matrix [rows, cols], and an index is a pair of GLSL expressions (t, c). Element-wise nodes of the region
 * are expanded recursively, and values from outside are loaded. Values that a template computes itself (a product, a
 * statistic, a staged row) are bound to names beforehand. With width 4, columns c .. c+3 are evaluated at once; c is a
 * multiple of 4. */
#ifndef DOPPLER_KERNELS_EMIT_EMIT_H
#define DOPPLER_KERNELS_EMIT_EMIT_H

#include "ir/graph/graph.h"
#include "ir/target.h"

typedef enum dop_arg_kind {
    DOP_ARG_VALUE,  /* memory of a value, the step record, or numbers */
    DOP_ARG_COUNTS, /* finished workgroups, the last of which merges (dop_last_of); or claimed blocks (dop_claim) */
    DOP_ARG_SUMS,   /* `bytes` of scratch memory for partial sums that workgroups of the dispatch exchange */
    DOP_ARG_TABLE   /* the stage table of a persistent dispatch */
} dop_arg_kind;
enum { DOP_COUNTS_MOST = 128 }; /* maximum number of counters of a dispatch */

/* A kernel argument of eight bytes in the push constants or the parameter record (caps.h): a device address, two numbers that
 * may differ between dispatches of one kernel, or an offset into a view. */
typedef struct dop_kernel_arg {
    dop_node_id value; /* node that owns the memory: a leaf, or a stored value; 0: see kind */
    dop_arg_kind kind;
    uint32_t numbers; /* number of numbers that the argument holds; 0: an address */
    uint32_t number[2];
    uint64_t bytes; /* size of the scratch memory (DOP_ARG_SUMS) */
    bool read, written;
    bool mailbox;  /* the address is that of the value's mailbox, not of its ordinary memory */
    uint32_t view; /* DOP_VIEW_* of the texel buffer through which the memory is read; 0: read by address */
} dop_kernel_arg;

/* Bits by node: routes of a stored value to its readers in a persistent dispatch. DOP_MAILBOX: stages read it from a mailbox
 * (common.glsl). DOP_LEAVES: it is read after the dispatch, so it is also stored in its ordinary memory. The mailbox of a
 * cache write holds this step's row as f32. */
enum { DOP_MAILBOX = 1, DOP_LEAVES = 2 };

/* A binding: a GLSL name used for a node's value instead of code that computes or loads it. */
typedef struct dop_bind {
    dop_node_id node;
    const char *name;
    bool indexed;     /* true: name[c], a staged row of floats; false: name alone */
    const char *base; /* with `indexed`: offset subtracted from c; NULL: 0 */
    /* Statistics of a norm or softmax, from which its value is computed at every requested index: `scale` is the factor,
     * `shift` the mean or the maximum (NULL: none). Both NULL: `name` is the node's value. */
    const char *scale, *shift;
} dop_bind;

/* A value already computed at an index in the current block of code, for reuse by later expressions. */
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
    dop_buf *out;      /* receives the statements */
    /* Optional buffers that receive loads and their index computations instead of `out`, so that all loads are issued before
     * the first use. `constants` receives loads of memory that no dispatch of the step writes (weights), `early` all other
     * loads. */
    dop_buf *constants, *early;
    const char *indent;
    uint32_t n_temps;
    uint32_t n_args, cap_args;
    dop_kernel_arg *args;
    uint64_t types_used; /* weight types that the code decodes, as bits 1 << dop_type: their type files are included */
    uint32_t caps;       /* DOP_CAP_* bits that the emitted code needs */
    uint32_t n_binds, cap_binds;
    dop_bind *binds;
    uint32_t n_memo, cap_memo;
    dop_memo *memo;
    uint32_t multiple;     /* rows of the region's values per row of the step; usually 1 */
    const uint8_t *routes; /* persistent stages: DOP_MAILBOX and DOP_LEAVES bits by node; otherwise NULL */
    uint32_t splits;       /* number of splits of the cache if below the graph's capacity; otherwise 0 */
    const char *limit,
        *ring; /* names of attention's window limit in positions and ring size in rows; NULL: not requested yet */
    /* A stored value whose row length is a number of the dispatch (0: none), and the name of that number. */
    dop_node_id long_row;
    const char *row_values;
    bool viewing;              /* loads may use views: no workgroup of the dispatch writes the memory */
    dop_node_id vector, value; /* the weight vector and the value that are read through views; 0: none yet */
    bool addresses;            /* the code computes addresses: needs dop_at() of common.glsl */
    bool blocks;               /* the code loads or stores blocks of quantized cache rows: needs cache.glsl */
} dop_emit;

typedef struct dop_index {
    const char *t, *c; /* GLSL expressions of type uint: an identifier or a constant */
} dop_index;

void dop_emit_init(dop_emit *e, const dop_graph *g, const dop_region *r, const dop_target *target, dop_diag *diag);

/* Begins a new block of code and forgets the values memoized so far, whose variables end with their block. Bindings stay. */
void dop_emit_scope(dop_emit *e, dop_buf *out, const char *indent);
void dop_emit_bind(dop_emit *e, dop_node_id node, const char *name, bool indexed, const char *base);
/* Binds a norm or softmax that is not split to the names of its row's statistics (dop_bind). */
void dop_emit_bind_norm(dop_emit *e, dop_node_id node, const char *scale, const char *shift);

/* Formats a string in the arena, for names and index expressions that outlive a call. */
const char *dop_emit_str(dop_emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Emits a statement that loads may depend on, such as an index computation. */
void dop_emit_index(dop_emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void dop_emit_line(dop_emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Returns the argument's name for the memory that holds the node ("a3"). dop_emit_step returns that of the step record. */
const char *dop_emit_arg(dop_emit *e, dop_node_id node, bool written);
const char *dop_emit_step(dop_emit *e);
/* Return the record of a row of the step ("a0.rows[t]") and the row's position. */
const char *dop_emit_row(dop_emit *e, const char *row);
const char *dop_emit_position(dop_emit *e, const char *row);
/* Returns the last key position that a query row attends to: its own (causal mask) or the last cached one (full mask). */
const char *dop_emit_seen_position(dop_emit *e, dop_node_id attention, const char *row);
/* Returns the argument for DOP_COUNTS_MOST counters of the dispatch, which are zero before and after it. */
const char *dop_emit_counts(dop_emit *e);
/* Returns the argument of scratch memory for sums that other workgroups read. Its size is the maximum over all calls. */
const char *dop_emit_sums(dop_emit *e, uint64_t bytes);
/* Returns the name ("a3.x") of a new number that may differ between dispatches of this kernel. */
const char *dop_emit_number(dop_emit *e, uint32_t value);
/* Returns the first position that a query at `position` attends to, for the region's attention or the one whose splits it
 * merges. The window limit is a constant if equal in all layers, otherwise a number of the dispatch. "0u": no limit. */
const char *dop_emit_first(dop_emit *e, dop_node_id attention, const char *position);
/* Returns the ring size in rows of the attention's caches: a constant if equal in all layers, otherwise a number of the
 * dispatch. NULL: no attention of the graph has a ring buffer. */
const char *dop_emit_ring(dop_emit *e, dop_node_id attention);
/* Returns the row in paged append state for a position (an expression without side effects). `table` is the offset of the
 * sequence's page table in words of the step record (dop_emit_page_table()). `words` is the reference type used to read
 * it. */
const char *dop_emit_page_table(dop_emit *e, const char *sequence);
const char *dop_emit_page_row(dop_emit *e, const char *words, const char *table, const char *position);
/* Returns the number of rows: "step.n_rows", or "1u" for one-token graphs. In a stage it is the maximum, because surplus rows
 * repeat the last one (common.glsl). */
const char *dop_emit_n_tokens(dop_emit *e);
/* Returns the number of rows of a value that has `multiple` rows per row of the step. */
const char *dop_emit_rows(dop_emit *e, uint32_t multiple);

/* Records the first failure, and returns a placeholder for the value. */
const char *dop_emit_fail(dop_emit *e, dop_status st, const char *what, dop_node_id node);
/* Ensures capacity for one more item of an array in the arena, which keeps the old memory. */
bool dop_emit_grow(dop_emit *e, void **items, uint32_t n, uint32_t *cap, size_t size);
/* Returns the argument of this storage and kind; adds it if it does not exist. */
const char *dop_emit_add_arg(dop_emit *e, dop_node_id storage, dop_arg_kind kind, bool written, bool mailbox);
/* Returns the argument of memory that the dispatch only reads. With e->viewing and DOP_CAP_texels, one weight vector and one
 * value of earlier dispatches are read through views. */
const char *dop_emit_source_arg(dop_emit *e, dop_node_id node);
/* Returns the argument of a cache that attention reads: `view` if the kernel has DOP_CAP_texels, the cache is not stored in
 * blocks and the dispatch does not write it; otherwise an address. */
const char *dop_emit_cache_arg(dop_emit *e, dop_node_id node, uint32_t view);
/* Returns the matrix argument of a product in the form that weight type functions accept (DOP_W of common.glsl): a view with
 * DOP_CAP_texels, otherwise an address. */
const char *dop_emit_matrix_arg(dop_emit *e, dop_node_id weight);

/* Returns the `aux` argument for a weight matrix's load functions (weight_types.h), and requests the type's GLSL file. */
const char *dop_emit_weight(dop_emit *e, dop_node_id node);
uint32_t dop_weight_aux(const dop_graph *g, dop_node_id node); /* `aux` as a number */

/* Returns the address of a weight matrix; for weights of rank 3, that of the matrix of `expert` (a GLSL expression). */
const char *dop_emit_matrix(dop_emit *e, dop_node_id node, const char *expert);
/* Returns an expression that selects address `a` if the condition `first` holds, otherwise `b`. */
const char *dop_emit_either(dop_emit *e, const char *first, const char *a, const char *b);

/* Names for row t of windows (op unfold): coordinates of the first tap before padding, first row of its image, and number of
 * rows of the source. */
typedef struct dop_window_row {
    const char *x, *y, *first, *rows;
} dop_window_row;
/* Names of the source row (0 if outside) and column, and of the condition that the tap is inside. Outside of the source the
 * value is 0. */
typedef struct dop_window_place {
    const char *row, *col, *in;
} dop_window_place;
/* Append the statements that locate a window row, and one of its columns. */
dop_window_row dop_emit_window_row(dop_emit *e, dop_node_id unfold, const char *t);
dop_window_place dop_emit_window(dop_emit *e, dop_node_id unfold, const dop_window_row *row, const char *column);
/* Appends the statements that compute the node's value at the index, and returns its name. */
const char *dop_emit_value(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width);
/* Returns the value of attn_combine (emit_combine.c). */
const char *dop_emit_combine(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width);
/* emit_load.c. dop_emit_load loads a value from outside the region, from column c + `start`. dop_emit_temp assigns an
 * expression to a new variable. dop_emit_has_rows is false for values that do not depend on the token (row vectors), for
 * which t is ignored. */
const char *dop_emit_load(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width, uint32_t start);
/* dop_emit_await emits the wait for all workgroups of the dispatch that make this value (dop_product_facts.awaited). It must
 * precede the load, outside of loops. dop_emit_awaited loads the value. */
void dop_emit_await(dop_emit *e, dop_node_id node);
const char *dop_emit_awaited(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width, uint32_t start);
const char *dop_emit_temp(dop_emit *e, uint32_t width, const char *expr);
bool dop_emit_has_rows(const dop_graph *g, dop_node_id id);
/* Returns the flat index of a value in its node's memory: t * row_values + c + start, without the terms that are zero. */
const char *dop_emit_flat(dop_emit *e, dop_node_id node, dop_index ix, uint32_t row_values, uint32_t start);
/* True if the node is a replace state or its successor. */
bool dop_is_replace_state(const dop_graph *g, dop_node_id id);
/* Emits the store of a value (a name from dop_emit_value) to the node's memory: scratch, result, or, for state_write, the
 * cache row at this token's position (emit_store.c). */
void dop_emit_store(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width, const char *value);
/* True if this step's row of a cache write arrives from another stage through a mailbox. */
bool dop_emit_in_mailbox(const dop_emit *e, dop_node_id node);
/* Returns the argument with the address of a value's mailbox, for code that sends or receives explicitly. */
const char *dop_emit_mailbox_arg(dop_emit *e, dop_node_id node, bool written);
const char *dop_emit_receive(dop_emit *e, dop_node_id node, const char *c);
/* Replace states have several copies per sequence. dop_emit_replace_copy returns the offset of the sequence's current copy,
 * or of the copy `steps` later (an expression; 1u: the copy that this step writes). dop_emit_sequence returns the sequence of
 * a row, 0u if there is only one. */
const char *dop_emit_replace_copy(dop_emit *e, dop_node_id state, const char *sequence, const char *steps);
const char *dop_emit_sequence(dop_emit *e, dop_node_id sequences, const char *row);
/* Returns the number of rows of row t's sequence directly before it in the step (or after it with `behind`), counted up to
 * `most`. */
const char *dop_emit_neighbours(dop_emit *e, const char *t, uint32_t most, bool behind);
/* Returns row t clamped to the rows of the step. Stages compute surplus rows (compiler/schedule/persistent.h), which repeat
 * the last row, even if a row depends on earlier ones. */
const char *dop_emit_own_row(dop_emit *e, const char *t);
/* True if the node can be evaluated 4 columns at a time: every width in its expression is 1 or a multiple of 4. */
bool dop_emit_wide(const dop_emit *e, dop_node_id node);

/* Returns the row stride of a stored node in values; weights are padded for vector loads. */
uint32_t dop_row_values(const dop_graph *g, dop_node_id id);

#endif
