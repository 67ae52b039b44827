/* Passes: the table, the driver, and what every pass is given. */
#ifndef DOPPLER_PASSES_PASS_H
#define DOPPLER_PASSES_PASS_H

#include "ir/graph/graph.h"
#include "ir/target.h"
#include "passes/fusion/reasons.h"

enum {
    PF_REGIONS = 1,  /* every computed node is in a region */
    PF_ORDERED = 2,  /* regions are in an order of the data flow, and none of them is dead */
    PF_PLACED = 4,   /* stored values have offsets, barriers are known */
    PF_SELECTED = 8, /* regions have kernels */
    PF_ALL = PF_REGIONS | PF_ORDERED | PF_PLACED | PF_SELECTED,
};

typedef enum dop_pass_id {
#define PASS(name, ...) DOP_PASS_##name,
#include "passes/passes.def"
#undef PASS
    DOP_PASS_COUNT
} dop_pass_id;

typedef struct dop_pass_info {
    const char *name; /* as in --skip NAME */
    char letter;      /* as in -d LETTERS */
    uint32_t needs, breaks;
    const char *what;
} dop_pass_info;

const dop_pass_info *dop_pass_of(dop_pass_id p);
bool dop_pass_parse(const char *name, dop_pass_id *out_pass);

/* Where a stored value lies, and what orders a region; made by `place`. */
typedef struct dop_value_place {
    uint64_t offset; /* bytes into the scratch slot */
    uint64_t size;   /* bytes; 0: not in scratch (a leaf, a state, or never stored) */
} dop_value_place;

typedef struct dop_placement {
    dop_value_place *values; /* [n_nodes of the graph] */
    uint64_t scratch;        /* bytes of the scratch slot */
    uint64_t unshared;       /* bytes without lifetime sharing, for the report */
    bool *barrier;           /* [n_regions]: a barrier stands before it */
    uint32_t n_barriers;
} dop_placement;

typedef struct dop_pass_ctx {
    dop_arena *arena;
    dop_diag *diag;
    const dop_target *target;
    dop_fusion_log *log;     /* may be NULL */
    dop_placement placement; /* of the graph that ran last */
    uint32_t facts;          /* PF_* that hold now */
    /* A kernel path may switch fusion off; true: the two regions stay apart.  NULL: none do. */
    bool (*keep_apart)(void *user, const dop_graph *g, const dop_region *a, const dop_region *b);
    /* It may also ask to join them although that is expected to cost more than it saves; true: join them.  NULL: it does not. */
    bool (*joins)(void *user, const dop_graph *g, const dop_region *a, const dop_region *b);
    /* It may have the weights of a matmul of several tokens expanded first: the type, f16 or f32, or none.  NULL: none
     * anywhere. */
    dop_type (*expand)(void *user, const dop_graph *g, dop_node_id matmul);
    /* For a weight that is larger than an allocation may be: rows of each piece (of each matrix, if the weight has several).
     * 0: the weight fits, or not even one row would.  NULL: all fit. */
    uint32_t (*piece_rows)(void *user, const dop_graph *g, dop_node_id weight);
    /* The kernel variant and tile of a region, in the graph's arena or static.  NULL: none are bound. */
    dop_status (*select)(void *user, const dop_graph *g, dop_region_id r, const char **out_variant, dop_tile *out_tile);
    void *user;
} dop_pass_ctx;

#define PASS(name, ...) dop_status dop_pass_##name(dop_pass_ctx *cx, dop_graph *g, bool *changed);
#include "passes/passes.def"
#undef PASS

typedef struct dop_pass_options {
    bool skip[DOP_PASS_COUNT];
    int stop_after; /* dop_pass_id, or -1 */
    bool check;     /* print, parse and compare after each pass */
    /* Called after each pass that ran, for dumps; may be NULL. */
    void (*dump)(void *user, dop_pass_id pass, const dop_graph *g, bool changed);
    void *user;
} dop_pass_options;

/* Runs the pipeline, verifies after every pass, and aborts when a pass reported `changed` wrongly. */
dop_status dop_passes_run(dop_pass_ctx *cx, const dop_pass_options *opt, dop_graph *g);

/* Fails where one of the facts `needs` does not hold, with a message that names the pass to run and `who` needs it. */
dop_status dop_passes_need(const dop_pass_ctx *cx, uint32_t needs, const char *who);

#endif
