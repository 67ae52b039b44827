/* libdoppler: open a plan on a device, feed tokens, take tokens.
 *
 * A *model* is an open plan on a device.  A *sequence* is tokens and the states that the model made of them; a plan holds so
 * many at once (dopplerc --sequences).  A *step* runs rows, each of which is one token of one sequence.  Tokens are ids, 32
 * bits each and below the vocabulary; text is the business of doppler/text.h.
 *
 * Threads: a model with its sequences and steps is driven by one thread at a time; different models know nothing of each
 * other.  Errors are values: a call that fails says why in *diag (NULL: nobody wants to know) and changes nothing that its
 * description does not name.  DOP_E_DEVICE may mean that the device is lost: then nothing but closing works any more.
 * Where a plan holds several sequences, their caches lie in pages of a pool.  A call that needs more pages than are free is
 * DOP_E_FULL and changes nothing: the caller waits until another sequence has given some back, or gives up.
 * The library has no global variables and writes nothing but files that it is asked to write.
 * After dop_model_open returns, nothing is allocated on the device but what a probe of orderings, dop_sequence_save and
 * dop_sequence_load need for themselves, and nothing recorded but that, copies of states, and what
 * dop_open_options.first_tokens put off (dop_model_counters leaves all of these out). */
#ifndef DOPPLER_RUNTIME_INCLUDE_DOPPLER_DOPPLER_H
#define DOPPLER_RUNTIME_INCLUDE_DOPPLER_DOPPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <doppler/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dop_model dop_model;
typedef struct dop_sequence dop_sequence;
struct dop_wire;

/* Which decode schedule: ordered by barriers, or in another way where the plan has such a one. */
typedef enum dop_ordering {
    DOP_ORDERING_AUTO,      /* on a GPU the faster one by a short probe, on software devices barriers */
    DOP_ORDERING_BARRIERS,  /* without a probe */
    DOP_ORDERING_PERSISTENT /* the same; an error when the plan has none */
} dop_ordering;

/* Zeros are the defaults. */
typedef struct dop_open_options {
    const char *device;    /* number or part of a name; NULL: the best one, */
    uint32_t nth_device;   /* or, of all that are as good as the best one, this one, counted round from 0 */
    const char *cache_dir; /* where pipeline caches are kept; NULL: nowhere */
    uint32_t threads;      /* for pipelines and upload; 0: one per core */
    uint32_t max_chunk;    /* most prompt tokens in one replay; 1: token by token; 0: what the plan has */
    /* Greedy submissions under way before the host waits for the first; 0: by device.  Steps in one submission, 1 .. 256;
     * 0: by device and model, more than 1 for small models on GPUs.  Where steps replace states, at most two submissions of
     * one step each: more could not be undone. */
    uint32_t steps_ahead, steps_per_submit;
    bool separate_memory; /* use staging buffers and mirrors even where host and device share memory */
    /* Tokens that the first dop_sequence_feed will bring, roughly; 0: unknown.  When it is known, opening a model ends
     * when that call has what it needs.  A thread makes the rest meanwhile, and calls that need it wait for it. */
    uint32_t first_tokens;
    bool no_scoring; /* dop_sequence_score and dop_sequence_embed will not be called, and nothing is made for them */
    dop_ordering ordering; /* of greedy and sampled steps */
    uint32_t parts, part;  /* which of so many parts of a model, from 0 on, the plan is to be; 0: it is a whole model */
    double timeout_s;      /* longest wait for one submission; 0: by device */
    /* Of a plan in parts: what carries rows to the other ones (doppler-exec has it of MPI); NULL: the plan is in one part. */
    const struct dop_wire *wire;
    dop_log log; /* decisions and sizes; may be called by another thread until dop_model_close ends */
} dop_open_options;

/* How to pick a token from logits.  The order is that of llama.cpp: repetition penalty, top-k, top-p, min-p, temperature,
 * draw.  Equal logits, history, parameters and seed give equal ids on every machine with the same C library. */
