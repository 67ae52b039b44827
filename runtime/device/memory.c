#include "runtime/device/memory.h"

#include "base/os/system.h"
#include "plan/plan_names.h"

#include <stdlib.h>
#include <string.h>

/* Alignment of slots in bytes, the largest that any Vulkan device requires for buffers. */
enum { SLOT_ALIGN = 256 };

/* Extra rows after the end of a shortened state, which kernels may read but do not use. */
enum { STATE_TAIL = 32 };

/* Preferred size in bytes of an allocation of weights, so that uploads and allocations overlap. A single larger slot
 * exceeds it. */
enum { WEIGHTS_BLOCK = 256 << 20 };

typedef enum pool {
    POOL_WEIGHTS,
    POOL_WORK, /* states, scratch, and memory through which kernels of a step communicate */
    POOL_STEP,
    POOL_RESULT,
    POOL_MIRROR,
} pool;

static const double mib = 1024.0 * 1024.0;

static pool
pool_of(uint32_t kind)
{
    switch (kind) {
    case DOP_SLOT_WEIGHTS:
        return POOL_WEIGHTS;
    case DOP_SLOT_STEP:
        return POOL_STEP;
    case DOP_SLOT_RESULT:
        return POOL_RESULT;
    default:
        return POOL_WORK;
    }
}

static uint32_t
pick_type(const VkPhysicalDeviceMemoryProperties *m, uint32_t allowed, VkMemoryPropertyFlags required,
          VkMemoryPropertyFlags prefer, VkMemoryPropertyFlags avoid)
{
    uint32_t best = UINT32_MAX;
    int best_score = 0;
    for (uint32_t i = 0; i < m->memoryTypeCount; i++) {
        VkMemoryPropertyFlags f = m->memoryTypes[i].propertyFlags;
        if (!(allowed >> i & 1) || (f & required) != required)
            continue;
        int score = 2 * __builtin_popcount(f & prefer) - __builtin_popcount(f & avoid);
        if (best == UINT32_MAX || score > best_score) {
            best = i;
            best_score = score;
        }
    }
    return best;
}

/* Allocates from the most suitable memory type, or from the next best if that is full (for example a small BAR). */
static dop_status
allocate_best_type(dop_device *device, const VkMemoryRequirements *need, VkMemoryPropertyFlags required,
                   VkMemoryPropertyFlags prefer, VkMemoryPropertyFlags avoid, dop_diag *diag, uint32_t *out_type,
                   VkDeviceMemory *out_memory)
{
    const VkPhysicalDeviceMemoryProperties *m = &device->info.memory;
    const VkMemoryAllocateFlagsInfo flags = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
    };
    uint32_t allowed = need->memoryTypeBits, type;
    VkResult first = VK_SUCCESS;
    while ((type = pick_type(m, allowed, required, prefer, avoid)) != UINT32_MAX) {
        VkMemoryAllocateInfo info = {
            .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
            .pNext = &flags,
            .allocationSize = need->size,
            .memoryTypeIndex = type,
        };
        VkResult r = vkAllocateMemory(device->handle, &info, NULL, out_memory);
        device->allocations++;
        *out_type = type;
        if (r == VK_SUCCESS) {
            device->second_best += first != VK_SUCCESS;
            return DOP_OK;
        }
        *out_memory = VK_NULL_HANDLE;
        first = first == VK_SUCCESS ? r : first;
        if (r != VK_ERROR_OUT_OF_DEVICE_MEMORY)
            break;
        allowed &= ~((uint32_t)1 << type);
    }
    if (first != VK_SUCCESS)
        return DOP_VK_FAIL(diag, first, "allocating device memory");
    return DOP_FAIL(diag, DOP_E_DEVICE,
                    "%s has no memory %s and that takes buffers: update the driver, or choose another `device`",
                    device->info.caps.name,
                    required & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT ? "of its own" : "that the host can map");
}

