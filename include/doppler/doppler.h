/* libdoppler: opens a plan on a device, feeds tokens and generates tokens.
 *
 * A *model* is a plan opened on a device.  A *sequence* is a list of tokens with the states that the model computed from them.  A
 * plan supports a fixed number of sequences at once (dopplerc --sequences).  A *step* runs rows; each row is one token of one
 * sequence.  Tokens are 32-bit ids smaller than the vocabulary; doppler/text.h converts text to ids and back.
 *
 * Threads: one thread at a time may use a model, its sequences and its steps; different models are independent.  A library built
 * with DOPPLER_CHECKED detects concurrent use: the call returns DOP_E_USAGE and changes nothing.  Other builds do not check.
 * Processes: a child process cannot use a model that its parent opened before fork(), because drivers do not survive a fork.
 * Calls in the child return DOP_E_USAGE; close and destroy do nothing there.  Open models after forking.
 * Errors: a failed call writes the reason to *diag (NULL discards it) and changes nothing unless its description says so.  After
 * DOP_E_DEVICE the device may be lost; then only closing the model still works.
 * Memory: with several sequences, caches are allocated in pages from a pool.  A call that needs more pages than are free returns
 * DOP_E_FULL and changes nothing; retry after another sequence has released pages.  The library has no global variables and
 * writes only the files that it is asked to write.  After dop_model_open returns, device memory is allocated only temporarily: by
 * the ordering probe, dop_sequence_save and dop_sequence_load.  Command buffers are recorded only for these, for copies of states
 * and of image rows, and for kernels deferred by dop_open_options.first_tokens and .on_demand.  dop_model_counters counts none of
 * these. */
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
    uint32_t number; /* ordinal, valid as dop_open_options.device */
    const char *name, *driver;
    const char *missing; /* required features that the device lacks; "" if it can run plans */
    uint64_t memory;     /* device-local memory in bytes */
    bool software;       /* true for CPU implementations of Vulkan, such as lavapipe */
    const char *line;    /* one-line summary of these fields and the device's capabilities */
} dop_device_facts;

typedef dop_status dop_device_fn(void *user, const dop_device_facts *facts, dop_diag *diag);
/* Calls fn for each device in ascending order of number.  Stops at the first result other than DOP_OK and returns it.  Returns
 * DOP_E_DEVICE if there is no Vulkan driver.  Callable from any thread. */
dop_status dop_devices(dop_device_fn *fn, void *user, dop_diag *diag);

/* Synchronization between the dispatches of a decode step.  Every plan supports barriers; some also have a persistent form. */
typedef enum dop_ordering {
    DOP_ORDERING_AUTO,      /* GPUs: the faster form, measured by a short probe; software devices: barriers */
    DOP_ORDERING_BARRIERS,  /* barriers, without a probe */
    DOP_ORDERING_PERSISTENT /* the persistent dispatch, without a probe; opening fails if the plan has none */
} dop_ordering;

/* Options of dop_model_open.  Zero selects the default of each field. */
typedef struct dop_open_options {
    const char *device;    /* device number or part of its name; NULL: the best device */
    uint32_t nth_device;   /* with device NULL: index among equally good best devices, modulo their number */
    const char *cache_dir; /* directory of pipeline caches; NULL: no cache */
    uint32_t threads;      /* threads that create pipelines and upload weights; 0: one per core */
    /* Maximum number of prompt tokens per replay; 1: token by token; 0: as many as the plan allows. */
    uint32_t max_chunk;
    /* steps_ahead: maximum number of greedy submissions in flight; 0: depends on the device.  1 also disables the run-ahead of
     * dop_step_run.
     * steps_per_submit: steps per submission, 1 to 256; 0: depends on device and model (above 1 for small models on GPUs).  With
     * recurrent states at most two submissions of one step each are in flight, because more could not be rolled back. */
    uint32_t steps_ahead, steps_per_submit;
    /* checkpoints: maximum number of checkpoints on the device, 0 to 64.  Counts explicit ones (dop_sequence_checkpoint) and
     * automatic ones at the ends of chunks and turns.  With 0, rewinding a sequence with windows or recurrent layers feeds its
     * tokens again.
     * checkpoint_bytes: maximum device memory for checkpoints; 0: a sixteenth of the device's memory. */
    uint32_t checkpoints;
    uint64_t checkpoint_bytes;
    /* Prompt cache below the device: host memory, and files that outlive the model.  Filled at the ends of turns of a
     * dop_generation.
     * cache_memory: maximum bytes of host memory; 0: none.
     * prompt_cache: directory of the files; NULL: none.  Several processes may share it.  The files contain user text and are
     * readable by their owner only; a background thread writes them.
     * prompt_cache_bytes: maximum total size of the files, least recently used removed first; 0: 32 GiB. */
    uint64_t cache_memory;
    const char *prompt_cache;
    uint64_t prompt_cache_bytes;
    bool separate_memory; /* use staging buffers and mirrors even if host and device share memory */
    /* Expected number of tokens of the first dop_sequence_feed; 0: unknown.  If set, dop_model_open returns as soon as the
     * kernels for that call and for the single-token steps after it are ready.  Threads prepare the rest (see on_demand).  Calls
     * that need an unfinished kernel wait for it, and fail if the driver refuses it. */
    uint32_t first_tokens;
    bool no_scoring;       /* promise not to call dop_sequence_score and dop_sequence_embed; saves their resources */
    dop_ordering ordering; /* synchronization of greedy and sampled steps */
    uint32_t parts, part;  /* expected part number (from 0) and number of parts of the plan; parts 0: a whole model */
    double timeout_s;      /* timeout of one submission in seconds; 0: depends on the device */
    /* Transport of rows between the parts of a plan (doppler-exec implements it with MPI); NULL: the plan has one part. */
    const struct dop_wire *wire;
    /* Called with the chosen device before anything is created on it; NULL: accept any device.  dop_model_open fails with the
     * callback's result if that is not DOP_OK. */
    dop_device_fn *chosen;
    void *chosen_user;
    /* Progress of opening, reported on the calling thread.  Steps: "kernels" (in kernels) and "weights" (in bytes).  The total of
     * "kernels" counts all of them, although opening may wait for the first ones only. */
    dop_progress progress;
    dop_log log; /* receives decisions and sizes; any thread may call it until dop_model_close returns */
    /* Called with the name of each kernel that the driver refuses; NULL: no callback.  Any thread may call it until
     * dop_model_close returns.  Calls that need the kernel fail in any case.  To avoid the kernel, compile the plan with dopplerc
     * --avoid NAME. */
    void (*refused)(void *user, const char *kernel);
    void *refused_user;
    /* Target duration of one submission in milliseconds, because systems reset devices on which one takes too long.  0: depends
     * on the device (500; unlimited on software devices). */
    double submit_ms;
    /* on_demand: create kernels only when a call needs them; for programs that exit after one text.  Exceptions: the kernels
     * named at first_tokens, other forms of single-token steps and of their draft steps, and on GPUs then the rest.  With
     * first_tokens 0, opening waits for the kernels of single-token steps.
     * no_steps: with first_tokens or on_demand, promise that no single-token steps follow.  Nothing waits for their kernels, and
     * on_demand creates no kernels in advance. */
    bool on_demand, no_steps;
} dop_open_options;

