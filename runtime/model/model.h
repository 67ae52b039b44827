/* Internal definition of a model, its sequences and steps, for libdoppler itself, the profiler, the benchmark and
 * --check. Programs that only run models use doppler.h. */
#ifndef DOPPLER_RUNTIME_MODEL_MODEL_H
#define DOPPLER_RUNTIME_MODEL_MODEL_H

#include "base/spans.h"
#include "runtime/device/replay.h"
#include "runtime/model/draft_policy.h"
#include "runtime/model/driver.h"
#include "runtime/model/info.h"
#include "runtime/model/pages.h"
#include "runtime/model/prefix.h"

struct dop_ranks; /* runtime/parts/lead/ranks.h */

enum { DOP_MAX_AHEAD = 16, DOP_PROBE_ROWS = 4, DOP_MAX_SLOTS = 64 };

/* The parts of the plan that the chosen profile uses. One allocation holds all three arrays. */
typedef struct dop_used {
    /* Schedules sorted by kind, ordering and maximum rows (ascending, then plan order). Each group of a kind and
     * ordering begins at first[kind * DOP_N_ORDERS + ordering] and ends where the next entry of first[] begins.
     * Schedules for rows with adapters follow in a second half, as kinds from DOP_SCHED_END on. */
    uint32_t *schedules, n; /* [n] indices in the plan's schedules */
    uint32_t first[2 * DOP_SCHED_END * DOP_N_ORDERS + 1];
    bool *kernels, *slots; /* indexed as in the plan; true if used */
} dop_used;

/* Lazily created objects (model_load.c). */
typedef struct dop_loader {
    dop_progress progress; /* progress callback during opening; empty afterwards */
    bool *ready;           /* owned, by schedule: true if its command buffer is recorded */
    /* owned, by kernel: true if its machine code exists (software devices only, dop_model_make_code) */
    bool *run;
    bool *kernels;     /* owned, by kernel: scratch, marks the kernels of the schedule that is waited for */
    dop_driver driver; /* the process and thread that use the model */
} dop_loader;

/* Rows of one sequence in a step: tokens[pos .. pos + n). */
typedef struct dop_sequence_rows {
    dop_sequence *sequence;
    uint32_t pos, n;
    bool ran;          /* set by dop_step_collect: the sequence's states include these rows */
    uint32_t versions; /* set by dop_step_collect: number of versions of replaced states that the step wrote */
    uint32_t dropped;  /* number of last rows that the commit leaves out (dop_step_keep) */
} dop_sequence_rows;

/* A submission of a step, from dop_step_issue to dop_step_collect. */
typedef struct dop_issue {
    uint32_t schedule;
    dop_form form;
    /* number of steps, 0 meaning 1; steps after the first run one row per sequence, the device's pick */
    uint32_t times;
    bool own;          /* the step record already holds the rows: the device continues from its own picks */
    bool continued;    /* the device prepares the next step from this step's picks and commits this one */
    uint32_t pick_end; /* number of the first DOP_PICKS_NEXT pick after this submission */
    uint64_t ticket;
} dop_issue;

/* A step that dop_step_run ran and that is not committed or rolled back yet. The tokens of its rows follow those of
 * their sequences. */
typedef struct dop_open_step {
    uint32_t n_rows; /* 0: no step is open */
    uint32_t n_sequences;
    dop_sequence_rows of[DOP_STEP_MAX_SEQUENCES];
    uint32_t slot[DOP_STEP_MAX_ROWS];       /* by row: index of its sequence in of[] */
    uint32_t number[DOP_STEP_MAX_ROWS];     /* by row: number of earlier rows of the same sequence */
    const float *logits[DOP_STEP_MAX_ROWS]; /* by row: its logits in host memory if requested; NULL: none */
    uint32_t picks[DOP_STEP_MAX_ROWS];      /* by row: the token that the device picked; UINT32_MAX: none */
    uint8_t wants[DOP_STEP_MAX_ROWS];       /* by row: DOP_WANTS_* */
    dop_issue run;                          /* last submission of the step */
    uint32_t first[DOP_STEP_MAX_SEQUENCES]; /* by sequence: its first row in the submission */
    bool by_device;                         /* the last submission makes the requested picks on the device */
    bool continues;                         /* the device's own next step may be submitted */
    float *kept;     /* owned: copies of logits, for steps that need several replays; NULL: one replay is enough */
    size_t cap_kept; /* capacity of `kept`, in rows of logits */
} dop_open_step;

