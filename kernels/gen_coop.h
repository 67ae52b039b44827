/* What the kernels of products on matrix units share (gen_matmul_coop.c); gen_matmul_few.c is the form for a few tokens. */
#ifndef DOPPLER_KERNELS_GEN_COOP_H
#define DOPPLER_KERNELS_GEN_COOP_H

#include "kernels/gen.h"

/* What tells the forms of the kernel apart. */
typedef struct dop_coop_form {
    const char *part; /* template of a part */
    const char *sum;  /* of the names of the functions that read a sum from shared memory */
    const char *call; /* arguments of a part behind its workgroup */
    /* How a piece of a part's weights is loaded, and how halves are made of it: bodies of two functions of the part's template. */
    void (*weights)(dop_gen *gen, const dop_parts *p, const dop_part *part, dop_keys *keys, dop_buf *load,
                    dop_buf *take);
    /* What those need before the parts, for all their types. */
    dop_status (*declare)(dop_gen *gen, const dop_parts *p, dop_buf *decls, dop_buf *types);
} dop_coop_form;

dop_status dop_coop_emit(dop_gen *gen, const dop_coop_form *form);
/* Pieces of 8 values, as dop_coop_form has them. */
void dop_coop_weights(dop_gen *gen, const dop_parts *p, const dop_part *part, dop_keys *keys, dop_buf *load,
                      dop_buf *take);
/* The two functions of the weight types of a part, but of those in *done (bits), which it updates. */
void dop_coop_declare(const dop_gen *gen, const dop_part *part, uint32_t *done, dop_buf *out);
/* Bytes of shared memory for `tile`, whose parts have at most n_mats matrices. */
uint32_t dop_coop_tile_bytes(const dop_tile *tile, uint32_t n_mats, const dop_target *t);
/* As descriptors do. */
uint32_t dop_coop_shared(dop_gen *gen);
dop_refusal dop_coop_fits(const dop_site *s);

#endif
