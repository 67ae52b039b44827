/* Finds targets by name: built-in targets, YAML files and the local device. */
#ifndef DOPPLER_COMPILER_TARGET_TARGET_H
#define DOPPLER_COMPILER_TARGET_TARGET_H

#include "base/base.h"
#include "ir/target.h"
#include "plan/plan_format.h"

/* Loads the target with a name: "auto" (the device that doppler-exec would choose), a built-in name, or a YAML file
 * with fields of dop_target. Fails for "auto" if there is no device. Errors list the built-in names. */
dop_status dop_target_resolve(const char *name, dop_diag *diag, dop_target *out_target);

/* Parses a setting of the integer dot product: "allow", "prefer" or "off". Returns false for any other word. */
bool dop_int_dot_parse(const char *word, dop_int_dot *out);

/* Adds a kernel name to the target's list of avoided kernels, once. Returns false if the list is full or the name is
 * not valid. */
bool dop_target_avoid(dop_target *t, const char *kernel);

/* Appends the fields of `now` that differ from `base`, except `schedule`, as lines of a target file. */
void dop_target_print(const dop_target *base, const dop_target *now, dop_buf *out);

/* Access by index to the numbers of a schedule (ir/schedule_numbers.def). *out_least: the smallest valid value. */
uint32_t dop_schedule_count(void);
uint32_t *dop_schedule_number(dop_schedule_numbers *s, uint32_t i, const char **out_name, uint32_t *out_least);
/* Access by index to the tables of a schedule. */
uint32_t dop_schedule_table_count(void);
const char *dop_schedule_table_name(uint32_t table);
uint32_t dop_schedule_table_rows(const dop_schedule_numbers *s, uint32_t table);
/* Removes a row from a table. Returns false if kernels rely on the row; *s is then not valid any more. */
bool dop_schedule_table_drop(dop_schedule_numbers *s, uint32_t table, uint32_t row);
/* Appends the numbers and tables of `now` that differ from `base`, as lines of the field `schedule` of a target file.
 * Returns the number of differences. */
uint32_t dop_schedule_print(const dop_schedule_numbers *base, const dop_schedule_numbers *now, dop_buf *out);

/* Loads the targets of a comma-separated list, which must not be empty or repeat a name. `device` selects the device of
 * "auto", as in dop_device_probe(). */
dop_status dop_targets_resolve(const char *list, const char *device, dop_diag *diag,
                               dop_target out_targets[DOP_MAX_TARGETS], uint32_t *out_n);

#endif
