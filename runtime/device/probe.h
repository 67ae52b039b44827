/* What a device offers, for --target auto of the compiler, which knows nothing else about Vulkan. */
#ifndef DOPPLER_RUNTIME_DEVICE_PROBE_H
#define DOPPLER_RUNTIME_DEVICE_PROBE_H

#include "base/base.h"
#include "base/caps.h"

/* device: as --device has it, NULL for the default one. */
dop_status dop_device_probe(const char *device, dop_diag *diag, dop_device_caps *out_caps);

#endif