/* A bias: a value added to the logit of one id. */
typedef struct dop_bias {
    uint32_t id; /* ids outside the vocabulary are ignored */
    float by;
} dop_bias;

/* Sampling parameters.  First logits are modified: biases, presence and frequency penalties, repetition penalty.  Then, in the
 * order of llama.cpp, come top-k, top-p, min-p, temperature, draw.  A draw is a function of logits, parameters, seed and position
 * only.  Host draws give equal ids on every machine with the same C library; device draws may differ by rounding.  A rewound
 * sequence draws the same tokens again unless its seed changes. */
typedef struct dop_sampling {
    float temperature; /* softmax temperature; <= 0: greedy (largest logit) */
    uint32_t top_k;    /* number of largest logits that are kept; 0: all */
    float top_p; /* keep the smallest set of likeliest tokens with at least this total probability; 1: all; 0: one */
    float min_p; /* keep tokens with at least this fraction of the largest probability; <= 0: all */
    /* Repetition penalty: divides positive and multiplies negative logits of recent tokens; 1: none. */
    float repeat_penalty;
    uint32_t repeat_last_n; /* number of recent tokens that repeat_penalty considers; 0: none */
    /* Penalties of ids that occur in the sequence at or after position penalty_from, usually the end of the prompt.  Their logits are
     * lowered by presence_penalty once, and by frequency_penalty for each occurrence. */
    float presence_penalty, frequency_penalty;
    uint32_t penalty_from;
    /* [n_biases]; not owned: must stay valid while this sampling is in use, also by forks and drafts. */
    const dop_bias *biases;
    size_t n_biases;
    bool logprobs; /* true to record log-probabilities of picks (dop_sequence_logprobs); the host picks then */
    uint64_t seed;
} dop_sampling;

/* --- models --------------------------------------------------------------------------------------------------------- */

/* Opens a plan.  Maps and verifies the file and its digests, and chooses a device and the first of the plan's targets that it can run.
 * Then creates pipelines and uploads weights, in parallel where possible.  options: NULL for the defaults.
 * The caller closes *out_model, which is NULL after a failure.  DOP_E_INPUT: the plan is invalid; DOP_E_USAGE: the device does not
 * exist or an option is invalid; also DOP_E_IO and DOP_E_DEVICE. */
dop_status dop_model_open(const char *plan_path, const dop_open_options *options, dop_diag *diag,
                          dop_model **out_model);
/* Like dop_model_open for a plan in memory or in an open file.  Memory: `size` bytes, aligned to 16 bytes and unchanged until the
 * model is closed.  File: fd may be closed after the call (needs /proc).  DOP_E_INPUT also: the weights are in a separate file;
 * DOP_E_USAGE: wrong alignment, or a plan in parts. */
dop_status dop_model_open_memory(const void *plan, size_t size, const dop_open_options *options, dop_diag *diag,
                                 dop_model **out_model);
