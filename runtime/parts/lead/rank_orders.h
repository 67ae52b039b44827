/* Messages ("orders") from rank 0 of a plan in parts to the other ranks.
 *
 * The other ranks have no notion of tokens or sequences. Rank 0 tells them which rows to run and which states to
 * change, by schedule, place and page of the plan; an order means the same on every part. A message is eight words,
 * followed by rows of the size listed below. All ranks run the same build and plan (checked at the start), so numbers
 * are sent in native byte order. */
#ifndef DOPPLER_RUNTIME_PARTS_LEAD_RANK_ORDERS_H
#define DOPPLER_RUNTIME_PARTS_LEAD_RANK_ORDERS_H

#include "base/base.h"
#include "runtime/model/model.h"

#define DOP_ORDERS_VERSION 4u

/* ORDER(name, words, row bytes, what). words: number of dop_order.args used. */
#define DOP_ORDERS(ORDER)                                                                                   \
    ORDER(OPEN, 6, 1, "version, first_tokens, max_chunk, no_scoring, on_demand, no_steps; the plan's path") \
    ORDER(CLOSE, 0, 0, "close the plan")                                                                    \
    ORDER(END, 0, 0, "nothing more comes")                                                                  \
    ORDER(STEP, 5, 16, "kind and most rows of the schedule, form, what to answer, ordering; dop_order_row") \
    ORDER(PAGES, 2, 4, "place, first entry; entries of its table of pages")                                 \
    ORDER(CLEAR, 1, 0, "dop_clear")                                                                         \
    ORDER(CLEAR_PLACE, 1, 0, "place: its states in one piece are zeros")                                    \
    ORDER(COPY_PLACE, 5, 0, "places from and to, positions, the parity of each: states in one piece")       \
    ORDER(COPY_PAGE, 3, 0, "pages from and to, rows")                                                       \
    ORDER(SLOTS, 1, 0, "make so many slots for checkpoints")                                                \
    ORDER(COPY_SLOT, 5, 0, "place and slot or slot and place, positions, parity of the place, with rows")   \
    ORDER(SIZE, 5, 0, "dop_states: answer how many bytes they take")                                        \
    ORDER(READ, 5, 0, "dop_states: answer the states")                                                      \
    ORDER(WRITE, 5, 0, "dop_states: states come in messages of bytes, as many as SIZE says")                \
    ORDER(BYTES, 0, 1, "the next bytes of states")

typedef enum dop_order_kind {
#define ORDER(name, words, row, what) DOP_ORDER_##name,
    DOP_ORDERS(ORDER)
#undef ORDER
        DOP_N_ORDER_KINDS
} dop_order_kind;

/* Result that the last part must send after a step. */
typedef enum dop_rank_answer { DOP_ANSWER_NOTHING, DOP_ANSWER_PICKS, DOP_ANSWER_ROWS, DOP_N_ANSWERS } dop_rank_answer;

typedef struct dop_order_row {
    uint32_t token, position; /* as in dop_row */
    uint32_t place;           /* index of the row's sequence in the plan's states */
    uint32_t parity;          /* current copy of that sequence's replaced states before the step */
} dop_order_row;

enum { DOP_ORDER_WORDS = 6 };
typedef struct dop_order {
    uint32_t kind;   /* DOP_ORDER_* */
    uint32_t n_rows; /* number of rows that follow */
    uint32_t args[DOP_ORDER_WORDS];
    const void *rows; /* not owned */
} dop_order;

/* Encodes the arguments of SIZE, READ and WRITE: place, from, to, groups (bit 0: rows, bit 1: whole), parity. */
static inline dop_order
dop_order_of_states(dop_order_kind kind, const dop_states *x, uint32_t parity)
{
    const uint32_t which = (x->rows ? 1u : 0) | (x->whole ? 2u : 0);
    return (dop_order){.kind = (uint32_t)kind, .args = {x->place, x->from, x->to, which, parity}};
}
static inline dop_states
dop_order_states(const dop_order *o)
{
    return (dop_states){.place = o->args[0],
                        .from = o->args[1],
                        .to = o->args[2],
                        .rows = (o->args[3] & 1) != 0,
                        .whole = (o->args[3] & 2) != 0};
}

/* Appends the message to `out`. */
void dop_order_encode(const dop_order *order, dop_buf *out);
/* Decodes a message, which must be aligned to 4 bytes; *out_order->rows points into it. Fails with DOP_E_INTERNAL if
 * dop_order_encode did not make it, or a place, page, position or row is out of range for this plan. */
dop_status dop_order_decode(const uint8_t *bytes, size_t size, const dop_plan_model *model, dop_diag *diag,
                            dop_order *out_order);

#endif
