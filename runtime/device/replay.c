#include "runtime/device/replay.h"
#include "plan/plan_names.h"

#include <stdlib.h>
#include <string.h>

static void
record_barrier(VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags wrote, VkPipelineStageFlags to,
               VkAccessFlags touches)
{
    VkMemoryBarrier b = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = wrote,
        .dstAccessMask = touches,
    };
    vkCmdPipelineBarrier(commands, from, to, 0, 1, &b, 0, NULL, 0, NULL);
}

/* Pipeline and views currently bound in a command buffer. */
typedef struct bindings {
    VkPipeline pipeline;
    VkDescriptorSet views[DOP_N_VIEWS];
} bindings;

/* Computes the push constants of a dispatch, or the arguments in a stage's table row: the arguments themselves, or the
 * address of their parameter record. */
static void
own_args(const dop_replay *r, const dop_plan_schedule *s, const dop_plan_dispatch *d, uint64_t out[DOP_PUSH_ARGS])
{
    if (dop_has_record(d->n_args))
        out[0] = dop_memory_address(r->memory, s->table_slot, d->record);
    for (uint32_t i = 0; i < d->n_args && !dop_has_record(d->n_args); i++)
        out[i] = dop_memory_arg(r->memory, &r->plan->args[d->first_arg + i]);
}

uint32_t
dop_replay_args(const dop_replay *replay, const dop_plan_dispatch *dispatch, uint64_t out_args[DOP_PUSH_ARGS])
{
    const dop_plan *plan = replay->plan;
    const uint32_t at = (uint32_t)(dispatch - plan->dispatches);
    const dop_plan_schedule *s = plan->schedules, *const last = s + plan->n_schedules - 1;
    while (s < last && (at < s->first_dispatch || at - s->first_dispatch >= s->n_dispatches))
        s++;
    own_args(replay, s, dispatch, out_args);
    return dop_push_bytes(dispatch->n_args);
}

/* Records rows of workgroups (along y) of a dispatch. Later rows need no barrier after the first ones, because
 * workgroups of a dispatch do not depend on one another. */
static void
record_rows(const dop_replay *r, const dop_plan_schedule *s, const dop_plan_dispatch *d, uint32_t first_row,
            uint32_t end_row, bindings *io_bound, VkCommandBuffer commands)
{
    const VkPipelineStageFlags compute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    if ((d->flags & DOP_DISPATCH_BARRIER) && first_row == 0)
        record_barrier(commands, compute, VK_ACCESS_SHADER_WRITE_BIT, compute,
                       VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    VkPipeline pipeline = r->pipelines->rows[d->kernel];
    if (pipeline != io_bound->pipeline)
        vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    io_bound->pipeline = pipeline;
    dop_memory_bind(r->memory, r->plan, d, r->pipelines->layout, io_bound->views, commands);
    uint64_t args[DOP_PUSH_ARGS];
    own_args(r, s, d, args);
    if (d->n_args > 0)
        vkCmdPushConstants(commands, r->pipelines->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, dop_push_bytes(d->n_args),
                           args);
    if (first_row == 0 && end_row == d->grid[1])
        vkCmdDispatch(commands, d->grid[0], d->grid[1], d->grid[2]);
    else
        vkCmdDispatchBase(commands, 0, first_row, 0, d->grid[0], end_row - first_row, d->grid[2]);
}

static void
record_dispatch(const dop_replay *r, const dop_plan_schedule *s, const dop_plan_dispatch *d, bindings *io_bound,
                VkCommandBuffer commands)
{
    record_rows(r, s, d, 0, d->grid[1], io_bound, commands);
}

static bool
has_mirror(const dop_replay *r, const dop_plan_schedule *s)
{
    return s->logits_slot != DOP_PLAN_NO_SLOT && r->memory->places[s->logits_slot].mirror != UINT32_MAX;
}

/* Copies bytes [from, from + size) of the logits to their mirror in host memory. */
static void
record_mirror(const dop_replay *r, const dop_plan_schedule *s, uint64_t from, uint64_t size, VkCommandBuffer commands)
{
    const dop_slot_place *p = &r->memory->places[s->logits_slot];
    VkBufferCopy copy = {
        .srcOffset = p->offset + s->logits_offset + from,
        .dstOffset = p->mirror_offset + s->logits_offset + from,
        .size = size,
    };
    record_barrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                   VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT);
    vkCmdCopyBuffer(commands, r->memory->blocks[p->block].buffer, r->memory->blocks[p->mirror].buffer, 1, &copy);
}

