#include "base/yaml/yaml_fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static dop_status
read_yaml_number(const yaml_node_t *value, const char *path, const dop_field *f, dop_diag *diag, char *out)
{
    const char *text = dop_yaml_text(value);
    char *end = NULL;
    const double v = text ? strtod(text, &end) : 0;
    const bool number = text && end != text && !*end && isfinite(v);
    if (f->kind == DOP_FIELD_COUNT) {
        const uint32_t n = number && v >= 1 && v <= 1 << 24 ? (uint32_t)v : 0;
        memcpy(out + f->offset, &n, sizeof n);
        return n > 0 && n == v ? DOP_OK
                               : DOP_FAIL_NODE(diag, path, value, "%s: %s is no whole number from 1 to 16777216",
                                               f->name, text ? text : "this");
    }
    memcpy(out + f->offset, &v, sizeof v);
    if (number && (f->kind == DOP_FIELD_POSITIVE ? v > 0 : v >= 0))
        return DOP_OK;
    return DOP_FAIL_NODE(diag, path, value, "%s: %s is no number %s", f->name, text ? text : "this",
                         f->kind == DOP_FIELD_POSITIVE ? "above 0" : "from 0 on");
}

static dop_status
read_yaml_field(const yaml_node_t *value, const char *path, const dop_field *f, dop_diag *diag, char *out)
{
    const char *text = dop_yaml_text(value);
    bool flag;
    switch (f->kind) {
    case DOP_FIELD_ANY:
        return DOP_OK;
    case DOP_FIELD_FLAG:
        if (!text || (strcmp(text, "true") != 0 && strcmp(text, "false") != 0))
            return DOP_FAIL_NODE(diag, path, value, "%s: true or false", f->name);
        flag = strcmp(text, "true") == 0;
        memcpy(out + f->offset, &flag, sizeof flag);
        return DOP_OK;
    case DOP_FIELD_TEXT:
        if (!text || strlen(text) >= f->size)
            return DOP_FAIL_NODE(diag, path, value, "%s: text of up to %zu bytes", f->name, f->size - 1);
        memcpy(out + f->offset, text, strlen(text) + 1);
        return DOP_OK;
    default:
        return read_yaml_number(value, path, f, diag, out);
    }
}

static dop_status
refuse_unknown_key(const yaml_node_t *key, const char *path, const char *what, const dop_field *fields, uint32_t n,
                   dop_diag *diag)
{
    dop_buf known = {0};
    const char *text = dop_yaml_text(key);
    for (uint32_t i = 0; i < n; i++)
        dop_buf_printf(&known, "%s%s", i ? ", " : "", fields[i].name);
    dop_status st = DOP_FAIL_NODE(diag, path, key, "%s has no %s; known are %s", what, text ? text : "such key",
                                  known.data ? known.data : "");
    dop_buf_finish(&known);
    return st;
}

dop_status
dop_yaml_fields(dop_yaml *y, const yaml_node_t *node, const char *path, const char *what, const dop_field *fields,
                uint32_t n, dop_diag *diag, void *out, uint32_t *out_seen)
{
    *out_seen = 0;
    if (node->type != YAML_MAPPING_NODE)
        return DOP_FAIL_NODE(diag, path, node, "%s is a mapping of fields", what);
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(&y->doc, p->key);
        const char *name = dop_yaml_text(key);
        uint32_t i = 0;
        while (i < n && (!name || strcmp(fields[i].name, name) != 0))
            i++;
        if (i == n)
            return refuse_unknown_key(key, path, what, fields, n, diag);
        if (*out_seen & 1u << i)
            return DOP_FAIL_NODE(diag, path, key, "%s is given twice", name);
        *out_seen |= 1u << i;
        DOP_RETURN_IF_ERROR(read_yaml_field(yaml_document_get_node(&y->doc, p->value), path, &fields[i], diag, out));
    }
    return DOP_OK;
}

const yaml_node_t *
dop_yaml_value(dop_yaml *y, const yaml_node_t *mapping, const char *key)
{
    for (yaml_node_pair_t *p = mapping->data.mapping.pairs.start; p < mapping->data.mapping.pairs.top; p++) {
        const char *name = dop_yaml_text(yaml_document_get_node(&y->doc, p->key));
        if (name && strcmp(name, key) == 0)
            return yaml_document_get_node(&y->doc, p->value);
    }
    return NULL;
}