dop_status dop_model_open_fd(int fd, const dop_open_options *options, dop_diag *diag, dop_model **out_model);
/* Closes the model and destroys its sequences, whose handles become invalid.  Accepts NULL. */
void dop_model_close(dop_model *model);

/* Facts about an open model.  The model owns strings and lists; they are valid until it is closed. */
typedef struct dop_facts {
    const char *name, *family;   /* names of the model and its family */
    const char *quant;           /* storage of the weights, for display */
    const char *device, *driver; /* names of the device and its driver */
    const char *target;          /* name of the plan's target in use (dopplerc --target) */
    bool software;               /* true if the device is a CPU implementation of Vulkan */
    uint64_t digest;             /* digest of the plan; equal plans have equal digests */
    uint32_t vocab;              /* vocabulary size: number of ids; logits are f32 [vocab] */
    uint32_t ctx;                /* context length: maximum number of positions of a sequence */
    uint32_t ctx_trained;        /* context length of training; 0: unknown */
    uint32_t n_layers;
    uint32_t n_sequences; /* maximum number of sequences at once */
    uint32_t page;        /* cache page size in positions; 0: each sequence has one contiguous cache of ctx positions */
    uint32_t n_pages;     /* pages shared by all sequences (dopplerc --ctx-total); 0 if page is 0 */
    uint32_t n_chunks;    /* number of entries of `chunks` */
    uint32_t chunks[8];   /* prefill chunk sizes in tokens, ascending; multiples of the largest feed fastest */
    bool has_text;        /* true if the plan has a tokenizer (dop_text_of_model) */
    int32_t bos_id;       /* id of the begin-of-text token; -1: none */
    uint32_t n_end_ids;   /* number of ids that end generation */
    const uint32_t *end_ids; /* [n_end_ids] ids that end generation */
    dop_sampling sampling;   /* recommended sampling parameters of the model; greedy if it has none */
    uint64_t device_bytes;   /* total size of device allocations in bytes */
    double load_ms;          /* duration of dop_model_open in milliseconds */
    /* True if the plan has a drafting layer (multi-token prediction).  A dop_generation uses it unless
     * dop_sequence_set_speculation was called for the sequence. */
    bool drafts;
} dop_facts;

void dop_model_facts(const dop_model *model, dop_facts *out_facts);

typedef struct dop_counters {
    /* Counters since dop_model_open: */
    uint64_t allocations; /* device memory allocations, except the temporary ones named at the top of this file */
    uint64_t recordings;  /* command buffer recordings, except those named at the top of this file */
    uint64_t submissions;
    uint64_t tokens_reused; /* tokens that dop_sequence_reuse found */
    uint64_t tokens_saved;  /* prompt tokens whose states existed already, in any cache (dop_sequence_reuse) */
    uint64_t tokens_loaded; /* tokens of tokens_saved that were loaded from host memory or files */
    uint64_t checkpoints_made, checkpoints_used;
    uint64_t cache_hits, file_hits;        /* prompt pieces found in host memory, and in files */
    uint64_t files_written, files_removed; /* files of dop_open_options.prompt_cache */
    uint64_t pages_copied;                 /* copy-on-write copies of shared pages */
    double waited_ms;      /* time that calls waited for kernels, ms (dop_open_options.first_tokens, .on_demand) */
    uint64_t steps_ahead;  /* steps of dop_step_run that were already in flight when it was called */
    uint64_t rows_dropped; /* rows of run-ahead steps that no call used */
    /* Current values: */
    uint32_t checkpoints;             /* checkpoints on the device */
    uint64_t checkpoint_bytes;        /* device memory reserved for checkpoints */
    uint64_t cache_bytes, file_bytes; /* prompt cache in host memory, and in files */
    uint32_t pages_free; /* pages that no sequence uses, including those that dop_sequence_reuse may still find */
} dop_counters;

dop_counters dop_model_counters(const dop_model *model);
/* Returns the current synchronization of decode steps: "barriers" or "persistent" (static string). */
const char *dop_model_ordering(const dop_model *model);

/* One target (device profile) of a plan. */
typedef struct dop_plan_target {
    const char *name;
    uint64_t device_bytes; /* device memory that the plan needs with this target */
} dop_plan_target;

/* Facts about a plan that is not opened on a device. */
typedef struct dop_plan_facts {
    const char *name, *family, *quant; /* as in dop_facts */
    const char *made;                  /* how the plan was compiled, JSON; "": unknown */
    uint64_t digest;
    uint64_t bytes; /* size of the plan including separate weight files */
    uint32_t vocab, ctx, ctx_trained, n_layers, n_sequences, page, n_pages;
    uint32_t part, n_parts; /* part number and number of parts; 0 of 1: the whole model */
    bool has_text;
    uint32_t n_targets;
    const dop_plan_target *targets; /* [n_targets] in order of preference */
} dop_plan_facts;

/* Reads facts about a plan.  *out_facts is one allocation, including everything it points to; release it with dop_free.  Checks
 * the plan as dop_model_open does, except for the digests of the weights.  part: part number in a plan of several parts,
 * otherwise 0.  Callable from any thread. */
dop_status dop_plan_read(const char *plan_path, uint32_t part, dop_diag *diag, dop_plan_facts **out_facts);

