/* Device memory of a plan. Places every slot in as few allocations as the device allows.
 *
 * Slots of the same use share a buffer with one allocation, up to the device's allocation limit; a slot never spans
 * two. On discrete GPUs, weights use smaller allocations, because a driver needs 20 ms and more per GiB: uploads to the
 * first ones overlap with allocating the rest. Memory that the host writes (the step record) is mapped. Logits are
 * mapped if that is as fast for the device; otherwise they have a mirror in host memory, to which a replay copies on
 * request. Values that cross between parts always have a mirror. */
#ifndef DOPPLER_RUNTIME_DEVICE_MEMORY_H
#define DOPPLER_RUNTIME_DEVICE_MEMORY_H

#include "base/os/log.h"
#include "base/progress.h"
#include "base/spans.h"
#include "plan/plan.h"
#include "runtime/device/device.h"
#include "runtime/device/views.h"

typedef struct dop_block {
    VkDeviceMemory memory;
    VkBuffer buffer;
    VkDeviceAddress address;
    uint64_t size;   /* in bytes */
    uint8_t *mapped; /* host address; NULL if not mapped */
    bool cached;     /* mapped memory is cached by the host; otherwise only writes are fast */
    uint32_t pool;
    bool allocated; /* guarded by dop_memory.lock until all blocks are allocated */
} dop_block;

typedef struct dop_slot_place {
    uint32_t block;  /* UINT32_MAX: the chosen schedules do not use the slot */
    uint32_t mirror; /* block of the host copy of a RESULT, RECEIVED or SENT slot; UINT32_MAX: used in place */
    uint64_t offset; /* byte offset in the block */
    uint64_t size;   /* in bytes */
    uint64_t mirror_offset;
} dop_slot_place;

/* A state of which this memory holds only the first rows. */
typedef struct dop_piece {
    uint32_t slot;
    uint64_t from, to; /* byte offsets in the slot: in the plan, and in this memory */
    uint64_t size;     /* bytes in this memory; 0: the whole slot is laid out as in the plan */
} dop_piece;

/* Whether the host accesses device memory directly: writes weights to it and reads logits from it. */
typedef enum dop_sharing {
    /* weights and logits if device and host share memory; only weights if the host can map all of it */
    DOP_SHARING_AUTO,
    DOP_SHARING_ON, /* wherever the host can map device memory */
    DOP_SHARING_OFF /* staging buffers and mirrors, as on a discrete GPU with a small BAR */
} dop_sharing;

typedef struct dop_memory {
    dop_device *device;
    bool shared;  /* the host reads and writes device memory directly: no staging, no mirrors */
    bool written; /* the host writes weights directly: no staging */
    dop_block *blocks;
    uint32_t n_blocks, cap_blocks;
    uint32_t first_borrowed; /* blocks from here on belong to another memory; UINT32_MAX: none */
    dop_slot_place *places;  /* by slot of the plan */
    dop_piece *pieces;       /* shortened states, sorted by slot and `from`; lists all states of a slot that has any */
    uint32_t n_places, n_pieces;
    uint64_t bytes[DOP_SLOT_SENT + 1]; /* by DOP_SLOT_*: bytes of the slots in use */
    uint64_t total;                    /* total bytes of all device allocations */
    dop_views views;                   /* texel buffer views of the blocks that kernels read through them */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool lock_made, failed; /* failed: a block could not be allocated, and no more will be */
} dop_memory;

/* Requirements of the chosen schedules. */
typedef struct dop_memory_use {
    const bool *slots;         /* by slot of the plan: true if used */
    const uint32_t *schedules; /* [n] indices in the plan's schedules */
    uint32_t n;
    dop_sharing sharing;
    uint32_t positions; /* number of positions that one sequence needs; 0: as many as the plan says */
} dop_memory_use;

/* Places every slot. Logs the sizes before anything is allocated, and fails with the same numbers if they do not
 * fit. */
dop_status dop_memory_place(dop_device *device, const dop_plan *plan, const dop_memory_use *use, const dop_log *log,
                            dop_diag *diag, dop_memory *out_memory);
/* memory_fit.c: final check of dop_memory_place. available: free device memory in bytes. If more than 90% of it is
 * needed, also lists compiler options that would save memory, with amounts. */
dop_status dop_memory_check_fit(const dop_memory *memory, const dop_plan *plan, const dop_memory_use *use,
                                uint64_t available, const dop_log *log, dop_diag *diag);
/* Allocates all blocks, weights first. */
dop_status dop_memory_allocate(dop_memory *memory, const dop_plan *plan, dop_diag *diag);
/* Places and allocates a second memory for the same plan. It has its own copy of all used slots except weights, which
 * it shares with `base`. `base` must outlive it. */
dop_status dop_memory_beside(const dop_memory *base, const dop_plan *plan, const dop_memory_use *use, dop_diag *diag,
                             dop_memory *out_memory);
/* Waits from another thread until a block is allocated. Returns NULL if it will not be. */
const dop_block *dop_memory_wait(dop_memory *memory, uint32_t block);
/* Declares that nothing more will be allocated, which ends all waits for blocks. */
void dop_memory_give_up(dop_memory *memory);
void dop_memory_destroy(dop_memory *memory); /* accepts a zeroed one */

VkDeviceAddress dop_memory_address(const dop_memory *memory, uint32_t slot, uint64_t offset);

/* Returns the 8 bytes that a kernel gets for an argument: a device address, numbers, or a texel index. */
uint64_t dop_memory_arg(const dop_memory *memory, const dop_plan_arg *arg);
/* Binds the views that the dispatch reads through. io_bound: descriptor set currently bound for each view. */
void dop_memory_bind(const dop_memory *memory, const dop_plan *plan, const dop_plan_dispatch *dispatch,
                     VkPipelineLayout layout, VkDescriptorSet io_bound[DOP_N_VIEWS], VkCommandBuffer commands);
/* Returns the host address of a STEP, RESULT (its mirror if there is one), RECEIVED or SENT slot (its mirror); NULL for
 * others. */
void *dop_memory_host(const dop_memory *memory, uint32_t slot);

/* upload.c: threads that upload the weights of all used slots, each as soon as its block is allocated. */
typedef struct dop_upload dop_upload;
enum { DOP_UPLOAD_MOST_STAGING = 32 << 20 }; /* bytes of host memory for staging buffers, if weights need them */

/* Starts the upload and returns at once. memory: placed, but not necessarily allocated yet. Adds one span to `spans`,
 * from now to the last byte. */
dop_status dop_upload_start(dop_device *device, const dop_plan *plan, dop_memory *memory, uint32_t n_threads,
                            dop_spans *spans, dop_diag *diag, dop_upload **out_upload);
/* Waits until all weights are on the device, and reports progress. Call after dop_memory_allocate. */
dop_status dop_upload_wait(dop_upload *upload, const dop_progress *progress, dop_diag *diag);
/* Ends the threads, which free their staging buffers after the upload, or stop if it is not finished. Accepts NULL. */
void dop_upload_destroy(dop_upload *upload);

/* Creates one buffer with its own allocation, mapped if possible. `prefer` and `avoid` rank the memory types that have
 * all required flags. */
dop_status dop_block_create(dop_device *device, uint64_t size, VkMemoryPropertyFlags required,
                            VkMemoryPropertyFlags prefer, VkMemoryPropertyFlags avoid, dop_diag *diag,
                            dop_block *out_block);
void dop_block_destroy(dop_device *device, dop_block *block); /* accepts a zeroed one */

#endif