bool
dop_replay_has_form(const dop_plan *plan, uint32_t schedule, dop_form form)
{
    return form != DOP_FORM_BODY || plan->schedules[schedule].ordering == DOP_ORDER_BARRIERS;
}

/* Begins a reusable command buffer and counts the recording. It may be in flight several times at once, because steps
 * are submitted ahead. */
static dop_status
start_recording(dop_replay *replay, VkCommandBuffer commands, dop_diag *diag)
{
    replay->recordings++;
    replay->device->recordings++;
    return dop_device_begin(commands, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT, diag);
}

/* Records the end of a form: the copy to the mirror, and a barrier that makes results visible to the host and the next
 * submission. */
static void
record_end(const dop_replay *r, const dop_plan_schedule *s, dop_form form, VkCommandBuffer commands)
{
    if (form == DOP_FORM_READ && has_mirror(r, s))
        record_mirror(r, s, 0, dop_plan_result_bytes(r->plan, s), commands);
    record_barrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                   VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                   VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT,
                   VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                       VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT);
}

static uint32_t
count_form_dispatches(const dop_plan_schedule *s, dop_form form)
{
    return form == DOP_FORM_BODY ? s->n_body : s->n_dispatches;
}

/* Records segment k of n of a form. No barrier is needed between segments: the barriers of a dispatch apply to all
 * earlier commands on the queue. */
static dop_status
record_segment(dop_replay *r, uint32_t schedule, dop_form form, uint32_t k, uint32_t n, VkCommandBuffer commands,
               dop_diag *diag)
{
    const dop_plan_schedule *s = &r->plan->schedules[schedule];
    const uint32_t all = count_form_dispatches(s, form);
    const dop_replay_place first =
                               k > 0 ? dop_replay_segment_end(r->plan, schedule, all, n, k - 1) : (dop_replay_place){0},
                           end = dop_replay_segment_end(r->plan, schedule, all, n, k);
    bindings bound = {0};
    if (k + 1 == n && n == 1)
        return dop_replay_record(r, schedule, form, VK_NULL_HANDLE, 0, NULL, commands, diag);
    dop_status st = start_recording(r, commands, diag);
    for (uint32_t i = first.dispatch;
         st == DOP_OK && i < all && (i < end.dispatch || (i == end.dispatch && end.row > 0)); i++) {
        const dop_plan_dispatch *d = &r->plan->dispatches[s->first_dispatch + i];
        const uint32_t from = i == first.dispatch ? first.row : 0, to = i == end.dispatch ? end.row : d->grid[1];
        if (from < to)
            record_rows(r, s, d, from, to, &bound, commands);
    }
    if (st == DOP_OK && k + 1 == n)
        record_end(r, s, form, commands);
    const VkResult res = st == DOP_OK ? vkEndCommandBuffer(commands) : VK_SUCCESS;
    return res == VK_SUCCESS ? st : DOP_VK_FAIL(diag, res, "vkEndCommandBuffer");
}

dop_status
dop_replay_record(dop_replay *replay, uint32_t schedule, dop_form form, VkQueryPool timestamps, uint32_t first_query,
                  const dop_replay_watch *watch, VkCommandBuffer commands, dop_diag *diag)
{
    const dop_plan_schedule *s = &replay->plan->schedules[schedule];
    dop_status st = start_recording(replay, commands, diag);
    if (st != DOP_OK)
        return st;
    const uint32_t n = count_form_dispatches(s, form);
    bindings bound = {0};
    if (timestamps) {
        vkCmdResetQueryPool(commands, timestamps, first_query, n + 1);
        vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, timestamps, first_query);
    }
    for (uint32_t i = 0; i < n; i++) {
        const dop_plan_dispatch *d = &replay->plan->dispatches[s->first_dispatch + i];
        if (watch && watch->before)
            watch->before(watch->user, schedule, d, commands);
        record_dispatch(replay, s, d, &bound, commands);
        if (timestamps)
            vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, timestamps, first_query + 1 + i);
    }
    record_end(replay, s, form, commands);
    const VkResult r = vkEndCommandBuffer(commands);
    return r == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, r, "vkEndCommandBuffer");
}

