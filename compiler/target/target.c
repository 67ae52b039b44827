#include "compiler/target/target.h"
#include "base/read/yaml_util.h"

#include "runtime/device/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    CAPS_TIER2 = DOP_CAP_f16_storage | DOP_CAP_f16_math | DOP_CAP_i8_storage,
    CAPS_TIER1 = CAPS_TIER2 | DOP_CAP_subgroup
};

/* Splits of a cache are the same everywhere so far: on an H200 a merge costs as much as two hundred cache rows. */
#define SPLITS .split_whole = 192, .split_least = 64, .stage_whole = 128
/* What things cost on a middling desktop GPU, in microseconds. */
#define DESKTOP_COSTS .dispatch_us = 1, .barrier_us = 5, .workgroup_us = 0.01

/* Tiers: 1 has f16, subgroups and (as every device with Vulkan 1.3) packed dot products, which kernels use only when
 * asked to; 2 f16 only, 3 neither.  On an H200 8-bit activations decode 4-bit models a fifth faster (tests/bench), and
 * they cost less than the weights did: they are the default there. */
static const dop_target builtin[] = {
    {.name = "tier1",
     .caps = CAPS_TIER1 | DOP_CAP_int_dot,
     .subgroup = 32,
     .max_workgroup = 256,
     .shared_bytes = 32768,
     .push_bytes = 128,
     .registers = 128,
     .cores = 32,
     .max_alloc = 1ull << 31,
     .bandwidth = 400e9,
     .merges = true,
     DESKTOP_COSTS,
     SPLITS},
    {.name = "tier2",
     .caps = CAPS_TIER2,
     .subgroup = 1,
     .max_workgroup = 256,
     .shared_bytes = 32768,
     .push_bytes = 128,
     .registers = 128,
     .cores = 32,
     .max_alloc = 1ull << 31,
     .bandwidth = 400e9,
     .merges = true,
     DESKTOP_COSTS,
     SPLITS},
    {.name = "tier3",
     .subgroup = 1,
     .max_workgroup = 128,
     .shared_bytes = 16384,
     .push_bytes = 128,
     .registers = 64,
     .cores = 16,
     .max_alloc = 1ull << 30,
     .bandwidth = 50e9,
     .dispatch_us = 2,
     .barrier_us = 10,
     .workgroup_us = 0.01,
     .merges = true,
     SPLITS},
    {.name = "lavapipe",
     .caps = CAPS_TIER1 | DOP_CAP_int_dot | DOP_CAP_int64 | DOP_CAP_texels,
     .subgroup = 8,
     .max_workgroup = 1024,
     .shared_bytes = 32768,
     .push_bytes = 128,
     .registers = 64,
     .cores = 2,
     .max_alloc = 1ull << 31,
     .bandwidth = 5e9,
     .dispatch_us = 20,
     .barrier_us = 5,
     .workgroup_us = 1,
     .merges = true,
     .cpu = true,
     .loop_trips = 65535, /* LP_MAX_TGSI_LOOP_ITERATIONS of Mesa's gallivm */
     SPLITS},
    {.name = "nvidia-hopper",
     .caps = CAPS_TIER1 | DOP_CAP_int_dot | DOP_CAP_coop | DOP_CAP_coop_f16_sums | DOP_CAP_int64 | DOP_CAP_coop_pairs,
     .subgroup = 32,
     .max_workgroup = 1024,
     .shared_bytes = 49152,
     .push_bytes = 128,
     .registers = 168,
     .cores = 132,
     .matrix = DOP_MATRIX_SHAPE(16, 16, 16),
     .max_alloc = 1ull << 32,
     .bandwidth = 4.6e12,
     .dispatch_us = 0.15,
     .barrier_us = 1.3,
     .workgroup_us = 0.001,
     .merges = true,
     .persistent = 512,
     .int_dot = DOP_INT_DOT_PREFER,
     SPLITS},
    /* Prepared from public descriptions and never run there (examples/targets/ has the sources). */
    {.name = "amd-rdna3",
     .caps = CAPS_TIER1 | DOP_CAP_int_dot | DOP_CAP_coop_khr | DOP_CAP_int64,
     .subgroup = 32,
     .max_workgroup = 1024,
     .shared_bytes = 65536,
     .push_bytes = 128,
     .registers = 128,
     .cores = 96,
     .matrix = DOP_MATRIX_SHAPE(16, 16, 16),
     .max_alloc = 1ull << 31,
     .bandwidth = 960e9,
     .merges = true,
     DESKTOP_COSTS,
     SPLITS},
    {.name = "intel-xe2",
     .caps = CAPS_TIER1 | DOP_CAP_int_dot | DOP_CAP_coop_khr,
     .subgroup = 16,
     .max_workgroup = 1024,
     .shared_bytes = 32768,
     .push_bytes = 128,
     .registers = 128,
     .cores = 20,
     .matrix = DOP_MATRIX_SHAPE(8, 16, 16),
     .max_alloc = 1ull << 31,
     .bandwidth = 456e9,
     .merges = true,
     DESKTOP_COSTS,
     SPLITS},
};

