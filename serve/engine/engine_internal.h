/* Shared by the engine's files. engine.c: public interface. engine_job.c: job lifecycle. engine_run.c: the engine's
 * thread. engine_step.c: work around a step. engine_task.c: jobs with a task instead of text. Sampling and the end
 * of a generation are in runtime/library/generation.c. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_INTERNAL_H
#define DOPPLER_SERVE_ENGINE_ENGINE_INTERNAL_H

#include "base/parallel.h"
#include "runtime/library/generation.h"
#include "runtime/model/draft_policy.h"
#include "serve/engine/engine.h"

#include <doppler/images.h>

enum { DOP_JOB_DRAFTS = 7 /* maximum drafts of a job per step */ };
enum { DOP_ENGINE_MAX_THREADS = 8, DOP_ENGINE_MAX_GROUPS = 8, DOP_ENGINE_TEXTS = 64, DOP_ENGINE_CLIENTS = 1024 };

typedef enum dop_job_phase {
    DOP_JOB_WAITS,  /* waits in the queue */
    DOP_JOB_READS,  /* prefill: the sequence lacks more tokens than the job's last one */
    DOP_JOB_WRITES, /* decode: the sequence lacks only the job's last token */
    DOP_JOB_ENDED
} dop_job_phase;

struct dop_job {
    dop_job_request request; /* lists in the request are copies owned by the job */
    uint32_t *tokens_of;     /* owned, [n_prompt + max_tokens]: prompt and generated tokens; followed by text_ends */
    dop_image **images;      /* owned, [request.n_images] */
    bool placed;             /* image placeholders in the prompt were replaced by the ids of the image rows */
    dop_generation gen;      /* generation of the job's text; the job owns its matcher */

    dop_job *next;   /* next job in the queue */
    double turn;     /* virtual start time for fair queueing; within a priority, the smallest is served first */
    bool leads;      /* first job of its request */
    bool displaced;  /* to be removed from the queue */
    uint64_t number; /* sequence number of its request */
    uint32_t slot;   /* index in dop_engine.slots, valid during prefill and decode */
    dop_job_phase phase;
    bool released; /* the caller has released the job */

    uint32_t n_embedding; /* number of values of the embedding; 0: no embedding requested */

    /* Used by the engine's thread only. */
    dop_logprob *scored; /* owned: dop_job_state.scored; NULL: not requested */
    uint32_t parts_at;   /* number of leading tokens shared with prompts that were read before */
    uint32_t n_read;     /* number of tokens_of that are in the sequence; UINT32_MAX: not begun */
    uint32_t *written;   /* [max_tokens]: the generated tokens, in tokens_of */
    uint32_t row;        /* row of the current step that yields the job's next token; UINT32_MAX: none */
    /* Drafts in the rows after `row`. picks: tokens sampled from these rows, the accepted drafts and one more token. */
    uint32_t drafts[DOP_JOB_DRAFTS], n_drafts;
    uint32_t picks[DOP_JOB_DRAFTS + 1], n_picks;
    dop_diag step_diag; /* reason why sampling failed */

    /* Under the lock, as is the output of `gen`. */
    float *embedding; /* owned, [n_embedding]; NULL: not requested, or not computed yet */
    dop_job_token *tokens;
    uint32_t cap_tokens;
    uint32_t *text_ends; /* [max_tokens]: dop_job_state.text_ends, stored in tokens_of */
    dop_job_end end;
    bool enough; /* the caller needs no more text of the job */
    dop_diag diag;
    uint32_t task_at, task_of;
    double submitted_ms, deadline_ms, first_ms, last_ms;
    uint32_t n_reused;
};

typedef struct dop_slot {
    dop_sequence *sequence;
    dop_job *job;  /* NULL: free slot, whose sequence still has the last job's cache */
    uint64_t used; /* dop_engine.n_given when the slot was last assigned; the smallest is the least recently used */
    bool reads;    /* the current step has prompt tokens of this slot */
    bool ended;    /* a job has ended here, and its checkpoint is still to be made */
    /* A step in flight uses this slot's sequence, in group `group`. Sequence and job must not change until the step
     * ends. */
    bool flies;
    uint32_t group;
} dop_slot;

