/* Waits for submissions.
 *
 * Waking a thread from vkWaitSemaphores takes 50 us and more, as long as many dispatches. If the host has enough
 * processors, a wait therefore blocks only until shortly before the expected end of a step, which earlier steps
 * predict. Then it spins on the semaphore, for at most EARLY_US + LATE_US. On a CPU device it only blocks, because
 * the device needs the processor. */
#include "runtime/device/replay.h"

#include <unistd.h>

/* Microseconds before and after the expected end; timers may also be 50 us late. */
enum { EARLY_US = 150, LATE_US = 150, LEAST_PROCESSORS = 4 };

bool
dop_replay_may_look(const dop_device *device)
{
    return !device->info.caps.cpu && sysconf(_SC_NPROCESSORS_ONLN) >= LEAST_PROCESSORS;
}

bool
dop_replay_look(const dop_replay *replay, uint64_t ticket, double ms, void (*meanwhile)(void *user), void *user)
{
    const double end = dop_now_ms() + ms;
    bool ended;
    while (!(ended = dop_replay_has_ended(replay, ticket)) && dop_now_ms() < end)
        if (meanwhile)
            meanwhile(user);
    return ended;
}

void
dop_replay_note_submission(dop_replay *replay, uint32_t schedule, uint32_t times)
{
    replay->waits[replay->submitted % DOP_REPLAY_WAITS] =
        (dop_replay_submission){replay->submitted, schedule, times, dop_now_ms()};
}

/* Returns the time at which a submission began to run: when it was submitted, or when the one before it ended.
 * Negative: not known. */
static double
began_ms(const dop_replay *r, const dop_replay_submission *s)
{
    const dop_replay_submission *before = &r->waits[(s->ticket - 1) % DOP_REPLAY_WAITS];
    if (r->ended == s->ticket - 1)
        return r->ended_ms > s->ms ? r->ended_ms : s->ms;
    return before->ticket == s->ticket - 1 && before->ticket > r->ended ? -1 : s->ms;
}

/* Blocks until shortly before the expected end of the submission, then spins. */
static void
wait_nearby(const dop_replay *r, uint64_t ticket, const dop_replay_submission *s, double began)
{
    const double expected = began + r->lengths[s->schedule].took_ms * s->times, now = dop_now_ms();
    if (r->lengths[s->schedule].took_ms <= 0)
        return;
    const double sleep_us = (expected - now) * 1e3 - EARLY_US;
    if (sleep_us > 0 && dop_replay_ends_within(r, ticket, (uint32_t)(sleep_us < 1e9 ? sleep_us : 1e9)))
        return;
    (void)dop_replay_look(r, ticket, (EARLY_US + LATE_US) * 1e-3, NULL, NULL);
}

/* Fails if a kernel has flagged that the device lacks a capability it claims. Reads the flag only after multi-row
 * steps, whose kernels set it, because reading device memory is slow. */
static dop_status
check_pairs(const dop_replay *r, dop_diag *diag)
{
    const volatile dop_step *step = dop_memory_host(r->memory, r->plan->step_slot);
    if (!r->pairs || r->n_rows < 2 || !(step->flags & DOP_STEP_UNPAIRED))
        return DOP_OK;
    return DOP_FAIL(
        diag, DOP_E_DEVICE,
        "%s orders the elements of matrices otherwise than this plan's kernels: compile it for a target without "
        "coop_pairs",
        r->device->info.caps.name);
}

dop_status
dop_replay_wait(dop_replay *replay, uint64_t ticket, dop_diag *diag)
{
    dop_replay *r = replay;
    const dop_replay_observer *o = r->observer;
    const dop_replay_submission *s = &r->waits[ticket % DOP_REPLAY_WAITS];
    const bool known = r->timed && !o && s->ticket == ticket && ticket > r->ended;
    const double began = known ? began_ms(r, s) : -1;
    if (o)
        o->begin(o->user, "wait");
    if (began >= 0 && r->looks)
        wait_nearby(r, ticket, s, began);
    dop_status st = dop_device_wait(r->device, r->timeline, ticket, diag);
    if (o)
        o->end(o->user);
    if (st == DOP_OK)
        st = check_pairs(r, diag);
    if (st != DOP_OK || !r->timed || ticket <= r->ended)
        return st;
    r->ended = ticket;
    r->ended_ms = dop_now_ms();
    if (began >= 0) {
        double *took_ms = &r->lengths[s->schedule].took_ms;
        const double took = (r->ended_ms - began) / s->times;
        *took_ms = *took_ms > 0 ? (*took_ms + took) / 2 : took;
    }
    return st;
}

bool
dop_replay_has_ended(const dop_replay *replay, uint64_t ticket)
{
    uint64_t value = 0;
    return vkGetSemaphoreCounterValue(replay->device->handle, replay->timeline, &value) == VK_SUCCESS &&
           value >= ticket;
}

bool
dop_replay_is_idle(const dop_replay *replay)
{
    return dop_replay_has_ended(replay, replay->submitted);
}

bool
dop_replay_ends_within(const dop_replay *replay, uint64_t ticket, uint32_t us)
{
    const VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &replay->timeline,
        .pValues = &ticket,
    };
    return vkWaitSemaphores(replay->device->handle, &info, us * UINT64_C(1000)) == VK_SUCCESS;
}
