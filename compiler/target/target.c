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

const dop_target *
dop_target_builtin(uint32_t i)
{
    return i < sizeof builtin / sizeof *builtin ? &builtin[i] : NULL;
}

static dop_status
from_device(dop_target *out, dop_diag *diag)
{
    dop_device_caps caps;
    dop_diag why = {0};
    if (dop_device_probe(NULL, &why, &caps) != DOP_OK)
        return DOP_FAIL(diag, why.code, "no device here to compile for: name one with --target, as lavapipe (%s)",
                        why.message);
    const char *like = caps.cpu ? "lavapipe" : strstr(caps.name, "NVIDIA") ? "nvidia-hopper" : "tier1";
    if (!caps.matrix)
        caps.caps &= ~(uint32_t)DOP_CAP_coop;
    dop_status st = dop_target_resolve(like, diag, out);
    if (st != DOP_OK)
        return st;
    snprintf(out->device, sizeof out->device, "%.95s", caps.name);
    out->caps = caps.caps;
    out->matrix = caps.matrix;
    out->merges = out->merges && caps.device_scope;
    out->subgroup = caps.caps & DOP_CAP_subgroup ? caps.subgroup : 1;
    out->max_workgroup = caps.max_workgroup;
    out->shared_bytes = caps.shared_bytes;
    if (caps.max_alloc < out->max_alloc)
        out->max_alloc = caps.max_alloc;
    if (caps.cores)
        out->cores = caps.cores;
    /* A plan must not depend on how many cores the machine at hand has when they only run software. */
    if (caps.cpu)
        out->cores = 2;
    return DOP_OK;
}

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
set_field(dop_target *t, const char *path, const yaml_node_t *key, const yaml_node_t *value, yaml_document_t *doc,
          dop_diag *diag)
{
    const char *k = (const char *)key->data.scalar.value;
    long line = (long)key->start_mark.line + 1;
    if (strcmp(k, "caps") == 0 && value->type == YAML_SEQUENCE_NODE) {
        t->caps = 0;
        for (yaml_node_item_t *i = value->data.sequence.items.start; i < value->data.sequence.items.top; i++) {
            const yaml_node_t *n = yaml_document_get_node(doc, *i);
            if (n->type != YAML_SCALAR_NODE || !parse_cap((const char *)n->data.scalar.value, &t->caps))
                return DOP_FAIL_AT(
                    diag, DOP_E_INPUT, path, (long)n->start_mark.line + 1, 0,
                    "unknown capability; known: f16_storage f16_math i8_storage subgroup int_dot coop_nv "
                    "coop_khr int64 coop_f16_sums");
        }
        return DOP_OK;
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
            if (parse_shape(v, (uint32_t *)(void *)at))
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
