/* Text listing of plans. */
#ifndef DOPPLER_PLAN_DISASM_H
#define DOPPLER_PLAN_DISASM_H

#include "plan/plan.h"

void dop_plan_schedule_name(const dop_plan_schedule *schedule, char out[DOP_SCHEDULE_NAME]);
/* Appends a listing of all schedules, one line per dispatch; the compiler prints the same text. */
void dop_plan_disasm(const dop_plan *plan, dop_buf *out);

#endif