static bool
is_cleared(dop_clear what, uint32_t slot_kind)
{
    return (slot_kind == DOP_SLOT_STATE && what != DOP_CLEAR_SYNC) ||
           ((slot_kind == DOP_SLOT_COUNTS || slot_kind == DOP_SLOT_MAILBOX) && what != DOP_CLEAR_STATE) ||
           (slot_kind == DOP_SLOT_SCRATCH && what == DOP_CLEAR_ALL);
}

/* Records the parameter record of a dispatch or stage, if it has one. */
static void
record_record(const dop_replay *r, const dop_plan_dispatch *d, const dop_slot_place *p, VkCommandBuffer commands)
{
    for (uint32_t i = 0; i < d->n_args && dop_has_record(d->n_args); i++) {
        const uint64_t arg = dop_memory_arg(r->memory, &r->plan->args[d->first_arg + i]);
        vkCmdUpdateBuffer(commands, r->memory->blocks[p->block].buffer, p->offset + d->record + i * sizeof arg,
                          sizeof arg, &arg);
    }
}

/* Records the stage table of a schedule with the current addresses of its arguments. */
static void
record_table(const dop_replay *r, const dop_plan_schedule *s, VkCommandBuffer commands)
{
    const dop_slot_place *p = &r->memory->places[s->table_slot];
    for (uint32_t i = 0; i < s->n_stages; i++) {
        const dop_plan_dispatch *d = &r->plan->dispatches[s->first_stage + i];
        dop_stage_row row = {.groups = (uint16_t)(d->grid[0] * d->grid[1]),
                             .splits = (uint16_t)d->grid[2],
                             .short_groups = (uint16_t)d->short_groups,
                             .short_splits = (uint16_t)d->short_splits,
                             .function = (uint16_t)d->flags,
                             .short_function = (uint16_t)d->short_function,
                             .short_positions = d->short_positions};
        own_args(r, s, d, row.args);
        vkCmdUpdateBuffer(commands, r->memory->blocks[p->block].buffer, p->offset + i * sizeof row, sizeof row, &row);
        record_record(r, d, p, commands);
    }
    for (uint32_t i = 0; i < s->n_dispatches; i++)
        record_record(r, &r->plan->dispatches[s->first_dispatch + i], p, commands);
}

/* True if the slot is a state that a program fills for a whole sequence, so that clearing tokens does not reset it. */
static bool
is_filled(const dop_plan *p, uint32_t slot)
{
    uint32_t i = 0;
    while (i < p->n_states && (p->states[i].slot != slot || !p->states[i].filled))
        i++;
    return i < p->n_states;
}

/* Records the reset of slots, after a barrier that makes uploads of the copy queue visible to the compute queue. */
static dop_status
record_clear(dop_replay *r, dop_clear what, dop_diag *diag)
{
    VkCommandBuffer commands = r->clear[what];
    dop_status st = start_recording(r, commands, diag);
    if (st != DOP_OK)
        return st;
    record_barrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                   VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
    for (uint32_t i = 0; i < r->plan->n_slots; i++) {
        const dop_plan_slot *s = &r->plan->slots[i];
        const dop_slot_place *p = &r->memory->places[i];
        if (p->block == UINT32_MAX || !is_cleared(what, s->kind) || (what == DOP_CLEAR_STATE && is_filled(r->plan, i)))
            continue;
        vkCmdFillBuffer(commands, r->memory->blocks[p->block].buffer, p->offset, dop_align_u64(p->size, 4),
                        s->kind == DOP_SLOT_MAILBOX ? UINT32_MAX : 0);
    }
    for (uint32_t i = 0; i < r->plan->n_schedules && what == DOP_CLEAR_ALL; i++)
        if (r->plan->schedules[i].table_slot != DOP_PLAN_NO_SLOT &&
            r->memory->places[r->plan->schedules[i].table_slot].block != UINT32_MAX)
            record_table(r, &r->plan->schedules[i], commands);
    record_barrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                   VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    const VkResult res = vkEndCommandBuffer(commands);
    return res == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, res, "vkEndCommandBuffer");
}

