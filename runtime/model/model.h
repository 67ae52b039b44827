/* The inside of a model, its sequences and steps.  Programs that only run models use doppler.h; the profiler, the benchmark and
 * --check need this. */
#ifndef DOPPLER_RUNTIME_MODEL_MODEL_H
#define DOPPLER_RUNTIME_MODEL_MODEL_H

#include "base/spans.h"
#include "runtime/device/replay.h"
#include "runtime/model/draft_policy.h"
#include "runtime/model/driver.h"
#include "runtime/model/info.h"
#include "runtime/model/pages.h"
#include "runtime/model/prefix.h"

struct dop_ranks; /* ranks.h */

enum { DOP_MAX_AHEAD = 16, DOP_PROBE_ROWS = 4, DOP_MAX_SLOTS = 64 };

/* What the chosen profile uses of the plan; one allocation behind three pointers. */
typedef struct dop_used {
    /* The table from which steps choose: by kind and ordering, fewest rows first, then as in the plan.  Those of a kind and an
     * ordering stand from first[kind * DOP_N_ORDERS + ordering] up to the next of first[]; those for rows with adapters in a second half of
     * the table, as kinds from DOP_SCHED_END on. */
    uint32_t *schedules, n; /* [n] */
    uint32_t first[2 * DOP_SCHED_END * DOP_N_ORDERS + 1];
    bool *kernels, *slots; /* by row of the plan */
} dop_used;

/* model_load.c: what is made when it is needed. */
typedef struct dop_loader {
    dop_progress progress; /* of opening; nothing afterwards */
    bool *ready;           /* owned, by schedule: recorded */
    bool *run;             /* owned, by kernel: its machine code exists, on software devices (dop_model_make_code) */
    bool *kernels;         /* owned, by kernel: those of the schedule that is needed */
    dop_driver driver;     /* the thread that drives the model */
} dop_loader;

/* Rows of one sequence in a step: tokens[pos .. pos + n). */
typedef struct dop_sequence_rows {
    dop_sequence *sequence;
    uint32_t pos, n;
    bool ran;          /* after dop_step_collect: the states are those after the rows */
    uint32_t versions; /* then: of states that steps replace, how many the step has written */
    uint32_t dropped;  /* of the last rows: how many the commit leaves out (dop_step_keep) */
} dop_sequence_rows;

/* A submission of a step, from dop_step_issue to dop_step_collect. */
typedef struct dop_issue {
    uint32_t schedule;
    dop_form form;
    uint32_t
        times; /* steps in this submission, the later ones of a row of each sequence that the device picked; 0 means 1 */
    bool own;  /* the step record holds the rows already: the device goes on from its picks */
    bool continued;    /* the device itself makes the next step from the picks of this step, and commits it */
    uint32_t pick_end; /* number of the first pick of DOP_PICKS_NEXT after this submission */
    uint64_t ticket;
} dop_issue;

/* A step that dop_step_run ran and that is neither committed nor rolled back.  The tokens of its rows follow those of their
 * sequences. */
typedef struct dop_open_step {
    uint32_t n_rows; /* 0: there is no step */
    uint32_t n_sequences;
    dop_sequence_rows of[DOP_STEP_MAX_SEQUENCES];
    uint32_t slot[DOP_STEP_MAX_ROWS];       /* of each row: index of its sequence in of[] */
    uint32_t number[DOP_STEP_MAX_ROWS];     /* of each row: how many rows of its sequence come before */
    const float *logits[DOP_STEP_MAX_ROWS]; /* of each row that wants something, where the host has them; else NULL */
    uint32_t picks[DOP_STEP_MAX_ROWS];      /* of each row that wants one, made by the device; UINT32_MAX: none */
    uint8_t wants[DOP_STEP_MAX_ROWS];       /* DOP_WANTS_* of each row */
    dop_issue run;                          /* the last submission of the step */
    uint32_t first[DOP_STEP_MAX_SEQUENCES]; /* the first row of each sequence in its submission */
    bool by_device;                         /* the last submission makes the wanted picks */
    bool continues;                         /* the device's own next step may be submitted */
    float *kept;     /* owned: copies of logits, for steps that take several replays; NULL: steps take one */
    size_t cap_kept; /* size of `kept`, rows of logits */
} dop_open_step;

