/* YAML files of the compiler: one document whose root is a mapping or a list. */
#ifndef DOPPLER_BASE_YAML_YAML_UTIL_H
#define DOPPLER_BASE_YAML_YAML_UTIL_H

#include "base/base.h"

#include <yaml.h>

typedef struct dop_yaml {
    dop_map map;
    yaml_document_t doc;
    const yaml_node_t *root; /* root node, of the requested type */
} dop_yaml;

/* Parses a YAML file.  Fails for duplicate keys.  type: required type of the root; what: message if the root has another type ("a
 * target file is a mapping of fields"). */
dop_status dop_yaml_open(const char *path, yaml_node_type_t type, const char *what, dop_diag *diag, dop_yaml *out_yaml);
/* Parses a 0-terminated YAML text, which must outlive `out_yaml`; otherwise like dop_yaml_open.  name: replaces the path in messages. */
dop_status dop_yaml_parse(const char *name, const char *text, yaml_node_type_t type, const char *what, dop_diag *diag,
                          dop_yaml *out_yaml);
void dop_yaml_close(dop_yaml *y); /* accepts a zeroed struct */

/* Returns the text of a scalar node; NULL for other nodes. */
const char *dop_yaml_text(const yaml_node_t *node);
/* Returns the value of a mapping's key; NULL: none. */
const yaml_node_t *dop_yaml_field(yaml_document_t *doc, const yaml_node_t *mapping, const char *key);
/* Fails with DOP_E_INPUT at the line of a node. */
#define DOP_FAIL_NODE(diag, path, node, ...) \
    DOP_FAIL_AT((diag), DOP_E_INPUT, (path), (long)(node)->start_mark.line + 1, 0, __VA_ARGS__)

#endif