typedef struct dop_sampling {
    float temperature;      /* <= 0: the largest logit, no draw */
    uint32_t top_k;         /* keep the k largest; 0: all */
    float top_p;            /* keep the smallest set with at least this probability; outside (0, 1): all */
    float min_p;            /* keep what has at least this share of the largest probability; <= 0: all */
    float repeat_penalty;   /* divides positive and multiplies negative logits of recent tokens; 1: none */
    uint32_t repeat_last_n; /* how many recent tokens count; 0: none */
    uint64_t seed;
} dop_sampling;

/* --- models --------------------------------------------------------------------------------------------------------- */

/* Maps and checks the plan and its digests, chooses a device and the first of the plan's targets that it can run,
 * creates pipelines and uploads weights, in parallel as far as one does not need the other.  options: NULL: the defaults.
 * *out_model is the caller's to close; NULL after a failure (DOP_E_INPUT: the plan; DOP_E_IO; DOP_E_DEVICE; DOP_E_USAGE: no
 * such device). */
dop_status dop_model_open(const char *plan_path, const dop_open_options *options, dop_diag *diag,
                          dop_model **out_model);
/* Destroys the model's sequences too: their handles are dead then.  Accepts NULL. */
void dop_model_close(dop_model *model);

/* What there is to know of a model.  Texts and lists are the model's and live until it is closed. */
typedef struct dop_facts {
    const char *name, *family;   /* of the model */
    const char *quant;           /* storage of the weights in words */
    const char *device, *driver; /* names of the device and its driver */
    uint64_t digest;             /* of the plan: equal plans, equal digests */
    uint32_t vocab;              /* ids are below it; logits are f32 [vocab] */
    uint32_t ctx;                /* positions of a sequence */
    uint32_t n_layers;
    uint32_t n_sequences;    /* that the plan holds at once */
    uint32_t page;           /* positions of a page of the caches; 0: each sequence has a piece of ctx positions */
    uint32_t n_pages;        /* of all sequences together (dopplerc --ctx-total); 0 with page 0 */
    int32_t bos_id;          /* the id that begins a text; -1: none */
    uint32_t n_end_ids;      /* ids that end generation */
    const uint32_t *end_ids; /* [n_end_ids] */
    dop_sampling sampling;   /* the model's own; greedy when it states none */
    uint64_t device_bytes;   /* of all device allocations */
    double load_ms;          /* what dop_model_open took */
} dop_facts;

void dop_model_facts(const dop_model *model, dop_facts *out_facts);

typedef struct dop_counters {
    uint64_t allocations;        /* of device memory, since opening; without those that are temporary (above) */
    uint64_t recordings;         /* of command buffers, since opening; without those named above */
    uint64_t descriptor_updates; /* always 0: kernels take device addresses */
    uint64_t submissions;        /* since opening */
    uint64_t tokens_reused;      /* that dop_sequence_reuse found, since opening */
    uint64_t pages_copied;       /* because a sequence wrote to one that others have too, since opening */
    uint32_t pages_free;         /* now: that no sequence has, with those that dop_sequence_reuse may find */
} dop_counters;

dop_counters dop_model_counters(const dop_model *model);

/* --- sequences ------------------------------------------------------------------------------------------------------- */

/* An empty sequence, picking greedily.  A plan holds so many at once (dop_facts.n_sequences); another one is refused with
 * DOP_E_INPUT.  The caller destroys it, before or by closing the model. */
dop_status dop_sequence_create(dop_model *model, dop_diag *diag, dop_sequence **out_sequence);
/* A step that is open and has rows of it is rolled back.  Accepts NULL. */
void dop_sequence_destroy(dop_sequence *sequence);

/* The sequence, which must be empty (or DOP_E_INPUT), takes as many of the n tokens as are cached in whole pages
 * (dop_facts.page), from the first one on: *out_found of them, fewer than n, so that there is one left to feed for its logits.
 * The caller feeds ids[*out_found] and what follows.  Cached is what this model's sequences were fed, also those that are
 * rewound or destroyed by now, until their pages are needed.  Costs no step; 0 tokens where the plan holds one sequence, or
 * where layers keep other states than caches of the whole context (windows, recurrent layers). */
