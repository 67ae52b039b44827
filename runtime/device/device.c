#include "runtime/device/device.h"
#include "runtime/device/probe.h"
#include "runtime/device/vk_matrix.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { SUBMIT_MS = 500 }; /* well below the limit after which an operating system resets a device */

/* True if the loader must be asked to list portability drivers (MoltenVK). */
static bool
has_portability_enumeration(void)
{
    uint32_t n = 0;
    bool found = false;
    if (vkEnumerateInstanceExtensionProperties(NULL, &n, NULL) != VK_SUCCESS || n == 0)
        return false;
    VkExtensionProperties *rows = calloc(n, sizeof *rows);
    if (rows && vkEnumerateInstanceExtensionProperties(NULL, &n, rows) >= 0)
        for (uint32_t i = 0; i < n; i++)
            found = found || strcmp(rows[i].extensionName, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME) == 0;
    free(rows);
    return found;
}

static dop_status
create_handle(dop_diag *diag, VkInstance *out_handle)
{
    uint32_t version = VK_API_VERSION_1_0;
    vkEnumerateInstanceVersion(&version);
    if (version < VK_API_VERSION_1_2)
        return DOP_FAIL(diag, DOP_E_DEVICE, "the Vulkan loader has version %u.%u and 1.2 is needed: update it",
                        VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
    static const char *const portability[] = {VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME};
    VkApplicationInfo app = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "doppler-exec",
        .pEngineName = "doppler",
        .apiVersion = version < VK_API_VERSION_1_3 ? VK_API_VERSION_1_2 : VK_API_VERSION_1_3,
    };
    VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &app,
    };
    if (has_portability_enumeration()) {
        info.flags = VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
        info.enabledExtensionCount = 1;
        info.ppEnabledExtensionNames = portability;
    }
    VkResult r = vkCreateInstance(&info, NULL, out_handle);
    return r == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, r, "vkCreateInstance");
}

dop_status
dop_instance_create(dop_diag *diag, dop_instance *out_instance)
{
    dop_status st;
    VkPhysicalDevice *physical = NULL;
    uint32_t n = 0;
    memset(out_instance, 0, sizeof *out_instance);
    if ((st = create_handle(diag, &out_instance->handle)) != DOP_OK)
        return st;
    VkResult r = vkEnumeratePhysicalDevices(out_instance->handle, &n, NULL);
    if (r == VK_SUCCESS && n == 0)
        r = VK_ERROR_INCOMPATIBLE_DRIVER;
    if (r != VK_SUCCESS) {
        st = DOP_VK_FAIL(diag, r, "vkEnumeratePhysicalDevices");
        goto error;
    }
    physical = calloc(n, sizeof *physical);
    out_instance->devices = calloc(n, sizeof *out_instance->devices);
    if (!physical || !out_instance->devices) {
        st = DOP_NO_MEMORY(diag);
        goto error;
    }
    r = vkEnumeratePhysicalDevices(out_instance->handle, &n, physical);
    if (r < 0) {
        st = DOP_VK_FAIL(diag, r, "vkEnumeratePhysicalDevices");
        goto error;
    }
    for (uint32_t i = 0; i < n; i++) {
        st = dop_device_query(out_instance->handle, physical[i], i, diag, &out_instance->devices[i]);
        if (st != DOP_OK)
            goto error;
        out_instance->n_devices++;
    }
error:
    free(physical);
    if (st != DOP_OK)
        dop_instance_destroy(out_instance);
    return st;
}

void
dop_instance_destroy(dop_instance *instance)
{
    free(instance->devices);
    if (instance->handle)
        vkDestroyInstance(instance->handle, NULL);
    memset(instance, 0, sizeof *instance);
}

static int
type_rank(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return 0;
    default:
        return 1;
    }
}

static bool
contains_nocase(const char *text, const char *part)
{
    size_t n = strlen(part);
    for (; *text; text++)
        if (strncasecmp(text, part, n) == 0)
            return true;
    return n == 0;
}

