/* A model in parts: one rank per part, and pipelined steps through all of them.
 *
 * Rank 0 has the first part and makes all host decisions: tokens, pages, sampling, commits. To the rest of the program,
 * its model looks like the whole one. dop_step_issue orders the step from all ranks; dop_step_collect passes the rows
 * on and receives the last part's results. The other ranks execute orders (rank_follow.c) in sequence, as soon as their
 * rows arrive. Rank 0 may begin a step once it has passed on the rows of the previous one, so all parts can work at the
 * same time. */
#ifndef DOPPLER_RUNTIME_PARTS_LEAD_RANKS_H
#define DOPPLER_RUNTIME_PARTS_LEAD_RANKS_H

#include "runtime/model/part.h"
#include "runtime/parts/lead/rank_orders.h"
#include "runtime/parts/lead/wire.h"

/* Answer of a rank that has opened its part, followed by its schedules. */
typedef struct dop_rank_opened {
    uint32_t version; /* DOP_ORDERS_VERSION */
    uint32_t status;  /* dop_status; if not DOP_OK, `text` has the reason and no schedules follow */
    uint64_t digest;  /* digest shared by all parts of the plan (dop_ranks_digest) */
    uint64_t device_bytes;
    uint32_t replaces, rewind; /* as in dop_plan.replaces and dop_plan_model.rewind */
    uint32_t n_schedules, reserved;
    char device[96];
    char text[1024];
} dop_rank_opened;

typedef struct dop_rank_schedule {
    uint32_t kind, max_rows; /* identify a schedule, the one with barriers of this kind and size */
    uint32_t greedy;         /* DOP_PICKS_*: picks that the schedule makes in this part */
    uint32_t reserved;
} dop_rank_schedule;

/* Breakdown of step times, for the log. */
typedef struct dop_rank_times {
    uint64_t steps;
    double wait_ms;    /* waiting for this part's device */
    double send_ms;    /* sending rows and answers */
    double orders_ms;  /* waiting for orders; on rank 0: for answers */
    double receive_ms; /* receiving rows that did not arrive during the previous step */
} dop_rank_times;

/* --- rank 0 ---------------------------------------------------------------------------------------------------------- */

/* Maximum number of steps submitted but not collected. */
enum { DOP_RANKS_AHEAD = 8 };

typedef struct dop_ranks {
    const dop_wire *wire;
    uint32_t *shadow;             /* owned: page tables last sent to the other ranks */
    dop_plan_schedule *schedules; /* owned: the plan's schedules with the DOP_PICKS_* of the last part */
    dop_plan_model facts;         /* copy of the plan's, reduced to the limits of all parts */
    float *results;               /* owned: logits or hidden states from the last part */
    dop_buf message;              /* buffer for orders */
    uint32_t max_chunk;           /* maximum tokens per step of the current feed; 0: limited only by the schedules */
    struct {
        uint32_t schedule, n_rows, picks; /* picks: dop_model.flight.picks_asked after the step */
        dop_rank_answer answer;
        dop_form form;
    } steps[DOP_RANKS_AHEAD];
    bool holds; /* the last step's rows are not sent to rank 1 yet, because no result of theirs is awaited */
    uint32_t held_schedule, held_rows; /* the step whose rows are held */
    uint32_t first, n_passed,
        n_steps; /* steps[] is a ring: index of the oldest; number that passed on their rows; total number */
    /* Multi-sequence steps that dop_step_start began. */
    /* owned, a ring; n_started from first_started on are in flight */
    dop_open_step *started[DOP_RANKS_AHEAD];
    uint32_t first_started, n_started;
    dop_rank_times times;
    uint32_t n_answered; /* number of other ranks that have reported the result of opening */
} dop_ranks;

/* Orders the other ranks to open their parts; the caller then opens its own. Sets model->ranks, also on failure. */
dop_status dop_ranks_start(dop_model *model, const char *path, const dop_open_options *options, dop_diag *diag);
/* Waits until the other ranks have opened their parts, and reduces the model's limits to those of all parts. Call after
 * opening rank 0's part. */
dop_status dop_ranks_join(dop_model *model, dop_diag *diag);
/* Orders the other ranks to close their parts. Accepts a model without ranks. */
void dop_ranks_end(dop_model *model);

