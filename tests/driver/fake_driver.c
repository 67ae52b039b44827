/* A Vulkan driver that computes nothing and lies on demand: what devices there are, what they can do, how much memory they have
 * and of which types, and which calls fail.  The Vulkan loader finds it by its manifest (fake_driver.json).
 *
 * Memory is the process's own, copies and fills are done, dispatches are not: values that kernels would have made stay as they
 * were.  Submissions are done when vkQueueSubmit returns.
 *
 * fake_driver.txt beside the module says what is to be different; a word and what belongs to it on each line:
 *
 *   device TYPE NAME         another device: discrete, integrated, virtual, cpu or other; without any there is one discrete one
 *   for N                    the lines after this one are for device N alone (0 is the first); before, for all
 *   id VENDOR DEVICE         vendorID and deviceID
 *   matrix M N K             matrix units of that shape, f16 factors and f32 sums, in the KHR form
 *   api MINOR                Vulkan 1.MINOR
 *   without FEATURE          one of features[] below is missing
 *   limit NAME VALUE         one of limits[] below
 *   queue FLAGS              a family of queues with these VkQueueFlags; the first such line takes the place of all
 *   heap FLAGS BYTES         a heap with these VkMemoryHeapFlags; likewise
 *   type FLAGS HEAP          a type of memory with these VkMemoryPropertyFlags; likewise
 *   bits MASK                the types that buffers may have
 *   fail FUNCTION N RESULT   call N of it (1 is the first, 0 every one) has this VkResult
 *   refuse OPCODE            no pipelines are made of modules that have this instruction of SPIR-V
 *   hang N                   what call N of vkQueueSubmit, and each after it, would signal is never signalled
 *
 * As soon as there is a file fake_driver.lose beside the module, every device that there is at the next vkQueueSubmit
 * is lost, and the file is removed; before that, as many submissions pass as it has bytes.  At the end of the process
 * fake_driver.calls has how often each function that can fail was called, and fake_driver.left how many instances,
 * devices, allocations, buffers, pools and semaphores were not given back. */
#include "runtime/device/vk_matrix.h"
#include "tests/driver/fake_device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- objects -------------------------------------------------------------------------------------------------------- */

typedef struct object { /* those that the loader looks into */
    VK_LOADER_DATA loader;
    physical *device;
} object;

typedef struct opened opened;
typedef struct queue {
    VK_LOADER_DATA loader;
    opened *of;
} queue;
struct opened {
    object o;
    uint64_t made; /* its number; devices that are lost are those up to a number */
    queue queues[MAX_QUEUES];
};
static _Atomic uint64_t n_made, n_lost;

