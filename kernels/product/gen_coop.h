/* Products on matrix units as a nest (gen_matmul_coop.c): what its placements have in common, and what distinguishes them. */
#ifndef DOPPLER_KERNELS_PRODUCT_GEN_COOP_H
#define DOPPLER_KERNELS_PRODUCT_GEN_COOP_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

/* How a piece of the depth reaches the fragments. */
typedef enum dop_coop_kind {
    DOP_COOP_tile,   /* the workgroup stages both factors */
    DOP_COOP_direct, /* the workgroup stages activations; weights are register-direct */
    DOP_COOP_few,    /* as tile; one tile has all tokens, and teams of subgroups share out the depth of a piece */
    DOP_COOP_own     /* each subgroup is a team, and stages what it multiplies in its own slice of shared memory */
} dop_coop_kind;

typedef struct dop_coop_form {
    dop_coop_kind kind;
    uint32_t (*bytes)(const dop_tile *tile, uint32_t n_mats, const dop_target *t); /* of shared memory */
    /* Are a part's weights loaded in whole units of 32, not in pieces of 8 values? */
    bool (*in_units)(const dop_gen *gen, const dop_segment *part);
} dop_coop_form;

/* The rows of weights that one function of the kernel makes: those of a single part, or of all parts of a joined tile (tile.joined),
 * each with one matrix, whose rows are numbered on from part to part. */
typedef struct dop_coop {
    dop_gen *gen;
    const dop_coop_form *form;
    const dop_parts *p;
    dop_nest *n;
    uint32_t memory[2];    /* its bits: what is staged; of register-direct tiles the two halves of a piece */
    uint32_t teams;        /* of subgroups, which share out the depth of a piece */
    uint32_t ahead;        /* pieces that are on their way */
    const char *from, *to; /* of the depth */
    const dop_segment *part;
    uint32_t n_parts, index; /* how many, and the number of the first one */
    uint32_t rows;           /* rows of weights of each matrix of a single part, or of all parts together */
    uint32_t side, deep;     /* fragments that are stored together: side by side, and of how many fragments of tokens */
    uint32_t fm, fn;         /* fragments of a subgroup, of tokens and of rows of weights */
    /* How weights are loaded: values of a piece, the type of a piece in registers, and whether the rows of an invocation's pieces are
     * found before the loop over the depth. */
    uint32_t piece;
    const char *raw;
    bool found;
    struct dop_stmt *operands; /* a hole before the loop over the depth, for what the end loads; NULL: it loads then */
} dop_coop;

/* The beginning of a condition, with "true" where it always holds, else "false".  shaderc's optimizer leaves loops with such a condition
 * to the driver, which unrolls them better: of few tokens, loops that were unrolled before made steps of 64 sequences up to a fifth
 * slower on an H100. */
#define DOP_COOP_WHERE "%s || "

dop_status dop_coop_emit(dop_gen *gen, const dop_coop_form *form);
/* gen_coop_direct.c: the loop over the depth of register-direct tiles. */
void dop_coop_direct(const dop_coop *o);
/* gen_coop_store.c: the end of a part, in which sums become values of the region's outputs. */
void dop_coop_end(const dop_coop *o);
#define DOP_STORED_PAIR "dop_pair[wm * WM + i * MM + r]"
/* gen_coop_weights.c: says how the part's weights are loaded, and appends the functions that load a piece, that convert 8 values of it
 * to halves, and that find its row. */
void dop_coop_weights(dop_coop *o, dop_buf *out);
/* Declares the functions that those call, for the weight types of all parts. */
dop_status dop_coop_declare_weights(dop_gen *gen, const dop_parts *p,
                                    bool (*in_units)(const dop_gen *gen, const dop_segment *part), dop_buf *decls);
/* Are the part's weights of one type, which the target loads in units (schedule.coop_units)? */
bool dop_coop_listed_units(const dop_gen *gen, const dop_segment *part);
/* Code by which loads past the end of a row give zeros, where the tile's depth does not divide the row. */
void dop_coop_guard_column(dop_gen *gen, const dop_parts *p, dop_buf *out);
/* Rows of activations that are loaded as they are stored, eight values at a time. */
typedef struct dop_stored_rows {
    dop_type type;        /* DOP_TYPE_COUNT: they are computed, and the rest does not matter */
    dop_node_id id;       /* the value */
    dop_node_id windows;  /* op unfold, through which the product reads the value; 0: a row is the value's own */
    uint32_t start, cols; /* first of the columns that are read; columns of the value */
} dop_stored_rows;
dop_stored_rows dop_coop_stored(const dop_graph *g, const dop_region *r);
/* Bytes of shared memory that say where the windows of the tile's rows begin; 0: the product reads no windows of stored rows. */
uint32_t dop_coop_window_bytes(const dop_graph *g, const dop_region *r, const dop_tile *tile);
/* Bytes of the codebook of a register-direct tile's weights, which is copied to shared memory; 0: they have none, or a small one. */
uint32_t dop_coop_book_bytes(const dop_graph *g, const dop_region *r, const dop_tile *tile);
/* Has the target the shared memory that the tile needs? */
bool dop_coop_fits_shared(const dop_site *s, const dop_tile *tile, uint32_t n_mats);
/* Bytes of shared memory for `tile`, whose parts have at most n_mats matrices. */
uint32_t dop_coop_tile_bytes(const dop_tile *tile, uint32_t n_mats, const dop_target *t);
/* Bytes of one row of `side` fragments of sums for each subgroup and matrix. */
uint32_t dop_coop_sums_bytes(const dop_tile *tile, uint32_t n_mats, const dop_target *t, uint32_t side);
/* Functions for descriptors (tile, shared, fits); dop_coop_choose_tile_at is for products by expert. */
void dop_coop_choose_tile(const dop_site *s, dop_tile *tile);
void dop_coop_choose_tile_at(const dop_site *s, dop_tile *tile);
uint32_t dop_coop_shared(dop_gen *gen);
void dop_coop_settle(const dop_site *s, dop_tile *tile);
void dop_coop_legal(dop_check *c);
/* What all placements need: whole matrices for each subgroup, of which each of `teams` teams has all, and sums, products of fragments and
 * pieces (`ahead` times those of a turn) that are bounded.  all_units: weights in blocks are loaded in units of 32 whatever their type. */
bool dop_coop_legal_tile(dop_check *c, uint32_t teams, uint32_t ahead, bool all_units);
#define DOP_COOP_FIELDS DOP_FIELD(bm) | DOP_FIELD(bn) | DOP_FIELD(bk) | DOP_FIELD(tm) | DOP_FIELD(tn)
dop_refusal dop_coop_fits(const dop_site *s);

#endif
