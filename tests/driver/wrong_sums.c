/* A driver that gets sums over subgroups wrong: loaded before the Vulkan loader (LD_PRELOAD), it makes each module's
 * OpGroupNonUniformFAdd an OpGroupNonUniformFMax before the real driver compiles it. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

enum { SUM = 350, LARGEST = 358, HEAD_WORDS = 5 };

VKAPI_ATTR VkResult VKAPI_CALL
vkCreateShaderModule(VkDevice device, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *allocator,
                     VkShaderModule *out)
{
    PFN_vkCreateShaderModule real;
    void *found = dlsym(RTLD_NEXT, "vkCreateShaderModule");
    memcpy(&real, &found, sizeof real);
    uint32_t *code = malloc(info->codeSize);
    if (!found || !code)
        abort();
    memcpy(code, info->pCode, info->codeSize);
    for (size_t i = HEAD_WORDS, n = info->codeSize / sizeof *code; i < n && code[i] >> 16; i += code[i] >> 16)
        if ((code[i] & 0xffff) == SUM)
            code[i] = (code[i] & 0xffff0000) | LARGEST;
    VkShaderModuleCreateInfo changed = *info;
    changed.pCode = code;
    const VkResult result = real(device, &changed, allocator, out);
    free(code);
    return result;
}
