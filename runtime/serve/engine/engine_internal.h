/* Shared by the files of the engine: engine.c, the callers' side; engine_job.c, jobs themselves; engine_run.c, the engine's thread;
 * engine_task.c, jobs that do something else than writing;
 * engine_step.c, what it does around a step.  How a job's tokens are picked and what ends it: runtime/library/generation.c. */
#ifndef DOPPLER_RUNTIME_SERVE_ENGINE_ENGINE_INTERNAL_H
#define DOPPLER_RUNTIME_SERVE_ENGINE_ENGINE_INTERNAL_H

#include "base/parallel.h"
#include "runtime/library/generation.h"
#include "runtime/model/draft_policy.h"
#include "runtime/serve/engine/engine.h"

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

/* Under the lock: brings the engine's view up to date. */
void dop_engine_publish(dop_engine *e);

/* Under the lock: puts a job into the queue, which is in the order in which jobs are started. */
/* Under the lock: makes room in the queue for the n jobs of a request.  False: there is none. */
bool dop_engine_admit(dop_engine *e, const dop_job_request *requests, uint32_t n);
/* Under the lock: takes a waiting job out of the queue. */
void dop_engine_leave_queue(dop_engine *e, dop_job *job);
void dop_engine_enqueue(dop_engine *e, dop_job *job);
/* Under the lock: gives a new job its turn among those of its client and of others. */
void dop_engine_give_turn(dop_engine *e, dop_job *job);

/* engine_run.c: steps until the engine is stopped and everything has ended. */
void *dop_engine_run(void *engine);

/* engine_step.c: what the engine's thread does around a step, with jobs of which no step is in flight, or with those of one
 * group. */
/* Ends jobs, and gives sequences to waiting ones; blocks while there is nothing to do.  False: nothing more will come. */
bool dop_engine_take_jobs(dop_engine *e);
/* The jobs that get a token from a step. */
typedef struct dop_engine_picks {
    dop_engine *e;
    dop_job *jobs[DOP_STEP_MAX_SEQUENCES];
    uint32_t n;
    uint64_t slice; /* steps of its grammar that each job may take after its pick */
} dop_engine_picks;
/* Works for some milliseconds on masks that are not ready.  Jobs whose masks are not complete then have no row in the next step,
 * so that they hold up nobody else. */
void dop_engine_prepare_masks(dop_engine *e);
/* Chooses the rows of the next step: e->rows. */
void dop_engine_plan_step(dop_engine *e);
/* Runs the rows that dop_engine_plan_step chose, and waits. */
void dop_engine_run_step(dop_engine *e);
/* Before a step: ends jobs whose grammar allows nothing more, so that the results of their rows are not used. */
void dop_engine_ready_picks(dop_engine *e);
/* Picks a token for each job with a row in the open step.  flies: the step was in flight, as group `group`. */
void dop_engine_pick_all(dop_engine *e, bool flies, uint32_t group, dop_engine_picks *out_picks);
/* Under the lock: appends the picked tokens to their jobs. */
void dop_engine_write_all(dop_engine *e, const dop_engine_picks *picks);
/* After a step: checkpoints of prompts whose tokens it has read. */
void dop_engine_mark_chunks(dop_engine *e);
/* While nothing else is to be done: checkpoints of texts that have ended, in host memory and files too.  A text whose sequence another
 * job gets before that has its checkpoint then, and goes to host memory if it is long. */
void dop_engine_end_turns(dop_engine *e);
/* After a step did not find enough pages: makes other jobs release theirs; what they had read of their prompts is read again.
 * False: there is no other job. */
bool dop_engine_make_pages(dop_engine *e);
/* After a step that failed: runs the rows of each sequence alone, to find the one that causes the failure. */
void dop_engine_run_each(dop_engine *e, const dop_step_row *rows, uint32_t n_rows);
/* After the device has failed: ends every job before the next step. */
void dop_engine_give_up(dop_engine *e, const dop_diag *diag);
/* Under the lock: adds a step to the metrics. */
void dop_engine_count_step(dop_engine *e, uint32_t n_rows, double start_ms, double pick_ms);

/* engine_drafts.c, where the model has a layer that drafts.  init: gives each slot's sequence what it needs.  make: drafts for the jobs
 * that write, as far as the next step has room for them and they pay.  pick: picks the tokens of a job's rows up to the first draft that
 * is not right.  judge: drops the other rows from the open step, and counts it. */
dop_status dop_engine_drafts_init(dop_engine *e, dop_diag *diag);
void dop_engine_drafts_make(dop_engine *e);
dop_status dop_engine_drafts_pick(dop_job *job, dop_picker *picker, dop_diag *diag);
void dop_engine_drafts_judge(dop_engine *e, const dop_engine_picks *picks, double step_ms);

/* engine_score.c: reads the next part of the prompt of a job that wants its log-probabilities, but not its last token. */
void dop_engine_score(dop_engine *e, dop_job *job);
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

/* engine_task.c: runs the task of a job, and ends the job. */
void dop_engine_do_task(dop_engine *e, dop_job *job);

/* engine_slots.c */
/* Gives free sequences to the first jobs of the queue, as far as there are pages for them. */
void dop_engine_give_sequences(dop_engine *e);
/* Rewinds a slot's sequence; ends a job with an error. */
dop_status dop_slot_rewind(dop_slot *slot, size_t n, dop_diag *diag);
void dop_engine_fail_job(dop_engine *e, dop_job *job, const dop_diag *diag);

/* engine_job.c */
dop_job *dop_job_make(const dop_engine *e, const dop_job_request *request); /* NULL: out of memory */
void dop_job_free(dop_job *job);                                            /* accepts NULL */
/* Must the job wait for its matcher's mask before its next pick? */
static inline bool
dop_job_lacks_mask(const dop_job *job)
{
    return job->gen.matcher && !job->gen.mask_ready;
}
/* Under the lock: appends the pick, and ends the job if it must. */
void dop_job_write(dop_engine *e, dop_job *job, double now_ms);
/* Under the lock: why a job must end now although it is not complete; DOP_JOB_GOES_ON: it need not. */
dop_job_end dop_job_ends_now(const dop_engine *e, const dop_job *job, double now_ms);
/* Under the lock: ends the job. */
void dop_job_finish(dop_engine *e, dop_job *job, dop_job_end end, const dop_diag *diag);

#endif
