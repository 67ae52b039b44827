/* Reads kernel paths: YAML files, RDRR manifests, --force and --no-fuse. */
#include "base/os/system.h"
#include "base/yaml/yaml_util.h"
#include "compiler/schedule/kernel_path.h"
#include "compiler/schedule/region_facts.h"
#include "compiler/target/target.h"
#include "frontend/rdrr/path.h"
#include "frontend/rdrr/rdrr.h"
#include "ir/graph/ops.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { MAX_RULES = 1024 };

/* Fails if the model lacks a layer that a label as "L0-9/qkv" names. */
static dop_status
check_label(const dop_kernel_path *p, const dop_path_rule *rule, const char *label, dop_diag *diag)
{
    const char *slash = label ? strchr(label, '/') : NULL;
    unsigned long first, last;
    if (!slash || !dop_label_layers(label, slash, &first, &last) || last == ULONG_MAX)
        return DOP_OK;
    const dop_status code = rule->forced ? DOP_E_USAGE : DOP_E_INPUT;
    if (first > last)
        return DOP_FAIL(diag, code, "%s: %.60s: the first layer comes after the last", rule->source, label);
    if (last >= p->n_layers)
        return DOP_FAIL(diag, code, "%s: %.60s, but the model has layers 0-%u", rule->source, label, p->n_layers - 1);
    if (rule->n_layers)
        return DOP_FAIL(diag, code, "%s: layers stands beside op %.60s, which names its layers: leave one of them out",
                        rule->source, label);
    return DOP_OK;
}

static dop_status
add_rule(dop_kernel_path *p, const dop_path_rule *rule, dop_arena *arena, dop_diag *diag)
{
    dop_status st = check_label(p, rule, rule->op, diag);
    if (st == DOP_OK)
        st = check_label(p, rule, rule->reader, diag);
    if (st != DOP_OK)
        return st;
    if (p->n_rules >= MAX_RULES)
        return DOP_FAIL(diag, DOP_E_INPUT, "%s: a kernel path has at most %d rules", rule->source, MAX_RULES);
    if (p->n_rules == p->cap_rules) {
        uint32_t cap = p->cap_rules ? 2 * p->cap_rules : 16;
        dop_path_rule *list = dop_arena_alloc(arena, cap * sizeof *list);
        if (!list)
            return DOP_NO_MEMORY(diag);
        if (p->n_rules)
            memcpy(list, p->rules, p->n_rules * sizeof *list);
        p->rules = list;
        p->cap_rules = cap;
    }
    p->rules[p->n_rules++] = *rule;
    return DOP_OK;
}

dop_status
dop_unknown_variant(const char *source, const char *name, dop_status code, dop_diag *diag)
{
    dop_buf list = {0};
    for (int k = 1; k < DOP_VARIANT_COUNT; k++)
        dop_buf_printf(&list, " %s", dop_variant_of((dop_variant_id)k)->name);
    dop_status st = DOP_FAIL(diag, code, "%s: no kernel %.60s; known:%s", source, name, list.data ? list.data : "");
    dop_buf_finish(&list);
    return st;
}

dop_status
dop_kernel_path_force(dop_kernel_path *p, const char *op, const char *variant, dop_arena *arena, dop_diag *diag)
{
    dop_path_rule r = {.decode = true, .prefill = true, .op = op, .forced = true};
    r.source = dop_arena_printf(arena, "`forces` %s=%s", op, variant);
    if (!r.source)
        return DOP_NO_MEMORY(diag);
    if (!dop_variant_parse(variant, &r.variant))
        return dop_unknown_variant(r.source, variant, DOP_E_USAGE, diag);
    return add_rule(p, &r, arena, diag);
}

/* Splits "A+B" into the rule's op and reader. */
static dop_status
split_pair(dop_path_rule *rule, const char *pair, dop_arena *arena, dop_diag *diag)
{
    const size_t at = strcspn(pair, "+");
    char *op = dop_arena_printf(arena, "%.*s", (int)at, pair);
    if (!op)
        return DOP_NO_MEMORY(diag);
    if (at == 0 || !pair[at + 1] || strchr(pair + at + 1, '+'))
        return DOP_FAIL(diag, rule->forced ? DOP_E_USAGE : DOP_E_INPUT, "%s: expected A+B, where B reads what A makes",
                        rule->source);
    rule->op = op;
    rule->reader = pair + at + 1;
    return DOP_OK;
}

