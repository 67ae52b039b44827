/* libdoppler: open a plan on a device, feed tokens, take tokens.
 *
 * A *model* is an open plan on a device.  A *sequence* is a list of tokens and the states that the model computed from them;
 * a plan holds a fixed number of sequences at once (dopplerc --sequences).  A *step* runs rows, each of which is one token of
 * one sequence.  Tokens are ids of 32 bits, smaller than the vocabulary; doppler/text.h converts text.
 *
 * Threads: one thread at a time drives a model with its sequences and steps; different models are independent of each
 * other.  A library that was built with DOPPLER_CHECKED notices a second thread: calls that use the model return DOP_E_USAGE then, and
 * change nothing.  Others do not look.
 * Processes: a process that was forked from the one that opened a model cannot use it, because a device's driver does not survive a
 * fork: calls return DOP_E_USAGE there, and what is closed or destroyed stays as it is.  Open models after forking.
 * Errors are values: a call that fails says why in *diag (NULL discards the message) and changes nothing that its
 * description does not name.  DOP_E_DEVICE may mean that the device is lost; then only closing still works.
 * Where a plan holds several sequences, their caches lie in pages of a pool.  A call that needs more pages than are free
 * returns DOP_E_FULL and changes nothing: the caller waits until another sequence has released some, or gives up.
 * The library has no global variables and writes only the files that it is asked to write.
 * After dop_model_open returns, device memory is allocated only temporarily, by a probe of orderings, dop_sequence_save and
 * dop_sequence_load.  Command buffers are recorded only for these, for copies of states and of rows of pictures, and for what
 * dop_open_options.first_tokens and .on_demand deferred.  dop_model_counters leaves all of these out. */
#ifndef DOPPLER_INCLUDE_DOPPLER_DOPPLER_H
#define DOPPLER_INCLUDE_DOPPLER_DOPPLER_H

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

/* --- devices -------------------------------------------------------------------------------------------------------- */

/* A device with a Vulkan driver.  The strings live until the callback returns. */
typedef struct dop_device_facts {
    uint32_t number; /* dop_open_options.device accepts it */
    const char *name, *driver;
    const char *missing; /* what the device lacks to run any plan; "": nothing */
    uint64_t memory;     /* bytes of device-local memory */
    bool software;       /* the device is the host's processor */
    const char *line;    /* one line with all of this and the device's capabilities */
} dop_device_facts;

typedef dop_status dop_device_fn(void *user, const dop_device_facts *facts, dop_diag *diag);
/* Calls fn for every device in the order of their numbers.  Stops and returns fn's result when it is not DOP_OK.  DOP_E_DEVICE:
 * no driver was found.  Any thread. */
dop_status dop_devices(dop_device_fn *fn, void *user, dop_diag *diag);

/* How the dispatches of a decode step are ordered; a plan always has barriers and may have another form. */
typedef enum dop_ordering {
    DOP_ORDERING_AUTO,      /* on a GPU the one that a short probe finds faster, on software devices barriers */
    DOP_ORDERING_BARRIERS,  /* barriers, without a probe */
    DOP_ORDERING_PERSISTENT /* the persistent dispatch, without a probe; an error when the plan has none */
} dop_ordering;

