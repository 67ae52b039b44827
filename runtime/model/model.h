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

/* step.c, and step_rows.c for the steps of doppler.h */
/* Allocates memory that steps need later, once schedules are known. */
dop_status dop_step_prepare_model(dop_model *model, dop_diag *diag);
/* The schedule with which to feed n tokens next, and how many of them it takes. */
void dop_step_choose(const dop_model *model, uint32_t kind, size_t n, uint32_t *out_schedule, uint32_t *out_take);
/* Marks the schedules that a text after n tokens needs from its first step to its last, in forms that are always there: those that feed the
 * tokens, and with `steps` those of steps of one row, and where the plan has a layer that drafts, its own and those that check drafts; with
 * adapters or without.  A persistent form is among them where `ordering` names it; otherwise a text takes it when it is there.
 * first: [n_schedules], false. */
void dop_step_first(const dop_model *model, uint32_t n, bool steps, dop_ordering ordering, bool *first);
/* The schedule with which to feed the next tokens of a sequence, those before `end` if it can be, and how many of them it takes: as
 * above, but rows that see one another are in one step.  DOP_E_INPUT: no schedule holds them. */
dop_status dop_step_choose_rows(const dop_sequence *sequence, uint32_t kind, uint32_t end, dop_diag *diag,
                                uint32_t *out_schedule, uint32_t *out_take);
/* features.c */
/* As dop_features_add, with rows that it owns then (*io_rows becomes NULL). */
dop_status dop_features_take(dop_model *model, float **io_rows, uint32_t n, uint32_t height, uint32_t width,
                             dop_diag *diag, uint32_t *out_first);
/* Is the id that of a row of features that the model has? */
bool dop_features_has(const dop_model *model, uint32_t id);
/* Of the rows at `pos` that a step could take: at most `take`, and fewer where rows that see one another would not be in one step.
 * 0: `take` rows do not hold those that begin at `pos`. */
uint32_t dop_features_uncut(const dop_model *model, const uint32_t *tokens, uint32_t pos, uint32_t take, uint32_t end);
/* As the former, but with up to `most` rows where n do not hold those at `pos`; n: not even these do. */
uint32_t dop_features_whole(const dop_model *model, const uint32_t *tokens, uint32_t pos, uint32_t n, uint32_t end,
                            uint32_t most);
/* Writes what a step receives about its rows beside the row table, where the schedule says.  known: the rows' tokens are known; else
 * the device has made them, and they are text.  DOP_E_INPUT: features of a row are gone. */
dop_status dop_features_write(dop_model *model, uint32_t schedule, const dop_sequence_rows *rows, uint32_t n,
                              bool known, dop_diag *diag);
/* Call before n tokens are fed as `kind` to a plan in parts: sets the size of the chunks that the above chooses from then on. */
void dop_step_choose_chunks(dop_model *model, uint32_t kind, size_t n);
/* The decode schedule for n steps from pos on. */
uint32_t dop_step_decode_at(const dop_model *model, uint32_t pos, uint32_t n);
/* How many versions of the states that steps replace a step writes with n rows of a sequence: one after each row, or one. */
uint32_t dop_step_versions(const dop_model *model, uint32_t schedule, uint32_t n);
/* Of states that steps replace, makes the copy current that lies `by` behind the current one, or before it, because versions of the sequence at
 * this place were committed or undone.  Nothing may be in flight. */
void dop_step_move_states(dop_model *model, uint32_t place, int32_t by);
/* Notes that one version was committed while later steps may be in flight: the device itself has changed the step record. */
void dop_step_note_version(dop_model *model, uint32_t place);
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
/* The one way in which a step runs: dop_step_issue makes its positions writable, writes the step record and submits, and
 * dop_step_collect waits.  A step that stalls (only a persistent schedule can) is run again with barriers, and io->schedule is what
 * ran in the end.  io: schedule, form, times, own and continued; rows: [n], of different sequences; none where `own` rows are of no
 * sequence, as in the other ranks of a plan in parts.  Logits of earlier steps become invalid. */
