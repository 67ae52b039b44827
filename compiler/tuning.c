#include "compiler/tuning.h"
#include "compiler/yaml_util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} fields[DOP_TILE_FIELDS] = {
    {"wg", offsetof(dop_tile, wg)},       {"lanes", offsetof(dop_tile, lanes)},   {"rows", offsetof(dop_tile, rows)},
    {"loops", offsetof(dop_tile, loops)}, {"unroll", offsetof(dop_tile, unroll)}, {"bm", offsetof(dop_tile, bm)},
    {"bn", offsetof(dop_tile, bn)},       {"bk", offsetof(dop_tile, bk)},         {"tm", offsetof(dop_tile, tm)},
    {"bq", offsetof(dop_tile, bq)},       {"ds", offsetof(dop_tile, ds)},         {"tn", offsetof(dop_tile, tn)},
    {"stage", offsetof(dop_tile, stage)},
};

static dop_status
read_entry(yaml_document_t *doc, const yaml_node_t *map, const char *path, dop_tuning_entry *e, dop_diag *diag)
{
    long line = (long)map->start_mark.line + 1;
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const char *k = dop_yaml_text(yaml_document_get_node(doc, p->key)),
                   *v = dop_yaml_text(yaml_document_get_node(doc, p->value));
        char *end = NULL;
        bool known = false;
        if (!k || !v)
            return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "expected `name: value`");
        if (strcmp(k, "op") == 0 || strcmp(k, "phase") == 0) {
            char *to = *k == 'o' ? e->op : e->phase;
            snprintf(to, *k == 'o' ? sizeof e->op : sizeof e->phase, "%s", v);
            continue;
        }
        unsigned long x = strtoul(v, &end, 10);
        for (int i = 0; i < DOP_TILE_FIELDS; i++)
            if (strcmp(fields[i].name, k) == 0 && end != v && *end == 0 && x <= 4096) {
                e->value[i] = (uint32_t)x;
                known = true;
            }
        if (!known)
            return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "%s: %s is no tile field with a value from 1 to 4096",
                               k, v);
    }
    return *e->op ? DOP_OK : DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "an entry needs `op`");
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
            st = read_entry(&y.doc, n, path, &out->entries[out->n++], diag);
    }
    dop_yaml_close(&y);
    return st;
}

void
dop_tuning_apply(const dop_tuning *t, const char *phase, const char *tpl, const char *label, dop_tile *tile)
{
    const char *slash = strrchr(label, '/'), *part = slash ? slash + 1 : label;
    for (uint32_t i = 0; i < t->n; i++) {
        const dop_tuning_entry *e = &t->entries[i];
        if ((*e->phase && strcmp(e->phase, phase) != 0) || (strcmp(e->op, tpl) != 0 && strcmp(e->op, part) != 0))
            continue;
        for (int k = 0; k < DOP_TILE_FIELDS; k++)
            if (e->value[k])
                memcpy((char *)tile + fields[k].offset, &e->value[k], sizeof e->value[k]);
    }
}