/* Zeros are the defaults. */
typedef struct dop_open_options {
    const char *device;    /* number or part of a name; NULL: the best one */
    uint32_t nth_device;   /* with device NULL: which of the equally good best devices, from 0, modulo their number */
    const char *cache_dir; /* where pipeline caches are kept; NULL: nowhere */
    uint32_t threads;      /* for creating pipelines and uploading; 0: one per core */
    uint32_t max_chunk;    /* most prompt tokens in one replay; 1: token by token; 0: as many as the plan allows */
    /* steps_ahead: greedy submissions in flight before the host waits for the first; 0: depends on the device.  With 1 the
     * steps of dop_step_run do not run ahead either.
     * steps_per_submit: steps in one submission, 1 .. 256; 0: depends on device and model (more than 1 for small models on
     * GPUs).  Where steps replace states, at most two submissions of one step each are in flight, because more could not be
     * undone. */
    uint32_t steps_ahead, steps_per_submit;
    /* Checkpoints (dop_sequence_checkpoint and those that are made by themselves, at the ends of chunks and turns) that the device
     * holds at once, at most 64; 0: none, so that sequences with windows or recurrent layers are fed again where they are rewound.
     * checkpoint_bytes: most device memory for them; 0: a sixteenth of the device's memory. */
    uint32_t checkpoints;
    uint64_t checkpoint_bytes;
    /* Prompts that come again go on from what the end of a turn (of a dop_generation) leaves in host memory, and in files, which also
     * survive the model.  cache_memory: most bytes of host memory; 0: none.  prompt_cache: a folder for files; NULL: none.  Several
     * processes may use it; its files are written by a thread and hold what users wrote, for their owner only.  prompt_cache_bytes:
     * most bytes of all files there, of which the least recently used are removed; 0: 32 GiB. */
    uint64_t cache_memory;
    const char *prompt_cache;
    uint64_t prompt_cache_bytes;
    bool separate_memory; /* use staging buffers and mirrors even where host and device share memory */
    /* How many tokens the first dop_sequence_feed will bring, roughly; 0: unknown.  When it is known, dop_model_open returns
     * as soon as that call and the steps of one token behind it have what they need.  Threads prepare the rest meanwhile (see
     * on_demand), and calls that need it wait for it, or fail if the driver refuses it. */
    uint32_t first_tokens;
    bool no_scoring; /* promises that dop_sequence_score and dop_sequence_embed are not called; saves their resources */
    dop_ordering ordering; /* how greedy and sampled steps are ordered */
    uint32_t parts, part;  /* the plan must be part number `part`, from 0, of `parts`; parts 0: a whole model */
    double timeout_s;      /* longest wait for one submission; 0: depends on the device */
    /* For a plan in parts: what carries rows between parts (doppler-exec implements it with MPI); NULL: a plan in one part. */
    const struct dop_wire *wire;
    /* Called with the device that was chosen, before anything is made on it; NULL: any is welcome.  When it does not return DOP_OK,
     * dop_model_open returns that. */
    dop_device_fn *chosen;
    void *chosen_user;
    /* Progress of opening, reported by the calling thread: steps "kernels" (in kernels; all, though opening may wait for the first ones
     * only) and "weights" (in bytes). */
    dop_progress progress;
    dop_log log; /* decisions and sizes; may be called by another thread until dop_model_close ends */
    /* Called with the name of each kernel that the device's driver refuses, by any thread until dop_model_close ends: a plan that
     * dopplerc --avoid NAME makes does without it.  NULL: nobody is told, and calls that need the kernel fail all the same. */
    void (*refused)(void *user, const char *kernel);
    void *refused_user;
    /* Milliseconds that the driver is given work for at a time, about: systems reset devices on which one submission takes too
     * long.  0: depends on the device (500; any time where the device is the host's processor). */
    double submit_ms;
    /* on_demand: for programs that end when they have written a text.  Kernels are made when calls need them, and not before, except
     * those that first_tokens speaks of, other forms of steps of one token and of its drafts and, on a GPU, the rest behind these.  With
     * first_tokens 0 opening waits for those of steps of one token.  no_steps, with first_tokens or on_demand: there will be no such
     * steps, so that nothing waits for their kernels, and on_demand makes nothing else ahead. */
    bool on_demand, no_steps;
} dop_open_options;

/* Added to the logit of an id. */
typedef struct dop_bias {
    uint32_t id; /* one outside the vocabulary is ignored */
    float by;
} dop_bias;

/* How to pick a token from logits.  First logits change: biases, presence and frequency penalty, repetition penalty; then, in
 * the order of llama.cpp, come top-k, top-p, min-p, temperature, draw.  A draw depends on the logits, the parameters, the seed
 * and the position alone: on a host it gives equal ids on every machine with the same C library, a device that draws gives the
 * same but for rounding, and a sequence that is rewound and picks again picks the same until it has another seed. */
typedef struct dop_sampling {
    float temperature; /* <= 0: the largest logit, no draw */
    uint32_t top_k;    /* keep the k largest; 0: all */
    float top_p; /* keep the fewest likeliest tokens that together have this probability; 1: all; 0: the likeliest */
    float min_p; /* keep tokens with at least this share of the largest probability; <= 0: all */
    float repeat_penalty;   /* divides positive and multiplies negative logits of recent tokens; 1: none */
    uint32_t repeat_last_n; /* how many recent tokens count; 0: none */
    /* Subtracted from the logits of ids among the tokens of the sequence from position penalty_from on, usually the end of the
     * prompt: once for each id, and for each of its occurrences. */
    float presence_penalty, frequency_penalty;
    uint32_t penalty_from;
    const dop_bias *biases; /* [n_biases]; not owned: stays while this sampling is used, also by forks and drafts */
    size_t n_biases;
    bool logprobs; /* the log-probabilities of picks are wanted (dop_sequence_logprobs), so that the host picks */
    uint64_t seed;
} dop_sampling;

/* --- models --------------------------------------------------------------------------------------------------------- */

/* Maps the plan and checks it and its digests, chooses a device and the first of the plan's targets that it can run,
 * creates pipelines and uploads weights, in parallel where possible.  options: NULL for the defaults.
 * *out_model is the caller's to close; NULL after a failure (DOP_E_INPUT: the plan; DOP_E_IO; DOP_E_DEVICE; DOP_E_USAGE: no
 * such device, or an option that cannot be). */
dop_status dop_model_open(const char *plan_path, const dop_open_options *options, dop_diag *diag,
                          dop_model **out_model);
/* The same for a plan in memory: `size` bytes that are aligned to 16 bytes and stay as they are until the model is closed; and for one
 * in an open file, of which the file descriptor may be closed when this returns (needs /proc).  DOP_E_INPUT also: the plan's weights
 * are in a file of their own; DOP_E_USAGE: a wrong alignment, or a plan in parts. */
dop_status dop_model_open_memory(const void *plan, size_t size, const dop_open_options *options, dop_diag *diag,
                                 dop_model **out_model);
