/* Capabilities of a device, for --target auto of the compiler, which has no other access to Vulkan. */
#ifndef DOPPLER_RUNTIME_DEVICE_PROBE_H
#define DOPPLER_RUNTIME_DEVICE_PROBE_H

#include "base/base.h"
#include "base/caps.h"

/* Queries a device. device: as in --device, NULL for the default one. */
dop_status dop_device_probe(const char *device, dop_diag *diag, dop_device_caps *out_caps);

#endif
