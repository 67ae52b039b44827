/* Attention as a nest (gen_attend.c): per row t, a token with one of its query heads, over positions s:
 *
 *     m, l, o = online softmax of q.K[s], times V[s]
 *
 * with holes for q, for this step's rows of K and V, and for end(t, h).  What is computed is here; a placement (gen_attention.c,
 * gen_attention_rows.c, gen_attention_decode.c, gen_attention_coop.c) says where: how rows, positions and the values of a head are
 * divided among workgroups, lanes, registers and matrix units. */
#ifndef DOPPLER_KERNELS_ATTENTION_ATTEND_H
#define DOPPLER_KERNELS_ATTENTION_ATTEND_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

typedef struct dop_attend {
    dop_gen *gen;
    dop_attn a;
    dop_nest n;
    bool vector;   /* a value for each query row is a vec4; else an array, with [j] for row j */
    uint32_t step; /* values of a row of K that one load brings: 8 or 4 */
    bool whole;    /* where the cache has one split, its workgroup stores what is merged elsewhere */
    uint32_t q;    /* shared memory of the queries, and of rows that the prologue makes */
    dop_buf decls; /* declarations before the main function; a placement adds its own */
    const char *begin, *prologue, *score, *sink, *store, *merge, *tail;
} dop_attend;

/* What a placement says of the rows of a workgroup: code that finds them, or returns where there are none; how many tokens they
 * have at most, and which row of the step token i is, or code that declares lo, hi and last for the only one; the row whose sequence
 * is read; a row's product of query and key; the heads that the per-head product of the end takes, and how many of them at once. */
typedef struct dop_attend_rows {
    const char *find, *sequence, *tokens, *token, *span, *product, *tail, *tail_heads;
    uint32_t at_once;
} dop_attend_rows;

/* Opens the nest, with the texts of all holes; words: the functions that load 16 bytes of K and V.  The caller declares numbers and
 * shared memory next. */
void dop_attend_open(dop_attend *x, dop_gen *gen, const dop_nest_placement *pl, const dop_attend_rows *rows,
                     const char *const words[2]);
/* Begins the main function: the positions lo .. hi - 1 that the workgroup walks over, and queries in shared memory.  early: code
 * between these, "": none. */
void dop_attend_begin(dop_attend *x, const char *early);
/* Code that loads values of the row of K or V at `at`, from column d on, as x0 and, with steps of 8, x1. */
const char *dop_attend_load(dop_attend *x, char which, uint32_t step, const char *d);
/* Does row j, of this token of the workgroup, see position p? */
const char *dop_attend_seen(dop_attend *x, const char *token);
/* Code of the online softmax: `top` is the largest score so far, m the one before; `fix` is what sums up to here are to be scaled by. */
const char *dop_attend_rescale(dop_attend *x);
/* The weight of a score. */
const char *dop_attend_weight(dop_attend *x, const char *score, const char *most);
/* Code of one step of sums over lanes: a lane and the one whose number differs in `bit` keep one half of the values of `array` each, and
 * get the other's part of it by DOP_OTHER(x, bit). */
void dop_attend_halve(dop_attend *x, const char *array, uint32_t values, const char *lane, uint32_t bit);
/* The end of four values `o` from column d of head h of row t on, with the row's `top` and `sum`. */
void dop_attend_store(dop_attend *x);
/* Ends the main function, with the merge of splits and the per-head product, and prints the nest. */
dop_status dop_attend_finish(dop_attend *x);

#endif
