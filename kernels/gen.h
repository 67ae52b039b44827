/* Inside the kernel generators: one file per family of kernels, with its descriptors, sharing the emitter, the row
 * program and the template filler. */
#ifndef DOPPLER_KERNELS_GEN_H
#define DOPPLER_KERNELS_GEN_H

#include "ir/region.h"
#include "kernels/descriptor.h"

struct dop_gen {
    const dop_templates *templates;
    const dop_descriptor *descriptor;
    const dop_selection *choice;
    dop_emit e;
    dop_buf main;     /* the filled template */
    const char *nest; /* or the printed nest, and its dump; NULL: none */
    uint32_t grid[3];
    bool merges;       /* attention merges its splits, and counts the workgroups that have finished theirs */
    bool claims;       /* workgroups claim what they do */
    bool hands_on;     /* some workgroups read values that others of the same dispatch stored */
    bool experts;      /* addresses of experts' weights are computed */
    bool halves;       /* factors of products are f16 */
    bool own_sums;     /* the row program begins a stage and runs once, so its first sums take one barrier each */
    bool ends_in_sum;  /* the program ended with such a sum, whose barrier made its stores to shared memory visible */
    uint32_t sums;     /* number of such sums so far */
    bool votes;        /* the code uses votes of a subgroup */
    uint64_t failures; /* dop_buf_failures() at the start; if it has grown, a piece of the text is missing */
};
/* Enough to examine the region; emitting also needs templates. */
void dop_gen_open(dop_gen *gen, const dop_site *s, const dop_descriptor *d, const dop_selection *choice,
                  dop_diag *diag);
/* Are the first words of weights loaded before they are used? */
bool dop_gen_ahead(const dop_gen *gen);
/* What is loaded then, for dop_ahead of common.glsl, of a unit of so many bytes. */
const char *dop_gen_first_word(dop_gen *gen, const char *matrix, const char *unit, uint32_t bytes);
/* Bytes of shared memory that the kernel takes. */
uint32_t dop_gen_shared(dop_gen *gen);
/* The field of the step record that counts persistent runs of schedules with max_t rows. */
const char *dop_kernel_runs(dop_emit *e, uint32_t max_t);

enum { DOP_MAX_KEYS = 80 };

typedef struct dop_keys {
    uint32_t n; /* more than DOP_MAX_KEYS: the last ones were not kept */
    struct {
        const char *key, *value;
    } items[DOP_MAX_KEYS];
} dop_keys;

/* value: NULL is an empty text, as of a buffer that nothing was put into.  Where there are too many keys, dop_template_fill
 * fails. */
void dop_keys_set(dop_keys *k, const char *key, const char *value);
/* Keeps the text in the arena, and frees it. */
const char *dop_gen_keep(dop_gen *gen, dop_buf *text);
void dop_keys_num(dop_gen *gen, dop_keys *k, const char *key, uint32_t value);
dop_status dop_template_fill(dop_gen *gen, const char *name, const dop_keys *keys, dop_buf *out);

/* A row program: the region's nodes over one vector (a row, or one head), walked by a team of invocations (the whole
 * workgroup, or one subgroup) in as few passes as its reductions allow.  Short rows are held in registers; for long ones each
 * pass recomputes values from memory.  Rotary partners are recomputed too, so that only sums cross invocations. */
typedef struct dop_rowprog {
    const dop_node_id *nodes; /* members, in topological order */
    uint32_t n_nodes;
    uint32_t len;         /* values of the vector */
    const char *t;        /* token */
    const char *unit;     /* unit number, "0u" for whole rows */
    uint32_t lanes;       /* of the team; 0: the workgroup */
    const char *lane;     /* number in the team */
    const char *store_if; /* condition on storing region outputs, NULL: always */
    /* Results for the code after the program: a vector, passed to the caller's macros stage_PUT(i, vec4), i counted in fours,
     * or stage_PUT1(i, float), with its first value at stage_base; and statistics, as variables bound in the emitter. */
    dop_node_id staged; /* 0: none.  Any node readable from the program's nodes (an expression) */
    const char *stage, *stage_base;
    /* Values of the same index that may be staged instead of `staged`: the variable `which` holds the number of the one that
     * is, from 1 on (0: `staged`); or all of them are (NULL), each `apart` values behind the one before. */
    const dop_node_id *others;
    uint32_t n_others;
    const char *which;
    uint32_t apart;
    const char *times; /* macro that maps a value's index to a factor, applied before staging; NULL: none */
    uint32_t serial;   /* distinguishes the names of several programs in one kernel */
    /* Where loads of weights may go: in the scope around `body` but before it, and before waiting for other stages; NULL: with
     * the other loads. */
    dop_buf *constants;
} dop_rowprog;