dop_status dop_step_issue(dop_model *model, const dop_sequence_rows *rows, uint32_t n, dop_issue *io, dop_diag *diag);
dop_status dop_step_collect(dop_model *model, dop_sequence_rows *rows, uint32_t n, dop_issue *io, dop_diag *diag);
/* What follows when all parts have run the step: the states after its rows are the current ones. */
void dop_step_collected(dop_model *model, dop_sequence_rows *rows, uint32_t n, const dop_issue *issue);
/* Before the open step is committed: only the first `n` rows of the sequence will become part of it.  Where steps replace states, which
 * have nothing in between, none of its rows will unless all do, and they are to be in a later step again. */
void dop_step_keep(dop_model *model, const dop_sequence *sequence, uint32_t n);
/* Does the plan have a layer that drafts, and schedules that check drafts? */
bool dop_model_drafts(const dop_model *model);
/* Speculates by the plan's own layer that drafts, where it has one and nothing else was said about drafts. */
dop_status dop_sequence_draft_by_default(dop_sequence *sequence, dop_diag *diag);
/* Counts the device's own picks, for code that submits by itself. */
static inline void
dop_step_count_picks(dop_model *model, uint32_t schedule, dop_form form, uint32_t times)
{
    const dop_plan_schedule *s = &model->plan.schedules[schedule];
    /* A schedule without a split picks even when only its body is wanted. */
    if (s->greedy == DOP_PICKS_NEXT && (form != DOP_FORM_BODY || (s->n_body == s->n_dispatches && !model->ranks)))
        model->flight.picks_asked += times;
}
/* Waits for a step; in a plan in parts, only for this part, which then passes its rows on, */
dop_status dop_step_pass(dop_model *model, uint64_t ticket, dop_diag *diag);
/* and then for the result of all parts for the oldest step that was passed on. */
dop_status dop_step_take(dop_model *model, dop_diag *diag);
/* The logits or hidden states of a schedule, after waiting for a step with DOP_FORM_READ; f32, valid until the next step. */
const float *dop_model_logits(const dop_model *model, uint32_t schedule);
/* One whole step of n rows, the tokens of a sequence from pos on, which are then fed.  *io_schedule is the schedule that ran in the end. */
dop_status dop_step_finish(dop_sequence *sequence, uint32_t n, uint32_t pos, dop_form form, uint32_t *io_schedule,
                           dop_diag *diag);
/* Has the step rows of the sequence? */
bool dop_step_has(const dop_open_step *step, const dop_sequence *sequence);
/* For plans in parts: are there started steps (dop_step_start)? */
bool dop_step_started(const dop_model *model);
/* Fails with DOP_E_USAGE while a step is open. */
dop_status dop_step_none_open(const dop_model *model, dop_diag *diag);
/* The same while a step is open, or one with this sequence is in flight.  States of other sequences may be changed, because all
 * ranks execute orders in order. */
dop_status dop_step_none_has(const dop_model *model, const dop_sequence *sequence, dop_diag *diag);
/* The error for logits, after the token at pos, that are not finite. */
dop_status dop_step_not_finite(const dop_model *model, uint32_t pos, dop_diag *diag);

/* The best number of groups, with a step for each, in which to run rows of different sequences so that all parts are busy; 1
 * for a plan in one part, or without a schedule for rows of several sequences. */
uint32_t dop_step_groups(const dop_model *model, uint32_t n_rows);
/* For plans in parts: starts a step of rows of sequences that are in no other started step and whose tokens are all in their
 * states.  With one sequence it may be a chunk of a prompt, of which only the last row may want something.  Returns when this part
 * has done its share.  Up to dop_step_groups may be in flight.  Meanwhile sequences that are in none of them may be rewound,
 * copied, given a mask, and given cached tokens; apart from that, steps may only be started and finished. */
dop_status dop_step_start(dop_model *model, const dop_step_row *rows, uint32_t n_rows, dop_diag *diag);
/* The oldest started step becomes the open step, as after dop_step_run. */
dop_status dop_step_end(dop_model *model, dop_diag *diag);

