/* Of a part of a plan: what crosses a cut has a mirror in the host's memory (memory.h), and is copied from there before a step
 * and to it after one. */
#ifndef DOPPLER_RUNTIME_DEVICE_CUT_H
#define DOPPLER_RUNTIME_DEVICE_CUT_H

#include "runtime/device/memory.h"
#include "runtime/plan/plan.h"

typedef enum dop_cut_side { DOP_CUT_IN, DOP_CUT_OUT, DOP_N_CUTS } dop_cut_side;

/* Does anything cross this cut in steps of a schedule? */
bool dop_cut_is_crossed(const dop_plan *plan, uint32_t schedule, dop_cut_side cut);
/* Records the copies of that cut, and the barrier between them and what follows. */
void dop_cut_record(const dop_plan *plan, const dop_memory *memory, uint32_t schedule, dop_cut_side cut,
                    VkCommandBuffer commands);

#endif