dop_status
dop_kernel_path_no_fuse(dop_kernel_path *p, const char *pair, dop_arena *arena, dop_diag *diag)
{
    dop_path_rule r = {.decode = true, .prefill = true, .unfused = true, .forced = true};
    r.source = dop_arena_printf(arena, "`apart` %s", pair);
    if (!r.source)
        return DOP_NO_MEMORY(diag);
    DOP_RETURN_IF_ERROR(split_pair(&r, pair, arena, diag));
    return add_rule(p, &r, arena, diag);
}

/* --- YAML --------------------------------------------------------------------------------------------------------------- */

typedef struct reader {
    const char *path;
    yaml_document_t *doc;
    dop_arena *arena;
    dop_diag *diag;
    uint32_t n_layers;
    const char *spec;     /* name asked for; NULL: the file itself was asked for */
    const char *manifest; /* manifest that states the name; NULL: it is a value of --kernel-path */
    const char *field;    /* with `manifest`: the field that states the name */
    const char *family;   /* prefix of spec before the file's name, with its dash, or "" */
    const char *form;     /* suffix of spec after the file's name, with its dash, or "" */
    bool family_known;    /* the file's `families` lists the family */
    bool form_known;      /* the file's `forms` lists the form */
    bool tuning;          /* the file is for --tuning: only `rules`, `measured`, `name` and `about` are allowed */
    dop_kernel_path *out;
} reader;

#define FAIL_NODE(r, node, ...) DOP_FAIL_NODE((r)->diag, (r)->path, node, __VA_ARGS__)

static dop_status
read_yaml_text(reader *r, const char *key, const yaml_node_t *v, const char **out)
{
    if (v->type != YAML_SCALAR_NODE || !*v->data.scalar.value)
        return FAIL_NODE(r, v, "%s: expected a word", key);
    *out = dop_arena_strdup(r->arena, (const char *)v->data.scalar.value);
    return *out ? DOP_OK : DOP_NO_MEMORY(r->diag);
}

static dop_status
read_storage(reader *r, const char *key, const yaml_node_t *v, dop_type *out)
{
    const char *s = "";
    dop_status st = read_yaml_text(r, key, v, &s);
    if (st != DOP_OK)
        return st;
    if (strcmp(s, "f16") != 0 && strcmp(s, "f32") != 0)
        return FAIL_NODE(r, v, "%s: %.40s is not known; known: f16, f32", key, s);
    *out = s[1] == '1' ? DOP_TYPE_f16 : DOP_TYPE_f32;
    return DOP_OK;
}

static dop_status
read_switch(reader *r, const char *key, const yaml_node_t *v, bool *out_on)
{
    const char *s = "";
    dop_status st = read_yaml_text(r, key, v, &s);
    if (st != DOP_OK)
        return st;
    *out_on = strcmp(s, "on") == 0 || strcmp(s, "true") == 0;
    if (!*out_on && strcmp(s, "off") != 0 && strcmp(s, "false") != 0)
        return FAIL_NODE(r, v, "%s: %.40s is neither on nor off", key, s);
    return DOP_OK;
}

/* Reads a layer or a range of layers: "3" or "0-17". */
static dop_status
read_layer_range(reader *r, const yaml_node_t *v, dop_path_rule *rule)
{
    const char *s = "";
    char *end = NULL;
    dop_status st = read_yaml_text(r, "layers", v, &s);
    if (st != DOP_OK)
        return st;
    unsigned long a = strtoul(s, &end, 10), b = a;
    bool ok = end != s && *s >= '0' && *s <= '9';
    if (ok && *end == '-') {
        const char *from = end + 1;
        b = strtoul(from, &end, 10);
        ok = end != from && *from >= '0' && *from <= '9';
    }
    if (!ok || *end || a > b)
        return FAIL_NODE(r, v, "layers: %.40s is neither a number nor FIRST-LAST", s);
    if (b >= r->n_layers)
        return FAIL_NODE(r, v, "layers: %.40s, but the model has layers 0-%u", s, r->n_layers - 1);
    if (rule->n_layers == DOP_MAX_RANGES)
        return FAIL_NODE(r, v, "layers: at most %d ranges", DOP_MAX_RANGES);
    rule->layers[rule->n_layers++] = (dop_layer_range){(uint32_t)a, (uint32_t)b};
    return DOP_OK;
}