static dop_status
create_block(dop_device *device, uint64_t size, VkMemoryPropertyFlags required, VkMemoryPropertyFlags prefer,
             VkMemoryPropertyFlags avoid, bool map, dop_diag *diag, dop_block *out_block)
{
    dop_status st = DOP_OK;
    dop_block *b = out_block;
    memset(b, 0, sizeof *b);
    b->size = size;
    const uint32_t families[2] = {device->info.queue_family, device->info.transfer_family};
    bool shared = families[0] != families[1];
    VkBufferCreateInfo buffer = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = size,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
                 (device->view_layout ? VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT : 0),
        .sharingMode = shared ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
        .queueFamilyIndexCount = shared ? 2 : 0,
        .pQueueFamilyIndices = families,
    };
    VkResult r = vkCreateBuffer(device->handle, &buffer, NULL, &b->buffer);
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "vkCreateBuffer");
    VkMemoryRequirements need;
    vkGetBufferMemoryRequirements(device->handle, b->buffer, &need);
    uint32_t type = UINT32_MAX;
    if ((st = allocate_best_type(device, &need, required, prefer, avoid, diag, &type, &b->memory)) != DOP_OK)
        goto error;
    r = vkBindBufferMemory(device->handle, b->buffer, b->memory, 0);
    VkMemoryPropertyFlags has = device->info.memory.memoryTypes[type].propertyFlags;
    const VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    if (r == VK_SUCCESS && map && (has & visible) == visible) {
        void *p = NULL;
        r = vkMapMemory(device->handle, b->memory, 0, VK_WHOLE_SIZE, 0, &p);
        b->mapped = p;
        b->cached = (has & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
    }
    if (r != VK_SUCCESS) {
        st = DOP_VK_FAIL(diag, r, "allocating device memory");
        goto error;
    }
    VkBufferDeviceAddressInfo address = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = b->buffer};
    b->address = vkGetBufferDeviceAddress(device->handle, &address);
error:
    if (st != DOP_OK)
        dop_block_destroy(device, b);
    return st;
}

dop_status
dop_block_create(dop_device *device, uint64_t size, VkMemoryPropertyFlags required, VkMemoryPropertyFlags prefer,
                 VkMemoryPropertyFlags avoid, dop_diag *diag, dop_block *out_block)
{
    return create_block(device, size, required, prefer, avoid, true, diag, out_block);
}

void
dop_block_destroy(dop_device *device, dop_block *block)
{
    if (device->handle && !device->hung) {
        vkDestroyBuffer(device->handle, block->buffer, NULL);
        vkFreeMemory(device->handle, block->memory, NULL);
    }
    memset(block, 0, sizeof *block);
}

/* Returns the free device memory in bytes, as reported by the driver or the system. */
static uint64_t
free_bytes(const dop_device *device)
{
    const dop_device_info *info = &device->info;
    if (info->caps.cpu) {
        const uint64_t bytes = dop_memory_free();
        return bytes ? bytes : info->caps.memory;
    }
    if (!info->has_budget)
        return info->caps.memory;
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 props = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                               .pNext = &budget};
    vkGetPhysicalDeviceMemoryProperties2(info->physical, &props);
    uint64_t best = 0;
    for (uint32_t i = 0; i < props.memoryProperties.memoryHeapCount; i++) {
        uint64_t used = budget.heapUsage[i], limit = budget.heapBudget[i];
        if ((props.memoryProperties.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && limit > used &&
            limit - used > best)
            best = limit - used;
    }
    return best;
}

/* Memory that is fast for the device and for the host's reads and writes. */
static const VkMemoryPropertyFlags good_for_both =
    VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
    VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

static bool
is_memory_shared(const dop_device_info *info, dop_sharing sharing)
{
    bool one_memory = info->type == VK_PHYSICAL_DEVICE_TYPE_CPU || info->type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    return sharing == DOP_SHARING_ON || (sharing == DOP_SHARING_AUTO && one_memory);
}

/* True if logits need a copy in host memory, because no memory type is fast for both device and host. */
static bool
needs_mirror(const dop_memory *m)
{
    return !m->shared || pick_type(&m->device->info.memory, UINT32_MAX, good_for_both, 0, 0) == UINT32_MAX;
}

static uint32_t
add_block(dop_memory *m, uint32_t pool_index)
{
    if (m->n_blocks == m->cap_blocks) {
        uint32_t cap = m->cap_blocks ? m->cap_blocks * 2 : 8;
        dop_block *p = realloc(m->blocks, cap * sizeof *p);
        if (!p)
            return UINT32_MAX;
        m->blocks = p;
        m->cap_blocks = cap;
    }
    memset(&m->blocks[m->n_blocks], 0, sizeof *m->blocks);
    m->blocks[m->n_blocks].pool = pool_index;
    return m->n_blocks++;
}

/* Places `size` bytes in the first block of the pool with enough space. Computes sizes only; nothing is allocated
 * yet. */
