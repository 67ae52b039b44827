/* The engine of the server: jobs of many clients on one model.
 *
 * A *job* is a prompt and what to do with it.  One thread drives the model: each of its steps has a row for every
 * job that is writing, and tokens of the prompt that is being read.  Jobs wait in a queue until a sequence of the plan is free:
 * those of a higher priority first, then clients by turns, each client's first come first served.  When the queue is full, requests of
 * the client that takes most of it make room (dop_engine_admit).  Sequences keep their caches when a job ends, so a job whose prompt
 * begins like another's only reads the rest.
 *
 * Nothing here knows about HTTP or JSON.  Threads: everything except dop_engine_create and dop_engine_destroy may be called by
 * any thread; the state of a job may be read between dop_engine_lock and dop_engine_unlock. */
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
    uint32_t max_queue; /* jobs that may wait; 0: 256 */
    uint32_t threads;   /* threads that pick tokens from logits; 0: one per core, at most 8 */
} dop_engine_options;

/* What a job does on the model in the place of writing, such as drawing a picture: a function that the engine's thread calls between two
 * steps, while no step is in flight.  It says how far it is by dop_job_advance, and ends with DOP_E_CANCELLED where that is false. */
typedef struct dop_job_task {
    dop_status (*run)(void *state, dop_model *model, dop_engine *engine, dop_job *job, dop_diag *diag); /* NULL: none */
    void (*finish)(void *state); /* frees the state, when the job is freed */
    void *state;                 /* the job's, once it is submitted */
    uint64_t bytes;              /* memory of the state */
} dop_job_task;

/* A request.  Everything is copied when the job is submitted, except `matcher` and the state of `task`, which the job owns from
 * then on. */
typedef struct dop_job_request {
    dop_job_task task;
    const uint32_t *prompt;
    size_t n_prompt;                 /* at least 1, or 0 with a task; prompt and max_tokens fit the context together */
    struct dop_images *eyes;         /* what the model knows of pictures; NULL: there are none */
    struct dop_image *const *images; /* [n_images] pictures of the prompt, of which the job becomes another owner */
    uint32_t n_images;
    uint32_t max_tokens;   /* 0: the prompt is read, and nothing is picked */
    dop_sampling sampling; /* penalty_from is set to n_prompt */
    uint32_t n_top;        /* alternatives for each token, with sampling.logprobs */
    bool scores;           /* the prompt's tokens get log-probabilities too */
    const char *const *stops;
    size_t n_stops;
    bool ignore_end;             /* continue after the model's end token */
    bool keep_special;           /* special tokens appear in the text */
    struct dop_matcher *matcher; /* what may be written; NULL: everything */
    dop_adapter_use uses[DOP_ADAPTERS_AT_ONCE];
    uint32_t n_uses; /* adapters that the job's tokens go through */
    bool embeds;     /* an embedding of the prompt is made, and nothing is picked */
    dop_pooling pooling;
    uint32_t second;     /* a prompt that is a pair of texts: tokens before the second text; 0: a single text */
    uint64_t client;     /* whose job it is */
    int priority;        /* jobs with a larger one come first */
    double time_limit_s; /* seconds from submission to the end of the job; 0: none */
    bool wake_at_end;    /* call wake only at the end */
    /* Called when the job has news, by the engine's thread under the engine's lock, so that it must not call the engine. */
    void (*wake)(void *user);
    void *user;
} dop_job_request;

typedef enum dop_job_end {
    DOP_JOB_GOES_ON,
    DOP_JOB_END_TOKEN, /* the model ended */
    DOP_JOB_STOP_TEXT,
    DOP_JOB_LENGTH,
    DOP_JOB_TIMEOUT,
    DOP_JOB_SHUTDOWN,
    DOP_JOB_FAILED, /* diag says why */
    DOP_JOB_CANCELLED,
    DOP_JOB_DISPLACED /* left a full queue, so that a job of another client found room */
} dop_job_end;

typedef struct dop_job_token {
    dop_logprob pick;
    uint32_t n_top;
    dop_logprob top[DOP_JOB_MAX_TOP];
} dop_job_token;

