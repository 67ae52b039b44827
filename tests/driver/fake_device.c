/* What the fake driver says of its devices, and which of its calls fail: fake_driver.txt (fake_driver.c describes
 * it). */
#include "tests/driver/fake_device.h"
#include "runtime/device/vk_matrix.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what is said --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t at;
} features[] = {{"f16", offsetof(facts, f16)},
                {"int16", offsetof(facts, int16)},
                {"int8", offsetof(facts, int8)},
                {"int64", offsetof(facts, int64)},
                {"storage16", offsetof(facts, storage16)},
                {"storage8", offsetof(facts, storage8)},
                {"scalar", offsetof(facts, scalar)},
                {"address", offsetof(facts, address)},
                {"timeline", offsetof(facts, timeline)},
                {"subgroup", offsetof(facts, subgroup)},
                {"control", offsetof(facts, control)},
                {"dot", offsetof(facts, dot)},
                {"memory_model", offsetof(facts, memory_model)}},
  limits[] = {{"workgroup", offsetof(facts, workgroup)},
              {"shared", offsetof(facts, shared)},
              {"push", offsetof(facts, push)},
              {"grid", offsetof(facts, grid)},
              {"local", offsetof(facts, local)},
              {"alloc", offsetof(facts, alloc)},
              {"subgroup", offsetof(facts, subgroup_size)},
              {"subgroup_least", offsetof(facts, subgroup_least)},
              {"subgroups", offsetof(facts, subgroups)},
              {"range", offsetof(facts, range)}};

typedef struct failure {
    char function[64];
    uint32_t call;
    VkResult result;
} failure;

static physical devices[MAX_DEVICES];
static uint32_t n_devices, n_failures;
static failure failures[MAX_FAILURES];
static uint32_t hang_from = UINT32_MAX;
static uint32_t n_refused, refused[MAX_REFUSED];
static char folder[1024];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const facts usual = {
    .name = "Fake Device",
    .type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
    .api = 3,
    .vendor_id = 0xfa4e,
    .f16 = true,
    .int16 = true,
    .int8 = true,
    .int64 = true,
    .storage16 = true,
    .storage8 = true,
    .scalar = true,
    .address = true,
    .timeline = true,
    .subgroup = true,
    .control = true,
    .dot = true,
    .memory_model = true,
    .workgroup = 1024,
    .shared = 49152,
    .push = 256,
    .grid = 65535,
    .local = 1024,
    .alloc = 1u << 30,
    .range = 1u << 30,
    .subgroup_size = 32,
    .subgroups = 64,
    .n_queues = 1,
    .queues = {VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT},
    .bits = UINT32_MAX,
    .memory = {.memoryHeapCount = 2,
               .memoryHeaps = {{64u << 20, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}, {64u << 20, 0}},
               .memoryTypeCount = 3,
               .memoryTypes = {{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0},
                               {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, 1},
                               {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
                                    VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
                                1}}},
};

