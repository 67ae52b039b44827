#include "compiler/target/target.h"
#include "base/yaml/yaml_util.h"
#include "compiler/target/target_files.h"
#include "runtime/device/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct field {
    const char *name;
    size_t offset;
    enum { CAPS, COUNT, BYTES, AMOUNT, FLAG, SHAPE, INT_DOT } kind;
    double least, most;
} field;

static const field fields[] = {
#define FIELD(kind, name, least, most, told) {#name, offsetof(dop_target, name), kind, least, most},
#include "ir/target.def"
#undef FIELD
};

static const char known_fields[] =
#define FIELD(kind, name, least, most, told) " " #name
#include "ir/target.def"
#undef FIELD
    ;

bool
dop_int_dot_parse(const char *word, dop_int_dot *out)
{
    static const char *const words[] = {"allow", "prefer", "off"};
    for (int i = 0; i < 3; i++)
        if (strcmp(word, words[i]) == 0) {
            *out = (dop_int_dot)i;
            return true;
        }
    return false;
}

static dop_status
read_target_number(const field *f, const yaml_node_t *node, const char *v, const char *path, dop_diag *diag, void *out)
{
    char *end = NULL;
    const double num = strtod(v, &end);
    const bool whole = f->kind != AMOUNT;
    if (end == v || *end || !(num >= f->least && num <= f->most) || (whole && num != floor(num)))
        return DOP_FAIL_NODE(diag, path, node, "%s: %.40s is not a %s from %.16g to %.16g", f->name, v,
                             whole ? "whole number" : "number", f->least, f->most);
    if (f->kind == COUNT)
        *(uint32_t *)out = (uint32_t)num;
    else if (f->kind == BYTES)
        *(uint64_t *)out = (uint64_t)num;
    else
        *(double *)out = num;
    return DOP_OK;
}

static dop_status
read_target_field(const field *f, const yaml_node_t *node, yaml_document_t *doc, const char *path, dop_diag *diag,
                  dop_target *t)
{
    void *at = (char *)t + f->offset;
    if (f->kind == CAPS)
        return dop_target_read_caps(node, doc, path, diag, at);
    const char *v = dop_yaml_text(node);
    if (!v)
        return DOP_FAIL_NODE(diag, path, node, "%s: expected a value", f->name);
    switch (f->kind) {
    case INT_DOT:
        return dop_int_dot_parse(v, at)
                   ? DOP_OK
                   : DOP_FAIL_NODE(diag, path, node, "%s: %.40s is not known; known: allow, prefer, off", f->name, v);
    case SHAPE:
        return dop_target_parse_shape(v, at)
                   ? DOP_OK
                   : DOP_FAIL_NODE(diag, path, node, "%s: expected rows x columns x depth as in 16x16x16: %.40s",
                                   f->name, v);
    case FLAG:
        *(bool *)at = strcmp(v, "true") == 0;
        if (*(bool *)at || strcmp(v, "false") == 0)
            return DOP_OK;
        return DOP_FAIL_NODE(diag, path, node, "%s: %.40s is neither true nor false", f->name, v);
    default:
        return read_target_number(f, node, v, path, diag, at);
    }
}

static dop_status
read_avoid(const yaml_node_t *list, yaml_document_t *doc, const char *path, dop_diag *diag, dop_target *t)
{
    t->avoid[0] = 0;
    if (list->type != YAML_SEQUENCE_NODE)
        return DOP_FAIL_NODE(diag, path, list, "avoid: expected a list of kernels");
    for (yaml_node_item_t *i = list->data.sequence.items.start; i < list->data.sequence.items.top; i++) {
        const yaml_node_t *n = yaml_document_get_node(doc, *i);
        const char *name = dop_yaml_text(n);
        if (!name || !dop_target_avoid(t, name))
            return DOP_FAIL_NODE(diag, path, n, "avoid: %.40s is no kernel", name ? name : "a list");
    }
    return DOP_OK;
}

