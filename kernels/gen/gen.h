/* Shared by all kernel generators: the generator state, row programs, the template filler, and types that the families of
 * kernels share. */
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
    dop_buf main;     /* the GLSL body: a filled template, or a printed nest */
    const char *nest; /* dump of the nest that `main` was printed from; NULL: `main` is a filled template */
    uint32_t grid[3]; /* grid size in workgroups; 1 unless set by the emitter */
    bool merges;      /* the last workgroup to finish merges all results (splits of attention, per-head products) */
    bool claims;      /* workgroups claim blocks of work from a counter, instead of having fixed shares */
    bool hands_on;    /* some workgroups read values that other workgroups of the same dispatch stored */
    bool experts;     /* the kernel computes addresses of experts' weights */
    bool halves;      /* the factors of products are rounded to f16 */
    uint32_t book;    /* bytes of the weights' codebook, which the kernel copies to shared memory; 0: not copied */
    /* Own sums (dop_own_sum of common.glsl): the row program begins a stage and runs once, so that each of its first two sums
     * needs only one barrier. */
    bool own_sums;
    uint32_t sums;               /* number of own sums so far */
    bool votes;                  /* the code uses subgroup votes */
    uint64_t failures;           /* dop_buf_failures() at the start; an increase means that some text is incomplete */
    struct dop_gen_texts *texts; /* texts allocated by dop_gen_text() */
};
/* Initializes a generator that can analyze the region. Emitting also needs templates, and dop_gen_close() afterwards. */
void dop_gen_open(dop_gen *gen, const dop_site *s, const dop_descriptor *d, const dop_selection *choice,
                  dop_diag *diag);
/* Returns the total bytes of shared memory of the kernel. */
uint32_t dop_gen_shared(dop_gen *gen);

enum { DOP_MAX_KEYS = 80 };

/* The keys of a template and their replacement texts for dop_template_fill(). */
typedef struct dop_keys {
    uint32_t n; /* number of keys; above DOP_MAX_KEYS, the last ones were dropped */
    struct {
        const char *key, *value;
        const dop_buf *text; /* growing text whose content at fill time is the value; NULL: use `value` */
    } items[DOP_MAX_KEYS];
} dop_keys;
/* A number used as a key's value and, if `out` is not NULL, defined as a constant: `#define NAME 5u`. A name that begins with
 * # omits the suffix u, which preprocessor conditions do not accept. */
typedef struct dop_number {
    const char *name;
    uint32_t value;
} dop_number;
void dop_keys_numbers(dop_gen *gen, dop_keys *k, dop_buf *out, const dop_number *numbers, size_t n);
#define DOP_NUMBERS(gen, keys, out, ...)                                \
    dop_keys_numbers(gen, keys, out, (const dop_number[]){__VA_ARGS__}, \
                     sizeof((const dop_number[]){__VA_ARGS__}) / sizeof(dop_number))
/* Finishes the nest, and sets the kernel's text and dump from it. */
struct dop_nest;
dop_status dop_gen_print_nest(dop_gen *gen, struct dop_nest *n);
/* Adds a hole that defines the numbers, followed by a library of functions that may use them (file NULL: none). */
void dop_gen_library(dop_gen *gen, struct dop_nest *n, const char *file, const dop_number *numbers, size_t count);
#define DOP_LIBRARY(gen, n, file, ...)                               \
    dop_gen_library(gen, n, file, (const dop_number[]){__VA_ARGS__}, \
                    sizeof((const dop_number[]){__VA_ARGS__}) / sizeof(dop_number))

/* A row program: computes the region's nodes over one vector (a row, or one head). A group of invocations (the workgroup, or
 * one subgroup) walks over it in as few passes as its reductions allow. Short rows are kept in registers; for long rows each
 * pass recomputes values from memory. Rotary partners are also recomputed, so that only sums cross invocations. */