/* --- sequences ------------------------------------------------------------------------------------------------------- */

/* Creates an empty sequence with greedy sampling.  DOP_E_INPUT: dop_facts.n_sequences exist already.  The caller destroys it;
 * closing the model destroys it, too. */
dop_status dop_sequence_create(dop_model *model, dop_diag *diag, dop_sequence **out_sequence);
/* Destroys the sequence and rolls back an open step that has rows of it.  Accepts NULL. */
void dop_sequence_destroy(dop_sequence *sequence);

/* Makes the sequence start with the longest cached prefix of the n tokens (prefix cache).  Sources are its own states, other
 * sequences, and cached pages.  Cached pages match as whole pages (dop_facts.page); models with windows or recurrent layers also
 * need a checkpoint there.  *out_found is the number of tokens found, less than n, so that at least one token is left to feed for
 * its logits.  The caller feeds ids[*out_found] and the rest.  Tokens stay cached after a sequence is rewound or destroyed, until
 * their pages are needed.  Runs no step. */
dop_status dop_sequence_reuse(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag, size_t *out_found);

/* Creates a sequence with the tokens, states and sampling of this one, but without its speculation.  Pages are shared until one
 * of the two writes to them.  Fails as dop_sequence_create does. */
dop_status dop_sequence_fork(dop_sequence *sequence, dop_diag *diag, dop_sequence **out_sequence);
/* Replaces the tokens and states of `to` with those of `from`; `to` keeps its sampling.  DOP_E_INPUT: they belong to different
 * models.  If the device fails, `to` has the tokens, and later calls compute the missing states. */
dop_status dop_sequence_copy(dop_sequence *to, dop_sequence *from, dop_diag *diag);
/* Truncates the sequence to its first n_tokens tokens; 0 empties it.  DOP_E_INPUT: it is shorter than that.  Recurrent states,
 * and windows that no longer hold the needed rows, are recomputed from the longest checkpoint. */
dop_status dop_sequence_rewind(dop_sequence *sequence, uint32_t n_tokens, dop_diag *diag);
/* Removes the tokens [first, first + n).  DOP_E_INPUT: not all of them exist.  Later tokens move up, and the next call that needs
 * their states feeds them again, because states depend on all earlier tokens. */
dop_status dop_sequence_cut(dop_sequence *sequence, uint32_t first, uint32_t n, dop_diag *diag);
/* Returns the tokens of the sequence, fed and picked.  The sequence owns them; they are valid until it changes. */
const uint32_t *dop_sequence_tokens(const dop_sequence *sequence, size_t *out_n);

/* Marks the end of a turn of a conversation, because a later prompt may start with the current tokens.  A dop_generation calls it
 * itself.  Makes an unnamed checkpoint and stores new states in the prompt cache, as configured in dop_open_options.  Drops steps
 * that ran ahead.  Does nothing while a step is open. */
dop_status dop_sequence_end_turn(dop_sequence *sequence, dop_diag *diag);
/* Makes a checkpoint, from which this or any other sequence of the model can be restored.  Feeds pending tokens first.  Copies
 * the states of windows and recurrent layers into memory reserved by dop_open_options.checkpoints; caches of the whole context
 * are not copied.  *out_id is a nonzero handle, valid until dop_model_drop_checkpoint.  DOP_E_FULL: all checkpoints have handles.
 * DOP_E_INPUT: the sequence is empty. */
dop_status dop_sequence_checkpoint(dop_sequence *sequence, dop_diag *diag, uint64_t *out_id);
/* Replaces the tokens and states of the sequence with those of a checkpoint.  States whose pages were reused meanwhile are
 * recomputed by the next call that needs them.  Runs no step.  DOP_E_INPUT: the checkpoint does not exist. */
dop_status dop_sequence_restore(dop_sequence *sequence, uint64_t id, dop_diag *diag);
/* Releases a checkpoint handle.  The checkpoint itself stays until its memory is needed.  Does nothing for 0 or a released
 * handle. */
void dop_model_drop_checkpoint(dop_model *model, uint64_t id);

/* Saves tokens and states to a file, which replaces `path` atomically when it is complete.  The file carries a note of the caller
 * (n_note bytes; NULL and 0: none).  It can be loaded with the same plan and state layout, on any device. */
dop_status dop_sequence_save(dop_sequence *sequence, const char *path, const void *note, size_t n_note, dop_diag *diag);
/* Loads a file of dop_sequence_save; the sequence keeps its sampling.  DOP_E_INPUT: the file is truncated, damaged, or from
 * another plan or layout; the sequence is unchanged then.  If the device fails, the sequence is empty.  *out_note is the note,
 * 0-terminated and *out_n_note bytes long; release it with dop_free.  Pass NULL for both to skip it. */
dop_status dop_sequence_load(dop_sequence *sequence, const char *path, dop_diag *diag, char **out_note,
                             size_t *out_n_note);

/* Sets the sampling parameters of later picks (default: greedy) and removes a sampler set by dop_sequence_set_sampler.  Invalid
 * parameters make the next pick fail with DOP_E_USAGE: numbers that are not finite (except biases, which may be infinite), or a
 * repeat_penalty in use that is not positive. */
