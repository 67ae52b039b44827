/* Linear recurrences: a region's recurrence, and what does not depend on how its state is divided among invocations. */
#ifndef DOPPLER_KERNELS_SCAN_GEN_SCAN_H
#define DOPPLER_KERNELS_SCAN_GEN_SCAN_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

typedef struct dop_scan {
    const dop_node *n;
    uint32_t heads, p, groups, count; /* H, P, G, N of ops.def */
    uint32_t width;                   /* how many of N lie in one register vector: 4 or 1 */
    bool delta;                       /* the recurrence is a delta rule: it has the source beta */
    bool each;                        /* every column of a state has a decay of its own */
} dop_scan;
dop_scan dop_scan_at(const dop_site *s);

/* The nest of a recurrence: y[t][p] = sum over k of S[p][k] q[t][k], where S changes from row to row. */
typedef struct dop_scan_nest {
    dop_gen *gen;
    dop_nest n;
    dop_scan s;
    bool units; /* on matrix units */
    /* A stage: places for rows that the step has not get results of its last row, and all rows are staged at once. */
    bool spare;
    uint32_t rows; /* rows of the step that are staged at once; on matrix units c (gen_scan.c) */
    uint32_t next; /* of a stage that stages values: the subgroup that takes the first of the next kind */
    /* Among lanes L, R and J; on matrix units values of a fragment that a lane has, blocks of rows, and of the state's rows. */
    uint32_t lanes, r, j;
    const char *vec, *zero; /* type of a vector of the state, and its zero */
    /* Shared memory by its bits: rows that are staged; in the place of v what they add, before and after the solution of the
     * triangular system, then results; all of these, which staging writes; and the products of rows with one another. */
    uint32_t staged, added, solved, results, all, products;
} dop_scan_nest;

/* Opens the nest of an *o whose fields from `units` to `zero` say how it is placed, and *pl how its axes are divided. */
void dop_scan_open(dop_scan_nest *o, dop_gen *gen, dop_nest_placement *pl);
/* Begins main(): the workgroup's head h, the head g of keys that it reads, and the rows of the step that are the workgroup's,
 * `begin` to `rows`: all of them, or those of the sequence whose first row has the workgroup's number.  Sets the number of
 * workgroups, one for each head, times each row that may begin a sequence. */
void dop_scan_begin(dop_scan_nest *o);
/* In the loop over chunks, of `count` rows from row `first` on: dop_scan_stage stages their q, k and v, and except for matrix units
 * decays and beta; dop_scan_finish makes what the region computes from the rows of results, which lie in scan_v, `stride` apart. */
void dop_scan_stage(dop_scan_nest *o);
void dop_scan_finish(dop_scan_nest *o, const char *stride);
/* The load of `width` values of the state from before the step, in row p from column n on; adds statements that it needs. */
const char *dop_scan_load(dop_scan_nest *o);
/* dop_scan_place names the place of the state after the step, or after a row of the chunk (an expression, NULL: none);
 * dop_scan_save adds statements that store `value` at column c of it: in the state's own memory and, for the last row's, in the output
 * of linear_scan_state when another node reads it. */
void dop_scan_place(dop_scan_nest *o, const char *row);
void dop_scan_save(dop_scan_nest *o, const char *value, bool last);
/* Can the variant handle the region's state? */
dop_refusal dop_scan_fits(const dop_site *s);

#endif
