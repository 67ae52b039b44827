/* Mixtures of experts in config.json; the family's row names the fields. */
#include "frontend/hf/experts.h"
#include "frontend/families/families_experts.h"
#include "frontend/hf/hf.h"
#include "frontend/hf/recurrent.h"

#include <string.h>

/* Reads a number under a key; key NULL: `otherwise`. */
static dop_status
read_expert_number(const dop_hf *hf, const char *key, uint32_t max, uint32_t otherwise, uint32_t *out)
{
    *out = otherwise;
    if (!key)
        return DOP_OK;
    /* HunYuan: a number, or a list with a number per layer, which must all be equal. */
    const json_t *list = dop_json_get(&hf->cfg, key);
    if (json_array_size(list) > 0) {
        for (size_t i = 0; i < json_array_size(list); i++)
            if (!json_is_integer(json_array_get(list, i)) ||
                json_integer_value(json_array_get(list, i)) != json_integer_value(json_array_get(list, 0)))
                return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                                   "%s%s differs between layers, which is not supported", hf->cfg.where, key);
        const json_int_t v = json_integer_value(json_array_get(list, 0));
        *out = v >= 0 && v <= max ? (uint32_t)v : max + 1; /* out of range: dop_arch_check() fails */
        return DOP_OK;
    }
    return otherwise == UINT32_MAX ? dop_json_u32(&hf->cfg, key, 1, max, out)
                                   : dop_json_u32_or(&hf->cfg, key, 0, max, otherwise, out);
}

static dop_status
read_expert_sizes(const dop_hf *hf, const dop_expert_keys *k, dop_experts *x)
{
    const char *n = k->n_too && dop_json_has(&hf->cfg, k->n_too) ? k->n_too : k->n;
    uint32_t shared = 0;
    DOP_RETURN_IF_ERROR(read_expert_number(hf, n, DOP_MAX_EXPERTS, k->n_otherwise, &x->n));
    DOP_RETURN_IF_ERROR(read_expert_number(hf, k->active, DOP_MAX_ACTIVE, k->active_otherwise, &x->active));
    DOP_RETURN_IF_ERROR(read_expert_number(hf, k->width, DOP_MAX_WIDTH, UINT32_MAX, &x->width));
    if (k->shared_width)
        DOP_RETURN_IF_ERROR(
            read_expert_number(hf, k->shared_width, DOP_MAX_WIDTH, k->shared_otherwise, &x->shared_width));
    if (k->shared_n) {
        DOP_RETURN_IF_ERROR(read_expert_number(hf, k->shared_n, DOP_MAX_EXPERTS, k->shared_otherwise, &shared));
        x->shared_width = shared * x->width; /* at most 2^32 - 2^20; dop_arch_check() rejects excessive sizes */
    }
    return DOP_OK;
}

static dop_status
read_hf_choice(const dop_hf *hf, const dop_expert_keys *k, dop_experts *x)
{
    double limit = 7;
    dop_status st = read_expert_number(hf, k->groups, DOP_MAX_EXPERTS, x->groups, &x->groups);
    if (st == DOP_OK)
        st = read_expert_number(hf, k->group_keep, DOP_MAX_EXPERTS, x->group_keep, &x->group_keep);
    if (st == DOP_OK && k->jitter)
        st = dop_json_f64_or(&hf->cfg, k->jitter, 0, 1, x->near / 2, &x->near);
    x->near *= k->jitter ? 2 : 1;
    if (st == DOP_OK && k->correction)
        st = dop_json_bool_or(&hf->cfg, k->correction, x->correction, &x->correction);
    const char *method = "", *score = "";
    if (st == DOP_OK)
        st = dop_json_str_or(&hf->cfg, "topk_method", "", &method);
    if (strcmp(method, "greedy") == 0) /* DeepSeek-V2: no groups, even if n_group is set */
        x->groups = 1;
    if (st == DOP_OK)
        st = dop_json_str_or(&hf->cfg, "scoring_func", "", &score);
    if (st == DOP_OK && strcmp(score, x->score == DOP_SCORE_SIGMOID ? "softmax" : "sigmoid") == 0)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%sscoring_func is %s, which %s models do not score by",
                           hf->cfg.where, score, hf->family->name);
    if (st == DOP_OK && k->normalized)
        st = dop_json_bool_or(&hf->cfg, k->normalized, x->normalized, &x->normalized);
    double order = 1;
    if (st == DOP_OK && k->norm_order)
        st = dop_json_f64_or(&hf->cfg, k->norm_order, 0, 1e6, order, &order);
    if (st == DOP_OK && order != 1)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s is %g; only 1 and null are supported", hf->cfg.where,
                           k->norm_order, order);
    if (k->norm_order && dop_json_is_null(&hf->cfg, k->norm_order))
        x->normalized = false;
    if (st == DOP_OK && k->scale)
        st = dop_json_f64_or(&hf->cfg, k->scale, 1e-6, 1e6, x->scale, &x->scale);
    if (st == DOP_OK && k->limit)
        st = dop_json_f64_or(&hf->cfg, k->limit, 0, 1e6, limit, &limit);
    if (st == DOP_OK && limit != 7)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s is %g; only 7 is supported", hf->cfg.where, k->limit,
                           limit);
    if (x->groups <= 1)
        x->group_best = x->group_keep = 1;
    return st;
}

