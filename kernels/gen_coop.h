/* Code that the kernels of products on matrix units share (gen_matmul_coop.c); gen_matmul_few.c is the form for few tokens. */
#ifndef DOPPLER_KERNELS_GEN_COOP_H
#define DOPPLER_KERNELS_GEN_COOP_H

#include "kernels/gen.h"

/* What distinguishes the forms of the kernel. */
typedef struct dop_coop_form {
    const char *part; /* template of a part */
    const char *end;  /* and of its end, which some forms have in common; NULL: it is in `part` */
    const char *sum;  /* prefix of the functions that read a sum from shared memory */
    const char *call; /* arguments of a part after its workgroup */
    uint32_t (*bytes)(const dop_tile *tile, uint32_t n_mats, const dop_target *t); /* of shared memory */
    /* How a piece of a part's weights is loaded, and how it is converted to halves: bodies of two functions of the template. */
    void (*weights)(dop_gen *gen, const dop_parts *p, const dop_part *part, dop_keys *keys, dop_buf *load,
                    dop_buf *take);
    /* What these need before the parts, for all their types. */
    dop_status (*declare)(dop_gen *gen, const dop_parts *p, dop_buf *decls, dop_buf *types);
} dop_coop_form;

dop_status dop_coop_emit(dop_gen *gen, const dop_coop_form *form);
/* Pieces of 8 values, as dop_coop_form has them. */
void dop_coop_weights(dop_gen *gen, const dop_parts *p, const dop_part *part, dop_keys *keys, dop_buf *load,
                      dop_buf *take);
/* The two functions for the weight types of a part, except those in *done (bits), which it updates. */
void dop_coop_declare(const dop_gen *gen, const dop_part *part, uint32_t *done, dop_buf *out);
/* Bytes of shared memory for `tile`, whose parts have at most n_mats matrices. */
uint32_t dop_coop_tile_bytes(const dop_tile *tile, uint32_t n_mats, const dop_target *t);
/* Bytes of one row of `side` fragments of sums for each subgroup and matrix. */
uint32_t dop_coop_sums_bytes(const dop_tile *tile, uint32_t n_mats, const dop_target *t, uint32_t side);
/* Most matrices of a part; 0: generation will say what is wrong. */
uint32_t dop_coop_mats(const dop_gen *gen);
/* Functions for descriptors. */
uint32_t dop_coop_shared(dop_gen *gen);
dop_refusal dop_coop_fits(const dop_site *s);

#endif