static dop_status
place_in_pool(dop_memory *m, uint64_t limit, uint32_t pool_index, const char *name, uint64_t size, uint32_t *out_block,
              uint64_t *out_offset, dop_diag *diag)
{
    uint64_t room = dop_align_u64(size, SLOT_ALIGN);
    uint64_t usual = pool_index == POOL_WEIGHTS && !m->shared && !m->device->view_layout && limit > WEIGHTS_BLOCK
                         ? WEIGHTS_BLOCK
                         : limit;
    if (room > limit)
        return DOP_FAIL(diag, DOP_E_DEVICE,
                        "slot %s needs %.1f MiB in one piece and %s allows %.1f MiB in one allocation: compile for "
                        "this device (`target` auto) or with a smaller `ctx`",
                        name, (double)size / mib, m->device->info.caps.name, (double)limit / mib);
    uint32_t i = 0;
    while (i < m->n_blocks && (m->blocks[i].pool != pool_index || m->blocks[i].size + room > usual))
        i++;
    if (i == m->n_blocks && (i = add_block(m, pool_index)) == UINT32_MAX)
        return DOP_NO_MEMORY(diag);
    *out_block = i;
    *out_offset = m->blocks[i].size;
    m->blocks[i].size += room;
    if (pool_index != POOL_MIRROR)
        m->total += room;
    return DOP_OK;
}

/* Returns how many bytes from the start of a slot the host reads after any used schedule. */
static uint64_t
count_read_bytes(const dop_plan *plan, const dop_memory_use *use, uint32_t slot)
{
    uint64_t most = 4;
    for (uint32_t i = 0; i < use->n; i++) {
        const dop_plan_schedule *s = &plan->schedules[use->schedules[i]];
        uint64_t end =
            s->logits_offset + dop_plan_result_bytes(plan, s); /* plan_check.c has checked that this lies in the slot */
        if (s->logits_slot == slot && end > most)
            most = end;
    }
    return most < plan->slots[slot].size ? most : plan->slots[slot].size;
}

static dop_status
place_slots(dop_memory *m, const dop_plan *plan, const dop_memory_use *use, dop_diag *diag)
{
    const dop_device_info *info = &m->device->info;
    uint64_t limit = info->caps.max_alloc < info->max_buffer ? info->caps.max_alloc : info->max_buffer;
    if (m->device->view_layout && limit > (uint64_t)DOP_VIEW_MAX_TEXELS * DOP_TEXEL_BYTES)
        limit = (uint64_t)DOP_VIEW_MAX_TEXELS * DOP_TEXEL_BYTES;
    bool mirror = needs_mirror(m);
    limit &= ~(uint64_t)(SLOT_ALIGN - 1);
    for (uint32_t i = 0; i < plan->n_slots; i++) {
        const dop_plan_slot *s = &plan->slots[i];
        dop_slot_place *p = &m->places[i];
        p->block = p->mirror = UINT32_MAX;
        if (!use->slots[i])
            continue;
        const char *name = dop_plan_string(plan, s->name);
        dop_status st = place_in_pool(m, limit, pool_of(s->kind), name, p->size, &p->block, &p->offset, diag);
        if (st == DOP_OK && s->kind == DOP_SLOT_RESULT && mirror)
            st = place_in_pool(m, limit, POOL_MIRROR, name, count_read_bytes(plan, use, i), &p->mirror,
                               &p->mirror_offset, diag);
        if (st == DOP_OK && (s->kind == DOP_SLOT_RECEIVED || s->kind == DOP_SLOT_SENT))
            st = place_in_pool(m, limit, POOL_MIRROR, name, p->size, &p->mirror, &p->mirror_offset, diag);
        if (st != DOP_OK)
            return st;
        m->bytes[s->kind] += p->size;
    }
    return DOP_OK;
}

static int
by_state(const void *a, const void *b)
{
    const dop_piece *x = a, *y = b;
    if (x->slot != y->slot)
        return x->slot < y->slot ? -1 : 1;
    return x->from == y->from ? 0 : x->from < y->from ? -1 : 1;
}

