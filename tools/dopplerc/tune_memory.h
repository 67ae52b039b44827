/* Device memory for running single kernels of a schedule in --tune: a step record, followed by the values that the
 * kernels read and write. */
#ifndef DOPPLER_TOOLS_DOPPLERC_TUNE_MEMORY_H
#define DOPPLER_TOOLS_DOPPLERC_TUNE_MEMORY_H

#include "compiler/schedule/compilation.h"
#include "tools/bench/bench_kernels.h"

typedef struct dop_tune_memory {
    dop_compilation *c;
    const dop_schedule *s;
    dop_kernel_bench *bench;
    dop_diag *diag;
    uint64_t *places; /* owned, [n_nodes of s->g]: byte offset of each value from the step record; 0: none */
    uint64_t used;    /* bytes allocated so far */
    uint64_t sums_at, sums_bytes; /* buffer for split-K partial sums, shared by all kernels */
    dop_step step;
} dop_tune_memory;

/* Initializes the layout. All pointers must outlive *out. The caller must finish *out even after a failure. */
dop_status dop_tune_memory_init(dop_compilation *c, const dop_schedule *s, dop_kernel_bench *bench, dop_diag *diag,
                                dop_tune_memory *out);
void dop_tune_memory_finish(dop_tune_memory *m); /* accepts a zeroed struct */
/* Discards the layout. */
void dop_tune_memory_clear(dop_tune_memory *m);
/* Creates the arguments of a kernel's run. Allocates space for a value at its first use; all kernels share it. */
dop_status dop_tune_place(dop_tune_memory *m, const dop_kernel *k, dop_kernel_run *out);
/* Compiles a kernel and adds it to the bench. Fails if it does not compile or needs more shared memory than the
 * target has. */
dop_status dop_tune_compile(dop_tune_memory *m, const dop_kernel *k, dop_diag *diag, uint32_t *out_kernel);
/* Allocates the memory of all runs and initializes it: a step record with rows; zero ids and counts. */
dop_status dop_tune_memory_make(dop_tune_memory *m, dop_kernel_run *runs, size_t n);

#endif
