/* Graph builder: builds the graph of one phase from the architecture facts. */
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
    uint32_t max_t; /* maximum rows (tokens) per step: the chunk size; 1 for decode */
    uint32_t max_s; /* cache capacity in positions */
    /* Maximum rows per step over all graphs of the plan, which share the states: sizes the ring buffers of sliding
     * windows. 0: no rings. */
    uint32_t max_rows;
    dop_type kv_type;      /* storage type of caches: f16, f32, q8_0 or q4_0 */
    dop_type v_type;       /* storage type of cached values; none: kv_type */
    dop_type act_type;     /* storage type of activations between regions: f32 or f16 */
    const dop_type *types; /* [model weights] storage type of each weight in the plan; NULL: as stored */
    uint32_t max_q;        /* number of sequences in the states; 0: 1 */
    uint32_t copies;       /* copies of replaced states; 0: 2 */
    bool keeps_each;       /* with more copies: a step writes a copy after each row of a sequence */
    bool mixed;            /* score: a step may have rows of several sequences */
    bool invariant;        /* batch invariance: every phase uses the graph of a step of max_t rows, up to its logits */
    bool embeds;           /* score: outputs hidden states after the final norm instead of logits */
    /* score: builds the program `encode`. A step has all rows of its sequences, keeps no state, and outputs per row as
     * dop_encoder says. */
    bool encodes;
    /* score: builds the program `draft`. Rows of a step are next tokens and the received hidden states before them. */
    bool drafts;
    uint32_t draft_ids;  /* drafts: only token ids below this are drafted; 0: the whole vocabulary */
    bool sends;          /* outputs the hidden states of all rows, for the program `draft` */
    uint32_t ranks;      /* total rank capacity for run-time adapters; 0: none */
    uint32_t rank, uses; /* with ranks: maximum rank of an adapter (a multiple of 4); maximum adapters per sequence */
    bool chosen;         /* with ranks: each row reads only the ranks of its own adapters; for few rows */
    /* Rows of a step may be features of the vision part: token vocab + i is row i of the received features. */
    bool pictures;
} dop_build_options;

/* Label role of the nodes after the last layer. */
#define DOP_ROLE_HEAD "head"

/* Builds the graph of a phase.
 * Inputs: "tokens" u32 [T], "positions" u32 [T], "sequences" u32 [T], or u32 [1] if all rows of a step belong to one of several
 * sequences.
 * Weights: NAME with its type and origin; "rope.<i>" f32 [dop_rope_rows(S), dims] (made by dop_rope_table); "temper" f32 [S, 1]
 * (dop_temper_table).
 * States: "L<i>.k" and "L<i>.v" [Q, S, KV heads, head dim]; layers with a sliding window have a ring buffer of rows instead of S.
 * With ranks: weights "lora_a.NAME" f16 [ranks, cols] and "lora_b.NAME" f16 [rows, ranks] for each matrix NAME of a product, and "lora"
 * f32 [Q, ranks + uses]: the factors of each sequence's ranks, then its adapter numbers from 1 on, padded with 0.
 * Labels: "embed", "L<i>/qkv", "L<i>/attn", "L<i>/o", "L<i>/ffn_up", "L<i>/ffn_down", "head".
 * encodes: no states; optional inputs "lasts" u32 [T] (last position that a row attends to) and "types" u32 [T].
 * pictures: received "features" f32 [T, hidden], and "deep<i>" of that shape, added to the stream after layer i (deepstack). With
 * multimodal RoPE: "picture_shift" u32 [T], added to positions before rotation, and "picture_turns" u32 [T], picture row * DOP_STEP_EDGE
 * + column, with weight "rope.<i>.places" (dop_rope_places). Except in decode: "picture_lasts" u32 [T] if rows of a picture attend to
 * each other.
 * drafts: received "hidden" f32 [T, hidden].
 * Outputs in order: logits (or hidden states, f32 [T, hidden]); for decode and prefill the arg-max id; for graphs that send or draft,
 * hidden states f32 [T, hidden]; the final caches. */
dop_status dop_build_graph(const dop_checkpoint *m, const dop_build_options *opt, dop_arena *arena, dop_diag *diag,
                           dop_graph *out_graph);

/* Size of rotary tables. Up to DOP_ROPE_FULL positions a table has a row per position: [n_pos, dims], at most 128 KiB per value
 * of a head. Longer contexts use two sets of rows, and kernels add the two angles: positions below DOP_ROPE_LOW, which carry the
 * attention factor, and multiples of DOP_ROPE_LOW. For two million positions of 128 values this takes 1.5 MB instead of 1 GB.
 * dop_rope_low() returns DOP_ROPE_LOW or 0: attribute `low` of op rope. */
enum { DOP_ROPE_FULL = 32768, DOP_ROPE_LOW = 1024 };
uint32_t dop_rope_low(uint32_t n_pos);
uint32_t dop_rope_rows(uint32_t n_pos);
/* dop_rope_table() computes a rotary table [dop_rope_rows(n_pos), dims], in double: cosines of dims / 2 frequencies, then sines.
 * build_rope.c cites the sources of the scalings. */
dop_status dop_rope_frequency(const dop_rope *r, uint32_t pair, uint32_t n_pos, dop_diag *diag, double *out_frequency);
dop_status dop_rope_table(const dop_rope *r, uint32_t n_pos, float *out_table, dop_diag *diag);

/* Computes the multimodal RoPE table of picture rows and columns, [2 * DOP_STEP_EDGE, dims], laid out like dop_vision_turns().
 * Only pairs of the row and column sections rotate. */
dop_status dop_rope_places(const dop_rope *r, uint32_t n_pos, float *out_table, dop_diag *diag);

/* Computes a table of relative position biases, [heads, 2 * most + 1]: the bias for each distance from -most to most. Keys
 * further away use the nearest end. learned: [buckets, heads]. */
void dop_relative_table(const dop_relative *r, const float *learned, uint32_t heads, float *out_table);

/* Computes the attention temperature table [n_pos]: the query factor at each position. */
void dop_temper_table(const dop_temper *t, uint32_t n_pos, float *out_table);

#endif
