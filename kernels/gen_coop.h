/* Code that the kernels of products on matrix units share (gen_matmul_coop.c); gen_matmul_few.c is the form for few tokens. */
#ifndef DOPPLER_KERNELS_GEN_COOP_H
#define DOPPLER_KERNELS_GEN_COOP_H

#include "kernels/gen.h"

/* A form of the kernel of products on matrix units (tiles in shared memory, register-direct, small batch): its templates, and what
 * distinguishes it from the others. */
typedef struct dop_coop_form {
    const char *part; /* template of a part */
    const char *end;  /* template of a part's epilogue, which some forms have in common */
    uint32_t deep; /* `end` stores from registers, of so many fragments of tokens together; 0: through shared memory */
    bool apart; /* `end` has keys for an epilogue whose loads all come before the first store (dop_coop_store_apart) */
    bool finds; /* `part` finds the rows of pieces before the loop over the depth */
    const char *call;  /* arguments of a part after its workgroup */
    const char *place; /* expression of the place in the tile of the row `t` of activations that is loaded */
    uint32_t (*bytes)(const dop_tile *tile, uint32_t n_mats, const dop_target *t); /* of shared memory */
    /* Are a part's weights loaded in whole units of 32, not in pieces of 8 values? */
    bool (*in_units)(const dop_gen *gen, const dop_segment *part);
    /* What the template needs before the parts. */
    dop_status (*declare)(dop_gen *gen, dop_buf *decls);
} dop_coop_form;

/* The parts whose rows of weights one function of the kernel makes: a single part, or all parts of a joined tile (tile.joined),
 * each with one matrix, whose rows are numbered on from part to part. */
typedef struct dop_coop_rows {
    const dop_segment *part;
    uint32_t n;
    uint32_t rows;       /* rows of weights of each matrix of a single part, or of all parts together */
    uint32_t side, deep; /* fragments that are stored together: side by side, and of how many fragments of tokens */
} dop_coop_rows;

dop_status dop_coop_emit(dop_gen *gen, const dop_coop_form *form);
/* The epilogue: code that computes values of one token from the sums at a place of the tile, and stores them.  `width` (1 or 4) is
 * how many values side by side, all of one part, are stored at once. */
uint32_t dop_coop_store_width(dop_emit *e, const dop_coop_rows *rows);
void dop_coop_store(dop_gen *gen, const dop_coop_rows *rows, uint32_t width, dop_buf *store);
/* The epilogue for all values that a lane has of fragments side by side, as two pieces of code: `load` loads the operands of all
 * values, `store` computes and stores the values.  Returns false, and no code, where there are no operands to load. */
bool dop_coop_store_apart(dop_gen *gen, const dop_coop_rows *rows, uint32_t width, dop_buf *load, dop_buf *store);
#define DOP_STORED_PAIR "dop_pair[wm * WM + i * MM + r]"
/* How a piece of the parts' weights is loaded (`load`), and how it is converted to halves (`take`): bodies of two functions of the
 * template.  find: body of the function that finds a piece's row before the loop over the depth; NULL: the template has none. */
void dop_coop_weights(dop_gen *gen, const dop_parts *p, const dop_coop_rows *rows, bool units, dop_keys *keys,
                      dop_buf *load, dop_buf *take, dop_buf *find);
/* Declares the functions that the bodies of dop_coop_weights() call, for the weight types of all parts. */
dop_status dop_coop_declare_weights(dop_gen *gen, const dop_parts *p,
                                    bool (*in_units)(const dop_gen *gen, const dop_segment *part), dop_buf *decls,
                                    dop_buf *types);
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
/* Matrices of the part that has most; 0: an error, which generation reports. */
uint32_t dop_coop_mats(const dop_gen *gen);
/* Functions for descriptors (tile, shared, fits); dop_coop_choose_tile_at is for products by expert. */
void dop_coop_choose_tile(const dop_site *s, dop_tile *tile);
void dop_coop_choose_tile_at(const dop_site *s, dop_tile *tile);
uint32_t dop_coop_shared(dop_gen *gen);
dop_refusal dop_coop_fits(const dop_site *s);

#endif
