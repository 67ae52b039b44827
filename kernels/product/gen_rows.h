/* Products on CPU devices (gen_rows.c): generator state that is shared with their epilogues (gen_rows_end.c). */
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
    uint32_t k_pad;    /* length of a staged row in values, padded to whole units */
    uint32_t sums;     /* bytes of shared memory for the sums of several tokens */
    bool staged;       /* the whole activation is staged in dop_x */
    bool ints;         /* the staged activation is int8 */
    uint32_t mats;     /* sums per weight row in the current group: one per matrix, and one for `beside` */
    const char *block; /* name of the loop variable over blocks of rows in the current group */
    bool some;         /* some workgroups may have no block of the current group */
    bool fours;        /* the epilogue of the current group gives each lane four adjacent rows */
    bool ahead;        /* the first words of units are prefetched before all other loads */
    uint32_t summed;   /* number of slots whose activation rows are parts of one sum; otherwise 1 */
    uint32_t held;     /* activation rows in shared memory per token */
    dop_blocks blocks;
} dop_rows_gen;

/* Expression of the pair (row of the step and slot) that is token j of a block; uniform across lanes. */
#define DOP_ROWS_PAIR "dop_pair_of(j)"
const char *dop_rows_row(const dop_rows_gen *s); /* row of the step that is token j of the workgroup */
/* Emits the stores of a block's sums (`acc`), for a group of n parts that share its code. */
void dop_rows_end(dop_rows_gen *s, const dop_segment *const *parts, uint32_t n);

/* --- on CPU devices: gen_rows.c; the descriptors are in rows_variants.c --- */
dop_status dop_rows_emit(dop_gen *gen);
uint32_t dop_rows_shared(dop_gen *gen);

#endif
