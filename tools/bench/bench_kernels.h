/* Times of single kernels on a device, without a plan: memory with values that are finite in every storage type, pipelines from
 * SPIR-V, and dispatches one after the other with a time for each.  For dopplerc --tune. */
#ifndef DOPPLER_TOOLS_BENCH_BENCH_KERNELS_H
#define DOPPLER_TOOLS_BENCH_BENCH_KERNELS_H

#include "base/base.h"
#include "base/caps.h"

typedef struct dop_kernel_bench dop_kernel_bench;

/* What the eight bytes of a kernel's argument are. */
typedef enum dop_run_arg { DOP_RUN_NUMBERS, DOP_RUN_ADDRESS, DOP_RUN_VIEW } dop_run_arg;

typedef struct dop_kernel_run {
    uint32_t kernel; /* index that dop_kernel_bench_add gave */
    uint32_t grid[3];
    uint32_t n_args;
    uint64_t *args;     /* [n_args]: eight bytes of each argument; for a view the offset into the memory */
    dop_run_arg *kinds; /* [n_args] */
    uint64_t record;    /* set by dop_kernel_bench_time: where the run's parameter record is */
} dop_kernel_run;

/* Opens the device that the runtime would take, with all of its features.  Errors: no device, no timestamps. */
dop_status dop_kernel_bench_open(dop_diag *diag, dop_kernel_bench **out_bench);
void dop_kernel_bench_close(dop_kernel_bench *bench); /* accepts NULL */
const dop_device_caps *dop_kernel_bench_caps(const dop_kernel_bench *bench);
/* Allocates memory, in place of any before: `size` bytes, in as many copies as it takes (16 at most) to be larger than a device's
 * caches, which runs take in turn.  Its 32-bit words are 0x3c003c00: 1 as f16, 0.008 as f32 and bf16. */
dop_status dop_kernel_bench_memory(dop_kernel_bench *bench, uint64_t size, dop_diag *diag, uint64_t *out_address);
/* Writes bytes (NULL: zeros) at an offset of the memory, in every copy.  Sizes and offsets are multiples of 4. */
dop_status dop_kernel_bench_write(dop_kernel_bench *bench, uint64_t offset, const void *bytes, uint64_t size,
                                  dop_diag *diag);
/* Adds a kernel.  subgroup: the subgroup size that it requires, 0: any; local: invocations of a workgroup. */
dop_status dop_kernel_bench_add(dop_kernel_bench *bench, const dop_buf *spirv, uint32_t subgroup, uint32_t local,
                                dop_diag *diag, uint32_t *out_kernel);
/* Runs the list `rounds` times and once before that; out_us[n]: medians in microseconds. */
dop_status dop_kernel_bench_time(dop_kernel_bench *bench, dop_kernel_run *list, uint32_t n, uint32_t rounds,
                                 dop_diag *diag, double *out_us);

#endif
