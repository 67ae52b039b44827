/* The distinct kernels of a plan, compiled in parallel on all cores. */
#ifndef DOPPLER_COMPILER_SCHEDULE_KERNEL_SET_H
#define DOPPLER_COMPILER_SCHEDULE_KERNEL_SET_H

#include "base/progress.h"
#include "kernels/kernel.h"

/* A distinct kernel. Kernels with equal GLSL text share one item. */
typedef struct dop_built_kernel {
    dop_kernel k;
    dop_template tpl;
    dop_label label; /* label of the first region that uses the kernel, for messages */
    dop_buf spirv;
    uint32_t shared_bytes;
    bool optional; /* exceeding the shared memory limit is not an error */
    bool dropped;  /* not written: optional and over the limit, or not used by the part */
} dop_built_kernel;

typedef struct dop_kernel_set {
    uint32_t n, cap;
    dop_built_kernel *items;
} dop_kernel_set;

/* Adds the kernel unless the set has an equal one, and sets *out_index. The label's role is not copied. */
dop_status dop_kernel_set_add(dop_kernel_set *set, const dop_kernel *k, dop_template tpl, dop_label label,
                              dop_diag *diag, uint32_t *out_index);
/* Compiles all kernels to SPIR-V on `threads` threads (0: one per core). Reports progress as the step "kernels". */
dop_status dop_kernel_set_compile(dop_kernel_set *set, const dop_target *target, uint32_t threads,
                                  const dop_progress *progress, dop_diag *diag);
void dop_kernel_set_finish(dop_kernel_set *set); /* accepts a zeroed set */

#endif
