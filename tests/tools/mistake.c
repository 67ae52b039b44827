/* Makes one mistake on purpose, so that tests/run.sh can prove that what it looks for would be seen:
 *
 *   vulkan           a message of the validation layers
 *   leak             16 bytes, lost after a Vulkan instance came and went
 *   lost MODULE      what MODULE (tests/sanitize/lost_module.c) keeps in its own global, by really unloading it
 *   overflow         a read past the end
 *   undefined        a shift by too much
 *
 * and one thing that is no mistake of ours and must not be reported:
 *
 *   unloaded MODULE  what MODULE keeps, after the Vulkan loader loaded it as a driver and closed it again */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

static VkInstance
make_instance(void)
{
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
    VkInstanceCreateInfo ici = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
    VkInstance instance;
    return vkCreateInstance(&ici, NULL, &instance) == VK_SUCCESS ? instance : VK_NULL_HANDLE;
}

/* Loads the drivers and lets the loader close them: 0 when that worked. */
static int
use_drivers(void)
{
    VkInstance instance = make_instance();
    uint32_t n = 0;
    if (!instance)
        return 1;
    vkEnumeratePhysicalDevices(instance, &n, NULL);
    vkDestroyInstance(instance, NULL);
    return n == 0;
}

/* 0 when the Vulkan loader loaded `module` and it is still there, as keep_modules.c of the sanitized build wants it. */
static int
unload_driver(const char *module)
{
    use_drivers(); /* fails where this is the only driver */
    if (!dlopen(module, RTLD_NOW | RTLD_NOLOAD)) {
        fprintf(stderr, "mistake: %s is not a loaded Vulkan driver\n", module);
        return 1;
    }
    return 0;
}

/* Unloads `module` behind the back of keep_modules.c, by the dlclose that comes after the program's own. */
static int
lose_module(const char *module)
{
    int (*unload)(void *handle);
    *(void **)&unload = dlsym(RTLD_NEXT, "dlclose");
    void *handle = dlopen(module, RTLD_NOW);
    void (*ask)(uint32_t * version);
    if (!handle || !unload)
        return 1;
    *(void **)&ask = dlsym(handle, "vk_icdNegotiateLoaderICDInterfaceVersion");
    if (!ask)
        return 1;
    uint32_t version = 5;
    ask(&version);
    return unload(handle) != 0 || dlopen(module, RTLD_NOW | RTLD_NOLOAD);
}

/* Creates a buffer of size 0 (VUID-VkBufferCreateInfo-size-00912). */
static int
break_vulkan(void)
{
    VkInstance instance = make_instance();
    if (!instance)
        return 1;
    uint32_t n = 1;
    VkPhysicalDevice phys;
    vkEnumeratePhysicalDevices(instance, &n, &phys);
    if (n == 0)
        return 1;
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo dci = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue};
    VkDevice device;
    if (vkCreateDevice(phys, &dci, NULL, &device) != VK_SUCCESS)
        return 1;
    VkBufferCreateInfo bci = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = 0, .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
    VkBuffer buffer = VK_NULL_HANDLE;
    vkCreateBuffer(device, &bci, NULL, &buffer);
    vkDestroyBuffer(device, buffer, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}

int
main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (argc == 2 && strcmp(what, "vulkan") == 0)
        return break_vulkan();
    if (argc == 3 && strcmp(what, "unloaded") == 0)
        return unload_driver(argv[2]);
    if (argc == 3 && strcmp(what, "lost") == 0)
        return lose_module(argv[2]);
    if (argc == 2 && strcmp(what, "undefined") == 0) {
        volatile int by = 40;
        return 1 << by == 3;
    }
    char *volatile bytes = malloc(16);
    if (!bytes)
        return 1;
    memset(bytes, 1, 16);
    if (argc == 2 && strcmp(what, "leak") == 0) {
        bytes = NULL;
        return use_drivers();
    }
    if (argc == 2 && strcmp(what, "overflow") == 0) {
        volatile int past = 16;
        volatile int byte = bytes[past];
        free(bytes);
        return byte == 300;
    }
    free(bytes);
    fprintf(stderr, "usage: mistake vulkan|leak|overflow|undefined\n       mistake unloaded|lost MODULE\n");
    return 2;
}
