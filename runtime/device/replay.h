/* Replay: one recorded command buffer per schedule and form, submitted as often as needed.
 *
 * Barriers are where the plan has them, and at the end of every command buffer. So steps always run in order; only
 * inside a persistent dispatch do stages order themselves.
 *
 * Everything is recorded when the plan is loaded, or soon after by another thread. A submission names a schedule and a
 * form, and signals the next value of a timeline semaphore. Submissions run in order, and each can read what the
 * previous one wrote. */
#ifndef DOPPLER_RUNTIME_DEVICE_REPLAY_H
#define DOPPLER_RUNTIME_DEVICE_REPLAY_H

#include "runtime/device/cut.h"
#include "runtime/device/memory.h"
#include "runtime/device/pipelines.h"

typedef enum dop_form {
    /* without the head: no logits, and the step record stays as it is (if the schedule has a split). Only for schedules
     * with barriers, because the last dispatch of others belongs to every run */
    DOP_FORM_BODY,
    DOP_FORM_FULL, /* with the head; schedules that pick advance the step record */
    DOP_FORM_READ, /* like DOP_FORM_FULL, and the host can read the logits afterwards */
    DOP_N_FORMS
} dop_form;

/* A step of a part is submitted in pieces, so that the host can use a mirror (cut.h) in between. */
enum {
    DOP_PIECE_IN = 1, /* copies received values to device memory; after that the host may write the next step's input */
    DOP_PIECE_STEP = 2, /* runs the form, which may overlap with the host reading what the previous step has sent */
    DOP_PIECE_OUT = 4,  /* copies sent values to the host's mirror */
    DOP_PIECES_ALL = 7
};

/* Memory to reset to its initial value: zeros, or all ones for mailboxes. */
typedef enum dop_clear {
    DOP_CLEAR_STATE, /* caches, for a new sequence */
    DOP_CLEAR_SYNC,  /* workgroup counters and mailboxes; the caller must reset dop_step.persistent_runs to 0 */
    DOP_CLEAR_ALL,   /* states, counters, mailboxes, scratch slots and stage tables: once, after loading */
    DOP_N_CLEARS
} dop_clear;

/* Observer of a replay, for the profiler. */
typedef struct dop_replay_observer {
    void *user;
    /* Provides a command buffer to submit instead of the recorded one; it must do the same work. */
    dop_status (*commands)(void *user, uint32_t schedule, dop_form form, uint64_t ticket, dop_diag *diag,
                           VkCommandBuffer *out_commands);
    /* Called before and after host operations: "submit", "wait". */
    void (*begin)(void *user, const char *name);
    void (*end)(void *user);
} dop_replay_observer;

/* A submission of a schedule, kept to predict how long to wait for it (replay_wait.c). */
typedef struct dop_replay_submission {
    uint64_t ticket;
    uint32_t schedule, times;
    double ms; /* dop_now_ms at submission */
} dop_replay_submission;
enum { DOP_REPLAY_WAITS = 32 };

/* Duration of a step of a schedule (replay_split.c). */
typedef struct dop_replay_length {
    double took_ms;      /* measured duration of recent steps; 0: not known */
    double estimate_ms;  /* estimated upper bound */
    uint32_t n_segments; /* number of command buffers that share its dispatches */
} dop_replay_length;

/* Chain of steps in which the device continues from its own picks: schedule `first` once, then `next` until n steps are
 * done. Each later step runs the first `rows` rows of the step before, with their picks as tokens and the values sent
 * for them. */