dop_status dop_model_open_fd(int fd, const dop_open_options *options, dop_diag *diag, dop_model **out_model);
/* Destroys the model's sequences too, whose handles become invalid.  Accepts NULL. */
void dop_model_close(dop_model *model);

/* Facts about a model.  Texts and lists are owned by the model and live until it is closed. */
typedef struct dop_facts {
    const char *name, *family;   /* names of the model and of its family */
    const char *quant;           /* how the weights are stored, as text */
    const char *device, *driver; /* names of the device and its driver */
    const char *target;          /* name of the plan's target that the device runs (dopplerc --target) */
    bool software;               /* the device is the host's processor */
    uint64_t digest;             /* digest of the plan; equal plans have equal digests */
    uint32_t vocab;              /* number of ids; logits are f32 [vocab] */
    uint32_t ctx;                /* most positions of a sequence */
    uint32_t ctx_trained;        /* positions that the model was trained for; 0: unknown */
    uint32_t n_layers;
    uint32_t n_sequences; /* most sequences at once */
    uint32_t page;        /* positions in a page of the caches; 0: each sequence has one piece of ctx positions */
    uint32_t n_pages;     /* shared by all sequences (dopplerc --ctx-total); 0 where page is 0 */
    uint32_t n_chunks;    /* number of `chunks` */
    uint32_t
        chunks[8]; /* ascending: how many tokens of a prompt a step takes, so that multiples of the last feed fastest */
    bool has_text; /* the plan has a tokenizer for dop_text_of_model */
    int32_t bos_id;          /* the id that begins a text; -1: none */
    uint32_t n_end_ids;      /* number of ids that end generation */
    const uint32_t *end_ids; /* [n_end_ids] */
    dop_sampling sampling;   /* the model's own settings; greedy when it states none */
    uint64_t device_bytes;   /* total size of all device allocations */
    double load_ms;          /* duration of dop_model_open */
    /* The plan has a layer that drafts (multi-token prediction).  A dop_generation uses it unless dop_sequence_set_speculation was called
     * for its sequence. */
    bool drafts;
} dop_facts;

void dop_model_facts(const dop_model *model, dop_facts *out_facts);

typedef struct dop_counters {
    /* Since dop_model_open: */
    uint64_t allocations; /* allocations of device memory, without the temporary ones named at the top of this file */
    uint64_t recordings;  /* recordings of command buffers, without those named at the top of this file */
    uint64_t submissions;
    uint64_t tokens_reused; /* found by dop_sequence_reuse */
    uint64_t tokens_saved;  /* tokens of prompts that were in states already, wherever (dop_sequence_reuse) */
    uint64_t tokens_loaded; /* those of them that came from host memory and files */
    uint64_t checkpoints_made, checkpoints_used;
    uint64_t cache_hits, file_hits;        /* pieces of prompts found in host memory, and in files */
    uint64_t files_written, files_removed; /* of dop_open_options.prompt_cache */
    uint64_t pages_copied;                 /* because a sequence wrote to a page that it shared */
    double waited_ms;      /* time that calls spent waiting for kernels (dop_open_options.first_tokens, .on_demand) */
    uint64_t steps_ahead;  /* steps of dop_step_run that were in flight before it was called */
    uint64_t rows_dropped; /* rows of steps that ran ahead of dop_step_run and that no call wanted */
    /* Now: */
    uint32_t checkpoints;             /* on the device */
    uint64_t checkpoint_bytes;        /* of device memory for checkpoints, used or not */
    uint64_t cache_bytes, file_bytes; /* in host memory, and in files */
    uint32_t pages_free;              /* pages of no sequence, including those that dop_sequence_reuse may find */
} dop_counters;

dop_counters dop_model_counters(const dop_model *model);
/* How the dispatches of decode steps are ordered now: "barriers" or "persistent"; static. */
const char *dop_model_ordering(const dop_model *model);

/* One of the targets of a plan. */
typedef struct dop_plan_target {
    const char *name;
    uint64_t device_bytes; /* memory of the device that the plan takes with it */
} dop_plan_target;

/* What is known of a plan without a device. */
typedef struct dop_plan_facts {
    const char *name, *family, *quant; /* as in dop_facts */
    const char *made;                  /* how the plan was made, JSON; "": not known */
    uint64_t digest;
    uint64_t bytes; /* size of the plan, with weights in files of their own */
    uint32_t vocab, ctx, ctx_trained, n_layers, n_sequences, page, n_pages;
    uint32_t part, n_parts; /* which part of a model it is; 0 of 1: the whole model */
    bool has_text;
    uint32_t n_targets;
    const dop_plan_target *targets; /* [n_targets], in the order in which devices try them */
} dop_plan_facts;

/* Reads a plan's facts; *out_facts with all it points to is one piece of memory, the caller's to free with dop_free.  The plan is
 * checked as dop_model_open does, but for the digests of its weights.  part: number of the part of a plan in several, else 0.  Any
 * thread. */
dop_status dop_plan_read(const char *plan_path, uint32_t part, dop_diag *diag, dop_plan_facts **out_facts);

/* --- sequences ------------------------------------------------------------------------------------------------------- */

/* Creates an empty sequence that picks greedily.  DOP_E_INPUT: the model already has dop_facts.n_sequences.  The caller
 * destroys it, or closing the model does. */