static dop_status
read_rule_layers(reader *r, const yaml_node_t *v, dop_path_rule *rule)
{
    if (v->type != YAML_SEQUENCE_NODE)
        return read_layer_range(r, v, rule);
    if (v->data.sequence.items.start == v->data.sequence.items.top)
        return FAIL_NODE(r, v, "layers: an empty list is about no layer; leave it out for all");
    for (yaml_node_item_t *i = v->data.sequence.items.start; i < v->data.sequence.items.top; i++)
        DOP_RETURN_IF_ERROR(read_layer_range(r, yaml_document_get_node(r->doc, *i), rule));
    return DOP_OK;
}

static dop_status
read_rule_number(reader *r, const char *key, const yaml_node_t *v, unsigned long least, uint32_t *out)
{
    const char *s = "";
    char *end = NULL;
    dop_status st = read_yaml_text(r, key, v, &s);
    const unsigned long x = strtoul(s, &end, 10);
    if (st == DOP_OK && (*s < '0' || *s > '9' || *end || x < least || x > 4096))
        st = FAIL_NODE(r, v, "%s: %.40s is no number from %lu to 4096", key, s, least);
    *out = (uint32_t)x;
    return st;
}

static dop_status
read_rule_field(reader *r, const char *key, const yaml_node_t *v, dop_path_rule *rule)
{
    const char *s = "";
    if (strcmp(key, "layers") == 0)
        return read_rule_layers(r, v, rule);
    if (strcmp(key, "op") == 0)
        return read_yaml_text(r, key, v, &rule->op);
    if (strcmp(key, "fuse") == 0) {
        dop_status st = read_switch(r, key, v, &rule->fused);
        rule->unfused = !rule->fused;
        return st;
    }
    if (strcmp(key, "variant") == 0) {
        dop_status st = read_yaml_text(r, key, v, &s);
        if (st == DOP_OK && !dop_variant_parse(s, &rule->variant))
            st = dop_unknown_variant(rule->source, s, DOP_E_INPUT, r->diag);
        return st;
    }
    if (strcmp(key, "phase") == 0) {
        dop_status st = read_yaml_text(r, key, v, &s);
        rule->decode = strcmp(s, "prefill") != 0;
        rule->prefill = strcmp(s, "decode") != 0;
        if (st == DOP_OK && rule->decode && rule->prefill && strcmp(s, "both") != 0)
            st = FAIL_NODE(r, v, "phase: %.40s is not known; known: decode, prefill, both", s);
        return st;
    }
    if (strcmp(key, "weights") == 0) {
        dop_status st = read_yaml_text(r, key, v, &s);
        rule->expands = true;
        rule->expand = strcmp(s, "dequant") == 0       ? DOP_TYPE_f16
                       : strcmp(s, "dequant_f32") == 0 ? DOP_TYPE_f32
                                                       : DOP_TYPE_none;
        if (st == DOP_OK && rule->expand == DOP_TYPE_none && strcmp(s, "fused") != 0)
            st = FAIL_NODE(r, v, "weights: %.40s is not known; known: dequant, dequant_f32, fused", s);
        return st;
    }
    if (strcmp(key, "template") == 0) {
        dop_status st = read_yaml_text(r, key, v, &s);
        while (st == DOP_OK && ++rule->tpl < DOP_TPL_COUNT && strcmp(dop_template_name(rule->tpl), s) != 0)
            ;
        return st == DOP_OK && rule->tpl == DOP_TPL_COUNT ? FAIL_NODE(r, v, "template: %.40s is not known", s) : st;
    }
    if (strcmp(key, "step") == 0)
        return read_rule_number(r, key, v, 1, &rule->step);
    for (int i = 0; i < DOP_TILE_FIELDS; i++)
        if (dop_tile_tuned(i) && strcmp(key, dop_tile_name(i)) == 0) {
            rule->fields |= 1u << i;
            return read_rule_number(r, key, v, i != DOP_TILE_NO_loops && i != DOP_TILE_NO_stage, &rule->tile[i]);
        }
    return FAIL_NODE(
        r, v,
        "%.60s is no field of a rule; known: phase, layers, op, template, step, variant, fuse, weights, and "
        "those of a tile, as wg and lanes",
        key);
}

