#include "compiler/yaml_util.h"

#include <string.h>

enum { MAX_DEPTH = 32 }; /* of lists and mappings in each other; files of ours need 4 */

static void
set_input(yaml_parser_t *parser, const dop_map *map)
{
    /* libyaml refuses a NULL string, which is what an empty file is. */
    yaml_parser_set_input_string(parser, map->data ? map->data : (const uint8_t *)"", (size_t)map->size);
}

/* Refuses a text that is nested too deeply, for which libyaml's time grows with the square of the depth.  What else is wrong
 * with a text is found when it is loaded. */
static dop_status
check_depth(const char *path, const dop_map *map, dop_diag *diag)
{
    yaml_parser_t parser;
    yaml_event_t event;
    unsigned depth = 0;
    long line = 0;
    if (!yaml_parser_initialize(&parser))
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    set_input(&parser, map);
    for (bool more = true; more && depth <= MAX_DEPTH && yaml_parser_parse(&parser, &event);) {
        line = (long)event.start_mark.line + 1;
        depth += event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT;
        depth -= event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
        more = event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return depth <= MAX_DEPTH ? DOP_OK
                              : DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0,
                                            "lists and mappings are nested more than %d deep", MAX_DEPTH);
}

dop_status
dop_yaml_open(const char *path, yaml_node_type_t type, const char *what, dop_diag *diag, dop_yaml *out_yaml)
{
    dop_yaml *y = out_yaml;
    yaml_parser_t parser;
    memset(y, 0, sizeof *y);
    dop_status st = dop_map_open(path, diag, &y->map);
    if (st == DOP_OK)
        st = check_depth(path, &y->map, diag);
    if (st == DOP_OK && !yaml_parser_initialize(&parser))
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if (st != DOP_OK) {
        dop_map_close(&y->map);
        return st;
    }
    set_input(&parser, &y->map);
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