/* The persistent form of a schedule of rows. */
typedef struct dop_rows_order {
    uint32_t schedule; /* UINT32_MAX: there is none */
    bool probed, use;  /* whether a probe has judged it, and whether to use it */
} dop_rows_order;

/* How decode steps are ordered: the schedules of each ordering, and when probes choose among them (ordering.c).  Feeding and
 * scoring always use barriers. */
typedef struct dop_orders {
    uint32_t decode[DOP_N_ORDERS]; /* by DOP_ORDER_*, UINT32_MAX: none that may be used; info.decode is one of them */
    dop_rows_order several[DOP_STEP_SEVERAL]; /* persistent schedules of rows, by max_rows - 1 (ordering_rows.c) */
    uint32_t last_rows; /* the persistent schedule that ran the last step of rows; UINT32_MAX: barriers ordered it */
    bool probes;        /* probes decide which decode schedule to use */
    bool keeps; /* the text goes on by barriers to its end, because other forms were not there when it wanted them */
    uint32_t probe_at;      /* position of the next probe */
    uint32_t probe_prefill; /* schedule of several rows that a probe compares with; UINT32_MAX: there is none */
} dop_orders;

/* What speculation has learned of a model: how far logits of the same token differ between a step of several rows and a step of one row
 * (speculate.c), and what steps take. */
typedef struct dop_drift {
    double apart;            /* largest difference of a logit */
    double spread;           /* standard deviation of the logits of the first judged row; 0: no row was judged */
    uint32_t n_compared;     /* tokens that were compared */
    dop_draft_policy policy; /* as the last speculation left it; zeros: there was none */
} dop_drift;

/* In-flight steps: submitted, and not taken by the host yet.  Each begins with the picks of the step before, so that the device
 * continues by itself.  A single sequence that is greedy has such steps (sequence.c), or the sequences of dop_step_run with one
 * row each (step_ahead.c).  Picks of schedules with DOP_PICKS_NEXT are numbered since the plan was loaded; pick i is
 * ids[i % DOP_STEP_RING] of the step record. */
typedef struct dop_in_flight {
    bool continues; /* the step record holds the device's own next step, whose row i is rows[i] */
    bool by_rows;   /* the steps are those of dop_step_run: nobody knows the tokens of their rows yet */
    dop_sequence_rows rows[DOP_STEP_MAX_SEQUENCES]; /* pos: the position that the device's own next step will write */
    struct {
        uint32_t flags; /* DOP_ROW_* */
        dop_row_way way;
    } picks[DOP_STEP_MAX_SEQUENCES]; /* by_rows: how the device picks from rows[] */
    uint32_t n_rows;
    uint32_t schedule;                 /* by_rows: the schedule that runs the steps */
    uint32_t picks_asked, picks_taken; /* numbers of the next pick to submit, and of the next one that the host reads */
    struct {
        uint64_t ticket;
        uint32_t end; /* number of the first pick that is not part of this submission */
    } steps[DOP_MAX_AHEAD];
    uint32_t n;                  /* submissions that were not waited for yet, oldest first */
    uint32_t n_commits;          /* of steps of dop_step_run */
    uint64_t n_taken, n_dropped; /* dop_counters: steps_ahead, rows_dropped */
} dop_in_flight;

/* Slots for checkpoints (transfer.c). */
typedef struct dop_slots {
    uint32_t n;
    uint64_t bytes;    /* of one, in this part */
    uint64_t *offsets; /* owned, by state: bytes into a slot */
    dop_block block, staging;
} dop_slots;

/* A checkpoint, in the slot with its index (runtime/step/restore_point.h). */
typedef struct dop_restore_point {
    uint64_t id;      /* never used again; 0: the slot is free */
    uint32_t n;       /* tokens whose states it has */
    uint32_t over;    /* later positions that had been written and dropped when it was made: rings have lost as many */
    uint32_t *tokens; /* owned, [n] */
    dop_prefix prefix;
    bool chunk;    /* made at the end of a chunk, and not where prompts part or a turn ends */
    uint64_t used; /* dop_model.checkpoint_clock when it was made or last used */
    uint32_t held; /* handles (dop_sequence_checkpoint) */
} dop_restore_point;

/* Counts of a device and its replay. */
typedef struct dop_device_counts {
    uint64_t allocations, recordings, submissions;
} dop_device_counts;