/* step_ahead.c: steps that the device continues by itself */
/* Are steps of this sequence in flight, or is the device's own next step one of it? */
bool dop_step_runs(const dop_model *model, const dop_sequence *sequence);
/* Is a step of rows in flight, so that anything but its rows would drop it? */
bool dop_step_rows_run(const dop_model *model);
/* Waits for everything submitted, and drops picks that were not taken.  A single sequence that ran keeps the replaced states from
 * after the first step that was in flight, because all tokens of that step were known; the sequences of steps of rows have
 * the states of their tokens. */
dop_status dop_step_drain(dop_model *model, dop_diag *diag);
/* Is the step that is in m->step, of n rows that want what they get, likely to be followed by one with its picks? */
bool dop_step_may_continue(const dop_model *model, const dop_step_row *rows, uint32_t n_rows);
/* Submits `times` steps of flight.rows[0 .. n_rows), from whose picks the device goes on: its own next ones, or where nothing
 * goes on those in rows[].  *io_schedule: what ran is the schedule for the adapters of the rows. */
dop_status dop_step_continue(dop_model *model, uint32_t n_rows, uint32_t times, uint32_t *io_schedule, dop_diag *diag);
/* Are there pages for the next `times` positions of flight.rows[0 .. n_rows)? */
bool dop_step_has_pages(const dop_model *model, uint32_t schedule, uint32_t n_rows, uint32_t times);
/* Submits the step that follows the one of m->step, which was the last one submitted, unless a row cannot or need not go on.  What
 * fails here fails again when that step is wanted. */
void dop_step_continue_rows(dop_model *model, uint32_t n_rows);
/* Is what m->step wants in flight? */
bool dop_step_is_ahead(const dop_model *model, const dop_step_row *rows, uint32_t n_rows);
/* Makes m->step the oldest step in flight, whose other rows are dropped. */
void dop_step_take_ahead(dop_model *model, uint32_t n_rows);
/* Removes the oldest submission from those in flight. */
void dop_step_pop_ahead(dop_model *model);
/* When that has ended: the sequences that are not in m->step lose what it has made of them.  Does nothing while more is in flight. */
void dop_step_drop_rest(dop_model *model);

/* sequence.c */
/* Do n more tokens fit the context? */
dop_status dop_sequence_check_room(const dop_sequence *sequence, size_t n, dop_diag *diag);
/* Checks n more tokens, and drops steps that ran ahead. */
dop_status dop_sequence_make_room(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag);
/* Feeds the tokens that are not in the states yet. */
dop_status dop_sequence_catch_up(dop_sequence *sequence, dop_diag *diag);

/* A pick by the caller's own sampler, from the logits after the first n_tokens tokens. */
dop_status dop_sequence_own_pick(dop_sequence *sequence, const float *logits, size_t n_tokens, dop_diag *diag,
                                 uint32_t *out_id);

/* Who picks after the last token, the one place that decides: DOP_WANTS_PICK or DOP_WANTS_DRAW, the device; DOP_WANTS_LOGITS, the
 * host.  A plan in parts picks in its last part, which receives no masks. */
uint32_t dop_sequence_wants(const dop_sequence *sequence);
/* Pieces of dop_sequence_next: checks that there may be a next token; picks it by a step of one token and appends it;
 * and does what follows after a token was returned. */
dop_status dop_sequence_may_pick(dop_sequence *sequence, dop_diag *diag);
dop_status dop_sequence_pick(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);
void dop_sequence_picked(dop_sequence *sequence);
/* All of these: the next token without drafts. */
dop_status dop_sequence_next_plain(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);
/* A pick that is not appended yet, from a step of one token whose logits the host has. */
dop_status dop_sequence_pick_on_host(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);

/* How the device draws from a row of the sequence. */
dop_row_way dop_sequence_way(const dop_sequence *sequence);