/* Persistent variant of a schedule of several rows. */
typedef struct dop_rows_order {
    uint32_t schedule; /* UINT32_MAX: none */
    bool probed, use;  /* true if a probe has judged it; true if it is to be used */
} dop_rows_order;

/* Ordering of decode steps: the schedules of each ordering, and when to probe which one is fastest (ordering.c).
 * Feeding and scoring always use barriers. */
typedef struct dop_orders {
    /* by DOP_ORDER_*: the decode schedule, UINT32_MAX if unusable; info.decode is one of them */
    uint32_t decode[DOP_N_ORDERS];
    /* persistent schedules of several rows, by max_rows - 1 (ordering_rows.c) */
    dop_rows_order several[DOP_STEP_SEVERAL];
    uint32_t last_rows; /* persistent schedule of the last step of several rows; UINT32_MAX: that step used barriers */
    bool probes;        /* probes decide which decode schedule to use */
    bool keeps;         /* the current text keeps barriers to its end: another ordering was not compiled in time */
    uint32_t probe_at;  /* position of the next probe */
    uint32_t probe_prefill; /* multi-row schedule whose logits a probe compares; UINT32_MAX: none */
} dop_orders;

/* Measurements of speculation: how much the logits of a token differ between steps of several rows and of one row
 * (speculate.c), and step times. */
typedef struct dop_drift {
    double apart;            /* largest logit difference found */
    double spread;           /* standard deviation of the logits of the first judged row; 0: none was judged */
    uint32_t n_compared;     /* number of compared tokens */
    dop_draft_policy policy; /* state at the end of the last speculation; zeros: none yet */
} dop_drift;

/* Queue of in-flight steps: submitted, and not collected by the host yet. Each begins with the picks of the step
 * before, so the device continues without the host. Two callers use it: dop_sequence_next for a single greedy sequence
 * (sequence.c), and dop_step_run with one row per sequence (step_ahead.c). Picks of DOP_PICKS_NEXT schedules are
 * numbered since the plan was loaded; pick i is ids[i % DOP_STEP_RING] of the step record. */
typedef struct dop_in_flight {
    bool continues; /* the step record holds the device's own next step, whose row i is rows[i] */
    bool by_rows;   /* the steps belong to dop_step_run: the host does not know the tokens of their rows yet */
    dop_sequence_rows rows[DOP_STEP_MAX_SEQUENCES]; /* pos: the position that the device's own next step writes */
    struct {
        uint32_t flags; /* DOP_ROW_* */
        dop_row_way way;
    } picks[DOP_STEP_MAX_SEQUENCES]; /* by_rows: sampling parameters of rows[] */
    uint32_t n_rows;
    uint32_t schedule;                 /* by_rows: schedule of the steps */
    uint32_t picks_asked, picks_taken; /* numbers of the next pick to submit and of the next pick that the host reads */
    struct {
        uint64_t ticket;
        uint32_t end; /* number of the first pick after this submission */
    } steps[DOP_MAX_AHEAD];
    uint32_t n;                  /* number of submissions not waited for yet; steps[] has the oldest first */
    uint32_t n_commits;          /* number of commits of dop_step_run */
    uint64_t n_taken, n_dropped; /* statistics for dop_counters: steps_ahead, rows_dropped */
} dop_in_flight;

/* Device memory for checkpoints, in slots of equal size (transfer.c). */
typedef struct dop_slots {
    uint32_t n;
    uint64_t bytes;    /* size of one slot, in this part */
    uint64_t *offsets; /* owned, by state: byte offset in a slot */
    dop_block block, staging;
} dop_slots;

/* A checkpoint; it is stored in the slot with its index (runtime/step/restore_point.h). */
typedef struct dop_restore_point {
    uint64_t id;      /* unique and never reused; 0: the slot is free */
    uint32_t n;       /* number of tokens that the saved states cover */
    uint32_t over;    /* positions beyond n that were written and dropped before; sliding windows have lost as many */
    uint32_t *tokens; /* owned, [n] */
    dop_prefix prefix;
    bool chunk;    /* made at the end of a prompt chunk, not at a prompt's branching point or the end of a turn */
    uint64_t used; /* value of `clock` when it was made or last used */
    uint32_t held; /* number of handles (dop_sequence_checkpoint); it cannot be evicted while there are any */
} dop_restore_point;

