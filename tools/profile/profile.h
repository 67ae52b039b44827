/* Profiler: the time of every dispatch on the device and of what the host does meanwhile, on one clock.
 *
 * While a profile is attached to a model, its submissions use command buffers with a timestamp after each dispatch;
 * the recorded ones stay as they are.  A timestamp waits for everything before it, so dispatches that
 * would overlap do so less than usual; compare the time per step with --bench. */
#ifndef DOPPLER_TOOLS_PROFILE_PROFILE_H
#define DOPPLER_TOOLS_PROFILE_PROFILE_H

#include "runtime/model/info.h"

/* Most command buffers with timestamps that are recorded for each schedule and form.  After a warm-up run of this many steps, or
 * of as many as the measured run has, the measured run records none. */
enum { DOP_PROFILE_RING = 64 };

/* Something that the host did; a span lies inside the last span before it that has a smaller depth. */
typedef struct dop_profile_span {
    const char *name;        /* static */
    uint32_t number;         /* number of the step, for names that repeat */
    uint32_t depth;          /* number of spans around this one */
    double start_ms, end_ms; /* dop_now_ms */
} dop_profile_span;

/* One replay of a schedule on the device. */
typedef struct dop_profile_step {
    uint32_t schedule;
    uint32_t n_dispatches; /* number of dispatches of the step: fewer without the head */
    size_t first_time;     /* index of the step's first value in dop_profile.times, where it has n_dispatches + 1 */
} dop_profile_step;

/* Dispatches with the same label, apart from the layer, and the same kernel variant. */
typedef struct dop_profile_group {
    char name[96];       /* "L*" in place of the layer */
    const char *variant; /* name of the kernel variant; the plan's */
    uint32_t schedule;
    uint32_t n_layers; /* dispatches of the group in one replay */
    uint64_t count;    /* dispatches of the group in all replays */
    uint64_t bytes;    /* read and written in all replays, without what attention reads of the cache */
    double total_ms;
} dop_profile_group;

/* All replays of one schedule. */
typedef struct dop_profile_total {
    uint32_t schedule;
    uint64_t steps, tokens;
    double dispatch_ms; /* sum over dispatches */
    double gap_ms;      /* sum of the device time between a replay and the one before it */
    uint64_t n_gaps;    /* number of times that gap_ms adds up */
} dop_profile_total;

typedef struct dop_profile_collector dop_profile_collector;

typedef struct dop_profile {
    const dop_model *model;
    dop_model_info info;
    char date[32];           /* UTC */
    double floor_gbps;       /* read bandwidth of the device, 1e9 bytes per second; 0: unknown */
    bool calibrated;         /* device times lie on the host's clock; false: placed by guess, lengths are exact */
    double origin_ms;        /* dop_now_ms when it began */
    dop_profile_span *spans; /* owned, by start */
    size_t n_spans;
    dop_profile_step *steps; /* owned, in order */
    size_t n_steps;
    double *times; /* owned: ms on the clock of dop_now_ms */
    size_t n_times;
    dop_profile_group *groups; /* owned, by schedule and then by time */
    size_t n_groups;
    dop_profile_total *totals; /* owned: schedules in order of first use */
    size_t n_totals;
    double *stage_shares; /* owned, [n_stages]: shares of the persistent dispatch's time, 0 .. 1; NULL: not measured */
    uint32_t staged;      /* the schedule whose stages stage_shares is for */
    dop_profile_collector *collector; /* owned while it is attached */
} dop_profile;

/* Watches the model until dop_profile_stop; the profile must stay where it is.  Fails where the device has no
 * timestamps. */
dop_status dop_profile_attach(dop_model *model, dop_diag *diag, dop_profile *out_profile);
/* Forgets everything so far, which was warming up, and starts the clock. */
dop_status dop_profile_start(dop_profile *profile, dop_diag *diag);
/* Begins and ends a span for something that the caller does. */
void dop_profile_begin(dop_profile *profile, const char *name, uint32_t number);
void dop_profile_end(dop_profile *profile);
/* Waits for the device, detaches from the model and sums up. */
dop_status dop_profile_stop(dop_profile *profile, dop_diag *diag);
void dop_profile_finish(dop_profile *profile); /* accepts a zeroed one; before the model is closed */
/* The time of a step that is not profiled. */
typedef struct dop_profile_whole {
    uint32_t schedule;
    double us; /* microseconds of a step */
} dop_profile_whole;

#endif