dop_status dop_sequence_create(dop_model *model, dop_diag *diag, dop_sequence **out_sequence);
/* An open step with rows of this sequence is rolled back.  Accepts NULL. */
void dop_sequence_destroy(dop_sequence *sequence);

/* Makes the sequence begin with as many of the n tokens, from the first one on, as any states are there for: its own, as far as
 * they are of these tokens; those of another sequence; or what is cached, in whole pages (dop_facts.page) and, where layers keep
 * states of one position (windows, recurrent layers), up to a checkpoint.  *out_found is their number and less than n, so that
 * at least one token is left to feed for its logits; the caller feeds ids[*out_found] and the rest.  What this model's
 * sequences were fed stays cached, even after they are rewound or destroyed, until its pages are needed.  This runs no step. */
dop_status dop_sequence_reuse(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag, size_t *out_found);

/* Creates a sequence with the tokens, states and sampling of this one, without its speculation.  Pages are
 * shared until one of the two writes to them.  Fails as dop_sequence_create does. */
dop_status dop_sequence_fork(dop_sequence *sequence, dop_diag *diag, dop_sequence **out_sequence);
/* Gives `to` the tokens and states of `from`, but not its sampling.  Both belong to one model, else DOP_E_INPUT.  When the
 * device fails, `to` has the tokens, and later calls compute the missing states. */
dop_status dop_sequence_copy(dop_sequence *to, dop_sequence *from, dop_diag *diag);
/* Forgets everything after the first n_tokens, which must exist (else DOP_E_INPUT).  0 empties the sequence.  States that
 * steps replace, and windows that have lost what they need, are computed again from the longest checkpoint. */
dop_status dop_sequence_rewind(dop_sequence *sequence, uint32_t n_tokens, dop_diag *diag);
/* Removes the tokens [first, first + n), which must exist (else DOP_E_INPUT).  Later tokens move up and are fed again, because
 * their states depend on what came before them; the next call that needs the states does this. */
dop_status dop_sequence_cut(dop_sequence *sequence, uint32_t first, uint32_t n, dop_diag *diag);
/* The tokens so far, fed and picked; owned by the sequence, valid until it changes. */
const uint32_t *dop_sequence_tokens(const dop_sequence *sequence, size_t *out_n);

/* Says that a turn of a conversation has ended (a dop_generation does so itself): a later prompt may begin with what the sequence has
 * now.  Makes a checkpoint without a handle, and stores what is not stored yet in host memory and files, as far as dop_open_options
 * say so; steps that ran ahead are dropped.  Does nothing while a step is open. */
dop_status dop_sequence_end_turn(dop_sequence *sequence, dop_diag *diag);
/* Makes a checkpoint: a copy of what brings this or any other sequence of the model back to where this one is.  Tokens that are
 * not in the states yet are fed first.  It takes device memory that dop_open_options.checkpoints reserved, and costs one copy of the
 * states of windows and recurrent layers; caches of the whole context are not copied.  *out_id: a handle, which is never 0, until
 * dop_model_drop_checkpoint.  DOP_E_FULL: all checkpoints are held.  DOP_E_INPUT: the sequence is empty. */
dop_status dop_sequence_checkpoint(dop_sequence *sequence, dop_diag *diag, uint64_t *out_id);
/* Gives the sequence, whatever it had, the tokens of a checkpoint, and their states.  What is no longer cached of them (pages that
 * were needed) is computed again by the next call that needs it.  Runs no step.  DOP_E_INPUT: there is no such checkpoint. */
dop_status dop_sequence_restore(dop_sequence *sequence, uint64_t id, dop_diag *diag);
/* Ends a handle.  The checkpoint stays until its memory is needed.  Does nothing with one that has ended, and with 0. */
void dop_model_drop_checkpoint(dop_model *model, uint64_t id);

/* Writes tokens and states to a file, which appears under its name when it is complete, with a note from the caller (n_note
 * bytes; NULL and 0: none).  The file is tied to the plan (its digest) and the layout of its states, but not to the device. */
dop_status dop_sequence_save(dop_sequence *sequence, const char *path, const void *note, size_t n_note, dop_diag *diag);
/* Restores what was saved; the sequence keeps its sampling.  A file that is cut short, damaged, or made with another plan or
 * layout gives DOP_E_INPUT with the reason and leaves the sequence unchanged.  When the device fails, the sequence is empty.
 * *out_note: the note, 0-terminated and *out_n_note bytes long, to free with dop_free; pass NULL for both to skip it. */
dop_status dop_sequence_load(dop_sequence *sequence, const char *path, dop_diag *diag, char **out_note,
                             size_t *out_n_note);

/* Sets how tokens are picked from now on; the default is greedy.  Replaces a sampler of the caller's.  With numbers that are not finite
 * (a bias may be infinite), or a repeat_penalty that counts and is not above 0, nothing can be picked: the next pick is DOP_E_USAGE. */
