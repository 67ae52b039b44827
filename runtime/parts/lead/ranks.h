/* A model in parts: one rank for each part, and steps that go through all of them.
 *
 * Rank 0 has the first part and everything that the host decides: tokens, pages, sampling, which steps are committed.
 * To the rest of the program its model is the whole one: dop_step_issue orders the same step from all ranks, and dop_step_collect
 * passes the rows on and receives the last part's results.  The other ranks execute orders (rank_follow.c) one after the other,
 * as soon as the rows for them have arrived.  Rank 0 may therefore begin a step as soon as it has passed on the rows of the
 * previous one, and all parts are busy. */
#ifndef DOPPLER_RUNTIME_PARTS_LEAD_RANKS_H
#define DOPPLER_RUNTIME_PARTS_LEAD_RANKS_H

#include "runtime/model/part.h"
#include "runtime/parts/lead/rank_orders.h"
#include "runtime/parts/lead/wire.h"

/* The answer of a rank that has opened its part, followed by its schedules. */
typedef struct dop_rank_opened {
    uint32_t version; /* DOP_ORDERS_VERSION */
    uint32_t status;  /* dop_status; anything but DOP_OK: `text` says why, and there is no more */
    uint64_t digest;  /* the digest that all parts of the plan share (dop_ranks_digest) */
    uint64_t device_bytes;
    uint32_t replaces, rewind; /* dop_plan.replaces, dop_plan_model.rewind */
    uint32_t n_schedules, reserved;
    char device[96];
    char text[1024];
} dop_rank_opened;

typedef struct dop_rank_schedule {
    uint32_t kind, max_rows; /* name a schedule, the one of this kind and size that is ordered by barriers */
    uint32_t greedy;         /* DOP_PICKS_*: the picks that the schedule makes in this part */
    uint32_t reserved;
} dop_rank_schedule;

/* Where the time of steps goes, for the log. */
typedef struct dop_rank_times {
    uint64_t steps;
    double wait_ms;    /* waiting for this part's device */
    double send_ms;    /* sending rows and answers */
    double orders_ms;  /* waiting for orders; rank 0: for answers */
    double receive_ms; /* receiving rows that had not arrived while the previous step ran */
} dop_rank_times;

/* --- rank 0 ---------------------------------------------------------------------------------------------------------- */

/* A step that was submitted but not waited for. */
enum { DOP_RANKS_AHEAD = 8 };

typedef struct dop_ranks {
    const dop_wire *wire;
    uint32_t *shadow;             /* owned: the page tables as the other ranks have them */
    dop_plan_schedule *schedules; /* owned: the plan's schedules, with the DOP_PICKS_* of the last part */
    dop_plan_model facts;         /* the plan's, lowered to what all parts can do */
    float *results;               /* owned: logits or hidden states from the last part */
    dop_buf message;              /* for orders */
    uint32_t max_chunk;           /* most tokens in a step of the feed under way; 0: as many as the schedules hold */
    struct {
        uint32_t schedule, n_rows, picks; /* picks: dop_model.flight.picks_asked after the step */
        dop_rank_answer answer;
        dop_form form;
    } steps[DOP_RANKS_AHEAD];
    bool holds; /* the last step's rows for rank 1 are not sent yet, because nothing waits for their result */
    uint32_t held_schedule, held_rows; /* the step whose rows are held */
    uint32_t first, n_passed,
        n_steps; /* steps[] is a ring: index of the oldest; how many have passed on their rows; how many there are */
    /* Steps of rows of several sequences that dop_step_start began. */
    dop_open_step *started[DOP_RANKS_AHEAD]; /* owned; n_started from first_started on, as a ring, are in flight */
    uint32_t first_started, n_started;
    dop_rank_times times;
    uint32_t n_answered; /* other ranks that have reported how opening went */
} dop_ranks;

/* Orders the other ranks to open their parts; the caller then opens its own.  model->ranks exists afterwards, even on failure. */
dop_status dop_ranks_start(dop_model *model, const char *path, const dop_open_options *options, dop_diag *diag);
/* Once rank 0's part is open: waits until the other ranks have opened theirs, and combines the limits of all parts in the model. */
dop_status dop_ranks_join(dop_model *model, dop_diag *diag);
/* Orders the other ranks to close their parts; accepts a model without ranks. */
void dop_ranks_end(dop_model *model);

