#include "compiler/target/target.h"
#include "base/read/yaml_util.h"
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
    enum { U32, U64, F64, BOOL, SHAPE } kind;
} field;

static const field fields[] = {
    {"subgroup", offsetof(dop_target, subgroup), U32},
    {"max_workgroup", offsetof(dop_target, max_workgroup), U32},
    {"shared_bytes", offsetof(dop_target, shared_bytes), U32},
    {"push_bytes", offsetof(dop_target, push_bytes), U32},
    {"registers", offsetof(dop_target, registers), U32},
    {"cores", offsetof(dop_target, cores), U32},
    {"matrix", offsetof(dop_target, matrix), SHAPE},
    {"max_alloc", offsetof(dop_target, max_alloc), U64},
    {"bandwidth", offsetof(dop_target, bandwidth), F64},
    {"dispatch_us", offsetof(dop_target, dispatch_us), F64},
    {"barrier_us", offsetof(dop_target, barrier_us), F64},
    {"workgroup_us", offsetof(dop_target, workgroup_us), F64},
    {"split_whole", offsetof(dop_target, split_whole), U32},
    {"split_least", offsetof(dop_target, split_least), U32},
    {"stage_whole", offsetof(dop_target, stage_whole), U32},
    {"loop_trips", offsetof(dop_target, loop_trips), U32},
    {"merges", offsetof(dop_target, merges), BOOL},
    {"persistent", offsetof(dop_target, persistent), U32},
    {"cpu", offsetof(dop_target, cpu), BOOL},
};

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
set_field(dop_target *t, const char *path, const yaml_node_t *key, const yaml_node_t *value, yaml_document_t *doc,
          dop_diag *diag)
{
    const char *k = (const char *)key->data.scalar.value;
    long line = (long)key->start_mark.line + 1;
    if (strcmp(k, "caps") == 0 && value->type == YAML_SEQUENCE_NODE)
        return dop_target_read_caps(value, doc, path, diag, &t->caps);
    if (strcmp(k, "devices") == 0) {
        dop_target_devices ignored; /* not inherited, and read again where a target is looked for */
        return dop_target_read_devices(value, doc, path, diag, &ignored);
    }
    if (value->type != YAML_SCALAR_NODE)
        return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "%s: expected a value", k);
    const char *v = (const char *)value->data.scalar.value;
    char *end = NULL;
    double num = strtod(v, &end);
    if (strcmp(k, "name") == 0) {
        snprintf(t->name, sizeof t->name, "%s", v);
        return DOP_OK;
    }
    if (strcmp(k, "base") == 0) /* handled before */
        return DOP_OK;
    if (strcmp(k, "int_dot") == 0) {
        if (dop_int_dot_parse(v, &t->int_dot))
            return DOP_OK;
        return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "int_dot: %.40s is not known; known: allow, prefer, off",
                           v);
    }
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(fields[i].name, k) != 0)
            continue;
        char *at = (char *)t + fields[i].offset;
        if (fields[i].kind == SHAPE) {
            if (dop_target_parse_shape(v, (uint32_t *)(void *)at))
                return DOP_OK;
            return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0,
                               "%s: expected rows x columns x depth as in 16x16x16: %s", k, v);
        }
        if (fields[i].kind == BOOL) {
            *(bool *)(void *)at = strcmp(v, "true") == 0;
            if (*(bool *)(void *)at || strcmp(v, "false") == 0)
                return DOP_OK;
            return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "%s: %.40s is neither true nor false", k, v);
        }
        bool whole = fields[i].kind != F64;
        double most = fields[i].kind == U32 ? 4294967295.0 : whole ? 0x1p53 : 1e18;
        if (end == v || *end || !(num >= 0 && num <= most) || (whole && num != floor(num)))
            return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "%s: %.40s is not a %s from 0 to %.16g", k, v,
                               whole ? "whole number" : "number", most);
        if (fields[i].kind == U32)
            *(uint32_t *)(void *)at = (uint32_t)num;
        else if (fields[i].kind == U64)
            *(uint64_t *)(void *)at = (uint64_t)num;
        else
            *(double *)(void *)at = num;
        return DOP_OK;
    }
    return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, 0, "unknown field %s", k);
}

static dop_status
check_target(const dop_target *t, const char *path, dop_diag *diag)
{
    bool pow2 = t->subgroup && (t->subgroup & (t->subgroup - 1)) == 0;
    if (!pow2 || t->subgroup > 128)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "subgroup must be a power of two up to 128");
    if (t->max_workgroup < 64)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "max_workgroup must be at least 64");
    if (t->shared_bytes < 16384 || t->push_bytes < 128) /* limits of every Vulkan device */
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "shared_bytes must be at least 16384 and push_bytes 128");
    if ((t->caps & DOP_CAP_coop) && !dop_matrix_usable(t->matrix, t->subgroup))
        return DOP_FAIL_IN(
            diag, DOP_E_INPUT, path,
            "coop_nv and coop_khr need matrix: 16x16x16 or 8x16x16, and a subgroup of 2 to 4 times as many "
            "invocations as the first number");
    if (t->persistent && (t->persistent < 64 || t->persistent > t->max_workgroup))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "persistent must be 0, or from 64 up to max_workgroup");
    if (t->bandwidth < 1)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "bandwidth must be at least 1 byte a second");
    if (t->split_least == 0 || t->split_whole < t->split_least || t->stage_whole < t->split_least)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "split_least must be at least 1, and split_whole and stage_whole at least as much");
    if (t->cores == 0 || t->max_alloc < (1u << 14))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "cores must be at least 1 and max_alloc 16 KiB");
    return DOP_OK;
}