static dop_status
allocate_commands(dop_replay *r, VkCommandPool pool, uint32_t n, VkCommandBuffer *out_commands, dop_diag *diag)
{
    VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = n,
    };
    VkResult res = vkAllocateCommandBuffers(r->device->handle, &allocate, out_commands);
    return res == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, res, "vkAllocateCommandBuffers");
}

static dop_status
record_cut(dop_replay *r, uint32_t schedule, dop_cut_side cut, VkCommandBuffer commands, dop_diag *diag)
{
    dop_status st = start_recording(r, commands, diag);
    if (st != DOP_OK)
        return st;
    dop_cut_record(r->plan, r->memory, schedule, cut, commands);
    const VkResult res = vkEndCommandBuffer(commands);
    return res == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, res, "vkEndCommandBuffer");
}

dop_status
dop_replay_add(dop_replay *replay, uint32_t schedule, dop_diag *diag)
{
    dop_replay *r = replay;
    const uint32_t n = dop_replay_segments(r, schedule);
    dop_status st = DOP_OK;
    VkCommandBuffer **forms = &r->commands[schedule * DOP_N_FORMS];
    for (uint32_t f = 0; f < DOP_N_FORMS && st == DOP_OK; f++) {
        if (!dop_replay_has_form(r->plan, schedule, (dop_form)f))
            continue;
        forms[f] = calloc(n, sizeof **forms);
        st = forms[f] ? allocate_commands(r, r->pool, n, forms[f], diag) : DOP_NO_MEMORY(diag);
        for (uint32_t k = 0; k < n && st == DOP_OK; k++)
            st = record_segment(r, schedule, (dop_form)f, k, n, forms[f][k], diag);
    }
    for (uint32_t c = 0; c < DOP_N_CUTS && st == DOP_OK; c++) {
        VkCommandBuffer *cut = &r->cuts[schedule * DOP_N_CUTS + c];
        if (dop_cut_is_crossed(r->plan, schedule, (dop_cut_side)c) &&
            (st = allocate_commands(r, r->pool, 1, cut, diag)) == DOP_OK)
            st = record_cut(r, schedule, (dop_cut_side)c, *cut, diag);
    }
    for (uint32_t f = 0; f < DOP_N_FORMS && st != DOP_OK; f++) {
        free(forms[f]);
        forms[f] = NULL;
    }
    return st;
}

dop_status
dop_replay_create(dop_device *device, const dop_plan *plan, const dop_memory *memory, const dop_pipelines *pipelines,
                  dop_diag *diag, dop_replay *out_replay)
{
    dop_status st = DOP_OK;
    dop_replay *r = out_replay;
    memset(r, 0, sizeof *r);
    r->device = device;
    r->plan = plan;
    r->memory = memory;
    r->pipelines = pipelines;
    r->commands = calloc((size_t)plan->n_schedules * DOP_N_FORMS, sizeof *r->commands);
    r->cuts = calloc((size_t)plan->n_schedules * DOP_N_CUTS, sizeof(VkCommandBuffer));
    r->rows = calloc(DOP_STEP_MAX_ROWS, sizeof *r->rows);
    r->lengths = calloc((size_t)plan->n_schedules, sizeof *r->lengths);
    r->timed = !device->info.caps.cpu;
    r->looks = dop_replay_may_look(device);
    for (uint32_t i = 0; i < plan->n_kernels; i++)
        r->pairs = r->pairs || (plan->kernels[i].caps & DOP_CAP_coop_pairs);
    if (!r->commands || !r->cuts || !r->rows || !r->lengths) {
        dop_replay_destroy(r);
        return DOP_NO_MEMORY(diag);
    }
    VkCommandPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = device->info.queue_family,
    };
    VkResult res = vkCreateCommandPool(device->handle, &info, NULL, &r->pool);
    st = res == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, res, "vkCreateCommandPool");
    if (st == DOP_OK && (st = allocate_commands(r, r->pool, DOP_N_CLEARS, r->clear, diag)) == DOP_OK)
        st = dop_device_timeline(device, diag, &r->timeline);
    for (uint32_t i = 0; i < DOP_N_CLEARS && st == DOP_OK; i++)
        st = record_clear(r, (dop_clear)i, diag);
    if (st != DOP_OK)
        dop_replay_destroy(r);
    return st;
}

