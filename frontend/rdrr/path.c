/* The kernel path of a manifest: inference.execution (tuples of op, kernel, weights) or the older kernelPath objects,
 * as a list of dispatches.  Ops and types that are not known are errors: a path that is half understood is worse than
 * none. */
#include "frontend/rdrr/rdrr.h"

#include <stdio.h>
#include <string.h>

enum { MAX_STEPS = 100000 };

static const char *const ops[] = {
    "embed",      "gather",         "input_norm",      "q_proj",        "k_proj",    "v_proj",    "qkv_proj",
    "q_norm",     "k_norm",         "rope_q",          "rope_k",        "attention", "o_proj",    "attn_residual",
    "residual",   "post_attn_norm", "pre_ffn_norm",    "post_ffn_norm", "gate_proj", "up_proj",   "gate_up_proj",
    "ffn",        "ffn_fused",      "activation",      "gelu",          "silu",      "down_proj", "ffn_residual",
    "final_norm", "lm_head",        "lm_head_prefill", "sample",        "softmax",   "rmsnorm",   "cast",
};

static dop_status
read_dtype(const dop_json *j, const char *key, dop_type *out)
{
    const char *name = NULL;
    dop_status st = dop_json_str_or(j, key, NULL, &name);
    if (st != DOP_OK || !name)
        return st;
    if (strcmp(name, "f16") == 0 || strcmp(name, "f32") == 0) {
        *out = name[1] == '1' ? DOP_TYPE_f16 : DOP_TYPE_f32;
        return DOP_OK;
    }
    return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s%s \"%.40s\" is not supported; known: f16, f32", j->where, key,
                       name);
}

/* Appends a step.  The list doubles in the arena whenever it is full. */
static dop_status
add_step(dop_rdrr *r, const dop_path_step *step)
{
    dop_checkpoint *m = r->model;
    if (m->n_path >= MAX_STEPS)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "the kernel path has more than %d steps", MAX_STEPS);
    if ((m->n_path & (m->n_path - 1)) == 0) { /* 0 or a power of two: full */
        dop_path_step *list = dop_arena_alloc(r->arena, (m->n_path ? 2 * m->n_path : 1) * sizeof *list);
        if (!list)
            return DOP_NO_MEMORY(r->diag);
        if (m->n_path)
            memcpy(list, m->path, m->n_path * sizeof *list);
        m->path = list;
    }
    dop_path_step copy = *step;
    copy.op = dop_arena_strdup(r->arena, step->op);
    copy.kernel = dop_arena_strdup(r->arena, step->kernel);
    copy.entry = dop_arena_strdup(r->arena, step->entry);
    if (!copy.op || !copy.kernel || !copy.entry)
        return DOP_NO_MEMORY(r->diag);
    m->path[m->n_path++] = copy;
    return DOP_OK;
}

static dop_status
check_op(dop_rdrr *r, const char *where, const char *op)
{
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(ops[i], op) == 0)
            return DOP_OK;
    return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s: unknown op \"%.60s\"", where, op);
}

/* Where a step stands in the manifest: phase and layer, and where kernels are named. */
typedef struct place {
    const char *phase;
    int32_t layer;
    const dop_json *kernels; /* execution.kernels; NULL: steps are objects that name their kernel */
    char where[96];
} place;

/* Reads a step [op, key of the kernel, weights]. */
static dop_status
read_tuple(dop_rdrr *r, const place *p, const json_t *tuple)
{
    const char *op = json_string_value(json_array_get(tuple, 0)), *key = json_string_value(json_array_get(tuple, 1));
    dop_json kernel;
    dop_path_step step = {.phase = p->phase, .layer = p->layer, .op = op};
    if (json_array_size(tuple) < 2 || json_array_size(tuple) > 3 || !op || !key)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s: a step is not [op, kernel] or [op, kernel, weights]",
                           p->where);
    DOP_RETURN_IF_ERROR(check_op(r, p->where, op));
    DOP_RETURN_IF_ERROR(dop_json_sub(p->kernels, key, &kernel));
    if (!kernel.object)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s: kernel \"%.60s\" of op %s is not in execution.kernels",
                           p->where, key, op);
    DOP_RETURN_IF_ERROR(dop_json_str_or(&kernel, "kernel", "", &step.kernel));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&kernel, "entry", "main", &step.entry));
    return add_step(r, &step);
}

