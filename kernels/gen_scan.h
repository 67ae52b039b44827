/* What the generators of recurrences share: a region's scan, and pieces of text that do not depend on who has which part of the
 * state. */
#ifndef DOPPLER_KERNELS_GEN_SCAN_H
#define DOPPLER_KERNELS_GEN_SCAN_H

#include "kernels/gen.h"

typedef struct dop_scan {
    const dop_node *n;
    uint32_t heads, p, groups, count; /* H, P, G, N of ops.def */
    uint32_t width;                   /* of N that lie in one register vector: 4 or 1 */
    bool delta;                       /* it has beta */
} dop_scan;
dop_scan dop_scan_at(const dop_site *s);
dop_scan dop_scan_of(const dop_gen *gen);

/* The head of keys that head h reads, as GLSL. */
const char *dop_scan_key_head(dop_gen *gen, const dop_scan *s);
/* Which rows of the step are the workgroup's, `begin` to `rows`: all of them, or those of the sequence whose first row has its
 * number. */
void dop_scan_rows(dop_gen *gen, dop_buf *out);
/* The load of `width` values of the state before the step, of its row p from column n on; `out` gets what that needs. */
const char *dop_scan_load(dop_gen *gen, const dop_scan *s, dop_buf *out);
/* Stores `value`, which belongs at column c of the state after the step: where that is kept, and, when something else reads it,
 * among the values of the step.  `before` gets what is computed once. */
void dop_scan_save(dop_gen *gen, const dop_scan *s, const char *value, const char *indent, dop_buf *before,
                   dop_buf *out);
/* A row program over the values of row `row` (t: of the step), which lie in scan_v, `stride` apart. */
void dop_scan_behind(dop_gen *gen, const dop_scan *s, const char *stride, const char *store_if, dop_buf *body);
/* A row program that makes head g of q (which 0) or k (1) of that row, and puts it with DOP_SQ_PUT or DOP_SK_PUT. */
void dop_scan_head(dop_gen *gen, const dop_scan *s, uint32_t which, dop_buf *body);
/* Can the variant make the region as far as its state goes? */
dop_refusal dop_scan_fits(const dop_site *s);
/* Workgroups: one for each head, and for each row that may begin a sequence. */
void dop_scan_grid(dop_gen *gen, const dop_scan *s);

#endif
