#include "base/yaml/yaml_util.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 32 }; /* maximum nesting of lists and mappings; our own files need 4 */

static void
set_yaml_input(yaml_parser_t *parser, const dop_map *map)
{
    /* libyaml rejects NULL, the data of an empty file. */
    yaml_parser_set_input_string(parser, map->data ? map->data : (const uint8_t *)"", (size_t)map->size);
}

/* Fails if a text is nested too deeply, because libyaml's time is quadratic in the depth.  Other errors are reported by the load. */
static dop_status
check_yaml_depth(const char *path, const dop_map *map, dop_diag *diag)
{
    yaml_parser_t parser;
    yaml_event_t event;
    unsigned depth = 0;
    long line = 0;
    if (!yaml_parser_initialize(&parser))
        return DOP_NO_MEMORY(diag);
    set_yaml_input(&parser, map);
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

static int
compare_yaml_keys(const void *a, const void *b)
{
    const yaml_node_t *x = *(yaml_node_t *const *)a, *y = *(yaml_node_t *const *)b;
    const int order = strcmp(dop_yaml_text(x), dop_yaml_text(y));
    return order ? order : x->start_mark.index < y->start_mark.index ? -1 : x->start_mark.index > y->start_mark.index;
}

/* Fails if a mapping has a duplicate key, because only one of the values would count. */
static dop_status
check_yaml_keys(const char *path, yaml_document_t *doc, const yaml_node_t *map, dop_diag *diag)
{
    const yaml_node_pair_t *first = map->data.mapping.pairs.start, *end = map->data.mapping.pairs.top;
    const yaml_node_t **keys = calloc((size_t)(end - first) + 1, sizeof *keys);
    size_t n = 0;
    dop_status st = keys ? DOP_OK : DOP_NO_MEMORY(diag);
    for (const yaml_node_pair_t *p = first; p < end && keys; p++) {
        const yaml_node_t *key = yaml_document_get_node(doc, p->key);
        if (dop_yaml_text(key))
            keys[n++] = key;
    }
    if (n > 1)
        qsort(keys, n, sizeof *keys, compare_yaml_keys);
    for (size_t i = 1; i < n && st == DOP_OK; i++)
        if (strcmp(dop_yaml_text(keys[i - 1]), dop_yaml_text(keys[i])) == 0)
            st = DOP_FAIL_NODE(diag, path, keys[i], "%.60s is given twice, first on line %lu", dop_yaml_text(keys[i]),
                               (unsigned long)keys[i - 1]->start_mark.line + 1);
    free(keys);
    return st;
}

static dop_status
parse_yaml(const char *path, const dop_map *map, yaml_node_type_t type, const char *what, dop_diag *diag, dop_yaml *y)
{
    yaml_parser_t parser;
    dop_status st = check_yaml_depth(path, map, diag);
    if (st == DOP_OK && !yaml_parser_initialize(&parser))
        st = DOP_NO_MEMORY(diag);
    if (st != DOP_OK)
        return st;
    set_yaml_input(&parser, map);
    if (!yaml_parser_load(&parser, &y->doc)) {
        st = DOP_FAIL_AT(diag, DOP_E_INPUT, path, (long)parser.problem_mark.line + 1,
                         (long)parser.problem_mark.column + 1, "not YAML: %s", parser.problem ? parser.problem : "?");
        memset(&y->doc, 0, sizeof y->doc);
    } else {
        y->root = yaml_document_get_root_node(&y->doc);
        if (!y->root || y->root->type != type)
            st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "%s%s", y->root ? "" : "nothing is in this file: ", what);
        for (const yaml_node_t *n = y->doc.nodes.start; n < y->doc.nodes.top && st == DOP_OK; n++)
            if (n->type == YAML_MAPPING_NODE)
                st = check_yaml_keys(path, &y->doc, n, diag);
        if (st != DOP_OK)
            yaml_document_delete(&y->doc);
    }
    yaml_parser_delete(&parser);
    return st;
}

dop_status
dop_yaml_open(const char *path, yaml_node_type_t type, const char *what, dop_diag *diag, dop_yaml *out_yaml)
{
    memset(out_yaml, 0, sizeof *out_yaml);
    dop_status st = DOP_OK;
    DOP_TRY(dop_map_open(path, diag, &out_yaml->map));
    DOP_TRY(parse_yaml(path, &out_yaml->map, type, what, diag, out_yaml));
error:
    if (st != DOP_OK)
        dop_map_close(&out_yaml->map);
    return st;
}

dop_status
dop_yaml_parse(const char *name, const char *text, yaml_node_type_t type, const char *what, dop_diag *diag,
               dop_yaml *out_yaml)
{
    const dop_map map = {.data = (const uint8_t *)text, .size = strlen(text)};
    memset(out_yaml, 0, sizeof *out_yaml);
    return parse_yaml(name, &map, type, what, diag, out_yaml);
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

const yaml_node_t *
dop_yaml_field(yaml_document_t *doc, const yaml_node_t *mapping, const char *key)
{
    for (const yaml_node_pair_t *p = mapping->data.mapping.pairs.start; p < mapping->data.mapping.pairs.top; p++) {
        const char *name = dop_yaml_text(yaml_document_get_node(doc, p->key));
        if (name && strcmp(name, key) == 0)
            return yaml_document_get_node(doc, p->value);
    }
    return NULL;
}
