/* Linear recurrences: the recurrence of a region, and code that does not depend on how the state is divided among
 * invocations. */
#ifndef DOPPLER_KERNELS_SCAN_GEN_SCAN_H
#define DOPPLER_KERNELS_SCAN_GEN_SCAN_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

typedef struct dop_scan {
    const dop_node *n;
    uint32_t heads, p, groups, count; /* H, P, G, N of ops.def */
    uint32_t width;                   /* columns of the state per register vector: 4 or 1 */
    bool delta;                       /* delta rule: the recurrence has the source beta */
    bool each;                        /* every column of a state has its own decay */
} dop_scan;
dop_scan dop_scan_at(const dop_site *s);

/* Nest of a recurrence: y[t][p] = sum over k of S[p][k] q[t][k], where S changes with every row. */
typedef struct dop_scan_nest {
    dop_gen *gen;
    dop_nest n;
    dop_scan s;
    bool units; /* uses matrix units */
    /* Multi-row stage: surplus rows repeat the last row, and all rows are staged at once. */
    bool spare;
    uint32_t rows; /* rows of the step staged at once; on matrix units the chunk c (gen_scan.c) */
    uint32_t next; /* stages: index of the subgroup that stages the first of the next values */
    /* Without matrix units L, R and J of gen_scan.c; with them, values of a fragment per lane, blocks of rows, and blocks of
     * state columns. */
    uint32_t lanes, r, j;
    const char *vec, *zero; /* type of a vector of the state, and its zero */
    /* Shared memory bits. staged: rows. added, solved, results: contents of v's memory, which holds what rows add before and
     * after the triangular solve, then the results. all: all of these, which staging writes. products: products of rows with
     * one another. */
    uint32_t staged, added, solved, results, all, products;
} dop_scan_nest;

/* Opens the nest, given an *o whose fields from `units` to `zero` describe the placement, and the division of axes in *pl. */
void dop_scan_open(dop_scan_nest *o, dop_gen *gen, dop_nest_placement *pl);
/* Begins main(): declares head h, key head g, and the workgroup's rows of the step, `begin` to `rows`. These are all rows, or
 * those of the sequence that begins at the row with the workgroup's number. Sets the grid: one workgroup per head and
 * possible first row of a sequence. */
void dop_scan_begin(dop_scan_nest *o);
/* For the loop over chunks of `count` rows from row `first` on. dop_scan_stage stages their q, k and v, and except on matrix
 * units decays and beta. dop_scan_finish computes the region's outputs from the results, which are rows of scan_v, `stride`
 * apart. */
void dop_scan_stage(dop_scan_nest *o);
void dop_scan_finish(dop_scan_nest *o, const char *stride);
/* Returns the load of `width` values of the state before the step, in row p from column n on; adds the statements that it
 * needs. */
const char *dop_scan_load(dop_scan_nest *o);
/* dop_scan_place locates the state after the step, or after row `row` of the chunk (an expression; NULL: none). dop_scan_save
 * adds statements that store `value` at column c of it. With `last`, it also stores to the output of linear_scan_state if
 * another node reads that. */
void dop_scan_place(dop_scan_nest *o, const char *row);
void dop_scan_save(dop_scan_nest *o, const char *value, bool last);
/* Checks that the variant supports the region's state. */
dop_refusal dop_scan_fits(const dop_site *s);

#endif
