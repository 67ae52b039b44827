/* Copies of values that cross a cut: between parts of a plan, or between a part and the host. Each such value has a
 * mirror in host memory (memory.h), which is copied to the device before a step and from it after one. A copy covers
 * all rows of the step's size; of image features, which few steps have, it covers only the rows that the caller
 * names. */
#ifndef DOPPLER_RUNTIME_DEVICE_CUT_H
#define DOPPLER_RUNTIME_DEVICE_CUT_H

#include "plan/plan.h"
#include "runtime/device/memory.h"

typedef enum dop_cut_side { DOP_CUT_IN, DOP_CUT_OUT, DOP_N_CUTS } dop_cut_side;

/* True if any value crosses this cut in steps of the schedule. */
bool dop_cut_is_crossed(const dop_plan *plan, uint32_t schedule, dop_cut_side cut);
/* Records the copies of image feature rows first .. first + n - 1 (dop_plan_is_of_features). */
void dop_cut_record_features(const dop_plan *plan, const dop_memory *memory, uint32_t schedule, uint32_t first,
                             uint32_t n, VkCommandBuffer commands);
/* Records the copies of that cut, followed by a barrier. */
void dop_cut_record(const dop_plan *plan, const dop_memory *memory, uint32_t schedule, dop_cut_side cut,
                    VkCommandBuffer commands);

#endif
