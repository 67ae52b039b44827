/* The kernels of a plan: each different one once, compiled on all cores. */
#ifndef DOPPLER_COMPILER_SCHEDULE_KERNEL_SET_H
#define DOPPLER_COMPILER_SCHEDULE_KERNEL_SET_H

#include "base/progress.h"
#include "kernels/kernel.h"

/* A distinct kernel: equal GLSL text is one kernel. */
typedef struct dop_built_kernel {
    dop_kernel k;
    dop_template tpl;
    dop_label label; /* label of the first region that uses the kernel, for messages */
    dop_buf spirv;
    uint32_t shared_bytes;
    bool optional; /* needing too much shared memory is no error */
    bool dropped;  /* optional, and needs too much shared memory: left out with what uses it */
} dop_built_kernel;

typedef struct dop_kernel_set {
    uint32_t n, cap;
    dop_built_kernel *items;
} dop_kernel_set;

/* Adds the kernel unless an equal one exists, and gives its index in the set.  The label's role is not copied. */
dop_status dop_kernel_set_add(dop_kernel_set *set, const dop_kernel *k, dop_template tpl, dop_label label,
                              dop_diag *diag, uint32_t *out_index);
/* Compiles all to SPIR-V on `threads` threads, 0: one per core.  Reports kernels as the step
 * "kernels". */
dop_status dop_kernel_set_compile(dop_kernel_set *set, const dop_target *target, uint32_t threads,
                                  const dop_progress *progress, dop_diag *diag);
void dop_kernel_set_finish(dop_kernel_set *set); /* accepts a zeroed one */

#endif
