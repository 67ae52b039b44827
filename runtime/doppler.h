/* libdoppler: open a plan on a device, feed tokens, take tokens.
 *
 * A *model* is an open plan on a device.  A *sequence* is tokens and the states that the model made of them.  A *step* runs
 * rows, each of which is one token of one sequence.  Tokens are ids; text is the business of runtime/text/tokenizer.h.
 *
 * Threads: a model with its sequences and steps is driven by one thread at a time; different models know nothing of each
 * other.  Errors are values: a call that fails says why in *diag (NULL: nobody wants to know) and changes nothing that its
 * description does not name.  DOP_E_DEVICE may mean that the device is lost: then nothing but closing works any more.
 * After dop_model_open returns, nothing is allocated on the device but what a probe of orderings needs for itself, and
 * nothing recorded but that and what dop_open_options.first_tokens put off (dop_model_counters leaves both out). */
#ifndef DOPPLER_RUNTIME_DOPPLER_H
#define DOPPLER_RUNTIME_DOPPLER_H

#include "runtime/base.h"
#include "runtime/caps.h"
#include "runtime/log.h"
#include "runtime/plan.h"
#include "runtime/sampling.h"

typedef struct dop_model dop_model;
typedef struct dop_sequence dop_sequence;

/* Which decode schedule: ordered by barriers, or in another way where the plan has such a one (DOP_ORDER_* in
 * plan_format.h). */
typedef enum dop_ordering {
    DOP_ORDERING_AUTO,      /* on a GPU the faster one by a short probe, on software devices barriers */
    DOP_ORDERING_BARRIERS,  /* without a probe */
    DOP_ORDERING_PERSISTENT /* the same; an error when the plan has none */
} dop_ordering;

typedef struct dop_open_options {
    const char *device;    /* number or part of a name; NULL: the best one */
    const char *cache_dir; /* where pipeline caches are kept; NULL: nowhere */
    uint32_t threads;      /* for pipelines and upload; 0: one per core */
    uint32_t max_chunk;    /* most prompt tokens in one replay; 1: token by token; 0: what the plan has */
    /* Greedy submissions under way before the host waits for the first; 0: by device.  Steps in one submission, 1 .. 256;
     * 0: 1.  Where steps replace states, one step at a time runs ahead whatever they say: more could not be undone. */
    uint32_t steps_ahead, steps_per_submit;
    bool separate_memory; /* use staging buffers and mirrors even where host and device share memory */
    /* Tokens that the first dop_sequence_feed will bring, roughly; 0: unknown.  When it is known, opening a model ends
     * when that call has what it needs.  A thread makes the rest meanwhile, and calls that need it wait for it. */
    uint32_t first_tokens;
    bool no_scoring;       /* dop_sequence_score will not be called, and nothing is made for it */
    dop_ordering ordering; /* of greedy and sampled steps */
    double timeout_s;      /* longest wait for one submission; 0: by device */
    dop_log log;           /* decisions and sizes, for -v; may be called by another thread until dop_model_close ends */
} dop_open_options;

typedef struct dop_model_info {
    const dop_plan *plan;
    const dop_device_caps *device;
    uint32_t profile;                          /* row of the plan's profiles */
    uint32_t decode;                           /* row of the plan's schedules: one token */
    uint32_t ordering;                         /* DOP_ORDER_*, of decode; barriers after a stall */
    bool stalled;                              /* a wait for a value ran out; steps were run again with barriers */
    double probe_ms;                           /* what choosing the ordering took, part of load_ms; 0: no probe */
    double load_ms;                            /* all of dop_model_open */
    double pipelines_ms, upload_ms, verify_ms; /* its parts, which overlap; pipelines: the first ones */
    uint64_t device_bytes;                     /* of all device allocations */
} dop_model_info;

/* --- models --------------------------------------------------------------------------------------------------------- */

/* Maps and checks the plan and its digests, chooses a device and the first of the plan's profiles that it can run,
 * creates pipelines and uploads weights, in parallel as far as one does not need the other. */
dop_status dop_model_open(const char *plan_path, const dop_open_options *options, dop_diag *diag,
                          dop_model **out_model);
/* Destroys the model's sequences too.  Accepts NULL. */
void dop_model_close(dop_model *model);
void dop_model_describe(const dop_model *model, dop_model_info *out_info);