static dop_status
set_field(dop_target *t, const char *path, const yaml_node_t *key, const yaml_node_t *value, yaml_document_t *doc,
          dop_diag *diag)
{
    const char *k = dop_yaml_text(key), *v = dop_yaml_text(value);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(fields[i].name, k) == 0)
            return read_target_field(&fields[i], value, doc, path, diag, t);
    if (strcmp(k, "devices") == 0) {
        dop_target_devices ignored; /* only checked; dop_target_find_file() uses it */
        return dop_target_read_devices(value, doc, path, diag, &ignored);
    }
    if (strcmp(k, "avoid") == 0)
        return read_avoid(value, doc, path, diag, t);
    if (strcmp(k, "schedule") == 0) /* load_yaml_target() has read the name of a target; a mapping is read here */
        return v ? DOP_OK : dop_target_read_schedule(value, doc, path, diag, &t->schedule);
    const bool name = strcmp(k, "name") == 0;
    if (!name && strcmp(k, "base") != 0) /* load_yaml_target() has read `base` */
        return DOP_FAIL_NODE(diag, path, key, "unknown field %.40s; known: name base devices schedule%s avoid", k,
                             known_fields);
    if (!v)
        return DOP_FAIL_NODE(diag, path, value, "%s: expected a value", k);
    if (name)
        snprintf(t->name, sizeof t->name, "%s", v);
    return DOP_OK;
}

bool
dop_target_avoid(dop_target *t, const char *kernel)
{
    const size_t used = strlen(t->avoid), n = strlen(kernel);
    if (dop_target_avoids(t, kernel))
        return true;
    if (n == 0 || strchr(kernel, ' ') || used + n + 2 > sizeof t->avoid)
        return false;
    snprintf(t->avoid + used, sizeof t->avoid - used, "%s%s", used ? " " : "", kernel);
    return true;
}

/* Checks fields against each other. read_target_field() has checked each field alone. */
static dop_status
check_target(const dop_target *t, const char *path, dop_diag *diag)
{
    if (t->subgroup & (t->subgroup - 1))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "subgroup must be a power of two up to 128");
    if ((t->caps & DOP_CAP_coop) && !dop_matrix_usable(t->matrix, t->subgroup))
        return DOP_FAIL_IN(
            diag, DOP_E_INPUT, path,
            "coop_nv and coop_khr need matrix: 16x16x16 or 8x16x16, and a subgroup of 2 or 4 times as many "
            "invocations as the first number; or 8x8x16 or 8x8x8, and a subgroup of 8");
    if (t->persistent && (t->persistent < 64 || t->persistent > t->max_workgroup))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "persistent must be 0, or from 64 up to max_workgroup");
    if (t->split_whole < t->split_least || t->stage_whole < t->split_least)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "split_whole and stage_whole must be at least split_least");
    return DOP_OK;
}

/* Chain of target files linked by `base:`, for detecting and printing cycles. */
typedef struct base_chain {
    const char *path; /* path of the file, or name of a built-in target */
    const struct base_chain *from;
    struct stat file; /* identity of the file; zeros for a built-in target */
    int depth;
} base_chain;

enum { MAX_BASES = 16 };

/* Appends the chain as "a.yaml -> b.yaml -> a.yaml". */
static void
put_chain(const base_chain *at, const base_chain *end, dop_buf *out)
{
    if (at != end)
        put_chain(at->from, end, out);
    dop_buf_printf(out, "%s%s", at != end ? " -> " : "", at->path);
}

static dop_status
check_chain(const base_chain *at, dop_diag *diag)
{
    dop_status st = DOP_OK;
    for (const base_chain *x = at->from; x && st == DOP_OK; x = x->from)
        if (x->file.st_dev == at->file.st_dev && x->file.st_ino == at->file.st_ino && at->file.st_ino) {
            dop_buf names = {0};
            put_chain(at, x, &names);
            st = DOP_FAIL_IN(diag, DOP_E_INPUT, at->path, "each target is the base of the next: %s",
                             names.data ? names.data : "");
            dop_buf_finish(&names);
        }
    if (st == DOP_OK && at->depth > MAX_BASES)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, at->path, "more than %d bases of bases", MAX_BASES);
    return st;
}

static dop_status resolve_target(const char *name, const base_chain *from, dop_diag *diag, dop_target *out);

