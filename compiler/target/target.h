/* Finds targets by name: built-in ones, YAML files, the device at hand. */
#ifndef DOPPLER_COMPILER_TARGET_TARGET_H
#define DOPPLER_COMPILER_TARGET_TARGET_H

#include "base/base.h"
#include "ir/target.h"
#include "plan/plan_format.h"

/* Makes the target of a name: "auto" (the device doppler-exec would pick; an error without one), a built-in name, or a YAML file whose
 * fields are those of dop_target.  Errors list the built-in names. */
dop_status dop_target_resolve(const char *name, dop_diag *diag, dop_target *out_target);

/* Parses a setting of the integer dot product: "allow", "prefer" or "off".  False: it is another word. */
bool dop_int_dot_parse(const char *word, dop_int_dot *out);

/* Adds a kernel, by name, to those that the target avoids.  False: there is no room for it, or this is no name. */
bool dop_target_avoid(dop_target *t, const char *kernel);

/* Appends the fields of `now` that differ from `base`, as lines of a target file; not its schedule. */
void dop_target_print(const dop_target *base, const dop_target *now, dop_buf *out);

/* Numbers of a schedule by index (ir/schedule_numbers.def), to change them one by one.  *out_least: the smallest valid value. */
uint32_t dop_schedule_count(void);
uint32_t *dop_schedule_number(dop_schedule_numbers *s, uint32_t i, const char **out_name, uint32_t *out_least);
/* Tables of a schedule by index. */
uint32_t dop_schedule_table_count(void);
const char *dop_schedule_table_name(uint32_t table);
uint32_t dop_schedule_table_rows(const dop_schedule_numbers *s, uint32_t table);
/* Takes a row out of a table.  False: kernels rely on the row, and *s is no longer valid. */
bool dop_schedule_table_drop(dop_schedule_numbers *s, uint32_t table, uint32_t row);
/* Appends the numbers and tables of `now` that differ from `base`, as lines of a target file's field `schedule`.  Returns how many
 * differ. */
uint32_t dop_schedule_print(const dop_schedule_numbers *base, const dop_schedule_numbers *now, dop_buf *out);

/* Finds the targets of a comma-separated list: at least one, no name twice.  device: the one of "auto", as dop_device_probe() takes
 * it. */
dop_status dop_targets_resolve(const char *list, const char *device, dop_diag *diag,
                               dop_target out_targets[DOP_MAX_TARGETS], uint32_t *out_n);

#endif
