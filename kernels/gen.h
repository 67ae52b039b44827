/* What the kernel generators share: the state of a generation, row programs, the template filler, and the functions by which the
 * files of the families (one per family of kernels, with its descriptors) call each other. */
#ifndef DOPPLER_KERNELS_GEN_H
#define DOPPLER_KERNELS_GEN_H

#include "ir/region.h"
#include "kernels/descriptor.h"

struct dop_gen {
    const dop_templates *templates;
    const dop_descriptor *descriptor;
    const dop_selection *choice;
    dop_site site;
    dop_emit e;
    dop_buf main;     /* the filled template */
    const char *nest; /* the dump of the nest from which `main` was printed; NULL: `main` is a filled template */
    uint32_t grid[3]; /* workgroups; 1 where an emitter sets nothing */
    bool merges; /* the last workgroup to finish merges what all made (splits of attention, values of a tail's heads) */
    bool claims; /* workgroups claim their blocks of work from a counter, instead of having fixed shares */
    bool hands_on; /* some workgroups read values that other workgroups of the same dispatch stored */
    bool experts;  /* the kernel computes addresses of experts' weights */
    bool halves;   /* factors of products are rounded to f16 */
    uint32_t book; /* bytes of the weights' codebook, which the kernel copies to shared memory; 0: it does not */
    /* Own sums (dop_own_sum of common.glsl): the row program begins a stage and runs once, so that its first two sums take one
     * barrier each. */
    bool own_sums;
    uint32_t sums;               /* number of own sums so far */
    bool votes;                  /* the code uses votes of a subgroup */
    uint64_t failures;           /* dop_buf_failures() at the start; if it has grown, a piece of the text is missing */
    struct dop_gen_texts *texts; /* of dop_gen_text() */
};
/* Enough to examine the region; emitting also needs templates, and dop_gen_close() afterwards. */
void dop_gen_open(dop_gen *gen, const dop_site *s, const dop_descriptor *d, const dop_selection *choice,
                  dop_diag *diag);
void dop_gen_close(dop_gen *gen);
/* A text that is written piece by piece; it lives until dop_gen_close(). */
dop_buf *dop_gen_text(dop_gen *gen);
/* Does the kernel prefetch the first words of its weights? */
bool dop_gen_ahead(const dop_gen *gen);
/* The expression of the prefetched word, for dop_ahead of common.glsl: the first word of a unit of `bytes` bytes. */
const char *dop_gen_first_word(dop_gen *gen, const char *matrix, const char *unit, uint32_t bytes);
/* Bytes of shared memory that the kernel takes. */
uint32_t dop_gen_shared(dop_gen *gen);
/* The field of the step record that counts persistent runs of schedules with max_t rows. */
const char *dop_kernel_runs(dop_emit *e, uint32_t max_t);

enum { DOP_MAX_KEYS = 80 };

/* The keys of a template and the texts that dop_template_fill() puts in their places. */
typedef struct dop_keys {
    uint32_t n; /* more than DOP_MAX_KEYS: the last ones were not kept */
    struct {
        const char *key, *value;
        const dop_buf *text; /* the value is what this text has when the template is filled; NULL: `value` */
    } items[DOP_MAX_KEYS];
} dop_keys;

/* Where there are too many keys, dop_template_fill fails. */
void dop_keys_set(dop_keys *k, const char *key, const char *value);
/* A text of the generation (dop_gen_text) that is the value of the key. */
dop_buf *dop_keys_text(dop_gen *gen, dop_keys *k, const char *key);
/* Numbers are values of keys and, where `out` is not NULL, constants that it gets: `#define NAME 5u`; where the name begins with #,
 * without the u, which conditions of the preprocessor do not take. */
typedef struct dop_number {
    const char *name;
    uint32_t value;
} dop_number;
void dop_keys_numbers(dop_gen *gen, dop_keys *k, dop_buf *out, const dop_number *numbers, size_t n);
#define DOP_NUMBERS(gen, keys, out, ...)                                \
    dop_keys_numbers(gen, keys, out, (const dop_number[]){__VA_ARGS__}, \
                     sizeof((const dop_number[]){__VA_ARGS__}) / sizeof(dop_number))
