/* Attention as a nest (gen_attend.c). Per query row t, a token with one of its query heads, over positions s:
 *     m, l, o = online softmax of q.K[s], times V[s]
 * with holes for q, for this step's rows of K and V, and for end(t, h). This nest defines the computation. A placement
 * (gen_attention.c, gen_attention_rows.c, gen_attention_decode.c, gen_attention_coop.c) defines how rows, positions and
 * values of a head are divided among workgroups, lanes, registers and matrix units. */
#ifndef DOPPLER_KERNELS_ATTENTION_ATTEND_H
#define DOPPLER_KERNELS_ATTENTION_ATTEND_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

typedef struct dop_attend {
    dop_gen *gen;
    dop_attn a;
    dop_nest n;
    bool vector;   /* values per query row are a vec4 over rows; otherwise arrays, [j] for row j */
    uint32_t step; /* values per load of a K row: 8 or 4 */
    bool whole;    /* if the cache has only one split, its workgroup stores the final result directly */
    uint32_t q;    /* memory bits of the queries and the rows that the prologue computes */
    dop_buf decls; /* declarations before the main function; placements add their own */
    const char *begin, *prologue, *score, *sink, *store, *merge, *tail;
} dop_attend;

/* Texts in which a placement describes its workgroup's query rows.
 * find: locates the rows, or returns if there are none. sequence: row whose sequence is read. tokens: maximum number of
 * tokens; token: row of the step of token i. span: declares lo, hi and last for a single token, instead of tokens and token.
 * product: a row's product of query and key. tail, tail_heads: first head and number of heads of the per-head product;
 * at_once: heads per pass of it. */
typedef struct dop_attend_rows {
    const char *find, *sequence, *tokens, *token, *span, *product, *tail, *tail_heads;
    uint32_t at_once;
} dop_attend_rows;

/* Opens the nest with the texts of all holes. `words` are the functions that load 16 bytes of K and V. The caller declares
 * numbers and shared memory next. */
void dop_attend_open(dop_attend *x, dop_gen *gen, const dop_nest_placement *pl, const dop_attend_rows *rows,
                     const char *const words[2]);
/* Begins the main function: finds the positions lo .. hi - 1 of the workgroup, and stages queries in shared memory. `early`
 * is code between these ("": none). */
void dop_attend_begin(dop_attend *x, const char *early);
/* Returns code that loads values of the K or V row at `at` from column d on into x0 and, if step is 8, x1. */
const char *dop_attend_load(dop_attend *x, char which, uint32_t step, const char *d);
/* Returns the condition that row j, of this token of the workgroup, attends to position p. */
const char *dop_attend_seen(dop_attend *x, const char *token);
/* Returns code that updates the online softmax: `top` is the new running max, m the previous one, and `fix` the scale factor
 * of earlier sums. */
const char *dop_attend_rescale(dop_attend *x);
/* Returns the softmax weight of a score. */
const char *dop_attend_weight(dop_attend *x, const char *score, const char *most);
/* Emits one butterfly step of a reduction over lanes. A lane and its partner differ in `bit` of their numbers. Each keeps one
 * half of the values of `array`, and adds the partner's values, received by DOP_OTHER(x, bit). */
void dop_attend_halve(dop_attend *x, const char *array, uint32_t values, const char *lane, uint32_t bit);
/* Emits the epilogue for outputs o, four values from column d of head h of row t: adds the sink to the running max `top` and
 * the softmax sum `sum`, normalizes, and stores. */
void dop_attend_store(dop_attend *x);
/* Ends the main function with the merge of splits and the per-head product, and prints the nest. */
dop_status dop_attend_finish(dop_attend *x);

#endif