/* Sets has[] to `mark` for the layers in a list of the file. */
static dop_status
mark_layers(const dop_hf *hf, const char *key, bool mark, bool *has)
{
    const uint32_t n = hf->model->arch.n_layers;
    const json_t *list = key ? dop_json_get(&hf->cfg, key) : NULL;
    if (!list)
        return DOP_OK;
    if (!json_is_array(list))
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s is %s, expected a list", hf->cfg.where, key,
                           dop_json_kind(list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= n)
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s[%zu] is not a layer below %u", hf->cfg.where, key,
                               i, n);
        has[json_integer_value(v)] = mark;
    }
    return DOP_OK;
}

/* Finds the layers with experts. */
static dop_status
find_layers(const dop_hf *hf, const dop_expert_keys *k, bool *has)
{
    const uint32_t n = hf->model->arch.n_layers;
    const json_t *end = k->last ? dop_json_get(&hf->cfg, k->last) : NULL;
    uint32_t first, step, last = n - 1, offset = 0;
    dop_status st = read_expert_number(hf, k->first, DOP_MAX_LAYERS, k->first_otherwise, &first);
    if (st == DOP_OK)
        st = read_expert_number(hf, k->step, DOP_MAX_LAYERS, 1, &step);
    if (st == DOP_OK && end && !(json_is_integer(end) && json_integer_value(end) < 0))
        st = read_expert_number(hf, k->last, DOP_MAX_LAYERS, last, &last);
    if (st == DOP_OK && k->offset) { /* layers `offset`, offset + step, ... have experts */
        st = read_expert_number(hf, k->offset, DOP_MAX_LAYERS, 1, &offset);
        offset++;
    }
    if (st != DOP_OK)
        return st;
    if (step == 0)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s is 0, expected 1 to %d", hf->cfg.where, k->step,
                           DOP_MAX_LAYERS);
    const json_t *types = dop_json_get(&hf->cfg, "mlp_layer_types");
    if (types && json_array_size(types) != n)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%smlp_layer_types is not a list of %u entries",
                           hf->cfg.where, n);
    const json_t *flags = dop_json_get(&hf->cfg, "moe_layer_freq"); /* elsewhere it is the number 1 */
    if (!types && json_is_array(flags) && json_array_size(flags) != n)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%smoe_layer_freq is not a list of %u entries",
                           hf->cfg.where, n);
    if (!types && json_is_array(flags)) {
        for (uint32_t i = 0; i < n; i++)
            has[i] = json_integer_value(json_array_get(flags, i)) == 1;
        return DOP_OK;
    }
    const bool listed = k->only && json_array_size(dop_json_get(&hf->cfg, k->only)) > 0;
    for (uint32_t i = 0; i < n; i++)
        has[i] = types ? json_is_string(json_array_get(types, i)) &&
                             strcmp(json_string_value(json_array_get(types, i)), "sparse") == 0
                       : !listed && i >= first && i <= last && (i + 1 + step - offset % step) % step == 0;
    return listed ? mark_layers(hf, k->only, true, has) : mark_layers(hf, k->dense, false, has);
}

dop_status
dop_hf_experts(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    const dop_expert_keys *k = hf->family->experts;
    dop_experts x = k->facts;
    bool some = true;
    if (k->enabled)
        DOP_RETURN_IF_ERROR(dop_json_bool_or(&hf->cfg, k->enabled, false, &some));
    if (!some || dop_hf_lacks_experts(hf))
        return DOP_OK;
    bool *has = dop_arena_alloc(hf->arena, a->n_layers * sizeof *has);
    if (!has)
        return DOP_NO_MEMORY(hf->diag);
    DOP_RETURN_IF_ERROR(read_expert_sizes(hf, k, &x));
    if (k->shared_alone && x.n == 0) {
        for (uint32_t i = 0; i < a->n_layers; i++)
            a->layers[i].ffn.width = x.shared_width;
        return DOP_OK;
    }
    DOP_RETURN_IF_ERROR(read_hf_choice(hf, k, &x));
    DOP_RETURN_IF_ERROR(find_layers(hf, k, has));
    for (uint32_t i = 0; i < a->n_layers; i++)
        if (has[i])
            dop_set_experts(k, a, &x, &a->layers[i]);
    return DOP_OK;
}