void
dop_replay_destroy(dop_replay *replay)
{
    dop_device *d = replay->device;
    if (d && d->handle && !d->hung) {
        if (replay->submitted > 0 && !d->lost)
            (void)dop_device_wait(d, replay->timeline, replay->submitted, NULL);
        if (!d->hung) {
            vkDestroySemaphore(d->handle, replay->timeline, NULL);
            vkDestroyCommandPool(d->handle, replay->pool, NULL);
        }
    }
    const uint32_t n_forms = replay->commands ? replay->plan->n_schedules * DOP_N_FORMS : 0;
    for (uint32_t i = 0; i < n_forms; i++)
        free(replay->commands[i]);
    free(replay->commands);
    free(replay->cuts);
    free(replay->rows);
    free(replay->lengths);
    memset(replay, 0, sizeof *replay);
}

static dop_status
submit_commands(dop_replay *r, const VkCommandBuffer *commands, uint32_t n, dop_diag *diag, uint64_t *out_ticket)
{
    uint64_t value = r->submitted + 1;
    dop_status st = dop_device_submit(r->device, r->device->queue, commands, n, r->timeline, value, diag);
    if (st != DOP_OK)
        return st;
    r->submitted = value;
    *out_ticket = value;
    return DOP_OK;
}

/* Command buffers of a submission, passed to the driver in batches of at most `most`, so that none takes too long. */
typedef struct batches {
    dop_replay *r;
    VkCommandBuffer list[DOP_REPLAY_MAX_TIMES];
    uint32_t n, most;
    bool begun; /* at least one batch was submitted */
} batches;

static dop_status
add_commands(batches *b, VkCommandBuffer commands, dop_diag *diag)
{
    if (b->n == b->most) {
        dop_device *d = b->r->device;
        dop_status st = dop_device_submit(d, d->queue, b->list, b->n, VK_NULL_HANDLE, 0, diag);
        if (st != DOP_OK)
            return st;
        b->n = 0;
        b->begun = true;
    }
    b->list[b->n++] = commands;
    return DOP_OK;
}

/* Submits the last batch, which signals the submission's ticket. */
static dop_status
end_batches(batches *b, dop_status st, dop_diag *diag, uint64_t *out_ticket)
{
    if (st == DOP_OK)
        st = submit_commands(b->r, b->list, b->n, diag, out_ticket);
    if (st != DOP_OK && b->begun && !b->r->device->lost) /* nothing signals the end of the batches already submitted */
        (void)vkDeviceWaitIdle(b->r->device->handle);
    return st;
}

dop_status
dop_replay_submit(dop_replay *replay, uint32_t schedule, dop_form form, uint32_t times, dop_diag *diag,
                  uint64_t *out_ticket)
{
    return dop_replay_submit_pieces(replay, schedule, form, times, DOP_PIECES_ALL, diag, out_ticket);
}