static dop_status
choose_named(const dop_instance *instance, const char *which, dop_diag *diag, uint32_t *out_index)
{
    uint32_t found = UINT32_MAX;
    char *end;
    unsigned long number = strtoul(which, &end, 10);
    if (isdigit((unsigned char)which[0]) && *end == 0) {
        if (number < instance->n_devices)
            found = (uint32_t)number;
    } else {
        for (uint32_t i = 0; i < instance->n_devices && found == UINT32_MAX && which[0]; i++)
            if (contains_nocase(instance->devices[i].caps.name, which))
                found = i;
    }
    if (found == UINT32_MAX)
        return DOP_FAIL(diag, DOP_E_USAGE, "no device \"%s\" among %u: see `dop_devices`", which, instance->n_devices);
    if (instance->devices[found].missing[0])
        return DOP_FAIL(diag, DOP_E_DEVICE, "device %u (%s) cannot be used: it lacks %s", found,
                        instance->devices[found].caps.name, instance->devices[found].missing);
    *out_index = found;
    return DOP_OK;
}

dop_status
dop_instance_choose(const dop_instance *instance, const char *which, dop_diag *diag, uint32_t *out_index)
{
    if (which)
        return choose_named(instance, which, diag, out_index);
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < instance->n_devices; i++) {
        if (instance->devices[i].missing[0])
            continue;
        if (best == UINT32_MAX || type_rank(instance->devices[i].type) > type_rank(instance->devices[best].type))
            best = i;
    }
    if (best == UINT32_MAX)
        return DOP_FAIL(diag, DOP_E_DEVICE, "no usable Vulkan device: %s lacks %s", instance->devices[0].caps.name,
                        instance->devices[0].missing);
    *out_index = best;
    return DOP_OK;
}

dop_status
dop_instance_choose_nth(const dop_instance *instance, const char *which, uint32_t n, dop_diag *diag,
                        uint32_t *out_index)
{
    dop_status st = dop_instance_choose(instance, which, diag, out_index);
    uint32_t count = 0, at = 0;
    if (st != DOP_OK || which)
        return st;
    const int rank = type_rank(instance->devices[*out_index].type);
    for (uint32_t i = 0; i < instance->n_devices; i++)
        count += !instance->devices[i].missing[0] && type_rank(instance->devices[i].type) == rank;
    for (uint32_t i = 0; i < instance->n_devices; i++)
        if (!instance->devices[i].missing[0] && type_rank(instance->devices[i].type) == rank && at++ == n % count)
            *out_index = i;
    return DOP_OK;
}

/* Chained feature structs for device creation. They must stay valid until vkCreateDevice returns. */
typedef struct feature_chain {
    VkPhysicalDeviceFeatures2 base;
    VkPhysicalDeviceVulkan11Features f11;
    VkPhysicalDeviceVulkan12Features f12;
    VkPhysicalDeviceSubgroupSizeControlFeatures control;
    VkPhysicalDeviceShaderIntegerDotProductFeatures int_dot;
    VkPhysicalDeviceCooperativeMatrixFeaturesNV coop_nv;
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executable;
    const char *extensions[16];
    uint32_t n_extensions;
} feature_chain;

static void
enable_common(const dop_device_info *info, feature_chain *c)
{
    VkPhysicalDeviceVulkan11Features has11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
    VkPhysicalDeviceVulkan12Features has12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                              .pNext = &has11};
    VkPhysicalDeviceFeatures2 has = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &has12};
    vkGetPhysicalDeviceFeatures2(info->physical, &has);
    c->base.features.shaderInt64 = has.features.shaderInt64;
    c->base.features.shaderInt16 = has.features.shaderInt16;
    c->f11.storageBuffer16BitAccess = has11.storageBuffer16BitAccess;
    c->f11.uniformAndStorageBuffer16BitAccess = has11.uniformAndStorageBuffer16BitAccess;
    c->f12.storageBuffer8BitAccess = has12.storageBuffer8BitAccess;
    c->f12.uniformAndStorageBuffer8BitAccess = has12.uniformAndStorageBuffer8BitAccess;
    c->f12.shaderFloat16 = has12.shaderFloat16;
    c->f12.shaderInt8 = has12.shaderInt8;
    c->f12.scalarBlockLayout = has12.scalarBlockLayout;
    c->f12.shaderSubgroupExtendedTypes = has12.shaderSubgroupExtendedTypes;
    c->f12.hostQueryReset = has12.hostQueryReset;
    c->f12.timelineSemaphore = VK_TRUE;
    c->f12.bufferDeviceAddress = VK_TRUE;
    c->f12.vulkanMemoryModel = has12.vulkanMemoryModel;
    c->f12.vulkanMemoryModelDeviceScope = has12.vulkanMemoryModelDeviceScope;
}