static dop_status
read_rule(reader *r, const yaml_node_t *map)
{
    dop_path_rule rule = {.decode = true, .prefill = true, .hint = r->tuning};
    if (map->type != YAML_MAPPING_NODE)
        return FAIL_NODE(r, map, "a rule is a mapping: {phase: decode, op: qkv, variant: gemv}");
    rule.source = dop_arena_printf(r->arena, "%s:%lu", r->path, (unsigned long)map->start_mark.line + 1);
    if (!rule.source)
        return DOP_NO_MEMORY(r->diag);
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const yaml_node_t *k = yaml_document_get_node(r->doc, p->key), *v = yaml_document_get_node(r->doc, p->value);
        if (k->type != YAML_SCALAR_NODE)
            return FAIL_NODE(r, k, "expected the name of a field");
        dop_status st = read_rule_field(r, (const char *)k->data.scalar.value, v, &rule);
        if (st != DOP_OK)
            return st;
    }
    if (rule.variant == DOP_VARIANT_none && !rule.fused && !rule.unfused && !rule.expands && !rule.fields)
        return FAIL_NODE(r, map, "a rule says variant, fuse, weights or fields of a tile");
    if (rule.expands && rule.decode)
        return FAIL_NODE(r, map, "a rule that says weights says phase: prefill too: one token reads each weight once");
    if (rule.op && strchr(rule.op, '+')) {
        if ((!rule.unfused && !rule.fused) || rule.variant != DOP_VARIANT_none || rule.expands || rule.n_layers ||
            rule.fields || rule.tpl || rule.step)
            return FAIL_NODE(r, map, "a rule for a pair A+B says fuse and nothing else but a phase; layers as L0-3/A");
        dop_status st = split_pair(&rule, rule.op, r->arena, r->diag);
        if (st != DOP_OK)
            return st;
    }
    return add_rule(r->out, &rule, r->arena, r->diag);
}

/* Reads the field `families` or `forms`. With families [gemma3, llama], "gemma3-NAME" and "llama-NAME" are aliases of
 * NAME.yaml; with forms [online], "NAME-online" is one. Sets *out_known if the list contains the first `len` characters
 * of `part`. */
static dop_status
read_name_list(reader *r, const char *key, const yaml_node_t *v, const char *part, size_t len, bool *out_known)
{
    if (v->type != YAML_SEQUENCE_NODE)
        return FAIL_NODE(r, v, "%s: expected a list", key);
    for (yaml_node_item_t *i = v->data.sequence.items.start; i < v->data.sequence.items.top; i++) {
        const char *name = "";
        dop_status st = read_yaml_text(r, key, yaml_document_get_node(r->doc, *i), &name);
        if (st != DOP_OK)
            return st;
        *out_known = *out_known || (len == strlen(name) && strncmp(part, name, len) == 0);
    }
    return DOP_OK;
}

/* Reads the field `measured`: {device: ..., driver: ..., kernels: ...}. */
static dop_status
read_measured(reader *r, const yaml_node_t *v)
{
    dop_measured *m = &r->out->measured;
    struct {
        const char *name, **to;
    } fields[] = {{"device", &m->device}, {"driver", &m->driver}, {"kernels", &m->kernels}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const yaml_node_t *x = v->type == YAML_MAPPING_NODE ? dop_yaml_field(r->doc, v, fields[i].name) : NULL;
        const char *text = x ? dop_yaml_text(x) : NULL;
        if (!text)
            return FAIL_NODE(r, v, "measured: expected device, driver and kernels");
        if (!(*fields[i].to = dop_arena_strdup(r->arena, text)))
            return DOP_NO_MEMORY(r->diag);
    }
    return DOP_OK;
}

static dop_status
read_rules(reader *r, const yaml_node_t *v)
{
    if (v->type == YAML_SCALAR_NODE && !v->data.scalar.length)
        return DOP_OK; /* empty list */
    if (v->type != YAML_SEQUENCE_NODE)
        return FAIL_NODE(r, v, "rules: expected a list");
    for (yaml_node_item_t *i = v->data.sequence.items.start; i < v->data.sequence.items.top; i++)
        DOP_RETURN_IF_ERROR(read_rule(r, yaml_document_get_node(r->doc, *i)));
    return DOP_OK;
}

