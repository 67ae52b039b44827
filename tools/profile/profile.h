/* Profiler: device time of every dispatch, and concurrent host activity, on one clock.
 *
 * While a profile is attached, the model's submissions use command buffers with a timestamp after each dispatch; its
 * recorded ones stay unchanged. A timestamp waits for all earlier work, so dispatches overlap less than usual; use
 * --bench to measure the time per step. */
#ifndef DOPPLER_TOOLS_PROFILE_PROFILE_H
#define DOPPLER_TOOLS_PROFILE_PROFILE_H

#include "runtime/model/info.h"

/* Maximum command buffers with timestamps for each schedule and form. A warm-up run of this many steps, or of as
 * many as will be measured, records all of them in advance. */
enum { DOP_PROFILE_RING = 64 };

/* Host activity. A span is nested in the last earlier span with a smaller depth. */
typedef struct dop_profile_span {
    const char *name;        /* static */
    uint32_t number;         /* step number, for repeated names */
    uint32_t depth;          /* number of enclosing spans */
    double start_ms, end_ms; /* dop_now_ms */
} dop_profile_span;

/* One replay of a schedule on the device. */
typedef struct dop_profile_step {
    uint32_t schedule;
    uint32_t n_dispatches; /* dispatches of the step: fewer without the head */
    size_t first_time;     /* index of the step's first value in dop_profile.times, where it has n_dispatches + 1 */
} dop_profile_step;

/* Dispatches with the same kernel variant and the same label except for the layer. */
typedef struct dop_profile_group {
    char name[96];       /* "L*" in place of the layer */
    const char *variant; /* name of the kernel variant; owned by the plan */
    uint32_t schedule;
    uint32_t n_layers; /* dispatches of the group in one replay */
    uint64_t count;    /* dispatches of the group in all replays */
    uint64_t bytes;    /* bytes read and written in all replays, without cache reads of attention */
    double total_ms;
} dop_profile_group;

/* Totals of all replays of one schedule. */
typedef struct dop_profile_total {
    uint32_t schedule;
    uint64_t steps, tokens;
    double dispatch_ms; /* sum of the dispatch times */
    double gap_ms;      /* sum of device idle times between consecutive replays */
    uint64_t n_gaps;    /* number of idle times in gap_ms */
} dop_profile_total;

typedef struct dop_profile_collector dop_profile_collector;

typedef struct dop_profile {
    const dop_model *model;
    dop_model_info info;
    char date[32];     /* date in UTC */
    double floor_gbps; /* device read bandwidth in 1e9 bytes/s; 0: unknown */
    bool calibrated;   /* true: device times are on the host's clock; false: positions are estimated, lengths exact */
    double origin_ms;  /* dop_now_ms at the start */
    dop_profile_span *spans; /* owned, sorted by start */
    size_t n_spans;
    dop_profile_step *steps; /* owned, in order of execution */
    size_t n_steps;
    double *times; /* owned: ms on dop_now_ms's clock */
    size_t n_times;
    dop_profile_group *groups; /* owned, sorted by schedule, then time */
    size_t n_groups;
    dop_profile_total *totals; /* owned: schedules in order of first use */
    size_t n_totals;
    double
        *stage_shares; /* owned, [n_stages]: fractions of the persistent dispatch's time, 0 to 1; NULL: not measured */
    uint32_t staged;   /* schedule that stage_shares belongs to */
    dop_profile_collector *collector; /* owned while attached */
} dop_profile;

/* Attaches a profile to the model until dop_profile_stop. The struct must not move. Fails if the device has no
 * timestamps. */
dop_status dop_profile_attach(dop_model *model, dop_diag *diag, dop_profile *out_profile);
/* Discards the warm-up data and starts the clock. */
dop_status dop_profile_start(dop_profile *profile, dop_diag *diag);
/* Begin and end a span of the caller's activity. */
void dop_profile_begin(dop_profile *profile, const char *name, uint32_t number);
void dop_profile_end(dop_profile *profile);
/* Waits for the device, detaches from the model and computes the totals. */
dop_status dop_profile_stop(dop_profile *profile, dop_diag *diag);
void dop_profile_finish(dop_profile *profile); /* accepts a zeroed struct; call before closing the model */
/* Time of an unprofiled step. */
typedef struct dop_profile_whole {
    uint32_t schedule;
    double us; /* microseconds per step */
} dop_profile_whole;

#endif
