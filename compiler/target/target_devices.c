/* Matches target files to devices by vendor, PCI ids and capabilities, never by device name. */
#include "compiler/target/target_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
parse_cap(const char *name, uint32_t *caps)
{
#define CAP(bit, id, what)        \
    if (strcmp(name, #id) == 0) { \
        *caps |= DOP_CAP_##id;    \
        return true;              \
    }
    DOP_CAPS(CAP)
#undef CAP
    return false;
}

bool
dop_target_parse_shape(const char *text, uint32_t *out_shape)
{
    unsigned m, n, k;
    char rest;
    *out_shape = 0;
    if (strcmp(text, "none") == 0)
        return true;
    if (sscanf(text, "%3ux%3ux%3u%c", &m, &n, &k, &rest) != 3 || m > 255 || n > 255 || k > 255)
        return false;
    *out_shape = DOP_MATRIX_SHAPE(m, n, k);
    return true;
}

dop_status
dop_target_read_caps(const yaml_node_t *list, yaml_document_t *doc, const char *path, dop_diag *diag,
                     uint32_t *out_caps)
{
    *out_caps = 0;
    if (list->type != YAML_SEQUENCE_NODE)
        return DOP_FAIL_NODE(diag, path, list, "caps: expected a list of capabilities");
    for (yaml_node_item_t *i = list->data.sequence.items.start; i < list->data.sequence.items.top; i++) {
        const yaml_node_t *n = yaml_document_get_node(doc, *i);
        const char *name = dop_yaml_text(n);
        if (!name || !parse_cap(name, out_caps))
#define CAP(bit, id, what) " " #id
            return DOP_FAIL_NODE(diag, path, n, "unknown capability %.40s; known:" DOP_CAPS(CAP), name ? name : "");
#undef CAP
    }
    return DOP_OK;
}

/* Reads a number that ends at `end`: decimal, or hexadecimal with the prefix 0x. */
static bool
read_id_number(const char *text, const char *end, uint32_t *out)
{
    char *stop = NULL;
    const unsigned long long n = strtoull(text, &stop, 0);
    *out = (uint32_t)n;
    return *text >= '0' && *text <= '9' && stop == end && n <= UINT32_MAX;
}

/* Reads a PCI id or a range of them: "0x2330", or "0x2300-0x23ff". */
static bool
read_id_range(const char *text, uint32_t *first, uint32_t *last)
{
    const char *end = text + strlen(text), *dash = strchr(text, '-');
    if (!read_id_number(text, dash ? dash : end, first))
        return false;
    *last = *first;
    return !dash || (read_id_number(dash + 1, end, last) && *last >= *first);
}

static dop_status
read_device_ids(const yaml_node_t *list, yaml_document_t *doc, const char *path, dop_diag *diag, dop_target_devices *d)
{
    for (yaml_node_item_t *i = list->data.sequence.items.start; i < list->data.sequence.items.top; i++) {
        const yaml_node_t *n = yaml_document_get_node(doc, *i);
        if (d->n_ids == DOP_MAX_ID_RANGES)
            return DOP_FAIL_NODE(diag, path, n, "devices: ids: at most %d ranges", DOP_MAX_ID_RANGES);
        if (!dop_yaml_text(n) || !read_id_range(dop_yaml_text(n), &d->first_id[d->n_ids], &d->last_id[d->n_ids]))
            return DOP_FAIL_NODE(diag, path, n, "devices: ids: expected a number or a range as in 0x2300-0x23ff");
        d->n_ids++;
    }
    return DOP_OK;
}

dop_status
dop_target_read_devices(const yaml_node_t *node, yaml_document_t *doc, const char *path, dop_diag *diag,
                        dop_target_devices *out_devices)
{
    dop_target_devices *d = out_devices;
    dop_status st = DOP_OK;
    memset(d, 0, sizeof *d);
    if (node->type != YAML_MAPPING_NODE)
        return DOP_FAIL_NODE(diag, path, node, "devices: expected a mapping of vendor, ids, caps, matrix, cpu");
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top && st == DOP_OK; p++) {
        const yaml_node_t *k = yaml_document_get_node(doc, p->key), *v = yaml_document_get_node(doc, p->value);
        const char *key = dop_yaml_text(k) ? dop_yaml_text(k) : "", *text = dop_yaml_text(v);
        const bool list = v->type == YAML_SEQUENCE_NODE;
        bool good = true;
        if (strcmp(key, "vendor") == 0)
            good = text && read_id_number(text, text + strlen(text), &d->vendor) && d->vendor > 0;
        else if (strcmp(key, "matrix") == 0)
            good = text && dop_target_parse_shape(text, &d->matrix);
        else if (strcmp(key, "cpu") == 0)
            good = text && ((d->cpu = strcmp(text, "true") == 0) || strcmp(text, "false") == 0);
        else if (strcmp(key, "ids") == 0)
            st = list ? read_device_ids(v, doc, path, diag, d) : DOP_OK, good = list;
        else if (strcmp(key, "caps") == 0)
            st = dop_target_read_caps(v, doc, path, diag, &d->caps);
        else
            return DOP_FAIL_NODE(diag, path, k, "devices: %.40s: expected vendor, ids, caps, matrix or cpu", key);
        if (!good)
            return DOP_FAIL_NODE(diag, path, v, "devices: %s: %.40s is no value of it", key, text ? text : "a list");
    }
    return st;
}

enum { NAMED = 64 }; /* weight of a vendor, id or `cpu` match: more than all capabilities together */

/* Returns how closely a target file describes the device; 0 if the file is not for this device. */
static uint32_t
match_device(const dop_target_devices *d, const dop_device_caps *caps)
{
    bool among = d->n_ids == 0;
    for (uint32_t i = 0; i < d->n_ids; i++)
        among = among || (caps->device_id >= d->first_id[i] && caps->device_id <= d->last_id[i]);
    if ((d->vendor && d->vendor != caps->vendor_id) || !among || dop_caps_missing(d->caps, caps->caps) ||
        (d->matrix && d->matrix != caps->matrix) || d->cpu != caps->cpu)
        return 0;
    const uint32_t named = (uint32_t)(d->vendor > 0) + (d->n_ids > 0) + d->cpu;
    uint32_t said = 1 + named * NAMED + (d->matrix > 0);
    for (uint32_t rest = d->caps; rest; rest &= rest - 1)
        said++;
    return said;
}

dop_status
dop_target_find_file(const dop_device_caps *caps, dop_diag *diag, const char **out_name, bool *out_named)
{
    uint32_t most = 0;
    *out_name = NULL;
    for (const dop_target_file *f = dop_target_files; f->name; f++) {
        dop_yaml y;
        dop_target_devices d;
        dop_status st =
            dop_yaml_parse(f->name, *f->text, YAML_MAPPING_NODE, "a target file is a mapping of fields", diag, &y);
        if (st != DOP_OK)
            return st;
        const yaml_node_t *node = dop_yaml_field(&y.doc, y.root, "devices");
        st = node ? dop_target_read_devices(node, &y.doc, f->name, diag, &d) : DOP_OK;
        const uint32_t said = node && st == DOP_OK ? match_device(&d, caps) : 0;
        if (said > most) {
            most = said;
            *out_name = f->name;
        }
        dop_yaml_close(&y);
        if (st != DOP_OK)
            return st;
    }
    *out_named = most >= NAMED;
    return *out_name ? DOP_OK : DOP_FAIL(diag, DOP_E_INPUT, "no target is for %s", caps->name);
}
