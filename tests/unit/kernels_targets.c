#include "tests/unit/kernels_util.h"

/* What no kernel can do without. */
#define SCHEDULE                                   \
    .schedule = {.workgroup = 256,                 \
                 .element_wg = 64,                 \
                 .element_wg_busy = 256,           \
                 .argmax_wg = 1024,                \
                 .moments_bytes = 32,              \
                 .row_subgroups = 4,               \
                 .row_loads = 4,                   \
                 .hoist_columns = 128,             \
                 .split_most = 16,                 \
                 .tile_rows = 64,                  \
                 .tile_sums = 64,                  \
                 .narrow_wg = 256,                 \
                 .narrow_wg_busy = 512,            \
                 .narrow_depth = 512,              \
                 .tail_shared = 8192,              \
                 .attention_wg = 128,              \
                 .attention_one_wg = 256,          \
                 .attention_heads = 32,            \
                 .attention_rows = 16,             \
                 .attention_units_registers = 200, \
                 .decode_group_registers = 208,    \
                 .decode_products = 64,            \
                 .scan_helpers = 8,                \
                 .gemv_most_lanes = 128,           \
                 .gemv_loads = 4,                  \
                 .decode_wg = 256,                 \
                 .decode_apart_rows = 2,           \
                 .scan_lanes = 8,                  \
                 .scan_rows = 16}

const dop_target *
kernel_lab_target(uint32_t which)
{
    enum { f16 = DOP_CAP_f16_storage | DOP_CAP_f16_math };
    static const dop_target targets[KERNEL_LAB_TARGETS] = {
        {.name = "cpu",
         .caps = f16 | DOP_CAP_subgroup,
         .subgroup = 8,
         .max_workgroup = 256,
         .shared_bytes = 32768,
         SCHEDULE,
         .registers = 64,
         .cores = 2,
         .max_alloc = 1u << 30,
         .bandwidth = 5e9,
         .dispatch_us = 20,
         .barrier_us = 5,
         .workgroup_us = 1,
         .split_whole = 192,
         .split_least = 64,
         .stage_whole = 128,
         .loop_trips = 65535,
         .merges = true,
         .cpu = true},
        {.name = "gpu",
         .caps = f16 | DOP_CAP_subgroup,
         .subgroup = 8,
         .max_workgroup = 64,
         .shared_bytes = 32768,
         SCHEDULE,
         .registers = 128,
         .cores = 8,
         .max_alloc = 1u << 30,
         .bandwidth = 4e11,
         .dispatch_us = 1,
         .barrier_us = 5,
         .workgroup_us = 0.01,
         .split_whole = 12, /* so small that tests have every kind of split */
         .split_least = 2,
         .stage_whole = 8},
        {.name = "no-subgroups",
         .caps = f16,
         .subgroup = 1,
         .max_workgroup = 64,
         .shared_bytes = 32768,
         SCHEDULE,
         .registers = 128,
         .cores = 8,
         .max_alloc = 1u << 30,
         .bandwidth = 4e11,
         .dispatch_us = 1,
         .barrier_us = 5,
         .workgroup_us = 0.01,
         .split_whole = 192,
         .split_least = 64,
         .stage_whole = 128},
        {.name = "nothing",
         .caps = 0,
         .subgroup = 1,
         .max_workgroup = 64,
         .shared_bytes = 16384,
         SCHEDULE,
         .registers = 64,
         .cores = 4,
         .max_alloc = 1u << 30,
         .bandwidth = 5e10,
         .dispatch_us = 2,
         .barrier_us = 10,
         .workgroup_us = 0.01,
         .split_whole = 192,
         .split_least = 64,
         .stage_whole = 128},
    };
    return &targets[which % KERNEL_LAB_TARGETS];
}