dop_status
dop_replay_submit_pieces(dop_replay *replay, uint32_t schedule, dop_form form, uint32_t times, uint32_t pieces,
                         dop_diag *diag, uint64_t *out_ticket)
{
    batches b = {.r = replay, .most = dop_replay_batch(replay, schedule)};
    const VkCommandBuffer *cuts = &replay->cuts[schedule * DOP_N_CUTS];
    const uint32_t n_segments = replay->lengths[schedule].n_segments;
    dop_status st = DOP_OK;
    if (times == 0 || times > DOP_REPLAY_MAX_TIMES)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "%u steps in one submission", times);
    if (!dop_replay_has_form(replay->plan, schedule, form))
        return DOP_FAIL(diag, DOP_E_INTERNAL, "a part of a schedule that is not ordered by barriers");
    const dop_replay_observer *o = replay->observer;
    if ((pieces & DOP_PIECE_IN) && cuts[DOP_CUT_IN])
        st = add_commands(&b, cuts[DOP_CUT_IN], diag);
    for (uint32_t i = 0; i < times && (pieces & DOP_PIECE_STEP) && st == DOP_OK; i++) {
        VkCommandBuffer own;
        const VkCommandBuffer *commands = o ? &own : replay->commands[schedule * DOP_N_FORMS + form];
        if (o)
            st = o->commands(o->user, schedule, form, replay->submitted + 1, diag, &own);
        for (uint32_t k = 0; k < (o ? 1 : n_segments) && st == DOP_OK; k++)
            st = add_commands(&b, commands[k], diag);
    }
    if (st == DOP_OK && (pieces & DOP_PIECE_OUT) && cuts[DOP_CUT_OUT])
        st = add_commands(&b, cuts[DOP_CUT_OUT], diag);
    if (o && st == DOP_OK)
        o->begin(o->user, "submit");
    const bool observed = o && st == DOP_OK;
    st = end_batches(&b, st, diag, out_ticket);
    if (st == DOP_OK)
        dop_replay_note_submission(replay, schedule, times);
    if (observed)
        o->end(o->user);
    return st;
}

/* Records the link between two steps of a chain: copies the values that the first step sent for its first rows to the
 * next step's input, and sets the row count. */
static dop_status
record_link(dop_replay *r, const dop_replay_link *link, dop_diag *diag)
{
    VkCommandBuffer commands = link->commands;
    const dop_plan_crossing *from = NULL, *to = NULL;
    for (uint32_t i = 0; i < r->plan->n_crossings; i++) {
        const dop_plan_crossing *x = &r->plan->crossings[i];
        from = x->schedule == link->from && x->way == DOP_CROSSING_SENT ? x : from;
        to = x->schedule == link->to && x->way == DOP_CROSSING_RECEIVED ? x : to;
    }
    if (!from || !to || from->row_bytes != to->row_bytes)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "a chain of steps that pass nothing on");
    dop_status st = start_recording(r, commands, diag);
    if (st != DOP_OK)
        return st;
    const dop_slot_place *a = &r->memory->places[from->slot], *b = &r->memory->places[to->slot],
                         *step = &r->memory->places[r->plan->step_slot];
    const VkBufferCopy copy = {a->offset + from->offset, b->offset + to->offset, link->rows * from->row_bytes};
    vkCmdCopyBuffer(commands, r->memory->blocks[a->block].buffer, r->memory->blocks[b->block].buffer, 1, &copy);
    vkCmdFillBuffer(commands, r->memory->blocks[step->block].buffer, step->offset + offsetof(dop_step, n_rows),
                    sizeof(uint32_t), link->rows);
    record_barrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                   VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    const VkResult res = vkEndCommandBuffer(commands);
    return res == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, res, "vkEndCommandBuffer");
}

static dop_status
find_link(dop_replay *r, uint32_t from, uint32_t to, uint32_t rows, dop_diag *diag, VkCommandBuffer *out_commands)
{
    for (uint32_t i = 0; i < r->n_links && i < DOP_REPLAY_LINKS; i++) {
        const dop_replay_link *x = &r->links[i];
        *out_commands = x->commands;
        if (x->commands && x->from == from && x->to == to && x->rows == rows)
            return DOP_OK;
    }
    dop_replay_link *link = &r->links[r->n_links++ % DOP_REPLAY_LINKS];
    if (link->commands)
        vkFreeCommandBuffers(r->device->handle, r->pool, 1, &link->commands);
    *link = (dop_replay_link){from, to, rows, VK_NULL_HANDLE};
    dop_status st = allocate_commands(r, r->pool, 1, &link->commands, diag);
    if (st == DOP_OK && (st = record_link(r, link, diag)) != DOP_OK)
        link->from = UINT32_MAX; /* do not reuse it */
    *out_commands = link->commands;
    return st;
}