/* The files that say `base:` on the way to this one. */
typedef struct base_chain {
    const char *path; /* of a file, or the name of one that is built in */
    const struct base_chain *from;
    struct stat file; /* zeroes for one that is built in */
    int depth;
} base_chain;

enum { MAX_BASES = 16 };

/* "a.yaml -> b.yaml -> a.yaml" */
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

static dop_status resolve(const char *name, const base_chain *from, dop_diag *diag, dop_target *out);

static dop_status
from_yaml(const char *path, const char *text, const base_chain *from, dop_target *out, dop_diag *diag)
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
        st = resolve(dop_yaml_text(base), &chain, diag, out);
    else if (!text)
        st = resolve("tier1", &chain, diag, out);
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

/* The file that is for the device, with what the device itself offers. */
static dop_status
of_device(const dop_device_caps *caps, dop_target *out, dop_diag *diag)
{
    dop_device_caps has = *caps;
    const char *name;
    bool named;
    if (!has.matrix)
        has.caps &= ~(uint32_t)DOP_CAP_coop;
    dop_status st = dop_target_find_file(&has, diag, &name, &named);
    if (st == DOP_OK)
        st = dop_target_resolve(name, diag, out);
    if (st != DOP_OK)
        return st;
    snprintf(out->device, sizeof out->device, "%.95s", has.name);
    out->nearest = !named;
    out->caps = has.caps;
    out->matrix = has.matrix;
    out->merges = out->merges && has.device_scope;
    out->subgroup = has.caps & DOP_CAP_subgroup ? has.subgroup : 1;
    out->max_workgroup = has.max_workgroup;
    out->shared_bytes = has.shared_bytes;
    if (has.max_alloc < out->max_alloc)
        out->max_alloc = has.max_alloc;
    if (has.cores)
        out->cores = has.cores;
    /* A plan must not depend on how many cores the machine at hand has when they only run software. */
    if (has.cpu)
        out->cores = 2;
    return DOP_OK;
}

static dop_status
at_hand(dop_target *out, dop_diag *diag)
{
    dop_device_caps caps;
    dop_diag why = {0};
    if (dop_device_probe(NULL, &why, &caps) != DOP_OK)
        return DOP_FAIL(diag, why.code, "no device here to compile for: name one with --target, as lavapipe (%s)",
                        why.message);
    return of_device(&caps, out, diag);
}

static dop_status
unknown(const char *name, dop_diag *diag)
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
resolve(const char *name, const base_chain *from, dop_diag *diag, dop_target *out_target)
{
    size_t len = strlen(name);
    memset(out_target, 0, sizeof *out_target);
    if (strcmp(name, "auto") == 0)
        return at_hand(out_target, diag);
    for (const dop_target_file *f = dop_target_files; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return from_yaml(name, *f->text, from, out_target, diag);
    if (len > 5 && strcmp(name + len - 5, ".yaml") == 0)
        return from_yaml(name, NULL, from, out_target, diag);
    return unknown(name, diag);
}

dop_status
dop_target_resolve(const char *name, dop_diag *diag, dop_target *out_target)
{
    return resolve(name, NULL, diag, out_target);
}

dop_status
dop_targets_resolve(const char *list, dop_diag *diag, dop_target out_targets[DOP_MAX_TARGETS], uint32_t *out_n)
{
    *out_n = 0;
    for (const char *at = list, *end; *at || at == list; at = *end ? end + 1 : end) {
        char name[1024];
        end = strchr(at, ',');
        end = end ? end : at + strlen(at);
        if (end == at || (size_t)(end - at) >= sizeof name || (*end && !end[1]))
            return DOP_FAIL(diag, DOP_E_USAGE, "--target %s: expected names or files, separated by commas", list);
        if (*out_n == DOP_MAX_TARGETS)
            return DOP_FAIL(diag, DOP_E_USAGE, "--target %s: at most %d targets", list, DOP_MAX_TARGETS);
        snprintf(name, sizeof name, "%.*s", (int)(end - at), at);
        dop_status st = dop_target_resolve(name, diag, &out_targets[*out_n]);
        if (st != DOP_OK)
            return st;
        for (uint32_t i = 0; i < *out_n; i++)
            if (strcmp(out_targets[i].name, out_targets[*out_n].name) == 0)
                return DOP_FAIL(diag, DOP_E_USAGE, "--target %s: %s is there twice", list, out_targets[i].name);
        ++*out_n;
    }
    return DOP_OK;
}
