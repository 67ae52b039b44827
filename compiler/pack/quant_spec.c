/* Parses --quant and chooses the storage type of each weight. */
#include "base/yaml/yaml_util.h"
#include "compiler/pack/quant.h"
#include "kernels/emit/weight_types.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Classes of weights for --quant, and their roles. Every role is also a class. */
static const struct {
    const char *name, *roles;
} classes[] = {
    {"attn", " q k v o q_a q_plain q_rotated q_whole_plain q_whole_rotated kv_a k_rotated k_up v_up attn_gate conv_b "
             "conv_c conv_x mix_z mix_in "
             "mix_dt mix_beta "
             "mix_out "},
    {"ffn", " gate up down expert_gate expert_up expert_down shared_gate shared_up shared_down input_gate input_up "},
    {"embed", " embed input_embed input_proj draft_embed "},
    {"head", " lm_head draft_head "},
    {"all", NULL},
};

/* Small matrices that make decisions (choice of experts, decay of states). They need few bytes, but rounding them
 * changes results considerably, so only their own class or a pattern quantizes them. Biases are treated in this way,
 * too (with experts, they are matrices). */
static const char deciding[] = " router shared_router mix_dt mix_beta ";

static bool
list_has_role(const char *list, const char *role)
{
    size_t n = strlen(role);
    for (const char *p = strstr(list, role); p; p = strstr(p + 1, role))
        if (p[-1] == ' ' && p[n] == ' ')
            return true;
    return false;
}

static bool
only_if_named(const char *role)
{
    size_t n = strlen(role);
    return list_has_role(deciding, role) || (n > 5 && strcmp(role + n - 5, "_bias") == 0);
}

/* Returns the names of the types that weights can be converted or quantized to, as " f32 f16 ...". */
static const char *
list_makeable_types(char *out, size_t size)
{
    size_t n = 0;
    out[0] = 0;
    for (int t = 0; t < DOP_TYPE_COUNT && n < size; t++)
        if (dop_quantizable((dop_type)t) || dop_type_of((dop_type)t)->kind == DOP_KIND_FLOAT)
            n += (size_t)snprintf(out + n, size - n, " %s", dop_type_of((dop_type)t)->name);
    return out;
}

/* Parses the name of a storage type. "keep" sets *out to none. */
static dop_status
parse_type(const char *what, const char *name, size_t len, dop_diag *diag, dop_type *out)
{
    char known[512];
    *out = DOP_TYPE_none;
    if (len == 4 && memcmp(name, "keep", 4) == 0)
        return DOP_OK;
    if (!dop_type_parse(name, len, out))
        return DOP_FAIL(diag, DOP_E_USAGE, "%s: unknown type %.*s; known are keep%s", what, (int)len, name,
                        list_makeable_types(known, sizeof known));
    if (!dop_quantizable(*out) && dop_type_of(*out)->kind != DOP_KIND_FLOAT)
        return DOP_FAIL(diag, DOP_E_USAGE, "%s: weights can be read as %s, but not made; known are keep%s", what,
                        dop_type_of(*out)->name, list_makeable_types(known, sizeof known));
    return DOP_OK;
}

/* Returns the role in the name of a weight: "gate" for "L3.gate". */
static const char *
find_weight_role(const char *name)
{
    const char *dot = strchr(name, '.');
    return dot ? dot + 1 : name;
}

static bool
in_class(const char *role, const char *class, size_t len)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strlen(classes[i].name) != len || memcmp(classes[i].name, class, len) != 0)
            continue;
        return classes[i].roles ? list_has_role(classes[i].roles, role) : !only_if_named(role);
    }
    return strlen(role) == len && memcmp(role, class, len) == 0;
}

/* True for a weight of the vision part, which keeps its stored type unless a pattern of a file matches it. */
static bool
is_vision(const char *name)
{
    return strncmp(name, "v.", 2) == 0;
}

/* True for the matrix of a linear layer. Vision matrices and convolution kernels (taps) are excluded. */
static bool
is_plain_matrix(const dop_weight *w)
{
    return w->rank > 1 && !is_vision(w->name) && !w->taps;
}

/* Returns the storage type of a weight that is kept. Values changed by an adapter become f32 if they were floats, and
 * are quantized again if they were quantized. Types without quantizer become f16. */
static dop_type
choose_kept_type(const dop_weight *w)
{
    if (w->n_changes == 0)
        return w->type;
    if (dop_type_of(w->type)->kind == DOP_KIND_FLOAT)
        return DOP_TYPE_f32;
    return dop_quantizable(w->type) && w->type != DOP_TYPE_nvfp4 ? w->type : DOP_TYPE_f16;
}

static void
set_type(const dop_weights *w, uint32_t i, dop_type to, dop_type *types)
{
    types[i] = to != DOP_TYPE_none ? to : choose_kept_type(&w->items[i]);
}

