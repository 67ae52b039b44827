/* Stands in for a Vulkan driver that keeps memory in a global variable only, as Mesa does on AMD processors.  The Vulkan
 * loader loads it for vkCreateInstance, which this driver refuses, and closes it.  `mistake unloaded` and `mistake lost`
 * (tests/tools/mistake.c) use it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

static void *volatile table; /* 128 bytes: the size that Mesa loses */

VKAPI_ATTR VkResult VKAPI_CALL
vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version)
{
    if (!table)
        table = malloc(128);
    if (!table)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    memset(table, 1, 128);
    if (*version > 5)
        *version = 5;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL
no_extensions(const char *layer, uint32_t *n, VkExtensionProperties *rows)
{
    (void)layer, (void)rows;
    *n = 0;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL
no_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out_instance)
{
    (void)info, (void)allocator, (void)out_instance;
    return VK_ERROR_INCOMPATIBLE_DRIVER;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vk_icdGetInstanceProcAddr(VkInstance instance, const char *name)
{
    (void)instance;
    if (strcmp(name, "vkEnumerateInstanceExtensionProperties") == 0)
        return (PFN_vkVoidFunction)no_extensions;
    if (strcmp(name, "vkCreateInstance") == 0)
        return (PFN_vkVoidFunction)no_instance;
    return NULL;
}