static void
set(facts *f, const char *word, const char *rest)
{
    char name[64] = "";
    unsigned long long a = 0, b = 0;
    const bool two = sscanf(rest, "%lli %lli", (long long *)&a, (long long *)&b) == 2;
    VkPhysicalDeviceMemoryProperties *m = &f->memory;
    if (strcmp(word, "api") == 0) {
        f->api = (uint32_t)a;
    } else if (strcmp(word, "id") == 0 && two) {
        f->vendor_id = (uint32_t)a;
        f->device_id = (uint32_t)b;
    } else if (strcmp(word, "matrix") == 0) {
        (void)sscanf(rest, "%u %u %u", &f->matrix[0], &f->matrix[1], &f->matrix[2]);
    } else if (strcmp(word, "bits") == 0) {
        f->bits = (uint32_t)a;
    } else if (strcmp(word, "queue") == 0) {
        f->n_queues = f->own_queues ? f->n_queues : 0;
        f->own_queues = true;
        if (f->n_queues < MAX_QUEUES)
            f->queues[f->n_queues++] = (uint32_t)a;
    } else if (strcmp(word, "heap") == 0 && two) {
        m->memoryHeapCount = f->own_heaps ? m->memoryHeapCount : 0;
        f->own_heaps = true;
        m->memoryHeaps[m->memoryHeapCount++] = (VkMemoryHeap){b, (VkMemoryHeapFlags)a};
    } else if (strcmp(word, "type") == 0 && two) {
        m->memoryTypeCount = f->own_types ? m->memoryTypeCount : 0;
        f->own_types = true;
        m->memoryTypes[m->memoryTypeCount++] = (VkMemoryType){(VkMemoryPropertyFlags)a, (uint32_t)b};
    } else if (strcmp(word, "without") == 0 && sscanf(rest, "%63s", name) == 1) {
        for (size_t i = 0; i < sizeof features / sizeof *features; i++)
            if (strcmp(features[i].name, name) == 0)
                *(bool *)((char *)f + features[i].at) = false;
    } else if (strcmp(word, "limit") == 0 && sscanf(rest, "%63s %lli", name, (long long *)&a) == 2) {
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
            if (strcmp(limits[i].name, name) == 0)
                *(uint64_t *)(void *)((char *)f + limits[i].at) = a;
    }
}

static VkPhysicalDeviceType
type_of(const char *word)
{
    return strcmp(word, "discrete") == 0     ? VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
           : strcmp(word, "integrated") == 0 ? VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU
           : strcmp(word, "virtual") == 0    ? VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU
           : strcmp(word, "cpu") == 0        ? VK_PHYSICAL_DEVICE_TYPE_CPU
                                             : VK_PHYSICAL_DEVICE_TYPE_OTHER;
}

static void
read_line(const char *line, int *only)
{
    char word[64], more[64];
    int at = 0;
    if (sscanf(line, "%63s %n", word, &at) != 1)
        return;
    const char *rest = line + at;
    if (strcmp(word, "device") == 0 && n_devices < MAX_DEVICES) {
        facts *f = &devices[n_devices++].f;
        *f = usual;
        if (sscanf(rest, "%63s %63[^\n]", more, f->name) >= 1)
            f->type = type_of(more);
    } else if (strcmp(word, "for") == 0) {
        *only = atoi(rest);
    } else if (strcmp(word, "hang") == 0) {
        hang_from = (uint32_t)atoi(rest);
    } else if (strcmp(word, "refuse") == 0 && n_refused < MAX_REFUSED) {
        refused[n_refused++] = (uint32_t)atoi(rest);
    } else if (strcmp(word, "fail") == 0 && n_failures < MAX_FAILURES) {
        failure *f = &failures[n_failures];
        int call = 0, result = 0;
        if (sscanf(rest, "%63s %d %d", f->function, &call, &result) == 3) {
            f->call = (uint32_t)call;
            f->result = (VkResult)result;
            n_failures++;
        }
    } else {
        if (n_devices == 0)
            devices[n_devices++].f = usual;
        for (uint32_t i = 0; i < n_devices; i++)
            if (*only < 0 || *only == (int)i)
                set(&devices[i].f, word, rest);
    }
}

void
fake_read_settings(void)
{
    Dl_info info;
    char path[1100], line[256];
    int only = -1;
    if (n_devices > 0 || !dladdr((void *)(uintptr_t)fake_read_settings, &info))
        return;
    snprintf(folder, sizeof folder, "%s", info.dli_fname);
    *(strrchr(folder, '/') ? strrchr(folder, '/') : folder) = 0;
    snprintf(path, sizeof path, "%s/fake_driver.txt", folder);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        read_line(line, &only);
    if (f)
        fclose(f);
    if (n_devices == 0)
        devices[n_devices++].f = usual;
}

physical *
fake_devices(uint32_t *out_n)
{
    *out_n = n_devices;
    return devices;
}