/* Appends statements to `body`.  Statistics stay bound in gen->e.  A barrier is needed before other invocations read what
 * was staged or stored. */
void dop_gen_rowprog(dop_gen *gen, const dop_rowprog *p, dop_buf *body);
/* Does it walk four values at a time? */
bool dop_rowprog_wide(const dop_gen *gen, const dop_rowprog *p);

/* An attention region: its node (attention or attn_split) and shape.  Templates define DOP_T(j) and DOP_H(j), token and
 * query head of row j of `rows`, the constants D, DV, R and SUBGROUPS, the shared array dop_q, and the variables that the pieces
 * below name. */
typedef struct dop_attn {
    dop_node_id id;
    const dop_node *n;
    uint32_t dim, heads, kv, group, rows; /* dim: values of a query and a key */
    uint32_t value_dim, value_stride,
        value_start;             /* values of one V; distance between two in memory; values of a row before the first */
    uint32_t splits, max_splits; /* splits of the cache, and the graph's capacity for them */
    uint32_t round;              /* rows of which splits have whole multiples where possible; 0: none */
    uint32_t merged_heads;       /* heads that a workgroup merges */
    const char *head0;           /* the first of these */
    bool keeps[2]; /* K, V: this step's row is also put at DOP_NEW0, DOP_NEW1, for the workgroup itself; in a
                                    stage of several rows those of the sequence, DOP_NEW words of four apart */
} dop_attn;
dop_attn dop_attn_find(const dop_gen *gen); /* rows is left to the template */
dop_attn dop_attn_at(const dop_site *s);    /* the same, before anything is generated */
/* Does the region compute query heads by a row program, or write this step's rows of the caches? */
bool dop_attn_makes_heads(const dop_gen *gen);
/* Refuses heads that no kernel of attention can compute. */
dop_refusal dop_attn_refuses_slopes(const dop_site *s); /* the same, for variants without ALiBi */
dop_refusal dop_attn_refuses(const dop_site *s);
dop_refusal dop_attn_refuses_step(const dop_site *s); /* ... for those that read keys from caches only */
/* May a step have rows of several sequences? */
bool dop_attn_mixes(const dop_site *s);
/* Most positions that one workgroup walks over; and iterations of the loops before and after them, for so many query rows. */
uint64_t dop_attn_reaches(const dop_site *s, const dop_attn *a);
uint64_t dop_trips_heads(const dop_site *s, const dop_tile *tile, const dop_attn *a, uint32_t rows);
/* The tile of the variants without matrix units. */
void dop_attn_tile(const dop_site *s, dop_tile *tile);
/* Does the region make this step's row of a cache (0: K, 1: V), or receive it from the stage that writes it? */
bool dop_attn_has_row(const dop_gen *gen, const dop_attn *a, uint32_t which);
/* Macros that templates use for positions: DOP_FIRST(p), the first one that a query at p sees, and DOP_SLOT(p), the row of p in
 * the cache, for positions from DOP_RING_FROM(first) on. */
void dop_attn_positions(dop_gen *gen, const dop_attn *a, dop_buf *decls);
/* The template's constants D, DV, VS (value_stride), V0 (value_start) and KV. */
void dop_attn_shape(dop_gen *gen, const dop_attn *a, dop_keys *keys);
/* --- gen_cache.c: rows of caches, by how they are stored --- */
/* Is K (0) or V (1) stored in blocks?  Are both stored so that kernels load eight values at once? */
bool dop_attn_in_blocks(const dop_graph *g, const dop_attn *a, uint32_t which);
bool dop_attn_in_eights(const dop_graph *g, const dop_attn *a);
/* For kernels whose invocations do not share a block: the region writes a cache that is stored in blocks. */
dop_refusal dop_attn_refuses_blocks(const dop_site *s);
/* Macros DOP_AT_K(p), DOP_LD4_K(at, d), DOP_LD8_K, DOP_PIECE_K, DOP_LO_K, DOP_HI_K, and the same of V.  `words` loads 16 bytes. */
void dop_attn_loads(dop_gen *gen, const dop_attn *a, const char *words, dop_buf *out);
/* Macros DOP_ROW_K(p), DOP_LD_K(at, piece) and the rest; `words`: reference types of 16 bytes for K and V. */
void dop_attn_pieces(dop_gen *gen, const dop_attn *a, const char *const words[2], dop_buf *out);
void dop_attn_made(dop_gen *gen, const dop_attn *a, dop_buf *out);
/* Query rows into dop_q; cache writes of this step. */
void dop_attn_prologue(dop_gen *gen, const dop_attn *a, dop_buf *body);
/* The body of dop_store_row(t, h, d, o, m, l, split): four values from column d of head h. */
/* Key SEQUENCE: finds dop_first, the first row in the caches of the sequence that `row` belongs to, where there are several. */
void dop_attn_sequence(dop_gen *gen, const dop_attn *a, const char *row, dop_keys *keys, dop_buf *decls);
void dop_attn_store(dop_gen *gen, const dop_attn *a, dop_buf *store);
/* Code of the last workgroup of a KV head, which merges the rows of its query heads; and the store of four values `o` at
 * column c of `merged` by a workgroup that has nothing to merge. */
