/* Replay: one recorded command buffer per schedule and form, submitted as often as needed.
 *
 * Barriers are where the plan has them, and at the end of every command buffer: steps always run in order, and only inside a
 * persistent dispatch do stages order themselves.
 *
 * Everything is recorded when the plan is loaded, or by another thread soon after.  A submission names a schedule and a
 * form; each one signals the next value of one timeline semaphore.  Submissions run in order, and each sees what the
 * previous one wrote. */
#ifndef DOPPLER_RUNTIME_DEVICE_REPLAY_H
#define DOPPLER_RUNTIME_DEVICE_REPLAY_H

#include "runtime/device/cut.h"
#include "runtime/device/memory.h"
#include "runtime/device/pipelines.h"

typedef enum dop_form {
    DOP_FORM_BODY, /* without the head: no logits, and the step record stays as it is (where the schedule has a split).
                      Only for schedules ordered by barriers, because the last dispatch of others belongs to every run */
    DOP_FORM_FULL, /* with the head; greedy schedules advance the step record */
    DOP_FORM_READ, /* as DOP_FORM_FULL, and the host can read the logits afterwards */
    DOP_N_FORMS
} dop_form;

/* A step of a part is submitted in pieces where the host uses a mirror (cut.h) meanwhile. */
enum {
    DOP_PIECE_IN =
        1, /* copies what was received to where kernels read it; then the host may write the next step's input */
    DOP_PIECE_STEP = 2, /* the form, which may run while the host reads what the previous step has sent */
    DOP_PIECE_OUT = 4,  /* copies what is sent to where the host reads it */
    DOP_PIECES_ALL = 7
};

/* What to set to its initial value: zeros, or all ones for mailboxes. */
typedef enum dop_clear {
    DOP_CLEAR_STATE, /* caches, for a new sequence */
    DOP_CLEAR_SYNC, /* counters of workgroups, and mailboxes; dop_step.persistent_runs must then be 0 for the next step */
    DOP_CLEAR_ALL, /* states, counters, mailboxes, scratch slots, and the tables of stages: once, after loading */
    DOP_N_CLEARS
} dop_clear;

/* Watches a replay, for the profiler. */
typedef struct dop_replay_observer {
    void *user;
    /* Gives a command buffer to submit instead of the recorded one; it must do the same. */
    dop_status (*commands)(void *user, uint32_t schedule, dop_form form, uint64_t ticket, dop_diag *diag,
                           VkCommandBuffer *out_commands);
    /* Called before and after what the host does: "submit", "wait". */
    void (*begin)(void *user, const char *name);
    void (*end)(void *user);
} dop_replay_observer;

/* A submission of a schedule: for how long to wait (replay_wait.c). */
typedef struct dop_replay_submission {
    uint64_t ticket;
    uint32_t schedule, times;
    double ms; /* dop_now_ms when it was submitted */
} dop_replay_submission;
enum { DOP_REPLAY_WAITS = 32 };

/* How long a step of a schedule takes (replay_split.c). */
typedef struct dop_replay_length {
    double took_ms;      /* a step lately; 0: not known */
    double estimate_ms;  /* at most, as a guess */
    uint32_t n_segments; /* command buffers among which its dispatches are divided */
} dop_replay_length;

/* Steps of a program that the device makes from its own picks: `first`, then `next` until there were n steps.  The rows of each step but
 * the first are the first `rows` ones of the step before, which its picks have continued, with what that step has sent for them. */
typedef struct dop_chain {
    uint32_t first, next; /* schedules */
    uint32_t rows, n;
} dop_chain;
/* What happens between two steps of a chain, recorded when it is needed for the first time. */
typedef struct dop_replay_link {
    uint32_t from, to, rows;
    VkCommandBuffer commands;
} dop_replay_link;
enum { DOP_REPLAY_LINKS = 64 };