static dop_status
read_path_field(reader *r, const char *key, const yaml_node_t *v)
{
    const char *about = "";
    dop_status st = DOP_OK;
    if (strcmp(key, "name") == 0)
        return read_yaml_text(r, key, v, &r->out->name);
    if (strcmp(key, "about") == 0)
        return read_yaml_text(r, key, v, &about);
    if (strcmp(key, "measured") == 0)
        return read_measured(r, v);
    if (strcmp(key, "rules") == 0)
        return read_rules(r, v);
    if (r->tuning)
        return FAIL_NODE(r, v, "%.60s is no field of a tuning file; known: name, about, measured, rules", key);
    const size_t family = strlen(r->family), form = strlen(r->form);
    if (strcmp(key, "families") == 0)
        return read_name_list(r, key, v, r->family, family ? family - 1 : 0, &r->family_known);
    if (strcmp(key, "forms") == 0)
        return read_name_list(r, key, v, r->form + (form > 0), form ? form - 1 : 0, &r->form_known);
    if (strcmp(key, "activation") == 0)
        return read_storage(r, key, v, &r->out->act);
    if (strcmp(key, "kv") == 0)
        return read_storage(r, key, v, &r->out->kv);
    if (strcmp(key, "weights") == 0)
        return read_yaml_text(r, key, v, &r->out->weights);
    if (strcmp(key, "int_dot") == 0) {
        dop_int_dot ignored;
        st = read_yaml_text(r, key, v, &r->out->int_dot);
        if (st == DOP_OK && !dop_int_dot_parse(r->out->int_dot, &ignored))
            st = FAIL_NODE(r, v, "int_dot: %.40s is not known; known: allow, prefer, off", r->out->int_dot);
        return st;
    }
    if (strcmp(key, "fuse") == 0) {
        bool on = true;
        st = read_switch(r, key, v, &on);
        r->out->unfused = !on;
        return st;
    }
    return FAIL_NODE(r, v,
                     "%.60s is no field of a kernel path; known: name, about, families, forms, activation, kv, "
                     "weights, fuse, int_dot, measured, rules",
                     key);
}

/* Sets the default name of the path: the name asked for, or the file's name without folder and extension. */
static dop_status
set_default_name(reader *r)
{
    if (!r->out->name && r->spec)
        r->out->name = dop_arena_strdup(r->arena, r->spec);
    const char *base = dop_path_name(r->path), *dot = strrchr(base, '.');
    if (!r->out->name)
        r->out->name = dop_arena_printf(r->arena, "%.*s", (int)(dot ? dot - base : (long)strlen(base)), base);
    return r->out->name ? DOP_OK : DOP_NO_MEMORY(r->diag);
}

static dop_status
load_yaml(reader *r)
{
    dop_yaml y;
    dop_status st = dop_yaml_open(r->path, YAML_MAPPING_NODE,
                                  r->tuning ? "a tuning file is a mapping of fields, as a kernel path is"
                                            : "a kernel path is a mapping of fields",
                                  r->diag, &y);
    if (st != DOP_OK)
        return st;
    r->doc = &y.doc;
    for (yaml_node_pair_t *p = y.root->data.mapping.pairs.start; st == DOP_OK && p < y.root->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *k = yaml_document_get_node(&y.doc, p->key);
        st = dop_yaml_text(k) ? read_path_field(r, dop_yaml_text(k), yaml_document_get_node(&y.doc, p->value))
                              : FAIL_NODE(r, k, "expected the name of a field");
    }
    for (uint32_t i = 0; r->out->measured.device && i < r->out->n_rules; i++)
        r->out->rules[i].hint = true;
    if (st == DOP_OK)
        st = set_default_name(r);
    dop_yaml_close(&y);
    return st;
}

/* --- manifests ---------------------------------------------------------------------------------------------------------- */

/* Kernels of the engine that RDRR manifests are made for, and their counterparts here. Other kernels have none. */
static const struct {
    const char *prefix;
    dop_variant_id decode, prefill;
} counterparts[] = {
    {"matmul_gemv_subgroup", DOP_VARIANT_gemv_subgroup, DOP_VARIANT_none},
    {"matmul_gemv", DOP_VARIANT_gemv, DOP_VARIANT_none},
    {"matmul_f16w_f32a", DOP_VARIANT_none, DOP_VARIANT_matmul_tiled},
    {"matmul_f16", DOP_VARIANT_none, DOP_VARIANT_matmul_tiled},
    {"matmul_f32", DOP_VARIANT_none, DOP_VARIANT_matmul_tiled},
    {"fused_matmul_q4_batched", DOP_VARIANT_none, DOP_VARIANT_matmul_tiled},
    {"fused_matmul_q4_widetile", DOP_VARIANT_none, DOP_VARIANT_matmul_tiled},
};

static const struct {
    const char *op, *label;
} labels[] = {
    {"q_proj", "qkv"},         {"k_proj", "qkv"},       {"v_proj", "qkv"},           {"qkv_proj", "qkv"},
    {"o_proj", "o"},           {"gate_proj", "ffn_up"}, {"up_proj", "ffn_up"},       {"gate_up_proj", "ffn_up"},
    {"down_proj", "ffn_down"}, {"lm_head", "head"},     {"lm_head_prefill", "head"},
};