void dop_attn_merge(dop_gen *gen, const dop_attn *a, dop_node_id merged, dop_buf *out);
void dop_attn_store_whole(dop_gen *gen, const dop_attn *a, dop_node_id merged, dop_buf *out);
/* Key TAIL: the product that a workgroup computes of heads that it has completed. */
void dop_attn_tail(dop_gen *gen, const char *first, const char *n, uint32_t at_once, dop_buf *decls, dop_keys *keys);
/* Where keys are of this step: declares which of its rows each of n tokens sees, from[i] .. pq[i], and all of them together,
 * lo .. hi - 1; token: the row of token i. */
const char *dop_attn_span(dop_gen *gen, const dop_attn *a, const char *n, const char *token);
const char *dop_attn_sink(dop_gen *gen, const dop_attn *a);                 /* head h's sink into o, top, sum */
const char *dop_attn_score(dop_gen *gen, const dop_attn *a, const char *x); /* from a product of query and key */

/* --- choices of experts: gen_choice.c ---------------------------------------------------------------------------------- */

/* Rows of scores and the values computed from them, one after the other, in shared memory. */
typedef struct dop_choice_program {
    const dop_node_id *nodes; /* in topological order */
    uint32_t n_nodes;
    const char *t;        /* row of the step */
    const char *store_if; /* condition on storing region outputs, NULL: always */
    dop_node_id kept[2];  /* values that always become rows, loaded where they are not computed */
    uint32_t n_kept;
} dop_choice_program;

/* Appends statements to `body`, which all invocations of the workgroup run.  Values are bound in gen->e afterwards, the kept
 * ones as rows of shared memory that `decls` declares. */
void dop_gen_choice(dop_gen *gen, const dop_choice_program *p, dop_buf *decls, dop_buf *body);
/* Name of the row of a kept value. */
const char *dop_choice_row(const dop_gen *gen, dop_node_id id);
/* Bytes of shared memory that it takes, at most. */
uint32_t dop_choice_bytes(const dop_gen *gen, const dop_choice_program *p);

/* --- products: products.c --------------------------------------------------------------------------------------------- */

/* The facts of a region's products that determine its tile. */
typedef struct dop_products {
    dop_node_id first;
    uint32_t k;    /* values of a row of the activation */
    uint32_t rows; /* of all matrices */
    uint32_t most; /* most products that one output is computed from */
    dop_type type; /* weights of the first */
} dop_products;
dop_products dop_products_of(const dop_site *s);
/* Refuses weights that no kernel can read. */
dop_refusal dop_products_refuse(const dop_site *s);

/* A matmul region as its generators need it: the region's analysis, and what depends on the kernel. */
typedef struct dop_parts {
    uint32_t n;
    const dop_segment *part;
    dop_node_id act; /* activation: source 0 of every matmul, or of the part at hand */
    bool ints;       /* integer products; those of the part at hand */
    bool mixed;      /* ... of some parts; a workgroup of the others stages floats */
    uint32_t n_acts; /* activations, of which there may be several; by the number that a part has */
    const dop_node_id *acts;
    uint32_t k;
    bool staged;      /* the activation lies in shared memory: because of the row program, or by choice */
    uint32_t n_stats; /* statistics of the activation row that are needed only after the sum */
    const dop_node_id *stats;
    uint32_t n_prog; /* nodes of the row program when staged */
    const dop_node_id *prog;
    uint32_t unit;   /* values per step: the largest unit of all weight types, at least 8 */
    const char *t;   /* row of the step */
    bool experts;    /* every product has a matrix for each expert */
    bool own_rows;   /* ... and each slot its own row of the activation */
    uint32_t slots;  /* of each product; 1 without experts */
    dop_node_id ids; /* as in the analysis; so is the sum */
    dop_node_id sum;
    dop_node_id beside; /* as in the analysis; 0: none */
    uint32_t k2;        /* values of its row */
} dop_parts;

