/* Products on matrix units as a nest (gen_matmul_coop.c): common parts of its placements, and their differences. */
#ifndef DOPPLER_KERNELS_PRODUCT_GEN_COOP_H
#define DOPPLER_KERNELS_PRODUCT_GEN_COOP_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

/* Path of a piece of the depth to the fragments. */
typedef enum dop_coop_kind {
    DOP_COOP_tile,   /* the workgroup stages both factors */
    DOP_COOP_direct, /* the workgroup stages activations; weights are register-direct */
    DOP_COOP_few,    /* like tile, but one tile has all tokens, and groups of subgroups divide the depth of a piece */
    DOP_COOP_own     /* each subgroup stages its own factors in its own slice of shared memory */
} dop_coop_kind;

typedef struct dop_coop_form {
    dop_coop_kind kind;
    uint32_t (*bytes)(const dop_tile *tile, uint32_t n_mats, const dop_target *t); /* returns bytes of shared memory */
    /* Returns true if a part's weights are loaded in whole units of 32 instead of pieces of 8 values. */
    bool (*in_units)(const dop_gen *gen, const dop_segment *part);
} dop_coop_form;

/* The weight rows of one function of the kernel: those of a single part, or of all parts of a joined tile (tile.joined).
 * Joined parts have one matrix each, whose rows are numbered consecutively. */
typedef struct dop_coop {
    dop_gen *gen;
    const dop_coop_form *form;
    const dop_parts *p;
    dop_nest *n;
    uint32_t memory[2];    /* memory bits of staged factors; for register-direct tiles, of the two halves of a piece */
    uint32_t teams;        /* groups of subgroups that divide the depth of a piece among them */
    uint32_t ahead;        /* pieces in flight (prefetch distance) */
    const char *from, *to; /* expressions of the depth range */
    const dop_segment *part;
    uint32_t n_parts, index; /* number of parts, and index of the first one */
    uint32_t rows;           /* weight rows of each matrix of a single part, or of all joined parts */
    uint32_t side, deep;     /* fragments stored together: adjacent along the weight rows, and along tokens */
    uint32_t fm, fn;         /* fragments of a subgroup along tokens, and along weight rows */
    /* Loads of weights: values per piece, the type of a piece in registers, and true if the rows of an invocation's pieces
     * are computed before the loop over the depth. */
    uint32_t piece;
    const char *raw;
    bool found;
    struct dop_stmt *operands; /* hole before the depth loop for loads of the epilogue; NULL: the epilogue loads */
} dop_coop;

/* Beginning of a condition; the argument is "true" if it always holds, otherwise "false". shaderc's optimizer leaves loops
 * with such a condition to the driver, which unrolls them better. With few tokens, loops unrolled by the optimizer made steps
 * of 64 sequences up to a fifth slower on an H100. */
#define DOP_COOP_WHERE "%s || "

dop_status dop_coop_emit(dop_gen *gen, const dop_coop_form *form);
/* Emits the loop over the depth of register-direct tiles (gen_coop_direct.c). */
void dop_coop_direct(const dop_coop *o);
/* Emits the epilogue of a part, in which sums become values of the region's outputs (gen_coop_store.c). */
void dop_coop_end(const dop_coop *o);
#define DOP_STORED_PAIR "dop_pair[wm * WM + i * MM + r]"
/* Decides how the part's weights are loaded, and appends the functions that load a piece, convert 8 of its values to f16, and
 * find its row (gen_coop_weights.c). */
void dop_coop_weights(dop_coop *o, dop_buf *out);
/* Declares the library functions that those functions call, for the weight types of all parts. */
dop_status dop_coop_declare_weights(dop_gen *gen, const dop_parts *p,
                                    bool (*in_units)(const dop_gen *gen, const dop_segment *part), dop_buf *decls);
/* True if all weights of the part have one type that the target loads in units (schedule.coop_units). */
bool dop_coop_listed_units(const dop_gen *gen, const dop_segment *part);
/* Appends code that makes loads past the end of a row return zeros, if the tile's depth does not divide the row. */
void dop_coop_guard_column(dop_gen *gen, const dop_parts *p, dop_buf *out);
/* Rows of activations that are loaded as they are stored, eight values at a time. */
typedef struct dop_stored_rows {
    dop_type type;        /* storage type; DOP_TYPE_COUNT: rows are computed, and the other fields are unused */
    dop_node_id id;       /* the value */
    dop_node_id windows;  /* op unfold through which the product reads the value; 0: rows are the value's own */
    uint32_t start, cols; /* first column read; columns of the value */
} dop_stored_rows;
dop_stored_rows dop_coop_stored(const dop_graph *g, const dop_region *r);
/* Returns the bytes of shared memory for the window positions of the tile's rows; 0: the product does not read windows of
 * stored rows. */
uint32_t dop_coop_window_bytes(const dop_graph *g, const dop_region *r, const dop_tile *tile);
/* Returns the bytes of the codebook of a register-direct tile's weights, which is copied to shared memory; 0: no codebook, or
 * a small one. */
uint32_t dop_coop_book_bytes(const dop_graph *g, const dop_region *r, const dop_tile *tile);
/* True if the target has the shared memory that the tile needs. */
bool dop_coop_fits_shared(const dop_site *s, const dop_tile *tile, uint32_t n_mats);
/* Returns the bytes of shared memory for `tile`, if parts have at most n_mats matrices. */
uint32_t dop_coop_tile_bytes(const dop_tile *tile, uint32_t n_mats, const dop_target *t);
/* Returns the bytes of one row of `side` fragments of sums per subgroup and matrix. */
uint32_t dop_coop_sums_bytes(const dop_tile *tile, uint32_t n_mats, const dop_target *t, uint32_t side);
/* Functions for descriptors (tile, shared, fits); dop_coop_choose_tile_at is for products by expert. */
void dop_coop_choose_tile(const dop_site *s, dop_tile *tile);
void dop_coop_choose_tile_at(const dop_site *s, dop_tile *tile);
uint32_t dop_coop_shared(dop_gen *gen);
void dop_coop_settle(const dop_site *s, dop_tile *tile);
void dop_coop_legal(dop_check *c);
/* Checks the common requirements of all placements: subgroups have whole fragments for each of `teams` shares of the depth.
 * Sums, fragment multiplications, and pieces in flight (`ahead` times those of an iteration) are bounded. all_units:
 * quantized weights of any type are loaded in units of 32. */
bool dop_coop_legal_tile(dop_check *c, uint32_t teams, uint32_t ahead, bool all_units);
#define DOP_COOP_FIELDS DOP_FIELD(bm) | DOP_FIELD(bn) | DOP_FIELD(bk) | DOP_FIELD(tm) | DOP_FIELD(tn)
dop_refusal dop_coop_fits(const dop_site *s);

#endif