/* Lists the states that arguments name in slots that may be shortened, sorted and without duplicates. */
static dop_status
find_states(dop_memory *m, const dop_plan *plan, const dop_memory_use *use, uint32_t rows, dop_diag *diag)
{
    uint32_t n = 0, kept = 0;
    m->pieces = calloc((size_t)plan->n_args + 1, sizeof *m->pieces);
    if (!m->pieces)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < plan->n_args; i++) {
        const dop_plan_arg *a = &plan->args[i];
        if (a->slot != DOP_ARG_NUMBERS && use->slots[a->slot] && plan->slots[a->slot].rows > rows)
            m->pieces[n++] = (dop_piece){a->slot, a->offset, a->offset, a->size};
    }
    qsort(m->pieces, n, sizeof *m->pieces, by_state);
    for (uint32_t i = 0; i < n; i++) {
        dop_piece *last = kept > 0 ? &m->pieces[kept - 1] : NULL;
        if (last && by_state(last, &m->pieces[i]) == 0)
            last->size = last->size > m->pieces[i].size ? last->size : m->pieces[i].size;
        else
            m->pieces[kept++] = m->pieces[i];
    }
    m->n_pieces = kept;
    return DOP_OK;
}

/* Shortens states with a row per position to the needed rows plus STATE_TAIL, because kernels that read in tiles may
 * overrun. A row takes at most its share of a state's bytes. If arguments overlap, the slot keeps its layout. */
static dop_status
shorten_states(dop_memory *m, const dop_plan *plan, const dop_memory_use *use, dop_diag *diag)
{
    uint64_t rows = (uint64_t)use->positions + STATE_TAIL;
    dop_status st = rows < UINT32_MAX ? find_states(m, plan, use, (uint32_t)rows, diag) : DOP_OK;
    for (uint32_t i = 0, end; i < m->n_pieces; i = end) {
        uint32_t slot = m->pieces[i].slot;
        bool apart = true;
        uint64_t used = 0;
        for (end = i + 1; end < m->n_pieces && m->pieces[end].slot == slot; end++)
            apart = apart && m->pieces[end].from >= m->pieces[end - 1].from + m->pieces[end - 1].size;
        for (uint32_t k = i; k < end; k++) {
            dop_piece *p = &m->pieces[k];
            uint64_t needed = (p->size / plan->slots[slot].rows + 1) * rows;
            p->to = apart ? used : p->from;
            p->size = !apart ? 0 : needed < p->size ? needed : p->size;
            used += dop_align_u64(p->size, SLOT_ALIGN);
        }
        if (apart)
            m->places[slot].size = used;
    }
    return st;
}

static dop_status
allocate_block(dop_memory *m, dop_block *b, dop_diag *diag)
{
    const VkMemoryPropertyFlags device = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                                visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                                cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    VkMemoryPropertyFlags required = device, prefer = 0, avoid = 0;
    bool map = true;
    uint32_t pool_index = b->pool;
    switch ((pool)pool_index) {
    case POOL_WEIGHTS:
        map = m->written;
        prefer = m->written ? visible : 0;
        avoid = m->written ? 0 : visible;
        break;
    case POOL_WORK:
        map = false;
        avoid = visible;
        break;
    case POOL_STEP:
        required = visible;
        prefer = device;
        break;
    case POOL_RESULT:
        map = !needs_mirror(m);
        required = map ? good_for_both : device;
        break;
    case POOL_MIRROR:
        required = visible;
        prefer = cached;
        avoid = device;
        break;
    }
    dop_block made = {0};
    dop_diag first = {0};
    dop_status st = create_block(m->device, b->size, required, prefer, avoid, map, &first, &made);
    if (st != DOP_OK && pool_index == POOL_WEIGHTS && map &&
        !m->shared) /* the host-visible part of device memory is full */
        st = create_block(m->device, b->size, device, 0, visible, false, &first, &made);
    if (st != DOP_OK && diag)
        *diag = first;
    made.pool = pool_index;
    made.allocated = st == DOP_OK;
    pthread_mutex_lock(&m->lock);
    *b = made;
    m->failed = st != DOP_OK;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    return st;
}

dop_status
dop_memory_place(dop_device *device, const dop_plan *plan, const dop_memory_use *use, const dop_log *log,
                 dop_diag *diag, dop_memory *out_memory)
{
    dop_memory *m = out_memory;
    memset(m, 0, sizeof *m);
    m->device = device;
    m->first_borrowed = UINT32_MAX;
    m->n_places = plan->n_slots;
    m->places = calloc(plan->n_slots, sizeof *m->places);
    if (!m->places)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < plan->n_slots; i++)
        m->places[i].size = plan->slots[i].size;
    m->shared = is_memory_shared(&device->info, use->sharing);
    m->written = m->shared || (use->sharing == DOP_SHARING_AUTO && device->info.maps_all);
    dop_status st = DOP_OK;
    if (use->positions > 0)
        DOP_TRY(shorten_states(m, plan, use, diag));
    DOP_TRY(place_slots(m, plan, use, diag));
    DOP_TRY(dop_memory_check_fit(m, plan, use, free_bytes(device), log, diag));
    {
        bool lock = pthread_mutex_init(&m->lock, NULL) == 0;
        m->lock_made = lock && pthread_cond_init(&m->changed, NULL) == 0;
        if (lock && !m->lock_made)
            pthread_mutex_destroy(&m->lock);
        if (!m->lock_made)
            DOP_TRY(DOP_FAIL(diag, DOP_E_NOMEM, "cannot make a lock"));
    }