static void
fill_chain(const dop_device_info *info, uint32_t wanted, feature_chain *c, dop_vk_matrix_features *khr)
{
    bool v13 = info->api_version >= VK_API_VERSION_1_3;
    memset(c, 0, sizeof *c);
    c->base.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    c->f11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    c->f12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    c->base.pNext = &c->f11;
    c->f11.pNext = &c->f12;
    void **tail = &c->f12.pNext;
    enable_common(info, c);
    if (info->subgroup_control) {
        c->control.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
        c->control.subgroupSizeControl = VK_TRUE;
        c->control.computeFullSubgroups = info->full_subgroups;
        *tail = &c->control;
        tail = &c->control.pNext;
        if (!v13)
            c->extensions[c->n_extensions++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    }
    if (wanted & DOP_CAP_int_dot) {
        c->int_dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
        c->int_dot.shaderIntegerDotProduct = VK_TRUE;
        *tail = &c->int_dot;
        tail = &c->int_dot.pNext;
        /* The SPIR-V modules name the KHR extension, which core 1.3 also accepts. */
        if (!v13)
            c->extensions[c->n_extensions++] = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
    }
    if (wanted & DOP_CAP_coop_nv) {
        c->coop_nv.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV;
        c->coop_nv.cooperativeMatrix = VK_TRUE;
        *tail = &c->coop_nv;
        tail = &c->coop_nv.pNext;
        c->extensions[c->n_extensions++] = VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME;
    }
    if (wanted & DOP_CAP_coop_khr) {
        memset(khr, 0, sizeof *khr);
        khr->sType = (VkStructureType)DOP_VK_MATRIX_FEATURES;
        khr->cooperativeMatrix = VK_TRUE;
        *tail = khr;
        tail = &khr->pNext;
        c->extensions[c->n_extensions++] = DOP_VK_MATRIX_EXTENSION;
    }
    if (info->statistics) {
        c->executable.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR;
        c->executable.pipelineExecutableInfo = VK_TRUE;
        *tail = &c->executable;
        c->extensions[c->n_extensions++] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
    }
    if (info->has_calibration)
        c->extensions[c->n_extensions++] = VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME;
    if (info->has_budget)
        c->extensions[c->n_extensions++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    if (info->has_portability)
        c->extensions[c->n_extensions++] = "VK_KHR_portability_subset";
}

static dop_status
create_view_layout(dop_device *d, dop_diag *diag)
{
    const VkDescriptorSetLayoutBinding binding = {
        .descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER,
        .descriptorCount = 1,
        .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
    };
    const VkDescriptorSetLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = 1,
        .pBindings = &binding,
    };
    const VkResult r = vkCreateDescriptorSetLayout(d->handle, &info, NULL, &d->view_layout);
    return r == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, r, "vkCreateDescriptorSetLayout");
}

dop_status
dop_device_create(const dop_instance *instance, uint32_t index, uint32_t wanted_caps, dop_diag *diag,
                  dop_device *out_device)
{
    dop_device *d = out_device;
    memset(d, 0, sizeof *d);
    d->info = instance->devices[index];
    const dop_device_info *info = &d->info;
    /* A software device may need minutes for a chunk of a large model. A GPU that needs one minute has hung. */
    d->timeout_s = info->caps.cpu ? 3600 : 60;
    d->submit_ms = info->caps.cpu ? 0 : SUBMIT_MS;
    feature_chain chain;
    dop_vk_matrix_features khr;
    fill_chain(info, wanted_caps, &chain, &khr);
    const float priority = 1.0f;
    VkDeviceQueueCreateInfo queues[2];
    memset(queues, 0, sizeof queues);
    for (uint32_t i = 0; i < 2; i++) {
        queues[i].sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
        queues[i].queueFamilyIndex = i == 0 ? info->queue_family : info->transfer_family;
        queues[i].queueCount = 1;
        queues[i].pQueuePriorities = &priority;
    }
    VkDeviceCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &chain.base,
        .queueCreateInfoCount = info->transfer_family != info->queue_family ? 2 : 1,
        .pQueueCreateInfos = queues,
        .enabledExtensionCount = chain.n_extensions,
        .ppEnabledExtensionNames = chain.extensions,
    };
    VkResult r = vkCreateDevice(info->physical, &create, NULL, &d->handle);
    if (r != VK_SUCCESS) {
        d->handle = VK_NULL_HANDLE;
        return DOP_VK_FAIL(diag, r, "vkCreateDevice");
    }
    vkGetDeviceQueue(d->handle, info->queue_family, 0, &d->queue);
    vkGetDeviceQueue(d->handle, info->transfer_family, 0, &d->transfer);
    if (pthread_mutex_init(&d->lock, NULL) != 0) {
        dop_device_destroy(d);
        return DOP_FAIL(diag, DOP_E_NOMEM, "cannot make a mutex");
    }
    d->lock_made = true;
    dop_status st = wanted_caps & DOP_CAP_texels ? create_view_layout(d, diag) : DOP_OK;
    if (st != DOP_OK) {
        dop_device_destroy(d);
        return st;
    }
    if (info->has_calibration)
        d->get_calibrated =
            (PFN_vkGetCalibratedTimestampsEXT)vkGetDeviceProcAddr(d->handle, "vkGetCalibratedTimestampsEXT");
    return DOP_OK;
}