static dop_status
from_device(dop_target *out, dop_diag *diag)
{
    dop_device_caps caps;
    dop_diag why = {0};
    if (dop_device_probe(NULL, &why, &caps) != DOP_OK)
        return DOP_FAIL(diag, why.code, "no device here to compile for: name one with --target, as lavapipe (%s)",
                        why.message);
    const char *name = caps.cpu ? "lavapipe" : strstr(caps.name, "NVIDIA") ? "nvidia-hopper" : "tier1";
    if (!caps.matrix)
        caps.caps &= ~(uint32_t)DOP_CAP_coop;
    dop_status st = dop_target_resolve(name, diag, out);
    if (st != DOP_OK)
        return st;
    const dop_target base = *out, *like = &base;
    const dop_device_caps *has = &caps;
    snprintf(out->device, sizeof out->device, "%.95s", caps.name);
#define FIELD(kind, name, least, most, told) out->name = (told);
#include "ir/target.def"
#undef FIELD
    return DOP_OK;
}

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

/* "16x16x16", or "none". */
static bool
parse_shape(const char *v, uint32_t *out)
{
    unsigned m, n, k;
    char rest;
    *out = 0;
    if (strcmp(v, "none") == 0)
        return true;
    if (sscanf(v, "%3ux%3ux%3u%c", &m, &n, &k, &rest) != 3 || m > 255 || n > 255 || k > 255)
        return false;
    *out = DOP_MATRIX_SHAPE(m, n, k);
    return true;
}

static dop_status
read_caps(const yaml_node_t *list, yaml_document_t *doc, const char *path, dop_diag *diag, uint32_t *out)
{
    *out = 0;
    if (list->type != YAML_SEQUENCE_NODE)
        return DOP_FAIL_NODE(diag, path, list, "caps: expected a list of capabilities");
    for (yaml_node_item_t *i = list->data.sequence.items.start; i < list->data.sequence.items.top; i++) {
        const yaml_node_t *n = yaml_document_get_node(doc, *i);
        const char *name = dop_yaml_text(n);
        if (!name || !parse_cap(name, out))
#define CAP(bit, id, what) " " #id
            return DOP_FAIL_NODE(diag, path, n, "unknown capability %.40s; known:" DOP_CAPS(CAP), name ? name : "");
#undef CAP
    }
    return DOP_OK;
}

static dop_status
read_number(const field *f, const yaml_node_t *node, const char *v, const char *path, dop_diag *diag, void *out)
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
read_field(const field *f, const yaml_node_t *node, yaml_document_t *doc, const char *path, dop_diag *diag,
           dop_target *t)
{
    void *at = (char *)t + f->offset;
    if (f->kind == CAPS)
        return read_caps(node, doc, path, diag, at);
    const char *v = dop_yaml_text(node);
    if (!v)
        return DOP_FAIL_NODE(diag, path, node, "%s: expected a value", f->name);
    switch (f->kind) {
    case INT_DOT:
        return dop_int_dot_parse(v, at)
                   ? DOP_OK
                   : DOP_FAIL_NODE(diag, path, node, "%s: %.40s is not known; known: allow, prefer, off", f->name, v);
    case SHAPE:
        return parse_shape(v, at)
                   ? DOP_OK
                   : DOP_FAIL_NODE(diag, path, node, "%s: expected rows x columns x depth as in 16x16x16: %.40s",
                                   f->name, v);
    case FLAG:
        *(bool *)at = strcmp(v, "true") == 0;
        if (*(bool *)at || strcmp(v, "false") == 0)
            return DOP_OK;
        return DOP_FAIL_NODE(diag, path, node, "%s: %.40s is neither true nor false", f->name, v);
    default:
        return read_number(f, node, v, path, diag, at);
    }
}

