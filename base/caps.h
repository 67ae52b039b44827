/* Device capabilities: required by kernels, listed in plans, and offered by drivers.  Shared by the compiler's targets (ir/target.h),
 * plan rows (plan_format.h) and the runtime. */
#ifndef DOPPLER_BASE_CAPS_H
#define DOPPLER_BASE_CAPS_H

#include <stdbool.h>
#include <stdint.h>

/* CAP(bit, name, meaning in Vulkan).  Bits are part of the plan format: never renumber. */
#define DOP_CAPS(CAP)                                                                   \
    CAP(0, f16_storage, "16-bit storage buffers")                                       \
    CAP(1, f16_math, "16-bit float arithmetic")                                         \
    CAP(2, i8_storage, "8-bit storage buffers")                                         \
    CAP(3, subgroup, "subgroup basic, vote, ballot, shuffle and arithmetic operations") \
    CAP(4, int_dot, "packed 4x8 integer dot products")                                  \
    CAP(5, coop_nv, "cooperative matrix (NV)")                                          \
    CAP(6, coop_khr, "cooperative matrix (KHR)")                                        \
    CAP(7, int64, "64-bit integers")                                                    \
    CAP(8, coop_f16_sums, "cooperative matrix sums of f16 (KHR)")                       \
    CAP(9, texels, "texel buffers of 2 GiB, read 16 bytes at a time")                   \
    CAP(10, coop_pairs, "factors of cooperative matrices in pairs of elements (KHR)")

enum {
#define CAP(bit, name, what) DOP_CAP_##name = 1 << bit,
    DOP_CAPS(CAP)
#undef CAP
};

/* Views of memory.  With DOP_CAP_texels, kernels read some sources through uniform texel buffers with texels of 16 bytes, one
 * descriptor set per view.  Attention has no weight vector and no activation, so the views of its two caches use those numbers. */
enum {
    DOP_VIEW_MATRICES = 1, /* weight matrices of the dispatch's products */
    DOP_VIEW_VECTOR,       /* one weight vector that the prologue reads */
    /* One value of an earlier dispatch: the activation, or an input of the prologue that computes it. */
    DOP_VIEW_VALUE,
    DOP_N_VIEWS = DOP_VIEW_VALUE,
    DOP_VIEW_K_CACHE = DOP_VIEW_VECTOR,
    DOP_VIEW_V_CACHE = DOP_VIEW_VALUE,
    DOP_TEXEL_BYTES = 16,
    DOP_VIEW_MAX_TEXELS = 1 << 27
};

/* Either form of matrix units.  A kernel with both bits set needs only one of them (dop_caps_missing). */
enum { DOP_CAP_coop = DOP_CAP_coop_nv | DOP_CAP_coop_khr };

/* Register layout of matrix fragments.  With DOP_CAP_coop_pairs, kernels fill the elements of a 16 x 16 second factor (subgroup of 32)
 * themselves, although Vulkan leaves the mapping of elements to invocations to the driver.  Invocation 4 g + t holds columns g and g +
 * 8; in each column it holds elements 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of the depth K, in this order.  This is the layout of
 * mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16").  Drivers do not report it: NVIDIA devices are assumed to have it, and
 * kernels verify it (DOP_STEP_UNPAIRED).  Kernels with this capability may use 255 registers per invocation. */

/* Shape of a product on matrix units with f16 factors and f32 sums, computed by one subgroup: M rows of the first factor, N columns of
 * the second, depth K.  0: none. */
#define DOP_MATRIX_SHAPE(m, n, k) ((uint32_t)(m) | (uint32_t)(n) << 8 | (uint32_t)(k) << 16)
static inline uint32_t
dop_matrix_m(uint32_t shape)
{
    return shape & 0xff;
}

static inline uint32_t
dop_matrix_n(uint32_t shape)
{
    return shape >> 8 & 0xff;
}

static inline uint32_t
dop_matrix_k(uint32_t shape)
{
    return shape >> 16 & 0xff;
}

/* True if kernels support this subgroup size. */
static inline bool
dop_subgroup_usable(uint32_t size)
{
    return size >= 1 && size <= 128 && (size & (size - 1)) == 0;
}

/* True if kernels can be generated for this matrix unit shape and subgroup size.  They assume that two or four invocations hold a row
 * of 16 sums, or one invocation a row of 8. */
static inline bool
dop_matrix_usable(uint32_t shape, uint32_t subgroup)
{
    const uint32_t m = dop_matrix_m(shape), n = dop_matrix_n(shape), k = dop_matrix_k(shape);
    if (n == 8)
        return m == 8 && (k == 8 || k == 16) && subgroup == 8;
    return (m == 8 || m == 16) && n == 16 && k == 16 && (subgroup == 2 * m || subgroup == 4 * m);
}

/* Rounding of product factors before multiplication: none, to f16, or activations to 8 bits with one scale per 32 values.  Part of the
 * plan format; later values are coarser. */
typedef enum dop_rounding { DOP_ROUNDING_none, DOP_ROUNDING_f16, DOP_ROUNDING_i8 } dop_rounding;

/* Returns the bits of `needed` that are missing in `has`. */
static inline uint32_t
dop_caps_missing(uint32_t needed, uint32_t has)
{
    if ((needed & DOP_CAP_coop) == DOP_CAP_coop && (has & DOP_CAP_coop))
        needed &= ~(uint32_t)DOP_CAP_coop;
    return needed & ~has;
}

/* Maximum number of kernel arguments (8 bytes each) passed as push constants: they fill the 128 bytes that every device supports.  More
 * arguments go to a parameter record in memory, whose address is then the only push constant. */
enum { DOP_PUSH_ARGS = 16 };

static inline bool
dop_has_record(uint32_t n_args)
{
    return n_args > DOP_PUSH_ARGS;
}

/* Returns the bytes of the parameter record for n_args arguments; 0: none. */
static inline uint64_t
dop_record_bytes(uint32_t n_args)
{
    return dop_has_record(n_args) ? (uint64_t)n_args * 8 : 0;
}

static inline uint32_t
dop_push_bytes(uint32_t n_args)
{
    return dop_has_record(n_args) ? 8 : n_args * 8;
}

/* Capabilities of one device, for compiling for the local device (dop_device_probe). */
typedef struct dop_device_caps {
    char name[256];
    char driver[512];              /* driver name and version, for display */
    uint32_t vendor_id, device_id; /* as in VkPhysicalDeviceProperties */
    uint32_t caps;                 /* DOP_CAP_* */
    uint32_t subgroup;             /* invocations per subgroup; 1 if caps lacks subgroup */
    /* Range of subgroup sizes that a kernel may require; both equal `subgroup` if it cannot. */
    uint32_t subgroup_min, subgroup_max;
    uint32_t max_workgroup; /* maximum invocations per workgroup */
    uint32_t shared_bytes;  /* shared memory per workgroup in bytes */
    uint32_t max_subgroups; /* maximum subgroups per workgroup with a required subgroup size; 0: unlimited */
    uint32_t push_bytes;
    uint32_t cores;     /* multiprocessors, compute units or CPU cores; 0: unknown */
    uint64_t max_alloc; /* maximum bytes of one device allocation */
    uint64_t memory;    /* device-local memory in bytes */
    uint32_t matrix;    /* DOP_MATRIX_SHAPE usable through either form; 0: none */
    bool cpu;           /* true for software devices */
    bool device_scope;  /* true if atomics and barriers of device scope are supported (all workgroups of a dispatch) */
} dop_device_caps;

#endif