typedef struct dop_rowprog {
    const dop_node_id *nodes; /* [n_nodes] member nodes, in topological order */
    uint32_t n_nodes;
    uint32_t len;         /* length of the vector in values */
    const char *t;        /* row of the step, a GLSL expression */
    const char *unit;     /* unit number (such as a head), "0u" for whole rows */
    uint32_t lanes;       /* cooperative lanes: invocations that process the vector together; 0: the whole workgroup */
    const char *lane;     /* expression of an invocation's number among the cooperative lanes */
    const char *store_if; /* condition for storing region outputs; NULL: always */
    /* Results for the code after the program: a vector and statistics. The vector is passed to the caller's macros
     * stage_PUT(i, vec4), i counted in fours, or stage_PUT1(i, float), starting at stage_base. Statistics are variables bound
     * in the emitter. */
    dop_node_id staged; /* node to stage: any node that is an expression of the program's nodes; 0: none */
    const char *stage, *stage_base;
    /* Further values to stage. With `which`, one value is staged: that GLSL variable holds 0 for `staged`, or from 1 on an
     * index into `others`. With `which` NULL all values are staged, `apart` values apart. */
    const dop_node_id *others;
    uint32_t n_others;
    const char *which;
    uint32_t apart;
    const char *times; /* macro that maps a value's index to a factor, applied before staging; NULL: none */
    uint32_t padded;   /* length of a staged vector including zero padding; at most `len`: no padding */
    uint32_t memory;   /* shared memory that staging writes, as nest memory bits (dop_nest_memory) */
    uint32_t factors;  /* memory bits that `times` reads */
    /* For expert choices: values are processed one at a time in loops, every invocation reduces a short row by itself, and
     * `stage` is an array. */
    bool columns;
    uint32_t serial; /* makes the names of several programs in one kernel unique */
} dop_rowprog;

/* An attention region: its node (attention or attn_split) and dimensions. Placements (attend.h) define DOP_T(j) and DOP_H(j),
 * the token and query head of row j of `rows`. They also define the constants D, DV, R and SUBGROUPS, the shared array dop_q,
 * and the variables used by the generated code. */
typedef struct dop_attn {
    dop_node_id id;
    const dop_node *n;
    uint32_t dim, heads, kv, group, rows; /* dim: values of a query and a key */
    uint32_t value_dim, value_stride,
        value_start;             /* values of one V; stride between two in memory; offset of the first in its row */
    uint32_t splits, max_splits; /* number of splits of the cache, and the maximum that the graph has memory for */
    uint32_t round;              /* granularity of a split in cache rows, where possible; 0: any number */
    uint32_t merged_heads;       /* query heads whose splits a workgroup merges */
    const char *head0;           /* expression of the first query head that the workgroup merges */
    bool keys_only;              /* index scores (index_scores): keys without values */
    bool keeps[2]; /* K, V: this step's row is also kept in shared memory at DOP_NEW0 or DOP_NEW1 for the workgroup; in
                    * a multi-row stage all rows of the sequence, with a stride of DOP_NEW vec4s */
} dop_attn;

/* --- choices of experts: gen_choice.c ---------------------------------------------------------------------------------- */

/* An expert choice as a program: rows of router scores, and the values computed from them in order, all in shared memory. */
typedef struct dop_choice_program {
    const dop_node_id *nodes; /* [n_nodes] in topological order */
    uint32_t n_nodes;
    const char *t;        /* row of the step, a GLSL expression */
    const char *store_if; /* condition for storing region outputs; NULL: always */
    dop_node_id kept[2];  /* values that always become rows of shared memory; loaded if not computed here */
    uint32_t n_kept;
} dop_choice_program;

/* --- products: products.c --------------------------------------------------------------------------------------------- */

/* Properties of a region's products that determine its tile. */
typedef struct dop_products {
    dop_node_id first;
    uint32_t k; /* depth: length in values of an activation row (over all slots that are summed) plus that of the second
                 * product (dop_parts.beside) */
    /* Total rows of weights over all matrices and slots; of one slot if slots are summed. Excludes small parts that other
     * workgroups wait for, which come first in the grid. */
    uint32_t rows;
    uint32_t most; /* maximum number of sibling products per output */
    dop_type type; /* weight storage type of `first` */
} dop_products;