/* Reads a step of the older form, {op, kernel, entry}. */
static dop_status
read_object(dop_rdrr *r, const place *p, const json_t *object)
{
    dop_json j = {.object = object, .path = r->path, .diag = r->diag};
    dop_path_step step = {.phase = p->phase, .layer = p->layer};
    snprintf(j.where, sizeof j.where, "%.80s: ", p->where);
    DOP_RETURN_IF_ERROR(dop_json_str_or(&j, "op", NULL, &step.op));
    if (!step.op)
        DOP_RETURN_IF_ERROR(dop_json_missing(&j, "op"));
    DOP_RETURN_IF_ERROR(check_op(r, p->where, step.op));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&j, "kernel", NULL, &step.kernel));
    if (!step.kernel)
        DOP_RETURN_IF_ERROR(dop_json_missing(&j, "kernel"));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&j, "entry", "main", &step.entry));
    return add_step(r, &step);
}

static dop_status
read_steps(dop_rdrr *r, place *p, const json_t *list)
{
    if (list && !json_is_array(list))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s is %s, expected a list of steps", p->where,
                           dop_json_kind(list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *e = json_array_get(list, i);
        const json_t *layers = json_object_get(e, "layers"), *steps = json_object_get(e, "steps");
        dop_status st = DOP_OK;
        if (json_is_array(layers) && json_is_array(steps) && p->layer < 0) {
            for (size_t k = 0; st == DOP_OK && k < json_array_size(layers); k++) {
                const json_t *n = json_array_get(layers, k);
                if (!json_is_integer(n) || json_integer_value(n) < 0 ||
                    json_integer_value(n) >= (json_int_t)r->model->arch.n_layers)
                    return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s[%zu].layers[%zu] is not a layer of the model",
                                       p->where, i, k);
                place inner = *p;
                inner.layer = (int32_t)json_integer_value(n);
                st = read_steps(r, &inner, steps);
            }
        } else if (json_is_array(e) && p->kernels) {
            st = read_tuple(r, p, e);
        } else if (json_is_object(e) && !p->kernels) {
            st = read_object(r, p, e);
        } else {
            st = DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s[%zu] is not a step", p->where, i);
        }
        if (st != DOP_OK)
            return st;
    }
    return DOP_OK;
}

static const struct {
    const char *key, *phase;
} stages[] = {
    {"preLayer", "both"}, {"decode", "decode"}, {"prefill", "prefill"}, {"postLayer", "both"}, {"sampling", "both"}};

static dop_status
read_execution(dop_rdrr *r, const dop_json *inference)
{
    dop_json exec, kernels, precision, kernel;
    const char *key = NULL;
    json_t *v = NULL;
    dop_type ignored = DOP_TYPE_none;
    dop_status st = dop_json_sub(inference, "execution", &exec);
    if (st == DOP_OK)
        st = dop_json_sub(&exec, "kernels", &kernels);
    if (st != DOP_OK || !exec.object)
        return st;
    json_object_foreach((json_t *)(uintptr_t)kernels.object, key, v)
    {
        static const char *const fields[] = {"activationDtype", "kvDtype", "inputDtype", "outputDtype"};
        st = dop_json_sub(&kernels, key, &kernel);
        if (st == DOP_OK)
            st = dop_json_sub(&kernel, "precision", &precision);
        for (size_t i = 0; st == DOP_OK && i < 4; i++)
            st = read_dtype(&precision, fields[i], &ignored);
        if (st != DOP_OK)
            return st;
    }
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        place p = {.phase = stages[i].phase, .layer = -1, .kernels = &kernels};
        snprintf(p.where, sizeof p.where, "inference.execution.%s", stages[i].key);
        st = read_steps(r, &p, dop_json_get(&exec, stages[i].key));
        if (st != DOP_OK)
            return st;
    }
    return DOP_OK;
}

