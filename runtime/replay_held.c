/* Steps that are submitted before their rows are known.
 *
 * A submission costs the host and the driver tens of microseconds, and the device begins as many after it.  Where the host
 * waits for rows or tokens that another rank makes, that can be over before they come: the step waits on the device
 * for a semaphore, which the host signals when everything that the step reads lies where it does.  The grids of its dispatches
 * are in the host's memory and are written last, so that a step that is not wanted after all runs no workgroup: it
 * changes nothing, whatever the states and the record are by then. */
#include "runtime/replay.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* An indirect dispatch costs a little more than one whose grid is known: steps of more dispatches are not held. */
enum { MAX_DISPATCHES = 32 };

bool
dop_replay_can_hold(const dop_plan *plan, uint32_t schedule)
{
    const dop_plan_schedule *s = &plan->schedules[schedule];
    bool can = plan->part && s->max_rows == 1 && s->n_dispatches <= MAX_DISPATCHES;
    for (uint32_t i = 0; i < s->n_dispatches && can; i++)
        can = !(plan->dispatches[s->first_dispatch + i].flags & DOP_DISPATCH_INDIRECT);
    return can;
}

dop_status
dop_replay_create_held(dop_replay *replay, dop_diag *diag)
{
    dop_replay *r = replay;
    dop_held *h = &r->held;
    bool can = false;
    for (uint32_t i = 0; i < r->plan->n_schedules; i++)
        can = can || dop_replay_can_hold(r->plan, i);
    if (!can)
        return DOP_OK;
    h->commands = calloc((size_t)r->plan->n_schedules * DOP_N_FORMS, sizeof *h->commands);
    if (!h->commands)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    dop_status st = dop_block_create(r->device, MAX_DISPATCHES * sizeof(VkDispatchIndirectCommand),
                                     VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, 0, 0,
                                     diag, &h->grids);
    return st == DOP_OK ? dop_device_timeline(r->device, diag, &h->gate.semaphore) : st;
}

dop_status
dop_replay_record_held(dop_replay *replay, uint32_t schedule, dop_form form, VkCommandBuffer commands, dop_diag *diag)
{
    dop_replay *r = replay;
    dop_status st = dop_replay_start_recording(r, commands, diag);
    if (st != DOP_OK)
        return st;
    /* What the host wrote after the submission. */
    const VkMemoryBarrier written = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_HOST_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
    };
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_HOST_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1, &written, 0,
                         NULL, 0, NULL);
    dop_replay_record_copies(r, schedule, DOP_CUT_IN, commands);
    dop_replay_record_by_grids(r, schedule, form, r->held.grids.buffer, commands);
    dop_replay_record_copies(r, schedule, DOP_CUT_OUT, commands);
    const VkResult res = vkEndCommandBuffer(commands);
    if (res != VK_SUCCESS)
        return DOP_VK_FAIL(diag, res, "vkEndCommandBuffer");
    r->held.commands[schedule * DOP_N_FORMS + form] = commands;
    return DOP_OK;
}

/* What the host has written by now is there before the signal is: nothing passes a read of the record, which is where the other
 * writes went. */
static VkResult
let_begin(dop_replay *r)
{
    atomic_thread_fence(memory_order_seq_cst);
    (void)dop_replay_step(r)->n_rows;
    const VkSemaphoreSignalInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
                                        .semaphore = r->held.gate.semaphore,
                                        .value = r->held.gate.value};
    r->held.waits = false;
    r->device->drop_held = NULL;
    return vkSignalSemaphore(r->device->handle, &info);
}

static void
drop(void *user)
{
    dop_replay_drop(user);
}

dop_status
dop_replay_hold(dop_replay *replay, uint32_t schedule, dop_form form, dop_diag *diag)
{
    dop_held *h = &replay->held;
    const VkCommandBuffer commands = h->commands ? h->commands[schedule * DOP_N_FORMS + form] : VK_NULL_HANDLE;
    /* One that was dropped, and is not over yet, would read the grids of this one. */
    if (commands == VK_NULL_HANDLE || replay->observer || !dop_replay_is_idle(replay))
        return DOP_OK;
    const dop_gate gate = {h->gate.semaphore, h->gate.value + 1};
    dop_status st = dop_replay_submit_gated(replay, &gate, commands, diag, &h->ticket);
    if (st != DOP_OK)
        return st;
    h->gate = gate;
    h->schedule = schedule;
    h->form = form;
    h->waits = true;
    replay->device->drop_held = drop;
    replay->device->held_user = replay;
    return DOP_OK;
}

bool
dop_replay_holds(const dop_replay *replay, uint32_t schedule, dop_form form)
{
    return replay->held.waits && replay->held.schedule == schedule && replay->held.form == form;
}

dop_status
dop_replay_let(dop_replay *replay, dop_diag *diag, uint64_t *out_ticket)
{
    const dop_held *h = &replay->held;
    const dop_plan_schedule *s = &replay->plan->schedules[h->schedule];
    for (uint32_t i = 0; i < s->n_dispatches; i++)
        memcpy(h->grids.mapped + i * sizeof(VkDispatchIndirectCommand),
               replay->plan->dispatches[s->first_dispatch + i].grid, sizeof(VkDispatchIndirectCommand));
    *out_ticket = h->ticket;
    const VkResult res = let_begin(replay);
    return res == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, res, "vkSignalSemaphore");
}

void
dop_replay_drop(dop_replay *replay)
{
    if (!replay->held.waits)
        return;
    memset(replay->held.grids.mapped, 0, MAX_DISPATCHES * sizeof(VkDispatchIndirectCommand));
    (void)let_begin(replay); /* a device that is lost says so in the next call */
}

void
dop_replay_destroy_held(dop_replay *replay)
{
    dop_held *h = &replay->held;
    if (h->commands && !replay->device->lost)
        vkDestroySemaphore(replay->device->handle, h->gate.semaphore, NULL);
    if (h->commands)
        dop_block_destroy(replay->device, &h->grids);
    free(h->commands);
    memset(h, 0, sizeof *h);
}
