/* libdoppler: open a plan on a device, feed tokens, take tokens.
 *
 * A session holds one sequence.  It is not thread-safe; several sessions may exist.  Tokens are ids; text is the
 * business of runtime/text/tokenizer.h.  After dop_session_open returns, nothing is allocated on the device any more,
 * and nothing recorded but what dop_open_options.first_tokens put off (dop_session_counters shows it). */
#ifndef DOPPLER_RUNTIME_DOPPLER_H
#define DOPPLER_RUNTIME_DOPPLER_H

#include "runtime/base.h"
#include "runtime/caps.h"
#include "runtime/log.h"
#include "runtime/plan.h"
#include "runtime/sampling.h"

typedef struct dop_session dop_session;

/* Which decode schedule: ordered by barriers, or in another way where the plan has such a one (DOP_ORDER_* in
 * plan_format.h). */
typedef enum dop_ordering {
    DOP_ORDERING_AUTO,      /* on a GPU the faster one by a short probe, on software devices barriers */
    DOP_ORDERING_BARRIERS,  /* without a probe */
    DOP_ORDERING_PERSISTENT /* the same; an error when the plan has none */
} dop_ordering;

typedef struct dop_open_options {
    const char *device;        /* number or part of a name; NULL: the best one */
    const char *cache_dir;     /* where pipeline caches are kept; NULL: nowhere */
    uint32_t threads;          /* for pipelines and upload; 0: one per core */
    uint32_t max_chunk;        /* most prompt tokens in one replay; 1: token by token; 0: what the plan has */
    uint32_t steps_ahead;      /* greedy submissions under way before the host waits for the first; 0: by device */
    uint32_t steps_per_submit; /* greedy steps in one submission, 1 .. 256; 0: 1 */
    bool separate_memory;      /* use staging buffers and mirrors even where host and device share memory */
    /* Tokens that the first dop_session_feed will bring, roughly; 0: unknown.  When it is known, opening a session ends
     * when that call has what it needs.  A thread makes the rest meanwhile, and calls that need it wait for it. */
    uint32_t first_tokens;
    bool no_scoring;       /* dop_session_score will not be called, and nothing is made for it */
    dop_ordering ordering; /* of greedy and sampled steps */
    double timeout_s;      /* longest wait for one submission; 0: by device */
    dop_log log; /* decisions and sizes, for -v; may be called by another thread until dop_session_close ends */
} dop_open_options;

typedef struct dop_session_info {
    const dop_plan *plan;
    const dop_device_caps *device;
    uint32_t profile;                          /* row of the plan's profiles */
    uint32_t decode;                           /* row of the plan's schedules: one token */
    uint32_t ordering;                         /* DOP_ORDER_*, of decode; barriers after a stall */
    bool stalled;                              /* a wait for a value ran out; steps were run again with barriers */
    double probe_ms;                           /* what choosing the ordering took, part of load_ms; 0: no probe */
    double load_ms;                            /* all of dop_session_open */
    double pipelines_ms, upload_ms, verify_ms; /* its parts, which overlap; pipelines: the first ones */
    uint64_t device_bytes;                     /* of all device allocations */
} dop_session_info;

/* Maps and checks the plan and its digests, chooses a device and the first of the plan's profiles that it can run,
 * creates pipelines and uploads weights, in parallel as far as one does not need the other. */
dop_status dop_session_open(const char *plan_path, const dop_open_options *options, dop_diag *diag,
                            dop_session **out_session);
void dop_session_close(dop_session *session); /* accepts NULL */
void dop_session_describe(const dop_session *session, dop_session_info *out_info);

/* Starts an empty sequence. */
dop_status dop_session_reset(dop_session *session, dop_diag *diag);
/* How to pick tokens from now on; the default is greedy.  Restarts the random numbers. */
void dop_session_set_sampling(dop_session *session, const dop_sampling *sampling);
/* At most this many tokens will be taken: no step is submitted ahead that nobody wants.  UINT32_MAX: unknown. */
void dop_session_expect(dop_session *session, uint32_t n_tokens);

/* Appends tokens to the sequence.  What dop_session_next returned before is part of it already. */
dop_status dop_session_feed(dop_session *session, const uint32_t *ids, size_t n, dop_diag *diag);
/* Picks the next token and appends it.  Needs at least one token fed. */
dop_status dop_session_next(dop_session *session, dop_diag *diag, uint32_t *out_id);

/* Logits of consecutive positions: rows [n_rows, vocab], f32; rows live until the callback returns. */
typedef dop_status dop_logits_fn(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag);
/* Like dop_session_feed, and hands out the logits of every token fed, in order. */
dop_status dop_session_score(dop_session *session, const uint32_t *ids, size_t n, dop_logits_fn *fn, void *user,
                             dop_diag *diag);

/* Tokens of the sequence so far, fed and picked; owned by the session. */
const uint32_t *dop_session_tokens(const dop_session *session, size_t *out_n);

typedef struct dop_counters {
    uint64_t allocations;        /* of device memory, since opening */
    uint64_t recordings;         /* of command buffers, since opening; without what was put off then */
    uint64_t descriptor_updates; /* always 0: kernels take device addresses */
    uint64_t submissions;        /* since opening */
} dop_counters;

dop_counters dop_session_counters(const dop_session *session);

/* What a device offers, for --target auto of the compiler. */
dop_status dop_device_probe(const char *device, dop_diag *diag, dop_device_caps *out_caps);

#endif