/* Room for one adapter. */
typedef struct dop_adapter_slot {
    char *path;      /* owned; NULL: the room is free */
    uint64_t digest; /* of what was loaded */
    bool written;    /* its ranks are not all 0 */
    double scale;    /* factor that its file states, which is not in its matrices: these keep their digits so */
} dop_adapter_slot;

/* Features of a picture: rows of steps under ids of their own. */
typedef struct dop_features {
    struct dop_features *next;
    uint32_t first, n;      /* ids first .. first + n - 1 */
    uint32_t height, width; /* rows and columns of features, whose product is n; 0: a row has no place of its own */
    bool together;          /* rows see one another, and have to be in one step */
    float *rows;            /* owned, [dop_model_features_depth][n][hidden] */
} dop_features;

/* Prompts in host memory and files (runtime/step/stored.h). */
typedef struct dop_prompt_store {
    struct dop_store *store; /* owned; NULL: there is none */
    bool has_rows;           /* sequences have caches that keep every position, in any part */
    uint64_t tokens_saved,
        tokens_loaded; /* tokens that prompts need not read again; and those of them that came from the store */
} dop_prompt_store;

/* What is kept of prompts: checkpoints on the device, and what is elsewhere. */
typedef struct dop_checkpoints {
    dop_slots slots;
    bool one_position; /* sequences have states of one position: rings, or what steps replace, in any part */
    dop_restore_point points[DOP_MAX_SLOTS];
    uint64_t clock, made, used;
    dop_prompt_store prompts;
} dop_checkpoints;

/* Features of pictures that rows of steps may be. */
typedef struct dop_model_features {
    bool taken;         /* rows of steps may be features */
    dop_features *list; /* owned */
    uint32_t n;         /* ids that features have had, from the end of the vocabulary on */
} dop_model_features;

/* Adapters that were loaded. */
typedef struct dop_model_adapters {
    dop_adapter_slot *slots;                  /* owned, [plan.model->adapters]; NULL: none was loaded yet */
    bool factors_set[DOP_STEP_MAX_SEQUENCES]; /* by place: the factors of adapters are not all 0 */
} dop_model_adapters;

struct dop_model {
    dop_plan plan;
    dop_instance instance;
    dop_device device;
    dop_memory memory;
    dop_pipelines pipelines;
    dop_replay replay;
    dop_upload *upload; /* owned; its threads have ended, or are freeing staging buffers */
    dop_used used;      /* owned */
    dop_loader loader;
    dop_spans spans; /* times of opening */
    dop_log log;
    dop_model_info info;
    uint32_t max_chunk, steps_ahead, steps_per_submit;
    bool no_scoring;
    dop_device_counts base; /* when the model was open, from which dop_model_counters counts */
    dop_orders orders;
    dop_drift drift;

    /* Indexed by the place of a sequence in the plan's states. */
    dop_sequence *sequences[DOP_STEP_MAX_SEQUENCES]; /* NULL: the place is free */
    uint32_t n_sequences;
    bool states_used[DOP_STEP_MAX_SEQUENCES]; /* the states are no longer zero, as a new sequence needs them */
    dop_pages pages;                          /* of the sequences' caches; zeros where each sequence has one piece */
    dop_checkpoints kept;
    uint32_t parity[DOP_STEP_MAX_SEQUENCES]; /* the current copy of replaced states, while no step is in flight */
    dop_model_features pictures;
    dop_model_adapters lora;
    dop_in_flight flight;
    dop_open_step step;
    struct dop_ranks *ranks; /* owned: the other parts of the plan; NULL: it is in one part */
};

typedef struct dop_speculator dop_speculator; /* speculator.h */