void dop_sequence_set_sampling(dop_sequence *sequence, const dop_sampling *sampling);
/* A sampler of the caller's: picks an id below vocab from the logits, f32 [vocab], and the n_tokens tokens before them; both
 * are valid until it returns.  If it returns anything but DOP_OK, the call that needed the pick returns that; an id outside
 * the vocabulary gives DOP_E_INPUT.  The thread that drives the model calls it; it must not call into the model. */
typedef dop_status dop_sampler_fn(void *user, const float *logits, uint32_t vocab, const uint32_t *tokens,
                                  size_t n_tokens, dop_diag *diag, uint32_t *out_id);
/* fn NULL: returns to what dop_sequence_set_sampling has set.  user is not owned. */
void dop_sequence_set_sampler(dop_sequence *sequence, dop_sampler_fn *fn, void *user);
/* Restricts picks to the ids of a mask until another mask is set: picks by dop_sequence_next, and in a step those by
 * dop_step_pick and dop_step_sample for the last row of the sequence.  Greedy picks stay on the device.  mask: a bit per id,
 * [(vocab + 31) / 32], the lowest bit first; copied.  NULL allows every id again.  DOP_E_INPUT: the mask has no id;
 * DOP_E_USAGE: a step is open; both change nothing.  A sampler of the caller's still gets all logits.  While there is a mask
 * nothing is speculated.  Forks do not inherit it. */
dop_status dop_sequence_set_mask(dop_sequence *sequence, const uint32_t *mask, dop_diag *diag);
/* Adapters (LoRA) that come while the model is open, in a plan that has room for them (dopplerc --adapters N --rank R).  The thread
 * that drives the model calls these functions.
 * room: how many may be loaded at once; 0: the plan has no room.  adapter: the path that an adapter was loaded from, valid until it is
 * unloaded; NULL: no adapter has this number. */
uint32_t dop_model_adapter_room(const dop_model *model);
const char *dop_model_adapter(const dop_model *model, uint32_t adapter);
/* Loads a PEFT directory, its .safetensors file, a GGUF adapter or a control vector.  *out_adapter: its number, below the room.
 * DOP_E_INPUT: it is of another model or rank, or damaged; DOP_E_FULL: as many are loaded as there is room for; nothing is changed then. */
dop_status dop_adapter_load(dop_model *model, const char *path, dop_diag *diag, uint32_t *out_adapter);
/* Loads a control vector (GGUF, tensors "direction.N"), which adds direction.N, times the factor of its use, to the residual stream behind
 * layer N.  Only layers first .. last, counted from 0, count; dop_adapter_load() takes all but layer 0.  It is an adapter in all else. */
dop_status dop_control_vector_load(dop_model *model, const char *path, uint32_t first, uint32_t last, dop_diag *diag,
                                   uint32_t *out_adapter);
/* DOP_E_USAGE: a sequence uses it. */
dop_status dop_adapter_unload(dop_model *model, uint32_t adapter, dop_diag *diag);
/* An adapter, and the factor of what it adds. */
typedef struct dop_adapter_use {
    uint32_t adapter;
    float scale;
} dop_adapter_use;
enum { DOP_ADAPTERS_AT_ONCE = 16 };
/* Sets which adapters the tokens of a sequence go through from now on; n 0: none, as for a new sequence.  Rows of different adapters
 * may share a step.  Where this changes anything, tokens that the sequence has are computed again before its next ones.  Forks and
 * copies use the adapters of their origin.  DOP_E_INPUT: no such adapter, or more than DOP_ADAPTERS_AT_ONCE; nothing is changed. */
dop_status dop_sequence_set_adapters(dop_sequence *sequence, const dop_adapter_use *uses, size_t n, dop_diag *diag);
/* Announces that at most this many tokens will be taken, by dop_sequence_next or as picks of committed steps, so that no further
 * steps are submitted ahead.  UINT32_MAX: unknown. */
void dop_sequence_expect(dop_sequence *sequence, uint32_t n_tokens);

/* From now on dop_sequence_feed and dop_sequence_score report their progress as the step "tokens", after each piece of the prompt.
 * progress: copied; NULL: none.  Cancelling is as if a step had failed: the tokens are in the sequence, and later calls compute the
 * missing states, or dop_sequence_rewind takes tokens out. */
void dop_sequence_set_progress(dop_sequence *sequence, const dop_progress *progress);
/* Appends n tokens, in as many steps as that takes.  Tokens that dop_sequence_next returned are part of the sequence already.
 * When a step fails, the tokens are in the sequence, and later calls compute the missing states. */
dop_status dop_sequence_feed(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag);
/* Picks the next token and appends it.  The sequence needs at least one token.  Greedy steps run ahead on the device
 * (dop_open_options.steps_ahead); any other use of the model drops those that were not taken.
 * DOP_E_INPUT: the logits are not finite, so that nothing can be picked. */
dop_status dop_sequence_next(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);

typedef struct dop_logprob {
    uint32_t id;
    float
        logprob; /* natural logarithm of its probability, as the model has it: before biases, penalties and temperature */
} dop_logprob;

/* Computes log-probabilities from one row of logits, f32 [vocab]: *out_id gets that of `id`, and out_top [n_top] gets the n_top
 * likeliest ids, the likeliest first and the lower of equal ones first.  n_top is at most vocab. */