typedef struct dop_chain {
    uint32_t first, next; /* schedules */
    uint32_t rows, n;
} dop_chain;
/* Command buffer between two steps of a chain, recorded on first use. */
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
    VkCommandBuffer **commands; /* owned, [schedule][form]: command buffers of the segments; NULL: not recorded */
    VkCommandBuffer *cuts;      /* [schedule][cut]; VK_NULL_HANDLE: nothing crosses, or not recorded */
    VkCommandBuffer clear[DOP_N_CLEARS];
    VkCommandBuffer copy; /* copies states from another memory; VK_NULL_HANDLE: not recorded */
    dop_replay_link links[DOP_REPLAY_LINKS];
    uint32_t n_links;      /* number recorded so far; links[] is a ring, so the oldest are overwritten */
    VkCommandBuffer piece; /* command buffer of the last dop_replay_begin; VK_NULL_HANDLE: none yet */
    VkSemaphore timeline;
    /* owned, [DOP_STEP_MAX_ROWS]: host copy of the rows last written to the step record, which may be slow to read */
    dop_row *rows;
    uint32_t n_rows;            /* number of rows last written */
    uint64_t submitted;         /* ticket (timeline value) of the last submission */
    bool pairs;                 /* some kernel of the plan needs DOP_CAP_coop_pairs */
    bool timed;                 /* step durations are measured; false on software devices */
    bool looks;                 /* waits may spin on the semaphore for a short time */
    dop_replay_length *lengths; /* owned, [schedule] */
    /* ring of recent submissions, indexed by ticket % DOP_REPLAY_WAITS */
    dop_replay_submission waits[DOP_REPLAY_WAITS];
    uint64_t ended;                      /* ticket of the last submission that was waited for */
    double ended_ms;                     /* dop_now_ms when it was found finished */
    _Atomic uint64_t recordings;         /* number of command buffers recorded */
    const dop_replay_observer *observer; /* not owned; NULL: none */
} dop_replay;

/* Creates a replay without any recorded schedule. */
dop_status dop_replay_create(dop_device *device, const dop_plan *plan, const dop_memory *memory,
                             const dop_pipelines *pipelines, dop_diag *diag, dop_replay *out_replay);
/* True if the schedule has this form. */
bool dop_replay_has_form(const dop_plan *plan, uint32_t schedule, dop_form form);
/* Records all forms of a schedule, whose pipelines must be finished. */
dop_status dop_replay_add(dop_replay *replay, uint32_t schedule, dop_diag *diag);
/* Waits for what is in flight unless the device is lost. Accepts a zeroed one. */
void dop_replay_destroy(dop_replay *replay);

enum { DOP_REPLAY_MAX_TIMES = 256 };
/* Submits a schedule `times` in a row (1 .. DOP_REPLAY_MAX_TIMES) as one submission. *out_ticket: for waiting. */
dop_status dop_replay_submit(dop_replay *replay, uint32_t schedule, dop_form form, uint32_t times, dop_diag *diag,
                             uint64_t *out_ticket);
/* Submits some pieces of a step, DOP_PIECE_*, in order; dop_replay_submit submits all. Each piece must be submitted
 * once per step. */
dop_status dop_replay_submit_pieces(dop_replay *replay, uint32_t schedule, dop_form form, uint32_t times,
                                    uint32_t pieces, dop_diag *diag, uint64_t *out_ticket);
/* Submits a chain in full form, as one submission. Nothing may be in flight. */
dop_status dop_replay_submit_chain(dop_replay *replay, const dop_chain *chain, dop_diag *diag, uint64_t *out_ticket);
/* replay_split.c: estimates an upper bound for the duration of a step, in milliseconds. */
double dop_replay_estimate_ms(const dop_device_info *info, const dop_plan *plan, uint32_t schedule);
/* Returns the number of command buffers for a schedule whose steps take `ms`, so that each takes at most most_ms if
 * possible (0: no limit). */
uint32_t dop_replay_count_segments(const dop_plan *plan, uint32_t schedule, double ms, double most_ms);
/* Returns the number of command buffers that dop_replay_add records for each form of a schedule. */
uint32_t dop_replay_segments(const dop_replay *replay, uint32_t schedule);
/* Split point in a schedule where a command buffer may end: before a row of workgroups (along y) of a dispatch. */
typedef struct dop_replay_place {
    uint32_t dispatch; /* index in the schedule */
    uint32_t row;      /* if > 0, the rows before it are in an earlier command buffer */
    uint32_t piece;    /* position within the dispatch, in equal pieces of the dispatch */
} dop_replay_place;
/* Divides the first n_dispatches dispatches of the schedule into n segments of about equal work, and returns the end of
 * one. */
dop_replay_place dop_replay_segment_end(const dop_plan *plan, uint32_t schedule, uint32_t n_dispatches, uint32_t n,
                                        uint32_t segment);
