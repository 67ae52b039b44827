/* Inside of a model, its sequences and steps; programs that only run models use doppler.h.  The profiler, the benchmark and
 * --check look in here. */
#ifndef DOPPLER_RUNTIME_MODEL_H
#define DOPPLER_RUNTIME_MODEL_H

#include "runtime/doppler.h"
#include "runtime/pages.h"
#include "runtime/replay.h"
#include "runtime/spans.h"

struct dop_ranks; /* ranks.h */

enum { DOP_MAX_AHEAD = 16, DOP_PROBE_ROWS = 4 };

/* What the chosen profile uses: rows of schedules, kernels and slots.  One allocation behind three pointers. */
typedef struct dop_used {
    bool *schedules, *kernels, *slots;
} dop_used;

/* model_load.c: the thread that makes what the first tokens do not need. */
typedef struct dop_loader {
    _Atomic bool *ready; /* owned, by schedule: recorded */
    bool *run;           /* owned, by kernel: software devices have its machine code (dop_model_make_code) */
    _Atomic uint64_t recordings;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool lock_made, ended;
    dop_status st; /* why schedules are missing after the end */
    dop_diag diag;
    pthread_t thread;
    bool started;
} dop_loader;

/* A step that dop_step_run ran and that is neither committed nor rolled back.  The tokens of its rows stand after those of
 * their sequences. */
typedef struct dop_open_step {
    uint32_t n_rows; /* 0: there is no step */
    uint32_t n_sequences;
    struct {
        dop_sequence *sequence;
        uint32_t n_rows; /* of it in this step */
        bool ran;        /* its replay is done: its states are those after them */
    } of[DOP_STEP_MAX_SEQUENCES];
    uint32_t slot[DOP_STEP_MAX_ROWS];       /* index into of[] */
    uint32_t number[DOP_STEP_MAX_ROWS];     /* of the row among those of its sequence */
    const float *logits[DOP_STEP_MAX_ROWS]; /* of rows that want something and that the host has; else NULL */
    uint32_t picks[DOP_STEP_MAX_ROWS];      /* of rows that want one, by the device; UINT32_MAX: none */
    uint8_t wants[DOP_STEP_MAX_ROWS];
    /* Where all rows go through one schedule: that one, the first row of each sequence, and whether it picks what is wanted. */
    uint32_t together, first[DOP_STEP_MAX_SEQUENCES];
    bool by_device;
    float *kept;     /* owned: copies of logits, where a step takes several replays; NULL: none does */
    size_t cap_kept; /* rows of it */
} dop_open_step;

struct dop_model {
    dop_plan plan;
    dop_instance instance;
    dop_device device;
    dop_memory memory;
    dop_pipelines pipelines;
    dop_replay replay;
    dop_upload *upload; /* owned; its threads have ended, or give staging buffers back */
    dop_used used;      /* owned */
    dop_loader loader;
    dop_spans spans; /* of opening */
    dop_log log;
    dop_model_info info;
    uint32_t max_chunk, steps_ahead, steps_per_submit;
    bool no_scoring;
    uint64_t base_allocations, base_recordings, base_submissions;

    /* Decode schedules by DOP_ORDER_*, UINT32_MAX: none that may be used; info.decode is one of them.  Feeding and
     * scoring take barriers always. */
    uint32_t decode[DOP_N_ORDERS];
    bool probes;            /* which one to take is found out by probes: */
    uint32_t probe_at;      /* the next one when all are there and this position is reached */
    uint32_t probe_prefill; /* schedule of several rows, a probe's yardstick; UINT32_MAX: there is none */

    /* By the number of the place that a sequence has in the plan's states. */
    dop_sequence *sequences[DOP_STEP_MAX_SEQUENCES]; /* NULL: the place is free */
    uint32_t n_sequences;
    bool states_used[DOP_STEP_MAX_SEQUENCES]; /* they are not zero any more, as a new sequence wants them */
    dop_pages pages;                          /* of their caches; zeros where each has its own piece of those */
    /* Without a step that is under way: see dop_step of plan_format.h. */
    uint32_t parity[DOP_STEP_MAX_SEQUENCES];

    /* Greedy steps of one sequence on the device.  `running`: the step record holds the device's own next step, which is
     * to write position dev_pos of `runner`.  Picks are numbered since the plan was loaded; pick i is ids[i % DOP_STEP_RING]. */
    bool running;
    dop_sequence *runner; /* the steps in ahead[] are its own; NULL: there are none */
    uint32_t dev_pos;
    uint32_t picks_asked, picks_taken;
    struct {
        uint64_t ticket;
        uint32_t end; /* number of the first pick that is not part of it */
    } ahead[DOP_MAX_AHEAD];
    uint32_t n_ahead; /* submissions not waited for, oldest first */

