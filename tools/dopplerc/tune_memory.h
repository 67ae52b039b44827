/* Memory in which single kernels of a schedule run, for --tune: a step record, then the values that the kernels read
 * and write. */
#ifndef DOPPLER_TOOLS_DOPPLERC_TUNE_MEMORY_H
#define DOPPLER_TOOLS_DOPPLERC_TUNE_MEMORY_H

#include "compiler/schedule/compilation.h"
#include "tools/bench/bench_kernels.h"

typedef struct dop_tune_memory {
    dop_compilation *c;
    const dop_schedule *s;
    dop_kernel_bench *bench;
    dop_diag *diag;
    uint64_t
        *places; /* owned, [n_nodes of s->g] where each value's memory begins, in bytes from the step record; 0: none */
    uint64_t used;                /* bytes of memory that have been placed */
    uint64_t sums_at, sums_bytes; /* memory for split-K sums, which all kernels share */
    dop_step step;
} dop_tune_memory;

/* All pointers must outlive *out, which must be finished even after a failure. */
dop_status dop_tune_memory_init(dop_compilation *c, const dop_schedule *s, dop_kernel_bench *bench, dop_diag *diag,
                                dop_tune_memory *out);
void dop_tune_memory_finish(dop_tune_memory *m); /* accepts a zeroed one */
/* Forgets what was placed. */
void dop_tune_memory_clear(dop_tune_memory *m);
/* Makes the arguments of a kernel's run.  A value gets memory of its own when a kernel first has it as an argument; all kernels
 * share it. */
dop_status dop_tune_place(dop_tune_memory *m, const dop_kernel *k, dop_kernel_run *out);
/* Compiles a kernel and adds it to the bench.  Errors: it does not compile, or needs more shared memory than the target has. */
dop_status dop_tune_compile(dop_tune_memory *m, const dop_kernel *k, dop_diag *diag, uint32_t *out_kernel);
/* Allocates the memory of all runs, and sets what kernels depend on: a step with rows; ids and counts of zero. */
dop_status dop_tune_memory_make(dop_tune_memory *m, dop_kernel_run *runs, size_t n);

#endif