/* sequence_mask.c */
/* DOP_ROW_* for a row that is picked from. */
static inline uint32_t
dop_sequence_row_flags(const dop_sequence *sequence)
{
    return (sequence->masked && !sequence->model->ranks ? DOP_ROW_MASKED : 0u) | (sequence->drawn ? DOP_ROW_DRAWN : 0u);
}
/* The logits or, with a mask, a copy in which those of other ids are -infinity, valid until the next call. */
const float *dop_sequence_masked(dop_sequence *sequence, const float *logits);
/* The largest logit that the mask allows, the lowest id among equals; UINT32_MAX: one of all logits is not finite. */
uint32_t dop_sequence_largest(const dop_sequence *sequence, const float *logits);

/* sequence_pages.c */
/* Rings may have lost positions that the row at `next` sees, because later positions were written and dropped again.  In that
 * case this takes the states to a checkpoint, or empties them, so that everything is fed again.  Nothing may be in flight. */
dop_status dop_sequence_keep_rings(dop_sequence *sequence, uint32_t next, dop_diag *diag);
/* Takes the states back to at most the first n tokens, to fewer where steps replace them and no copy from that point is left.
 * Nothing may be in flight. */
dop_status dop_sequence_go_back(dop_sequence *sequence, uint32_t n, dop_diag *diag);
/* Drops tokens that speculation has made and nobody took, also from the states.  Nothing may be in flight. */
dop_status dop_sequence_settle(dop_sequence *sequence, dop_diag *diag);
/* Takes the states to the longest checkpoint of at most the first n tokens, or empties the sequence.  Nothing may be in flight. */
dop_status dop_sequence_fall_back(dop_sequence *sequence, uint32_t n, dop_diag *diag);
/* Empties the sequence and zeroes its states.  Nothing may be in flight. */
dop_status dop_sequence_empty(dop_sequence *sequence, dop_diag *diag);

/* sequence_states.c */
/* Makes the pages of positions [from, to) the sequence's own, so that a step may write there, and takes missing ones from the
 * pool.  DOP_E_FULL, with nothing changed: there are not enough.  Where a page is shared, nothing may be in flight. */
dop_status dop_sequence_reserve(dop_sequence *sequence, uint32_t from, uint32_t to, dop_diag *diag);
/* The end of the positions to reserve for steps that end at this one.  A persistent step that stalls may also write the next
 * position. */
uint32_t dop_sequence_end(const dop_sequence *sequence, uint32_t schedule, uint32_t end);
/* Releases the pages after the tokens that are in the states.  Nothing may be in flight. */
void dop_sequence_trim(dop_sequence *sequence);
/* Makes full pages of what is fed known by their keys (dop_pages_note). */
void dop_sequence_note(dop_sequence *sequence);

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
/* Makes the sequence the beginning of the prompt that any state covers; runs no step. */
dop_status dop_sequence_resume(dop_sequence *sequence, const dop_prompt *prompt, dop_diag *diag, dop_resumed *out);
/* Ends of chunks, and where prompts part: a checkpoint, if one is of use and nothing is in flight.  At the ends of chunks
 * the last two stay, because formats write the end of a prompt anew, and some that are spread over the prompt. */
dop_status dop_sequence_mark(dop_sequence *sequence, dop_diag *diag);
dop_status dop_sequence_mark_chunk(dop_sequence *sequence, dop_diag *diag);
/* How many tokens of a prompt, by its keys, the sequence itself covers when it is rewound. */
uint32_t dop_sequence_reach(dop_sequence *sequence, uint64_t seed, const uint32_t *keys, size_t most);

/* adapters.c.  finish: frees what is known of loaded adapters.  name: what names these uses, the seed of the sequence's keys (prefix.h);
 * 0: there are none.  apply: makes a sequence without states use them, with nothing in flight. */
void dop_adapters_finish(dop_model *model);
uint64_t dop_adapters_name(const dop_model *model, const dop_adapter_use *uses, uint32_t n);
dop_status dop_adapters_apply(dop_sequence *sequence, const dop_adapter_use *uses, uint32_t n, dop_diag *diag);

/* transfer.c: writes bytes of a slot of weights, or reads them.  Nothing may be in flight. */
dop_status dop_transfer_tensor(dop_model *model, uint32_t slot, uint64_t offset, void *bytes, uint64_t size, bool write,
                               dop_diag *diag);
