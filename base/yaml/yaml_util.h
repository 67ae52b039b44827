/* YAML files of the compiler: one document, a mapping or a list. */
#ifndef DOPPLER_BASE_YAML_YAML_UTIL_H
#define DOPPLER_BASE_YAML_YAML_UTIL_H

#include "base/base.h"

#include <yaml.h>

typedef struct dop_yaml {
    dop_map map;
    yaml_document_t doc;
    const yaml_node_t *root; /* root of the document, of the requested type */
} dop_yaml;

/* Reads a YAML file.  Fails when a mapping has a key twice.  type: the type that the root must have; what: the message when the root has
 * another type ("a target file is a mapping of fields"). */
dop_status dop_yaml_open(const char *path, yaml_node_type_t type, const char *what, dop_diag *diag, dop_yaml *out_yaml);
/* Reads a YAML document from a text, which is terminated by 0 and must outlive `out_yaml`; otherwise as dop_yaml_open.  name: stands in
 * messages where dop_yaml_open has the path. */
dop_status dop_yaml_parse(const char *name, const char *text, yaml_node_type_t type, const char *what, dop_diag *diag,
                          dop_yaml *out_yaml);
void dop_yaml_close(dop_yaml *y); /* accepts a zeroed one */

/* Text of a scalar node, NULL for others. */
const char *dop_yaml_text(const yaml_node_t *node);
/* The value of a mapping's key, NULL without one. */
const yaml_node_t *dop_yaml_field(yaml_document_t *doc, const yaml_node_t *mapping, const char *key);
/* Fails with DOP_E_INPUT at the line of a node. */
#define DOP_FAIL_NODE(diag, path, node, ...) \
    DOP_FAIL_AT((diag), DOP_E_INPUT, (path), (long)(node)->start_mark.line + 1, 0, __VA_ARGS__)

#endif
