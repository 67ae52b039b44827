/* Makes one mistake on purpose, so that tests/run.sh can prove that what it looks for would be seen:
 * a validation-layer message, a leak, a read past the end, an undefined shift. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

/* Creates a buffer of size 0 (VUID-VkBufferCreateInfo-size-00912). */
static int
break_vulkan(void)
{
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
    VkInstanceCreateInfo ici = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
    VkInstance instance;
    if (vkCreateInstance(&ici, NULL, &instance) != VK_SUCCESS)
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
    const char *what = argc == 2 ? argv[1] : "";
    char *volatile bytes = malloc(16);
    if (!bytes)
        return 1;
    memset(bytes, 1, 16);
    if (strcmp(what, "vulkan") == 0) {
        free(bytes);
        return break_vulkan();
    }
    if (strcmp(what, "leak") == 0) {
        bytes = NULL;
        return 0;
    }
    if (strcmp(what, "overflow") == 0) {
        volatile int past = 16;
        volatile int byte = bytes[past];
        free(bytes);
        return byte == 300;
    }
    free(bytes);
    if (strcmp(what, "undefined") == 0) {
        volatile int by = 40;
        return 1 << by == 3;
    }
    fprintf(stderr, "usage: mistake vulkan|leak|overflow|undefined\n");
    return 2;
}