/* Counters of a device and its replay. */
typedef struct dop_device_counts {
    uint64_t allocations, recordings, submissions;
} dop_device_counts;

/* Slot for one loaded adapter. */
typedef struct dop_adapter_slot {
    char *path;      /* owned; NULL: the slot is free */
    uint64_t digest; /* digest of the loaded adapter */
    bool written;    /* its matrices are not all zeros */
    double scale;    /* scale factor from its file; kept out of the f16 matrices to preserve their precision */
} dop_adapter_slot;

/* Image features: rows of steps with ids of their own, above the vocabulary. */
typedef struct dop_features {
    struct dop_features *next;
    uint32_t first, n;      /* ids first .. first + n - 1 */
    uint32_t height, width; /* size of the feature grid (height * width == n); 0: rows have no grid position */
    bool together;          /* rows attend to one another and must be in one step */
    float *rows;            /* owned, [dop_model_features_depth][n][hidden] */
} dop_features;

/* Prefix cache in host memory and files (runtime/step/stored.h). */
typedef struct dop_prompt_store {
    struct dop_store *store; /* owned; NULL: none */
    bool has_rows;           /* true if the sequences of any part have caches that keep every position */
    uint64_t tokens_saved,
        tokens_loaded; /* prompt tokens that were not computed again; how many of them came from the store */
} dop_prompt_store;

/* Saved prompt states: checkpoints on the device, and the store in host memory and files. */
typedef struct dop_checkpoints {
    dop_slots slots;
    /* true if the sequences of any part have states of a single position: sliding windows or replaced states */
    bool one_position;
    dop_restore_point points[DOP_MAX_SLOTS];
    uint64_t clock, made, used;
    dop_prompt_store prompts;
} dop_checkpoints;

/* Image features that rows of steps may use instead of tokens. */
typedef struct dop_model_features {
    bool taken;         /* the plan accepts features as rows */
    dop_features *list; /* owned */
    uint32_t n;         /* number of ids given to features so far; ids start at the end of the vocabulary */
} dop_model_features;

/* Loaded adapters. */
typedef struct dop_model_adapters {
    dop_adapter_slot *slots;                  /* owned, [plan.model->adapters]; NULL: none was loaded yet */
    bool factors_set[DOP_STEP_MAX_SEQUENCES]; /* by place: true if some adapter factor is not 0 */
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
    dop_spans spans; /* timeline of opening the model */
    dop_log log;
    dop_model_info info;
    uint32_t max_chunk, steps_ahead, steps_per_submit;
    bool no_scoring;
    dop_device_counts base; /* counters when opening ended; dop_model_counters subtracts them */
    dop_orders orders;
    dop_drift drift;

    /* Indexed by the sequence's place in the plan's states. */
    dop_sequence *sequences[DOP_STEP_MAX_SEQUENCES]; /* NULL: the place is free */
    uint32_t n_sequences;
    bool states_used[DOP_STEP_MAX_SEQUENCES]; /* the states were written; a new sequence needs them zeroed */
    /* page pool of the caches of all sequences, zeroed if each cache is contiguous */
    dop_pages pages;
    dop_checkpoints kept;
    /* index of the current copy of replaced states, while no step is in flight */
    uint32_t parity[DOP_STEP_MAX_SEQUENCES];
    dop_model_features pictures;
    dop_model_adapters lora;
    dop_in_flight flight;
    dop_open_step step;
    struct dop_ranks *ranks; /* owned: connection to the other parts; NULL: the plan has one part */
};

typedef struct dop_speculator dop_speculator; /* runtime/step/speculator.h */

