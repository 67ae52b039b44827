/* Uploads weights from the mapped file to the device.
 *
 * A few threads process the weights in pieces. If the host can map device memory, a thread copies its piece there
 * directly. That is as fast as PCIe and does not need the driver, which is busy with allocations and pipelines and does
 * one thing at a time. Otherwise the thread copies into one of its two staging buffers and submits a transfer; it fills
 * one buffer while the device reads the other. Buffers are few and small: a driver needs milliseconds for each, and
 * four threads fill them faster than PCIe drains them.
 *
 * No disk reads happen here: the threads that check the digests have already read the pages. */
#include "base/parallel.h"
#include "plan/plan_ranges.h"
#include "runtime/device/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_COPIERS = 4,  /* threads that fill staging buffers */
    MAX_WRITERS = 16, /* threads that write to mapped memory; most of their time goes to first-touch page faults */
    BUFFERS = 2,      /* staging buffers per thread */
    PIECE_BYTES = DOP_UPLOAD_MOST_STAGING / (MAX_COPIERS * BUFFERS),
};

typedef struct piece {
    uint32_t slot;
    uint64_t at;     /* byte offset in the slot */
    uint64_t size;   /* in bytes */
    uint64_t offset; /* byte offset in the block */
    uint32_t block;
} piece;

typedef struct worker {
    dop_upload *up;
    dop_diag diag;
    dop_status st;
    VkCommandPool pool;
    VkCommandBuffer commands[BUFFERS];
    dop_block staging[BUFFERS];
    VkSemaphore timeline;
    uint64_t submitted; /* timeline value of the last submission; value v uses buffer v % BUFFERS */
} worker;

struct dop_upload {
    dop_device *device;
    const dop_plan *plan;
    dop_memory *memory;
    dop_spans *spans;
    uint32_t span;
    piece *pieces;
    uint32_t n_pieces;
    _Atomic uint32_t next;
    _Atomic bool stop; /* stop copying: a copy failed, or the upload is cancelled */
    worker workers[MAX_WRITERS];
    uint32_t n_workers;
    dop_team team;    /* the upload threads */
    bool inline_only; /* no thread could be created: dop_upload_wait copies in its caller's thread */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t n_busy;         /* workers that are not finished; guarded by the lock */
    uint64_t written, bytes; /* bytes of all pieces: done (guarded by the lock), and in total */
};

static dop_status
worker_init(worker *w, dop_diag *diag)
{
    dop_device *d = w->up->device;
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = d->info.transfer_family,
    };
    VkResult r = vkCreateCommandPool(d->handle, &pool, NULL, &w->pool);
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "vkCreateCommandPool");
    VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = w->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = BUFFERS,
    };
    r = vkAllocateCommandBuffers(d->handle, &commands, w->commands);
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "vkAllocateCommandBuffers");
    return dop_device_timeline(d, diag, &w->timeline);
}

static void
worker_finish(worker *w)
{
    dop_device *d = w->up->device;
    if (d->hung)
        return;
    for (int i = 0; i < BUFFERS; i++)
        dop_block_destroy(d, &w->staging[i]);
    vkDestroySemaphore(d->handle, w->timeline, NULL);
    vkDestroyCommandPool(d->handle, w->pool, NULL);
}

/* Prepares staging buffer i of the worker: creates it if needed, and waits until the device no longer reads it. */
static dop_status
free_buffer(worker *w, uint64_t value, uint32_t i, dop_diag *diag)
{
    dop_device *d = w->up->device;
    if (!w->pool)
        DOP_RETURN_IF_ERROR(worker_init(w, diag));
    if (!w->staging[i].buffer)
        DOP_RETURN_IF_ERROR(dop_block_create(
            d, PIECE_BYTES, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
            VK_MEMORY_PROPERTY_HOST_CACHED_BIT, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, diag, &w->staging[i]));
    if (value > BUFFERS)
        DOP_RETURN_IF_ERROR(dop_device_wait(d, w->timeline, value - BUFFERS, diag));
    return DOP_OK;
}