void dop_sequence_set_sampling(dop_sequence *sequence, const dop_sampling *sampling);
/* A custom sampler: picks an id below vocab from the logits, f32 [vocab], and the n_tokens tokens before them.  Both arrays are
 * valid until it returns.  A result other than DOP_OK becomes the result of the call that needed the pick; an id outside the
 * vocabulary gives DOP_E_INPUT.  Called on the model's thread; must not call into the model. */
typedef dop_status dop_sampler_fn(void *user, const float *logits, uint32_t vocab, const uint32_t *tokens,
                                  size_t n_tokens, dop_diag *diag, uint32_t *out_id);
/* Sets a custom sampler.  fn NULL: returns to the parameters of dop_sequence_set_sampling.  user is not owned. */
void dop_sequence_set_sampler(dop_sequence *sequence, dop_sampler_fn *fn, void *user);
/* Restricts picks to the ids of a mask until another mask is set.  Applies to dop_sequence_next, and to dop_step_pick and
 * dop_step_sample for the last row of the sequence.  Greedy picks stay on the device.  mask: one bit per id, [(vocab + 31) / 32]
 * words, least significant bit first; copied.  NULL removes the mask.  DOP_E_INPUT: the mask is empty; DOP_E_USAGE: a step is
 * open; both change nothing.  A custom sampler still receives all logits.  A mask disables speculation.  Forks do not inherit
 * it. */
dop_status dop_sequence_set_mask(dop_sequence *sequence, const uint32_t *mask, dop_diag *diag);
/* Adapters (LoRA) loaded into an open model whose plan has room for them (dopplerc --adapters N --rank R).  Call these functions
 * on the model's thread.
 * room: maximum number of adapters loaded at once; 0: the plan supports none.  adapter: path that the adapter was loaded from,
 * valid until it is unloaded; NULL: no adapter has this number. */
uint32_t dop_model_adapter_room(const dop_model *model);
const char *dop_model_adapter(const dop_model *model, uint32_t adapter);
/* Loads an adapter: a PEFT directory, its .safetensors file, a GGUF adapter or a control vector.  *out_adapter is its number,
 * below the room.  DOP_E_INPUT: damaged, or of another model or rank; DOP_E_FULL: the room is used up.  Both change nothing. */
dop_status dop_adapter_load(dop_model *model, const char *path, dop_diag *diag, uint32_t *out_adapter);
/* Loads a control vector (GGUF, tensors "direction.N") as an adapter.  It adds direction.N, times the scale of its use, to the
 * residual stream after layer N, for layers first to last (from 0).  dop_adapter_load uses all layers except 0. */
dop_status dop_control_vector_load(dop_model *model, const char *path, uint32_t first, uint32_t last, dop_diag *diag,
                                   uint32_t *out_adapter);
/* Unloads an adapter.  DOP_E_USAGE: a sequence uses it. */
dop_status dop_adapter_unload(dop_model *model, uint32_t adapter, dop_diag *diag);
/* An adapter and its scale. */
typedef struct dop_adapter_use {
    uint32_t adapter;
    float scale;
} dop_adapter_use;
enum { DOP_ADAPTERS_AT_ONCE = 16 };
/* Sets the adapters of a sequence; n 0: none (the initial state).  Rows with different adapters may share a step.  If the
 * adapters change, existing tokens are recomputed before the next ones.  Forks and copies inherit them.  DOP_E_INPUT: an adapter
 * does not exist, or n exceeds DOP_ADAPTERS_AT_ONCE; nothing changes then. */
dop_status dop_sequence_set_adapters(dop_sequence *sequence, const dop_adapter_use *uses, size_t n, dop_diag *diag);
/* Announces that at most n_tokens more tokens will be used, by dop_sequence_next or as picks of committed steps.  Limits steps
 * that run ahead.  UINT32_MAX: unknown. */
void dop_sequence_expect(dop_sequence *sequence, uint32_t n_tokens);

/* Makes dop_sequence_feed and dop_sequence_score report progress, as step "tokens", after each piece of the prompt.  progress:
 * copied; NULL: none.  After a cancellation the tokens are in the sequence.  Later calls compute the missing states, unless
 * dop_sequence_rewind removes the tokens. */
void dop_sequence_set_progress(dop_sequence *sequence, const dop_progress *progress);
/* Appends n tokens and computes their states, in as many steps as needed.  Do not feed tokens that dop_sequence_next returned;
 * they are appended already.  If a step fails, the tokens are in the sequence, and later calls compute the missing states. */
dop_status dop_sequence_feed(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag);
/* Picks the next token and appends it.  The sequence must have at least one token.  Greedy steps run ahead on the device
 * (dop_open_options.steps_ahead); any other use of the model drops those not yet returned.  DOP_E_INPUT: the logits are not
 * finite. */
dop_status dop_sequence_next(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);

typedef struct dop_logprob {
    uint32_t id;
    float logprob; /* natural logarithm of the model's probability, before biases, penalties and temperature */
} dop_logprob;

/* Computes log-probabilities from one row of logits, f32 [vocab].  *out_id receives that of `id`; out_top [n_top] receives the
 * n_top likeliest ids in descending order, ties by ascending id.  n_top is at most vocab. */