static bool
is_lost(const opened *d)
{
    return d->made <= n_lost;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of submissions */

typedef struct memory {
    uint8_t *bytes;
    uint64_t size;
} memory;

typedef struct buffer {
    memory *at;
    uint64_t offset, size;
} buffer;

typedef enum command_kind { COPY, FILL, UPDATE } command_kind;
typedef struct command {
    command_kind kind;
    buffer *from, *to;
    uint64_t from_offset, to_offset, size;
    uint32_t value;
    void *bytes; /* owned */
} command;

typedef struct commands {
    VK_LOADER_DATA loader;
    command *items;
    uint32_t n, cap;
    struct commands *next; /* of its pool */
} commands;

typedef struct pool {
    commands *first;
} pool;

typedef struct semaphore {
    _Atomic uint64_t value;
} semaphore;

/* Handles of 64 bits are pointers here. */
#define HANDLE(type, p) ((type)(uintptr_t)(p))
#define OBJECT(type, h) ((type *)(uintptr_t)(h))

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkEnumerateInstanceVersion(uint32_t *version)
{
    *version = VK_API_VERSION_1_3;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkEnumerateInstanceExtensionProperties(const char *layer, uint32_t *n, VkExtensionProperties *rows)
{
    (void)layer, (void)rows;
    *n = 0;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkCreateInstance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *a, VkInstance *out)
{
    (void)info, (void)a;
    fake_read_settings();
    LIE();
    object *o = calloc(1, sizeof *o);
    if (!o)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    set_loader_magic_value(o);
    fake_left++;
    *out = (VkInstance)o;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL
fake_vkDestroyInstance(VkInstance instance, const VkAllocationCallbacks *a)
{
    (void)a;
    fake_left -= instance != NULL;
    free(instance);
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkEnumeratePhysicalDevices(VkInstance instance, uint32_t *n, VkPhysicalDevice *out)
{
    uint32_t n_devices;
    physical *devices = fake_devices(&n_devices);
    (void)instance;
    LIE();
    for (uint32_t i = 0; out && i < *n && i < n_devices; i++) {
        set_loader_magic_value(&devices[i]);
        out[i] = (VkPhysicalDevice)&devices[i];
    }
    *n = out && *n < n_devices ? *n : n_devices;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkEnumerateDeviceExtensionProperties(VkPhysicalDevice device, const char *layer, uint32_t *n,
                                          VkExtensionProperties *rows)
{
    const bool has = ((const physical *)device)->f.matrix[0] > 0;
    (void)layer;
    LIE();
    if (rows && has && *n > 0)
        snprintf(rows[0].extensionName, sizeof rows[0].extensionName, "%s", DOP_VK_MATRIX_EXTENSION);
    *n = rows && *n == 0 ? 0 : has;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(VkPhysicalDevice device, uint32_t *n,
                                                       dop_vk_matrix_properties *rows)
{
    const uint32_t *size = ((const physical *)device)->f.matrix;
    LIE();
    if (rows && *n > 0)
        rows[0] = (dop_vk_matrix_properties){.sType = (VkStructureType)DOP_VK_MATRIX_PROPERTIES,
                                             .MSize = size[0],
                                             .NSize = size[1],
                                             .KSize = size[2],
                                             .CType = DOP_VK_FLOAT32,
                                             .ResultType = DOP_VK_FLOAT32,
                                             .scope = DOP_VK_SUBGROUP};
    *n = rows && *n == 0 ? 0 : 1;
    return VK_SUCCESS;
}

/* What the loader wants to know of, and nobody asks for. */
static VKAPI_ATTR void VKAPI_CALL
fake_nothing(void)
{
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkCreateDevice(VkPhysicalDevice of, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *a, VkDevice *out)
{
    (void)info, (void)a;
    LIE();
    opened *d = calloc(1, sizeof *d);
    if (!d)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    set_loader_magic_value(&d->o);
    d->o.device = (physical *)of;
    d->made = atomic_fetch_add(&n_made, 1) + 1;
    for (uint32_t i = 0; i < MAX_QUEUES; i++) {
        set_loader_magic_value(&d->queues[i]);
        d->queues[i].of = d;
    }
    fake_left++;
    *out = (VkDevice)d;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL
fake_vkDestroyDevice(VkDevice d, const VkAllocationCallbacks *a)
{
    (void)a;
    fake_left -= d != NULL;
    free(d);
}

static VKAPI_ATTR void VKAPI_CALL
fake_vkGetDeviceQueue(VkDevice d, uint32_t family, uint32_t index, VkQueue *out)
{
    (void)index;
    *out = (VkQueue) & ((opened *)d)->queues[family % MAX_QUEUES];
}

/* ---- memory --------------------------------------------------------------------------------------------------------- */

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkCreateBuffer(VkDevice device, const VkBufferCreateInfo *info, const VkAllocationCallbacks *a, VkBuffer *out)
{
    (void)device, (void)a;
    LIE();
    buffer *b = calloc(1, sizeof *b);
    if (!b)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    b->size = info->size;
    fake_left++;
    *out = HANDLE(VkBuffer, b);
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL
fake_vkDestroyBuffer(VkDevice device, VkBuffer b, const VkAllocationCallbacks *a)
{
    (void)device, (void)a;
    fake_left -= b != VK_NULL_HANDLE;
    free(OBJECT(buffer, b));
}

static VKAPI_ATTR void VKAPI_CALL
fake_vkGetBufferMemoryRequirements(VkDevice device, VkBuffer b, VkMemoryRequirements *out)
{
    const facts *f = &((const object *)device)->device->f;
    *out = (VkMemoryRequirements){.size = (OBJECT(buffer, b)->size + 255) & ~(VkDeviceSize)255,
                                  .alignment = 256,
                                  .memoryTypeBits = f->bits & ((1u << f->memory.memoryTypeCount) - 1)};
}

/* A heap is only as large as it is said to be for one allocation: who asks for more than that is out of memory. */
static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkAllocateMemory(VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *a,
                      VkDeviceMemory *out)
{
    const VkPhysicalDeviceMemoryProperties *m = &((const object *)device)->device->f.memory;
    (void)a;
    LIE();
    memory *p = calloc(1, sizeof *p);
    if (p && info->allocationSize <= m->memoryHeaps[m->memoryTypes[info->memoryTypeIndex].heapIndex].size)
        p->bytes = mmap(NULL, info->allocationSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!p || !p->bytes || p->bytes == MAP_FAILED) {
        free(p);
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    p->size = info->allocationSize;
    fake_left++;
    *out = HANDLE(VkDeviceMemory, p);
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL
fake_vkFreeMemory(VkDevice device, VkDeviceMemory m, const VkAllocationCallbacks *a)
{
    (void)device, (void)a;
    fake_left -= m != VK_NULL_HANDLE;
    if (m)
        (void)munmap(OBJECT(memory, m)->bytes, OBJECT(memory, m)->size);
    free(OBJECT(memory, m));
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkBindBufferMemory(VkDevice device, VkBuffer b, VkDeviceMemory m, VkDeviceSize offset)
{
    (void)device;
    LIE();
    OBJECT(buffer, b)->at = OBJECT(memory, m);
    OBJECT(buffer, b)->offset = offset;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkMapMemory(VkDevice device, VkDeviceMemory m, VkDeviceSize offset, VkDeviceSize size, VkMemoryMapFlags flags,
                 void **out)
{
    (void)device, (void)size, (void)flags;
    LIE();
    *out = OBJECT(memory, m)->bytes + offset;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkDeviceAddress VKAPI_CALL
fake_vkGetBufferDeviceAddress(VkDevice device, const VkBufferDeviceAddressInfo *info)
{
    (void)device;
    const buffer *b = OBJECT(buffer, info->buffer);
    return (VkDeviceAddress)(uintptr_t)(b->at->bytes + b->offset);
}

/* ---- commands ------------------------------------------------------------------------------------------------------- */

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkCreateCommandPool(VkDevice device, const VkCommandPoolCreateInfo *info, const VkAllocationCallbacks *a,
                         VkCommandPool *out)
{
    (void)device, (void)info, (void)a;
    LIE();
    pool *p = calloc(1, sizeof *p);
    fake_left += p != NULL;
    *out = HANDLE(VkCommandPool, p);
    return p ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY;
}

static void
empty(commands *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        free(c->items[i].bytes);
    c->n = 0;
}

static VKAPI_ATTR void VKAPI_CALL
fake_vkDestroyCommandPool(VkDevice device, VkCommandPool h, const VkAllocationCallbacks *a)
{
    (void)device, (void)a;
    pool *p = OBJECT(pool, h);
    fake_left -= p != NULL;
    for (commands *c = p ? p->first : NULL, *next; c; c = next) {
        next = c->next;
        empty(c);
        free(c->items);
        free(c);
    }
    free(p);
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkAllocateCommandBuffers(VkDevice device, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out)
{
    (void)device;
    LIE();
    pool *p = OBJECT(pool, info->commandPool);
    for (uint32_t i = 0; i < info->commandBufferCount; i++) {
        commands *c = calloc(1, sizeof *c);
        if (!c)
            return VK_ERROR_OUT_OF_HOST_MEMORY;
        set_loader_magic_value(c);
        c->next = p->first;
        p->first = c;
        out[i] = (VkCommandBuffer)c;
    }
    return VK_SUCCESS;
}

/* It stays in its pool, and goes with it. */
static VKAPI_ATTR void VKAPI_CALL
fake_vkFreeCommandBuffers(VkDevice device, VkCommandPool h, uint32_t n, const VkCommandBuffer *list)
{
    (void)device, (void)h;
    for (uint32_t i = 0; i < n; i++)
        if (list[i])
            empty((commands *)list[i]);
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkBeginCommandBuffer(VkCommandBuffer c, const VkCommandBufferBeginInfo *info)
{
    (void)info;
    LIE();
    empty((commands *)c);
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkEndCommandBuffer(VkCommandBuffer c)
{
    (void)c;
    LIE();
    return VK_SUCCESS;
}

static void
record(VkCommandBuffer h, const command *one)
{
    commands *c = (commands *)h;
    if (c->n == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 8;
        c->items = realloc(c->items, c->cap * sizeof *c->items);
        if (!c->items)
            abort();
    }
    c->items[c->n++] = *one;
}

static VKAPI_ATTR void VKAPI_CALL
fake_vkCmdCopyBuffer(VkCommandBuffer c, VkBuffer from, VkBuffer to, uint32_t n, const VkBufferCopy *regions)
{
    for (uint32_t i = 0; i < n; i++)
        record(c, &(command){COPY, OBJECT(buffer, from), OBJECT(buffer, to), regions[i].srcOffset, regions[i].dstOffset,
                             regions[i].size, 0, NULL});
}

static VKAPI_ATTR void VKAPI_CALL
fake_vkCmdFillBuffer(VkCommandBuffer c, VkBuffer to, VkDeviceSize offset, VkDeviceSize size, uint32_t value)
{
    record(c, &(command){FILL, NULL, OBJECT(buffer, to), 0, offset, size, value, NULL});
}

static VKAPI_ATTR void VKAPI_CALL
fake_vkCmdUpdateBuffer(VkCommandBuffer c, VkBuffer to, VkDeviceSize offset, VkDeviceSize size, const void *bytes)
{
    void *copy = malloc(size);
    if (!copy)
        abort();
    memcpy(copy, bytes, size);
    record(c, &(command){UPDATE, NULL, OBJECT(buffer, to), 0, offset, size, 0, copy});
}

/* The bytes of a buffer, all of which must be there: an access outside of it ends the process. */
static uint8_t *
bytes_of(const buffer *b, uint64_t offset, uint64_t size)
{
    if (offset > b->size || size > b->size - offset || b->offset + b->size > b->at->size)
        abort();
    return b->at->bytes + b->offset + offset;
}

static void
execute(const command *c)
{
    uint8_t *to = bytes_of(c->to, c->to_offset, c->size);
    if (c->kind == COPY)
        memmove(to, bytes_of(c->from, c->from_offset, c->size), c->size);
    else if (c->kind == UPDATE)
        memcpy(to, c->bytes, c->size);
    else
        for (uint64_t i = 0; i + 4 <= c->size; i += 4)
            memcpy(to + i, &c->value, 4);
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkQueueSubmit(VkQueue q, uint32_t n, const VkSubmitInfo *submits, VkFence fence)
{
    static _Atomic uint32_t calls;
    (void)fence;
    LIE();
    if (fake_loses())
        n_lost = n_made;
    if (is_lost(((const struct queue *)q)->of))
        return VK_ERROR_DEVICE_LOST;
    const bool hangs = fake_hangs(atomic_fetch_add(&calls, 1) + 1);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n && !hangs; i++) {
        for (uint32_t k = 0; k < submits[i].commandBufferCount; k++) {
            const commands *c = (const commands *)submits[i].pCommandBuffers[k];
            for (uint32_t j = 0; j < c->n; j++)
                execute(&c->items[j]);
        }
        for (const VkBaseInStructure *s = submits[i].pNext; s; s = s->pNext)
            if (s->sType == VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO) {
                const VkTimelineSemaphoreSubmitInfo *t = (const void *)s;
                for (uint32_t k = 0; k < t->signalSemaphoreValueCount; k++)
                    OBJECT(semaphore, submits[i].pSignalSemaphores[k])->value = t->pSignalSemaphoreValues[k];
            }
    }
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkCreateSemaphore(VkDevice device, const VkSemaphoreCreateInfo *info, const VkAllocationCallbacks *a,
                       VkSemaphore *out)
{
    (void)device, (void)info, (void)a;
    LIE();
    semaphore *s = calloc(1, sizeof *s);
    fake_left += s != NULL;
    *out = HANDLE(VkSemaphore, s);
    return s ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY;
}

static VKAPI_ATTR void VKAPI_CALL
fake_vkDestroySemaphore(VkDevice device, VkSemaphore s, const VkAllocationCallbacks *a)
{
    (void)device, (void)a;
    fake_left -= s != VK_NULL_HANDLE;
    free(OBJECT(semaphore, s));
}

/* Nobody waits: what has not been signalled by now never will be. */
static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkWaitSemaphores(VkDevice d, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    (void)timeout;
    LIE();
    if (is_lost((const opened *)d))
        return VK_ERROR_DEVICE_LOST;
    for (uint32_t i = 0; i < info->semaphoreCount; i++)
        if (OBJECT(semaphore, info->pSemaphores[i])->value < info->pValues[i])
            return VK_TIMEOUT;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkGetSemaphoreCounterValue(VkDevice d, VkSemaphore s, uint64_t *out)
{
    LIE();
    if (is_lost((const opened *)d))
        return VK_ERROR_DEVICE_LOST;
    *out = OBJECT(semaphore, s)->value;
    return VK_SUCCESS;
}

/* ---- what is only made, and given back ------------------------------------------------------------------------------ */

/* Any address that is not NULL. */
static char made;

#define MAKES(name, info_type, handle)                                                             \
    static VKAPI_ATTR VkResult VKAPI_CALL fake_##name(VkDevice device, const info_type *info,      \
                                                      const VkAllocationCallbacks *a, handle *out) \
    {                                                                                              \
        (void)device, (void)info, (void)a;                                                         \
        LIE();                                                                                     \
        *out = HANDLE(handle, &made);                                                              \
        return VK_SUCCESS;                                                                         \
    }
MAKES(vkCreatePipelineLayout, VkPipelineLayoutCreateInfo, VkPipelineLayout)
MAKES(vkCreatePipelineCache, VkPipelineCacheCreateInfo, VkPipelineCache)
MAKES(vkCreateQueryPool, VkQueryPoolCreateInfo, VkQueryPool)

/* The address of modules that are refused. */
static char refused;

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkCreateShaderModule(VkDevice device, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *a,
                          VkShaderModule *out)
{
    (void)device, (void)a;
    LIE();
    *out = HANDLE(VkShaderModule, &made);
    for (size_t i = 5, n = info->codeSize / 4; i < n && info->pCode[i] >> 16; i += info->pCode[i] >> 16)
        if (fake_refuses(info->pCode[i] & 0xffff))
            *out = HANDLE(VkShaderModule, &refused);
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkCreateComputePipelines(VkDevice device, VkPipelineCache cache, uint32_t n,
                              const VkComputePipelineCreateInfo *info, const VkAllocationCallbacks *a, VkPipeline *out)
{
    (void)device, (void)cache, (void)a;
    for (uint32_t i = 0; i < n; i++)
        out[i] = VK_NULL_HANDLE;
    LIE();
    for (uint32_t i = 0; i < n; i++) {
        if (OBJECT(char, info[i].stage.module) == &refused)
            return VK_ERROR_UNKNOWN;
        out[i] = HANDLE(VkPipeline, &made);
    }
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkGetPipelineCacheData(VkDevice device, VkPipelineCache cache, size_t *size, void *out)
{
    (void)device, (void)cache, (void)out;
    LIE();
    *size = 0;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL
fake_vkGetQueryPoolResults(VkDevice device, VkQueryPool p, uint32_t first, uint32_t n, size_t size, void *out,
                           VkDeviceSize stride, VkQueryResultFlags flags)
{
    (void)device, (void)p, (void)first, (void)n, (void)stride, (void)flags;
    LIE();
    memset(out, 0, size);
    return VK_SUCCESS;
}

/* ---- entry ---------------------------------------------------------------------------------------------------------- */

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL fake_vkGetDeviceProcAddr(VkDevice device, const char *name);

static const struct {
    const char *name;
    PFN_vkVoidFunction function;
} functions[] = {
#define F(name)                                \
    {                                          \
#name, (PFN_vkVoidFunction)fake_##name \
    }
#define NOTHING(name)                           \
    {                                           \
#name, (PFN_vkVoidFunction)fake_nothing \
    }
    F(vkEnumerateInstanceVersion),
    F(vkEnumerateInstanceExtensionProperties),
    F(vkCreateInstance),
    F(vkDestroyInstance),
    F(vkEnumeratePhysicalDevices),
    F(vkGetPhysicalDeviceProperties),
    F(vkGetPhysicalDeviceProperties2),
    F(vkGetPhysicalDeviceFeatures),
    F(vkGetPhysicalDeviceFeatures2),
    F(vkGetPhysicalDeviceMemoryProperties),
    F(vkGetPhysicalDeviceMemoryProperties2),
    F(vkGetPhysicalDeviceQueueFamilyProperties),
    F(vkEnumerateDeviceExtensionProperties),
    F(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR),
    F(vkGetDeviceProcAddr),
    F(vkCreateDevice),
    F(vkDestroyDevice),
    F(vkGetDeviceQueue),
    F(vkCreateBuffer),
    F(vkDestroyBuffer),
    F(vkGetBufferMemoryRequirements),
    F(vkAllocateMemory),
    F(vkFreeMemory),
    F(vkBindBufferMemory),
    F(vkMapMemory),
    F(vkGetBufferDeviceAddress),
    F(vkCreateCommandPool),
    F(vkDestroyCommandPool),
    F(vkAllocateCommandBuffers),
    F(vkFreeCommandBuffers),
    F(vkBeginCommandBuffer),
    F(vkEndCommandBuffer),
    F(vkCmdCopyBuffer),
    F(vkCmdFillBuffer),
    F(vkCmdUpdateBuffer),
    F(vkQueueSubmit),
    F(vkCreateSemaphore),
    F(vkDestroySemaphore),
    F(vkWaitSemaphores),
    F(vkGetSemaphoreCounterValue),
    F(vkCreateShaderModule),
    F(vkCreatePipelineLayout),
    F(vkCreatePipelineCache),
    F(vkCreateQueryPool),
    F(vkCreateComputePipelines),
    F(vkGetPipelineCacheData),
    F(vkGetQueryPoolResults),
    NOTHING(vkDestroyShaderModule),
    NOTHING(vkDestroyPipelineLayout),
    NOTHING(vkDestroyPipelineCache),
    NOTHING(vkDestroyQueryPool),
    NOTHING(vkDestroyPipeline),
    NOTHING(vkCmdBindPipeline),
    NOTHING(vkCmdDispatch),
    NOTHING(vkCmdDispatchBase),
    NOTHING(vkCmdDispatchIndirect),
    NOTHING(vkCmdPipelineBarrier),
    NOTHING(vkCmdPushConstants),
    NOTHING(vkCmdResetQueryPool),
    NOTHING(vkCmdWriteTimestamp),
    NOTHING(vkDeviceWaitIdle),
    NOTHING(vkGetPhysicalDeviceFormatProperties),
    NOTHING(vkGetPhysicalDeviceImageFormatProperties),
    NOTHING(vkGetPhysicalDeviceSparseImageFormatProperties),
#undef F
#undef NOTHING
};

static PFN_vkVoidFunction
find(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            return functions[i].function;
    return NULL;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
fake_vkGetDeviceProcAddr(VkDevice device, const char *name)
{
    (void)device;
    return find(name);
}

__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version)
{
    if (*version > 5)
        *version = 5;
    return VK_SUCCESS;
}

__attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vk_icdGetInstanceProcAddr(VkInstance instance, const char *name)
{
    (void)instance;
    return find(name);
}

/* Functions of physical devices that the loader does not know. */
__attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name)
{
    (void)instance;
    return strncmp(name, "vkGetPhysicalDevice", 19) == 0 ? find(name) : NULL;
}
