/* Code that the generators of linear recurrences share: a region's recurrence, and pieces of text that do not depend on how the
 * state is divided among invocations. */
#ifndef DOPPLER_KERNELS_GEN_SCAN_H
#define DOPPLER_KERNELS_GEN_SCAN_H

#include "kernels/gen.h"

typedef struct dop_scan {
    const dop_node *n;
    uint32_t heads, p, groups, count; /* H, P, G, N of ops.def */
    uint32_t width;                   /* how many of N lie in one register vector: 4 or 1 */
    bool delta;                       /* the recurrence is a delta rule: it has the source beta */
    bool each;                        /* every column of a state has a decay of its own */
} dop_scan;
dop_scan dop_scan_at(const dop_site *s);
dop_scan dop_scan_of(const dop_gen *gen);

/* The start of main(): the workgroup's head h, the head g of keys that it reads, and the rows of the step that are the workgroup's,
 * `begin` to `rows`: all of them, or those of the sequence whose first row has the workgroup's number.  Sets the number of
 * workgroups, one for each head, times each row that may begin a sequence. */
void dop_scan_begin(dop_gen *gen, const dop_scan *s, dop_buf *out);
/* The load of `width` values of the state from before the step, in row p from column n on; statements it needs go to `out`. */
const char *dop_scan_load(dop_gen *gen, const dop_scan *s, dop_buf *out);
/* Stores `value` at column c of the state after the step: in the state's own memory, and in the output of linear_scan_state when
 * another node reads it.  `before` receives what is computed once. */
void dop_scan_save(dop_gen *gen, const dop_scan *s, const char *value, const char *indent, dop_buf *before,
                   dop_buf *out);
/* A row program over the values of row `row` (t: its number in the step), which lie in scan_v, `stride` apart. */
void dop_scan_behind(dop_gen *gen, const dop_scan *s, const char *stride, const char *store_if, dop_buf *body);
/* A row program that computes head g of q (which 0) or k (1) of that row, and stores it with DOP_SQ_PUT or DOP_SK_PUT. */
void dop_scan_head(dop_gen *gen, const dop_scan *s, uint32_t which, dop_buf *body);
/* Can the variant handle the region's state?  dop_scan_keeps_last: one that writes only the state after the last row. */
dop_refusal dop_scan_fits(const dop_site *s);
dop_refusal dop_scan_keeps_last(const dop_site *s);

#endif
