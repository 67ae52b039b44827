/* Target files that the compiler has in itself (examples/targets/), and which devices they are for. */
#ifndef DOPPLER_COMPILER_TARGET_TARGET_FILES_H
#define DOPPLER_COMPILER_TARGET_TARGET_FILES_H

#include "base/base.h"
#include "base/caps.h"
#include "base/read/yaml_util.h"
#include "ir/target.h"

typedef struct dop_target_file {
    const char *name;
    const char *const *text; /* YAML */
} dop_target_file;

/* In the order of their names; the last one has no name. */
extern const dop_target_file dop_target_files[];

/* Devices at hand that a target is for: the field `devices`.  What it does not name may be anything. */
enum { DOP_MAX_ID_RANGES = 16 };
typedef struct dop_target_devices {
    uint32_t vendor;                                                  /* VkPhysicalDeviceProperties.vendorID; 0: any */
    uint32_t first_id[DOP_MAX_ID_RANGES], last_id[DOP_MAX_ID_RANGES]; /* deviceID, inclusive */
    uint32_t n_ids;                                                   /* ranges; 0: any */
    uint32_t caps;   /* DOP_CAP_*: capabilities that the device must have */
    uint32_t matrix; /* the shape of its matrix units; 0: any */
    bool cpu;        /* software devices, and no others */
} dop_target_devices;

dop_status dop_target_read_devices(const yaml_node_t *node, yaml_document_t *doc, const char *path, dop_diag *diag,
                                   dop_target_devices *out_devices);
/* The field `schedule`, a mapping: what it names is set, and all must be there afterwards. */
dop_status dop_target_read_schedule(const yaml_node_t *node, yaml_document_t *doc, const char *path, dop_diag *diag,
                                    dop_schedule_numbers *io_schedule);
/* A list of names of capabilities. */
dop_status dop_target_read_caps(const yaml_node_t *list, yaml_document_t *doc, const char *path, dop_diag *diag,
                                uint32_t *out_caps);
/* "16x16x16", or "none". */
bool dop_target_parse_shape(const char *text, uint32_t *out_shape);

/* Name of the file whose `devices` says most of the device; out_named: it is for such devices and not for any with these
 * capabilities. */
dop_status dop_target_find_file(const dop_device_caps *caps, dop_diag *diag, const char **out_name, bool *out_named);

#endif