void dop_logits_logprobs(const float *logits, uint32_t vocab, uint32_t id, uint32_t n_top, dop_logprob *out_id,
                         dop_logprob *out_top);
/* Returns log-probabilities of the last pick of dop_sequence_next with dop_sampling.logprobs, and of the n_top likeliest ids (see
 * dop_logits_logprobs).  DOP_E_USAGE: there is no such pick, the model was used for something else since, or n_top exceeds the
 * vocabulary.  For picks of steps, use dop_step_logits and dop_logits_logprobs.  Log-probabilities disable speculation. */
dop_status dop_sequence_logprobs(const dop_sequence *sequence, uint32_t n_top, dop_diag *diag, dop_logprob *out_id,
                                 dop_logprob *out_top);

/* A draft source: writes up to `most` ids that may follow the n_tokens tokens to out_ids, and their number (may be 0) to *out_n.
 * A result other than DOP_OK becomes the result of dop_sequence_next.  Must not call into the model. */
typedef dop_status dop_draft_fn(void *user, const uint32_t *tokens, size_t n_tokens, uint32_t most, dop_diag *diag,
                                uint32_t *out_ids, uint32_t *out_n);

/* Speculative decoding: several drafted tokens are verified in one step.  Zeros are the defaults.  A step uses the first source
 * below that gives any drafts. */
typedef struct dop_speculation {
    dop_draft_fn *fn; /* draft source of the caller; NULL: none */
    void *user;
    /* n-gram length of prompt lookup: drafts are the tokens after an earlier occurrence of the last `ngram` tokens; 0: off. */
    uint32_t ngram;
    /* A sequence of a draft model with the same vocabulary; NULL: none.  It receives the tokens and sampling of this sequence and
     * continues them.  Not owned. */
    dop_sequence *draft;
    uint32_t most; /* maximum number of drafts per step; 0: as many as the plan's schedules hold */
    /* True to draft with the plan's multi-token prediction layer, if it has one (dop_facts.drafts).  With fn set as well, fn is
     * called after the layer, with the layer's drafts in out_ids and their number in *out_n. */
    bool own;
} dop_speculation;

/* Enables speculative decoding in dop_sequence_next.  how: copied; NULL disables it.  DOP_E_INPUT: the plan has no schedules that
 * give the logits of a few rows (dopplerc --rows 2,4,8).  The draft sequence must outlive its use, and the caller must not use
 * it.  The number of drafts per step maximizes tokens per second, from measured step times and acceptance rates.  If drafting
 * does not pay, it is tried only rarely.  Greedy and sampled picks use the logits of the verifying step, with the sequence's
 * sampling and seed.  A single-token step rounds differently; it decides instead wherever its logits might give another pick.
 * The bound for that is 1.25 times the largest logit difference measured so far between the two kinds of step, after removing
 * their common offset.  One step in 64 is also run as a single-token step to measure the difference; until three are measured,
 * the bound is a quarter of the logits' standard deviation.  The bound is an estimate.  Texts equal those without drafts, except
 * where a difference exceeds the bound, changes the edge of top-k, top-p or min-p, or comes from the rounding of keys and values
 * (as between prompts fed in different pieces).  Custom samplers always use the logits of the verifying step. */
dop_status dop_sequence_set_speculation(dop_sequence *sequence, const dop_speculation *how, dop_diag *diag);

typedef struct dop_speculation_counts {
    uint64_t steps;             /* steps that verified drafts */
    uint64_t drafted, accepted; /* tokens proposed; tokens accepted into the sequence */
    uint64_t again;             /* picks that a single-token step decided */
} dop_speculation_counts;

/* Returns counts since dop_sequence_set_speculation. */
dop_speculation_counts dop_sequence_speculation_counts(const dop_sequence *sequence);

/* Receives logits of the positions first .. first + n_rows - 1: rows, f32 [n_rows, vocab], valid until it returns. */
typedef dop_status dop_logits_fn(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag);
/* Feeds tokens as dop_sequence_feed does and passes the logits of each token to fn, in order. */
dop_status dop_sequence_score(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_logits_fn *fn, void *user,
                              dop_diag *diag);

/* Pooling: the hidden states that an embedding is computed from.  Models are trained for one kind. */
typedef enum dop_pooling {
    DOP_POOLING_MODEL, /* as the model's files say; otherwise the last token */
    DOP_POOLING_LAST,  /* hidden state of the last token */
    DOP_POOLING_MEAN,  /* mean of all hidden states */
    DOP_POOLING_CLS,   /* hidden state of the first token */
    DOP_POOLING_END    /* hidden state of the model's end-of-text token (CLIP); otherwise the last token */
} dop_pooling;
/* Feeds n tokens (at least 1) as dop_sequence_feed does and computes their embedding: the hidden states after the final norm,
 * pooled and scaled to Euclidean length 1.  out_vector: f32 [dop_model_embedding_size], the caller's.  DOP_E_INPUT: the plan has
 * no schedules that return hidden states (dopplerc --embed). */
dop_status dop_sequence_embed(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_pooling pooling,
                              dop_diag *diag, float *out_vector);
