/* Passes: the table, the driver, and the context of every pass. */
#ifndef DOPPLER_PASSES_PASS_H
#define DOPPLER_PASSES_PASS_H

#include "ir/graph/graph.h"
#include "ir/target.h"
#include "passes/fusion/reasons.h"

enum {
    PF_REGIONS = 1,  /* every computed node is in a region */
    PF_ORDERED = 2,  /* regions are in data flow order, and none is dead */
    PF_PLACED = 4,   /* stored values have offsets, and barriers are set */
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
    const char *name; /* name for --skip */
    char letter;      /* letter for -d */
    uint32_t needs, breaks;
    const char *what;
} dop_pass_info;

const dop_pass_info *dop_pass_of(dop_pass_id p);
bool dop_pass_parse(const char *name, dop_pass_id *out_pass);

/* Location of a stored value; set by `place`. */
typedef struct dop_value_place {
    uint64_t offset; /* byte offset in the scratch slot */
    uint64_t size;   /* size in bytes; 0: not in scratch (a leaf, a state, or never stored) */
} dop_value_place;

typedef struct dop_placement {
    dop_value_place *values; /* [n_nodes of the graph] location of each value */
    uint64_t scratch;        /* size of the scratch slot in bytes */
    uint64_t unshared;       /* size in bytes without lifetime sharing, for the report */
    bool *barrier;           /* [n_regions] true if a barrier precedes the region */
    uint32_t n_barriers;
} dop_placement;

typedef struct dop_pass_ctx {
    dop_arena *arena;
    dop_diag *diag;
    const dop_target *target;
    dop_fusion_log *log;     /* may be NULL */
    dop_placement placement; /* placement of the graph that was compiled last */
    uint32_t facts;          /* PF_* facts that currently hold */
    /* Callbacks of the compiler, most of which apply kernel paths.  keep_apart: true if the two regions must not be fused.  NULL:
     * never. */
    bool (*keep_apart)(void *user, const dop_graph *g, const dop_region *a, const dop_region *b);
    /* True if the two regions must be fused even if that is expected to cost more than it saves.  NULL: never. */
    bool (*joins)(void *user, const dop_graph *g, const dop_region *a, const dop_region *b);
    /* Returns the type, f16 or f32, that the weights of a matmul of several tokens are expanded to first, or none.  NULL: none
     * are expanded. */
    dop_type (*expand)(void *user, const dop_graph *g, dop_node_id matmul);
    /* Returns the rows of each piece of a weight that exceeds the maximum allocation (per matrix, if the weight has several).  0:
     * the weight fits, or not even one row would.  NULL: all weights fit. */
    uint32_t (*piece_rows)(void *user, const dop_graph *g, dop_node_id weight);
    /* Chooses the kernel variant and tile of a region.  The variant's name is static or in the graph's arena.  NULL: none are
     * chosen. */
    dop_status (*select)(void *user, const dop_graph *g, dop_region_id r, const char **out_variant, dop_tile *out_tile);
    void *user;
} dop_pass_ctx;

#define PASS(name, ...) dop_status dop_pass_##name(dop_pass_ctx *cx, dop_graph *g, bool *changed);
#include "passes/passes.def"
#undef PASS

typedef struct dop_pass_options {
    bool skip[DOP_PASS_COUNT];
    int stop_after; /* last pass to run, a dop_pass_id; -1: all */
    bool check;     /* print, parse and compare the graph after each pass */
    /* Called after each pass that ran, to write dumps; may be NULL. */
    void (*dump)(void *user, dop_pass_id pass, const dop_graph *g, bool changed);
    void *user;
} dop_pass_options;

/* Runs the pipeline and verifies the graph after every pass.  Fails if a pass reports `changed` wrongly. */
dop_status dop_passes_run(dop_pass_ctx *cx, const dop_pass_options *opt, dop_graph *g);

/* Fails if one of the facts `needs` does not hold.  The message names the pass that establishes it and `who`, which needs it. */
dop_status dop_passes_need(const dop_pass_ctx *cx, uint32_t needs, const char *who);

#endif
