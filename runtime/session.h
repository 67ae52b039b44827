/* Inside of a session; programs that only run models use doppler.h.  The profiler, the benchmark and --check look in
 * here. */
#ifndef DOPPLER_RUNTIME_SESSION_H
#define DOPPLER_RUNTIME_SESSION_H

#include "runtime/doppler.h"
#include "runtime/replay.h"

enum { DOP_MAX_AHEAD = 16 };

struct dop_session {
    dop_plan plan;
    dop_instance instance;
    dop_device device;
    dop_memory memory;
    dop_pipelines pipelines;
    dop_replay replay;
    dop_sampler sampler;
    dop_log log;
    dop_session_info info;
    uint32_t max_chunk, steps_ahead, steps_per_submit;
    uint64_t base_allocations, base_recordings, base_submissions;

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
double dop_now_ms(void); /* CLOCK_MONOTONIC */

#endif
