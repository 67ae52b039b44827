/* What the kernel generators share: the state of a generation, row programs, the template filler, and the functions by which the
 * files of the families (one per family of kernels, with its descriptors) call each other. */
#ifndef DOPPLER_KERNELS_GEN_GEN_H
#define DOPPLER_KERNELS_GEN_GEN_H

#include "ir/region/region.h"
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
/* Bytes of shared memory that the kernel takes. */
uint32_t dop_gen_shared(dop_gen *gen);

enum { DOP_MAX_KEYS = 80 };

/* The keys of a template and the texts that dop_template_fill() puts in their places. */
typedef struct dop_keys {
    uint32_t n; /* more than DOP_MAX_KEYS: the last ones were not kept */
    struct {
        const char *key, *value;
        const dop_buf *text; /* the value is what this text has when the template is filled; NULL: `value` */
    } items[DOP_MAX_KEYS];
} dop_keys;
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
/* gen_waits.c: parts whose values other parts of the dispatch wait for (dop_product_facts.awaited).
 * order: the numbers of the parts as they come in the grid (order[p->n]).
 * declare, define: the functions of waits, in a hole that the numbers of workgroups fill later: those that are awaited, and all others, each
 *   times `tiles` (an expression; NULL: once).  NULL: nothing waits, or mailboxes do.
 * call: a part's call, and the count of the workgroup behind it. */
struct dop_stmt;
/* --- products of a few rows: gen_few.c, and as a stage gen_few_stage.c --------------------------------------------------- */

/* The staging of activations for a small batch: how much of the rows lies in shared memory at a time. */
typedef struct dop_few_piece {
    uint32_t units; /* units of each row in a piece */
    uint32_t n;     /* pieces of a row */
    uint32_t bytes; /* bytes that a unit of one row takes in shared memory */
    bool half;      /* floats are staged as halves */
} dop_few_piece;

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
/* Does the kernel look levels of quantized weights up in a table of DOP_LEVEL_BYTES, which the prologue puts into shared memory? */
enum { DOP_LEVEL_BYTES = 1024 };

#endif
