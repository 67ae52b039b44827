/* Minimal declarations of VK_KHR_cooperative_matrix, which is newer than the headers of Debian 12 (1.3.239). Numbers
 * and layouts are those of the Vulkan registry (extension 507, Vulkan 1.3.255 and later). */
#ifndef DOPPLER_RUNTIME_DEVICE_VK_MATRIX_H
#define DOPPLER_RUNTIME_DEVICE_VK_MATRIX_H

#include <vulkan/vulkan.h>

#define DOP_VK_MATRIX_EXTENSION "VK_KHR_cooperative_matrix"

enum {
    DOP_VK_MATRIX_FEATURES = 1000506000,   /* VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR */
    DOP_VK_MATRIX_PROPERTIES = 1000506001, /* VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR */
    DOP_VK_FLOAT16 = 0,                    /* VK_COMPONENT_TYPE_FLOAT16_KHR and _NV */
    DOP_VK_FLOAT32 = 1,                    /* VK_COMPONENT_TYPE_FLOAT32_KHR and _NV */
    DOP_VK_SUBGROUP = 3                    /* VK_SCOPE_SUBGROUP_KHR and _NV */
};

typedef struct dop_vk_matrix_features {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrix;
    VkBool32 cooperativeMatrixRobustBufferAccess;
} dop_vk_matrix_features;

typedef struct dop_vk_matrix_properties {
    VkStructureType sType;
    void *pNext;
    uint32_t MSize, NSize, KSize;
    int32_t AType, BType, CType, ResultType; /* VkComponentTypeKHR */
    VkBool32 saturatingAccumulation;
    int32_t scope; /* VkScopeKHR */
} dop_vk_matrix_properties;

typedef VkResult(VKAPI_PTR *dop_vk_get_matrix_properties)(VkPhysicalDevice, uint32_t *, dop_vk_matrix_properties *);

#endif