/* A sequence.  Its states are those of tokens[0 .. n_fed); usually only the last pick is not fed yet. */
struct dop_sequence {
    dop_model *model;
    uint32_t place;   /* index of the sequence in the plan's states */
    uint32_t *tokens; /* owned, [ctx + 1] */
    uint32_t n_tokens, n_fed;
    dop_prefix prefix; /* what the states depend on besides the tokens */
    /* The copy before the current one of states that steps replace is of tokens[0 .. n_kept): those before the last step, also while
     * that step is in flight, or before the last row of a step that has kept them all.  n_each copies before that one are of one token less
     * each.  UINT32_MAX: none is valid.  Set by dop_sequence_kept. */
    uint32_t n_kept, n_each;
    /* Positions written since the states were cleared, including dropped ones, for which rings have lost earlier ones. */
    uint32_t n_written;
    uint32_t wanted; /* tokens that dop_sequence_next will still be asked for */
    dop_sampler sampler;
    dop_sampler_fn *pick; /* the caller's own sampler; NULL: `sampler` */
    void *pick_user;
    const float *logits;        /* after the last token that was fed, for the host to pick from; NULL: none */
    const float *picked_from;   /* logits that the last pick is from, until the next step; NULL: the device picked */
    dop_speculator *speculator; /* owned; NULL: none */
    struct dop_head *head;      /* owned: of the layer that drafts (runtime/step/speculator.h); NULL: it is not used */
    bool undrafted;             /* the caller wants no speculation */
    uint32_t parts_at; /* where its prompt parts from others that were read before: feeding makes a checkpoint there */
    uint64_t chunk_marks[2]; /* checkpoints at the ends of the last two chunks; 0: none */
    bool drawn;              /* the device draws from the last row of the current step */
    /* The pick of the sequence's only row in its last step of dop_step_run, and flight.n_commits when that step was committed. */
    uint32_t row_pick, row_commit;
    bool masked;          /* picks are among the ids of `mask`, which is kept for later comparison when they are not */
    uint32_t *mask;       /* owned, [(vocab + 31) / 32], equal to the device's; NULL: there never was one */
    float *masked_logits; /* owned, [vocab], where there is a mask */
    dop_adapter_use uses[DOP_ADAPTERS_AT_ONCE];
    uint32_t n_uses;
    uint64_t adapters;     /* a name for what `uses` says; 0: none */
    dop_progress progress; /* of feeding */
};
/* The longest of the first n tokens whose states are still there without a checkpoint, and are not the current ones; UINT32_MAX: none. */
static inline uint32_t
dop_sequence_version(const dop_sequence *s, uint32_t n)
{
    if (s->n_kept == UINT32_MAX || n < s->n_kept - s->n_each)
        return UINT32_MAX;
    return n < s->n_kept ? n : s->n_kept;
}
static inline void
dop_sequence_kept(dop_sequence *s, uint32_t n_kept, uint32_t n_each)
{
    s->n_kept = n_kept;
    s->n_each = n_each;
}
/* Counts the device's own picks, for code that submits by itself. */
static inline void
dop_step_count_picks(dop_model *model, uint32_t schedule, dop_form form, uint32_t times)
{
    const dop_plan_schedule *s = &model->plan.schedules[schedule];
    /* A schedule without a split picks even when only its body is wanted. */
    if (s->greedy == DOP_PICKS_NEXT && (form != DOP_FORM_BODY || (s->n_body == s->n_dispatches && !model->ranks)))
        model->flight.picks_asked += times;
}

/* sequence_mask.c */
/* DOP_ROW_* for a row that is picked from. */
static inline uint32_t
dop_sequence_row_flags(const dop_sequence *sequence)
{
    return (sequence->masked && !sequence->model->ranks ? DOP_ROW_MASKED : 0u) | (sequence->drawn ? DOP_ROW_DRAWN : 0u);
}

/* resume.c */
/* A prompt, by whose keys cached states are found. */
typedef struct dop_prompt {
    const uint32_t *ids;
    size_t n,
        most; /* number of ids, and how many of them at most may come from states: fewer than n where logits are wanted */
    uint64_t seed; /* as in dop_prefix */
    const dop_prefix_mark *marks;
    uint32_t n_marks;
} dop_prompt;
typedef struct dop_resumed {
    uint32_t n; /* tokens that the sequence has now, all in its states */
    uint32_t
        common; /* tokens that the prompt has in common with anything cached: where prompts part a checkpoint pays */
} dop_resumed;
/* States of the sequence at a place, or (at n_sequences and above) in a slot: of caches that keep every position the rows
 * [from, to), and the states that belong to one position (rings of windows, what steps replace) as they are after `to` tokens. */
typedef struct dop_states {
    uint32_t place, from, to;
    bool rows, whole; /* which of the two */
} dop_states;
typedef dop_status dop_bytes_fn(void *user, const void *bytes, size_t size, dop_diag *diag);

/* probe.c */
typedef struct dop_probe_result {
    const char *fault;      /* why the other ordering cannot be used; NULL: it can */
    double ms[2];           /* best time of a step: by barriers, in the other ordering */
    double distance, bound; /* of the logits, in standard deviations of a row */
    uint64_t bytes;         /* the probe's own device memory */
} dop_probe_result;

#endif
