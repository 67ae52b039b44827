/* Device memory of a plan: every slot placed in as few allocations as the device allows.
 *
 * Slots of the same use share one buffer with its own allocation until the device's limit for one allocation is
 * reached; a slot never crosses one.  On a GPU with its own memory, weights lie in smaller allocations, so that the
 * first ones are filled while the others are being made: a driver takes 20 ms and more for a GiB.  What the host writes
 * (the step record) is mapped; logits are mapped where that is as fast for the device, and otherwise have a mirror in
 * host memory, to which a replay copies on request.  Values that cross from part to part always have a mirror. */
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
    uint64_t size;   /* bytes */
    uint8_t *mapped; /* NULL when the host does not see it */
    bool cached;     /* mapped: the host reads it through its caches; else only writes are fast */
    uint32_t pool;
    bool allocated; /* guarded by dop_memory.lock until all blocks are allocated */
} dop_block;

typedef struct dop_slot_place {
    uint32_t block;  /* UINT32_MAX: the slot is not used by the chosen schedules */
    uint32_t mirror; /* block of the host's copy of a RESULT, RECEIVED or SENT slot; UINT32_MAX: it is used in place */
    uint64_t offset; /* bytes into the block */
    uint64_t size;   /* bytes */
    uint64_t mirror_offset;
} dop_slot_place;

/* A state of which a memory holds only the first rows. */
typedef struct dop_piece {
    uint32_t slot;
    uint64_t from, to; /* bytes into the slot: as the plan has it, and in this memory */
    uint64_t size;     /* bytes in this memory; 0: it lies as the plan says, with its whole slot */
} dop_piece;

/* Whether the host writes weights straight into device memory and reads logits there. */
typedef enum dop_sharing {
    DOP_SHARING_AUTO, /* both where device memory is host memory, only weights where all of it can be mapped */
    DOP_SHARING_ON,   /* wherever the host can see device memory */
    DOP_SHARING_OFF   /* staging buffers and mirrors, as on a discrete GPU with a small window */
} dop_sharing;

typedef struct dop_memory {
    dop_device *device;
    bool shared;  /* the host uses device memory itself: no staging, no mirrors */
    bool written; /* weights are written by the host: no staging */
    dop_block *blocks;
    uint32_t n_blocks, cap_blocks;
    uint32_t first_borrowed; /* blocks from here on belong to another memory; UINT32_MAX: none */
    dop_slot_place *places;  /* one per slot of the plan */
    dop_piece *pieces;       /* sorted by slot and `from`: all states of slots that are shorter than the plan says */
    uint32_t n_places, n_pieces;
    uint64_t bytes[DOP_SLOT_SENT + 1]; /* by DOP_SLOT_*, of the slots in use */
    uint64_t total;                    /* bytes of all device allocations */
    dop_views views;                   /* of the slots that kernels read so */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool lock_made, failed; /* failed: a block could not be allocated, and no more will be */
} dop_memory;

/* What the chosen schedules need. */
typedef struct dop_memory_use {
    const bool *slots;         /* by row of the plan */
    const uint32_t *schedules; /* [n], rows of the plan */
    uint32_t n;
    dop_sharing sharing;
    uint32_t positions; /* only this many of one sequence are needed; 0: all that the plan says */
} dop_memory_use;

/* Gives every slot its place.  Logs sizes and decision before anything is allocated; fails with the same numbers
 * when they do not fit. */
dop_status dop_memory_place(dop_device *device, const dop_plan *plan, const dop_memory_use *use, const dop_log *log,
                            dop_diag *diag, dop_memory *out_memory);
/* memory_fit.c: the last step of that, when all slots have places.  available: bytes of free device memory.  If more than nine
 * tenths of them are needed, it lists compiler options that would save memory, and how much. */
dop_status dop_memory_check_fit(const dop_memory *memory, const dop_plan *plan, const dop_memory_use *use,
                                uint64_t available, const dop_log *log, dop_diag *diag);
/* Allocates all blocks, those of weights first. */
dop_status dop_memory_allocate(dop_memory *memory, const dop_plan *plan, dop_diag *diag);
/* A second memory for the same plan, placed and allocated: all slots in use except those of weights, for which it uses the
 * places in `base`, which must outlive it. */
dop_status dop_memory_beside(const dop_memory *base, const dop_plan *plan, const dop_memory_use *use, dop_diag *diag,
                             dop_memory *out_memory);
/* For other threads: waits until a block is allocated; NULL when it will not be. */
const dop_block *dop_memory_wait(dop_memory *memory, uint32_t block);
/* Declares that nothing more will be allocated, so that nobody waits for it. */
void dop_memory_give_up(dop_memory *memory);
void dop_memory_destroy(dop_memory *memory); /* accepts a zeroed one */

VkDeviceAddress dop_memory_address(const dop_memory *memory, uint32_t slot, uint64_t offset);

/* The eight bytes of an argument as kernels get them: an address, numbers, or the number of a texel. */
uint64_t dop_memory_arg(const dop_memory *memory, const dop_plan_arg *arg);
/* Binds the views that the dispatch reads through.  io_bound: the set that is bound for each view. */
void dop_memory_bind(const dop_memory *memory, const dop_plan *plan, const dop_plan_dispatch *dispatch,
                     VkPipelineLayout layout, VkDescriptorSet io_bound[DOP_N_VIEWS], VkCommandBuffer commands);
/* Where the host reads or writes a STEP, RESULT (the mirror if there is one), RECEIVED or SENT slot (the mirror); NULL for
 * others. */
void *dop_memory_host(const dop_memory *memory, uint32_t slot);

/* upload.c: threads that write the weights of all used slots, each as soon as its block is allocated. */
typedef struct dop_upload dop_upload;
enum { DOP_UPLOAD_MOST_STAGING = 32 << 20 }; /* bytes of host memory for staging buffers, where weights need them */

/* memory: placed, but not necessarily allocated yet.  Returns at once; spans gets one from here to the last byte. */
dop_status dop_upload_start(dop_device *device, const dop_plan *plan, dop_memory *memory, uint32_t n_threads,
                            dop_spans *spans, dop_diag *diag, dop_upload **out_upload);
/* Blocks until everything is on the device, and reports how much is; after dop_memory_allocate. */
dop_status dop_upload_wait(dop_upload *upload, const dop_progress *progress, dop_diag *diag);
/* Ends the threads, which free their staging buffers after the upload, or stop where it is not finished.
 * Accepts NULL. */
void dop_upload_destroy(dop_upload *upload);

/* One buffer with its own allocation, mapped if possible; prefer and avoid rank the memory types that have all required flags. */
dop_status dop_block_create(dop_device *device, uint64_t size, VkMemoryPropertyFlags required,
                            VkMemoryPropertyFlags prefer, VkMemoryPropertyFlags avoid, dop_diag *diag,
                            dop_block *out_block);
void dop_block_destroy(dop_device *device, dop_block *block); /* accepts a zeroed one */

#endif