    dop_open_step step;
    struct dop_ranks *ranks; /* owned: the other parts of the plan; NULL: it is in one part */
};

typedef struct dop_speculator dop_speculator; /* speculator.h */

/* tokens[0 .. n_fed) are in its states; usually at most one more, the last pick, is not yet. */
struct dop_sequence {
    dop_model *model;
    uint32_t place;   /* number of its place in the plan's states */
    uint32_t *tokens; /* owned, [ctx + 1] */
    uint32_t n_tokens, n_fed;
    /* States that steps replace have another copy, which is of tokens[0 .. n_kept): those before the last step, also while
     * that one is under way.  UINT32_MAX: it is of nothing. */
    uint32_t n_kept;
    uint32_t
        n_written; /* positions that were written since the states were clear, dropped ones too: rings have lost earlier ones */
    uint32_t wanted; /* tokens that dop_sequence_next will still be asked for */
    dop_sampler sampler;
    dop_sampler_fn *pick; /* the caller's own sampler; NULL: `sampler` */
    void *pick_user;
    const float *logits;        /* of the last fed token, for the host to pick from; NULL: none */
    dop_speculator *speculator; /* owned; NULL: none */
    bool drawn;                 /* by the device, of the last row of the step that is being made */
    bool masked;          /* picks are among the ids of `mask`; it stays for the next comparison when they are not */
    uint32_t *mask;       /* owned, [(vocab + 31) / 32], as the device has it; NULL: there never was one */
    float *masked_logits; /* owned, [vocab], where there is a mask */
};

/* step.c, and step_rows.c for what doppler.h has of steps */
/* When schedules are known: memory that steps need later. */
dop_status dop_step_prepare_model(dop_model *model, dop_diag *diag);
/* Whether a schedule is for feeding or scoring n tokens as `kind`: decode stands in for one token of every kind. */
bool dop_step_takes(const dop_model *model, uint32_t schedule, uint32_t kind, size_t n);
/* The schedule to feed n tokens with next and how many of them it takes. */
void dop_step_choose(const dop_model *model, uint32_t kind, size_t n, uint32_t *out_schedule, uint32_t *out_take);
/* Before n tokens are fed as `kind` to a plan in parts: how large the chunks are that this one chooses from then on. */
void dop_step_choose_chunks(dop_model *model, uint32_t kind, size_t n);
/* The decode schedule for n steps from pos on. */
uint32_t dop_step_decode_at(const dop_model *model, uint32_t pos, uint32_t n);
/* Makes the other copy of states that steps replace the current one, because a step of the sequence at this place counts
 * or does not count any more.  Nothing may be under way. */
void dop_step_swap_states(dop_model *model, uint32_t place);
/* The same while later steps may be under way: the device has changed the step record by itself. */
void dop_step_note_swap(dop_model *model, uint32_t place);
/* Submits and keeps count of the device's own picks.  Logits of steps before are gone then. */
dop_status dop_step_submit(dop_model *model, uint32_t schedule, dop_form form, uint32_t times, dop_diag *diag,
                           uint64_t *out_ticket);
/* What it counts, for those who submit by themselves. */
void dop_step_count_picks(dop_model *model, uint32_t schedule, dop_form form, uint32_t times);
/* Waits for a step: in parts, for this one, which passes its rows on, */
dop_status dop_step_pass(dop_model *model, uint64_t ticket, dop_diag *diag);
/* and then for what all of them make of the oldest step that was passed on. */
dop_status dop_step_take(dop_model *model, dop_diag *diag);
/* Both. */
dop_status dop_step_wait(dop_model *model, uint64_t ticket, dop_diag *diag);
/* The logits or hidden states of a schedule, after a wait for a step with DOP_FORM_READ; f32, until the next step. */
const float *dop_model_logits(const dop_model *model, uint32_t schedule);
/* One step of n rows of a sequence, whose tokens from pos on they are, from write to wait; it counts then.  Where waits run
 * out (a persistent schedule only), it is run again with barriers, and *io_schedule is what ran in the end. */
dop_status dop_step_finish(dop_sequence *sequence, uint32_t n, uint32_t pos, dop_form form, uint32_t *io_schedule,
                           dop_diag *diag);
/* Everything submitted is done, and picks that were not taken are dropped.  Of states that steps replace the sequence that
 * ran has those after the first step that was under way: all its tokens were there before. */
dop_status dop_step_drain(dop_model *model, dop_diag *diag);
/* Fails with DOP_E_USAGE while a step is open. */
dop_status dop_step_none_open(const dop_model *model, dop_diag *diag);
/* The same while a step is open, or one with this sequence is under way: states of the others may be touched, since all ranks do
 * what is ordered in order. */
