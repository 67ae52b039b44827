/* Timing of single kernels without a plan, for dopplerc --tune. Builds pipelines from SPIR-V and runs dispatches one
 * after the other, each with its own time. Their memory holds values that are finite in every storage type. */
#ifndef DOPPLER_TOOLS_BENCH_BENCH_KERNELS_H
#define DOPPLER_TOOLS_BENCH_BENCH_KERNELS_H

#include "base/base.h"
#include "base/caps.h"

typedef struct dop_kernel_bench dop_kernel_bench;

/* Meaning of an eight-byte kernel argument. */
typedef enum dop_run_arg { DOP_RUN_NUMBERS, DOP_RUN_ADDRESS, DOP_RUN_VIEW } dop_run_arg;

typedef struct dop_kernel_run {
    uint32_t kernel; /* index returned by dop_kernel_bench_add */
    uint32_t grid[3];
    uint32_t n_args;
    uint64_t *args;     /* [n_args]: eight bytes per argument; for a view, its byte offset in the memory */
    dop_run_arg *kinds; /* [n_args] */
    uint64_t record;    /* set by dop_kernel_bench_time: address of the run's parameter record */
} dop_kernel_run;

/* Opens the device that the runtime would choose, with all of its features. Fails without a device or timestamps. */
dop_status dop_kernel_bench_open(dop_diag *diag, dop_kernel_bench **out_bench);
void dop_kernel_bench_close(dop_kernel_bench *bench); /* accepts NULL */
const dop_device_caps *dop_kernel_bench_caps(const dop_kernel_bench *bench);
/* Allocates memory of `size` bytes and frees the previous one. Makes up to 16 copies, enough to exceed the device's
 * caches; runs use them in turn. Every 32-bit word is 0x3c003c00: 1 as f16, 0.008 as f32 and bf16. */
dop_status dop_kernel_bench_memory(dop_kernel_bench *bench, uint64_t size, dop_diag *diag, uint64_t *out_address);
/* Writes bytes (NULL: zeros) at an offset of every copy of the memory. Size and offset are multiples of 4. */
dop_status dop_kernel_bench_write(dop_kernel_bench *bench, uint64_t offset, const void *bytes, uint64_t size,
                                  dop_diag *diag);
/* Adds a kernel. subgroup: required subgroup size, 0 for any; local: workgroup size in invocations. */
dop_status dop_kernel_bench_add(dop_kernel_bench *bench, const dop_buf *spirv, uint32_t subgroup, uint32_t local,
                                dop_diag *diag, uint32_t *out_kernel);
/* Runs the list `rounds` times after one warm-up round. out_us[n] receives the median times in microseconds. */
dop_status dop_kernel_bench_time(dop_kernel_bench *bench, dop_kernel_run *list, uint32_t n, uint32_t rounds,
                                 dop_diag *diag, double *out_us);

#endif