static dop_status
submit_copy(worker *w, const piece *p, VkBuffer to, uint64_t value, uint32_t i, dop_diag *diag)
{
    VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    VkBufferCopy copy = {.srcOffset = 0, .dstOffset = p->offset, .size = p->size};
    VkResult r = vkBeginCommandBuffer(w->commands[i], &begin);
    if (r == VK_SUCCESS) {
        vkCmdCopyBuffer(w->commands[i], w->staging[i].buffer, to, 1, &copy);
        r = vkEndCommandBuffer(w->commands[i]);
    }
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "recording a copy");
    return dop_device_submit(w->up->device, w->up->device->transfer, &w->commands[i], 1, w->timeline, value, diag);
}

/* Uploads one piece. *out_wanted: false if its block will not be allocated; the allocating function reports that
 * error. */
static dop_status
write_piece(worker *w, const piece *p, bool *out_wanted, dop_diag *diag)
{
    const dop_block *b = dop_memory_wait(w->up->memory, p->block);
    *out_wanted = b != NULL;
    if (!b)
        return DOP_OK;
    if (b->mapped) {
        dop_plan_copy_slot(w->up->plan, p->slot, p->at, p->size, b->mapped + p->offset);
        return DOP_OK;
    }
    uint64_t value = w->submitted + 1;
    uint32_t i = (uint32_t)(value % BUFFERS);
    dop_status st = free_buffer(w, value, i, diag);
    if (st != DOP_OK)
        return st;
    dop_plan_copy_slot(w->up->plan, p->slot, p->at, p->size, w->staging[i].mapped);
    if ((st = submit_copy(w, p, b->buffer, value, i, diag)) == DOP_OK)
        w->submitted = value;
    return st;
}

static void
upload_pieces(void *user, uint32_t member)
{
    dop_upload *up = user;
    worker *w = &up->workers[member];
    bool wanted = true;
    while (w->st == DOP_OK && wanted && !atomic_load(&up->stop)) {
        uint32_t i = atomic_fetch_add(&up->next, 1);
        if (i >= up->n_pieces)
            break;
        w->st = write_piece(w, &up->pieces[i], &wanted, &w->diag);
        pthread_mutex_lock(&up->lock);
        up->written += up->pieces[i].size;
        pthread_cond_broadcast(&up->changed);
        pthread_mutex_unlock(&up->lock);
    }
    if (w->submitted > 0 && w->st == DOP_OK)
        w->st = dop_device_wait(up->device, w->timeline, w->submitted, &w->diag);
    if (w->st != DOP_OK)
        atomic_store(&up->stop, true);
    pthread_mutex_lock(&up->lock);
    if (--up->n_busy == 0)
        dop_spans_end(up->spans, up->span);
    pthread_cond_broadcast(&up->changed);
    pthread_mutex_unlock(&up->lock);
    worker_finish(w);
}

static dop_status
cut_pieces(const dop_plan *plan, const dop_memory *memory, dop_upload *up, dop_diag *diag)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < plan->n_slots; i++)
        if (plan->slots[i].kind == DOP_SLOT_WEIGHTS && memory->places[i].block != UINT32_MAX)
            n += (plan->slots[i].size + PIECE_BYTES - 1) / PIECE_BYTES;
    if (n > UINT32_MAX / 2)
        return DOP_FAIL(diag, DOP_E_INPUT, "the weights are too large");
    up->pieces = calloc(n ? n : 1, sizeof *up->pieces);
    if (!up->pieces)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < plan->n_slots; i++) {
        const dop_plan_slot *s = &plan->slots[i];
        const dop_slot_place *pl = &memory->places[i];
        if (s->kind != DOP_SLOT_WEIGHTS || pl->block == UINT32_MAX)
            continue;
        for (uint64_t at = 0; at < s->size; at += PIECE_BYTES) {
            uint64_t left = s->size - at;
            up->bytes += left < PIECE_BYTES ? left : PIECE_BYTES;
            up->pieces[up->n_pieces++] =
                (piece){i, at, left < PIECE_BYTES ? left : PIECE_BYTES, pl->offset + at, pl->block};
        }
    }
    return DOP_OK;
}

