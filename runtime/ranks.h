/* A model in parts: one rank for each part, and steps that go through all of them.
 *
 * Rank 0 has the first part and everything that is not the device's: tokens, pages, sampling, what counts and what does not.
 * Its model is the whole one for everybody else: dop_step_submit orders the same step of all ranks, dop_step_wait passes the
 * rows on and takes what the last part makes of them.  The other ranks do what is ordered (rank_follow.c), in order, as
 * soon as the rows before them are there; so rank 0 may begin a step as soon as it has passed on the rows of the one before,
 * and all parts are busy. */
#ifndef DOPPLER_RUNTIME_RANKS_H
#define DOPPLER_RUNTIME_RANKS_H

#include "runtime/part.h"
#include "runtime/rank_orders.h"
#include "runtime/wire.h"

/* What a rank answers when it has opened its part, followed by its schedules. */
typedef struct dop_rank_opened {
    uint32_t version; /* DOP_ORDERS_VERSION */
    uint32_t status;  /* dop_status; anything but DOP_OK: `text` says why, and there is no more */
    uint64_t digest;  /* of all parts */
    uint64_t device_bytes;
    uint32_t replaces, shares, rewind; /* as in dop_plan, dop_pages and dop_plan_model */
    uint32_t n_schedules;
    char device[96];
    char text[1024];
} dop_rank_opened;

typedef struct dop_rank_schedule {
    uint32_t kind, max_rows; /* which one: ordered by barriers */
    uint32_t greedy;         /* DOP_PICKS_* of the part */
    uint32_t reserved;
} dop_rank_schedule;

/* Where the time of steps goes, for the log. */
typedef struct dop_rank_times {
    uint64_t steps;
    double wait_ms;    /* for this part's device */
    double send_ms;    /* of rows, and of answers */
    double orders_ms;  /* waiting for orders; rank 0: for answers */
    double receive_ms; /* of rows that had not come while the step before ran */
} dop_rank_times;

/* --- rank 0 ---------------------------------------------------------------------------------------------------------- */

/* Of the steps that were submitted and not waited for. */
enum { DOP_RANKS_AHEAD = 8 };

typedef struct dop_ranks {
    const dop_wire *wire;
    uint32_t *shadow;             /* owned: the tables of pages as the others have them */
    dop_plan_schedule *schedules; /* owned: those of the plan, picking as the last part does */
    dop_plan_model facts;         /* of the plan, with what other parts limit */
    float *results;               /* owned: logits or hidden states that the last part made */
    dop_buf message;              /* for orders */
    uint32_t max_chunk;           /* of what is fed now; 0: whatever the schedules hold */
    struct {
        uint32_t schedule, n_rows, picks; /* picks: m->picks_asked after it */
        dop_answer answer;
        dop_form form;
    } steps[DOP_RANKS_AHEAD];
    bool holds; /* rows of the last step are not sent yet, since nobody waits for what they make */
    uint32_t held_schedule, held_rows; /* that step */
    uint32_t first, n_passed, n_steps; /* of steps[]: the oldest, those whose rows were passed on, all */
    /* Steps of rows of several sequences that dop_step_start began. */
    dop_open_step *started[DOP_RANKS_AHEAD]; /* owned; the first_started .. + n_started, counted round, are under way */
    uint32_t first_started, n_started;
    dop_rank_times times;
    uint32_t n_answered; /* ranks beside this one that have said how opening went */
} dop_ranks;

/* Orders the others to open their parts; what follows does so here.  model->ranks is there afterwards, also when it fails. */
dop_status dop_ranks_start(dop_model *model, const char *path, const dop_open_options *options, dop_diag *diag);
/* When this part is open: waits for the others and makes the model what all of them are. */
dop_status dop_ranks_join(dop_model *model, dop_diag *diag);
/* Orders the others to close; accepts a model without ranks. */
void dop_ranks_end(dop_model *model);