/* True if dispatches of the kernel are split on such a device, with submissions of at most most_ms (0: no limit). */
bool dop_replay_divides(const dop_device_info *info, const dop_plan *plan, uint32_t kernel, double most_ms);
/* Returns the maximum number of the schedule's command buffers in one submission to the driver. */
uint32_t dop_replay_batch(const dop_replay *replay, uint32_t schedule);
dop_status dop_replay_clear(dop_replay *replay, dop_clear what, dop_diag *diag, uint64_t *out_ticket);
/* Computes the push constants of a dispatch (not a stage): its arguments, or the address of its parameter record, which
 * the clear after loading fills. Returns their size in bytes. */
uint32_t dop_replay_args(const dop_replay *replay, const dop_plan_dispatch *dispatch, uint64_t out_args[DOP_PUSH_ARGS]);
/* For work other than schedules. dop_replay_begin begins a command buffer that runs after everything submitted before.
 * The caller records it; dop_replay_end submits it and makes its writes visible to the host and to later submissions.
 * Only one at a time, and nothing may be in flight. */
dop_status dop_replay_begin(dop_replay *replay, dop_diag *diag, VkCommandBuffer *out_commands);
dop_status dop_replay_end(dop_replay *replay, dop_diag *diag, uint64_t *out_ticket);
/* Copies the states from another memory of the same plan, which must have nothing in flight. Records a command
 * buffer. */
dop_status dop_replay_copy_states(dop_replay *replay, const dop_memory *from, dop_diag *diag, uint64_t *out_ticket);
/* Waits for a submission. Fails with DOP_E_DEVICE if a kernel of a multi-row step found that the device lacks a
 * capability it claims (DOP_STEP_UNPAIRED). */
dop_status dop_replay_wait(dop_replay *replay, uint64_t ticket, dop_diag *diag);
/* True if spinning is worthwhile: a hardware device and enough processors. */
bool dop_replay_may_look(const dop_device *device);
/* Spins for at most `ms` milliseconds, calling `meanwhile` (unless NULL) in the loop. Returns true if the
 * submission has finished. */
bool dop_replay_look(const dop_replay *replay, uint64_t ticket, double ms, void (*meanwhile)(void *user), void *user);
/* Records the time of a schedule's submission; call it right after submitting. */
void dop_replay_note_submission(dop_replay *replay, uint32_t schedule, uint32_t times);

/* True if everything submitted is finished. Does not wait. */
bool dop_replay_is_idle(const dop_replay *replay);
/* True if the submission has finished. Does not wait. */
bool dop_replay_has_ended(const dop_replay *replay, uint64_t ticket);
/* Waits for a submission for at most this many microseconds. Returns true if it has finished. */
bool dop_replay_ends_within(const dop_replay *replay, uint64_t ticket, uint32_t us);

/* Returns the host address of a schedule's logits, f32; NULL in parts that make none. Valid after waiting for a
 * DOP_FORM_READ submission. */
const float *dop_replay_logits(const dop_replay *replay, uint32_t schedule);
/* Makes one row of logits readable after a form other than DOP_FORM_READ. Nothing may be in flight. */
dop_status dop_replay_fetch_logits(dop_replay *replay, uint32_t schedule, uint32_t row, dop_diag *diag);
/* Returns the step record. The host may access it only while nothing is in flight, except to read ids of finished
 * steps. */
volatile dop_step *dop_replay_step(const dop_replay *replay);

/* Writes the step record: n tokens of the first sequence from position pos on. `parity` is its current copy of replaced
 * states. Nothing that uses the record may be in flight. */
void dop_replay_write_step(dop_replay *replay, const uint32_t *ids, uint32_t n, uint32_t pos, uint32_t parity);
/* Writes row i of the record, and of its host copy. */
void dop_replay_write_row(dop_replay *replay, uint32_t i, const dop_row *row);

/* Hook that records commands before each dispatch; `before` NULL: none. */
typedef struct dop_replay_watch {
    void *user;
    void (*before)(void *user, uint32_t schedule, const dop_plan_dispatch *dispatch, VkCommandBuffer commands);
} dop_replay_watch;
/* Records a schedule into the caller's command buffer. With a query pool, also writes a timestamp before the first
 * dispatch and after each: n_dispatches + 1 queries from first_query on. watch may be NULL. */
dop_status dop_replay_record(dop_replay *replay, uint32_t schedule, dop_form form, VkQueryPool timestamps,
                             uint32_t first_query, const dop_replay_watch *watch, VkCommandBuffer commands,
                             dop_diag *diag);

#endif
