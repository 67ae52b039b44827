/* Products on CPU devices (gen_rows.c): the state of their generation, for their epilogues (gen_rows_end.c). */
#ifndef DOPPLER_KERNELS_PRODUCT_GEN_ROWS_H
#define DOPPLER_KERNELS_PRODUCT_GEN_ROWS_H

#include "kernels/descriptor.h"
#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

typedef struct dop_rows_gen {
    dop_gen *gen;
    dop_nest nest;
    dop_parts p;
    uint32_t tb, rows;
    uint32_t sg;       /* lanes of a workgroup, which is one subgroup */
    uint32_t k_pad;    /* values of a staged row, padded to whole units */
    uint32_t sums;     /* bytes of shared memory for the sums of several tokens */
    bool staged;       /* the whole activation is staged in dop_x */
    bool ints;         /* the staged activation is in 8 bits */
    uint32_t mats;     /* sums of a row of weights in the group at hand: one a matrix, and one for the product beside */
    const char *block; /* name of the variable for blocks of rows in the group at hand */
    bool some;         /* a workgroup may have no block of the group at hand */
    bool fours;        /* the epilogue of the group at hand gives each lane four neighbouring rows */
    bool ahead;        /* the first words of units are prefetched, before all other loads */
    uint32_t summed;   /* slots whose rows of the activation are parts of one sum, else 1 */
    uint32_t held;     /* rows of activations that lie in shared memory for each token */
    dop_blocks blocks;
} dop_rows_gen;

/* Expression of the pair (row of the step and slot) that is token j of a block; it has the same value in all lanes. */
#define DOP_ROWS_PAIR "dop_pair_of(j)"
const char *dop_rows_row(const dop_rows_gen *s); /* the row of the step that is token j of the workgroup */
/* Statements that store the sums of a block (`acc`), for a group of n parts that share its code. */
void dop_rows_end(dop_rows_gen *s, const dop_segment *const *parts, uint32_t n);

/* --- on CPU devices: gen_rows.c; the descriptors are in rows_variants.c --- */
dop_status dop_rows_emit(dop_gen *gen);
uint32_t dop_rows_shared(dop_gen *gen);

#endif
