/* Weights from the map to the device.
 *
 * The weights are cut into pieces that a few threads take one by one.  Where the device's memory is mapped a thread
 * copies its piece there.  Otherwise it copies it into one of its two staging buffers and submits a copy; while the
 * device reads one buffer the thread fills the other. */
#include "runtime/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 16 << 20,
    MAX_THREADS = 8,
    BUFFERS = 2, /* per thread */
};

typedef struct piece {
    const uint8_t *src;
    uint64_t size;   /* bytes */
    uint64_t offset; /* into the block */
    uint32_t block;
} piece;

typedef struct upload {
    dop_device *device;
    const dop_memory *memory;
    piece *pieces;
    uint32_t n_pieces;
    _Atomic uint32_t next;
    _Atomic bool failed;
} upload;

typedef struct worker {
    upload *up;
    dop_diag diag;
    dop_status st;
    pthread_t thread;
    bool started;
    VkCommandPool pool;
    VkCommandBuffer commands[BUFFERS];
    dop_block staging[BUFFERS];
    VkSemaphore timeline;
    uint64_t submitted; /* timeline value of the last submission; buffer i was used by value v with v % BUFFERS == i */
} worker;

/* The pages of a piece come in with one call instead of a fault for every few of them. */
static void
prefault(const uint8_t *p, uint64_t size)
{
#ifdef MADV_POPULATE_READ
    long page = sysconf(_SC_PAGESIZE);
    if (page <= 0)
        return;
    uintptr_t first = (uintptr_t)p & ~((uintptr_t)page - 1);
    uintptr_t end = ((uintptr_t)p + size) & ~((uintptr_t)page - 1);
    if (end > first)
        (void)madvise((void *)first, end - first, MADV_POPULATE_READ); /* only a hint: older kernels refuse it */
#else
    (void)p;
    (void)size;
#endif
}

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
    dop_status st = dop_device_timeline(d, diag, &w->timeline);
    for (int i = 0; i < BUFFERS && st == DOP_OK; i++)
        st = dop_block_create(
            d, PIECE_BYTES, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, 0,
            VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, diag, &w->staging[i]);
    return st;
}

static void
worker_finish(worker *w)
{
    dop_device *d = w->up->device;
    if (d->lost)
        return;
    for (int i = 0; i < BUFFERS; i++)
        dop_block_destroy(d, &w->staging[i]);
    vkDestroySemaphore(d->handle, w->timeline, NULL);
    vkDestroyCommandPool(d->handle, w->pool, NULL);
}

static dop_status
stage_piece(worker *w, const piece *p, dop_diag *diag)
{
    dop_device *d = w->up->device;
    uint64_t value = w->submitted + 1;
    uint32_t i = (uint32_t)(value % BUFFERS);
    dop_status st = DOP_OK;
    if (value > BUFFERS && (st = dop_device_wait(d, w->timeline, value - BUFFERS, diag)) != DOP_OK)
        return st;
    memcpy(w->staging[i].mapped, p->src, (size_t)p->size);
    VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    VkBufferCopy copy = {.srcOffset = 0, .dstOffset = p->offset, .size = p->size};
    VkResult r = vkBeginCommandBuffer(w->commands[i], &begin);
    if (r == VK_SUCCESS) {
        vkCmdCopyBuffer(w->commands[i], w->staging[i].buffer, w->up->memory->blocks[p->block].buffer, 1, &copy);
        r = vkEndCommandBuffer(w->commands[i]);
    }
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "recording a copy");
    VkTimelineSemaphoreSubmitInfo values = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value,
    };
    VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &values,
        .commandBufferCount = 1,
        .pCommandBuffers = &w->commands[i],
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &w->timeline,
    };
    st = dop_device_submit(d, d->transfer, &submit, diag);
    if (st == DOP_OK)
        w->submitted = value;
    return st;
}

static void *
worker_main(void *arg)
{
    worker *w = arg;
    upload *up = w->up;
    while (w->st == DOP_OK && !atomic_load(&up->failed)) {
        uint32_t i = atomic_fetch_add(&up->next, 1);
        if (i >= up->n_pieces)
            break;
        const piece *p = &up->pieces[i];
        uint8_t *mapped = up->memory->blocks[p->block].mapped;
        prefault(p->src, p->size);
        if (mapped)
            memcpy(mapped + p->offset, p->src, (size_t)p->size);
        else if (w->pool || (w->st = worker_init(w, &w->diag)) == DOP_OK)
            w->st = stage_piece(w, p, &w->diag);
    }
    if (w->submitted > 0 && w->st == DOP_OK)
        w->st = dop_device_wait(up->device, w->timeline, w->submitted, &w->diag);
    if (w->st != DOP_OK)
        atomic_store(&up->failed, true);
    return NULL;
}

static dop_status
cut_pieces(const dop_plan *plan, const dop_memory *memory, upload *up, dop_diag *diag)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < plan->n_slots; i++)
        if (plan->slots[i].kind == DOP_SLOT_WEIGHTS && memory->places[i].block != UINT32_MAX)
            n += (plan->slots[i].size + PIECE_BYTES - 1) / PIECE_BYTES;
    if (n > UINT32_MAX / 2)
        return DOP_FAIL(diag, DOP_E_INPUT, "the weights are too large");
    up->pieces = calloc(n ? n : 1, sizeof *up->pieces);
    if (!up->pieces)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < plan->n_slots; i++) {
        const dop_plan_slot *s = &plan->slots[i];
        const dop_place *pl = &memory->places[i];
        if (s->kind != DOP_SLOT_WEIGHTS || pl->block == UINT32_MAX)
            continue;
        const uint8_t *src = dop_plan_slot_bytes(plan, i);
        for (uint64_t at = 0; at < s->size; at += PIECE_BYTES) {
            uint64_t left = s->size - at;
            up->pieces[up->n_pieces++] =
                (piece){src + at, left < PIECE_BYTES ? left : PIECE_BYTES, pl->offset + at, pl->block};
        }
    }
    return DOP_OK;
}

dop_status
dop_upload_weights(dop_device *device, const dop_plan *plan, const dop_memory *memory, uint32_t n_threads,
                   dop_diag *diag)
{
    upload up = {.device = device, .memory = memory};
    dop_status st = cut_pieces(plan, memory, &up, diag);
    if (st != DOP_OK)
        return st;
    uint32_t n = n_threads < MAX_THREADS ? n_threads : MAX_THREADS;
    if (n > up.n_pieces)
        n = up.n_pieces;
    if (n == 0)
        n = 1;
    worker workers[MAX_THREADS];
    memset(workers, 0, sizeof workers);
    for (uint32_t i = 0; i < n; i++)
        workers[i].up = &up;
    for (uint32_t i = 1; i < n; i++)
        workers[i].started = pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) == 0;
    worker_main(&workers[0]);
    for (uint32_t i = 1; i < n; i++)
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
    for (uint32_t i = 0; i < n; i++) {
        if (st == DOP_OK && workers[i].st != DOP_OK) {
            st = workers[i].st;
            if (diag)
                *diag = workers[i].diag;
        }
        worker_finish(&workers[i]);
    }
    free(up.pieces);
    return st;
}