/* transfer.c: the states of the sequence at a place, with nothing in flight: the first n positions of append state, and the
 * current copy of state that steps replace. */
bool dop_transfer_can(const dop_model *model); /* whether the plan says where each state is */
dop_status dop_transfer_clear(dop_model *model, uint32_t place, dop_diag *diag);
dop_status dop_transfer_copy(dop_model *model, uint32_t from, uint32_t to, uint32_t n, dop_diag *diag);
/* Copies the first rows of a page to another page.  Of the other functions only those that read and write states access pages. */
dop_status dop_transfer_copy_page(dop_model *model, uint32_t from, uint32_t to, uint32_t rows, dop_diag *diag);
/* States of the sequence at a place, or (at n_sequences and above) in a slot: of caches that keep every position the rows
 * [from, to), and the states that belong to one position (rings of windows, what steps replace) as they are after `to` tokens. */
typedef struct dop_states {
    uint32_t place, from, to;
    bool rows, whole; /* which of the two */
} dop_states;
/* Size of states in bytes, and reading and writing them, in the order of the plan's states.  A slot has rows of its last page only. */
uint64_t dop_transfer_size(dop_model *model, const dop_states *states);
typedef dop_status dop_bytes_fn(void *user, const void *bytes, size_t size, dop_diag *diag);
dop_status dop_transfer_read(dop_model *model, const dop_states *states, dop_bytes_fn *take, void *user,
                             dop_diag *diag);
dop_status dop_transfer_write(dop_model *model, const dop_states *states, const uint8_t *bytes, dop_diag *diag);
/* Makes n slots, in all parts. */
dop_status dop_transfer_make_slots(dop_model *model, uint32_t n, dop_diag *diag);
/* Copies the whole states of the first n tokens between a place and a slot; tail: also the rows of a last page that is not full. */
dop_status dop_transfer_copy_slot(dop_model *model, uint32_t from, uint32_t to, uint32_t n, bool tail, dop_diag *diag);
/* Keeps the memory through which states go to and from the host, which each call would allocate otherwise. */
dop_status dop_transfer_keep_staging(dop_model *model, dop_diag *diag);
void dop_transfer_finish(dop_model *model); /* accepts a model that has none of these */

/* model_load.c */
/* The kernels that are created before a call needs them, in order: those of the schedules with first[schedule], then those of other
 * forms of decoding, also of steps that check a layer's drafts, then, unless `on_demand` has them left out, the rest, and of each the
 * largest first, because the driver takes longest for it.  out_order: [n_kernels]. */
dop_status dop_model_order_kernels(const dop_model *model, const bool *first, const dop_open_options *options,
                                   dop_diag *diag, uint32_t *out_order, uint32_t *out_n);
/* Starts creating pipelines in that order. */
dop_status dop_model_start_pipelines(dop_model *model, const bool *first, const dop_open_options *options,
                                     uint32_t threads, dop_diag *diag);
bool dop_model_has(const dop_model *model, uint32_t schedule);
/* Waits for a schedule, but not long: where its kernels come from a cache they are there 5 to 10 ms after opening, and where a driver compiles
 * them after seconds (tests/bench/log/2026-11-27-cold-starts.md).  Whether it is there. */
bool dop_model_await(dop_model *model, uint32_t schedule);
/* Makes that a schedule can be submitted: waits for its pipelines, which come before others, and records it. */
dop_status dop_model_need(dop_model *model, uint32_t schedule, dop_diag *diag);
/* A software driver compiles a kernel to machine code when it first runs.  Dispatches without workgroups make it do so before the
 * step that needs the kernel, so that the time counts as waiting and not as the step's. */
dop_status dop_model_make_code(dop_model *model, uint32_t schedule, dop_form form, dop_diag *diag);

/* ordering.c */
/* Uses the decode schedule with this DOP_ORDER_* from now on; does nothing when there is none.  May be called at any time
 * between calls; steps in flight are not affected. */
