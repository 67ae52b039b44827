/* Compiles a graph with the real passes and kernels, runs it on a device and compares it with the interpreter on the
 * graph as it was before any pass.  Every leaf's values follow from its name and shape, so a graph's text is all that
 * it takes to see a failure again. */
#ifndef DOPPLER_TESTS_UNIT_KERNELS_UTIL_H
#define DOPPLER_TESTS_UNIT_KERNELS_UTIL_H

#include "ir/graph/graph.h"
#include "ir/target.h"
#include "kernels/kernel.h"

typedef struct kernel_lab kernel_lab;

typedef struct kernel_lab_counts {
    uint64_t graphs, runs, regions, kernels; /* kernels: distinct, each made once for all graphs */
    double worst;                            /* of all comparisons, as a share of what was allowed */
} kernel_lab_counts;

/* Takes the device that the runtime would take, with all that it has, and sets *out_caps and *out_subgroup to that; out_caps NULL: a
 * software device.  False when there is none. */
bool kernel_lab_open_any(kernel_lab **out_lab, uint32_t *out_caps, uint32_t *out_subgroup, dop_buf *why);
static inline bool
kernel_lab_open(kernel_lab **out_lab, dop_buf *why)
{
    return kernel_lab_open_any(out_lab, NULL, NULL, why);
}
void kernel_lab_close(kernel_lab *lab); /* accepts NULL */
kernel_lab_counts kernel_lab_count(const kernel_lab *lab);

/* Targets that a software device can run: a CPU, a GPU with subgroups, one without, one with nothing. */
enum { KERNEL_LAB_TARGETS = 4 };
const dop_target *kernel_lab_target(uint32_t which);

typedef enum kernel_lab_runs { KERNEL_LAB_NONE, KERNEL_LAB_FUSED, KERNEL_LAB_BOTH } kernel_lab_runs;

/* Compiles a graph fused and unfused for one target, interprets what the passes made of it and runs the kernels of neither
 * form, of one or of both, at several positions and token counts.  False: it does not compile, or an output is not what the interpreter
 * makes of the graph before the passes; why has one line. */
bool kernel_lab_check(kernel_lab *lab, const char *text, size_t size, const dop_target *target, kernel_lab_runs runs,
                      dop_buf *why);

/* Changes what was chosen for a region.  slack: what outputs may differ by in addition, as a share of their size. */
typedef struct kernel_lab_choice {
    void (*choose)(void *user, const dop_graph *g, const dop_region *r, const dop_target *target,
                   dop_selection *choice);
    void *user;
    double slack;
} kernel_lab_choice;

/* Compiles a graph fused, with `choice`, and runs it as kernel_lab_check does. */
bool kernel_lab_check_choice(kernel_lab *lab, const char *text, const dop_target *target,
                             const kernel_lab_choice *choice, dop_buf *why);

/* Runs n steps of one row of a graph with states, which begin as zeros, on the device and in the interpreter; some steps
 * are run and dropped before they count. */
bool kernel_lab_steps(kernel_lab *lab, const char *text, uint32_t n, const dop_target *target, bool fuse, dop_buf *why);

/* From now on dispatch number n of every list is left out, so that what it would store is not stored; UINT32_MAX: none. */
void kernel_lab_lose(kernel_lab *lab, uint32_t n);

/* A random well-typed graph as text; the same seed, the same text.  small: of those that many are made of quickly. */
void kernel_random_graph(uint64_t seed, bool small, dop_buf *out_text);

#endif
