/* Reads the description of devices and links (simulate.h). */
#include "base/os/system.h"
#include "base/yaml/yaml_fields.h"
#include "compiler/parts/simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct top {
    uint32_t sequences, groups, prompt;
} top;

static const dop_field top_fields[] = {
    {"link", DOP_FIELD_ANY, 0, 0}, {"device", DOP_FIELD_ANY, 0, 0}, DOP_FIELD(top, COUNT, sequences),
    DOP_FIELD(top, COUNT, groups), DOP_FIELD(top, COUNT, prompt),
};
static const dop_field link_fields[] = {
    DOP_FIELD(dop_sim_link, AMOUNT, latency_us),
    DOP_FIELD(dop_sim_link, POSITIVE, bandwidth),
    DOP_FIELD(dop_sim_link, FLAG, overlaps),
};
static const dop_field device_fields[] = {
    {"stage_times", DOP_FIELD_ANY, 0, 0},
    DOP_FIELD(dop_sim_device, POSITIVE, bandwidth),
    DOP_FIELD(dop_sim_device, POSITIVE, flops),
    DOP_FIELD(dop_sim_device, POSITIVE, memory_speed),
    DOP_FIELD(dop_sim_device, POSITIVE, product_speed),
    DOP_FIELD(dop_sim_device, AMOUNT, stage_us),
    DOP_FIELD(dop_sim_device, AMOUNT, step_us),
    DOP_FIELD(dop_sim_device, POSITIVE, memory),
};
#define COUNT_OF(a) ((uint32_t)(sizeof(a) / sizeof *(a)))
/* Default sequences and prompt are those of the reports. A step's host time is submit and fence, measured as 37 us
 * (docs/design.md, section 9). tests/bench/log/2026-11-22-parts-predicted.md compares predictions with measurements. */
enum { DEFAULT_SEQUENCES = 32, DEFAULT_PROMPT = 2048, DEFAULT_STEP_US = 40 };

typedef struct reader {
    dop_yaml y;
    const char *path;
    dop_diag *diag;
    dop_sim_setup *out;
} reader;

static dop_status
read_link(reader *r, const yaml_node_t *node, uint32_t i)
{
    uint32_t seen;
    dop_sim_link *l = &r->out->links[i];
    l->overlaps = true;
    dop_status st =
        dop_yaml_fields(&r->y, node, r->path, "a link", link_fields, COUNT_OF(link_fields), r->diag, l, &seen);
    return st != DOP_OK || (seen & 3) == 3
               ? st
               : DOP_FAIL_NODE(r->diag, r->path, node, "a link needs %s", seen & 1 ? "bandwidth" : "latency_us");
}

/* Adds a file of stage times. A relative name is relative to the folder of the description. */
static dop_status
add_stage_times(reader *r, const yaml_node_t *node, dop_sim_device *d)
{
    const char *name = dop_yaml_text(node), *slash = dop_path_slash(r->path);
    char *path = NULL;
    if (!name || !*name)
        return DOP_FAIL_NODE(r->diag, r->path, node, "stage_times is a file, or a list of files");
    if (asprintf(&path, "%.*s%s", slash && !dop_path_is_absolute(name) ? (int)(slash - r->path + 1) : 0, r->path,
                 name) < 0)
        return DOP_NO_MEMORY(r->diag);
    dop_status st = dop_stage_times_add(&d->times, path, r->diag);
    free(path);
    return st;
}

static dop_status
read_times(reader *r, const yaml_node_t *node, dop_sim_device *d)
{
    if (node->type != YAML_SEQUENCE_NODE)
        DOP_RETURN_IF_ERROR(add_stage_times(r, node, d));
    else
        for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top; i++)
            DOP_RETURN_IF_ERROR(add_stage_times(r, yaml_document_get_node(&r->y.doc, *i), d));
    return dop_stage_times_ready(&d->times, r->path, r->diag);
}