/* Keeps the text in the arena, and frees it. */
const char *dop_gen_keep(dop_gen *gen, dop_buf *text);
dop_status dop_template_fill(dop_gen *gen, const char *name, const dop_keys *keys, dop_buf *out);
/* Finishes the nest and makes it the text of the kernel, and its dump. */
struct dop_nest;
dop_status dop_gen_print_nest(dop_gen *gen, struct dop_nest *n);
/* A hole with numbers, and a library of functions that may use them; NULL: none. */
void dop_gen_library(dop_gen *gen, struct dop_nest *n, const char *file, const dop_number *numbers, size_t count);
#define DOP_LIBRARY(gen, n, file, ...)                               \
    dop_gen_library(gen, n, file, (const dop_number[]){__VA_ARGS__}, \
                    sizeof((const dop_number[]){__VA_ARGS__}) / sizeof(dop_number))

/* A row program: the region's nodes over one vector (a row, or one head), walked by a team of invocations (the whole
 * workgroup, or one subgroup) in as few passes as its reductions allow.  Short rows are held in registers; for long ones each
 * pass recomputes values from memory.  Rotary partners are recomputed too, so that only sums cross invocations. */
typedef struct dop_rowprog {
    const dop_node_id *nodes; /* members, in topological order */
    uint32_t n_nodes;
    uint32_t len;     /* values of the vector */
    const char *t;    /* row of the step, a GLSL expression */
    const char *unit; /* unit number, "0u" for whole rows */
    uint32_t lanes;   /* cooperative lanes: invocations that walk over the vector together; 0: the whole workgroup */
    const char *lane; /* an invocation's number among the cooperative lanes */
    const char *store_if; /* condition on storing region outputs, NULL: always */
    /* Results for the code after the program: a vector, passed to the caller's macros stage_PUT(i, vec4), i counted in fours,
     * or stage_PUT1(i, float), with its first value at stage_base; and statistics, as variables bound in the emitter. */
    dop_node_id staged; /* 0: none.  Any node readable from the program's nodes (an expression) */
    const char *stage, *stage_base;
    /* Further values that may be staged.  With `which` one value is: that GLSL variable holds 0 for `staged`, or from 1 on the
     * number of one of the others.  With `which` NULL all values are staged, each `apart` values behind the one before. */
    const dop_node_id *others;
    uint32_t n_others;
    const char *which;
    uint32_t apart;
    const char *times; /* macro that maps a value's index to a factor, applied before staging; NULL: none */
    uint32_t padded;   /* values of a staged vector with the zeros behind it; not above `len`: there are none */
    uint32_t memory;   /* bits of the nest's memory that staging writes (dop_nest_memory) */
    uint32_t factors;  /* bits of the memory that `times` reads */
    /* A choice: values one at a time, in loops; every invocation sums up a short row by itself; staged in the array `stage`. */
    bool columns;
    uint32_t serial; /* distinguishes the names of several programs in one kernel */
} dop_rowprog;

/* Appends the program's statements to the nest.  Statistics stay bound in gen->e. */
void dop_nest_rowprog(dop_gen *gen, const dop_rowprog *p, struct dop_nest *n);
/* The same as text, for templates.  A barrier is needed before other invocations read what was staged or stored. */
void dop_gen_rowprog(dop_gen *gen, const dop_rowprog *p, dop_buf *body);
/* Does the row program walk over its vector four values at a time? */
bool dop_rowprog_wide(const dop_gen *gen, const dop_rowprog *p);

/* An attention region: its node (attention or attn_split) and shape.  Placements (attend.h) define DOP_T(j) and DOP_H(j), token and
 * query head of row j of `rows`, the constants D, DV, R and SUBGROUPS, the shared array dop_q, and the variables that the pieces
 * below name. */