dop_status dop_step_none_has(const dop_model *model, const dop_sequence *sequence, dop_diag *diag);
/* The error of logits, after the token at pos, that are not finite. */
dop_status dop_step_not_finite(const dop_model *model, uint32_t pos, dop_diag *diag);

/* Into how many groups rows of different sequences go best, a step for each, so that all parts have something to do; 1 where a
 * plan is in one part, or has no schedule for rows of several sequences. */
uint32_t dop_step_groups(const dop_model *model, uint32_t n_rows);
/* In parts: a step of rows of sequences that are not in another one which was started, all of whose tokens are in their states;
 * of one sequence it may be a chunk of a prompt, whose last row alone may want something.  Comes back when this part has done its
 * share.  Up to dop_step_groups may be under way.  Meanwhile sequences that are in none of them may be rewound, copied, given a
 * mask and what is cached; nothing else may be done but starting and finishing steps. */
dop_status dop_step_start(dop_model *model, const dop_step_row *rows, uint32_t n_rows, dop_diag *diag);
/* The oldest of them becomes the open step, as after dop_step_run. */
dop_status dop_step_end(dop_model *model, dop_diag *diag);

/* sequence.c */
/* Do n more tokens fit the context? */
dop_status dop_sequence_check_room(const dop_sequence *sequence, size_t n, dop_diag *diag);
/* Checks n more tokens, and drops steps that ran ahead. */
dop_status dop_sequence_make_room(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag);
/* Feeds what is missing from the states. */
dop_status dop_sequence_catch_up(dop_sequence *sequence, dop_diag *diag);

/* A pick by the caller's own sampler, from the logits after the first n_tokens tokens. */
dop_status dop_sequence_own_pick(dop_sequence *sequence, const float *logits, size_t n_tokens, dop_diag *diag,
                                 uint32_t *out_id);

/* Greedy, and the device may pick. */
bool dop_sequence_is_greedy(const dop_sequence *sequence);
/* dop_sequence_next in parts: may there be a next token; a pick by a step of one token, which becomes part of the sequence;
 * and what comes after a token was given. */
dop_status dop_sequence_may_pick(dop_sequence *sequence, dop_diag *diag);
dop_status dop_sequence_pick(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);
void dop_sequence_picked(dop_sequence *sequence);
/* All of them: the next token without drafts. */
dop_status dop_sequence_next_plain(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);
/* A pick, not part of the sequence yet, by a step of one token whose logits the host has. */
dop_status dop_sequence_pick_on_host(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);

/* sequence_mask.c */
/* DOP_ROW_* of a row that is picked from. */
static inline uint32_t
dop_sequence_row_flags(const dop_sequence *sequence)
{
    return (sequence->masked && !sequence->model->ranks ? DOP_ROW_MASKED : 0u) | (sequence->drawn ? DOP_ROW_DRAWN : 0u);
}
/* The logits, or with a mask a copy where those of other ids are -infinity, valid until the next call. */
const float *dop_sequence_masked(dop_sequence *sequence, const float *logits);
/* The largest logit that the mask allows, the lowest id among equals; UINT32_MAX: one of all logits is not finite. */
uint32_t dop_sequence_largest(const dop_sequence *sequence, const float *logits);

/* sequence_states.c */
/* Positions below `end` are about to be written. */
static inline void
dop_sequence_note_written(dop_sequence *sequence, uint32_t end)
{
    sequence->n_written = end > sequence->n_written ? end : sequence->n_written;
}
/* Rings may have lost positions that the row at `next` sees, to positions that were written further on and dropped again: then
 * the states are emptied, and everything is fed anew.  Nothing may be under way. */
dop_status dop_sequence_keep_rings(dop_sequence *sequence, uint32_t next, dop_diag *diag);
/* The states are of the first n tokens at most: of fewer where steps replace them and no copy of that time is left.
 * Nothing may be under way. */
dop_status dop_sequence_go_back(dop_sequence *sequence, uint32_t n, dop_diag *diag);
/* Drops tokens that speculation has given and nobody took, from the states too.  Nothing may be under way. */
dop_status dop_sequence_settle(dop_sequence *sequence, dop_diag *diag);
/* The sequence is empty, and its states are zeros.  Nothing may be under way. */
dop_status dop_sequence_empty(dop_sequence *sequence, dop_diag *diag);

/* sequence_pages.c */
/* The pages of positions [from, to) are the sequence's own, so that a step may write there; missing ones are taken.  DOP_E_FULL:
 * there are not enough, and nothing is changed.  Where another one has a page too, nothing may be under way. */
dop_status dop_sequence_reserve(dop_sequence *sequence, uint32_t from, uint32_t to, dop_diag *diag);
/* The end of the positions to reserve for steps that end at this one.  A step that is not ordered by barriers and stalls may
 * write the next one too. */
