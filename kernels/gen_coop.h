/* Code that the kernels of products on matrix units share (gen_matmul_coop.c); gen_matmul_few.c is the form for few tokens. */
#ifndef DOPPLER_KERNELS_GEN_COOP_H
#define DOPPLER_KERNELS_GEN_COOP_H

#include "kernels/gen.h"

/* What distinguishes the forms of the kernel. */
typedef struct dop_coop_form {
    const char *part; /* template of a part */
    const char *end;  /* and of its end, which some forms have in common */
    uint32_t deep; /* `end` stores from registers, of so many fragments of tokens together; 0: through shared memory */
    bool apart;    /* `end` takes stores of whole fragments, or ones whose operands are loaded before the first store */
    bool finds;    /* `part` finds the rows of pieces before the loop over the depth */
    const char *call; /* arguments of a part after its workgroup */
    uint32_t (*bytes)(const dop_tile *tile, uint32_t n_mats, const dop_target *t); /* of shared memory */
    /* Are a part's weights loaded in whole units of 32, not in pieces of 8 values? */
    bool (*in_units)(const dop_gen *gen, const dop_segment *part);
    /* What the template needs before the parts. */
    dop_status (*declare)(dop_gen *gen, dop_buf *decls);
} dop_coop_form;

/* Parts that one function of the kernel makes: a single one, or all parts of a joined tile, each with one matrix, whose rows are
 * counted on from part to part. */
typedef struct dop_coop_rows {
    const dop_segment *part;
    uint32_t n;
    uint32_t rows;       /* of each matrix of a single part, or of all parts */
    uint32_t side, deep; /* fragments that are stored together: side by side, and of how many fragments of tokens */
} dop_coop_rows;

dop_status dop_coop_emit(dop_gen *gen, const dop_coop_form *form);
/* The code that stores values of one token at a place of the tile, made of sums.  The
 * width is how many values side by side, of the same part, can be stored at once. */
uint32_t dop_coop_store_width(dop_emit *e, const dop_coop_rows *rows);
void dop_coop_store(dop_gen *gen, const dop_coop_rows *rows, uint32_t width, dop_buf *store);
/* The same for all of a lane's values of fragments side by side, in two pieces: what the values are made of is loaded for
 * all of them before the first one is stored.  Returns false, and no code, where nothing is loaded. */
bool dop_coop_store_apart(dop_gen *gen, const dop_coop_rows *rows, uint32_t width, dop_buf *load, dop_buf *store);
#define DOP_STORED_PAIR "dop_pair[wm * WM + i * MM + r]"
/* How a piece of the parts' weights is loaded, and how it is converted to halves: bodies of two functions of the template.
 * find: for the function that finds a piece's row before the loop; NULL: the template has none. */
void dop_coop_weights(dop_gen *gen, const dop_parts *p, const dop_coop_rows *rows, bool units, dop_keys *keys,
                      dop_buf *load, dop_buf *take, dop_buf *find);
/* The functions that these call, before the parts, for all their types. */
dop_status dop_coop_declare_weights(dop_gen *gen, const dop_parts *p,
                                    bool (*in_units)(const dop_gen *gen, const dop_segment *part), dop_buf *decls,
                                    dop_buf *types);
/* Are the part's weights of one type, which the target loads in units (schedule.coop_units)? */
bool dop_coop_listed_units(const dop_gen *gen, const dop_segment *part);
/* Zeros past the end of a row, when the tile's depth does not divide it. */
void dop_coop_guard_column(dop_gen *gen, const dop_parts *p, dop_buf *out);
/* The type of a row of activations that is loaded as it is stored, eight values at a time; DOP_TYPE_COUNT: it is computed. */
dop_type dop_coop_stored(const dop_graph *g, const dop_region *r);
/* Bytes of shared memory for `tile`, whose parts have at most n_mats matrices. */
uint32_t dop_coop_tile_bytes(const dop_tile *tile, uint32_t n_mats, const dop_target *t);
/* Bytes of one row of `side` fragments of sums for each subgroup and matrix. */
uint32_t dop_coop_sums_bytes(const dop_tile *tile, uint32_t n_mats, const dop_target *t, uint32_t side);
/* Most matrices of a part; 0: generation will say what is wrong. */
uint32_t dop_coop_mats(const dop_gen *gen);
/* Functions for descriptors; tile_at is for products by expert. */
void dop_coop_choose_tile(const dop_site *s, dop_tile *tile);
void dop_coop_choose_tile_at(const dop_site *s, dop_tile *tile);
uint32_t dop_coop_shared(dop_gen *gen);
dop_refusal dop_coop_fits(const dop_site *s);

#endif
