/* Device access for --check: reads and writes slots and runs single dispatches. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_DEVICE_H
#define DOPPLER_TOOLS_CHECK_CHECK_DEVICE_H

#include "tools/check/check.h"

dop_status dop_check_device_create(dop_model *model, dop_diag *diag, dop_check_device *out_device);
void dop_check_device_destroy(dop_check_device *device); /* accepts a zeroed struct */
dop_status dop_check_write(dop_check_device *device, uint32_t slot, uint64_t offset, const void *bytes, uint64_t size,
                           dop_diag *diag);
dop_status dop_check_read(dop_check_device *device, uint32_t slot, uint64_t offset, void *bytes, uint64_t size,
                          dop_diag *diag);
dop_status dop_check_dispatch(dop_check_device *device, const dop_plan_dispatch *dispatch, dop_diag *diag);

#endif