/* Returns the number of values of an embedding.  0: the plan makes none (dopplerc --embed), or the model was opened with
 * no_scoring. */
uint32_t dop_model_embedding_size(const dop_model *model);

/* --- programs -------------------------------------------------------------------------------------------------------- */

/* A program: a stateless function of a plan from inputs to outputs, separate from the steps of sequences. */
typedef struct dop_program_facts {
    const char *name;    /* "encode": texts to vectors or scores; "image": images to features.  Owned by the model */
    uint32_t width;      /* number of values of an output row; of "image": of a feature */
    uint32_t max_rows;   /* maximum number of tokens of a text, or of patches of a tile */
    uint32_t n_types;    /* number of row types (first or second text of a pair); 0 and 1: rows have no type */
    uint32_t classes;    /* number of classes that the program scores; 0: it returns vectors */
    dop_pooling pooling; /* pooling stated by the model's files; never DOP_POOLING_MODEL */
    bool normalized;     /* true if vectors have Euclidean length 1 */
    uint32_t merge;      /* image: number of rows merged into one feature; otherwise 0 */
    bool class_row;      /* image: true if the last row of each tile is a class row of zeros, not a patch */
} dop_program_facts;

/* Returns facts about a program of the model, numbered from 0.  False if the number does not exist. */
bool dop_model_program(const dop_model *model, uint32_t number, dop_program_facts *out_facts);

/* An input or output array of a program, owned by the caller. */
typedef struct dop_value {
    const char *name;
    void *data; /* u32 or f32, depending on the name; inputs are not modified */
    size_t n;   /* number of values */
} dop_value;

/* Runs a program and waits for its outputs.  Each output may be omitted.  Inputs of "encode": "tokens" u32 [T], the ids of all
 * texts concatenated; "lengths" u32 [texts], with sum T (default: one text); "types" u32 [T], the type of each row (default: 0).
 * Outputs: "rows" f32 [T, width]; "vectors" f32 [texts, width], pooled and normalized as the model's files say, or class scores.
 * Texts are batched into as few steps as possible and do not affect each other.  DOP_E_INPUT: an unknown program, input or
 * output, a wrong array size, an empty text, a text of more than dop_program_facts.max_rows tokens, or an invalid id or type.
 * Inputs of "image": "patches" f32 [T, values], the rows of all tiles concatenated, as the model's processor makes them;
 * "lengths" u32 [tiles], with sum T (default: one tile).  Further inputs depend on the model (docs/pictures.md): "places",
 * "turns", "in_window" and "window_lasts" u32 [T], "corners" u32 [T, 4], "shares" f32 [T, 4], "resampling" f32 [T, places].
 * Outputs: "rows" f32 [T, values of the tower]; "features" f32 [(T - class rows) / merge, width], and "deep0" and on, arrays of
 * that size for the first layers of the text model.  DOP_E_INPUT also: a tile whose rows are not a multiple of merge, or an
 * invalid place, turn or window. */
dop_status dop_program_run(dop_model *model, const char *name, const dop_value *inputs, size_t n_inputs,
                           const dop_value *outputs, size_t n_outputs, dop_diag *diag);

/* Image features used as tokens: each feature row has an id that dop_sequence_feed, dop_sequence_score and steps accept.
 * doppler/images.h makes features from image files.
 * depth: 1 + the number of first layers with feature rows of their own (deepstack); 0: the plan accepts no features.
 * add: copies rows, f32 [depth][n][hidden], of an image of height x width features, and returns the first of n consecutive ids.
 * Set height and width to 0 if the model needs no positions.  Ids are never reused.
 * drop: frees the rows.  A sequence that contains their ids fails when it needs the rows again, or later positions.  DOP_E_INPUT:
 * the plan accepts no features, or n is wrong; DOP_E_FULL: no id is left. */
uint32_t dop_model_features_depth(const dop_model *model);
dop_status dop_features_add(dop_model *model, const float *rows, uint32_t n, uint32_t height, uint32_t width,
                            dop_diag *diag, uint32_t *out_first);
void dop_features_drop(dop_model *model, uint32_t first);

/* Facts about the program "audio" of speech models: an encoder from frames of an audio chunk to the rows that the decoder attends
 * to.  doppler/speech.h transcribes files with it. */
typedef struct dop_audio_facts {
    uint32_t bins;        /* number of log-mel values of a frame */
    uint32_t frames;      /* number of frames of a chunk */
    uint32_t rows, width; /* number of encoder rows of a chunk, and of values of a row */
} dop_audio_facts;
/* Returns facts about the program "audio".  False if the plan has none. */
bool dop_model_audio(const dop_model *model, dop_audio_facts *out_facts);
/* Empties the sequence and fills its cross-attention states from an audio chunk: mel, f32 [bins, frames], n values.  Tokens of
 * the sequence refer to this chunk until the next call.  out_rows: receives the encoder's rows, f32 [rows, width]; NULL: not
 * needed.  Call on the model's thread.  DOP_E_INPUT: the plan has no program "audio", or n is wrong. */
dop_status dop_sequence_hear(dop_sequence *sequence, const float *mel, size_t n, dop_diag *diag, float *out_rows);

