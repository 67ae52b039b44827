/* The engine of the server: runs the jobs of many clients on one model.
 *
 * A *job* is a prompt and what to do with it. One thread drives the model. Each of its steps has a row for every
 * decoding job, and tokens of the prompt that is in prefill. Jobs wait in a queue until a sequence of the plan is
 * free. Higher priorities come first, then clients take turns, and jobs of one client are served in order of
 * arrival. When the queue is full, jobs of the client with the largest share are displaced (dop_engine_admit).
 * Sequences keep their caches when a job ends, so that a job with the same prompt prefix reads only the rest.
 *
 * The engine is independent of HTTP and JSON. Threads: any thread may call any function except dop_engine_create and
 * dop_engine_destroy. The state of a job may be read between dop_engine_lock and dop_engine_unlock. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_H
#define DOPPLER_SERVE_ENGINE_ENGINE_H

#include "runtime/model/info.h"
#include "serve/engine/metrics.h"
#include "text/tokenizer/tokenizer.h"

struct dop_matcher;

typedef struct dop_engine dop_engine;
typedef struct dop_job dop_job;

enum { DOP_JOB_MAX_TOP = 20, DOP_JOB_MAX_STOPS = 256, DOP_JOB_MAX_BIAS = 1024 };

typedef struct dop_engine_options {
    uint32_t max_queue; /* maximum number of waiting jobs; 0: 256 */
    uint32_t threads;   /* threads that sample tokens from logits; 0: one per core, at most 8 */
} dop_engine_options;

/* Work that a job does on the model instead of generating text, such as drawing an image. The engine's thread calls
 * `run` between two steps, while no step is in flight. `run` reports progress with dop_job_advance, and returns
 * DOP_E_CANCELLED if that returns false. */
typedef struct dop_job_task {
    /* NULL: the job has no task */
    dop_status (*run)(void *state, dop_model *model, dop_engine *engine, dop_job *job, dop_diag *diag);
    void (*finish)(void *state); /* frees the state; called when the job is freed */
    void *state;                 /* owned by the job once it is submitted */
    uint64_t bytes;              /* memory used by the state */
} dop_job_task;

/* Parameters of a job. Submitting copies everything except `matcher` and the task's state, which the job then owns. */
typedef struct dop_job_request {
    dop_job_task task;
    const uint32_t *prompt;
    /* at least 1, or 0 with a task; prompt and max_tokens together must fit the context */
    size_t n_prompt;
    struct dop_images *eyes;         /* image preprocessor; NULL: no images */
    struct dop_image *const *images; /* [n_images] images of the prompt; the job adds a reference to each */
    uint32_t n_images;
    uint32_t max_tokens;   /* maximum tokens to generate; 0: only read the prompt */
    dop_sampling sampling; /* penalty_from is overwritten with n_prompt */
    uint32_t n_top;        /* alternatives reported per token, with sampling.logprobs */
    bool scores;           /* also compute log-probabilities of the prompt's tokens */
    const char *const *stops;
    size_t n_stops;
    bool ignore_end;             /* continue after the model's end-of-sequence token */
    bool keep_special;           /* include special tokens in the text */
    struct dop_matcher *matcher; /* constraint on the text; NULL: none */
    dop_adapter_use uses[DOP_ADAPTERS_AT_ONCE];
    uint32_t n_uses; /* number of adapters applied to the job */
    bool embeds;     /* compute an embedding of the prompt and generate nothing */
    dop_pooling pooling;
    uint32_t second;     /* for a pair of texts: number of tokens before the second text; 0: single text */
    uint64_t client;     /* client id, for fair queueing */
    int priority;        /* jobs with a higher priority are served first */
    double time_limit_s; /* time limit in seconds, from submission to the end of the job; 0: none */
    bool wake_at_end;    /* call `wake` only when the job ends */
    /* Called when the job has progressed, by the engine's thread and under the engine's lock. It must not call the
     * engine. */
    void (*wake)(void *user);
    void *user;
} dop_job_request;

typedef enum dop_job_end {
    DOP_JOB_GOES_ON,
    DOP_JOB_END_TOKEN, /* end-of-sequence token */
    DOP_JOB_STOP_TEXT,
    DOP_JOB_LENGTH,
    DOP_JOB_TIMEOUT,
    DOP_JOB_SHUTDOWN,
    DOP_JOB_FAILED, /* `diag` has the reason */
    DOP_JOB_CANCELLED,
    DOP_JOB_DISPLACED /* removed from a full queue in favor of another client's job */
} dop_job_end;

typedef struct dop_job_token {
    dop_logprob pick;
    uint32_t n_top;
    dop_logprob top[DOP_JOB_MAX_TOP];
} dop_job_token;

