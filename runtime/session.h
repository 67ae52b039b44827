/* Inside of a session; programs that only run models use doppler.h.  The profiler, the benchmark and --check look in
 * here. */
#ifndef DOPPLER_RUNTIME_SESSION_H
#define DOPPLER_RUNTIME_SESSION_H

#include "runtime/doppler.h"
#include "runtime/replay.h"
#include "runtime/spans.h"

enum { DOP_MAX_AHEAD = 16 };

/* What the chosen profile uses: rows of schedules, kernels and slots.  One allocation behind three pointers. */
typedef struct dop_used {
    bool *schedules, *kernels, *slots;
} dop_used;

/* session_load.c: the thread that makes what the first tokens do not need. */
typedef struct dop_loader {
    _Atomic bool *ready; /* owned, by schedule: recorded */
    _Atomic uint64_t recordings;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool lock_made, ended;
    dop_status st; /* why schedules are missing after the end */
    dop_diag diag;
    pthread_t thread;
    bool started;
} dop_loader;

struct dop_session {
    dop_plan plan;
    dop_instance instance;
    dop_device device;
    dop_memory memory;
    dop_pipelines pipelines;
    dop_replay replay;
    dop_upload *upload; /* owned; its threads have ended, or give staging buffers back */
    dop_used used;      /* owned */
    dop_loader loader;
    dop_spans spans; /* of opening */
    dop_sampler sampler;
    dop_log log;
    dop_session_info info;
    uint32_t max_chunk, steps_ahead, steps_per_submit;
    bool no_scoring;
    uint64_t base_allocations, base_recordings, base_submissions;

    /* Decode schedules by DOP_ORDER_*, UINT32_MAX: none that may be used; info.decode is one of them.  Feeding and
     * scoring take barriers always. */
    uint32_t decode[DOP_N_ORDERS];
    bool probes;       /* which one to take is found out by probes: */
    uint32_t probe_at; /* the next one when all are there and this position is reached */

    /* The sequence.  tokens[0 .. n_fed) are in the cache; at most one more, the last pick, is not yet. */
    uint32_t *tokens; /* owned, ctx + 1 */
    uint32_t n_tokens, n_fed;
    uint32_t wanted; /* tokens that dop_session_next will still be asked for */

    /* Logits of the last fed token that the host can read; NULL: none. */
    const float *logits;

    /* Greedy steps on the device.  `running`: the step record holds the device's own next step, which is to write
     * position dev_pos.  Picks are numbered since the plan was loaded; pick i is ids[i % DOP_STEP_RING]. */
    bool running;
    uint32_t dev_pos;
    uint32_t picks_asked, picks_taken;
    struct {
        uint64_t ticket;
        uint32_t end; /* number of the first pick that is not part of it */
    } ahead[DOP_MAX_AHEAD];
    uint32_t n_ahead; /* submissions not waited for, oldest first */
};

/* The schedule to feed n tokens with next and how many of them it takes. */
void dop_session_chunk(const dop_session *session, uint32_t kind, size_t n, uint32_t *out_schedule, uint32_t *out_take);
/* Writes the step record: n tokens from position pos on.  Nothing may be under way. */
void dop_session_write_step(dop_session *session, const uint32_t *ids, uint32_t n, uint32_t pos);
/* Submits and keeps count of the device's own picks. */
dop_status dop_session_submit(dop_session *session, uint32_t schedule, dop_form form, uint32_t times, dop_diag *diag,
                              uint64_t *out_ticket);

/* session_load.c */
/* Starts pipelines: those of the schedules with first[schedule], then those of decoding, then the rest. */
dop_status dop_session_start_pipelines(dop_session *session, const bool *first, uint32_t threads, const char *cache_dir,
                                       dop_diag *diag);
/* Waits for a schedule's pipelines and records it; later as in dop_replay_add. */
dop_status dop_session_make(dop_session *session, uint32_t schedule, bool later, dop_diag *diag);
/* Starts the thread for all the others, or does its work when there is no thread. */
dop_status dop_session_start_loader(dop_session *session, dop_diag *diag);
void dop_session_end_loader(dop_session *session); /* waits for it; accepts one that was not started */
bool dop_session_has(const dop_session *session, uint32_t schedule);
/* Blocks until a schedule can be submitted. */
dop_status dop_session_need(dop_session *session, uint32_t schedule, dop_diag *diag);

/* ordering.c */
/* Takes the decode schedule with this DOP_ORDER_* from now on; does nothing when there is none.  May be called between
 * any two calls: whatever is under way is as it was. */
void dop_session_use_ordering(dop_session *session, uint32_t ordering);
/* After loading: takes what the options ask for. */
dop_status dop_session_choose_ordering(dop_session *session, dop_ordering wanted, dop_diag *diag);
/* A few steps of each ordering, then the fastest one.  Needs an empty sequence, which it leaves behind. */
dop_status dop_session_probe_ordering(dop_session *session, dop_diag *diag);
/* Is it time to, with the next step?  Then nothing may be under way. */
bool dop_session_probes_next(const dop_session *session);
/* The same with the sequence's own next steps, which are all run again afterwards. */
dop_status dop_session_probe_here(dop_session *session, dop_diag *diag);
/* What is finished by now was not all ordered, or a step that should have made the last of n_picks is finished and did
 * not: none of the picks that were not taken yet is worth anything. */
bool dop_session_stalled(const dop_session *session, uint32_t n_picks);
/* Back to barriers for good.  Drops every pick that was not taken, and starts handed values and the turn from 0. */
dop_status dop_session_fall_back(dop_session *session, dop_diag *diag);

#endif