void
dop_device_destroy(dop_device *device)
{
    /* Destroying objects of a hung device would block forever, so they are left until the process ends. A lost device
     * has finished its work, so its objects can be destroyed. */
    if (device->handle && !device->hung) {
        if (device->view_layout)
            vkDestroyDescriptorSetLayout(device->handle, device->view_layout, NULL);
        vkDestroyDevice(device->handle, NULL);
    }
    if (device->lock_made)
        pthread_mutex_destroy(&device->lock);
    memset(device, 0, sizeof *device);
}

dop_status
dop_device_begin(VkCommandBuffer commands, VkCommandBufferUsageFlags usage, dop_diag *diag)
{
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = usage};
    VkResult r = vkBeginCommandBuffer(commands, &begin);
    return r == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, r, "vkBeginCommandBuffer");
}

dop_status
dop_device_submit(dop_device *device, VkQueue queue, const VkCommandBuffer *commands, uint32_t n, VkSemaphore timeline,
                  uint64_t value, dop_diag *diag)
{
    const VkTimelineSemaphoreSubmitInfo values = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value,
    };
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = timeline ? &values : NULL,
        .commandBufferCount = n,
        .pCommandBuffers = commands,
        .signalSemaphoreCount = timeline ? 1 : 0,
        .pSignalSemaphores = &timeline,
    };
    pthread_mutex_lock(&device->lock);
    /* A lost device stays lost, whichever thread noticed it first. */
    VkResult r = device->lost ? VK_ERROR_DEVICE_LOST : vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE);
    if (r == VK_ERROR_DEVICE_LOST)
        device->lost = true;
    pthread_mutex_unlock(&device->lock);
    return r == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, r, "vkQueueSubmit");
}

dop_status
dop_device_wait(dop_device *device, VkSemaphore timeline, uint64_t value, dop_diag *diag)
{
    VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &timeline,
        .pValues = &value,
    };
    const uint64_t ns =
        device->timeout_s < 1e9 ? (uint64_t)(device->timeout_s * 1e9) : UINT64_MAX; /* more than 30 years */
    VkResult r = vkWaitSemaphores(device->handle, &info, ns);
    if (r == VK_SUCCESS)
        return DOP_OK;
    device->hung = r != VK_ERROR_DEVICE_LOST;
    device->lost = true;
    if (r == VK_TIMEOUT)
        return DOP_FAIL(diag, DOP_E_DEVICE,
                        "the device did not finish within %.3g seconds: it hangs or is far too slow for this plan; try "
                        "smaller prefill chunks (`max_chunk` 8), another `device`, or doppler-exec --check",
                        device->timeout_s);
    return DOP_VK_FAIL(diag, r, "vkWaitSemaphores");
}

dop_status
dop_device_timeline(dop_device *device, dop_diag *diag, VkSemaphore *out_semaphore)
{
    VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
    };
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkResult r = vkCreateSemaphore(device->handle, &info, NULL, out_semaphore);
    return r == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, r, "vkCreateSemaphore");
}

dop_status
dop_device_probe(const char *device, dop_diag *diag, dop_device_caps *out_caps)
{
    dop_instance instance;
    uint32_t index = 0;
    dop_status st = dop_instance_create(diag, &instance);
    if (st != DOP_OK)
        return st;
    st = dop_instance_choose(&instance, device, diag, &index);
    if (st == DOP_OK)
        *out_caps = instance.devices[index].caps;
    dop_instance_destroy(&instance);
    return st;
}
