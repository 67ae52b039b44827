/* Splitting steps among submissions.
 *
 * An operating system resets a device that one submission takes too long on: after 2 seconds on Windows, after 0.6 to 10 seconds
 * on Linux.  A chunk of a prompt takes longer than that on a slow device.  So the dispatches of a schedule that may take longer than
 * dop_device.submit_ms are recorded in several command buffers of about equal work, and a step is passed to the driver in as many
 * submissions as keep to that time.  How long a step takes is an estimate, from what every device of its kind can do, until one
 * was measured; where it was short enough, all command buffers go into one submission. */
#include "runtime/device/replay.h"

enum { MOST_SEGMENTS = 64 };

/* Operations and bytes per second that a device has at least: of a core (a multiprocessor or compute unit), where the driver says how
 * many there are, or else of the whole device; matrix units are so many times as fast. */
static const double core_rate = 50e9, core_bandwidth = 1e9, discrete_rate = 0.5e12, discrete_bandwidth = 50e9,
                    other_rate = 0.1e12, other_bandwidth = 10e9, matrix_factor = 4;

static double
work_of(const dop_plan_dispatch *d)
{
    return (double)d->bytes_read + (double)d->bytes_written;
}

double
dop_replay_estimate_ms(const dop_device_info *info, const dop_plan *plan, uint32_t schedule)
{
    const dop_plan_schedule *s = &plan->schedules[schedule];
    const bool discrete = info->type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    const double cores = info->caps.cores;
    double rate = cores > 0 ? cores * core_rate : discrete ? discrete_rate : other_rate, values = 0, bytes = 0;
    const double bandwidth = cores > 0 ? cores * core_bandwidth : discrete ? discrete_bandwidth : other_bandwidth;
    if (info->caps.caps & DOP_CAP_coop)
        rate *= matrix_factor;
    for (uint32_t i = 0; i < plan->n_tensors; i++)
        values += (double)plan->tensors[i].rows * plan->tensors[i].cols * plan->tensors[i].experts;
    for (uint32_t i = 0; i < s->n_dispatches; i++)
        bytes += work_of(&plan->dispatches[s->first_dispatch + i]);
    const double multiplying = 2 * values * s->max_rows / rate, moving = bytes / bandwidth;
    return 1e3 * (multiplying > moving ? multiplying : moving);
}

uint32_t
dop_replay_count_segments(const dop_plan *plan, uint32_t schedule, double ms, double most_ms)
{
    const dop_plan_schedule *s = &plan->schedules[schedule];
    if (most_ms <= 0 || ms <= most_ms || s->ordering != DOP_ORDER_BARRIERS)
        return 1;
    const uint32_t most = s->n_dispatches < MOST_SEGMENTS ? s->n_dispatches : MOST_SEGMENTS;
    const double n = ms / most_ms + 1;
    return most < 1 ? 1 : n < most ? (uint32_t)n : most;
}

uint32_t
dop_replay_segments(const dop_replay *replay, uint32_t schedule)
{
    dop_replay_length *l = &replay->lengths[schedule];
    if (l->n_segments == 0) {
        l->estimate_ms = dop_replay_estimate_ms(&replay->device->info, replay->plan, schedule);
        l->n_segments = dop_replay_count_segments(replay->plan, schedule, l->estimate_ms, replay->device->submit_ms);
    }
    return l->n_segments;
}

uint32_t
dop_replay_segment_end(const dop_plan *plan, uint32_t schedule, uint32_t n_dispatches, uint32_t n, uint32_t segment)
{
    const dop_plan_dispatch *d = &plan->dispatches[plan->schedules[schedule].first_dispatch];
    double all = 0, done = 0;
    uint32_t end = 0;
    if (segment + 1 >= n)
        return n_dispatches;
    for (uint32_t i = 0; i < n_dispatches; i++)
        all += work_of(&d[i]);
    /* What takes time beside bytes: as much again, equally much in each dispatch. */
    const double beside = n_dispatches > 0 ? all / n_dispatches + 1 : 1;
    all += beside * n_dispatches;
    while (end < n_dispatches && done + 0.5 * (work_of(&d[end]) + beside) < all * (segment + 1) / n)
        done += work_of(&d[end++]) + beside;
    return end;
}

uint32_t
dop_replay_batch(const dop_replay *replay, uint32_t schedule)
{
    const dop_replay_length *l = &replay->lengths[schedule];
    const double ms = l->took_ms > 0 ? l->took_ms : l->estimate_ms, most_ms = replay->device->submit_ms;
    if (most_ms <= 0 || ms * DOP_REPLAY_MAX_TIMES <= most_ms * l->n_segments)
        return DOP_REPLAY_MAX_TIMES;
    const double n = most_ms * l->n_segments / ms;
    return n < 1 ? 1 : n < DOP_REPLAY_MAX_TIMES ? (uint32_t)n : DOP_REPLAY_MAX_TIMES;
}
