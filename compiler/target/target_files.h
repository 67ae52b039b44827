/* Target files built into the compiler (from examples/targets/), and the devices that each is for. */
#ifndef DOPPLER_COMPILER_TARGET_TARGET_FILES_H
#define DOPPLER_COMPILER_TARGET_TARGET_FILES_H

#include "base/base.h"
#include "base/caps.h"
#include "base/yaml/yaml_util.h"
#include "ir/target.h"

typedef struct dop_target_file {
    const char *name;
    const char *const *text; /* lines of YAML */
} dop_target_file;

/* Built-in target files, sorted by name. An item without a name ends the list. */
extern const dop_target_file dop_target_files[];

/* Devices that a target file is for, from its field `devices`. A property that the field omits may have any value. */
enum { DOP_MAX_ID_RANGES = 16 };
typedef struct dop_target_devices {
    uint32_t vendor; /* VkPhysicalDeviceProperties.vendorID of the device; 0: any */
    uint32_t first_id[DOP_MAX_ID_RANGES], last_id[DOP_MAX_ID_RANGES]; /* ranges of deviceID, inclusive */
    uint32_t n_ids;                                                   /* number of ranges; 0: any deviceID */
    uint32_t caps;                                                    /* DOP_CAP_* that the device must have */
    uint32_t matrix; /* shape of matrix units that the device must have; 0: any */
    bool cpu;        /* true: only for software devices; false: only for hardware devices */
} dop_target_devices;

dop_status dop_target_read_devices(const yaml_node_t *node, yaml_document_t *doc, const char *path, dop_diag *diag,
                                   dop_target_devices *out_devices);
/* Reads the field `schedule`, a mapping, and sets the numbers that it names in *io_schedule. Fails if a number is set
 * neither in the mapping nor before the call. */
dop_status dop_target_read_schedule(const yaml_node_t *node, yaml_document_t *doc, const char *path, dop_diag *diag,
                                    dop_schedule_numbers *io_schedule);
/* Reads a list of capability names as DOP_CAP_* bits. */
dop_status dop_target_read_caps(const yaml_node_t *list, yaml_document_t *doc, const char *path, dop_diag *diag,
                                uint32_t *out_caps);
/* Parses a shape of matrix units: "16x16x16", or "none". */
bool dop_target_parse_shape(const char *text, uint32_t *out_shape);

/* Finds the built-in target file whose `devices` describes the device most closely. *out_named: true if the file names
 * the vendor, the ids, or software devices; false if it matches by capabilities only. */
dop_status dop_target_find_file(const dop_device_caps *caps, dop_diag *diag, const char **out_name, bool *out_named);

#endif