bool
fake_refuses(uint32_t opcode)
{
    for (uint32_t i = 0; i < n_refused; i++)
        if (refused[i] == opcode)
            return true;
    return false;
}

bool
fake_hangs(uint32_t submission)
{
    return submission >= hang_from;
}

bool
fake_loses(void)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/fake_driver.lose", folder);
    struct stat file;
    if (stat(path, &file) == 0 && file.st_size > 0)
        return truncate(path, file.st_size - 1) != 0;
    return remove(path) == 0;
}

_Atomic int64_t fake_left;

/* ---- calls that fail ------------------------------------------------------------------------------------------------ */

enum { MAX_COUNTED = 64 };
static struct {
    const char *function;
    _Atomic uint32_t n;
} counted[MAX_COUNTED];
static _Atomic uint32_t n_counted;

/* The result that this call of a function is to have. */
VkResult
fake_lie(const char *function, _Atomic uint32_t *number)
{
    if (*number == 0) {
        pthread_mutex_lock(&lock);
        if (*number == 0 && n_counted < MAX_COUNTED) {
            counted[n_counted].function = function;
            *number = ++n_counted;
        }
        pthread_mutex_unlock(&lock);
    }
    uint32_t call = atomic_fetch_add(&counted[*number - 1].n, 1) + 1;
    for (uint32_t i = 0; i < n_failures; i++)
        if (strcmp(failures[i].function, function) == 0 && (failures[i].call == 0 || failures[i].call == call))
            return failures[i].result;
    return VK_SUCCESS;
}

__attribute__((destructor)) static void
write_calls(void)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/fake_driver.calls", folder);
    FILE *f = *folder ? fopen(path, "we") : NULL;
    for (uint32_t i = 0; f && i < n_counted; i++)
        fprintf(f, "%s %u\n", counted[i].function, counted[i].n);
    if (f)
        fclose(f);
    snprintf(path, sizeof path, "%s/fake_driver.left", folder);
    f = *folder ? fopen(path, "we") : NULL;
    if (f) {
        fprintf(f, "%lld\n", (long long)fake_left);
        fclose(f);
    }
}

/* ---- answers ------------------------------------------------------------------------------------------------------ */

static const facts *
facts_of(VkPhysicalDevice device)
{
    return &((const physical *)device)->f;
}

VKAPI_ATTR void VKAPI_CALL
fake_vkGetPhysicalDeviceProperties(VkPhysicalDevice device, VkPhysicalDeviceProperties *out)
{
    const facts *f = facts_of(device);
    memset(out, 0, sizeof *out);
    out->apiVersion = VK_MAKE_API_VERSION(0, 1, f->api, 0);
    out->vendorID = f->vendor_id;
    out->deviceID = f->device_id;
    out->deviceType = f->type;
    memcpy(out->deviceName, f->name, sizeof f->name);
    out->limits.maxComputeWorkGroupInvocations = (uint32_t)f->workgroup;
    out->limits.maxComputeSharedMemorySize = (uint32_t)f->shared;
    out->limits.maxPushConstantsSize = (uint32_t)f->push;
    out->limits.maxStorageBufferRange = (uint32_t)f->range;
    out->limits.timestampPeriod = 1;
    for (int i = 0; i < 3; i++) {
        out->limits.maxComputeWorkGroupSize[i] = (uint32_t)f->local;
        out->limits.maxComputeWorkGroupCount[i] = (uint32_t)f->grid;
    }
}