static dop_status
read_device(reader *r, const yaml_node_t *node, uint32_t i)
{
    enum { TIMES = 1, RATES = 6, SPEEDS = 24 }; /* masks of indices in device_fields */
    uint32_t seen;
    dop_sim_device *d = &r->out->devices[i];
    d->memory_speed = d->product_speed = 1;
    d->stage_us = -1;
    d->step_us = DEFAULT_STEP_US;
    dop_status st =
        dop_yaml_fields(&r->y, node, r->path, "a device", device_fields, COUNT_OF(device_fields), r->diag, d, &seen);
    if (st != DOP_OK)
        return st;
    if (!(seen & TIMES) && (seen & RATES) != RATES)
        return DOP_FAIL_NODE(r->diag, r->path, node, "a device needs stage_times, or bandwidth and flops");
    if (seen & TIMES && seen & RATES)
        return DOP_FAIL_NODE(r->diag, r->path, node,
                             "a device has stage_times or rates; memory_speed and product_speed say how many times as "
                             "fast as the measured one it is");
    if (!(seen & TIMES) && seen & SPEEDS)
        return DOP_FAIL_NODE(r->diag, r->path, node, "memory_speed and product_speed are about stage_times");
    return seen & TIMES ? read_times(r, dop_yaml_value(&r->y, node, "stage_times"), d) : DOP_OK;
}

typedef dop_status read_fn(reader *r, const yaml_node_t *node, uint32_t i);

/* Reads the value of a key: one mapping for all, or a list of mappings. */
static dop_status
read_list(reader *r, const char *key, read_fn *item, uint32_t *out_n)
{
    const yaml_node_t *node = dop_yaml_value(&r->y, r->y.root, key);
    dop_status st = DOP_OK;
    if (!node)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "it needs link and device; %s is missing", key);
    *out_n = 0;
    if (node->type != YAML_SEQUENCE_NODE)
        return item(r, node, (*out_n)++);
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top && st == DOP_OK; i++)
        st = *out_n == DOP_MAX_PARTS ? DOP_FAIL_NODE(r->diag, r->path, node, "%s: at most %d", key, DOP_MAX_PARTS)
                                     : item(r, yaml_document_get_node(&r->y.doc, *i), (*out_n)++);
    return st == DOP_OK && *out_n == 0 ? DOP_FAIL_NODE(r->diag, r->path, node, "%s: an empty list", key) : st;
}

dop_status
dop_sim_load(const char *path, dop_diag *diag, dop_sim_setup *out_setup)
{
    reader r = {.path = path, .diag = diag, .out = out_setup};
    top t = {DEFAULT_SEQUENCES, 0, DEFAULT_PROMPT};
    uint32_t seen;
    memset(out_setup, 0, sizeof *out_setup);
    dop_status st =
        dop_yaml_open(path, YAML_MAPPING_NODE, "a description of devices and links is a mapping", diag, &r.y);
    if (st != DOP_OK)
        return st;
    out_setup->devices = calloc(DOP_MAX_PARTS, sizeof *out_setup->devices);
    if (!out_setup->devices)
        st = DOP_NO_MEMORY(diag);
    if (st == DOP_OK)
        st =
            dop_yaml_fields(&r.y, r.y.root, path, "the description", top_fields, COUNT_OF(top_fields), diag, &t, &seen);
    out_setup->sequences = t.sequences;
    out_setup->groups = t.groups;
    out_setup->prompt = t.prompt;
    if (st == DOP_OK)
        st = read_list(&r, "link", read_link, &out_setup->n_links);
    if (st == DOP_OK)
        st = read_list(&r, "device", read_device, &out_setup->n_devices);
    dop_yaml_close(&r.y);
    if (st != DOP_OK)
        dop_sim_setup_finish(out_setup);
    return st;
}

void
dop_sim_setup_finish(dop_sim_setup *s)
{
    for (uint32_t i = 0; s->devices && i < DOP_MAX_PARTS; i++)
        dop_stage_times_finish(&s->devices[i].times);
    free(s->devices);
    memset(s, 0, sizeof *s);
}