typedef struct dop_replay {
    dop_device *device;
    const dop_plan *plan;
    const dop_memory *memory;
    const dop_pipelines *pipelines;
    VkCommandPool pool;
    VkCommandBuffer **commands; /* [schedule][form], owned: the command buffers of its segments; NULL: not recorded */
    VkCommandBuffer *cuts;      /* [schedule][cut]; VK_NULL_HANDLE: nothing crosses there, or not recorded */
    VkCommandBuffer clear[DOP_N_CLEARS];
    VkCommandBuffer copy; /* copies states from another memory; VK_NULL_HANDLE: not recorded */
    dop_replay_link links[DOP_REPLAY_LINKS];
    uint32_t n_links;      /* that were recorded; the oldest ones make room */
    VkCommandBuffer piece; /* the one that the last dop_replay_begin gave; VK_NULL_HANDLE: none yet */
    VkSemaphore timeline;
    dop_row *rows;      /* owned, [DOP_STEP_MAX_ROWS]: the rows last written to the step record, which is slow to read
                                            if it lies in device memory */
    uint32_t n_rows;    /* number of rows last written */
    uint64_t submitted; /* timeline value of the last submission: its ticket */
    bool pairs;         /* some kernel of the plan needs DOP_CAP_coop_pairs */
    bool timed;         /* how long steps take is measured: not on a device that is the host's processor */
    bool looks;         /* waits may look at the semaphore for a short time without sleeping */
    dop_replay_length *lengths; /* owned, [schedule] */
    dop_replay_submission
        waits[DOP_REPLAY_WAITS];         /* submissions not long ago, at the index ticket % DOP_REPLAY_WAITS */
    uint64_t ended;                      /* ticket of the last submission that was waited for */
    double ended_ms;                     /* dop_now_ms when that one was seen to have ended */
    _Atomic uint64_t recordings;         /* number of command buffers recorded */
    const dop_replay_observer *observer; /* not owned; NULL: none */
} dop_replay;

/* Prepares, but records no schedule yet. */
dop_status dop_replay_create(dop_device *device, const dop_plan *plan, const dop_memory *memory,
                             const dop_pipelines *pipelines, dop_diag *diag, dop_replay *out_replay);
/* Does a schedule have this form? */
bool dop_replay_has_form(const dop_plan *plan, uint32_t schedule, dop_form form);
/* Records all forms of a schedule, whose pipelines must be finished. */
dop_status dop_replay_add(dop_replay *replay, uint32_t schedule, dop_diag *diag);
/* Waits for what is in flight unless the device is lost; accepts a zeroed one. */
void dop_replay_destroy(dop_replay *replay);

/* Submits a schedule `times` in a row (1 .. DOP_REPLAY_MAX_TIMES) as one submission.  out_ticket: what to wait for. */
enum { DOP_REPLAY_MAX_TIMES = 256 };
dop_status dop_replay_submit(dop_replay *replay, uint32_t schedule, dop_form form, uint32_t times, dop_diag *diag,
                             uint64_t *out_ticket);
/* Submits some of its pieces, DOP_PIECE_*, in order; the function above submits all.  Each is submitted once per step. */
dop_status dop_replay_submit_pieces(dop_replay *replay, uint32_t schedule, dop_form form, uint32_t times,
                                    uint32_t pieces, dop_diag *diag, uint64_t *out_ticket);
/* Submits a chain, in full form, as one submission; nothing may be in flight. */
dop_status dop_replay_submit_chain(dop_replay *replay, const dop_chain *chain, dop_diag *diag, uint64_t *out_ticket);
/* replay_split.c: how long a step of the schedule takes at most, as a guess, milliseconds. */
double dop_replay_estimate_ms(const dop_device_info *info, const dop_plan *plan, uint32_t schedule);
/* Command buffers for a schedule whose steps take `ms`, so that none takes longer than most_ms (0: any time) if that is possible. */
uint32_t dop_replay_count_segments(const dop_plan *plan, uint32_t schedule, double ms, double most_ms);
/* The number of them that dop_replay_add records for each form of a schedule. */
uint32_t dop_replay_segments(const dop_replay *replay, uint32_t schedule);
/* A place in a schedule where a command buffer may end: before a row of workgroups (along y) of a dispatch. */
typedef struct dop_replay_place {
    uint32_t dispatch; /* of the schedule */
    uint32_t row;      /* > 0: the rows before it are in an earlier command buffer */
    uint32_t piece;    /* number of equal pieces of the dispatch that these rows are */
} dop_replay_place;
/* The first n_dispatches dispatches of the schedule are divided into n segments of about equal work: where number `segment` ends. */
dop_replay_place dop_replay_segment_end(const dop_plan *plan, uint32_t schedule, uint32_t n_dispatches, uint32_t n,
                                        uint32_t segment);