typedef struct dop_attn {
    dop_node_id id;
    const dop_node *n;
    uint32_t dim, heads, kv, group, rows; /* dim: values of a query and a key */
    uint32_t value_dim, value_stride,
        value_start;             /* values of one V; distance between two in memory; values of a row before the first */
    uint32_t splits, max_splits; /* splits of the cache, and the number of splits that the graph has memory for */
    uint32_t round;              /* cache rows, of which a split has a whole multiple where possible; 0: any number */
    uint32_t merged_heads;       /* query heads whose splits a workgroup merges */
    const char *head0;           /* the first query head that the workgroup merges, a GLSL expression */
    bool keys_only;              /* of an index (index_scores): there are no values */
    bool keeps[2]; /* K, V: this step's row is also put at DOP_NEW0, DOP_NEW1, for the workgroup itself; in a
                                    stage of several rows those of the sequence, DOP_NEW words of four apart */
} dop_attn;
dop_attn dop_attn_at(const dop_site *s); /* rows is left to the placement */
/* Are values columns of the keys' rows, as in latent attention? */
bool dop_attn_values_in_keys(const dop_graph *g, const dop_attn *a);
/* Does the region compute query heads by a row program, or write this step's rows of the caches? */
bool dop_attn_makes_heads(const dop_gen *gen);
/* Refuse attention that a kernel cannot compute.  dop_attn_refuses: heads that no kernel can; _slopes, for variants whose scores
 * do not depend on the distance: ALiBi and tables of distances as well; _step, for variants that read caches only: keys of this
 * step as well. */
dop_refusal dop_attn_refuses_slopes(const dop_site *s);
dop_refusal dop_attn_refuses(const dop_site *s);
dop_refusal dop_attn_refuses_step(const dop_site *s);
/* May a step have rows of several sequences, or are its rows to be taken as if they were? */
bool dop_attn_mixes(const dop_site *s);
/* Loop trip counts of attention: the most positions that one workgroup walks over; and the iterations of the prologue and epilogue
 * around them, for `rows` query rows. */
uint64_t dop_attn_reaches(const dop_site *s, const dop_attn *a);
uint64_t dop_trips_heads(const dop_site *s, const dop_tile *tile, const dop_attn *a, uint32_t rows);
/* The tile of the variants without matrix units. */
void dop_attn_tile(const dop_site *s, dop_tile *tile);
/* Does the region make this step's row of a cache (0: K, 1: V), or receive it from the stage that writes it? */
bool dop_attn_has_row(const dop_gen *gen, const dop_attn *a, uint32_t which);
/* Macros that templates use for positions: DOP_FIRST(p), the first one that a query at p sees, and DOP_SLOT(p), the row of p in
 * the cache, for positions from DOP_RING_FROM(first) on. */
void dop_attn_positions(dop_gen *gen, const dop_attn *a, dop_buf *decls);
/* --- gen_cache.c: rows of caches, by how they are stored --- */
/* Is K (0) or V (1) stored in blocks?  Are both stored so that kernels load eight values at once? */
bool dop_attn_in_blocks(const dop_graph *g, const dop_attn *a, uint32_t which);
bool dop_attn_in_eights(const dop_graph *g, const dop_attn *a);
/* For kernels whose invocations do not share a block: the region writes a cache that is stored in blocks. */
dop_refusal dop_attn_refuses_blocks(const dop_site *s);
/* Macros that load four values of a cache, DOP_AT_K(p) and DOP_LD4_K(at, d), or pieces of eight, DOP_ROW_K(p), DOP_LD_K(at, piece)
 * and so on, and with _V for V; words: functions, of an address and an index, that load 16 bytes of K and V. */
void dop_attn_loads(dop_gen *gen, const dop_attn *a, const char *const words[2], dop_buf *out);
void dop_attn_made(dop_gen *gen, const dop_attn *a, dop_buf *out);
/* Where there are several sequences: code that finds dop_first, where the caches of the sequence of row `row` begin. */
const char *dop_attn_sequence(dop_gen *gen, const dop_attn *a, const char *row, dop_buf *decls);
/* Code that declares begin and end, the first and the last that row `t` sees: positions, or, for keys that are values of this step,
 * rows of the step. */
const char *dop_attn_bounds(dop_gen *gen, const dop_attn *a);

/* --- choices of experts: gen_choice.c ---------------------------------------------------------------------------------- */

/* A choice of experts as a program: rows of router scores, and the values computed from them one after the other, in shared
 * memory. */
typedef struct dop_choice_program {
    const dop_node_id *nodes; /* in topological order */
    uint32_t n_nodes;
    const char *t;        /* row of the step */
    const char *store_if; /* condition on storing region outputs, NULL: always */
    dop_node_id kept[2];  /* values that always become rows, loaded where they are not computed */
    uint32_t n_kept;
} dop_choice_program;