VKAPI_ATTR void VKAPI_CALL
fake_vkGetPhysicalDeviceProperties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *out)
{
    const facts *f = facts_of(device);
    fake_vkGetPhysicalDeviceProperties(device, &out->properties);
    for (VkBaseOutStructure *s = out->pNext; s; s = s->pNext)
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES) {
            VkPhysicalDeviceVulkan11Properties *p = (void *)s;
            p->maxMemoryAllocationSize = f->alloc;
            p->subgroupSize = (uint32_t)f->subgroup_size;
            p->subgroupSupportedStages = f->subgroup ? VK_SHADER_STAGE_COMPUTE_BIT : 0;
            p->subgroupSupportedOperations = 0xff;
        } else if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES) {
            VkPhysicalDeviceVulkan12Properties *p = (void *)s;
            snprintf(p->driverName, sizeof p->driverName, "fake");
            snprintf(p->driverInfo, sizeof p->driverInfo, "1");
        } else if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES) {
            VkPhysicalDeviceSubgroupSizeControlProperties *p = (void *)s;
            p->minSubgroupSize = (uint32_t)(f->subgroup_least ? f->subgroup_least : f->subgroup_size);
            p->maxSubgroupSize = (uint32_t)f->subgroup_size;
            p->maxComputeWorkgroupSubgroups = (uint32_t)f->subgroups;
            p->requiredSubgroupSizeStages = VK_SHADER_STAGE_COMPUTE_BIT;
        } else if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES) {
            ((VkPhysicalDeviceMaintenance4Properties *)(void *)s)->maxBufferSize = f->alloc;
        }
}

VKAPI_ATTR void VKAPI_CALL
fake_vkGetPhysicalDeviceFeatures(VkPhysicalDevice device, VkPhysicalDeviceFeatures *out)
{
    memset(out, 0, sizeof *out);
    out->shaderInt16 = facts_of(device)->int16;
    out->shaderInt64 = facts_of(device)->int64;
}

VKAPI_ATTR void VKAPI_CALL
fake_vkGetPhysicalDeviceFeatures2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *out)
{
    const facts *f = facts_of(device);
    fake_vkGetPhysicalDeviceFeatures(device, &out->features);
    for (VkBaseOutStructure *s = out->pNext; s; s = s->pNext)
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES) {
            ((VkPhysicalDeviceVulkan11Features *)(void *)s)->storageBuffer16BitAccess = f->storage16;
        } else if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES) {
            VkPhysicalDeviceVulkan12Features *p = (void *)s;
            p->shaderFloat16 = f->f16;
            p->shaderInt8 = f->int8;
            p->storageBuffer8BitAccess = f->storage8;
            p->scalarBlockLayout = f->scalar;
            p->bufferDeviceAddress = f->address;
            p->timelineSemaphore = f->timeline;
            p->hostQueryReset = p->shaderSubgroupExtendedTypes = VK_TRUE;
            p->vulkanMemoryModel = p->vulkanMemoryModelDeviceScope = f->memory_model;
        } else if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES) {
            VkPhysicalDeviceSubgroupSizeControlFeatures *p = (void *)s;
            p->subgroupSizeControl = p->computeFullSubgroups = f->control;
        } else if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES) {
            ((VkPhysicalDeviceShaderIntegerDotProductFeatures *)(void *)s)->shaderIntegerDotProduct = f->dot;
        } else if (s->sType == (VkStructureType)DOP_VK_MATRIX_FEATURES) {
            ((dop_vk_matrix_features *)(void *)s)->cooperativeMatrix = f->matrix[0] > 0;
        }
}

VKAPI_ATTR void VKAPI_CALL
fake_vkGetPhysicalDeviceMemoryProperties(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties *out)
{
    *out = facts_of(device)->memory;
}

VKAPI_ATTR void VKAPI_CALL
fake_vkGetPhysicalDeviceMemoryProperties2(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2 *out)
{
    out->memoryProperties = facts_of(device)->memory;
}

VKAPI_ATTR void VKAPI_CALL
fake_vkGetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice device, uint32_t *n, VkQueueFamilyProperties *out)
{
    const facts *f = facts_of(device);
    for (uint32_t i = 0; out && i < *n && i < f->n_queues; i++)
        out[i] = (VkQueueFamilyProperties){.queueFlags = f->queues[i], .queueCount = 1, .timestampValidBits = 64};
    *n = out && *n < f->n_queues ? *n : f->n_queues;
}