/* A matmul region for its generators: the region's analysis, and kernel-dependent properties. */
typedef struct dop_parts {
    uint32_t n;
    const dop_segment *part;
    dop_node_id act;        /* activation: source 0 of every matmul, or of those of the current part */
    bool ints;              /* packed integer products; in a record for one part, of that part */
    bool mixed;             /* some parts use packed integer products, and workgroups of the others stage floats */
    uint32_t n_activations; /* number of distinct activations of the products, indexed by dop_segment.act */
    const dop_node_id *activations;
    uint32_t k;
    bool staged;      /* the activation is in shared memory: required by a row program, or by choice */
    uint32_t n_stats; /* number of statistics of the activation row that only the epilogue needs */
    const dop_node_id *stats;
    uint32_t n_prog; /* number of nodes of the row program that stages the activation */
    const dop_node_id *prog;
    uint32_t unit;      /* values per iteration: the largest unit of all weight types, at least 8 */
    const char *t;      /* row of the step, a GLSL expression */
    bool experts;       /* every product has one matrix per expert */
    bool own_rows;      /* with experts: each slot has its own activation row */
    uint32_t slots;     /* slots per product; 1 without experts */
    dop_node_id ids;    /* as in dop_expert_facts */
    dop_node_id sum;    /* as in dop_expert_facts */
    dop_node_id beside; /* second product added to the sum, as in dop_product_facts; 0: none */
    uint32_t k2;        /* length in values of the activation row of `beside` */
} dop_parts;
struct dop_stmt;
/* --- products of a few rows: gen_few.c, and as a stage gen_few_stage.c --------------------------------------------------- */

/* Staging of activations for a small batch: how much of each row is in shared memory at a time. */
typedef struct dop_few_piece {
    uint32_t units; /* units of each row in a piece */
    uint32_t n;     /* pieces per row */
    uint32_t bytes; /* bytes of shared memory per unit of one row */
    bool half;      /* floats are staged as f16 */
} dop_few_piece;

/* --- products by expert: gen_group.c ----------------------------------------------------------------------------------- */

/* Rows that a tile computes: rows of the step in order, or the (row, slot) pairs of a block. Blocks come from group_rows
 * (ops.def). If every slot has its own matrix, a block is one slot's pairs of consecutive rows of the step. */
typedef struct dop_blocks {
    dop_node_id id; /* node with the blocks; 0: slot and rows are computed from the block number */
    uint32_t n;     /* number of blocks; 0: rows in order */
    uint32_t span;  /* maximum number of pairs per block */
    uint32_t slots; /* pairs per row */
    bool by_pair;   /* the activation has one row per pair, [T,k,K]; otherwise one per row of the step */
} dop_blocks;

enum { DOP_ROWS_TILE = 64 }; /* positions that attention_rows processes between two rescalings of its sums */

/* --- legality of tiles: legal.c ---------------------------------------------------------------------------------------- */

/* Device-independent bounds on registers per invocation and on unrolled code, so that compilation takes seconds, not
 * minutes. */
enum {
    DOP_MOST_UNROLLED = 1024,  /* scalar products in unrolled loops, per part; one compiler gives up at 2048 */
    DOP_MOST_SUMS = 512,       /* sums that an invocation holds in registers */
    DOP_MOST_STATE = 4096,     /* values of a recurrence's state that an invocation holds */
    DOP_MOST_SIDE = 1024,      /* rows, columns or depth of a tile in shared memory */
    DOP_MOST_FRAGMENTS = 1024, /* matrix multiplications that a subgroup unrolls */
    DOP_MOST_PIECES = 64,      /* outstanding loads per invocation, in pieces of 8 values */
    DOP_MOST_GROUPS = 65535    /* workgroups per dimension: the minimum that Vulkan guarantees */
};
/* Size of the table of quantized weights' levels, which the prologue writes to shared memory (dop_int8_levels). */
enum { DOP_LEVEL_BYTES = 1024 };

#endif