static dop_status
set_field(dop_target *t, const char *path, const yaml_node_t *key, const yaml_node_t *value, yaml_document_t *doc,
          dop_diag *diag)
{
    const char *k = dop_yaml_text(key), *v = dop_yaml_text(value);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(fields[i].name, k) == 0)
            return read_field(&fields[i], value, doc, path, diag, t);
    const bool name = strcmp(k, "name") == 0;
    if (!name && strcmp(k, "base") != 0) /* read before */
        return DOP_FAIL_NODE(diag, path, key, "unknown field %.40s; known: name base%s", k, known_fields);
    if (!v)
        return DOP_FAIL_NODE(diag, path, value, "%s: expected a value", k);
    if (name)
        snprintf(t->name, sizeof t->name, "%s", v);
    return DOP_OK;
}

/* What several fields must have in common. */
static dop_status
check_target(const dop_target *t, const char *path, dop_diag *diag)
{
    if (t->subgroup & (t->subgroup - 1))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "subgroup must be a power of two up to 128");
    if ((t->caps & DOP_CAP_coop) && !dop_matrix_usable(t->matrix, t->subgroup))
        return DOP_FAIL_IN(
            diag, DOP_E_INPUT, path,
            "coop_nv and coop_khr need matrix: 16x16x16 or 8x16x16, and a subgroup of 2 to 4 times as many "
            "invocations as the first number");
    if (t->persistent && (t->persistent < 64 || t->persistent > t->max_workgroup))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "persistent must be 0, or from 64 up to max_workgroup");
    if (t->split_whole < t->split_least || t->stage_whole < t->split_least)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "split_whole and stage_whole must be at least split_least");
    return DOP_OK;
}

/* The files that say `base:` on the way to this one. */
typedef struct base_chain {
    const char *path;
    const struct base_chain *from;
    struct stat file;
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
        if (x->file.st_dev == at->file.st_dev && x->file.st_ino == at->file.st_ino) {
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
from_yaml(const char *path, const base_chain *from, dop_target *out, dop_diag *diag)
{
    dop_yaml y;
    base_chain chain = {.path = path, .from = from, .depth = from ? from->depth + 1 : 1};
    if (stat(path, &chain.file) == 0 && check_chain(&chain, diag) != DOP_OK)
        return diag->code;
    dop_status st = dop_yaml_open(path, YAML_MAPPING_NODE, "a target file is a mapping of fields", diag, &y);
    if (st != DOP_OK)
        return st;
    *out = builtin[0];
    for (int pass = 0; pass < 2 && st == DOP_OK; pass++)
        for (yaml_node_pair_t *p = y.root->data.mapping.pairs.start; p < y.root->data.mapping.pairs.top && st == DOP_OK;
             p++) {
            const yaml_node_t *k = yaml_document_get_node(&y.doc, p->key),
                              *v = yaml_document_get_node(&y.doc, p->value);
            const char *key = dop_yaml_text(k), *value = dop_yaml_text(v);
            bool base = key && strcmp(key, "base") == 0;
            if (pass == 0 && base && value)
                st = resolve(value, &chain, diag, out);
            else if (pass == 1 && key)
                st = set_field(out, path, k, v, &y.doc, diag);
        }
    if (st == DOP_OK)
        st = check_target(out, path, diag);
    dop_yaml_close(&y);
    return st;
}

static dop_status
resolve(const char *name, const base_chain *from, dop_diag *diag, dop_target *out_target)
{
    size_t len = strlen(name);
    memset(out_target, 0, sizeof *out_target);
    if (strcmp(name, "auto") == 0)
        return from_device(out_target, diag);
    for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++)
        if (strcmp(builtin[i].name, name) == 0) {
            *out_target = builtin[i];
            return DOP_OK;
        }
    if (len > 5 && strcmp(name + len - 5, ".yaml") == 0)
        return from_yaml(name, from, out_target, diag);
    return DOP_FAIL(diag, DOP_E_USAGE,
                    "unknown target %s; known: auto tier1 tier2 tier3 lavapipe nvidia-hopper amd-rdna3 intel-xe2, or a "
                    "file ending in .yaml",
                    name);
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
