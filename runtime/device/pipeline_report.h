/* What a device's driver made of each kernel of a plan: registers, spilled ones, scratch and shared memory, as
 * VK_KHR_pipeline_executable_properties tells them.  Nothing is run and no memory is allocated, so that a driver without hardware
 * can be asked as well. */
#ifndef DOPPLER_RUNTIME_DEVICE_PIPELINE_REPORT_H
#define DOPPLER_RUNTIME_DEVICE_PIPELINE_REPORT_H

#include "plan/plan.h"

/* Writes a table with a line for each kernel: what the driver says, "-" where it says nothing of a number, or why there is no
 * pipeline; the last line has the counts.  which: the device as dop_instance_choose takes it.
 * Errors: DOP_E_DEVICE for a device that does not tell, or cannot be used. */
dop_status dop_pipelines_report(const dop_plan *plan, const char *which, dop_buf *out, dop_diag *diag);

#endif