static dop_status
add_manifest_step(dop_kernel_path *p, const dop_path_step *s, dop_arena *arena, dop_diag *diag)
{
    dop_path_rule rule = {.hint = true, .gpu = true};
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++)
        if (strcmp(labels[i].op, s->op) == 0)
            rule.op = labels[i].label;
    for (size_t i = 0; rule.op && i < sizeof counterparts / sizeof *counterparts; i++) {
        if (strncmp(s->kernel, counterparts[i].prefix, strlen(counterparts[i].prefix)) != 0)
            continue;
        rule.decode = counterparts[i].decode != DOP_VARIANT_none && strcmp(s->phase, "prefill") != 0;
        rule.prefill = counterparts[i].prefill != DOP_VARIANT_none && strcmp(s->phase, "decode") != 0;
        rule.variant = rule.decode ? counterparts[i].decode : counterparts[i].prefill;
        break;
    }
    if (!rule.decode && !rule.prefill)
        return DOP_OK;
    if (s->layer >= 0) {
        rule.n_layers = 1;
        rule.layers[0] = (dop_layer_range){(uint32_t)s->layer, (uint32_t)s->layer};
    }
    for (uint32_t i = 0; i < p->n_rules; i++) { /* q_proj, k_proj and v_proj make equal rules */
        const dop_path_rule *x = &p->rules[i];
        if (x->op == rule.op && x->variant == rule.variant && x->decode == rule.decode && x->prefill == rule.prefill &&
            x->n_layers == rule.n_layers && (!x->n_layers || x->layers[0].first == rule.layers[0].first))
            return DOP_OK;
    }
    rule.source = "the manifest's kernel path";
    return add_rule(p, &rule, arena, diag);
}

/* --- names -------------------------------------------------------------------------------------------------------------- */

static bool
has_name_suffix(const char *s, const char *end)
{
    size_t a = strlen(s), b = strlen(end);
    return a > b && strcmp(s + a - b, end) == 0;
}

static int
compare_path_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Appends each word of a list with a format: "%s-," for families, ",-%s" for forms. */
static void
put_list_words(const dop_yaml *y, const yaml_node_t *list, const char *format, dop_buf *out)
{
    for (yaml_node_item_t *i = list->data.sequence.items.start; i < list->data.sequence.items.top; i++) {
        const char *word = dop_yaml_text(yaml_document_get_node((yaml_document_t *)(uintptr_t)&y->doc, *i));
        if (word)
            dop_buf_printf(out, format, word);
    }
}

/* Appends a name to the list of known paths: " {gemma3-,llama-,}NAME{,-online}" for a file with families and forms,
 * otherwise " NAME". */
static void
put_names(const char *file, const char *name, dop_buf *out)
{
    dop_yaml y;
    dop_diag ignored = {0};
    dop_buf families = {0}, forms = {0};
    bool open = dop_yaml_open(file, YAML_MAPPING_NODE, "", &ignored, &y) == DOP_OK;
    for (yaml_node_pair_t *p = open ? y.root->data.mapping.pairs.start : NULL;
         open && p < y.root->data.mapping.pairs.top; p++) {
        const char *key = dop_yaml_text(yaml_document_get_node(&y.doc, p->key));
        const yaml_node_t *v = yaml_document_get_node(&y.doc, p->value);
        if (!key || v->type != YAML_SEQUENCE_NODE)
            continue;
        if (strcmp(key, "families") == 0)
            put_list_words(&y, v, "%s-,", &families);
        if (strcmp(key, "forms") == 0)
            put_list_words(&y, v, ",-%s", &forms);
    }
    dop_buf_printf(out, families.data ? " {%s}%s" : " %s%s", families.data ? families.data : "", name);
    if (forms.data)
        dop_buf_printf(out, "{%s}", forms.data);
    dop_buf_finish(&families);
    dop_buf_finish(&forms);
    if (open)
        dop_yaml_close(&y);
}

static dop_status
fail_unknown_path(const reader *r, const char *dir)
{
    dop_buf list = {0};
    char *names[128];
    uint32_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && n < 128 && (e = readdir(d));)
        if (has_name_suffix(e->d_name, ".yaml")) {
            names[n] = dop_arena_printf(r->arena, "%.*s", (int)strlen(e->d_name) - 5, e->d_name);
            n += names[n] != NULL;
        }
    if (d)
        closedir(d);
    qsort(names, n, sizeof *names, compare_path_names);
    for (uint32_t i = 0; i < n; i++) {
        const char *file = dop_arena_printf(r->arena, "%s/%s.yaml", dir, names[i]);
        if (file)
            put_names(file, names[i], &list);
    }
    const char *known = list.data ? list.data : " none";
    dop_status st = r->manifest ? DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->manifest,
                                              "%s: unknown kernel path %.80s; known:%s", r->field, r->spec, known)
                                : DOP_FAIL(r->diag, DOP_E_USAGE,
                                           "unknown kernel path %.80s; known:%s, or a file ending in .yaml or .json",
                                           r->spec, known);
    dop_buf_finish(&list);
    return st;
}

