/* Products on lanes, as nests: what families of kernels give, and what is common to them (gen_product.c). */
#ifndef DOPPLER_KERNELS_PRODUCT_H
#define DOPPLER_KERNELS_PRODUCT_H

#include "kernels/gen.h"
#include "kernels/nest/nest.h"

/* How a family's activations come to the products. */
typedef struct dop_product {
    /* Bits of memory: rows of activations, their statistics, sums of subgroups. */
    uint32_t rows, stats, sums;
    const char *put;     /* the function that puts activations into shared memory */
    const char *put_all; /* its arguments where it does so once */
    bool stats_beside;   /* statistics are summed beside the products */
    const char *done;    /* code in front of a sum's epilogue: names for statistics of row t */
    /* Statements that put the activations of row t and unit v of a piece into registers, as `x`. */
    void (*get)(dop_gen *gen, const dop_parts *p, dop_nest *n, uint32_t rows);
} dop_product;

/* Number of slots whose rows of the activation are parts of one sum. */
uint32_t dop_product_summed(const dop_parts *p);
/* Steps along the row of one slot, of all slots that are summed up, and with those of the product beside, which come last. */
uint32_t dop_product_units(const dop_parts *p);
uint32_t dop_product_steps(const dop_parts *p);
uint32_t dop_product_all(const dop_parts *p);
/* Units of matrix m that registers hold at once; *out_steps: of each step. */
uint32_t dop_product_loads(const dop_gen *gen, const dop_parts *p, const dop_segment *part, uint32_t m,
                           uint32_t *out_steps);
/* Declares the team of lanes, and the memory where subgroups of a team meet. */
void dop_product_team(dop_gen *gen, dop_nest *n);
void dop_product_sums(dop_gen *gen, dop_nest *n, dop_product *x);
/* The function dop_fetchP(row, u, ...), which loads the units of weights of every row of a team and every matrix of a part, for
 * the steps from unit u on that registers hold at once.  begin: statements before it, where matrices are looked up. */
void dop_product_fetch(dop_gen *gen, const dop_parts *p, dop_nest *n, uint32_t index, dop_buf *begin);
/* The functions of a part, of which n_wg workgroups make the rows of the matrices. */
void dop_product_part(dop_gen *gen, const dop_parts *p, dop_nest *n, const dop_product *x, uint32_t index,
                      uint32_t n_wg);
/* The main function; finishes the nest and prints it.  `before`: code before the parts' calls; NULL: none. */
dop_status dop_product_finish(dop_gen *gen, dop_nest *n, const char *before, dop_buf *calls);

#endif