/* Before a step is submitted here, with the step record written: the same to all others. */
dop_status dop_ranks_submit(dop_model *model, uint32_t schedule, dop_form form, dop_diag *diag);
/* Submits it here.  Rows of the step before that are not sent yet go while this one runs. */
dop_status dop_ranks_run(dop_model *model, uint32_t schedule, dop_form form, dop_diag *diag, uint64_t *out_ticket);
/* After it has run here, m->picks_asked counted: passes its rows on. */
dop_status dop_ranks_pass(dop_model *model, dop_diag *diag);
/* The oldest step that was passed on: its picks are in the step record and its logits in results when it returns. */
dop_status dop_ranks_take(dop_model *model, dop_diag *diag);

/* Any order that has no rows.  The model may have no ranks: then nothing is done. */
dop_status dop_ranks_order(dop_model *model, dop_order_kind kind, const uint32_t *args, uint32_t n_args,
                           dop_diag *diag);
/* The others know the pages of the first n positions at a place. */
dop_status dop_ranks_tell_pages(dop_model *model, uint32_t place, uint32_t n, dop_diag *diag);
/* States of all other parts together, in the order of the ranks; see transfer.c. */
uint64_t dop_ranks_size(dop_model *model, uint32_t n);
dop_status dop_ranks_read(dop_model *model, uint32_t place, uint32_t n, dop_bytes_fn *take, void *user, dop_diag *diag);
dop_status dop_ranks_write(dop_model *model, uint32_t place, uint32_t n, const uint8_t *bytes, dop_diag *diag);

/* --- all ranks ------------------------------------------------------------------------------------------------------- */

/* Sends what goes over a cut after a step of n rows. */
dop_status dop_ranks_send_rows(const dop_model *model, const dop_wire *wire, uint32_t schedule, uint32_t n,
                               dop_diag *diag);
/* What comes over a cut before a step, as far as it is there. */
typedef struct dop_inbox {
    uint32_t n_rows;
    uint32_t n_values, n_taken; /* taken: all rows of it are there; all of them are when these are equal */
    uint64_t at;                /* bytes that are there of the next one */
    dop_part_value values[DOP_PART_MAX_VALUES];
} dop_inbox;
void dop_ranks_begin_rows(const dop_model *model, uint32_t schedule, uint32_t n, dop_inbox *out_inbox);
/* Takes what has come, or waits for all of it. */
dop_status dop_ranks_take_rows(const dop_wire *wire, dop_inbox *inbox, bool wait, dop_diag *diag);
/* Is a value that the schedule receives sent on?  Then it has to stay until it is. */
bool dop_ranks_pass_on(const dop_model *model, uint32_t schedule);
/* Waits for a submission to this rank's device.  Messages move meanwhile, and where there are processors enough the thread does not
 * sleep: waking it takes as long as a few dispatches. */
dop_status dop_ranks_wait(const dop_wire *wire, dop_replay *replay, uint64_t ticket, dop_diag *diag);
bool dop_ranks_may_spin(const dop_wire *wire, const dop_replay *replay);
/* Any number of bytes, in messages. */
dop_status dop_ranks_send_all(const dop_wire *wire, uint32_t to, dop_lane lane, const void *bytes, uint64_t size,
                              dop_diag *diag);
dop_status dop_ranks_receive_all(const dop_wire *wire, uint32_t from, dop_lane lane, void *bytes, uint64_t size,
                                 dop_diag *diag);

/* The part of a rank, on its device: barriers only, and nothing that runs ahead. */
dop_status dop_model_open_part(const char *path, const dop_open_options *options, const dop_wire *wire, dop_diag *diag,
                               dop_model **out_model);
/* The digest that is the same for all parts of a plan. */
static inline uint64_t
dop_ranks_digest(const dop_plan *plan)
{
    return plan->part ? plan->part->set : plan->digest;
}

/* Ranks 1 and on: does what rank 0 orders until it says that nothing more comes, or until this rank or another one fails.
 * options: of this rank's device. */
dop_status dop_ranks_follow(const dop_wire *wire, const dop_open_options *options, dop_diag *diag);
/* Rank 0, at the very end. */
void dop_ranks_dismiss(const dop_wire *wire);

#endif
