/* What crosses a cut, between parts of a plan or between it and the host, has a mirror in the host's memory (memory.h), and is copied
 * from there before a step and to it after one: all rows of a step's size, but for features of pictures, which few steps have, only
 * those that the caller names. */
#ifndef DOPPLER_RUNTIME_DEVICE_CUT_H
#define DOPPLER_RUNTIME_DEVICE_CUT_H

#include "plan/plan.h"
#include "runtime/device/memory.h"

typedef enum dop_cut_side { DOP_CUT_IN, DOP_CUT_OUT, DOP_N_CUTS } dop_cut_side;

/* Does anything cross this cut in steps of a schedule? */
bool dop_cut_is_crossed(const dop_plan *plan, uint32_t schedule, dop_cut_side cut);
/* Records the copies of rows first .. first + n - 1 of features of pictures (dop_plan_is_of_features). */
void dop_cut_record_features(const dop_plan *plan, const dop_memory *memory, uint32_t schedule, uint32_t first,
                             uint32_t n, VkCommandBuffer commands);
/* Records the copies of that cut, and the barrier between them and what follows. */
void dop_cut_record(const dop_plan *plan, const dop_memory *memory, uint32_t schedule, dop_cut_side cut,
                    VkCommandBuffer commands);

#endif