void dop_logits_logprobs(const float *logits, uint32_t vocab, uint32_t id, uint32_t n_top, dop_logprob *out_id,
                         dop_logprob *out_top);
/* Log-probabilities of the last token that dop_sequence_next has picked with dop_sampling.logprobs, and of the n_top likeliest
 * ids (dop_logits_logprobs).  DOP_E_USAGE: there is no such pick, the model was used for anything else since, or n_top exceeds
 * the vocabulary.  For picks of steps, take the logits of dop_step_logits.  While a sequence wants log-probabilities nothing is
 * speculated. */
dop_status dop_sequence_logprobs(const dop_sequence *sequence, uint32_t n_top, dop_diag *diag, dop_logprob *out_id,
                                 dop_logprob *out_top);

/* Writes up to `most` ids that may follow the n_tokens tokens of a sequence to out_ids, and their number, which may be 0, to
 * *out_n.  If it returns anything but DOP_OK, dop_sequence_next returns that.  It must not call into the model. */
typedef dop_status dop_draft_fn(void *user, const uint32_t *tokens, size_t n_tokens, uint32_t most, dop_diag *diag,
                                uint32_t *out_ids, uint32_t *out_n);

/* Speculation: drafts of the next tokens, several of which are checked in one step.  Zeros are the defaults.  The drafts of a
 * step come from the first of these sources that has any. */
typedef struct dop_speculation {
    dop_draft_fn *fn; /* the caller's own; NULL: none */
    void *user;
    /* Length of an n-gram: drafts are what followed the last `ngram` tokens where they occurred before; 0: not used. */
    uint32_t ngram;
    /* A sequence of a draft model, which has the same vocabulary; NULL: none.  It is given the tokens and sampling of the sequence
     * that speculates, and continues them; not owned. */
    dop_sequence *draft;
    uint32_t most; /* most drafts in a step; 0: as many as the plan's schedules hold */
    /* Drafts come from the plan's own layer for multi-token prediction, where the plan has one (dop_facts.drafts).  With fn too, the layer
     * drafts first, and fn is called with its drafts in out_ids and their number in *out_n. */
    bool own;
} dop_speculation;

/* From now on dop_sequence_next makes and checks drafts.  how: copied; NULL stops speculation.  DOP_E_INPUT: the plan has no
 * schedules that give the logits of a few rows (dopplerc --rows 2,4,8).  The number of drafts is the one that makes most tokens
 * per time, by the times that steps took and the share of drafts that were right; where none pays, drafts are tried rarely.  The
 * draft sequence must live as long, and the caller must not use it.
 * Greedy and sampled picks are made from the logits of the step that checks the drafts, with the sequence's sampling and seed.
 * The step for one token rounds differently, and decides instead wherever its logits might pick another token: the bound for that
 * is 1.25 times the largest difference of logits seen so far between the two kinds of step (apart from what all logits differ
 * by).  The step for one token also decides one of 64 steps, to measure the difference; until three were measured, the bound is a
 * quarter of the logits' standard deviation.  The bound is measured and no proof: texts are those without drafts, except where a
 * difference exceeds it, tips the edge of top-k, top-p or min-p, or comes from the rounding of keys and values, as it also does
 * between prompts fed in different pieces.  A sampler of the caller's decides by the step that checks the drafts. */
dop_status dop_sequence_set_speculation(dop_sequence *sequence, const dop_speculation *how, dop_diag *diag);

typedef struct dop_speculation_counts {
    uint64_t steps;             /* steps that checked drafts */
    uint64_t drafted, accepted; /* tokens that were proposed; tokens that were right and became part of the sequence */
    uint64_t again;             /* picks that the step for one token decided */
} dop_speculation_counts;

/* Since dop_sequence_set_speculation. */
dop_speculation_counts dop_sequence_speculation_counts(const dop_sequence *sequence);

/* Receives the logits of consecutive positions from `first` on: rows, f32 [n_rows, vocab], valid until it returns. */
typedef dop_status dop_logits_fn(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag);
/* Like dop_sequence_feed, and passes the logits of every token to fn, in order. */
dop_status dop_sequence_score(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_logits_fn *fn, void *user,
                              dop_diag *diag);

/* Which hidden states an embedding is computed from; models are trained for one of them. */
typedef enum dop_pooling {
    DOP_POOLING_MODEL, /* as the model's files say; the last token's hidden state where they say nothing */
    DOP_POOLING_LAST,  /* the last token's hidden state */
    DOP_POOLING_MEAN,  /* the mean of all tokens' hidden states */
    DOP_POOLING_CLS,   /* the first token's hidden state */
    DOP_POOLING_END /* the hidden state of the token that ends the text by the model's files (CLIP); else the last token's */
} dop_pooling;
/* Like dop_sequence_feed, and computes an embedding of the n tokens fed (at least 1): their hidden states after the final
 * norm, pooled and scaled to Euclidean length 1.  out_vector: f32 [dop_model_embedding_size], the caller's.  DOP_E_INPUT: the
 * plan has no schedules that return hidden states (dopplerc --embed). */
dop_status dop_sequence_embed(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_pooling pooling,
                              dop_diag *diag, float *out_vector);
