/* Properties and capabilities of a physical device. */
#include "runtime/device/device_info.h"

#include "base/encoding/utf8.h"
#include "base/os/system.h"
#include "base/parallel.h"
#include "runtime/device/vk_matrix.h"
#include "runtime/device/vk_result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NVIDIA = 0x10DE }; /* VkPhysicalDeviceProperties.vendorID */

typedef struct extension_list {
    VkExtensionProperties *rows;
    uint32_t n;
} extension_list;

static bool
has_extension(const extension_list *list, const char *name)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (strcmp(list->rows[i].extensionName, name) == 0)
            return true;
    return false;
}

static dop_status
list_extensions(VkPhysicalDevice physical, dop_diag *diag, extension_list *out_list)
{
    memset(out_list, 0, sizeof *out_list);
    uint32_t n = 0;
    VkResult r = vkEnumerateDeviceExtensionProperties(physical, NULL, &n, NULL);
    if (r == VK_SUCCESS && n > 0) {
        out_list->rows = calloc(n, sizeof *out_list->rows);
        if (!out_list->rows)
            return DOP_NO_MEMORY(diag);
        r = vkEnumerateDeviceExtensionProperties(physical, NULL, &n, out_list->rows);
        out_list->n = n;
    }
    return r == VK_SUCCESS || r == VK_INCOMPLETE ? DOP_OK
                                                 : DOP_VK_FAIL(diag, r, "vkEnumerateDeviceExtensionProperties");
}

/* Result structs of all queries about a physical device, chained as its version and extensions allow. */
typedef struct answers {
    VkPhysicalDeviceProperties2 props;
    VkPhysicalDeviceVulkan11Properties props11;
    VkPhysicalDeviceVulkan12Properties props12;
    VkPhysicalDeviceSubgroupSizeControlProperties subgroup;
    VkPhysicalDeviceMaintenance4Properties maintenance4;
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV sm;
    VkPhysicalDeviceShaderCorePropertiesAMD amd;
    VkPhysicalDeviceShaderCoreProperties2AMD amd2;
    VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM arm;
    VkPhysicalDeviceFeatures2 features;
    VkPhysicalDeviceVulkan11Features f11;
    VkPhysicalDeviceVulkan12Features f12;
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_control;
    VkPhysicalDeviceShaderIntegerDotProductFeatures int_dot;
    VkPhysicalDeviceCooperativeMatrixFeaturesNV coop_nv;
    dop_vk_matrix_features coop_khr;
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executable;
} answers;