/* Adds the command buffers of a schedule's full form. */
static dop_status
add_step_commands(batches *b, uint32_t schedule, dop_diag *diag)
{
    const dop_replay *r = b->r;
    const dop_replay_observer *o = r->observer;
    VkCommandBuffer own;
    const VkCommandBuffer *commands = o ? &own : r->commands[schedule * DOP_N_FORMS + DOP_FORM_FULL];
    if (o)
        DOP_RETURN_IF_ERROR(o->commands(o->user, schedule, DOP_FORM_FULL, r->submitted + 1, diag, &own));
    for (uint32_t k = 0; k < (o ? 1 : r->lengths[schedule].n_segments); k++)
        DOP_RETURN_IF_ERROR(add_commands(b, commands[k], diag));
    return DOP_OK;
}

dop_status
dop_replay_submit_chain(dop_replay *replay, const dop_chain *chain, dop_diag *diag, uint64_t *out_ticket)
{
    dop_replay *r = replay;
    const dop_chain *c = chain;
    const uint32_t first = dop_replay_batch(r, c->first), next = dop_replay_batch(r, c->next);
    batches b = {.r = r, .most = first < next ? first : next};
    VkCommandBuffer links[2] = {VK_NULL_HANDLE, VK_NULL_HANDLE}, in = r->cuts[c->first * DOP_N_CUTS + DOP_CUT_IN];
    dop_status st = DOP_OK;
    if (c->n > 1)
        st = find_link(r, c->first, c->next, c->rows, diag, &links[0]);
    if (st == DOP_OK && c->n > 2)
        st = find_link(r, c->next, c->next, c->rows, diag, &links[1]);
    if (st == DOP_OK && in)
        st = add_commands(&b, in, diag);
    for (uint32_t i = 0; i < c->n && st == DOP_OK; i++) {
        if (i > 0)
            st = add_commands(&b, links[i > 1], diag);
        if (st == DOP_OK)
            st = add_step_commands(&b, i > 0 ? c->next : c->first, diag);
    }
    if (r->observer && st == DOP_OK)
        r->observer->begin(r->observer->user, "submit");
    const bool observed = r->observer && st == DOP_OK;
    st = end_batches(&b, st, diag, out_ticket);
    if (st == DOP_OK)
        dop_replay_note_submission(r, c->next, c->n);
    if (observed)
        r->observer->end(r->observer->user);
    return st;
}

dop_status
dop_replay_clear(dop_replay *replay, dop_clear what, dop_diag *diag, uint64_t *out_ticket)
{
    return submit_commands(replay, &replay->clear[what], 1, diag, out_ticket);
}

/* Makes all writes of earlier commands visible to all later ones. */
static void
barrier_of_all(VkCommandBuffer commands)
{
    record_barrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                   VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT,
                   VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT | VK_ACCESS_HOST_READ_BIT);
}

dop_status
dop_replay_begin(dop_replay *replay, dop_diag *diag, VkCommandBuffer *out_commands)
{
    dop_replay *r = replay;
    if (r->piece)
        vkFreeCommandBuffers(r->device->handle, r->pool, 1, &r->piece);
    r->piece = VK_NULL_HANDLE;
    dop_status st = allocate_commands(r, r->pool, 1, &r->piece, diag);
    if (st == DOP_OK)
        st = dop_device_begin(r->piece, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, diag);
    if (st != DOP_OK)
        return st;
    barrier_of_all(r->piece);
    *out_commands = r->piece;
    return DOP_OK;
}

dop_status
dop_replay_end(dop_replay *replay, dop_diag *diag, uint64_t *out_ticket)
{
    barrier_of_all(replay->piece);
    VkResult res = vkEndCommandBuffer(replay->piece);
    return res == VK_SUCCESS ? submit_commands(replay, &replay->piece, 1, diag, out_ticket)
                             : DOP_VK_FAIL(diag, res, "vkEndCommandBuffer");
}