/* Number of values in an embedding; 0: the plan makes none (dopplerc --embed), or the model was opened with no_scoring. */
uint32_t dop_model_embedding_size(const dop_model *model);

/* --- programs -------------------------------------------------------------------------------------------------------- */

/* A program computes outputs from inputs and leaves nothing in the model: what a plan can do besides advancing sequences. */
typedef struct dop_program_facts {
    const char *name;    /* "encode": texts to vectors or scores; "image": pictures to features.  Owned by the model */
    uint32_t width;      /* values of an output row; of "image": values of a feature */
    uint32_t max_rows;   /* most tokens of a text, or most patches of a tile */
    uint32_t n_types;    /* types of rows (first or second text of a pair); 0 and 1: they have none */
    uint32_t classes;    /* number of classes that the program scores; 0: it gives vectors */
    dop_pooling pooling; /* what the model's files state, never DOP_POOLING_MODEL */
    bool normalized;     /* vectors have Euclidean length 1 */
    uint32_t merge;      /* image: rows that make a feature; else 0 */
    bool class_row;      /* image: the last row of a tile is no patch, and has zeros */
} dop_program_facts;

/* Facts about a program of the model; programs are numbered from 0.  False: no program has that number. */
bool dop_model_program(const dop_model *model, uint32_t number, dop_program_facts *out_facts);

/* An input or output of a program: an array of the caller's. */
typedef struct dop_value {
    const char *name;
    void *data; /* u32 or f32, by the name; inputs are only read */
    size_t n;   /* values in it */
} dop_value;

/* Runs a program and waits for its outputs.  Inputs of "encode": "tokens" u32 [T], the ids of all texts one after the other;
 * "lengths" u32 [texts], whose sum is T (absent: one text); "types" u32 [T], of each row (absent: 0).  Outputs, each of which may
 * be absent: "rows" f32 [T, width]; "vectors" f32 [texts, width], pooled and normalized as the model's files say, or the scores
 * of classes.  Any number of texts: as many as fit share a step, and no text waits for another of its step.  DOP_E_INPUT: no such
 * program, input or output, an array of another size, an empty text, one of more than dop_program_facts.max_rows tokens, or an id
 * or a type that does not exist.
 * Inputs of "image": "patches" f32 [T, values], the rows of all tiles one after the other, as the model's processor makes them;
 * "lengths" u32 [tiles], whose sum is T (absent: one tile); and what else the model knows of a row (docs/pictures.md): "places",
 * "turns", "in_window" and "window_lasts" u32 [T], "corners" u32 [T, 4], "shares" f32 [T, 4],
 * "resampling" f32 [T, places].  Outputs, each of which may be absent:
 * "rows" f32 [T, values of the tower]; "features" f32 [(T - class rows) / merge, width], and "deep0" and on of the same size, for
 * the first layers of the text model.  DOP_E_INPUT also: a tile that is no
 * multiple of merge rows, or a place, turn or window that does not exist. */
dop_status dop_program_run(dop_model *model, const char *name, const dop_value *inputs, size_t n_inputs,
                           const dop_value *outputs, size_t n_outputs, dop_diag *diag);

/* Rows of a picture's features under ids that stand for them in place of tokens: with dop_sequence_feed, dop_sequence_score and steps.
 * doppler/images.h makes them of files.
 * depth: 1 + the number of first layers that have rows of their own (deepstack); 0: the plan takes no features.  add copies rows, f32
 * [depth][n][hidden], of a picture with height x width features (both 0 where the model does not ask for places) and gives the id of the
 * first; the others follow it, and no id is given twice.  drop frees them: sequences that have these ids cannot go on if they
 * need their rows again, or later positions.  DOP_E_INPUT: the plan takes none, or another number; DOP_E_FULL: no id is left. */
uint32_t dop_model_features_depth(const dop_model *model);
dop_status dop_features_add(dop_model *model, const float *rows, uint32_t n, uint32_t height, uint32_t width,
                            dop_diag *diag, uint32_t *out_first);
void dop_features_drop(dop_model *model, uint32_t first);

/* Plans of models of speech have the program "audio", from frames of a chunk of audio to rows of an encoder, which a decoder attends to.
 * doppler/speech.h makes texts of files. */
typedef struct dop_audio_facts {
    uint32_t bins;        /* log-mel values of a frame */
    uint32_t frames;      /* of a chunk */
    uint32_t rows, width; /* rows of the encoder for a chunk, and values of a row */
} dop_audio_facts;
/* False: the plan has no such program. */
bool dop_model_audio(const dop_model *model, dop_audio_facts *out_facts);
/* Empties the sequence and fills the states that its steps attend to from a chunk of audio, mel f32 [bins, frames], n values.  Until the
 * next call the sequence's tokens are about this chunk.  out_rows: the encoder's rows, f32 [rows, width]; NULL: not wanted.  The thread
 * that drives the model.  DOP_E_INPUT: the plan has no program "audio", or n is another number. */
dop_status dop_sequence_hear(dop_sequence *sequence, const float *mel, size_t n, dop_diag *diag, float *out_rows);