static void
query_device_facts(VkPhysicalDevice physical, uint32_t api_version, const extension_list *ext, answers *a)
{
    bool v13 = api_version >= VK_API_VERSION_1_3;
    bool control = v13 || has_extension(ext, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    memset(a, 0, sizeof *a);
    a->props.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    a->features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    void **p = &a->props.pNext, **f = &a->features.pNext;
#define CHAIN(tail, field, type)         \
    do {                                 \
        a->field.sType = (type);         \
        *tail = &a->field;               \
        tail = (void **)&a->field.pNext; \
    } while (0)
    CHAIN(p, props11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
    CHAIN(p, props12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES);
    CHAIN(f, f11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
    CHAIN(f, f12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    if (control) {
        CHAIN(p, subgroup, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
        CHAIN(f, subgroup_control, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
    }
    if (v13 || has_extension(ext, VK_KHR_MAINTENANCE_4_EXTENSION_NAME))
        CHAIN(p, maintenance4, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES);
    if (v13 || has_extension(ext, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME))
        CHAIN(f, int_dot, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES);
    if (has_extension(ext, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME))
        CHAIN(p, sm, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
    if (has_extension(ext, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME))
        CHAIN(p, amd, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD);
    if (has_extension(ext, VK_AMD_SHADER_CORE_PROPERTIES_2_EXTENSION_NAME))
        CHAIN(p, amd2, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD);
    if (has_extension(ext, VK_ARM_SHADER_CORE_BUILTINS_EXTENSION_NAME))
        CHAIN(p, arm, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM);
    if (has_extension(ext, VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME))
        CHAIN(f, coop_nv, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV);
    if (has_extension(ext, DOP_VK_MATRIX_EXTENSION))
        CHAIN(f, coop_khr, (VkStructureType)DOP_VK_MATRIX_FEATURES);
    if (has_extension(ext, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME))
        CHAIN(f, executable, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR);
#undef CHAIN
    vkGetPhysicalDeviceProperties2(physical, &a->props);
    vkGetPhysicalDeviceFeatures2(physical, &a->features);
}

static uint32_t
caps_of(const answers *a)
{
    const VkSubgroupFeatureFlags need = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT |
                                        VK_SUBGROUP_FEATURE_ARITHMETIC_BIT | VK_SUBGROUP_FEATURE_BALLOT_BIT |
                                        VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    uint32_t caps = 0;
    /* Kernels load bf16 and packed formats as 16- and 8-bit integers, so storage without these integer types is
     * useless. */
    if (a->f11.storageBuffer16BitAccess && a->features.features.shaderInt16)
        caps |= DOP_CAP_f16_storage;
    if (a->f12.shaderFloat16)
        caps |= DOP_CAP_f16_math;
    if (a->f12.storageBuffer8BitAccess && a->f12.shaderInt8)
        caps |= DOP_CAP_i8_storage;
    if ((a->props11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
        dop_subgroup_usable(a->props11.subgroupSize) && (a->props11.subgroupSupportedOperations & need) == need)
        caps |= DOP_CAP_subgroup;
    if (a->int_dot.shaderIntegerDotProduct)
        caps |= DOP_CAP_int_dot;
    /* Modules with matrices use the Vulkan memory model. */
    if (a->coop_nv.cooperativeMatrix && a->f12.vulkanMemoryModel)
        caps |= DOP_CAP_coop_nv;
    if (a->coop_khr.cooperativeMatrix && a->f12.vulkanMemoryModel)
        caps |= DOP_CAP_coop_khr;
    if (a->features.features.shaderInt64)
        caps |= DOP_CAP_int64;
    if (a->props.properties.limits.maxTexelBufferElements >= DOP_VIEW_MAX_TEXELS)
        caps |= DOP_CAP_texels;
    return caps;
}

/* Adds a matrix shape from the driver's list (KHR or NV extension) if its sums have the wanted type. */
static void
add_matrix_shape(dop_matrix_list *list, const uint32_t size[3], const int32_t types[4], int32_t sums, int32_t scope)
{
    bool fits = size[0] < 256 && size[1] < 256 && size[2] < 256 && list->n < DOP_MAX_MATRIX_SHAPES;
    if (fits && types[0] == DOP_VK_FLOAT16 && types[1] == DOP_VK_FLOAT16 && types[2] == sums && types[3] == sums &&
        scope == DOP_VK_SUBGROUP)
        list->shapes[list->n++] = DOP_MATRIX_SHAPE(size[0], size[1], size[2]);
}

static void
find_matrices(VkInstance instance, dop_device_info *info)
{
    enum { MAX_ROWS = 64 };
    if (info->caps.caps & DOP_CAP_coop_nv) {
        PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesNV get =
            (PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesNV)vkGetInstanceProcAddr(
                instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesNV");
        VkCooperativeMatrixPropertiesNV rows[MAX_ROWS];
        memset(rows, 0, sizeof rows);
        for (uint32_t i = 0; i < MAX_ROWS; i++)
            rows[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV;
        uint32_t n = MAX_ROWS;
        if (get && get(info->physical, &n, rows) >= 0)
            for (uint32_t i = 0; i < n; i++)
                add_matrix_shape(&info->matrix_nv, (uint32_t[]){rows[i].MSize, rows[i].NSize, rows[i].KSize},
                                 (int32_t[]){(int32_t)rows[i].AType, (int32_t)rows[i].BType, (int32_t)rows[i].CType,
                                             (int32_t)rows[i].DType},
                                 DOP_VK_FLOAT32, (int32_t)rows[i].scope);
    }
    if (info->caps.caps & DOP_CAP_coop_khr) {
        dop_vk_get_matrix_properties get = (dop_vk_get_matrix_properties)vkGetInstanceProcAddr(
            instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
        dop_vk_matrix_properties rows[MAX_ROWS];
        memset(rows, 0, sizeof rows);
        for (uint32_t i = 0; i < MAX_ROWS; i++)
            rows[i].sType = (VkStructureType)DOP_VK_MATRIX_PROPERTIES;
        uint32_t n = MAX_ROWS;
        if (get && get(info->physical, &n, rows) >= 0)
            for (uint32_t i = 0; i < n; i++) {
                const uint32_t size[] = {rows[i].MSize, rows[i].NSize, rows[i].KSize};
                const int32_t types[] = {rows[i].AType, rows[i].BType, rows[i].CType, rows[i].ResultType};
                add_matrix_shape(&info->matrix_khr, size, types, DOP_VK_FLOAT32, rows[i].scope);
                add_matrix_shape(&info->matrix_khr_f16, size, types, DOP_VK_FLOAT16, rows[i].scope);
            }
    }
}

static bool
has_shape(const dop_matrix_list *list, uint32_t shape)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (list->shapes[i] == shape)
            return true;
    return false;
}

bool
dop_device_has_matrix(const dop_device_info *info, uint32_t caps, uint32_t shape)
{
    return (!(caps & DOP_CAP_coop_nv) || has_shape(&info->matrix_nv, shape)) &&
           (!(caps & DOP_CAP_coop_khr) || has_shape(&info->matrix_khr, shape));
}

/* True if kernels can be made for the shape with some subgroup size that they may require. */
static bool
is_usable(const dop_device_info *info, uint32_t shape)
{
    bool usable = dop_matrix_usable(shape, info->caps.subgroup);
    for (uint32_t size = info->subgroup_min; size <= info->subgroup_max && size > 0; size *= 2)
        usable = usable || dop_matrix_usable(shape, size);
    return usable;
}

/* Returns the largest shape that kernels support and the device has in every extension that it reports; 0: none. */
static uint32_t
usable_matrix(const dop_device_info *info)
{
    static const uint32_t shapes[] = {DOP_MATRIX_SHAPE(16, 16, 16), DOP_MATRIX_SHAPE(8, 16, 16),
                                      DOP_MATRIX_SHAPE(8, 8, 16), DOP_MATRIX_SHAPE(8, 8, 8)};
    uint32_t caps = info->caps.caps & DOP_CAP_coop;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && caps; i++)
        if (is_usable(info, shapes[i]) && dop_device_has_matrix(info, caps, shapes[i]))
            return shapes[i];
    return 0;
}

void
dop_matrix_names(const dop_matrix_list *list, dop_buf *out)
{
    for (uint32_t i = 0; i < list->n; i++)
        dop_buf_printf(out, "%s%ux%ux%u", i ? ", " : "", dop_matrix_m(list->shapes[i]), dop_matrix_n(list->shapes[i]),
                       dop_matrix_k(list->shapes[i]));
    if (list->n == 0)
        dop_buf_puts(out, "none");
}

/* True if some memory type of the largest device-local heap is host-visible, too. */
static bool
maps_all(const VkPhysicalDeviceMemoryProperties *m)
{
    const VkMemoryPropertyFlags both = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                       VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint64_t largest = 0, mapped = 0;
    for (uint32_t i = 0; i < m->memoryHeapCount; i++)
        if ((m->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && m->memoryHeaps[i].size > largest)
            largest = m->memoryHeaps[i].size;
    for (uint32_t i = 0; i < m->memoryTypeCount; i++) {
        uint64_t size = m->memoryHeaps[m->memoryTypes[i].heapIndex].size;
        if ((m->memoryTypes[i].propertyFlags & both) == both && size > mapped)
            mapped = size;
    }
    return largest > 0 && mapped >= largest;
}

/* Finds a compute queue and, if weights are copied, a copy-only queue. The latter makes device creation 10% slower, so
 * it is used only when needed. */
static bool
find_queues(dop_device_info *info)
{
    VkQueueFamilyProperties families[32];
    uint32_t n = sizeof families / sizeof families[0];
    bool found = false;
    vkGetPhysicalDeviceQueueFamilyProperties(info->physical, &n, families);
    for (uint32_t i = 0; i < n && !found; i++)
        if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) && families[i].queueCount > 0) {
            info->queue_family = i;
            info->transfer_family = i;
            info->timestamp_bits = families[i].timestampValidBits;
            found = true;
        }
    for (uint32_t i = 0; i < n && found && !info->maps_all; i++)
        if ((families[i].queueFlags & (VK_QUEUE_TRANSFER_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT)) ==
                VK_QUEUE_TRANSFER_BIT &&
            families[i].queueCount > 0) {
            info->transfer_family = i;
            break;
        }
    return found;
}

static bool
calibrates_monotonic(VkInstance instance, VkPhysicalDevice physical)
{
    PFN_vkGetPhysicalDeviceCalibrateableTimeDomainsEXT get =
        (PFN_vkGetPhysicalDeviceCalibrateableTimeDomainsEXT)vkGetInstanceProcAddr(
            instance, "vkGetPhysicalDeviceCalibrateableTimeDomainsEXT");
    VkTimeDomainEXT domains[16];
    uint32_t n = sizeof domains / sizeof domains[0];
    bool device = false, host = false;
    if (!get || get(physical, &n, domains) < 0)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        device = device || domains[i] == VK_TIME_DOMAIN_DEVICE_EXT;
        host = host || domains[i] == VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT;
    }
    return device && host;
}

/* Returns the number of multiprocessors (NVIDIA), compute units (AMD) or shader cores (Arm) from the vendor's
 * extension; 0: not reported. */
static uint32_t
cores_of(const answers *a)
{
    const uint64_t units =
        (uint64_t)a->amd.shaderEngineCount * a->amd.shaderArraysPerEngineCount * a->amd.computeUnitsPerShaderArray;
    return a->sm.shaderSMCount              ? a->sm.shaderSMCount
           : a->amd2.activeComputeUnitCount ? a->amd2.activeComputeUnitCount
           : a->arm.shaderCoreCount         ? a->arm.shaderCoreCount
                                            : (uint32_t)(units < UINT16_MAX ? units : 0);
}

/* Replaces invalid UTF-8 and control characters in a driver's text by question marks. */
static void
make_printable(char *text)
{
    for (size_t n = strlen(text), i = 0, more; i < n; i += more) {
        const dop_utf8_char c = dop_utf8_next(text + i, n - i);
        more = c.len;
        if (!c.valid || c.cp < 0x20 || (c.cp >= 0x7f && c.cp < 0xa0))
            memset(text + i, '?', more);
    }
}

static void
fill_limits(const answers *a, dop_device_info *info)
{
    const VkPhysicalDeviceLimits *l = &a->props.properties.limits;
    dop_device_caps *c = &info->caps;
    c->max_workgroup = l->maxComputeWorkGroupInvocations;
    c->shared_bytes = l->maxComputeSharedMemorySize;
    c->push_bytes = l->maxPushConstantsSize;
    c->max_alloc = a->props11.maxMemoryAllocationSize;
    c->subgroup = c->caps & DOP_CAP_subgroup ? a->props11.subgroupSize : 1;
    info->subgroup_control = a->subgroup_control.subgroupSizeControl &&
                             (a->subgroup.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                             dop_subgroup_usable(a->subgroup.minSubgroupSize) &&
                             dop_subgroup_usable(a->subgroup.maxSubgroupSize) &&
                             a->subgroup.minSubgroupSize <= a->subgroup.maxSubgroupSize;
    info->full_subgroups = info->subgroup_control && a->subgroup_control.computeFullSubgroups;
    info->subgroup_min = info->subgroup_control ? a->subgroup.minSubgroupSize : c->subgroup;
    info->subgroup_max = info->subgroup_control ? a->subgroup.maxSubgroupSize : c->subgroup;
    c->subgroup_min = info->subgroup_min;
    c->subgroup_max = info->subgroup_max;
    c->max_subgroups = info->subgroup_control ? a->subgroup.maxComputeWorkgroupSubgroups : 0;
    info->max_subgroups = a->subgroup.maxComputeWorkgroupSubgroups;
    info->max_buffer = a->maintenance4.maxBufferSize ? a->maintenance4.maxBufferSize : c->max_alloc;
    if (info->max_buffer < c->max_alloc)
        c->max_alloc = info->max_buffer; /* each device allocation holds a single buffer */
    memcpy(info->max_local, l->maxComputeWorkGroupSize, sizeof info->max_local);
    memcpy(info->max_grid, l->maxComputeWorkGroupCount, sizeof info->max_grid);
    info->timestamp_period = l->timestampPeriod;
    for (uint32_t i = 0; i < info->memory.memoryHeapCount; i++)
        if ((info->memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) &&
            info->memory.memoryHeaps[i].size > c->memory)
            c->memory = info->memory.memoryHeaps[i].size;
    if (c->cpu) {
        /* A software driver reports an arbitrary heap size; the real limit is the host's memory. */
        const uint64_t memory = dop_memory_total();
        if (memory > 0)
            c->memory = memory;
        c->cores = dop_cores();
    } else {
        c->cores = cores_of(a);
    }
}

dop_status
dop_device_query(VkInstance instance, VkPhysicalDevice physical, uint32_t index, dop_diag *diag,
                 dop_device_info *out_info)
{
    dop_device_info *info = out_info;
    VkPhysicalDeviceProperties base;
    extension_list ext = {0};
    answers a;
    memset(info, 0, sizeof *info);
    vkGetPhysicalDeviceProperties(physical, &base);
    info->physical = physical;
    info->index = index;
    info->type = base.deviceType;
    info->api_version = base.apiVersion;
    info->caps.vendor_id = base.vendorID;
    info->caps.device_id = base.deviceID;
    info->driver_version = base.driverVersion;
    info->caps.cpu = base.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    snprintf(info->caps.name, sizeof info->caps.name, "%s", base.deviceName);
    make_printable(info->caps.name);
    if (base.apiVersion < VK_API_VERSION_1_2) {
        snprintf(info->missing, sizeof info->missing, "Vulkan 1.2 (it has %u.%u)",
                 VK_API_VERSION_MAJOR(base.apiVersion), VK_API_VERSION_MINOR(base.apiVersion));
        return DOP_OK;
    }
    dop_status st = list_extensions(physical, diag, &ext);
    if (st != DOP_OK)
        goto error;
    vkGetPhysicalDeviceMemoryProperties(physical, &info->memory);
    info->maps_all = maps_all(&info->memory);
    query_device_facts(physical, base.apiVersion, &ext, &a);
    snprintf(info->caps.driver, sizeof info->caps.driver, "%s %s", a.props12.driverName, a.props12.driverInfo);
    make_printable(info->caps.driver);
    memcpy(info->driver_uuid, a.props11.driverUUID, VK_UUID_SIZE);
    memcpy(info->device_uuid, a.props11.deviceUUID, VK_UUID_SIZE);
    info->caps.caps = caps_of(&a);
    info->caps.device_scope = a.f12.vulkanMemoryModelDeviceScope;
    fill_limits(&a, info);
    find_matrices(instance, info);
    info->caps.matrix = usable_matrix(info);
    if (has_shape(&info->matrix_khr_f16, info->caps.matrix))
        info->caps.caps |= DOP_CAP_coop_f16_sums;
    if (info->caps.vendor_id == NVIDIA && info->caps.subgroup == 32 &&
        has_shape(&info->matrix_khr, DOP_MATRIX_SHAPE(16, 16, 16)))
        info->caps.caps |= DOP_CAP_coop_pairs;
    info->has_budget = has_extension(&ext, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    info->has_statistics = a.executable.pipelineExecutableInfo;
    info->has_portability = has_extension(&ext, "VK_KHR_portability_subset");
    info->has_calibration =
        has_extension(&ext, VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME) && calibrates_monotonic(instance, physical);
    bool queues = find_queues(info);
    const char *missing = !queues                      ? "a compute queue"
                          : !a.f12.bufferDeviceAddress ? "buffer device addresses"
                          : !a.f12.timelineSemaphore   ? "timeline semaphores"
                                                       : "";
    snprintf(info->missing, sizeof info->missing, "%s", missing);
error:
    free(ext.rows);
    return st;
}

void
dop_caps_names(uint32_t caps, dop_buf *out)
{
    static const char *const names[32] = {
#define CAP(bit, name, what) [bit] = what,
        DOP_CAPS(CAP)
#undef CAP
    };
    const char *sep = "";
    for (uint32_t bit = 0; bit < 32; bit++) {
        if (!(caps >> bit & 1))
            continue;
        if (names[bit])
            dop_buf_printf(out, "%s%s", sep, names[bit]);
        else
            dop_buf_printf(out, "%scapability %u (unknown to this program)", sep, bit);
        sep = ", ";
    }
}

static const char *
type_name(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return "software";
    default:
        return "other";
    }
}

void
dop_device_describe(const dop_device_info *info, dop_buf *out)
{
    const dop_device_caps *c = &info->caps;
    uint32_t f16 = c->caps & (DOP_CAP_f16_storage | DOP_CAP_f16_math);
    dop_buf_printf(out, "%u: %s (%s), ", info->index, c->name, type_name(info->type));
    if (info->missing[0]) {
        dop_buf_printf(out, "cannot be used: it lacks %s\n", info->missing);
        return;
    }
    dop_buf_printf(out, "driver %s, Vulkan %u.%u, memory %.1f GiB, f16 %s, subgroup %u", c->driver,
                   VK_API_VERSION_MAJOR(info->api_version), VK_API_VERSION_MINOR(info->api_version),
                   (double)c->memory / (1024.0 * 1024.0 * 1024.0),
                   f16 == (DOP_CAP_f16_storage | DOP_CAP_f16_math) ? "yes"
                   : f16 == DOP_CAP_f16_storage                    ? "storage only"
                                                                   : "no",
                   c->subgroup);
    if (info->subgroup_min != info->subgroup_max)
        dop_buf_printf(out, " (%u to %u)", info->subgroup_min, info->subgroup_max);
    dop_buf_printf(out, ", shared memory %u KiB, matrix units ", c->shared_bytes / 1024);
    if (c->caps & DOP_CAP_coop_nv) {
        dop_buf_puts(out, "NV ");
        dop_matrix_names(&info->matrix_nv, out);
    }
    if (c->caps & DOP_CAP_coop_khr) {
        dop_buf_puts(out, c->caps & DOP_CAP_coop_nv ? "; KHR " : "KHR ");
        dop_matrix_names(&info->matrix_khr, out);
    }
    dop_buf_puts(out, c->caps & DOP_CAP_coop ? " f16->f32\n" : "none\n");
}
