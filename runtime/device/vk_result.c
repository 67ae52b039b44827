/* Converts Vulkan errors to messages for the user. */
#include "runtime/device/vk_result.h"

dop_status
dop_vk_fail(dop_diag *diag, const char *src_file, int src_line, VkResult result, const char *what)
{
    const char *msg = NULL;
    dop_status code = DOP_E_DEVICE;
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        msg = "the driver is out of host memory: close other programs";
        code = DOP_E_NOMEM;
        break;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
        msg = "the device is out of memory: close other programs that use it, compile with a smaller `ctx` or a "
              "smaller `quant`, or choose another `device`";
        break;
    case VK_ERROR_DEVICE_LOST:
        msg = "the device was lost (a kernel crashed or ran too long): look into the system log, and run "
              "doppler-exec --check to find the kernel";
        break;
    case VK_ERROR_INCOMPATIBLE_DRIVER:
        msg = "no Vulkan driver was found: install one (Debian: mesa-vulkan-drivers) and see vulkaninfo --summary";
        break;
    case VK_ERROR_INITIALIZATION_FAILED:
        msg = "the Vulkan driver could not start: see vulkaninfo --summary";
        break;
    case VK_ERROR_FEATURE_NOT_PRESENT:
    case VK_ERROR_EXTENSION_NOT_PRESENT:
        msg = "the driver lacks something it said it had: update it";
        break;
    case VK_ERROR_TOO_MANY_OBJECTS:
        msg = "the driver allows no more allocations: close other programs that use the device, or choose another "
              "`device`";
        break;
    case VK_ERROR_MEMORY_MAP_FAILED:
        msg = "the host cannot map memory of the device: close other programs that use it, or choose another `device`";
        break;
    default:
        break;
    }
    if (msg)
        return dop_fail(diag, src_file, src_line, code, NULL, 0, 0, "%s (%s)", msg, what);
    return dop_fail(diag, src_file, src_line, code, NULL, 0, 0,
                    "%s failed with Vulkan error %d: update the driver, or choose another `device`", what, (int)result);
}
