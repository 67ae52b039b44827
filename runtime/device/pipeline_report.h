/* Report of the driver's compilation results for each kernel of a plan: registers, spills, scratch and shared memory,
 * from VK_KHR_pipeline_executable_properties. Runs nothing and allocates no device memory, so it also works with a
 * driver that has no hardware. */
#ifndef DOPPLER_RUNTIME_DEVICE_PIPELINE_REPORT_H
#define DOPPLER_RUNTIME_DEVICE_PIPELINE_REPORT_H

#include "plan/plan.h"

/* Writes a table with one line per kernel: the driver's statistics ("-" where it reports none), or why there is no
 * pipeline. The last line has totals. which: as in dop_instance_choose. Fails with DOP_E_DEVICE if the device cannot be
 * used or has no statistics. */
dop_status dop_pipelines_report(const dop_plan *plan, const char *which, dop_buf *out, dop_diag *diag);

#endif
