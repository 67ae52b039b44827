/* Table-driven reader of YAML mappings.  Keys must be known and unique; numbers must be finite and in range. */
#ifndef DOPPLER_BASE_YAML_YAML_FIELDS_H
#define DOPPLER_BASE_YAML_YAML_FIELDS_H

#include "base/yaml/yaml_util.h"

typedef enum dop_field_kind {
    DOP_FIELD_ANY,      /* known key whose value the caller reads */
    DOP_FIELD_POSITIVE, /* double above 0 */
    DOP_FIELD_AMOUNT,   /* double, 0 or more */
    DOP_FIELD_COUNT,    /* uint32_t from 1 to 2^24 */
    DOP_FIELD_FLAG,     /* bool */
    DOP_FIELD_TEXT      /* char[size]; longer text is an error */
} dop_field_kind;

typedef struct dop_field {
    const char *name;
    dop_field_kind kind;
    size_t offset, size; /* byte offset and size of the struct member */
} dop_field;

#define DOP_FIELD(type, kind, member)                                                   \
    {                                                                                   \
#member, DOP_FIELD_##kind, offsetof(type, member), sizeof((type *)NULL)->member \
    }

/* Fills members of *out from the mapping `node`.  *out_seen: bit i is set if field i is present.  what: name of the mapping in messages
 * ("link").  Errors have the line. */
dop_status dop_yaml_fields(dop_yaml *y, const yaml_node_t *node, const char *path, const char *what,
                           const dop_field *fields, uint32_t n, dop_diag *diag, void *out, uint32_t *out_seen);
/* Returns the value of a key of a mapping; NULL: absent. */
const yaml_node_t *dop_yaml_value(dop_yaml *y, const yaml_node_t *mapping, const char *key);

#endif