/* The tokens of a text, or of a pair of texts whose second one begins at ids[second]. */
typedef struct dop_token_text {
    const uint32_t *ids;
    uint32_t n, second; /* second: n or more if there is no pair */
} dop_token_text;
/* Computes embeddings or class scores of n texts: out_vectors, f32 [n, dop_model_embedding_size].  Uses the program "encode".
 * Plans without it (dopplerc --embed) use a temporary sequence, so fewer than dop_facts.n_sequences must exist.  Vectors are
 * normalized unless the model's files say otherwise. */
dop_status dop_model_embed(dop_model *model, const dop_token_text *texts, size_t n, dop_pooling pooling, dop_diag *diag,
                           float *out_vectors);

/* Returns the relevance of a text from its n class scores: the probability of the second class if n is 2, otherwise the first
 * score. */
float dop_relevance(const float *scores, uint32_t n);

/* --- steps ----------------------------------------------------------------------------------------------------------- */

enum {
    DOP_WANTS_LOGITS = 1, /* logits, read by dop_step_logits */
    DOP_WANTS_PICK = 2,   /* the largest logit, read by dop_step_pick */
    DOP_WANTS_DRAW = 8, /* a draw without logits, read by dop_step_sample; on the device if it can (dop_model_draws) */
    DOP_WANTS_UNCHECKED = 4 /* with logits: skip the check that they are finite; the caller checks */
};

/* One token of one sequence.  The rows of a sequence are in order and continue its tokens; the first has the position after its
 * last token.  Rows of other sequences may be interleaved. */
typedef struct dop_step_row {
    dop_sequence *sequence;
    uint32_t token; /* token id */
    uint32_t wants; /* DOP_WANTS_* bits: requested results */
} dop_step_row;

/* Runs n_rows rows of any sequences of the model and waits for the results.  Replays the smallest schedule that holds them, or
 * one schedule per sequence if the plan has none for several sequences.  Feeds pending tokens of the sequences first.  The
 * sequences do not change: the caller must commit the step or roll it back before any other use of the model, which otherwise
 * returns DOP_E_USAGE.  DOP_E_INPUT, with nothing changed: rows of another model or a destroyed sequence, more rows than a
 * schedule holds (dop_model_max_rows, dop_model_max_rows_of_several), ids outside the vocabulary, positions past the context, or
 * requested logits that are not finite.
 *
 * Run-ahead: the next step may be submitted before this one is waited for, or at its commit if steps replace states.  This needs
 * one row per sequence that requests a pick or a draw, no masks, and tokens that the last committed step picked.  The next call
 * adopts the step in flight if it continues these sequences.  Sequences absent from that call lose their rows of the step.  Any
 * other request, and any other use of the model, drops the step.  Picks are the same in all cases.  dop_sequence_expect avoids
 * useless steps. */
dop_status dop_step_run(dop_model *model, const dop_step_row *rows, uint32_t n_rows, dop_diag *diag);
/* Returns the logits of a row that requested them: f32 [vocab], owned by the model, valid until the step is committed or rolled
 * back.  Returns NULL for other rows. */
const float *dop_step_logits(const dop_model *model, uint32_t row);
/* Returns the id of the largest logit, the lowest id among equals, for a row that requested a pick; UINT32_MAX for other rows.
 * The last row of a sequence respects the sequence's mask. */
uint32_t dop_step_pick(const dop_model *model, uint32_t row);
/* Picks a token with the sequence's sampling for a row that requested logits or a draw.  Its history is the sequence's tokens and
 * rows up to this one.  Device draws equal host draws except for rounding and for ties at the edge of top-k and top-p, which are
 * kept.  DOP_E_INPUT: the row requested neither. */
dop_status dop_step_sample(dop_model *model, uint32_t row, dop_diag *diag, uint32_t *out_id);
/* Appends the rows to their sequences.  Does nothing without an open step. */
void dop_step_commit(dop_model *model);
/* Drops the rows; their sequences are as before the step. */
void dop_step_rollback(dop_model *model);
/* True if the device can draw tokens by temperature (DOP_WANTS_DRAW).  The last row of a sequence then needs no logits for a
 * draw, unless the sequence has a custom sampler, or a sampling that modifies logits or requests log-probabilities. */
bool dop_model_draws(const dop_model *model);
/* Returns the cheapest request for the last row of a sequence with this sampling: DOP_WANTS_PICK for greedy, DOP_WANTS_DRAW if
 * the device can draw, otherwise DOP_WANTS_LOGITS (the host picks, dop_step_sample). */
uint32_t dop_model_wants(const dop_model *model, const dop_sampling *sampling);
/* Returns the maximum number of rows of one sequence in a step.  inner_rows_want: rows before the last request results, too. */
uint32_t dop_model_max_rows(const dop_model *model, bool inner_rows_want);
/* Returns the maximum number of rows in one replay over several sequences (dopplerc --rows).  1: the plan has no such schedule,
 * and dop_model_max_rows limits each sequence. */
uint32_t dop_model_max_rows_of_several(const dop_model *model);

#ifdef __cplusplus
}
#endif

#endif