error:
    if (st != DOP_OK)
        dop_memory_destroy(m);
    return st;
}

/* Marks the blocks that the dispatch reads through views. Fails if one view would need two blocks. */
static dop_status
find_viewed(const dop_memory *m, const dop_plan *plan, const dop_plan_dispatch *d, bool *io_viewed, dop_diag *diag)
{
    uint32_t blocks[DOP_N_VIEWS];
    memset(blocks, 0xff, sizeof blocks);
    for (uint32_t i = 0; i < d->n_args; i++) {
        const dop_plan_arg *a = &plan->args[d->first_arg + i];
        const uint32_t block = a->view ? m->places[a->slot].block : UINT32_MAX;
        if (block == UINT32_MAX)
            continue;
        uint32_t *own = &blocks[a->view - 1];
        if (*own != UINT32_MAX && *own != block)
            return DOP_FAIL(
                diag, DOP_E_DEVICE,
                "the matrices of %s lie in several allocations of this device: compile for a target whose caps lack "
                "texels",
                dop_plan_string(plan, d->label));
        *own = block;
        io_viewed[block] = true;
    }
    return DOP_OK;
}

/* Creates views of all blocks that contain slots read through views. */
static dop_status
make_views(dop_memory *m, const dop_plan *plan, dop_diag *diag)
{
    uint32_t n = 0;
    bool *viewed = calloc(m->n_blocks + 1, sizeof *viewed);
    if (!viewed)
        return DOP_NO_MEMORY(diag);
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < plan->n_dispatches && m->device->view_layout; i++)
        DOP_TRY(find_viewed(m, plan, &plan->dispatches[i], viewed, diag));
    for (uint32_t i = 0; i < m->n_blocks; i++)
        n += viewed[i];
    DOP_TRY(dop_views_create(m->device, m->n_blocks, n, diag, &m->views));
    for (uint32_t i = 0; i < m->n_blocks; i++)
        if (viewed[i])
            DOP_TRY(dop_views_add(&m->views, i, m->blocks[i].buffer, m->blocks[i].size, diag));
error:
    free(viewed);
    return st;
}

static dop_status
allocate_blocks(dop_memory *m, const dop_plan *plan, dop_diag *diag)
{
    for (int weights = 1; weights >= 0; weights--)
        for (uint32_t i = 0; i < m->n_blocks; i++)
            if ((m->blocks[i].pool == POOL_WEIGHTS) == weights)
                DOP_RETURN_IF_ERROR(allocate_block(m, &m->blocks[i], diag));
    /* Initialize the whole record, because kernels may read all of it. Pages are in ascending order until the page pool
     * assigns them. */
    {
        uint8_t *step = dop_memory_host(m, plan->step_slot);
        memset(step, 0, plan->slots[plan->step_slot].size);
        uint32_t *table = (uint32_t *)(void *)(step + sizeof(dop_step));
        for (uint32_t i = 0; i < plan->model->n_sequences * dop_plan_sequence_pages(plan); i++)
            table[i] = i % plan->model->n_pages;
    }
    for (uint32_t i = 0; i < plan->n_slots; i++)
        if (plan->slots[i].kind == DOP_SLOT_RECEIVED && m->places[i].block != UINT32_MAX)
            memset(dop_memory_host(m, i), 0, plan->slots[i].size);
    return DOP_OK;
}

dop_status
dop_memory_allocate(dop_memory *memory, const dop_plan *plan, dop_diag *diag)
{
    const dop_status st = allocate_blocks(memory, plan, diag);
    return st == DOP_OK ? make_views(memory, plan, diag) : st;
}