/* Appends statements, which all invocations of the workgroup run.  Values are bound in gen->e afterwards, the kept ones as rows of
 * shared memory. */
void dop_gen_choice(dop_gen *gen, const dop_choice_program *p, struct dop_nest *n);
/* Name of the row of a kept value. */
const char *dop_choice_row(const dop_gen *gen, dop_node_id id);
/* Bytes of shared memory that the program takes, at most. */
uint32_t dop_choice_bytes(const dop_gen *gen, const dop_choice_program *p);

/* --- products: products.c --------------------------------------------------------------------------------------------- */

/* The facts of a region's products that determine its tile. */
typedef struct dop_products {
    dop_node_id first;
    uint32_t k; /* depth: values of an activation row (of all slots that are summed up), and of the product beside */
    /* Rows of weights of all matrices and slots together, but for parts that others wait for, which are small and come first; where slots
     * are summed up, of one slot. */
    uint32_t rows;
    uint32_t most; /* largest number of sibling products: products that one output is computed from */
    dop_type type; /* storage type of the weights of `first` */
} dop_products;
dop_products dop_products_of(const dop_site *s);
/* Refuses weights that no kernel can read. */
dop_refusal dop_products_refuse(const dop_site *s);

/* A matmul region as its generators need it: the region's analysis, and what depends on the kernel. */
typedef struct dop_parts {
    uint32_t n;
    const dop_segment *part;
    dop_node_id act; /* activation: source 0 of every matmul, or of the part at hand */
    bool ints;       /* products are of packed integers (in a record for one part: that part's) */
    bool mixed;      /* some parts have products of packed integers, and workgroups of the other parts stage floats */
    uint32_t n_activations; /* activations of the region's products, by dop_segment.act */
    const dop_node_id *activations;
    uint32_t k;
    bool staged;      /* the activation lies in shared memory: because of the row program, or by choice */
    uint32_t n_stats; /* statistics of the activation row that are needed only after the sum */
    const dop_node_id *stats;
    uint32_t n_prog; /* nodes of the row program when staged */
    const dop_node_id *prog;
    uint32_t unit;      /* values per step: the largest unit of all weight types, at least 8 */
    const char *t;      /* row of the step */
    bool experts;       /* every product has a matrix for each expert */
    bool own_rows;      /* with experts: each slot has its own row of the activation */
    uint32_t slots;     /* of each product; 1 without experts */
    dop_node_id ids;    /* as in dop_expert_facts */
    dop_node_id sum;    /* as in dop_expert_facts */
    dop_node_id beside; /* as in dop_product_facts; 0: none */
    uint32_t k2;        /* values of a row of the activation of `beside` */
} dop_parts;

/* Errors: weights of a type that no kernel reads. */
dop_status dop_gen_parts(const dop_gen *gen, dop_parts *out);
/* The number of operations of the region that computing one value of node `id` takes, or `most` where it is larger. */
uint32_t dop_gen_operations(const dop_gen *gen, dop_node_id id, uint32_t most);
/* The weight vector of n_values values (as that of a norm) that the region applies element by element to compute node `id`; 0:
 * there is none. */
dop_node_id dop_gen_vector(const dop_gen *gen, dop_node_id id, uint32_t n_values);
/* The largest unit of the part's weight types. */
uint32_t dop_part_unit(const dop_graph *g, const dop_segment *part);
/* Values of a step of a region's products: the largest unit of all its weight types, at least 8. */
uint32_t dop_products_unit(const dop_graph *g, const dop_region *r);
/* Appends the call of a part's function by the workgroups whose numbers are below `end`; 0: by all remaining workgroups. */
void dop_gen_call(dop_buf *calls, const char *call, uint32_t end);
/* gen_waits.c: parts whose values other parts of the dispatch wait for (dop_product_facts.awaited).
 * order: the numbers of the parts as they come in the grid (order[p->n]).
 * declare, define: the functions of waits, in a hole that the numbers of workgroups fill later: those that are awaited, and all others, each
 *   times `tiles` (an expression; NULL: once).  NULL: nothing waits, or mailboxes do.
 * call: a part's call, and the count of the workgroup behind it. */