/* The progress of a job.  Valid under the engine's lock; it only grows while the job continues. */
typedef struct dop_job_state {
    dop_job_end end;
    const dop_diag *diag;
    bool by_request;  /* with DOP_JOB_FAILED: the request itself is the cause, and would fail again */
    const char *text; /* written so far, without stop texts; n_text bytes */
    size_t n_text;
    const char *stop; /* with DOP_JOB_STOP_TEXT: the stop text that was met; NULL: none was */
    size_t stop_index;
    const dop_job_token *tokens; /* with logprobs: one for each token written; NULL otherwise */
    uint32_t n_tokens;           /* tokens written, including the end token */
    const uint32_t *text_ends; /* [n_tokens]: bytes of the text that were written with each token and those before it */
    /* With `scores`, once the job writes or has ended: for each token of the prompt but the first, the token and n_top likeliest ids in
     * its place: [(n_prompt - 1) * (1 + n_top)]; NULL: none. */
    const dop_logprob *scored;
    const float *embedding; /* [n_embedding], once a job that embeds has ended */
    uint32_t n_embedding;
    void *task;                  /* the state of the job's task, which its thread uses until the job has ended */
    uint32_t task_at, task_of;   /* how far the task is; 0 of 0: it has not begun */
    uint32_t n_prompt, n_reused; /* tokens of the prompt; those that were cached already */
    double submitted_ms, first_ms, last_ms; /* dop_now_ms; 0: not yet */
} dop_job_state;

/* The engine uses every sequence that the plan holds; where it holds none, jobs can only embed.  model and tok must outlive it. */
dop_status dop_engine_create(dop_model *model, const dop_tokenizer *tok, const dop_engine_options *options,
                             dop_diag *diag, dop_engine **out_engine);
/* Accepts no more jobs.  Those in the queue end with DOP_JOB_SHUTDOWN at once, the others after grace_s seconds. */
void dop_engine_stop(dop_engine *engine, double grace_s);
/* Whether nothing is running or waiting. */
bool dop_engine_is_idle(dop_engine *engine);
/* All jobs must have been released.  Accepts NULL. */
void dop_engine_destroy(dop_engine *engine);

typedef enum dop_submit {
    DOP_SUBMIT_OK,
    DOP_SUBMIT_QUEUE_FULL,
    DOP_SUBMIT_STOPPED, /* shutting down */
    DOP_SUBMIT_FAILED   /* diag: memory, or the device was lost */
} dop_submit;

/* Submits all n jobs or none; those in out_jobs [n] are the caller's to release.  If none is accepted, matchers stay the caller's. */
dop_submit dop_engine_submit(dop_engine *engine, const dop_job_request *requests, uint32_t n, dop_diag *diag,
                             dop_job **out_jobs);
/* Ends the job, whatever it was doing, and frees its sequence for the next.  wake is not called any more.  Accepts NULL. */
void dop_job_release(dop_engine *engine, dop_job *job);

/* The engine's thread, within a task: its job has done `at` of `of` parts.  False: nobody waits for the rest, or its time is up. */
bool dop_job_advance(dop_engine *engine, dop_job *job, uint32_t at, uint32_t of);

/* The same: sequences that the task may use until it ends, at most `most`; the first one is the job's own.  Returns their number. */
uint32_t dop_job_sequences(dop_engine *engine, const dop_job *job, dop_sequence **out_sequences, uint32_t most);

/* What the job has written is enough: it ends with DOP_JOB_STOP_TEXT before its next step, unless it has ended. */
void dop_job_stop(dop_engine *engine, dop_job *job);

void dop_engine_lock(dop_engine *engine);
void dop_engine_unlock(dop_engine *engine);
dop_job_state dop_job_look(const dop_job *job);
/* A copy of the metrics, with the numbers of running and waiting jobs. */
dop_metrics dop_engine_metrics(dop_engine *engine);
/* What a sequence does: a copy that is as old as the engine's last step. */
typedef struct dop_slot_facts {
    bool works;                             /* the sequence has a job */
    uint32_t n_prompt, n_reused, n_written; /* tokens of its job, 0 without one */
} dop_slot_facts;
enum { DOP_ENGINE_MAX_SLOTS = 64 };
/* Writes the facts of all sequences, and returns their number. */
uint32_t dop_engine_slots(dop_engine *engine, dop_slot_facts out_slots[DOP_ENGINE_MAX_SLOTS]);
/* Counts an answer of the server. */
void dop_engine_count_answer(dop_engine *engine, unsigned status);
/* Whether the device has failed, after which nothing works any more: *out_diag says why. */
bool dop_engine_is_broken(dop_engine *engine, dop_diag *out_diag);

#endif