dop_status dop_sequence_reuse(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag, size_t *out_found);

/* A new sequence with the tokens, states and way of picking of this one, whose random numbers are copied too, without
 * speculation.  Pages are shared until one of the two writes to them.  Fails as dop_sequence_create does. */
dop_status dop_sequence_fork(dop_sequence *sequence, dop_diag *diag, dop_sequence **out_sequence);
/* `to` becomes what `from` is: tokens and states, but not how it picks.  Both of one model, or DOP_E_INPUT.  When the device
 * fails, `to` has the tokens, and later calls feed what is missing. */
dop_status dop_sequence_copy(dop_sequence *to, dop_sequence *from, dop_diag *diag);
/* Forgets everything after the first n_tokens, which must be there (or DOP_E_INPUT).  0 empties the sequence.  States that
 * steps replace are made again from the tokens where no copy of that time is left. */
dop_status dop_sequence_rewind(dop_sequence *sequence, uint32_t n_tokens, dop_diag *diag);
/* Forgets the tokens [first, first + n), which must be there: the later ones move up and are fed again, because their
 * states depend on what stood before them.  Feeding is done by the next call that needs the states. */
dop_status dop_sequence_cut(dop_sequence *sequence, uint32_t first, uint32_t n, dop_diag *diag);
/* Tokens of the sequence so far, fed and picked; owned by the sequence, valid until it changes. */
const uint32_t *dop_sequence_tokens(const dop_sequence *sequence, size_t *out_n);

/* Writes tokens and states to a file that appears under its name when it is complete, with a note of the caller's (n_note
 * bytes; NULL and 0: none).  The file depends on the plan (its digest) and on the layout of its states, and not on the
 * device. */
dop_status dop_sequence_save(dop_sequence *sequence, const char *path, const void *note, size_t n_note, dop_diag *diag);
/* The sequence becomes what was saved; how it picks stays.  A file that is cut short, damaged, of another plan or of another
 * layout is DOP_E_INPUT with the reason, and the sequence is as it was.  When the device fails, it is empty.
 * *out_note: the note, 0-terminated and *out_n_note bytes long, to free with dop_free; both NULL: nobody wants it. */
dop_status dop_sequence_load(dop_sequence *sequence, const char *path, dop_diag *diag, char **out_note,
                             size_t *out_n_note);

/* How to pick tokens from now on; the default is greedy.  Restarts the random numbers, and takes the place of a sampler of
 * the caller's. */
void dop_sequence_set_sampling(dop_sequence *sequence, const dop_sampling *sampling);
/* A sampler of the caller's: gets the logits, f32 [vocab], and the n_tokens tokens before them, both until it returns, and gives an
 * id below vocab.  Whatever it returns beside DOP_OK is what the call that needed the pick returns; an id outside the
 * vocabulary is DOP_E_INPUT.  It is called by the thread that drives the model and must not call into it. */
typedef dop_status dop_sampler_fn(void *user, const float *logits, uint32_t vocab, const uint32_t *tokens,
                                  size_t n_tokens, dop_diag *diag, uint32_t *out_id);
/* fn NULL: back to what dop_sequence_set_sampling has set.  user is not owned. */
void dop_sequence_set_sampler(dop_sequence *sequence, dop_sampler_fn *fn, void *user);
/* Picks of the sequence are among the ids that a mask has, until another is set: those of dop_sequence_next, and of its last
 * row in a step those of dop_step_pick and dop_step_sample.  Greedy ones are picked on the device.  mask: a bit for each id,
 * [(vocab + 31) / 32], the lowest bit first; copied.  NULL: every id again.  A mask that has no id, and a step that is open, are
 * errors (DOP_E_INPUT, DOP_E_USAGE), and nothing changes.  A sampler of the caller's gets all logits, and nothing is
 * speculated on while there is a mask.  Forks have none. */