/* A sequence. Its states cover tokens[0 .. n_fed); usually only the last pick is not fed yet. */
struct dop_sequence {
    dop_model *model;
    uint32_t place;   /* index of the sequence in the plan's states */
    uint32_t *tokens; /* owned, [ctx + 1] */
    uint32_t n_tokens, n_fed;
    dop_prefix prefix; /* seed and marks: further inputs of the states besides tokens */
    /* Rollback range of replaced states. The copy before the current one covers tokens[0 .. n_kept): the state before
     * the last step (also while that step is in flight), or before its last row if a version was kept after each row.
     * Each of the n_each copies before that covers one token less. UINT32_MAX: no copy is valid. Set by
     * dop_sequence_kept. */
    uint32_t n_kept, n_each;
    /* Positions written since the states were cleared, including dropped ones. Sliding windows have overwritten earlier
     * positions accordingly. */
    uint32_t n_written;
    uint32_t wanted; /* number of tokens that dop_sequence_next is still expected to return */
    dop_sampler sampler;
    dop_sampler_fn *pick; /* custom sampler of the caller; NULL: use `sampler` */
    void *pick_user;
    const float *logits;        /* logits after the last fed token, for picking on the host; NULL: none */
    const float *picked_from;   /* logits of the last pick, valid until the next step; NULL: the device picked */
    dop_speculator *speculator; /* owned; NULL: none */
    struct dop_head *head;      /* owned: state of the plan's draft layer (runtime/step/speculator.h); NULL: not used */
    bool undrafted;             /* the caller has disabled speculation */
    uint32_t parts_at; /* position where the prompt diverges from earlier ones: feeding makes a checkpoint there */
    uint64_t chunk_marks[2]; /* ids of the checkpoints at the ends of the last two chunks; 0: none */
    bool drawn;              /* the device samples from the last row of the current step */
    /* Pick of the sequence's only row in its last dop_step_run step, and the value of flight.n_commits at that
     * commit. */
    uint32_t row_pick, row_commit;
    /* picks are restricted to `mask`; when false, `mask` only serves for comparison with the next one */
    bool masked;
    uint32_t *mask;       /* owned, [(vocab + 31) / 32], equal to the device's copy; NULL: no mask was ever set */
    float *masked_logits; /* owned, [vocab]; NULL until a mask is set */
    dop_adapter_use uses[DOP_ADAPTERS_AT_ONCE];
    uint32_t n_uses;
    uint64_t adapters;     /* hash of `uses`; 0: none */
    dop_progress progress; /* progress callback of feeding */
};
/* Returns the longest prefix of at most n tokens whose replaced states are still in an older copy; UINT32_MAX: none. */
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
/* Counts the picks that the device will make in this submission, for code that calls dop_replay_submit directly. */
static inline void
dop_step_count_picks(dop_model *model, uint32_t schedule, dop_form form, uint32_t times)
{
    const dop_plan_schedule *s = &model->plan.schedules[schedule];
    /* A schedule without a separate body makes picks even if only the body is run. */
    if (s->greedy == DOP_PICKS_NEXT && (form != DOP_FORM_BODY || (s->n_body == s->n_dispatches && !model->ranks)))
        model->flight.picks_asked += times;
}

/* --- masks (sequence_mask.c) --- */
/* Returns the DOP_ROW_* flags of a row that the device picks from. */
static inline uint32_t
dop_sequence_row_flags(const dop_sequence *sequence)
{
    return (sequence->masked && !sequence->model->ranks ? DOP_ROW_MASKED : 0u) | (sequence->drawn ? DOP_ROW_DRAWN : 0u);
}

/* --- prefix reuse (resume.c) --- */
/* A prompt to look up in the prefix cache. */
typedef struct dop_prompt {
    const uint32_t *ids;
    size_t n, most; /* number of ids; maximum number of tokens to reuse, less than n if logits are needed */
    uint64_t seed;  /* as in dop_prefix */
    const dop_prefix_mark *marks;
    uint32_t n_marks;
} dop_prompt;
typedef struct dop_resumed {
    uint32_t n;      /* number of tokens that the sequence now has, all in its states */
    uint32_t common; /* longest prefix in common with anything cached; a checkpoint at its end is useful */
} dop_resumed;
/* Selects states of the sequence at a place, or of a checkpoint slot (n_sequences and above). `rows`: rows [from, to)
 * of caches that keep every position. `whole`: states of a single position (sliding windows, replaced states), as they
 * are after `to` tokens. */
typedef struct dop_states {
    uint32_t place, from, to;
    bool rows, whole; /* true if the states include this group */
} dop_states;
typedef dop_status dop_bytes_fn(void *user, const void *bytes, size_t size, dop_diag *diag);

/* Result of a probe (probe.c). */
typedef struct dop_probe_result {
    const char *fault;      /* reason why the other ordering cannot be used; NULL: it can */
    double ms[2];           /* best time of a step: with barriers, with the other ordering */
    double distance, bound; /* logit difference and its limit, in standard deviations of a row */
    uint64_t bytes;         /* device memory of the probe itself */
} dop_probe_result;

#endif