/* A text as tokens, or a pair of texts, the second of which begins at ids[second]. */
typedef struct dop_token_text {
    const uint32_t *ids;
    uint32_t n, second; /* second: at least n where there is no pair */
} dop_token_text;
/* Embeddings, or scores of classes, of n texts, f32 [n, dop_model_embedding_size]: by the program "encode" or, in plans for
 * sequences (dopplerc --embed), by a sequence that this call creates, so that the model must have fewer than dop_facts.n_sequences.
 * Vectors are normalized as the model's files say, and always where they say nothing. */
dop_status dop_model_embed(dop_model *model, const dop_token_text *texts, size_t n, dop_pooling pooling, dop_diag *diag,
                           float *out_vectors);

/* How relevant a text is, from its scores of n classes.  Two classes: the probability of the second; otherwise: the score of the
 * first. */
float dop_relevance(const float *scores, uint32_t n);

/* --- steps ----------------------------------------------------------------------------------------------------------- */

enum {
    DOP_WANTS_LOGITS = 1,   /* dop_step_logits */
    DOP_WANTS_PICK = 2,     /* dop_step_pick: the largest logit */
    DOP_WANTS_DRAW = 8,     /* dop_step_sample without logits, by the device where it can (dop_model_draws) */
    DOP_WANTS_UNCHECKED = 4 /* with logits: the caller itself checks that they are finite, perhaps on its own threads */
};

/* One token of one sequence.  The rows of a sequence are in order, though rows of others may lie between them, and continue
 * its tokens: the first has the position after the last token. */
typedef struct dop_step_row {
    dop_sequence *sequence;
    uint32_t token; /* id */
    uint32_t wants; /* DOP_WANTS_* bits */
} dop_step_row;

/* Runs n_rows rows of any sequences of the model and waits for the results.  It replays the smallest schedule that holds them
 * or, where the plan has none for rows of several sequences, one schedule per sequence.  Tokens that are not in the states of
 * their sequences yet are fed first.  The sequences do not change: the caller commits the step or rolls it back before
 * using the model for anything else (else DOP_E_USAGE).  DOP_E_INPUT, with nothing changed: rows of another model or
 * of a destroyed sequence, more rows than a schedule holds (dop_model_max_rows, dop_model_max_rows_of_several), ids outside
 * the vocabulary, positions past the context, or wanted logits that are not finite.
 *
 * Steps run ahead where the device picks: with one row of each sequence that wants a pick or a draw, without masks, whose tokens
 * are what the last committed step picked for these sequences, the step that would follow is in flight before this one is
 * waited for (where steps replace states, when this one is committed).  The next call takes that step if it continues these
 * sequences.  Sequences that the call leaves out lose their rows of that step; if the call wants anything else, as after any
 * other use of the model, the step is dropped.  Picks are the same in any case.  dop_sequence_expect avoids steps that nobody
 * wants. */
dop_status dop_step_run(dop_model *model, const dop_step_row *rows, uint32_t n_rows, dop_diag *diag);
/* The logits of a row that wanted them: f32 [vocab], owned by the model, valid until the step is committed or rolled back;
 * NULL for other rows. */
const float *dop_step_logits(const dop_model *model, uint32_t row);
/* For a row that wanted a pick: the id of the largest logit, the lowest id among equals; UINT32_MAX for other rows.  For the
 * last row of a sequence it is among the ids of the sequence's mask. */
uint32_t dop_step_pick(const dop_model *model, uint32_t row);
/* For a row that wanted logits or a draw: picks a token with its sequence's sampling, after the tokens of the sequence and its
 * rows up to this one.  The device draws what the host would but for rounding, and keeps all equals at the edge of top-k and
 * top-p.  DOP_E_INPUT: the row wanted neither. */
dop_status dop_step_sample(dop_model *model, uint32_t row, dop_diag *diag, uint32_t *out_id);
/* Makes the rows part of their sequences.  Does nothing without an open step. */
void dop_step_commit(dop_model *model);
/* Drops the rows: their sequences are as they were before the step. */
void dop_step_rollback(dop_model *model);
/* Whether the device draws tokens by temperature (DOP_WANTS_DRAW).  Then the last row of a sequence needs no logits for a draw,
 * unless the sequence has a sampler of the caller's, or a sampling that changes logits or wants log-probabilities. */
bool dop_model_draws(const dop_model *model);
/* What the last row of a sequence with this sampling wants, so that the device picks where it can: DOP_WANTS_PICK, where the pick
 * is the largest logit; DOP_WANTS_DRAW; or DOP_WANTS_LOGITS, where the host picks (dop_step_sample). */
uint32_t dop_model_wants(const dop_model *model, const dop_sampling *sampling);
/* Most rows of one sequence in a step, where rows before the last also want logits or picks (inner_rows_want) or do not. */
uint32_t dop_model_max_rows(const dop_model *model, bool inner_rows_want);
/* Most rows in a step of several sequences that one replay takes (dopplerc --rows).  1: there is no such schedule, and the
 * limits of dop_model_max_rows hold for each sequence. */
uint32_t dop_model_max_rows_of_several(const dop_model *model);

#ifdef __cplusplus
}
#endif

#endif