/* Errors: weights of a type that no kernel reads. */
dop_status dop_gen_parts(const dop_gen *gen, dop_parts *out);
/* Operations of the region that one value takes; it stops counting at `most`. */
uint32_t dop_gen_operations(const dop_gen *gen, dop_node_id id, uint32_t most);
/* A vector of so many weights from which the region computes a value of a row, one by one: 0: none. */
dop_node_id dop_gen_vector(const dop_gen *gen, dop_node_id id, uint32_t n_values);
/* The largest unit of the part's weight types. */
uint32_t dop_part_unit(const dop_graph *g, const dop_segment *part);
/* The call of a part's function, for workgroups before `end`; 0: for all remaining ones. */
void dop_gen_call(dop_buf *calls, const char *call, uint32_t end);
uint32_t dop_pow2_floor(uint32_t v);
/* So many invocations of a workgroup, or as many as the target has. */
uint32_t dop_wg_of(const dop_target *t, uint32_t invocations);

/* --- one row, or a few: gen_gemv.c --- */
/* What a descriptor's emit and shared do; the descriptors are in gemv_variants.c. */
dop_status dop_gemv_emit(dop_gen *gen);
uint32_t dop_gemv_shared(dop_gen *gen);
/* gemv_tiles.c: what a descriptor's tile and as_stage do. */
void dop_gemv_tile(const dop_site *s, dop_tile *tile);
void dop_gemv_tile_i8(const dop_site *s, dop_tile *tile); /* for the weights of integer products */
const char *dop_gemv_stage(const dop_site *s, dop_tile *tile);
/* The row of the product beside goes behind the `first` values of the others. */
void dop_stage_beside(dop_gen *gen, const dop_parts *p, uint32_t first, dop_buf *body);
/* Partial arg-max of the rows that a workgroup of gemv made, (value, index) pairs: gen_argmax.c. */
void dop_gemv_argmax(dop_gen *gen, const dop_segment *part, uint32_t n_wg, dop_buf *decls, dop_buf *begin,
                     dop_buf *end);
/* --- products of a few rows: gen_few.c, and as a stage gen_few_stage.c --------------------------------------------------- */

/* How much of the rows lies in shared memory at a time. */
typedef struct dop_few_piece {
    uint32_t units; /* of each row */
    uint32_t n;     /* pieces of a row */
    uint32_t bytes; /* of a unit of one row */
    bool half;      /* floats are stored as halves */
} dop_few_piece;
dop_few_piece dop_few_piece_of(const dop_site *s, bool ints, bool stage);
uint32_t dop_few_unit(const dop_graph *g,
                      const dop_region *r); /* values of a unit: the largest of the region's weights */
/* The body of dop_put_rows(c0) of a stage; `done` gives statistics names where a row t is stored.  And how many partial sums of a
 * statistic there are. */
void dop_few_receive(dop_gen *gen, const dop_parts *p, const dop_few_piece *piece, dop_buf *receive, dop_buf *done);
uint32_t dop_few_stat_values(const dop_gen *gen, const dop_parts *p, const dop_few_piece *piece);
const char *dop_few_stage(const dop_site *s, dop_tile *tile);

/* --- on CPU devices: gen_rows.c; the descriptors are in rows_variants.c --- */
dop_status dop_rows_emit(dop_gen *gen);
uint32_t dop_rows_shared(dop_gen *gen);

/* --- products by expert: gen_group.c ----------------------------------------------------------------------------------- */