static dop_status
record_state_copies(dop_replay *r, const dop_memory *from, dop_diag *diag)
{
    dop_status st = start_recording(r, r->copy, diag);
    if (st != DOP_OK)
        return st;
    record_barrier(r->copy, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                   VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    for (uint32_t i = 0; i < r->plan->n_slots; i++) {
        const dop_slot_place *to = &r->memory->places[i], *at = &from->places[i];
        if (r->plan->slots[i].kind != DOP_SLOT_STATE || to->block == UINT32_MAX)
            continue;
        VkBuffer source = from->blocks[at->block].buffer, target = r->memory->blocks[to->block].buffer;
        bool pieces = false;
        for (uint32_t k = 0; k < r->memory->n_pieces; k++) {
            const dop_piece *p = &r->memory->pieces[k];
            VkBufferCopy copy = {.srcOffset = at->offset + p->from, .dstOffset = to->offset + p->to, .size = p->size};
            if (p->slot != i || p->size == 0)
                continue;
            pieces = true;
            vkCmdCopyBuffer(r->copy, source, target, 1, &copy);
        }
        VkBufferCopy whole = {.srcOffset = at->offset, .dstOffset = to->offset, .size = to->size};
        if (!pieces)
            vkCmdCopyBuffer(r->copy, source, target, 1, &whole);
    }
    record_barrier(r->copy, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                   VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    const VkResult res = vkEndCommandBuffer(r->copy);
    return res == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, res, "vkEndCommandBuffer");
}

dop_status
dop_replay_copy_states(dop_replay *replay, const dop_memory *from, dop_diag *diag, uint64_t *out_ticket)
{
    dop_status st = DOP_OK;
    if (!replay->copy && (st = allocate_commands(replay, replay->pool, 1, &replay->copy, diag)) == DOP_OK)
        st = record_state_copies(replay, from, diag);
    return st == DOP_OK ? submit_commands(replay, &replay->copy, 1, diag, out_ticket) : st;
}

const float *
dop_replay_logits(const dop_replay *replay, uint32_t schedule)
{
    const dop_plan_schedule *s = &replay->plan->schedules[schedule];
    if (s->logits_slot == DOP_PLAN_NO_SLOT)
        return NULL;
    const uint8_t *host = dop_memory_host(replay->memory, s->logits_slot);
    return (const float *)(const void *)(host + s->logits_offset);
}

dop_status
dop_replay_fetch_logits(dop_replay *replay, uint32_t schedule, uint32_t row, dop_diag *diag)
{
    const dop_plan_schedule *s = &replay->plan->schedules[schedule];
    const uint64_t bytes = dop_plan_result_row_bytes(replay->plan, s);
    VkCommandBuffer commands;
    uint64_t ticket;
    if (!has_mirror(replay, s))
        return DOP_OK;
    DOP_RETURN_IF_ERROR(dop_replay_begin(replay, diag, &commands));
    record_mirror(replay, s, row * bytes, bytes, commands);
    DOP_RETURN_IF_ERROR(dop_replay_end(replay, diag, &ticket));
    return dop_replay_wait(replay, ticket, diag);
}

volatile dop_step *
dop_replay_step(const dop_replay *replay)
{
    return dop_memory_host(replay->memory, replay->plan->step_slot);
}

void
dop_replay_write_step(dop_replay *replay, const uint32_t *ids, uint32_t n, uint32_t pos, uint32_t parity)
{
    volatile dop_step *step = dop_replay_step(replay);
    step->n_rows = replay->n_rows = n;
    step->flags = 0;
    step->parity[0] = parity;
    for (uint32_t i = 0; i < n; i++)
        dop_replay_write_row(replay, i, &(dop_row){ids[i], pos + i, 0, 0});
}

void
dop_replay_write_row(dop_replay *replay, uint32_t i, const dop_row *row)
{
    volatile dop_row *to = &dop_replay_step(replay)->rows[i];
    to->token = row->token;
    to->position = row->position;
    to->sequence = row->sequence;
    to->flags = row->flags;
    replay->rows[i] = *row;
}