dop_status dop_sequence_set_mask(dop_sequence *sequence, const uint32_t *mask, dop_diag *diag);
/* At most this many tokens will be taken: no step is submitted ahead that nobody wants.  UINT32_MAX: unknown. */
void dop_sequence_expect(dop_sequence *sequence, uint32_t n_tokens);

/* Appends n tokens, in as many steps as that takes.  What dop_sequence_next returned before is part of the sequence already.
 * When a step fails, the tokens are in the sequence and later calls feed what is missing. */
dop_status dop_sequence_feed(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag);
/* Picks the next token and appends it.  Needs at least one token.  Greedy steps run ahead on the device
 * (dop_open_options.steps_ahead); whatever else is done with the model drops those that were not taken.
 * Logits that are not finite are DOP_E_INPUT: nothing can be picked then. */
dop_status dop_sequence_next(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);

/* Writes at most `most` ids that may come after the n_tokens tokens of a sequence to out_ids, and how many to *out_n; 0 is
 * fine.  Whatever it returns beside DOP_OK is what dop_sequence_next returns; it must not call into the model. */
typedef dop_status dop_draft_fn(void *user, const uint32_t *tokens, size_t n_tokens, uint32_t most, dop_diag *diag,
                                uint32_t *out_ids, uint32_t *out_n);

/* Speculation: drafts of the next tokens, checked several in one step.  Zeros are the defaults; the first of these that has
 * something gives the drafts of a step. */
typedef struct dop_speculation {
    dop_draft_fn *fn; /* the caller's own; NULL: none */
    void *user;
    uint32_t ngram; /* what came after the last so many tokens where they stood before; 0: no */
    dop_sequence
        *draft;    /* what a sequence of another model, with the same vocabulary, would go on with; NULL: none.  Its
                            tokens become those of this sequence, its way of picking this one's; not owned */
    uint32_t most; /* drafts in a step; 0: as many as the plan's schedules hold */
} dop_speculation;

/* dop_sequence_next makes and checks drafts from now on.  how: copied; NULL: no longer.  Needs a plan with schedules for a few
 * rows with logits of each (dopplerc --rows 4,8), or DOP_E_INPUT.  The number of drafts follows what was accepted, and
 * where nothing is, they are tried rarely.  The draft sequence must live as long, and nothing else may be done with it.
 * What is picked: a sampled token has the distribution that it has without drafts.  Greedy picks are the largest logits of
 * the step that checks them; where the next logit is nearer than 1.25 times the largest difference seen between this and
 * the step for one token, the latter decides.  So texts differ from those without drafts only where the rounding of keys and
 * values tips a near tie, as it does between prompts fed in different pieces. */
dop_status dop_sequence_set_speculation(dop_sequence *sequence, const dop_speculation *how, dop_diag *diag);

typedef struct dop_speculation_counts {
    uint64_t steps;             /* that checked drafts */
    uint64_t drafted, accepted; /* tokens */
    uint64_t again;             /* greedy picks that the step for one token decided */
} dop_speculation_counts;

/* Since dop_sequence_set_speculation. */
dop_speculation_counts dop_sequence_speculation_counts(const dop_sequence *sequence);

/* Logits of consecutive positions: rows [n_rows, vocab], f32; rows live until the callback returns. */
typedef dop_status dop_logits_fn(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag);
/* Like dop_sequence_feed, and hands out the logits of every token fed, in order. */
dop_status dop_sequence_score(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_logits_fn *fn, void *user,
                              dop_diag *diag);

/* Which hidden states an embedding is made of; models are trained for one or the other. */
typedef enum dop_pooling {
    DOP_POOLING_LAST, /* that of the last token */
    DOP_POOLING_MEAN  /* the mean over the tokens */
} dop_pooling;
/* Like dop_sequence_feed, and makes an embedding of the n tokens fed (1 at least): their hidden states after the final norm,
 * pooled, with Euclidean length 1.  out_vector: f32 [dop_model_embedding_size], the caller's.  DOP_E_INPUT: the plan gives
 * no hidden states (dopplerc --embed). */
