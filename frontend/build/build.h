/* The graph builder: makes the graph of one phase from the facts of an architecture. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_H
#define DOPPLER_FRONTEND_BUILD_BUILD_H

#include "frontend/facts/arch.h"
#include "ir/graph/graph.h"

typedef enum dop_phase {
    DOP_PHASE_DECODE,  /* T = 1; output: logits [1,V] and their arg-max */
    DOP_PHASE_PREFILL, /* T <= chunk; output: logits of the last valid token and their arg-max */
    DOP_PHASE_SCORE    /* T <= chunk; output: logits [T,V] */
} dop_phase;

typedef struct dop_build_options {
    dop_phase phase;
    uint32_t max_t; /* most rows (tokens) of a step: the chunk size; 1 for decode */
    uint32_t max_s; /* positions of a cache */
    /* Most rows of a step of any of the plan's graphs, which share the states: sizes the rings of sliding windows.  0: no rings. */
    uint32_t max_rows;
    dop_type kv_type;      /* storage of caches: f16, f32, q8_0 or q4_0 */
    dop_type v_type;       /* storage of cached values; none: kv_type */
    dop_type act_type;     /* f32 or f16: storage of activations between regions */
    const dop_type *types; /* [model weights] storage type of each in the plan; NULL: the stored ones */
    uint32_t max_q;        /* number of sequences that states have room for; 0: 1 */
    uint32_t copies;       /* of states that steps replace; 0: 2 */
    bool keeps_each;       /* with more copies: a step writes one after each row of a sequence */
    bool mixed;            /* score: a step may have rows of several sequences */
    bool invariant; /* batch invariance: the graph of any phase is that of a step of max_t rows up to its logits */
    bool embeds;    /* score: hidden states after the final norm instead of logits */
    /* score: the program `encode`.  A step has all rows of its sequences, keeps no state, and gives for each row what dop_encoder
     * says. */
    bool encodes;
    /* score: the program `draft`.  A step has rows of next tokens and, received, the hidden states before them. */
    bool drafts;
    uint32_t draft_ids;  /* drafts: tokens that can be drafts, the first of the vocabulary; 0: all of it */
    bool sends;          /* the graph gives the hidden states of all rows, which the program `draft` receives */
    uint32_t ranks;      /* ranks of all adapters for which products have room; 0: no room */
    uint32_t rank, uses; /* with ranks: those of one adapter, and adapters of a sequence, at most, a multiple of 4 */
    bool chosen;         /* with ranks: each row reads only the ranks of its own adapters, which is for few rows */
    /* Rows of a step may be features of the model's vision part: token vocab + i is row i of what the step receives. */
    bool pictures;
} dop_build_options;

/* The role, in labels, of the nodes behind the last layer. */
#define DOP_ROLE_HEAD "head"

/* Builds the graph of a phase.
 * With ranks: weights "lora_a.NAME" f16 [ranks, cols] and "lora_b.NAME" f16 [rows, ranks] for each matrix NAME of a product, and "lora"
 * f32 [Q, ranks + uses], the factors of each sequence's ranks and then the numbers of its adapters from 1 on, 0 where there are fewer.
 * Leaves: input "tokens" u32[T], input "positions" u32[T], input "sequences" u32[T], or u32[1] where all rows of a step are of
 * one of several sequences, weight NAME with its type, each weight with its origin, weight "rope.<i>" f32 [dop_rope_rows(S), dims] (made
 * by dop_rope_table) and "temper" f32 [S, 1] (dop_temper_table), state "L<i>.k" and "L<i>.v" [Q, S, KV heads, head dim]; layers
 * that see only the last positions have a ring of rows instead of S.
 * Labels: "embed", "L<i>/qkv", "L<i>/attn", "L<i>/o", "L<i>/ffn_up", "L<i>/ffn_down", "head".
 * A graph that encodes has no states; it may have inputs "lasts" u32[T] (the last position that a row sees) and "types" u32[T].
 * With pictures, received "features" f32 [T, hidden], and "deep<i>" of the same shape for the stream after layer i (deepstack); in
 * models with multimodal rotary embedding "picture_shift" u32[T], added to positions before rotation, and "picture_turns" u32[T], row
 * of a picture * DOP_STEP_EDGE + column, with weight "rope.<i>.places" (dop_rope_places); "picture_lasts" u32[T] where rows of a
 * picture see one another, except in decode.
 * A graph that drafts receives "hidden" f32 [T, hidden].
 * Outputs in order: logits (or hidden states, f32 [T, hidden]), and for decode and prefill the arg-max id; where the graph sends or
 * drafts, hidden states f32 [T, hidden]; every final cache is an output too. */
dop_status dop_build_graph(const dop_checkpoint *m, const dop_build_options *opt, dop_arena *arena, dop_diag *diag,
                           dop_graph *out_graph);

/* The size of rotary tables.  Up to DOP_ROPE_FULL positions a table has a row for each: [n_pos, dims], at most 128 KiB for each
 * value of a head.  For longer contexts it has rows for the positions below DOP_ROPE_LOW, which carry the attention factor, and
 * for the multiples of DOP_ROPE_LOW, and kernels add the two angles: two million positions of 128 values take 1.5 MB instead of 1
 * GB.  dop_rope_low: DOP_ROPE_LOW or 0, the attribute `low` of rope. */
enum { DOP_ROPE_FULL = 32768, DOP_ROPE_LOW = 1024 };
uint32_t dop_rope_low(uint32_t n_pos);
uint32_t dop_rope_rows(uint32_t n_pos);
/* Computes a rotary table.  table [dop_rope_rows(n_pos), dims]: cos of dims/2 frequencies, then sin, computed in double.  Sources
 * of the scalings are named in build_rope.c. */
dop_status dop_rope_frequency(const dop_rope *r, uint32_t pair, uint32_t n_pos, dop_diag *diag, double *out_frequency);
dop_status dop_rope_table(const dop_rope *r, uint32_t n_pos, float *out_table, dop_diag *diag);

/* Multimodal rotary embedding: computes the table of rotations by place in a picture, [2 * DOP_STEP_EDGE, dims] as that of
 * dop_vision_turns: only pairs of the sections for columns and rows turn. */
dop_status dop_rope_places(const dop_rope *r, uint32_t n_pos, float *out_table, dop_diag *diag);

/* Computes a table of relative position biases, table [heads, 2 * most + 1]: what is added to the score of a key at each distance from
 * the query, from `most` before it to `most` behind it.  A key further away gets the value at that end.  learned: [buckets, heads]. */
void dop_relative_table(const dop_relative *r, const float *learned, uint32_t heads, float *out_table);

/* Computes the temperature of attention, table [n_pos]: the factor of queries at each position. */
void dop_temper_table(const dop_temper *t, uint32_t n_pos, float *out_table);

#endif
