/* Splits steps among submissions.
 *
 * An operating system resets a device if one submission takes too long: 2 seconds on Windows, 0.6 to 10 seconds on
 * Linux. A prompt chunk on a slow device can exceed that. So schedules that may exceed dop_device.submit_ms are
 * recorded in several command buffers of about equal work. A step then uses enough submissions to keep each below the
 * limit. The duration of a step is first estimated from what every device of its kind can do, and later measured. If it
 * is short, all command buffers go into one submission.
 *
 * A single dispatch may also take too long. Examples at 0.1 TFLOP/s: 3 s for a convolution with 256 channels on 512 x
 * 512 pixels, 1.2 s for 512 rows of the largest product of an 8B model. Dispatches with more work than one command
 * buffer should have are split along y with vkCmdDispatchBase; their pipelines are created for that. They are split
 * along y because kernels have their rows there, and some of them read gl_NumWorkGroups.x. */
#include "runtime/device/replay.h"

#include <math.h>

enum { MOST_SEGMENTS = 64 };

/* Minimum rates, in operations and bytes per second: per core (multiprocessor or compute unit) if the driver reports
 * their number, otherwise per device. Matrix units multiply the rate by matrix_factor. */
static const double core_rate = 50e9, core_bandwidth = 1e9, discrete_rate = 0.5e12, discrete_bandwidth = 50e9,
                    other_rate = 0.1e12, other_bandwidth = 10e9, matrix_factor = 4;

static double
count_moved_bytes(const dop_plan_dispatch *d)
{
    return (double)d->bytes_read + (double)d->bytes_written;
}

/* Returns the number of workgroups along y. */
static uint32_t
count_grid_rows(const dop_plan_dispatch *d)
{
    return d->grid[1] > 0 ? d->grid[1] : 1;
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
        bytes += count_moved_bytes(&plan->dispatches[s->first_dispatch + i]);
    const double multiplying = 2 * values * s->max_rows / rate, moving = bytes / bandwidth;
    return 1e3 * (multiplying > moving ? multiplying : moving);
}

uint32_t
dop_replay_count_segments(const dop_plan *plan, uint32_t schedule, double ms, double most_ms)
{
    const dop_plan_schedule *s = &plan->schedules[schedule];
    if (most_ms <= 0 || ms <= most_ms || s->ordering != DOP_ORDER_BARRIERS)
        return 1;
    uint64_t rows = 0; /* workgroup rows at which dispatches can be split */
    for (uint32_t i = 0; i < s->n_dispatches; i++)
        rows += count_grid_rows(&plan->dispatches[s->first_dispatch + i]);
    const uint32_t most = rows < MOST_SEGMENTS ? (uint32_t)rows : MOST_SEGMENTS;
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

/* Work of the first n dispatches of a schedule, in bytes. Fixed costs are assumed to double the total, with an equal
 * share (`beside`) per dispatch. */
typedef struct work {
    const dop_plan_dispatch *dispatches;
    uint32_t n;
    double beside, all;
} work;

static work
work_before(const dop_plan *plan, uint32_t schedule, uint32_t n_dispatches)
{
    work w = {.dispatches = &plan->dispatches[plan->schedules[schedule].first_dispatch], .n = n_dispatches};
    for (uint32_t i = 0; i < n_dispatches; i++)
        w.all += count_moved_bytes(&w.dispatches[i]);
    w.beside = n_dispatches > 0 ? w.all / n_dispatches + 1 : 1;
    w.all += w.beside * n_dispatches;
    return w;
}

/* Returns the number of pieces into which a dispatch with more work than one of n segments is split. A piece is at most
 * half a segment; segments consist of whole pieces. */
static uint32_t
pieces_of(const work *w, uint32_t dispatch, uint32_t n)
{
    const uint32_t rows = count_grid_rows(&w->dispatches[dispatch]);
    const double segments = (count_moved_bytes(&w->dispatches[dispatch]) + w->beside) * n / w->all,
                 pieces = n > 1 && segments > 1 ? ceil(2 * segments) : 1;
    return pieces < rows ? (uint32_t)pieces : rows;
}

dop_replay_place
dop_replay_segment_end(const dop_plan *plan, uint32_t schedule, uint32_t n_dispatches, uint32_t n, uint32_t segment)
{
    const work w = work_before(plan, schedule, n_dispatches);
    dop_replay_place end = {0};
    double done = 0;
    while (end.dispatch < n_dispatches) {
        const uint32_t pieces = pieces_of(&w, end.dispatch, n);
        const double piece = (count_moved_bytes(&w.dispatches[end.dispatch]) + w.beside) / pieces;
        if (segment + 1 < n && done + 0.5 * piece >= w.all * (segment + 1) / n)
            break;
        done += piece;
        end.piece++;
        end.row = (uint32_t)((uint64_t)count_grid_rows(&w.dispatches[end.dispatch]) * end.piece / pieces);
        if (end.piece == pieces)
            end = (dop_replay_place){.dispatch = end.dispatch + 1};
    }
    return end;
}

bool
dop_replay_divides(const dop_device_info *info, const dop_plan *plan, uint32_t kernel, double most_ms)
{
    for (uint32_t k = 0; k < plan->n_schedules && most_ms > 0; k++) {
        const dop_plan_schedule *s = &plan->schedules[k];
        const uint32_t n = dop_replay_count_segments(plan, k, dop_replay_estimate_ms(info, plan, k), most_ms);
        if (n == 1)
            continue;
        /* A form has either all dispatches or those of the body. */
        const work forms[] = {work_before(plan, k, s->n_dispatches), work_before(plan, k, s->n_body)};
        for (size_t f = 0; f < 2; f++)
            for (uint32_t i = 0; i < forms[f].n; i++)
                if (forms[f].dispatches[i].kernel == kernel && pieces_of(&forms[f], i, n) > 1)
                    return true;
    }
    return false;
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