struct dop_stmt;
void dop_waits_order(const dop_gen *gen, const dop_parts *p, uint32_t *order);
struct dop_stmt *dop_waits_declare(dop_gen *gen, struct dop_nest *n);
void dop_waits_define(dop_gen *gen, struct dop_stmt *hole, uint32_t makers, uint32_t takers, const char *tiles);
const char *dop_waits_call(dop_gen *gen, uint32_t part, const char *call);
uint32_t dop_pow2_floor(uint32_t v);
/* Invocations of a workgroup: `invocations`, or the target's maximum where that is smaller. */
uint32_t dop_wg_of(const dop_target *t, uint32_t invocations);

/* --- one row, or a few: gen_gemv.c --- */
/* What a descriptor's emit and shared do; the descriptors are in gemv_variants.c. */
dop_status dop_gemv_emit(dop_gen *gen);
uint32_t dop_gemv_shared(dop_gen *gen);
/* gemv_tiles.c: what a descriptor's tile and as_stage do. */
void dop_gemv_tile(const dop_site *s, dop_tile *tile);
void dop_gemv_tile_i8(const dop_site *s, dop_tile *tile); /* for the weights of integer products */
const char *dop_gemv_stage(const dop_site *s, dop_tile *tile);
/* Stages the row of the product beside (dop_product_facts.beside) in shared memory, behind the `first` values of other products, in
 * the loop that it returns. */
struct dop_stmt *dop_stage_beside(dop_gen *gen, const dop_parts *p, uint32_t first, struct dop_nest *n);
/* Partial arg-max of the rows that a workgroup of gemv made, (value, index) pairs: gen_argmax.c. */
void dop_gemv_argmax(dop_gen *gen, const dop_segment *part, uint32_t n_wg, dop_buf *decls, dop_buf *begin,
                     dop_buf *end);
/* --- products of a few rows: gen_few.c, and as a stage gen_few_stage.c --------------------------------------------------- */

/* The staging of activations for a small batch: how much of the rows lies in shared memory at a time. */
typedef struct dop_few_piece {
    uint32_t units; /* units of each row in a piece */
    uint32_t n;     /* pieces of a row */
    uint32_t bytes; /* bytes that a unit of one row takes in shared memory */
    bool half;      /* floats are staged as halves */
} dop_few_piece;
dop_few_piece dop_few_piece_of(const dop_site *s, bool ints, bool stage);
/* The number of workgroups of all parts together, where each has `rows` rows of its part's matrices. */
uint32_t dop_few_groups(const dop_site *s, uint32_t rows);
/* The body of dop_put_rows(c0) of a stage, which receives rows of the activation from mailboxes and stages them; `done` gets code
 * that names the statistics of row t for the epilogue.  dop_few_stat_values: how many partial sums of a statistic there are. */
void dop_few_receive(dop_gen *gen, const dop_parts *p, const dop_few_piece *piece, dop_buf *receive, dop_buf *done);
uint32_t dop_few_stat_values(const dop_gen *gen, const dop_parts *p, const dop_few_piece *piece);
const char *dop_few_stage(const dop_site *s, dop_tile *tile);

/* --- on CPU devices: gen_rows.c; the descriptors are in rows_variants.c --- */
dop_status dop_rows_emit(dop_gen *gen);
uint32_t dop_rows_shared(dop_gen *gen);

/* --- products by expert: gen_group.c ----------------------------------------------------------------------------------- */

/* Which rows a tile computes: those of the step in their order, or the pairs of a block.  Blocks come from group_rows (ops.def); where
 * every slot has a matrix of its own, a block is a slot's pairs of so many rows of the step that follow one another. */
typedef struct dop_blocks {
    dop_node_id id; /* what has the blocks; 0: slot and rows follow from the block's number */
    uint32_t n;     /* blocks; 0: rows in their order */
    uint32_t span;  /* most pairs of a block */
    uint32_t slots; /* pairs of a row */
    bool by_pair;   /* the activation has a row for each pair, [T,k,K]; else one for each row of the step */
} dop_blocks;
dop_blocks dop_blocks_of(const dop_graph *g, const dop_region *r);
/* Refuses rows that tiles cannot make: without blocks, or in blocks of other sizes. */
dop_refusal dop_blocks_refuse(const dop_site *s);
uint32_t dop_blocks_bytes(const dop_gen *gen, uint32_t bm); /* of shared memory, in tiles of bm rows */
/* The start of main() for products in tiles of BM rows: t0, the first row of tile number `tile`; and of blocks dop_pair[BM], the tile's
 * pairs, and dop_matrix, their expert.  It returns where the tile has no rows.  Returns the number of tiles. */