/* Progress of a job. Valid under the engine's lock. It only grows until the job ends. */
typedef struct dop_job_state {
    dop_job_end end;
    const dop_diag *diag;
    bool by_request;  /* with DOP_JOB_FAILED: the request itself caused the failure and would fail again */
    const char *text; /* n_text bytes generated so far, without stop texts */
    size_t n_text;
    const char *stop; /* with DOP_JOB_STOP_TEXT: the stop text that matched; NULL: none */
    size_t stop_index;
    const dop_job_token *tokens; /* with logprobs: one entry per generated token; NULL otherwise */
    uint32_t n_tokens;           /* number of generated tokens, including the end token */
    const uint32_t *text_ends;   /* [n_tokens]: length of the text, in bytes, after each token */
    /* [(n_prompt - 1) * (1 + n_top)] with `scores`, once the prompt is read: for each prompt token but the first,
     * that token and the n_top likeliest ids at its position. NULL: none. */
    const dop_logprob *scored;
    const float *embedding; /* [n_embedding], valid once an embedding job has ended */
    uint32_t n_embedding;
    void *task;                  /* state of the job's task; the engine's thread uses it until the job ends */
    uint32_t task_at, task_of;   /* progress of the task: task_at of task_of parts; 0 of 0: not begun */
    uint32_t n_prompt, n_reused; /* tokens of the prompt; number of them found in the prefix cache */
    double submitted_ms, first_ms, last_ms; /* dop_now_ms of submission, first token and last token; 0: not yet */
} dop_job_state;

/* Creates an engine that uses every sequence of the plan. If the plan has no sequences, jobs can only compute
 * embeddings or run tasks. model and tok must outlive the engine. */
dop_status dop_engine_create(dop_model *model, const dop_tokenizer *tok, const dop_engine_options *options,
                             dop_diag *diag, dop_engine **out_engine);
/* Rejects new jobs. Queued jobs end with DOP_JOB_SHUTDOWN at once, running jobs after grace_s seconds. */
void dop_engine_stop(dop_engine *engine, double grace_s);
/* True if no job is running or waiting. */
bool dop_engine_is_idle(dop_engine *engine);
/* Destroys the engine. All jobs must have been released. Accepts NULL. */
void dop_engine_destroy(dop_engine *engine);

typedef enum dop_submit {
    DOP_SUBMIT_OK,
    DOP_SUBMIT_QUEUE_FULL,
    DOP_SUBMIT_STOPPED, /* shutting down */
    DOP_SUBMIT_FAILED   /* diag: out of memory, or the device is lost */
} dop_submit;

/* Submits all n jobs or none. The caller releases the jobs in out_jobs [n]. If the jobs are rejected, matchers still
 * belong to the caller. */
dop_submit dop_engine_submit(dop_engine *engine, const dop_job_request *requests, uint32_t n, dop_diag *diag,
                             dop_job **out_jobs);
/* Ends the job in any state and frees its sequence. `wake` is not called any more. Accepts NULL. */
void dop_job_release(dop_engine *engine, dop_job *job);

/* For tasks, on the engine's thread: reports that `at` of `of` parts are done. Returns false if the task must end:
 * the job was released, or its time is up. */
bool dop_job_advance(dop_engine *engine, dop_job *job, uint32_t at, uint32_t of);

/* For tasks, on the engine's thread: returns the number of sequences, at most `most`, that the task may use until it
 * ends. The first one is the job's own. */
uint32_t dop_job_sequences(dop_engine *engine, const dop_job *job, dop_sequence **out_sequences, uint32_t most);

/* Ends the job with DOP_JOB_STOP_TEXT before its next step, unless it has ended. Used when its text is complete. */
void dop_job_stop(dop_engine *engine, dop_job *job);

void dop_engine_lock(dop_engine *engine);
void dop_engine_unlock(dop_engine *engine);
dop_job_state dop_job_look(const dop_job *job);
/* Returns a copy of the metrics, with the numbers of running and waiting jobs. */
dop_metrics dop_engine_metrics(dop_engine *engine);
/* Snapshot of a sequence, taken in the engine's last step. */
typedef struct dop_slot_facts {
    bool works;                             /* the sequence has a job */
    uint32_t n_prompt, n_reused, n_written; /* tokens of the sequence's job; 0 if it has none */
} dop_slot_facts;
enum { DOP_ENGINE_MAX_SLOTS = 64 };
/* Copies the facts of all sequences and returns their number. */
uint32_t dop_engine_slots(dop_engine *engine, dop_slot_facts out_slots[DOP_ENGINE_MAX_SLOTS]);
/* Counts an HTTP answer with this status. */
void dop_engine_count_answer(dop_engine *engine, unsigned status);
/* True if the device has failed. The engine then stays unusable, and *out_diag has the reason. */
bool dop_engine_is_broken(dop_engine *engine, dop_diag *out_diag);

#endif