/* Finds the file of a name in `dir`. The name is NAME, FAMILY-NAME, NAME-FORM or FAMILY-NAME-FORM. NAME.yaml must list
 * FAMILY in `families` and FORM in `forms`. */
static dop_status
find_path_file(reader *r, const char *dir)
{
    const char *dash = strchr(r->spec, '-');
    if (dop_path_slash(r->spec)) /* a name in a manifest must not be a file path */
        return fail_unknown_path(r, dir);
    for (const char *from = r->spec; from; from = from == r->spec && dash ? dash + 1 : NULL)
        for (size_t n = strlen(from); n > 0;) {
            const char *path = dop_arena_printf(r->arena, "%s/%.*s.yaml", dir, (int)n, from);
            if (!path)
                return DOP_NO_MEMORY(r->diag);
            if (access(path, R_OK) == 0) {
                r->path = path;
                r->family = dop_arena_printf(r->arena, "%.*s", (int)(from - r->spec), r->spec);
                r->form = from + n;
                return r->family ? DOP_OK : DOP_NO_MEMORY(r->diag);
            }
            do
                n--;
            while (n > 0 && from[n] != '-');
        }
    return fail_unknown_path(r, dir);
}

static dop_status
load_named_path(reader *r, const char *glsl_dir)
{
    /* Installed: next to the templates. Source tree: among the examples. */
    const char *dirs[2] = {dop_arena_printf(r->arena, "%s/../kernel-paths", glsl_dir),
                           dop_arena_printf(r->arena, "%s/../../examples/kernel-paths", glsl_dir)};
    if (!dirs[0] || !dirs[1])
        return DOP_NO_MEMORY(r->diag);
    const char *dir = access(dirs[0], R_OK) == 0 ? dirs[0] : dirs[1];
    dop_status st = find_path_file(r, dir);
    if (st == DOP_OK)
        st = load_yaml(r);
    return st == DOP_OK && ((*r->family && !r->family_known) || (*r->form && !r->form_known))
               ? fail_unknown_path(r, dir)
               : st;
}

/* --- paths of manifests ------------------------------------------------------------------------------------------------ */

/* Adds the rules of forceKernels after all others. */
static dop_status
add_path_forces(const dop_checkpoint *m, dop_kernel_path *p, dop_arena *arena, dop_diag *diag)
{
    for (uint32_t i = 0; i < m->n_path_forces; i++) {
        const dop_path_force *f = &m->path_forces[i];
        dop_path_rule rule = {.decode = true, .prefill = true, .op = f->op, .source = f->source};
        DOP_RETURN_IF_ERROR(dop_variant_parse(f->kernel, &rule.variant)
                                ? add_rule(p, &rule, arena, diag)
                                : dop_unknown_variant(f->source, f->kernel, DOP_E_INPUT, diag));
    }
    return DOP_OK;
}

dop_status
dop_kernel_path_of_model(const dop_checkpoint *m, const char *glsl_dir, dop_arena *arena, dop_diag *diag,
                         dop_kernel_path *out)
{
    static const dop_path_rule expand = {.prefill = true,
                                         .op = "matmul",
                                         .expands = true,
                                         .expand = DOP_TYPE_f16,
                                         .hint = true,
                                         .source = "preferFusedDequant"};
    dop_kernel_path *p = out;
    reader r = {.arena = arena,
                .diag = diag,
                .n_layers = m->arch.n_layers,
                .spec = m->path_name,
                .manifest = m->path_file,
                .field = m->path_field,
                .family = "",
                .form = "",
                .out = out};
    memset(p, 0, sizeof *p);
    p->n_layers = m->arch.n_layers;
    if (m->path_expands)
        DOP_RETURN_IF_ERROR(add_rule(p, &expand, arena, diag));
    if (m->path_field)
        DOP_RETURN_IF_ERROR(load_named_path(&r, glsl_dir));
    p->act = m->path_act != DOP_TYPE_none ? m->path_act : p->act;
    p->kv = m->path_kv != DOP_TYPE_none ? m->path_kv : p->kv;
    for (uint32_t i = 0; i < m->n_path; i++)
        DOP_RETURN_IF_ERROR(add_manifest_step(p, &m->path[i], arena, diag));
    DOP_RETURN_IF_ERROR(add_path_forces(m, p, arena, diag));
    if (m->path_name || p->n_rules || m->n_path || p->act != DOP_TYPE_none || p->kv != DOP_TYPE_none)
        p->name = m->path_name ? m->path_name : "manifest";
    return DOP_OK;
}