uint32_t dop_tiles_begin(dop_gen *gen, const char *tile, const char *tokens, dop_buf *decls, dop_buf *out);
/* The row of the step that `pair` belongs to; `column` becomes the place of the pair's column c of n in a value [T,k,n]. */
const char *dop_blocks_row(dop_gen *gen, const dop_blocks *b, const char *pair);
const char *dop_blocks_column(dop_gen *gen, const dop_blocks *b, const char *pair, uint32_t n);

/* --- products with a matrix for each expert: gen_expert.c ---------------------------------------------------------------- */

/* What expert kernels of few rows need besides gemv: the slot of a workgroup, its matrices, and dop_choose(), the choice of experts,
 * for the beginning of main(). */
void dop_expert_begin(dop_gen *gen, const dop_parts *p, struct dop_nest *n);
/* Where the slot's matrix in weight w begins ("dop_expert(a3, ...)"). */
const char *dop_expert_weights(dop_gen *gen, const dop_parts *p, dop_node_id w, const char *slot);
/* The row program that stages the activation of the workgroup's slot, or of all slots where they are summed up; *out_each: it
 * must run for each slot dop_j. */
void dop_expert_program(dop_gen *gen, const dop_parts *p, uint32_t k_pad, const struct dop_nest *n, dop_rowprog *prog,
                        dop_buf *decls, bool *out_each);
uint32_t dop_expert_bytes(dop_gen *gen); /* of shared memory, for the choice */

/* --- a product of each head behind the root: gen_tail.c ------------------------------------------------------------------ */

/* Number of heads in the region's tail, 0: it has none; and values per head. */
uint32_t dop_tail_heads(const dop_gen *gen);
uint32_t dop_tail_depth(const dop_gen *gen);
/* How many of the heads that a workgroup completes it multiplies at once; and bytes of shared memory for that. */
uint32_t dop_tail_at_once(const dop_gen *gen, uint32_t heads);
uint32_t dop_tail_bytes(const dop_gen *gen, uint32_t at_once);
/* Refuses weights of the tail that no kernel can read. */
dop_refusal dop_tail_refuses(const dop_site *s);
/* The function dop_tail(h) for that many heads from h on, if the region has a tail.  All forms of a stage must request their
 * arguments in the same order, because the order numbers them. */
void dop_tail_declare(dop_gen *gen, uint32_t at_once, dop_buf *decls);
/* Appends code of a workgroup that has made its blocks of `rows` rows each, out of `blocks`, which neighbouring workgroups divide
 * evenly; those from number `first` on are of the heads.  It computes the product of every head that it has completed. */
dop_status dop_tail_blocks(dop_gen *gen, uint32_t first, uint32_t rows, uint32_t blocks, dop_buf *out);
/* Iterations of a workgroup that completes all heads, for `trips` of descriptors. */
uint64_t dop_tail_trips(const dop_site *s, const dop_tile *tile);

/* --- how many iterations an invocation makes: trips.c ------------------------------------------------------------------- */

/* Loop trip counts: of a loop that takes `of` of n values at a time; of a sum over n lanes; of a row program; and of the prologue
 * of products (row programs, choice of experts) for `rows` rows of the step. */
uint64_t dop_turns(uint64_t n, uint64_t of);
uint32_t dop_halvings(uint32_t n);
uint64_t dop_trips_program(const dop_site *s, const dop_program *p, uint32_t len, uint32_t lanes);
uint64_t dop_trips_prologue(const dop_site *s, const dop_tile *tile, uint32_t rows);
/* Functions for `trips` of descriptors: dop_trips_gemv for products of gen_gemv.c and gen_few.c, dop_trips_tiles for products in
 * tiles, and the rest for the variants of their names. */
