/* Shared by the files of the engine: engine.c, the callers' side; engine_job.c, jobs themselves; engine_run.c, the engine's thread;
 * engine_task.c, jobs that do something else than writing;
 * engine_step.c, what it does around a step.  How a job's tokens are picked and what ends it: runtime/library/generation.c. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_INTERNAL_H
#define DOPPLER_SERVE_ENGINE_ENGINE_INTERNAL_H

#include "base/parallel.h"
#include "runtime/library/generation.h"
#include "runtime/model/draft_policy.h"
#include "serve/engine/engine.h"

#include <doppler/images.h>

enum { DOP_JOB_DRAFTS = 7 /* in a step, at most */ };
enum { DOP_ENGINE_MAX_THREADS = 8, DOP_ENGINE_MAX_GROUPS = 8, DOP_ENGINE_TEXTS = 64, DOP_ENGINE_CLIENTS = 1024 };

typedef enum dop_job_phase {
    DOP_JOB_WAITS,  /* in the queue */
    DOP_JOB_READS,  /* tokens before the job's last one are not in its sequence yet */
    DOP_JOB_WRITES, /* only the job's last token is not in its sequence yet */
    DOP_JOB_ENDED
} dop_job_phase;

struct dop_job {
    dop_job_request request; /* the lists of the request are copies in the job's own memory */
    uint32_t *tokens_of;     /* [n_prompt + max_tokens]: the prompt and what was written; behind it text_ends */
    dop_image **images;      /* owned, [request.n_images] */
    bool placed;             /* the prompt has the ids of the pictures' rows */
    dop_generation gen;      /* the generation of the job's text; the job owns its matcher */

    dop_job *next;   /* in the queue */
    double turn;     /* its place among jobs of its priority: the least comes first */
    bool leads;      /* the first job of a request */
    bool displaced;  /* the job is to leave the queue */
    uint64_t number; /* of its request, counted up */
    uint32_t slot;   /* index in dop_engine.slots of the job's sequence, while it reads or writes */
    dop_job_phase phase;
    bool released; /* the caller has released the job */

    uint32_t n_embedding; /* values of the job's embedding; 0: none is asked for */

    /* used by the engine's thread only */
    dop_logprob *scored; /* owned: dop_job_state.scored; NULL: not asked for */
    uint32_t parts_at;   /* tokens that the prompt has in common with others that were read before */
    uint32_t n_read;     /* how many of tokens_of are in the sequence; UINT32_MAX: not begun */
    uint32_t *written;   /* [max_tokens], in tokens_of */
    uint32_t row;        /* row of the current step that gives the job's next token; UINT32_MAX: none */
    /* Drafts in the rows behind `row`, and the tokens that rows have given: the last one behind the drafts that were right. */
    uint32_t drafts[DOP_JOB_DRAFTS], n_drafts;
    uint32_t picks[DOP_JOB_DRAFTS + 1], n_picks;
    dop_diag step_diag; /* why the job's pick failed */

    /* under the lock, as what `gen` has written */
    float *embedding; /* owned, [n_embedding]; NULL: none is asked for, or not computed yet */
    dop_job_token *tokens;
    uint32_t cap_tokens;
    uint32_t *text_ends; /* [max_tokens]: dop_job_state.text_ends, in tokens_of */
    dop_job_end end;
    bool enough; /* the caller needs no more of the job's text */
    dop_diag diag;
    uint32_t task_at, task_of;
    double submitted_ms, deadline_ms, first_ms, last_ms;
    uint32_t n_reused;
};

typedef struct dop_slot {
    dop_sequence *sequence;
    dop_job *job;  /* NULL: free, and the sequence still has the last job's cache */
    uint64_t used; /* dop_engine.n_given when a job last got this slot: the least is the least recently used */
    bool reads;    /* tokens of a prompt are in the step under way */
    bool ended;    /* a job has ended, of which a checkpoint is to be made */
    /* A step with this slot's sequence is in flight, in group `group`; until that step ends, sequence and job are left alone. */
    bool flies;
    uint32_t group;
} dop_slot;

/* A step in flight, where the model is in parts (runtime/parts/lead/ranks.h). */
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
    bool encodes;       /* the model has no sequences: slots are texts of one step of its program */
    uint32_t max_rows;  /* most rows of a step of several sequences; 1: one replay for each sequence */
    uint32_t max_chunk; /* most tokens of a prompt in one step */

    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t work; /* there is a job, or no more will come */

    /* under the lock */
    dop_job *first, *last; /* the queue */
    uint32_t n_waiting;
    uint64_t n_submitted; /* requests so far */
    /* Fair queueing: `now` is the turn of the job that was started last, and clients[] has the last turn that each client's jobs have
     * got (start-time fair queueing; several clients may share a place, by their ids' hashes). */
    struct {
        double now, clients[DOP_ENGINE_CLIENTS];
    } turns;
    bool stopped, broken;
    double stop_ms; /* deadline of running jobs, once stopped */
    dop_diag diag;  /* why it is broken */
    dop_metrics metrics;

    /* Copies of what is under the lock, for those who must not wait for it; each unlocking brings them up to date. */
    pthread_mutex_t view_lock;
    struct {
        dop_metrics metrics; /* view.metrics.answers is counted here only */
        dop_slot_facts slots[DOP_ENGINE_MAX_SLOTS];
        bool broken;
        dop_diag diag;
    } view;

    /* used by the engine's thread only; slots[].job is written under the lock */
    dop_slot *slots; /* owned, [facts.n_sequences] */
    uint32_t n_slots, n_running;
    uint64_t n_given;
    uint32_t turn;      /* slot with which the next step begins: jobs alternate where a step cannot hold them all */
    bool read_last;     /* the last step was for prompts alone */
    dop_step_row *rows; /* owned, [max_step_rows] */
    uint32_t n_rows, max_step_rows;
    /* Steps in flight: n_flying of groups[] from first_group on, as a ring. */
    dop_group groups[DOP_ENGINE_MAX_GROUPS];
    uint32_t n_groups; /* most steps in flight; 1: each step is waited for, and none is in flight */
    uint32_t first_group, n_flying;
    bool lands; /* all steps in flight must end before the next one starts */

    bool drafts; /* the model has a layer that drafts */
    dop_draft_policy policy;
    double draft_ms; /* how long the drafts of the current step took; 0: it has none */

    uint32_t n_threads;
    dop_picker pickers[DOP_ENGINE_MAX_THREADS];
};
/* The jobs that get a token from a step. */
typedef struct dop_engine_picks {
    dop_engine *e;
    dop_job *jobs[DOP_STEP_MAX_SEQUENCES];
    uint32_t n;
    uint64_t slice; /* steps of its grammar that each job may take after its pick */
} dop_engine_picks;
/* Must the job's prompt still be scored? */
static inline bool
dop_job_lacks_scores(const dop_job *job)
{
    return job->scored && job->request.n_prompt > 1 &&
           (job->n_read == UINT32_MAX || job->n_read + 1 < job->request.n_prompt);
}

/* Tokens of the job's prompt and text. */
static inline uint32_t
dop_job_tokens(const dop_job *job)
{
    return (uint32_t)job->request.n_prompt + job->gen.n_written;
}
/* Must the job wait for its matcher's mask before its next pick? */
static inline bool
dop_job_lacks_mask(const dop_job *job)
{
    return job->gen.matcher && !job->gen.mask_ready;
}

#endif
