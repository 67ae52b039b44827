#include "compiler/schedule/tuning.h"
#include "base/read/yaml_util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef struct text_field {
    const char *name;
    char *to;
    size_t size;
} text_field;

static dop_status
read_entry(yaml_document_t *doc, const yaml_node_t *map, const char *path, dop_tuning_entry *e, dop_tuning_key *key,
           dop_diag *diag)
{
    long line = (long)map->start_mark.line + 1;
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const char *k = dop_yaml_text(yaml_document_get_node(doc, p->key)),
                   *v = dop_yaml_text(yaml_document_get_node(doc, p->value));
        char *end = NULL;
        bool known = false;
        if (!k || !v)
            return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "expected `name: value`");
        const text_field texts[] = {{"op", e->op, sizeof e->op},
                                    {"template", e->tpl, sizeof e->tpl},
                                    {"phase", e->phase, sizeof e->phase},
                                    {"variant", e->variant, sizeof e->variant},
                                    {"device", key->device, sizeof key->device},
                                    {"driver", key->driver, sizeof key->driver},
                                    {"kernels", key->kernels, sizeof key->kernels}};
        for (size_t i = 0; i < sizeof texts / sizeof *texts && !known; i++)
            if ((known = strcmp(k, texts[i].name) == 0))
                snprintf(texts[i].to, texts[i].size, "%s", v);
        if (known)
            continue;
        unsigned long x = strtoul(v, &end, 10);
        if (strcmp(k, "step") == 0 && end != v && *end == 0 && x <= 4096) {
            e->step = (uint32_t)x;
            continue;
        }
        for (int i = 0; i < DOP_TILE_FIELDS; i++)
            if (dop_tile_tuned(i) && strcmp(dop_tile_name(i), k) == 0 && end != v && *end == 0 && x <= 4096) {
                e->value[i] = (uint32_t)x;
                known = true;
            }
        if (!known)
            return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "%s: %s is no tile field with a value from 1 to 4096",
                               k, v);
    }
    return *e->op || *key->device ? DOP_OK : DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "an entry needs `op`");
}

dop_status
dop_tuning_load(const char *path, dop_tuning *out, dop_diag *diag)
{
    dop_yaml y;
    memset(out, 0, sizeof *out);
    dop_status st = dop_yaml_open(path, YAML_SEQUENCE_NODE, "a tuning file is a list of entries", diag, &y);
    if (st != DOP_OK)
        return st;
    for (yaml_node_item_t *i = y.root->data.sequence.items.start; st == DOP_OK && i < y.root->data.sequence.items.top;
         i++) {
        const yaml_node_t *n = yaml_document_get_node(&y.doc, *i);
        if (n->type != YAML_MAPPING_NODE || out->n == DOP_MAX_TUNING)
            st = DOP_FAIL_NODE(diag, path, n, "expected an entry {op: ..., ...}, at most %d of them", DOP_MAX_TUNING);
        else
            st = read_entry(&y.doc, n, path, &out->entries[out->n], &out->key, diag);
        out->n += st == DOP_OK && *out->entries[out->n].op; /* the entry of the key has none */
    }
    dop_yaml_close(&y);
    return st;
}

static bool
matches(const dop_tuning_entry *e, const dop_tuning_site *at)
{
    return (!*e->phase || strcmp(e->phase, at->phase) == 0) && (!e->step || e->step == at->step) &&
           (!*e->tpl || strcmp(e->tpl, at->tpl) == 0) && (strcmp(e->op, at->tpl) == 0 || strcmp(e->op, at->role) == 0);
}

void
dop_tuning_apply(const dop_tuning *t, const dop_tuning_site *at, dop_tile *tile)
{
    for (uint32_t i = 0; i < t->n; i++)
        for (int k = 0; k < DOP_TILE_FIELDS && matches(&t->entries[i], at); k++)
            if (t->entries[i].value[k])
                dop_tile_set(tile, k, t->entries[i].value[k]);
}

const char *
dop_tuning_variant(const dop_tuning *t, const dop_tuning_site *at)
{
    const char *name = NULL;
    for (uint32_t i = 0; i < t->n; i++)
        if (*t->entries[i].variant && matches(&t->entries[i], at))
            name = t->entries[i].variant;
    return name;
}

void
dop_tuning_key_of(const dop_device_caps *device, const dop_templates *templates, dop_tuning_key *out)
{
    uint64_t digest = 0; /* of files in whatever order the folder lists them */
    for (uint32_t i = 0; i < templates->n; i++) {
        const char *text = templates->files[i].text;
        digest += XXH3_64bits_withSeed(text, strlen(text),
                                       XXH3_64bits(templates->files[i].name, strlen(templates->files[i].name)));
    }
    snprintf(out->device, sizeof out->device, "%s", device->name);
    snprintf(out->driver, sizeof out->driver, "%s", device->driver);
    snprintf(out->kernels, sizeof out->kernels, "%016llx", (unsigned long long)digest);
}

const char *
dop_tuning_stale(const dop_tuning *t, const dop_tuning_key *here)
{
    if (!*t->key.device)
        return NULL;
    return strcmp(t->key.device, here->device) != 0     ? "on another device"
           : strcmp(t->key.driver, here->driver) != 0   ? "with another driver"
           : strcmp(t->key.kernels, here->kernels) != 0 ? "with other kernels"
                                                        : NULL;
}

void
dop_tuning_put_tile(const dop_tile *tile, const dop_tile *other, dop_buf *out)
{
    for (int k = 0; k < DOP_TILE_FIELDS; k++) {
        const uint32_t value = dop_tile_get(tile, k);
        if (dop_tile_tuned(k) && value != dop_tile_get(other, k) && value)
            dop_buf_printf(out, ", %s: %u", dop_tile_name(k), value);
    }
}