/* A step in flight, for a model in several parts (runtime/parts/lead/ranks.h). */
typedef struct dop_group {
    dop_step_row *rows; /* owned, [max_step_rows] */
    uint32_t n_rows;
    double start_ms;
} dop_group;

struct dop_engine {
    dop_model *model;
    const dop_tokenizer *tok;
    dop_facts facts;
    uint32_t max_queue;
    bool encodes;       /* encoder model without sequences: slots are texts of one batch */
    uint32_t max_rows;  /* maximum rows of a step with several sequences; 1: each sequence is replayed separately */
    uint32_t max_chunk; /* maximum prompt tokens per step */

    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t work; /* signaled when a job is submitted or the engine stops */

    /* Under the lock. */
    dop_job *first, *last; /* the queue */
    uint32_t n_waiting;
    uint64_t n_submitted; /* number of requests so far */
    /* Start-time fair queueing. now: turn of the job that was started last. clients[]: turn after the last job of
     * each client, indexed by a hash of the client id, so that clients may share an entry. */
    struct {
        double now, clients[DOP_ENGINE_CLIENTS];
    } turns;
    bool stopped, broken;
    double stop_ms; /* dop_now_ms at which running jobs end, once stopped */
    dop_diag diag;  /* reason why the engine is broken */
    dop_metrics metrics;

    /* Snapshot of data under `lock`, for threads that must not wait for `lock`. Every unlock updates it. */
    pthread_mutex_t view_lock;
    struct {
        dop_metrics metrics; /* view.metrics.answers is counted only here */
        dop_slot_facts slots[DOP_ENGINE_MAX_SLOTS];
        bool broken;
        dop_diag diag;
    } view;

    /* Used by the engine's thread only, but slots[].job is written under the lock. */
    dop_slot *slots; /* owned, [facts.n_sequences] */
    uint32_t n_slots, n_running;
    uint64_t n_given;
    uint32_t turn;      /* first slot of the next step: jobs alternate if a step cannot hold them all */
    bool read_last;     /* the last step was for prompts only */
    dop_step_row *rows; /* owned, [max_step_rows] */
    uint32_t n_rows, max_step_rows;
    /* Ring of in-flight steps: n_flying of groups[], beginning at first_group. */
    dop_group groups[DOP_ENGINE_MAX_GROUPS];
    uint32_t n_groups; /* maximum number of in-flight steps; 1: every step is waited for */
    uint32_t first_group, n_flying;
    bool lands; /* all in-flight steps must end before the next one starts */

    bool drafts; /* the model has a draft layer */
    dop_draft_policy policy;
    double draft_ms; /* duration of drafting for the current step; 0: it has no drafts */

    uint32_t n_threads;
    dop_picker pickers[DOP_ENGINE_MAX_THREADS];
};
/* Jobs that get a token from a step. */
typedef struct dop_engine_picks {
    dop_engine *e;
    dop_job *jobs[DOP_STEP_MAX_SEQUENCES];
    uint32_t n;
    uint64_t slice; /* grammar steps that each job may spend on its next mask after sampling */
} dop_engine_picks;
/* True if the job's prompt still has to be scored. */
static inline bool
dop_job_lacks_scores(const dop_job *job)
{
    return job->scored && job->request.n_prompt > 1 &&
           (job->n_read == UINT32_MAX || job->n_read + 1 < job->request.n_prompt);
}

/* Returns the number of tokens of the job's prompt and text. */
static inline uint32_t
dop_job_tokens(const dop_job *job)
{
    return (uint32_t)job->request.n_prompt + job->gen.n_written;
}
/* True if the job must wait for its matcher's token mask before it can be sampled. */
static inline bool
dop_job_lacks_mask(const dop_job *job)
{
    return job->gen.matcher && !job->gen.mask_ready;
}

#endif