/* Orders a step from the other ranks. The step record must be written; rank 0 submits afterwards. */
dop_status dop_ranks_submit(dop_model *model, uint32_t schedule, dop_form form, dop_diag *diag);
/* Submits the step to rank 0's device. Sends held rows of the previous step while this one runs. */
dop_status dop_ranks_run(dop_model *model, uint32_t schedule, dop_form form, dop_diag *diag, uint64_t *out_ticket);
/* Passes the rows of a step to rank 1, after it has run on rank 0 and flight.picks_asked is updated. */
dop_status dop_ranks_pass(dop_model *model, dop_diag *diag);
/* Waits for the oldest step that was passed on, and stores its picks in the step record and its logits in `results`. */
dop_status dop_ranks_take(dop_model *model, dop_diag *diag);

/* Sends an order without rows. Does nothing for a model without ranks. */
dop_status dop_ranks_order(dop_model *model, dop_order_kind kind, const uint32_t *args, uint32_t n_args,
                           dop_diag *diag);
/* Sends the other ranks the page table for the first n positions of the sequence at a place. */
dop_status dop_ranks_tell_pages(dop_model *model, uint32_t place, uint32_t n, dop_diag *diag);
/* Size in bytes of the states on the other ranks, and reading and writing them, one rank after another; see
 * transfer.c. */
uint64_t dop_ranks_size(dop_model *model, const dop_states *states);
dop_status dop_ranks_read(dop_model *model, const dop_states *states, dop_bytes_fn *take, void *user, dop_diag *diag);
dop_status dop_ranks_write(dop_model *model, const dop_states *states, const uint8_t *bytes, dop_diag *diag);

/* --- all ranks ------------------------------------------------------------------------------------------------------- */

/* Sends the values that cross the cut after a step of n rows. */
dop_status dop_ranks_send_rows(const dop_model *model, const dop_wire *wire, uint32_t schedule, uint32_t n,
                               dop_diag *diag);
/* Receive state of the values that cross the cut before a step. */
typedef struct dop_inbox {
    uint32_t n_rows;
    uint32_t n_values, n_taken; /* n_taken values have arrived completely; all when equal to n_values */
    uint64_t at;                /* bytes of the next value that have arrived */
    dop_part_value values[DOP_PART_MAX_VALUES];
} dop_inbox;
void dop_ranks_begin_rows(const dop_model *model, uint32_t schedule, uint32_t n, dop_inbox *out_inbox);
/* Receives the rows of a step that have arrived, or with `wait` all of them. */
dop_status dop_ranks_take_rows(const dop_wire *wire, dop_inbox *inbox, bool wait, dop_diag *diag);
/* True if the schedule forwards a value that it receives. The value must then stay in place until it is sent. */
bool dop_ranks_pass_on(const dop_model *model, uint32_t schedule);
/* Waits for a submission on this rank's device while messages progress. Spins if there are enough processors,
 * because waking a thread takes as long as a few dispatches. */
dop_status dop_ranks_wait(const dop_wire *wire, dop_replay *replay, uint64_t ticket, dop_diag *diag);
bool dop_ranks_may_spin(const dop_wire *wire, const dop_replay *replay);
/* Sends or receives any number of bytes, in messages of at most DOP_WIRE_MOST. */
dop_status dop_ranks_send_all(const dop_wire *wire, uint32_t to, dop_wire_lane lane, const void *bytes, uint64_t size,
                              dop_diag *diag);
dop_status dop_ranks_receive_all(const dop_wire *wire, uint32_t from, dop_wire_lane lane, void *bytes, uint64_t size,
                                 dop_diag *diag);

/* Opens a rank's part on its device, with barriers only and no steps ahead. */
dop_status dop_model_open_part(const char *path, const dop_open_options *options, const dop_wire *wire, dop_diag *diag,
                               dop_model **out_model);
/* Returns the digest that all parts of a plan share. */
static inline uint64_t
dop_ranks_digest(const dop_plan *plan)
{
    return plan->part ? plan->part->set : plan->digest;
}

/* Ranks 1 and up: executes rank 0's orders until the END order, or until a rank fails. options: for this rank's
 * device. */
dop_status dop_ranks_follow(const dop_wire *wire, const dop_open_options *options, dop_diag *diag);
/* Rank 0, at the very end: sends END to the other ranks. */
void dop_ranks_dismiss(const dop_wire *wire);

#endif
