/* Products by cooperative lanes without matrix units, as nests (gen_product.c): common parts of the kernels for one row and
 * for a few rows, and the interface that each implements. */
#ifndef DOPPLER_KERNELS_PRODUCT_PRODUCT_H
#define DOPPLER_KERNELS_PRODUCT_PRODUCT_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

/* Staging of activations by a family of product kernels. */
typedef struct dop_product {
    /* Shared memory bits (dop_nest_memory): rows of activations, their statistics, sums of subgroups. */
    uint32_t rows, stats, sums;
    const char *put;     /* name of the function that stages activations in shared memory */
    const char *put_all; /* arguments of `put`, if one call stages everything */
    bool stats_beside;   /* statistics are accumulated in the loop of the products */
    const char *done;    /* code before the epilogue of a sum: names the statistics of row t */
    /* Adds statements that load the activations of row t and unit v of a piece into registers, as `x`. */
    void (*get)(dop_gen *gen, const dop_parts *p, dop_nest *n, uint32_t rows);
} dop_product;

/* Returns the number of slots whose activation rows are parts of one sum. */
uint32_t dop_product_summed(const dop_parts *p);
/* Return loop lengths over the depth in units: for the row of one slot; for all slots that are summed; and including the
 * second product (dop_product_facts.beside), which comes last. */
uint32_t dop_product_units(const dop_parts *p);
uint32_t dop_product_steps(const dop_parts *p);
uint32_t dop_product_all(const dop_parts *p);
/* Declare the groups of cooperative lanes, and the shared memory for their cross-subgroup reduction. */
void dop_product_team(dop_gen *gen, dop_nest *n);
void dop_product_sums(dop_gen *gen, dop_nest *n, dop_product *x);
/* Emits the functions of a part, whose matrix rows are divided among n_wg workgroups. */
void dop_product_part(dop_gen *gen, const dop_parts *p, dop_nest *n, const dop_product *x, uint32_t index,
                      uint32_t n_wg);
/* Emits the main function, finishes the nest and prints it. `before` is code before the parts' calls; NULL: none. */
dop_status dop_product_finish(dop_gen *gen, dop_nest *n, const char *before, dop_buf *calls);

#endif