dop_status dop_sequence_embed(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_pooling pooling,
                              dop_diag *diag, float *out_vector);
/* Values of an embedding; 0: the plan gives none (dopplerc --embed), or the model was opened without scoring. */
uint32_t dop_model_embedding_size(const dop_model *model);

/* --- steps ----------------------------------------------------------------------------------------------------------- */

enum {
    DOP_WANTS_LOGITS = 1,   /* dop_step_logits */
    DOP_WANTS_PICK = 2,     /* dop_step_pick: the largest logit */
    DOP_WANTS_DRAW = 8,     /* dop_step_sample without logits, by the device where it can (dop_model_draws) */
    DOP_WANTS_UNCHECKED = 4 /* with logits: the caller notices itself when they are not finite, on threads of its own */
};

/* One token of one sequence.  The rows of a sequence stand in order (others may stand between them) and follow its tokens:
 * the first has the position after the last of them. */
typedef struct dop_step_row {
    dop_sequence *sequence;
    uint32_t token; /* id */
    uint32_t wants; /* DOP_WANTS_* bits */
} dop_step_row;

/* Runs n_rows rows of any sequences of the model and waits for the results: by the smallest schedule that holds them, or,
 * where the plan has none for rows of several sequences, one replay for each sequence.  Tokens of the sequences that are
 * not in their states yet are fed first.  The sequences do not change: the step is to be committed or rolled back before
 * anything else is done with the model (DOP_E_USAGE).  Errors (DOP_E_INPUT, and nothing is changed): rows of another model
 * or of a sequence that was destroyed, more rows than a schedule holds (dop_model_max_rows,
 * dop_model_max_rows_of_several), ids outside the vocabulary, positions past the context, logits that a row wants and that
 * are not finite. */
dop_status dop_step_run(dop_model *model, const dop_step_row *rows, uint32_t n_rows, dop_diag *diag);
/* Of a row that wanted them: f32 [vocab], owned by the model, valid until the step is committed or rolled back; NULL for
 * other rows. */
const float *dop_step_logits(const dop_model *model, uint32_t row);
/* Of a row that wanted it: the id of the largest logit, the lowest among equals; UINT32_MAX for other rows.  Of the last row of
 * its sequence: among those that the mask of the sequence has. */
uint32_t dop_step_pick(const dop_model *model, uint32_t row);
/* Of a row that wanted logits or a draw: a pick in the way of its sequence; the tokens so far are those of the sequence and its
 * rows up to this one.  Random numbers of the sequence move on by it.  A draw that the device has made has the same distribution,
 * of equals at the edge of top-k and top-p it leaves all, and it depends on the seed and the row's position alone, so that
 * the host picks another token for a seed than the device does.  Other rows: DOP_E_INPUT. */
dop_status dop_step_sample(dop_model *model, uint32_t row, dop_diag *diag, uint32_t *out_id);
/* The rows become part of their sequences.  Without a step there is nothing to do. */
void dop_step_commit(dop_model *model);
/* The rows are forgotten: their sequences are as they were before the step. */
void dop_step_rollback(dop_model *model);
/* The device draws: last rows of their sequence that want a draw need no logits, unless the sequence has a sampler of the
 * caller's or a repeat penalty. */
bool dop_model_draws(const dop_model *model);
/* Most rows of one sequence in a step: when it wants no logits or picks but its last row's, and otherwise. */
uint32_t dop_model_max_rows(const dop_model *model, bool inner_rows_want);
/* Most rows of a step of several sequences that one replay takes (dopplerc --rows); 1: there is no such schedule, and each
 * sequence has the limits of dop_model_max_rows. */
uint32_t dop_model_max_rows_of_several(const dop_model *model);

#ifdef __cplusplus
}
#endif

#endif
