/* Finds targets by name: built-in ones, YAML files, the device at hand. */
#ifndef DOPPLER_COMPILER_TARGET_TARGET_H
#define DOPPLER_COMPILER_TARGET_TARGET_H

#include "base/base.h"
#include "ir/target.h"
#include "runtime/plan/plan_format.h"

/* Makes the target of a name: "auto" (the device doppler-exec would pick; an error without one), a built-in name, or a YAML file whose
 * fields are those of dop_target.  Errors list the built-in names. */
dop_status dop_target_resolve(const char *name, dop_diag *diag, dop_target *out_target);

/* Parses a setting of the integer dot product: "allow", "prefer" or "off".  False: it is another word. */
bool dop_int_dot_parse(const char *word, dop_int_dot *out);

/* Finds the targets of a comma-separated list: at least one, no name twice.  device: the one of "auto", as dop_device_probe() takes
 * it. */
dop_status dop_targets_resolve(const char *list, const char *device, dop_diag *diag,
                               dop_target out_targets[DOP_MAX_TARGETS], uint32_t *out_n);

#endif