dop_status
dop_memory_beside(const dop_memory *base, const dop_plan *plan, const dop_memory_use *use, dop_diag *diag,
                  dop_memory *out_memory)
{
    dop_memory *m = out_memory;
    const dop_log quiet = {0};
    bool *own = calloc(plan->n_slots, sizeof *own);
    if (!own)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < plan->n_slots; i++)
        own[i] = use->slots[i] && plan->slots[i].kind != DOP_SLOT_WEIGHTS;
    const dop_memory_use mine = {own, use->schedules, use->n, use->sharing, use->positions};
    dop_status st = DOP_OK;
    DOP_TRY(dop_memory_place(base->device, plan, &mine, &quiet, diag, m));
    DOP_TRY(allocate_blocks(m, plan, diag));
    uint32_t first = m->n_blocks;
    m->first_borrowed = first;
    for (uint32_t i = 0; i < base->n_blocks; i++) {
        uint32_t at = add_block(m, base->blocks[i].pool);
        if (at == UINT32_MAX)
            DOP_TRY(DOP_NO_MEMORY(diag));
        else
            m->blocks[at] = base->blocks[i];
    }
    for (uint32_t i = 0; i < plan->n_slots; i++)
        if (use->slots[i] && !own[i]) {
            m->places[i] = base->places[i];
            m->places[i].block += first;
        }
    DOP_TRY(make_views(m, plan, diag));
error:
    free(own);
    if (st != DOP_OK)
        dop_memory_destroy(m);
    return st;
}

const dop_block *
dop_memory_wait(dop_memory *memory, uint32_t block)
{
    pthread_mutex_lock(&memory->lock);
    while (!memory->blocks[block].allocated && !memory->failed)
        pthread_cond_wait(&memory->changed, &memory->lock);
    bool allocated = memory->blocks[block].allocated;
    pthread_mutex_unlock(&memory->lock);
    return allocated ? &memory->blocks[block] : NULL;
}

void
dop_memory_give_up(dop_memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    memory->failed = true;
    pthread_cond_broadcast(&memory->changed);
    pthread_mutex_unlock(&memory->lock);
}

void
dop_memory_destroy(dop_memory *memory)
{
    dop_views_destroy(&memory->views);
    for (uint32_t i = 0; i < memory->n_blocks && i < memory->first_borrowed; i++)
        dop_block_destroy(memory->device, &memory->blocks[i]);
    if (memory->lock_made) {
        pthread_mutex_destroy(&memory->lock);
        pthread_cond_destroy(&memory->changed);
    }
    free(memory->blocks);
    free(memory->places);
    free(memory->pieces);
    memset(memory, 0, sizeof *memory);
}

VkDeviceAddress
dop_memory_address(const dop_memory *memory, uint32_t slot, uint64_t offset)
{
    const dop_slot_place *p = &memory->places[slot];
    return memory->blocks[p->block].address + p->offset + offset;
}

uint64_t
dop_memory_arg(const dop_memory *memory, const dop_plan_arg *arg)
{
    if (arg->slot == DOP_ARG_NUMBERS)
        return arg->offset;
    const dop_piece key = {.slot = arg->slot, .from = arg->offset},
                    *p = memory->n_pieces == 0 ? NULL
                                               : bsearch(&key, memory->pieces, memory->n_pieces, sizeof key, by_state);
    const uint64_t offset = p ? p->to : arg->offset;
    return arg->view ? (memory->places[arg->slot].offset + offset) / DOP_TEXEL_BYTES
                     : dop_memory_address(memory, arg->slot, offset);
}

void
dop_memory_bind(const dop_memory *memory, const dop_plan *plan, const dop_plan_dispatch *dispatch,
                VkPipelineLayout layout, VkDescriptorSet io_bound[DOP_N_VIEWS], VkCommandBuffer commands)
{
    for (uint32_t i = 0; i < dispatch->n_args; i++) {
        const dop_plan_arg *a = &plan->args[dispatch->first_arg + i];
        VkDescriptorSet *bound = a->view ? &io_bound[a->view - 1] : NULL;
        VkDescriptorSet set = a->view ? memory->views.sets[memory->places[a->slot].block] : VK_NULL_HANDLE;
        if (!bound || *bound == set)
            continue;
        *bound = set;
        vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, a->view - 1, 1, bound, 0, NULL);
    }
}

void *
dop_memory_host(const dop_memory *memory, uint32_t slot)
{
    const dop_slot_place *p = &memory->places[slot];
    if (p->mirror != UINT32_MAX)
        return memory->blocks[p->mirror].mapped + p->mirror_offset;
    uint8_t *mapped = memory->blocks[p->block].mapped;
    return mapped ? mapped + p->offset : NULL;
}