/* --- sequences ------------------------------------------------------------------------------------------------------- */

/* An empty sequence.  A plan holds so many at once (today's plans one); another one is refused with DOP_E_INPUT. */
dop_status dop_sequence_create(dop_model *model, dop_diag *diag, dop_sequence **out_sequence);
void dop_sequence_destroy(dop_sequence *sequence); /* accepts NULL */

/* Forgets everything after the first n_tokens, which must be there.  0 empties the sequence. */
dop_status dop_sequence_rewind(dop_sequence *sequence, uint32_t n_tokens, dop_diag *diag);
/* Tokens of the sequence so far, fed and picked; owned by the sequence, valid until it changes. */
const uint32_t *dop_sequence_tokens(const dop_sequence *sequence, size_t *out_n);

/* How to pick tokens from now on; the default is greedy.  Restarts the random numbers. */
void dop_sequence_set_sampling(dop_sequence *sequence, const dop_sampling *sampling);
/* At most this many tokens will be taken: no step is submitted ahead that nobody wants.  UINT32_MAX: unknown. */
void dop_sequence_expect(dop_sequence *sequence, uint32_t n_tokens);

/* Appends n tokens, in as many steps as that takes.  What dop_sequence_next returned before is part of the sequence already.
 * When a step fails, the tokens are in the sequence and later calls feed what is missing. */
dop_status dop_sequence_feed(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag);
/* Picks the next token and appends it.  Needs at least one token.  Greedy steps run ahead on the device
 * (dop_open_options.steps_ahead); whatever else is done with the sequence drops those that were not taken.
 * Logits that are not finite are DOP_E_INPUT: nothing can be picked then. */
dop_status dop_sequence_next(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);

/* Logits of consecutive positions: rows [n_rows, vocab], f32; rows live until the callback returns. */
typedef dop_status dop_logits_fn(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag);
/* Like dop_sequence_feed, and hands out the logits of every token fed, in order. */
dop_status dop_sequence_score(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_logits_fn *fn, void *user,
                              dop_diag *diag);

/* --- steps ----------------------------------------------------------------------------------------------------------- */

enum { DOP_WANTS_LOGITS = 1, DOP_WANTS_PICK = 2 };

/* One token of one sequence.  The rows of a sequence stand in order and follow its tokens: the first has the position after
 * the last of them. */
typedef struct dop_step_row {
    dop_sequence *sequence;
    uint32_t token; /* id */
    uint32_t wants; /* DOP_WANTS_* bits */
} dop_step_row;

/* Runs n_rows rows by the smallest schedule that holds them, and waits for the results.  The sequences do not change yet:
 * the step is to be committed or rolled back before anything else is done with them.  Errors (DOP_E_INPUT): rows of more
 * sequences than the plan takes in a step, more rows than a schedule holds (dop_model_max_rows), ids outside the
 * vocabulary, positions past the context, logits that a row wants and that are not finite. */
dop_status dop_step_run(dop_model *model, const dop_step_row *rows, uint32_t n_rows, dop_diag *diag);
/* Of a row that wanted them: f32 [vocab], owned by the model, valid until the step is committed or rolled back; NULL for
 * other rows. */
const float *dop_step_logits(const dop_model *model, uint32_t row);
/* Of a row that wanted it: the id of the largest logit, the lowest among equals; UINT32_MAX for other rows. */
uint32_t dop_step_pick(const dop_model *model, uint32_t row);
/* The rows become part of their sequences.  Without a step there is nothing to do. */
void dop_step_commit(dop_model *model);
/* The rows are forgotten: their sequences are as they were before the step. */
void dop_step_rollback(dop_model *model);
/* Most rows of one step: of any that wants no logits or picks but its last row's, and of any other. */
uint32_t dop_model_max_rows(const dop_model *model, bool inner_rows_want);

typedef struct dop_counters {
    uint64_t allocations; /* of device memory, since opening; without those of probes */
    uint64_t recordings;  /* of command buffers, since opening; without what was put off then and those of probes */
    uint64_t descriptor_updates; /* always 0: kernels take device addresses */
    uint64_t submissions;        /* since opening */
} dop_counters;

dop_counters dop_model_counters(const dop_model *model);

/* What a device offers, for --target auto of the compiler. */
dop_status dop_device_probe(const char *device, dop_diag *diag, dop_device_caps *out_caps);

#endif
