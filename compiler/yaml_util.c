#include "compiler/yaml_util.h"

#include <string.h>

dop_status
dop_yaml_open(const char *path, yaml_node_type_t type, const char *what, dop_diag *diag, dop_yaml *out_yaml)
{
    dop_yaml *y = out_yaml;
    yaml_parser_t parser;
    memset(y, 0, sizeof *y);
    dop_status st = dop_map_open(path, diag, &y->map);
    if (st != DOP_OK)
        return st;
    if (!yaml_parser_initialize(&parser)) {
        dop_map_close(&y->map);
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    /* libyaml refuses a NULL string, which is what an empty file is. */
    yaml_parser_set_input_string(&parser, y->map.data ? y->map.data : (const uint8_t *)"", (size_t)y->map.size);
    if (!yaml_parser_load(&parser, &y->doc)) {
        st = DOP_FAIL_AT(diag, DOP_E_INPUT, path, (long)parser.problem_mark.line + 1,
                         (long)parser.problem_mark.column + 1, "not YAML: %s", parser.problem ? parser.problem : "?");
        memset(&y->doc, 0, sizeof y->doc);
    } else {
        y->root = yaml_document_get_root_node(&y->doc);
        if (!y->root || y->root->type != type)
            st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "%s%s", y->root ? "" : "nothing is in this file: ", what);
    }
    yaml_parser_delete(&parser);
    if (st != DOP_OK)
        dop_yaml_close(y);
    return st;
}

void
dop_yaml_close(dop_yaml *y)
{
    yaml_document_delete(&y->doc);
    dop_map_close(&y->map);
    memset(y, 0, sizeof *y);
}

const char *
dop_yaml_text(const yaml_node_t *node)
{
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}