dop_status
dop_upload_start(dop_device *device, const dop_plan *plan, dop_memory *memory, uint32_t n_threads, dop_spans *spans,
                 dop_diag *diag, dop_upload **out_upload)
{
    *out_upload = NULL;
    dop_upload *up = calloc(1, sizeof *up);
    if (!up)
        return DOP_NO_MEMORY(diag);
    up->device = device;
    up->plan = plan;
    up->memory = memory;
    up->spans = spans;
    bool lock = pthread_mutex_init(&up->lock, NULL) == 0, cond = pthread_cond_init(&up->changed, NULL) == 0;
    dop_status st = cut_pieces(plan, memory, up, diag);
    if (st == DOP_OK && !(lock && cond))
        st = DOP_FAIL(diag, DOP_E_NOMEM, "cannot make a lock");
    if (st != DOP_OK) {
        if (lock)
            pthread_mutex_destroy(&up->lock);
        if (cond)
            pthread_cond_destroy(&up->changed);
        free(up->pieces);
        free(up);
        return st;
    }
    uint32_t most = memory->written ? MAX_WRITERS : MAX_COPIERS, n = n_threads < most ? n_threads : most;
    n = n > up->n_pieces ? up->n_pieces : n;
    up->n_workers = n ? n : 1;
    up->span = dop_spans_begin(spans, "upload");
    /* set before any worker starts, so that the first one to finish does not reach zero early */
    up->n_busy = up->n_workers;
    for (uint32_t i = 0; i < up->n_workers; i++)
        up->workers[i].up = up;
    uint32_t started = dop_team_start(&up->team, up->n_workers, upload_pieces, up);
    up->inline_only = started == 0;
    pthread_mutex_lock(&up->lock);
    up->n_busy -= up->n_workers - started;
    if (up->inline_only)
        up->n_busy = 1;
    pthread_mutex_unlock(&up->lock);
    *out_upload = up;
    return DOP_OK;
}

dop_status
dop_upload_wait(dop_upload *upload, const dop_progress *progress, dop_diag *diag)
{
    dop_upload *up = upload;
    dop_status st = DOP_OK;
    uint64_t shown = 0;
    if (up->inline_only) {
        up->inline_only = false;
        upload_pieces(up, 0);
    }
    pthread_mutex_lock(&up->lock);
    while (up->n_busy > 0 && st == DOP_OK) {
        pthread_cond_wait(&up->changed, &up->lock);
        if (!progress->fn || up->written == shown)
            continue;
        shown = up->written;
        pthread_mutex_unlock(&up->lock);
        if (!dop_progress_report(progress, "weights", shown, up->bytes))
            st = DOP_CANCELLED(diag);
        pthread_mutex_lock(&up->lock);
    }
    pthread_mutex_unlock(&up->lock);
    if (st != DOP_OK) /* dop_upload_destroy ends the threads */
        return st;
    for (uint32_t i = 0; i < up->n_workers; i++)
        if (up->workers[i].st != DOP_OK) {
            if (diag)
                *diag = up->workers[i].diag;
            return up->workers[i].st;
        }
    /* Report completion even if the upload ended before this call. */
    return shown == up->bytes || dop_progress_report(progress, "weights", up->bytes, up->bytes) ? DOP_OK
                                                                                                : DOP_CANCELLED(diag);
}

void
dop_upload_destroy(dop_upload *upload)
{
    if (!upload)
        return;
    atomic_store(&upload->stop, true);
    dop_memory_give_up(upload->memory);
    dop_team_join(&upload->team);
    pthread_mutex_destroy(&upload->lock);
    pthread_cond_destroy(&upload->changed);
    free(upload->pieces);
    free(upload);
}