/* Which rows a tile computes: those of the step in their order, or the pairs of a block of group_rows (ops.def). */
typedef struct dop_blocks {
    dop_node_id id; /* the blocks; 0: rows in their order */
    uint32_t n, span;
    uint32_t slots; /* pairs of a row */
    bool by_pair;   /* the activation has a row for each pair, [T,k,K]; else one for each row of the step */
} dop_blocks;
dop_blocks dop_blocks_of(const dop_graph *g, const dop_region *r);
/* Refuses rows that tiles cannot make: without blocks, or in blocks of other sizes. */
dop_refusal dop_blocks_refuse(const dop_site *s);
uint32_t dop_blocks_bytes(const dop_gen *gen, uint32_t bm); /* of shared memory, in tiles of bm rows */
/* Declares dop_pair[BM], the pairs of a workgroup, and dop_matrix, their expert. */
void dop_blocks_declare(const dop_blocks *b, dop_buf *decls);
/* The start of main(): finds both for tile number `tile`, and returns where there are none. */
void dop_blocks_begin(dop_gen *gen, const dop_blocks *b, const char *tile, dop_buf *out);
/* The row of the step that `pair` belongs to; `column` becomes the place of the pair's column c of n in a value [T,k,n]. */
const char *dop_blocks_row(dop_gen *gen, const dop_blocks *b, const char *pair);
const char *dop_blocks_column(dop_gen *gen, const dop_blocks *b, const char *pair, uint32_t n);

/* --- products with a matrix for each expert: gen_expert.c ---------------------------------------------------------------- */

/* What expert kernels of few rows need besides gemv: the row and slot of a workgroup, the choice of experts, its matrices. */
void dop_expert_begin(dop_gen *gen, const dop_parts *p, dop_buf *decls, dop_buf *before);
/* Where the slot's matrix in weight w begins ("dop_expert(a3, ...)"). */
const char *dop_expert_weights(dop_gen *gen, const dop_parts *p, dop_node_id w, const char *slot);
/* The row program that stages the activation of the workgroup's slot, or of all slots where they are summed up; *out_each: it
 * must run for each slot dop_j. */
void dop_expert_program(dop_gen *gen, const dop_parts *p, uint32_t k_pad, dop_rowprog *prog, dop_buf *decls,
                        bool *out_each);
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

/* Counts of a loop of n / of iterations; of a sum over n lanes; and of a row program and everything else that runs before the
 * products, for `rows` rows of the step. */
uint64_t dop_turns(uint64_t n, uint64_t of);
uint32_t dop_halvings(uint32_t n);
uint64_t dop_trips_program(const dop_site *s, const dop_program *p, uint32_t len, uint32_t lanes);
uint64_t dop_trips_prologue(const dop_site *s, const dop_tile *tile, uint32_t rows);
/* For `trips` of descriptors: products of gen_gemv.c and gen_few.c, products in tiles, and the other variants by name. */
uint64_t dop_trips_gemv(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_tiles(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_row(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_scan(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_scan_chunks(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_choice(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_argmax(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_group(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_dequant(const dop_site *s, const dop_tile *tile);
/* Would the driver end the loops too early?  Never where the target states no limit. */
bool dop_trips_too_many(const dop_site *s, const dop_descriptor *d, const dop_tile *tile);

enum { DOP_ROWS_TILE = 64 }; /* positions of attention_rows between two rescalings */

/* --- integer products: int8.c ---------------------------------------------------------------------------------------- */

/* Why the weights of a region, or the target, do not allow integer products. */
dop_refusal dop_int8_refuses(const dop_site *s);
/* The same of kernels for parts with such weights beside parts of floats, whose workgroups make products of one part. */
dop_refusal dop_int8_refuses_mixed(const dop_site *s);
bool dop_int8_mixed(const dop_graph *g, const dop_region *r);    /* are there both? */
bool dop_int8_part(const dop_graph *g, const dop_segment *part); /* is a part one of integer products? */
dop_type dop_int8_type(const dop_site *s);                       /* of the weights that a tile is for */
const char *dop_int8_avoid(const dop_site *s);                   /* as a descriptor does */
/* Does the kernel look levels up in a table, of DOP_LEVEL_BYTES in shared memory, that is filled before anything else? */
enum { DOP_LEVEL_BYTES = 1024 };
bool dop_int8_levels(const dop_gen *gen);
/* Bytes of shared memory for the staged row of k_pad values that prog makes. */
uint32_t dop_int8_bytes(const dop_gen *gen, const dop_rowprog *prog, uint32_t k_pad);
/* Declares that row and the macros with which prog stores values.  *out_direct: values are quantized as they come; otherwise
 * dop_xi_row() must be called between two barriers after the row is complete. */
dop_status dop_int8_declare(dop_gen *gen, const dop_rowprog *prog, uint32_t k_pad, dop_buf *decls, bool *out_direct);

#endif