/* Orders a step from the other ranks, before rank 0 submits it; the step record is written already. */
dop_status dop_ranks_submit(dop_model *model, uint32_t schedule, dop_form form, dop_diag *diag);
/* Submits the step to rank 0's device.  Rows of the previous step that are not sent yet are sent while this step runs. */
dop_status dop_ranks_run(dop_model *model, uint32_t schedule, dop_form form, dop_diag *diag, uint64_t *out_ticket);
/* Passes on the rows of a step to rank 1, after the step has run on rank 0 and dop_model.flight.picks_asked was updated. */
dop_status dop_ranks_pass(dop_model *model, dop_diag *diag);
/* Waits for the oldest step that was passed on: puts its picks into the step record and its logits into results. */
dop_status dop_ranks_take(dop_model *model, dop_diag *diag);

/* Sends any order without rows.  Does nothing for a model without ranks. */
dop_status dop_ranks_order(dop_model *model, dop_order_kind kind, const uint32_t *args, uint32_t n_args,
                           dop_diag *diag);
/* Tells the other ranks which pages hold the first n positions of the sequence at a place. */
dop_status dop_ranks_tell_pages(dop_model *model, uint32_t place, uint32_t n, dop_diag *diag);
/* Saving and restoring: the size in bytes, reading and writing of the states that the other ranks have,
 * one rank after the other; see transfer.c. */
uint64_t dop_ranks_size(dop_model *model, const dop_states *states);
dop_status dop_ranks_read(dop_model *model, const dop_states *states, dop_bytes_fn *take, void *user, dop_diag *diag);
dop_status dop_ranks_write(dop_model *model, const dop_states *states, const uint8_t *bytes, dop_diag *diag);

/* --- all ranks ------------------------------------------------------------------------------------------------------- */

/* Sends what crosses the cut after a step of n rows. */
dop_status dop_ranks_send_rows(const dop_model *model, const dop_wire *wire, uint32_t schedule, uint32_t n,
                               dop_diag *diag);
/* What crosses the cut before a step, as far as it has arrived. */
typedef struct dop_inbox {
    uint32_t n_rows;
    uint32_t n_values, n_taken; /* n_taken have arrived completely; all of them when these are equal */
    uint64_t at;                /* bytes of the next value that have arrived */
    dop_part_value values[DOP_PART_MAX_VALUES];
} dop_inbox;
void dop_ranks_begin_rows(const dop_model *model, uint32_t schedule, uint32_t n, dop_inbox *out_inbox);
/* Takes what has arrived of a step's rows, or (wait) waits for all of them. */
dop_status dop_ranks_take_rows(const dop_wire *wire, dop_inbox *inbox, bool wait, dop_diag *diag);
/* Does the schedule forward a value that it receives?  Then the value must stay until it is sent. */
bool dop_ranks_pass_on(const dop_model *model, uint32_t schedule);
/* Waits for a submission to this rank's device.  Messages move meanwhile, and where there are processors enough the thread does not
 * sleep: waking it takes as long as a few dispatches. */
dop_status dop_ranks_wait(const dop_wire *wire, dop_replay *replay, uint64_t ticket, dop_diag *diag);
bool dop_ranks_may_spin(const dop_wire *wire, const dop_replay *replay);
/* Sends and receives any number of bytes, in messages of at most DOP_WIRE_MOST. */
dop_status dop_ranks_send_all(const dop_wire *wire, uint32_t to, dop_wire_lane lane, const void *bytes, uint64_t size,
                              dop_diag *diag);
dop_status dop_ranks_receive_all(const dop_wire *wire, uint32_t from, dop_wire_lane lane, void *bytes, uint64_t size,
                                 dop_diag *diag);

/* Opens the part of a rank on its device: with barriers only, and without running ahead. */
dop_status dop_model_open_part(const char *path, const dop_open_options *options, const dop_wire *wire, dop_diag *diag,
                               dop_model **out_model);
/* The digest that is the same for all parts of a plan. */
static inline uint64_t
dop_ranks_digest(const dop_plan *plan)
{
    return plan->part ? plan->part->set : plan->digest;
}

/* Ranks 1 and up: executes rank 0's orders until it announces the end, or until this rank or another one fails.
 * options: for this rank's device. */
dop_status dop_ranks_follow(const dop_wire *wire, const dop_open_options *options, dop_diag *diag);
/* Rank 0, at the very end: announces the end to the others. */
void dop_ranks_dismiss(const dop_wire *wire);

#endif