/* Is a dispatch of the kernel divided on such a device, where submissions shall take most_ms (0: any time)? */
bool dop_replay_divides(const dop_device_info *info, const dop_plan *plan, uint32_t kernel, double most_ms);
/* Most command buffers of the schedule that go into one submission to the driver. */
uint32_t dop_replay_batch(const dop_replay *replay, uint32_t schedule);
dop_status dop_replay_clear(dop_replay *replay, dop_clear what, dop_diag *diag, uint64_t *out_ticket);
/* The push constants of a dispatch of the plan, which is no stage: its arguments, or the address of their record, which the
 * clear after loading fills.  Returns their bytes. */
uint32_t dop_replay_args(const dop_replay *replay, const dop_plan_dispatch *dispatch, uint64_t out_args[DOP_PUSH_ARGS]);
/* For work other than schedules: begins a command buffer that sees everything submitted before.  The caller records it and passes
 * it to dop_replay_end, which submits it; the host and what is submitted later see what it wrote.  One at a time, and nothing
 * may be in flight. */
dop_status dop_replay_begin(dop_replay *replay, dop_diag *diag, VkCommandBuffer *out_commands);
dop_status dop_replay_end(dop_replay *replay, dop_diag *diag, uint64_t *out_ticket);
/* Copies the states from another memory of the same plan, with nothing in flight there; records a command buffer. */
dop_status dop_replay_copy_states(dop_replay *replay, const dop_memory *from, dop_diag *diag, uint64_t *out_ticket);
/* Fails with DOP_E_DEVICE where a kernel of a step of several rows has found that the device lacks what it claims
 * (DOP_STEP_UNPAIRED). */
dop_status dop_replay_wait(dop_replay *replay, uint64_t ticket, dop_diag *diag);
/* Do the device and the number of processors allow waits that look? */
bool dop_replay_may_look(const dop_device *device);
/* Looks for at most so many milliseconds, without sleeping, whether a submission has ended, calling meanwhile (NULL: nothing)
 * again and again; returns whether it has. */
bool dop_replay_look(const dop_replay *replay, uint64_t ticket, double ms, void (*meanwhile)(void *user), void *user);
/* Call after a schedule was submitted. */
void dop_replay_note_submission(dop_replay *replay, uint32_t schedule, uint32_t times);

/* Whether everything submitted is done; does not wait. */
bool dop_replay_is_idle(const dop_replay *replay);
/* Has a submission ended?  Asks without waiting. */
bool dop_replay_has_ended(const dop_replay *replay, uint64_t ticket);
/* Waits for a submission for at most this many microseconds; returns whether it is done. */
bool dop_replay_ends_within(const dop_replay *replay, uint64_t ticket, uint32_t us);

/* Host pointer to the logits of a schedule, f32, NULL in parts that make none; valid after waiting for a DOP_FORM_READ submission. */
const float *dop_replay_logits(const dop_replay *replay, uint32_t schedule);
/* Makes row `row` of them readable after another form than DOP_FORM_READ; nothing may be in flight. */
dop_status dop_replay_fetch_logits(dop_replay *replay, uint32_t schedule, uint32_t row, dop_diag *diag);
/* The step record; the host may access it only while nothing is in flight, except to read ids of finished steps. */
volatile dop_step *dop_replay_step(const dop_replay *replay);

/* Writes the step record: n tokens from position pos on, of the first sequence, whose current states are in copy `parity`.
 * Nothing that uses the record may be in flight. */
void dop_replay_write_step(dop_replay *replay, const uint32_t *ids, uint32_t n, uint32_t pos, uint32_t parity);
/* Row i of the record, and of its copy. */
void dop_replay_write_row(dop_replay *replay, uint32_t i, const dop_row *row);

/* What else is recorded before each dispatch; `before` NULL: nothing. */
typedef struct dop_replay_watch {
    void *user;
    void (*before)(void *user, uint32_t schedule, const dop_plan_dispatch *dispatch, VkCommandBuffer commands);
} dop_replay_watch;
/* Records a schedule into a command buffer of the caller's; with a query pool, a timestamp before the first dispatch
 * and one after each: n_dispatches + 1 from first_query on.  watch may be NULL. */
dop_status dop_replay_record(dop_replay *replay, uint32_t schedule, dop_form form, VkQueryPool timestamps,
                             uint32_t first_query, const dop_replay_watch *watch, VkCommandBuffer commands,
                             dop_diag *diag);

#endif