static dop_status
choose_by_class(const char *spec, const dop_weights *w, dop_diag *diag, dop_type *types)
{
    for (const char *p = spec; *p;) {
        size_t len = strcspn(p, ","), class = strcspn(p, "=,");
        dop_type to;
        if (class == len || class == 0)
            return DOP_FAIL(diag, DOP_E_USAGE, "`quant` %s: expected CLASS=TYPE instead of \"%.*s\"", spec, (int)len,
                            p);
        dop_status st = parse_type("`quant`", p + class + 1, len - class - 1, diag, &to);
        if (st != DOP_OK)
            return st;
        bool found = false;
        for (uint32_t i = 0; i < w->n; i++)
            if (is_plain_matrix(&w->items[i]) && in_class(find_weight_role(w->items[i].name), p, class)) {
                set_type(w, i, to, types);
                found = true;
            }
        if (!found)
            return DOP_FAIL(
                diag, DOP_E_USAGE,
                "`quant` %s: the model has no matrix of class %.*s; classes are attn, ffn, embed, head%s, all, "
                "or one role such as q, down",
                spec, (int)class, p, dop_weights_find(w, "lm_head") ? "" : " (here embed is also the output)");
        p += len + (p[len] == ',');
    }
    return DOP_OK;
}

/* Applies one line of a file to the weights that match its pattern, unless an earlier pattern matched them. */
static dop_status
apply_pattern(const char *path, const yaml_node_t *key, const yaml_node_t *value, const dop_weights *w, bool *taken,
              dop_diag *diag, dop_type *types)
{
    long line = (long)key->start_mark.line + 1, column = (long)key->start_mark.column + 1;
    if (key->type != YAML_SCALAR_NODE || !value || value->type != YAML_SCALAR_NODE)
        return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, column, "expected PATTERN: TYPE");
    const char *pattern = (const char *)key->data.scalar.value, *type = (const char *)value->data.scalar.value;
    dop_type to;
    dop_diag inner = {0};
    if (parse_type(pattern, type, strlen(type), &inner, &to) != DOP_OK)
        return DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, column, "%s", inner.message);
    bool fits = false;
    for (uint32_t i = 0; i < w->n; i++) {
        const dop_weight *x = &w->items[i];
        if (x->rank < 2 || (fnmatch(pattern, x->name, 0) != 0 && fnmatch(pattern, x->source, 0) != 0))
            continue;
        fits = true;
        if (!taken[i])
            set_type(w, i, to, types);
        taken[i] = true;
    }
    return fits ? DOP_OK
                : DOP_FAIL_AT(diag, DOP_E_INPUT, path, line, column, "the pattern %s fits no matrix of the model",
                              pattern);
}

static dop_status
choose_by_file(const char *path, const dop_weights *w, dop_diag *diag, dop_type *types)
{
    dop_yaml y;
    bool *taken = calloc((size_t)w->n + 1, sizeof *taken);
    if (!taken)
        return DOP_NO_MEMORY(diag);
    dop_status st =
        dop_yaml_open(path, YAML_MAPPING_NODE, "expected a mapping of tensor name patterns to types", diag, &y);
    if (st != DOP_OK) {
        free(taken);
        return st;
    }
    for (yaml_node_pair_t *p = y.root->data.mapping.pairs.start; p < y.root->data.mapping.pairs.top && st == DOP_OK;
         p++)
        st = apply_pattern(path, yaml_document_get_node(&y.doc, p->key), yaml_document_get_node(&y.doc, p->value), w,
                           taken, diag, types);
    dop_yaml_close(&y);
    free(taken);
    return st;
}

dop_type
dop_quant_fallback(dop_type t, uint32_t rows, uint32_t cols)
{
    static const dop_type pairs[][2] = {
        {DOP_TYPE_q4_k, DOP_TYPE_int4_g32}, {DOP_TYPE_q5_k, DOP_TYPE_q5_1}, {DOP_TYPE_q6_k, DOP_TYPE_q8_0}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][0] == t && dop_packed_bytes(pairs[i][1], rows, cols) < dop_packed_bytes(t, rows, cols))
            return pairs[i][1];
    return t;
}

static dop_status
choose_as_asked(const char *spec, const dop_weights *w, dop_diag *diag, dop_type *types)
{
    size_t len = spec ? strlen(spec) : 0;
    dop_type to;
    for (uint32_t i = 0; i < w->n; i++)
        types[i] = choose_kept_type(&w->items[i]);
    if (!spec)
        return DOP_OK;
    if ((len > 5 && strcmp(spec + len - 5, ".yaml") == 0) || (len > 4 && strcmp(spec + len - 4, ".yml") == 0))
        return choose_by_file(spec, w, diag, types);
    if (strchr(spec, '='))
        return choose_by_class(spec, w, diag, types);
    DOP_RETURN_IF_ERROR(parse_type("`quant`", spec, len, diag, &to));
    for (uint32_t i = 0; i < w->n; i++)
        if (is_plain_matrix(&w->items[i]) && !only_if_named(find_weight_role(w->items[i].name)))
            set_type(w, i, to, types);
        else if (w->items[i].taps && w->items[i].n_changes)
            /* a convolution changed by adapters: f16 instead of f32, so that it does not grow */
            set_type(w, i, to == DOP_TYPE_none || dop_type_of(to)->kind == DOP_KIND_FLOAT ? to : DOP_TYPE_f16, types);
    return DOP_OK;
}

dop_status
dop_quant_choose(const char *spec, const dop_weights *w, dop_diag *diag, dop_type *types, dop_type *asked)
{
    DOP_RETURN_IF_ERROR(choose_as_asked(spec, w, diag, types));
    for (uint32_t i = 0; i < w->n; i++) {
        const dop_weight *x = &w->items[i];
        asked[i] = types[i];
        if (x->type != types[i] || x->n_changes)
            types[i] = dop_quant_fallback(types[i], x->rows, x->cols);
    }
    return DOP_OK;
}
