/* Products by cooperative lanes without matrix units, as nests (gen_product.c): what the kernels for one row and for a few rows
 * have in common, and what each gives. */
#ifndef DOPPLER_KERNELS_PRODUCT_PRODUCT_H
#define DOPPLER_KERNELS_PRODUCT_PRODUCT_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

/* The staging of activations: how a family of kernels brings them to its products. */
typedef struct dop_product {
    /* Shared memory by its bit (dop_nest_memory): rows of activations, their statistics, sums of subgroups. */
    uint32_t rows, stats, sums;
    const char *put;     /* the function that puts activations into shared memory */
    const char *put_all; /* arguments of `put` where one call stages everything */
    bool stats_beside;   /* statistics are summed beside the products */
    const char *done;    /* code before the epilogue of a sum: names the statistics of row t */
    /* Statements that put the activations of row t and unit v of a piece into registers, as `x`. */
    void (*get)(dop_gen *gen, const dop_parts *p, dop_nest *n, uint32_t rows);
} dop_product;

/* Number of slots whose rows of the activation are parts of one sum. */
uint32_t dop_product_summed(const dop_parts *p);
/* Loop trip counts over the depth, in units: along the row of one slot; along all slots that are summed up; and with the product
 * beside (dop_product_facts.beside), which comes last. */
uint32_t dop_product_units(const dop_parts *p);
uint32_t dop_product_steps(const dop_parts *p);
uint32_t dop_product_all(const dop_parts *p);
/* Declares the team of lanes, and the memory where subgroups of a team meet. */
void dop_product_team(dop_gen *gen, dop_nest *n);
void dop_product_sums(dop_gen *gen, dop_nest *n, dop_product *x);
/* The functions of a part, of which n_wg workgroups make the rows of the matrices. */
void dop_product_part(dop_gen *gen, const dop_parts *p, dop_nest *n, const dop_product *x, uint32_t index,
                      uint32_t n_wg);
/* The main function; finishes the nest and prints it.  `before`: code before the parts' calls; NULL: none. */
dop_status dop_product_finish(dop_gen *gen, dop_nest *n, const char *before, dop_buf *calls);

#endif