uint64_t dop_trips_gemv(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_tiles(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_row(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_choice(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_argmax(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_group(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_dequant(const dop_site *s, const dop_tile *tile);
/* Would the driver end the loops too early?  Never where the target states no limit. */
bool dop_trips_too_many(const dop_site *s, const dop_descriptor *d, const dop_tile *tile);

enum { DOP_ROWS_TILE = 64 }; /* positions of attention_rows between two rescalings */

/* --- legality of tiles: legal.c ---------------------------------------------------------------------------------------- */

/* Bounds of what one invocation holds and of what is unrolled, whatever the device: a compiler then takes seconds, not minutes. */
enum {
    DOP_MOST_UNROLLED = 2048,  /* products of single values in unrolled loops, for each part */
    DOP_MOST_SUMS = 512,       /* sums that an invocation holds in registers */
    DOP_MOST_STATE = 4096,     /* values of a recurrence's state that an invocation holds */
    DOP_MOST_SIDE = 1024,      /* rows, columns or depth of a tile in shared memory */
    DOP_MOST_FRAGMENTS = 1024, /* products of matrices that a subgroup unrolls */
    DOP_MOST_PIECES = 64,      /* pieces of 8 values that an invocation has on their way from memory */
    DOP_MOST_GROUPS = 65535    /* workgroups in a dimension: what every device can have */
};

/* dop_kernel_legal() for a site, which may be that of a stage. */
bool dop_tile_legal(const dop_site *s, const dop_descriptor *d, const dop_tile *tile, dop_tile_fault *out_fault);
/* Functions for `legal` of descriptors.  Each returns true while no rule is broken, so that later rules may divide by what earlier
 * ones have checked.  dop_check_power: a power of two; _multiple: a multiple of `of`; _most: fields whose product with `each` is
 * bounded, with `what` they multiply; _when: anything else, with the text of the rule. */
bool dop_check_range(dop_check *c, int field, uint32_t least, uint32_t most);
bool dop_check_power(dop_check *c, int field, uint32_t least, uint32_t most);
bool dop_check_multiple(dop_check *c, int field, uint32_t of, uint32_t least, uint32_t most);
bool dop_check_divides(dop_check *c, int field, uint32_t of, const char *what);
bool dop_check_equal(dop_check *c, int field, uint64_t value, const char *what);
bool dop_check_most(dop_check *c, int field, uint64_t value, uint64_t most, const char *what);
bool dop_check_when(dop_check *c, bool holds, int field, const char *rule);
/* gemv_tiles.c: teams of lanes, what a lane holds, and all that dop_gemv_emit needs. */
bool dop_team_legal(dop_check *c);
bool dop_lane_legal(dop_check *c, uint32_t tokens);
void dop_gemv_legal(dop_check *c);

/* --- integer products: int8.c ---------------------------------------------------------------------------------------- */

/* Why the weights of a region, or the target, do not allow integer products. */
dop_refusal dop_int8_refuses(const dop_site *s);
/* Why the region is not for kernels that have parts of integer products beside parts of floats (each workgroup makes products of
 * one part). */
dop_refusal dop_int8_refuses_mixed(const dop_site *s);
bool dop_int8_mixed(const dop_graph *g, const dop_region *r);    /* are there both? */
bool dop_int8_part(const dop_graph *g, const dop_segment *part); /* is a part one of integer products? */
dop_type dop_int8_type(const dop_site *s);                       /* type of the weights by which a tile is chosen */
const char *dop_int8_avoid(const dop_site *s);                   /* for `avoid` of descriptors */
/* Does the kernel look levels of quantized weights up in a table of DOP_LEVEL_BYTES, which the prologue puts into shared memory? */
enum { DOP_LEVEL_BYTES = 1024 };
bool dop_int8_levels(const dop_gen *gen);
/* Bytes of shared memory for the staged row of k_pad values that prog makes. */
uint32_t dop_int8_bytes(const dop_gen *gen, const dop_rowprog *prog, uint32_t k_pad);
/* Declares the staged row of k_pad values in 8 bits, and the macros with which prog stores values.  *out_direct: the macros
 * quantize each value; otherwise dop_xi_row() must be called between two barriers after the row is complete. */
dop_status dop_int8_declare(dop_gen *gen, const dop_rowprog *prog, uint32_t k_pad, dop_buf *decls, bool *out_direct);

#endif