static dop_status
load_manifest(reader *r, const char *glsl_dir)
{
    dop_checkpoint m = {.arena = r->arena, .arch = {.n_layers = r->n_layers}};
    dop_rdrr rdrr = {.path = r->path, .arena = r->arena, .diag = r->diag, .model = &m};
    dop_status st = DOP_OK;
    DOP_TRY(dop_json_decode_file(&(dop_json_how){.path = r->path, .flags = DOP_JSON_UNIQUE}, r->diag, &rdrr.root));
    DOP_TRY(dop_json_root(rdrr.root, r->path, r->diag, &rdrr.top));
    DOP_TRY(dop_rdrr_path(&rdrr));
    DOP_TRY(dop_kernel_path_of_model(&m, glsl_dir, r->arena, r->diag, r->out));
    if (!r->out->name)
        DOP_TRY(DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "states no kernel path"));
error:
    json_decref(rdrr.root);
    return st;
}

dop_status
dop_kernel_path_load(const char *spec, const char *glsl_dir, uint32_t n_layers, dop_arena *arena, dop_diag *diag,
                     dop_kernel_path *out)
{
    reader r = {.path = spec, .arena = arena, .diag = diag, .n_layers = n_layers, .family = "", .form = "", .out = out};
    memset(out, 0, sizeof *out);
    out->n_layers = n_layers;
    if (has_name_suffix(spec, ".json"))
        return load_manifest(&r, glsl_dir);
    if (dop_path_slash(spec) || has_name_suffix(spec, ".yaml") || has_name_suffix(spec, ".yml"))
        return load_yaml(&r);
    r.spec = spec;
    return load_named_path(&r, glsl_dir);
}

dop_status
dop_kernel_path_tuning(const char *path, uint32_t n_layers, dop_arena *arena, dop_diag *diag, dop_kernel_path *out)
{
    reader r = {.path = path,
                .arena = arena,
                .diag = diag,
                .n_layers = n_layers,
                .family = "",
                .form = "",
                .tuning = true,
                .out = out};
    memset(out, 0, sizeof *out);
    out->n_layers = n_layers;
    return load_yaml(&r);
}

dop_status
dop_kernel_path_prepend(dop_kernel_path *p, const dop_kernel_path *first, dop_arena *arena, dop_diag *diag)
{
    dop_kernel_path both = *p;
    dop_status st = DOP_OK;
    both.n_rules = both.cap_rules = 0;
    for (uint32_t i = 0; i < first->n_rules + p->n_rules; i++)
        DOP_TRY(add_rule(&both, i < first->n_rules ? &first->rules[i] : &p->rules[i - first->n_rules], arena, diag));
error:
    *p = both;
    return st;
}

/* --- measurements ------------------------------------------------------------------------------------------------------- */

uint64_t
dop_templates_digest(const dop_templates *templates)
{
    uint64_t digest = 0; /* a sum, because files of a folder may be listed in any order */
    for (uint32_t i = 0; i < templates->n; i++) {
        const char *text = templates->files[i].text;
        digest += XXH3_64bits_withSeed(text, strlen(text),
                                       XXH3_64bits(templates->files[i].name, strlen(templates->files[i].name)));
    }
    return digest;
}

dop_status
dop_measured_here(const dop_device_caps *device, const dop_templates *templates, dop_arena *arena, dop_diag *diag,
                  dop_measured *out)
{
    out->device = dop_arena_strdup(arena, device->name);
    out->driver = dop_arena_strdup(arena, device->driver);
    out->kernels = dop_arena_printf(arena, "%016llx", (unsigned long long)dop_templates_digest(templates));
    return out->device && out->driver && out->kernels ? DOP_OK : DOP_NO_MEMORY(diag);
}

const char *
dop_kernel_path_stale(const dop_kernel_path *p, const dop_measured *here)
{
    if (!p->measured.device)
        return NULL;
    return strcmp(p->measured.device, here->device) != 0     ? "on another device"
           : strcmp(p->measured.driver, here->driver) != 0   ? "with another driver"
           : strcmp(p->measured.kernels, here->kernels) != 0 ? "with other kernels"
                                                             : NULL;
}