void dop_model_use_ordering(dop_model *model, uint32_t ordering);
/* After loading: chooses what the options ask for. */
dop_status dop_model_choose_ordering(dop_model *model, dop_ordering wanted, dop_diag *diag);
/* Is a probe due before the step at pos?  If so, nothing may be in flight. */
bool dop_model_probes_next(const dop_model *model, uint32_t pos);
/* Chooses the fastest ordering for steps from pos on whose results are those of barriers. */
dop_status dop_model_probe(dop_model *model, uint32_t pos, dop_diag *diag);
/* The same, if a probe is due.  Where a form is not there a moment later, the text keeps barriers to its end: when a thread is done with the
 * others shall not decide where in a text its bits change. */
dop_status dop_model_probe_at(dop_model *model, uint32_t pos, dop_diag *diag);
/* Has a finished step stalled, or did the step that should have made the last of n_picks finish without it?  If so, all picks
 * that were not taken yet are invalid. */
bool dop_model_stalled(const dop_model *model, uint32_t n_picks);
/* Returns to barriers for good.  Drops every pick that was not taken, and empties the mailboxes. */
dop_status dop_model_fall_back(dop_model *model, dop_diag *diag);

/* ordering_rows.c */
/* After loading: finds the persistent forms of schedules of rows, which probes are to judge unless they are wanted. */
void dop_model_find_rows_orders(dop_model *model, dop_ordering wanted);
/* Which schedule to run for a step that `schedule`, of rows and ordered by barriers, holds; the first time a probe decides.
 * Nothing may be in flight. */
dop_status dop_model_order_rows(dop_model *model, uint32_t schedule, dop_diag *diag, uint32_t *out_schedule);

/* model_used.c */
/* Allocates a struct in which nothing is used; free() its `schedules`. */
dop_status dop_used_init(const dop_plan *plan, dop_diag *diag, dop_used *out_used);
/* Adds a schedule that is not in the table yet, its kernels and its slots. */
void dop_used_add(const dop_plan *plan, uint32_t schedule, dop_used *out);
/* The schedules of a profile; orderings: bits 1 << DOP_ORDER_*; scoring: also those that score and embed. */
void dop_used_add_profile(const dop_plan *plan, uint32_t profile, uint32_t orderings, bool scoring, dop_used *out);
/* The schedules of a kind and an ordering, [*out_n], fewest rows first. */
const uint32_t *dop_used_of(const dop_used *used, uint32_t kind, uint32_t ordering, uint32_t *out_n);
/* Among those that are ordered by barriers: the smallest one for at least n rows as `kind`, where decode stands in for one row of
 * every kind that gives logits; UINT32_MAX: there is none. */
uint32_t dop_model_schedule_for(const dop_model *model, uint32_t kind, uint32_t n);
/* The one of that kind for exactly so many rows; UINT32_MAX: there is none. */
uint32_t dop_model_schedule_of(const dop_model *model, uint32_t kind, uint32_t max_rows);
/* The schedule that does for rows with adapters what this one does without: of its ordering, or ordered by barriers.  It itself: there is
 * no other. */
uint32_t dop_model_schedule_adapted(const dop_model *model, uint32_t schedule);

/* encode.c: scales a vector to Euclidean length 1 if told; DOP_E_INPUT: it is not finite. */
dop_status dop_vector_normalize(const dop_model *model, float *v, uint32_t n, bool scale, dop_diag *diag);

/* probe.c */
typedef struct dop_probe_result {
    const char *fault;      /* why the other ordering cannot be used; NULL: it can */
    double ms[2];           /* best time of a step: by barriers, in the other ordering */
    double distance, bound; /* of the logits, in standard deviations of a row */
    uint64_t bytes;         /* the probe's own device memory */
} dop_probe_result;
/* Compares one ordering with barriers from pos on, with the probe's own rows, step record, states and mailboxes. */
dop_status dop_probe_run(dop_model *model, uint32_t other, uint32_t pos, dop_diag *diag, dop_probe_result *out);
/* The same for two schedules of rows, with as many rows of one sequence as they hold, from position 0 on. */
dop_status dop_probe_rows(dop_model *model, uint32_t barriers, uint32_t other, dop_diag *diag, dop_probe_result *out);

#endif