uint32_t dop_sequence_end(const dop_sequence *sequence, uint32_t schedule, uint32_t end);
/* Pages behind the tokens that are in the states are given back.  Nothing may be under way. */
void dop_sequence_trim(dop_sequence *sequence);

/* transfer.c: states of the sequence at a place, with nothing under way.  Append state is that of the first n positions;
 * of state that steps replace it is the current copy. */
bool dop_transfer_can(const dop_model *model); /* the plan says where each state is */
dop_status dop_transfer_clear(dop_model *model, uint32_t place, dop_diag *diag);
dop_status dop_transfer_copy(dop_model *model, uint32_t from, uint32_t to, uint32_t n, dop_diag *diag);
/* The first rows of a page to another one.  The other functions leave pages as they are, but for those that read and write. */
dop_status dop_transfer_copy_page(dop_model *model, uint32_t from, uint32_t to, uint32_t rows, dop_diag *diag);
/* Bytes of it, and their way to and from the host, in the order of the plan's states. */
uint64_t dop_transfer_size(dop_model *model, uint32_t n);
typedef dop_status dop_bytes_fn(void *user, const void *bytes, size_t size, dop_diag *diag);
dop_status dop_transfer_read(dop_model *model, uint32_t place, uint32_t n, dop_bytes_fn *take, void *user,
                             dop_diag *diag);
dop_status dop_transfer_write(dop_model *model, uint32_t place, uint32_t n, const uint8_t *bytes, dop_diag *diag);

/* model_load.c */
/* Starts pipelines: those of the schedules with first[schedule], then those of decoding, then the rest. */
dop_status dop_model_start_pipelines(dop_model *model, const bool *first, uint32_t threads, const char *cache_dir,
                                     dop_diag *diag);
/* Waits for a schedule's pipelines and records it; later as in dop_replay_add. */
dop_status dop_model_make(dop_model *model, uint32_t schedule, bool later, dop_diag *diag);
/* Starts the thread for all the others, or does its work when there is no thread. */
dop_status dop_model_start_loader(dop_model *model, dop_diag *diag);
void dop_model_end_loader(dop_model *model); /* waits for it; accepts one that was not started */
bool dop_model_has(const dop_model *model, uint32_t schedule);
/* Blocks until a schedule can be submitted. */
dop_status dop_model_need(dop_model *model, uint32_t schedule, dop_diag *diag);
/* A software driver makes machine code of a kernel when it first runs.  Dispatches without workgroups have it made before the
 * step that needs it, so that it counts as waiting, and not as the speed of the step. */
dop_status dop_model_make_code(dop_model *model, uint32_t schedule, dop_form form, dop_diag *diag);

/* ordering.c */
/* Takes the decode schedule with this DOP_ORDER_* from now on; does nothing when there is none.  May be called between
 * any two calls: whatever is under way is as it was. */
void dop_model_use_ordering(dop_model *model, uint32_t ordering);
/* After loading: takes what the options ask for. */
dop_status dop_model_choose_ordering(dop_model *model, dop_ordering wanted, dop_diag *diag);
/* Is it time to find out by a probe, with the next step?  Then nothing may be under way. */
bool dop_model_probes_next(const dop_model *model);
/* Takes the fastest ordering for steps from pos on that does what barriers do. */
dop_status dop_model_probe(dop_model *model, uint32_t pos, dop_diag *diag);
/* The same, if it is time to. */
dop_status dop_model_probe_at(dop_model *model, uint32_t pos, dop_diag *diag);
/* What is finished by now was not all ordered, or a step that should have made the last of n_picks is finished and did
 * not: none of the picks that were not taken yet is worth anything. */
bool dop_model_stalled(const dop_model *model, uint32_t n_picks);
/* Back to barriers for good.  Drops every pick that was not taken, and empties the mailboxes. */
dop_status dop_model_fall_back(dop_model *model, dop_diag *diag);

/* model_used.c */
/* Nothing is used; free() used.schedules. */
dop_status dop_used_init(const dop_plan *plan, dop_diag *diag, dop_used *out_used);
/* Marks kernels and slots of a schedule. */
void dop_model_mark(const dop_plan *plan, uint32_t schedule, dop_used *out);

/* probe.c */
typedef struct dop_probe_result {
    const char *fault;      /* why the other ordering is out of the question; NULL: it is not */
    double ms[2];           /* best time of a step: by barriers, in the other ordering */
    double distance, bound; /* of the logits, in standard deviations of a row */
    uint64_t bytes;         /* device memory of the probe's own */
} dop_probe_result;
/* One ordering against barriers from pos on, with rows, step record, states and mailboxes of its own. */
dop_status dop_probe_run(dop_model *model, uint32_t other, uint32_t pos, dop_diag *diag, dop_probe_result *out);

#endif