static dop_status
load_yaml_target(const char *path, const char *text, const base_chain *from, dop_target *out, dop_diag *diag)
{
    static const char what[] = "a target file is a mapping of fields";
    dop_yaml y;
    base_chain chain = {.path = path, .from = from, .depth = from ? from->depth + 1 : 1};
    if ((text || stat(path, &chain.file) == 0) && check_chain(&chain, diag) != DOP_OK)
        return diag->code;
    dop_status st = text ? dop_yaml_parse(path, text, YAML_MAPPING_NODE, what, diag, &y)
                         : dop_yaml_open(path, YAML_MAPPING_NODE, what, diag, &y);
    if (st != DOP_OK)
        return st;
    const yaml_node_t *base = dop_yaml_field(&y.doc, y.root, "base");
    if (dop_yaml_text(base))
        st = resolve_target(dop_yaml_text(base), &chain, diag, out);
    else if (!text)
        st = resolve_target("tier1", &chain, diag, out);
    const yaml_node_t *numbers = dop_yaml_field(&y.doc, y.root, "schedule");
    const char *schedule = dop_yaml_text(
        numbers && numbers->type == YAML_MAPPING_NODE ? dop_yaml_field(&y.doc, numbers, "like") : numbers);
    if (schedule && st == DOP_OK) {
        dop_target other;
        st = resolve_target(schedule, &chain, diag, &other);
        out->schedule = other.schedule;
    }
    for (yaml_node_pair_t *p = y.root->data.mapping.pairs.start; p < y.root->data.mapping.pairs.top && st == DOP_OK;
         p++) {
        const yaml_node_t *k = yaml_document_get_node(&y.doc, p->key);
        if (dop_yaml_text(k))
            st = set_field(out, path, k, yaml_document_get_node(&y.doc, p->value), &y.doc, diag);
    }
    if (st == DOP_OK)
        st = check_target(out, path, diag);
    dop_yaml_close(&y);
    return st;
}

/* Makes a target for a device: the best matching built-in file, with the device's own capabilities and limits. */
static dop_status
make_device_target(const dop_device_caps *caps, dop_target *out, dop_diag *diag)
{
    dop_device_caps offers = *caps;
    const char *name;
    bool named;
    if (!offers.matrix)
        offers.caps &= ~(uint32_t)DOP_CAP_coop;
    dop_status st = dop_target_find_file(&offers, diag, &name, &named);
    if (st == DOP_OK)
        st = dop_target_resolve(name, diag, out);
    if (st != DOP_OK)
        return st;
    const dop_target base = *out, *like = &base;
    const dop_device_caps *has = &offers;
    snprintf(out->device, sizeof out->device, "%.95s", has->name);
    out->nearest = !named;
#define FIELD(kind, name, least, most, told) out->name = (told);
#include "ir/target.def"
#undef FIELD
    if (!dop_matrix_usable(out->matrix, out->subgroup)) {
        out->matrix = 0;
        out->caps &= ~(uint32_t)(DOP_CAP_coop | DOP_CAP_coop_f16_sums | DOP_CAP_coop_pairs);
    }
    return DOP_OK;
}

static dop_status
probe_local_target(const char *device, dop_target *out, dop_diag *diag)
{
    dop_device_caps caps;
    dop_diag why = {0};
    memset(out, 0, sizeof *out);
    if (dop_device_probe(device, &why, &caps) != DOP_OK)
        return DOP_FAIL(diag, why.code, "no device here to compile for: name one with `target`, as lavapipe (%s)",
                        why.message);
    return make_device_target(&caps, out, diag);
}

static dop_status
fail_unknown_target(const char *name, dop_diag *diag)
{
    dop_buf known = {0};
    for (const dop_target_file *f = dop_target_files; f->name; f++)
        dop_buf_printf(&known, " %s", f->name);
    const dop_status st = DOP_FAIL(diag, DOP_E_USAGE, "unknown target %s; known: auto%s, or a file ending in .yaml",
                                   name, known.data ? known.data : "");
    dop_buf_finish(&known);
    return st;
}