/* Reads the field `key` with a kernel path: a name, or an object of steps. */
static dop_status
read_kernel_path(dop_rdrr *r, const dop_json *j, const char *key)
{
    const json_t *v = dop_json_get(j, key);
    dop_json path;
    const char *id = json_string_value(v);
    if (!v)
        return DOP_OK;
    if (!id)
        DOP_RETURN_IF_ERROR(dop_json_sub(j, key, &path));
    if (!id)
        DOP_RETURN_IF_ERROR(dop_json_str_or(&path, "id", NULL, &id));
    if (id && !(r->model->path_name = dop_arena_strdup(r->arena, id)))
        DOP_RETURN_IF_ERROR(DOP_NO_MEMORY(r->diag));
    if (json_is_string(v))
        return DOP_OK;
    DOP_RETURN_IF_ERROR(read_dtype(&path, "activationDtype", &r->model->path_act));
    DOP_RETURN_IF_ERROR(read_dtype(&path, "kvDtype", &r->model->path_kv));
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        place p = {.phase = stages[i].phase, .layer = -1};
        const json_t *list = dop_json_get(&path, stages[i].key);
        snprintf(p.where, sizeof p.where, "%.60s.%s", key, stages[i].key);
        DOP_RETURN_IF_ERROR(read_steps(r, &p, json_is_object(list) ? json_object_get(list, "steps") : list));
    }
    {
        place p = {.phase = "both", .layer = -1};
        snprintf(p.where, sizeof p.where, "%.60s.layerOverrides", key);
        DOP_RETURN_IF_ERROR(read_steps(r, &p, dop_json_get(&path, "layerOverrides")));
    }
    return DOP_OK;
}

dop_status
dop_rdrr_path(dop_rdrr *r)
{
    dop_json inference, session, compute, defaults, cache, older;
    dop_type ignored = DOP_TYPE_none;
    DOP_RETURN_IF_ERROR(dop_json_sub(&r->top, "inference", &inference));
    DOP_RETURN_IF_ERROR(dop_json_sub(&inference, "session", &session));
    DOP_RETURN_IF_ERROR(dop_json_sub(&session, "compute", &compute));
    DOP_RETURN_IF_ERROR(dop_json_sub(&compute, "defaults", &defaults));
    DOP_RETURN_IF_ERROR(dop_json_sub(&session, "kvcache", &cache));
    DOP_RETURN_IF_ERROR(read_dtype(&defaults, "activationDtype", &r->model->path_act));
    DOP_RETURN_IF_ERROR(read_dtype(&defaults, "mathDtype", &ignored));
    DOP_RETURN_IF_ERROR(read_dtype(&defaults, "accumDtype", &ignored));
    DOP_RETURN_IF_ERROR(read_dtype(&defaults, "outputDtype", &ignored));
    DOP_RETURN_IF_ERROR(read_dtype(&cache, "kvDtype", &r->model->path_kv));
    DOP_RETURN_IF_ERROR(read_execution(r, &inference));
    /* Later fields take precedence over earlier ones. */
    DOP_RETURN_IF_ERROR(dop_json_sub(&r->top, "runtimeOptimizations", &older));
    DOP_RETURN_IF_ERROR(read_kernel_path(r, &older, "kernelPath"));
    DOP_RETURN_IF_ERROR(dop_json_sub(&r->top, "optimizations", &older));
    DOP_RETURN_IF_ERROR(read_kernel_path(r, &older, "kernelPath"));
    DOP_RETURN_IF_ERROR(read_kernel_path(r, &inference, "defaultKernelPath"));
    return read_kernel_path(r, &inference, "kernelPath");
}
