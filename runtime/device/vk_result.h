/* Converts Vulkan results to statuses. */
#ifndef DOPPLER_RUNTIME_DEVICE_VK_RESULT_H
#define DOPPLER_RUNTIME_DEVICE_VK_RESULT_H

#include "base/base.h"

#include <vulkan/vulkan.h>

/* Turns a VkResult into a status with a message that says what to do. */
dop_status dop_vk_fail(dop_diag *diag, const char *src_file, int src_line, VkResult result, const char *what);
#define DOP_VK_FAIL(diag, result, what) dop_vk_fail((diag), __FILE__, __LINE__, (result), (what))

#endif