static dop_status
resolve_target(const char *name, const base_chain *from, dop_diag *diag, dop_target *out_target)
{
    size_t len = strlen(name);
    memset(out_target, 0, sizeof *out_target);
    if (strcmp(name, "auto") == 0)
        return probe_local_target(NULL, out_target, diag);
    for (const dop_target_file *f = dop_target_files; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return load_yaml_target(name, *f->text, from, out_target, diag);
    if (len > 5 && strcmp(name + len - 5, ".yaml") == 0)
        return load_yaml_target(name, NULL, from, out_target, diag);
    return fail_unknown_target(name, diag);
}

dop_status
dop_target_resolve(const char *name, dop_diag *diag, dop_target *out_target)
{
    return resolve_target(name, NULL, diag, out_target);
}

dop_status
dop_targets_resolve(const char *list, const char *device, dop_diag *diag, dop_target out_targets[DOP_MAX_TARGETS],
                    uint32_t *out_n)
{
    *out_n = 0;
    for (const char *at = list, *end; *at || at == list; at = *end ? end + 1 : end) {
        char name[1024];
        end = strchr(at, ',');
        end = end ? end : at + strlen(at);
        if (end == at || (size_t)(end - at) >= sizeof name || (*end && !end[1]))
            return DOP_FAIL(diag, DOP_E_USAGE, "`target` %s: expected names or files, separated by commas", list);
        if (*out_n == DOP_MAX_TARGETS)
            return DOP_FAIL(diag, DOP_E_USAGE, "`target` %s: at most %d targets", list, DOP_MAX_TARGETS);
        snprintf(name, sizeof name, "%.*s", (int)(end - at), at);
        dop_status st = strcmp(name, "auto") == 0 ? probe_local_target(device, &out_targets[*out_n], diag)
                                                  : dop_target_resolve(name, diag, &out_targets[*out_n]);
        if (st != DOP_OK)
            return st;
        for (uint32_t i = 0; i < *out_n; i++)
            if (strcmp(out_targets[i].name, out_targets[*out_n].name) == 0)
                return DOP_FAIL(diag, DOP_E_USAGE, "`target` %s: %s is there twice", list, out_targets[i].name);
        ++*out_n;
    }
    return DOP_OK;
}

/* Prints a field's value in the syntax of target files. */
static void
print_value(const field *f, const void *at, dop_buf *out)
{
    static const char *const words[] = {
        [DOP_INT_DOT_ALLOW] = "allow", [DOP_INT_DOT_PREFER] = "prefer", [DOP_INT_DOT_OFF] = "off"};
    const uint32_t v = f->kind == FLAG || f->kind == BYTES || f->kind == AMOUNT ? 0 : *(const uint32_t *)at;
    switch (f->kind) {
    case CAPS:
        dop_buf_puts(out, "[");
#define CAP(bit, name, what) \
    if (v & DOP_CAP_##name)  \
        dop_buf_printf(out, "%s%s", out->data[out->size - 1] == '[' ? "" : ", ", #name);
        DOP_CAPS(CAP)
#undef CAP
        dop_buf_puts(out, "]");
        break;
    case SHAPE:
        dop_buf_printf(out, v ? "%ux%ux%u" : "none", dop_matrix_m(v), dop_matrix_n(v), dop_matrix_k(v));
        break;
    case INT_DOT:
        dop_buf_puts(out, words[v]);
        break;
    case FLAG:
        dop_buf_puts(out, *(const bool *)at ? "true" : "false");
        break;
    case BYTES:
        dop_buf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case AMOUNT:
        dop_buf_printf(out, "%.9g", *(const double *)at);
        break;
    default:
        dop_buf_printf(out, "%u", v);
    }
}

void
dop_target_print(const dop_target *base, const dop_target *now, dop_buf *out)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        dop_buf is = {0}, was = {0};
        print_value(&fields[i], (const char *)now + fields[i].offset, &is);
        print_value(&fields[i], (const char *)base + fields[i].offset, &was);
        if (is.data && was.data && strcmp(is.data, was.data) != 0)
            dop_buf_printf(out, "%s: %s\n", fields[i].name, is.data);
        out->failed = out->failed || is.failed || was.failed;
        dop_buf_finish(&is);
        dop_buf_finish(&was);
    }
}
