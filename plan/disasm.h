/* Functions of disasm.c. */
#ifndef DOPPLER_PLAN_DISASM_H
#define DOPPLER_PLAN_DISASM_H

#include "plan/plan.h"

void dop_plan_schedule_name(const dop_plan_schedule *schedule, char out[DOP_SCHEDULE_NAME]);
/* disasm.c: the schedules of a plan as text, one line per dispatch; the compiler prints the same. */
void dop_plan_disasm(const dop_plan *plan, dop_buf *out);

#endif
