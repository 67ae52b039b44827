/* Kernel path of a manifest, as a list of dispatches: inference.execution (tuples of op, kernel, weights) or the older kernelPath
 * objects. Unknown ops, kernels and types are errors: a path that is half understood is worse than none. */
#include "frontend/rdrr/path.h"
#include "base/words.h"
#include "frontend/rdrr/manifest.h"
#include "frontend/rdrr/rdrr.h"

#include <stdio.h>
#include <string.h>

enum { MAX_STEPS = 100000 };

/* Ops and the kernels defined for them by the format, as .wgsl file names without extension. Only kernels of text models are
 * listed. Source: src/gpu/kernels of https://github.com/clocksmith/doppler. */
static const struct {
    const char *ops, *kernels;
} groups[] = {
    {"embed gather",
     "gather gather_f16 gather_f16_out gather_f16_f16_out gather_vec4 gather_vec4_f16_out gather_f16_vec4 "
     "gather_f16_vec4_f16_out gather_split4_f16_vec4_f16_out gather_split8_f16_vec4_f16_out "
     "gather_split8_f16_vec4_f32_out gather_litert_int4_vec4_f16_out gather_litert_int4_vec4_f32_out"},
    {"input_norm q_norm k_norm post_attn_norm pre_ffn_norm post_ffn_norm final_norm rmsnorm",
     "rmsnorm rmsnorm_f16 rmsnorm_pair rmsnorm_qk rmsnorm_qk_f16 residual_rmsnorm_pair"},
    {"q_proj k_proj v_proj qkv_proj o_proj gate_proj up_proj gate_up_proj down_proj lm_head lm_head_prefill",
     "matmul_f16 matmul_f16_tiled matmul_f16w_f32a matmul_f16w_f32a_tiled matmul_f32 matmul_gemv matmul_gemv_f16a "
     "matmul_gemv_residual matmul_gemv_residual_f16 matmul_gemv_subgroup matmul_gemv_subgroup_f16a fused_matmul_q4 "
     "fused_matmul_q4_batched fused_matmul_q4_batched_f16 fused_matmul_q4_batched_f16a "
     "fused_matmul_q4_batched_f16acc_f16a fused_matmul_q4_batched_multicol_shared fused_matmul_q4_f16a "
     "fused_matmul_q4_metal_simd16 fused_matmul_q4_multicol_f16 fused_matmul_q4_multicol_f16a "
     "fused_matmul_q4_multicol_f16a_f32acc fused_matmul_q4_prefill_tiled_f16 fused_matmul_q4_widetile "
     "fused_matmul_q4_widetile_f16 fused_matmul_q4_widetile_f16a fused_matmul_q4_widetile_residual "
     "fused_rmsnorm_q4_widetile fused_matmul_rmsnorm fused_matmul_rmsnorm_f16 fused_matmul_w4a16_batched_f16a "
     "fused_matmul_w4a16_batched_f16a_f32out fused_matmul_w4a16_f16a fused_matmul_w4a16_f16a_f32out "
     "lm_head_argmax_f16 lm_head_argmax_q4k"},
    {"ffn ffn_fused ffn_gate_up gate_up_proj",
     "fused_ffn fused_ffn_f16 fused_ffn_f16w_f32a_batched fused_ffn_q4k fused_ffn_q4k_f16 fused_ffn_q4k_metal_simd16 "
     "fused_gate_up_gelu_gated_f16"},
    {"ffn activation gelu silu", "gelu gelu_f16 silu silu_f16 relu relu_f16 fused_swiglu fused_swiglu_f16"},
    {"rope_q rope_k", "rope rope_f16 rope_qk rope_qk_f16"},
    {"attention",
     "attention attention_f16 attention_f16kv attention_decode attention_decode_chunked_f16 "
     "attention_decode_chunked_f16kv attention_decode_f16 attention_decode_f16kv attention_decode_online_f16 "
     "attention_decode_online_f16kv attention_decode_online_head256_f16kv "
     "attention_decode_online_head256_f16kv_output_gate attention_decode_paged_f16 attention_decode_paged_f16kv "
     "attention_decode_subgroup attention_decode_tiered_f16 attention_decode_tiered_f16kv attention_head128_f16kv "
     "attention_head256_f16kv attention_head512_f16 attention_head512_f16kv attention_prefill_flash_head256_f16kv "
     "attention_prefill_flash_reduce attention_small attention_small_f16 attention_small_f16kv attention_streaming "
     "attention_streaming_f16 attention_streaming_f16kv"},
    {"attn_residual ffn_residual residual", "residual residual_f16 residual_vec4 residual_f16_vec4"},
    {"sample softmax softcap", "sample sample_f16 softmax softmax_subgroup"},
    {"cast", "cast_f32_to_f16 cast_f16_to_f32 bf16_to_f16 bf16_to_f32"},
};

/* Fails unless the format defines `kernel` for `op` (NULL: for any op). Ignores folders in the kernel's name. */
static dop_status
check_path_kernel(dop_rdrr *r, const char *where, const char *op, const char *kernel)
{
    const char *slash = strrchr(kernel, '/'), *file = slash ? slash + 1 : kernel, *dot = strrchr(file, '.');
    char name[64] = "";
    bool op_known = !op;
    if (dot && strcmp(dot, ".wgsl") == 0 && dot - file < (ptrdiff_t)sizeof name)
        snprintf(name, sizeof name, "%.*s", (int)(dot - file), file);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const bool here = !op || dop_has_word(groups[i].ops, op);
        op_known = op_known || here;
        if (here && dop_has_word(groups[i].kernels, name))
            return DOP_OK;
    }
    if (!op_known)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s: unknown op \"%.60s\"", where, op);
    return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s: unknown kernel \"%.60s\"%s%s", where, kernel,
                       op ? " for op " : "", op ? op : "");
}

static dop_status
read_path_dtype(const dop_json *j, const char *key, dop_type *out)
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

/* Appends a step. The list in the arena doubles when full. */
static dop_status
append_path_step(dop_rdrr *r, const dop_path_step *step)
{
    dop_checkpoint *m = r->model;
    if (m->n_path >= MAX_STEPS)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "the kernel path has more than %d steps", MAX_STEPS);
    if ((m->n_path & (m->n_path - 1)) == 0) { /* a length of 0 or a power of two: the list is full */
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

/* Context of a step in the manifest: phase, layer, and the table of kernels. */
typedef struct place {
    const char *phase;
    int32_t layer;
    const dop_json *kernels; /* execution.kernels; NULL: steps are objects that name their kernel */
    char where[96];
} place;

/* Reads a step [op, kernel key, weights]. */
static dop_status
read_tuple(dop_rdrr *r, const place *p, const json_t *tuple)
{
    const char *op = json_string_value(json_array_get(tuple, 0)), *key = json_string_value(json_array_get(tuple, 1));
    dop_json kernel;
    dop_path_step step = {.phase = p->phase, .layer = p->layer, .op = op};
    if (json_array_size(tuple) < 2 || json_array_size(tuple) > 3 || !op || !key)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s: a step is not [op, kernel] or [op, kernel, weights]",
                           p->where);
    DOP_RETURN_IF_ERROR(dop_json_sub(p->kernels, key, &kernel));
    if (!kernel.object)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s: kernel \"%.60s\" of op %s is not in execution.kernels",
                           p->where, key, op);
    DOP_RETURN_IF_ERROR(dop_json_str_or(&kernel, "kernel", "", &step.kernel));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&kernel, "entry", "main", &step.entry));
    DOP_RETURN_IF_ERROR(check_path_kernel(r, p->where, op, step.kernel));
    return append_path_step(r, &step);
}

/* Reads a step of the older form {op, kernel, entry}. */
static dop_status
read_object(dop_rdrr *r, const place *p, const json_t *object)
{
    dop_json j = {.object = object, .path = r->path, .diag = r->diag};
    dop_path_step step = {.phase = p->phase, .layer = p->layer};
    snprintf(j.where, sizeof j.where, "%.80s: ", p->where);
    DOP_RETURN_IF_ERROR(dop_json_str_or(&j, "op", NULL, &step.op));
    if (!step.op)
        return dop_json_missing(&j, "op");
    DOP_RETURN_IF_ERROR(dop_json_str_or(&j, "kernel", NULL, &step.kernel));
    if (!step.kernel)
        return dop_json_missing(&j, "kernel");
    DOP_RETURN_IF_ERROR(check_path_kernel(r, p->where, step.op, step.kernel));
    DOP_RETURN_IF_ERROR(dop_rdrr_known(&j, "op kernel entry constants precision weights input output digest"));
    DOP_RETURN_IF_ERROR(dop_json_str_or(&j, "entry", "main", &step.entry));
    return append_path_step(r, &step);
}

static dop_status read_steps(dop_rdrr *r, place *p, const json_t *list);

/* Reads steps that replace those of one layer, for both phases (`steps`) or for one. */
static dop_status
read_override(dop_rdrr *r, const place *p, const json_t *entry)
{
    static const struct {
        const char *key, *phase;
    } parts[] = {{"steps", NULL}, {"decode", "decode"}, {"prefill", "prefill"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        place inner = *p;
        const json_t *v = json_object_get(entry, parts[i].key);
        inner.phase = parts[i].phase ? parts[i].phase : p->phase;
        DOP_RETURN_IF_ERROR(read_steps(r, &inner, json_is_object(v) ? json_object_get(v, "steps") : v));
    }
    return DOP_OK;
}

static dop_status
read_steps(dop_rdrr *r, place *p, const json_t *list)
{
    if (list && !json_is_array(list))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s is %s, expected a list of steps", p->where,
                           dop_json_kind(list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *e = json_array_get(list, i);
        const json_t *layers = json_object_get(e, "layers");
        if (json_is_array(layers) && p->layer < 0) {
            const dop_json j = {.object = e, .path = r->path, .diag = r->diag, .where = "layers: "};
            DOP_RETURN_IF_ERROR(dop_rdrr_known(&j, "layers steps decode prefill"));
            for (size_t k = 0; k < json_array_size(layers); k++) {
                const json_t *n = json_array_get(layers, k);
                if (!json_is_integer(n) || json_integer_value(n) < 0 ||
                    json_integer_value(n) >= (json_int_t)r->model->arch.n_layers)
                    return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s[%zu].layers[%zu] is not a layer of the model",
                                       p->where, i, k);
                place inner = *p;
                inner.layer = (int32_t)json_integer_value(n);
                DOP_RETURN_IF_ERROR(read_override(r, &inner, e));
            }
        } else if (json_is_array(e) && p->kernels) {
            DOP_RETURN_IF_ERROR(read_tuple(r, p, e));
        } else if (json_is_object(e) && !p->kernels) {
            DOP_RETURN_IF_ERROR(read_object(r, p, e));
        } else {
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s[%zu] is not a step", p->where, i);
        }
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
    DOP_RETURN_IF_ERROR(dop_json_sub(inference, "execution", &exec));
    DOP_RETURN_IF_ERROR(dop_json_sub(&exec, "kernels", &kernels));
    DOP_RETURN_IF_ERROR(
        dop_rdrr_known(&exec, "kernels preLayer decode prefill postLayer sampling policies inlineKernelPath"));
    if (!exec.object)
        return DOP_OK;
    json_object_foreach((json_t *)(uintptr_t)kernels.object, key, v)
    {
        static const char *const fields[] = {"activationDtype", "kvDtype", "inputDtype", "outputDtype"};
        const char *name = NULL;
        char where[160];
        snprintf(where, sizeof where, "%s%.60s", kernels.where, key);
        DOP_RETURN_IF_ERROR(dop_json_sub(&kernels, key, &kernel));
        DOP_RETURN_IF_ERROR(dop_json_str_or(&kernel, "kernel", "", &name));
        DOP_RETURN_IF_ERROR(check_path_kernel(r, where, NULL, name));
        DOP_RETURN_IF_ERROR(dop_rdrr_known(&kernel, "kernel entry digest precision constants"));
        DOP_RETURN_IF_ERROR(dop_json_sub(&kernel, "precision", &precision));
        DOP_RETURN_IF_ERROR(dop_rdrr_known(&precision, "activationDtype kvDtype inputDtype outputDtype"));
        for (size_t i = 0; i < 4; i++)
            DOP_RETURN_IF_ERROR(read_path_dtype(&precision, fields[i], &ignored));
    }
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        place p = {.phase = stages[i].phase, .layer = -1, .kernels = &kernels};
        snprintf(p.where, sizeof p.where, "inference.execution.%s", stages[i].key);
        DOP_RETURN_IF_ERROR(read_steps(r, &p, dop_json_get(&exec, stages[i].key)));
    }
    return DOP_OK;
}

/* Reads a kernel path from field `key`: the name of a known path, or an object with steps. */
static dop_status
read_kernel_path(dop_rdrr *r, const dop_json *j, const char *key)
{
    dop_checkpoint *m = r->model;
    const json_t *v = dop_json_get(j, key);
    dop_json path;
    const char *id = json_string_value(v);
    if (!v)
        return DOP_OK;
    if (!id) {
        DOP_RETURN_IF_ERROR(dop_json_sub(j, key, &path));
        DOP_RETURN_IF_ERROR(dop_json_str_or(&path, "id", NULL, &id));
    }
    m->path_name = id ? dop_arena_strdup(r->arena, id) : m->path_name;
    m->path_file = dop_arena_strdup(r->arena, r->path);
    m->path_field = json_is_string(v) ? dop_arena_printf(r->arena, "%s%s", j->where, key) : NULL;
    if ((id && !m->path_name) || !m->path_file || (json_is_string(v) && !m->path_field))
        return DOP_NO_MEMORY(r->diag);
    if (json_is_string(v)) { /* replaces all steps read before */
        m->n_path = 0;
        m->path_act = m->path_kv = DOP_TYPE_none;
        return DOP_OK;
    }
    DOP_RETURN_IF_ERROR(read_path_dtype(&path, "activationDtype", &m->path_act));
    DOP_RETURN_IF_ERROR(read_path_dtype(&path, "kvDtype", &m->path_kv));
    DOP_RETURN_IF_ERROR(
        dop_rdrr_known(&path, "id name description activationDtype outputDtype kvDtype finitenessFallbackKernelPathId "
                              "preLayer decode prefill postLayer sampling layerOverrides"));
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        place p = {.phase = stages[i].phase, .layer = -1};
        const json_t *list = dop_json_get(&path, stages[i].key);
        snprintf(p.where, sizeof p.where, "%.60s.%s", key, stages[i].key);
        DOP_RETURN_IF_ERROR(read_steps(r, &p, json_is_object(list) ? json_object_get(list, "steps") : list));
    }
    place p = {.phase = "both", .layer = -1};
    snprintf(p.where, sizeof p.where, "%.60s.layerOverrides", key);
    return read_steps(r, &p, dop_json_get(&path, "layerOverrides"));
}

/* Reads forceKernels, a map from ops to kernels. Both are checked when they become rules (kernel_path_load.c). */
static dop_status
read_force_kernels(dop_rdrr *r, const dop_json *j)
{
    dop_checkpoint *m = r->model;
    dop_json forces;
    const char *op, *kernel = NULL;
    json_t *v;
    dop_status st = dop_json_sub(j, "forceKernels", &forces);
    if (st != DOP_OK || !forces.object)
        return st;
    m->path_forces = dop_arena_alloc(r->arena, (json_object_size(forces.object) + 1) * sizeof *m->path_forces);
    if (!m->path_forces)
        return DOP_NO_MEMORY(r->diag);
    m->n_path_forces = 0;
    json_object_foreach((json_t *)(uintptr_t)forces.object, op, v)
    {
        st = dop_json_str_or(&forces, op, NULL, &kernel);
        if (st != DOP_OK)
            return st;
        if (!kernel)
            continue;
        dop_path_force *f = &m->path_forces[m->n_path_forces++];
        *f = (dop_path_force){.source = dop_arena_printf(r->arena, "%s: %s%s", r->path, forces.where, op),
                              .op = dop_arena_strdup(r->arena, op),
                              .kernel = dop_arena_strdup(r->arena, kernel)};
        if (!f->source || !f->op || !f->kernel)
            return DOP_NO_MEMORY(r->diag);
    }
    return DOP_OK;
}

/* Reads runtimeOptimizations, or `optimizations` in newer manifests. */
static dop_status
read_optimizations(dop_rdrr *r, const char *key)
{
    static const struct {
        const char *key, *why;
    } refused[] = {{"attentionTier", "attention has no tiers here; name a kernel in forceKernels"},
                   {"matmulTile", "a tile belongs to a kernel here; state bm, bn and bk in a kernel path"}};
    dop_checkpoint *m = r->model;
    dop_json j;
    bool on = false;
    DOP_RETURN_IF_ERROR(dop_json_sub(&r->top, key, &j));
    DOP_RETURN_IF_ERROR(
        dop_rdrr_known(&j, "kernelPath preferF16KV preferFusedDequant attentionTier matmulTile forceKernels"));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (dop_json_has(&j, refused[i].key))
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s%s is not supported: %s", j.where, refused[i].key,
                               refused[i].why);
    DOP_RETURN_IF_ERROR(read_kernel_path(r, &j, "kernelPath"));
    if (dop_json_has(&j, "preferF16KV")) {
        DOP_RETURN_IF_ERROR(dop_json_bool_or(&j, "preferF16KV", false, &on));
        m->path_kv = on ? DOP_TYPE_f16 : DOP_TYPE_f32;
    }
    if (dop_json_has(&j, "preferFusedDequant")) {
        DOP_RETURN_IF_ERROR(dop_json_bool_or(&j, "preferFusedDequant", false, &on));
        m->path_expands = !on;
    }
    return read_force_kernels(r, &j);
}

/* Fails for quantized and tiered caches, which would change results, and for unknown members of the session. */
static dop_status
check_session(const dop_json *session, const dop_json *cache)
{
    static const char *const parts[] = {"quantization", "tiering"};
    DOP_RETURN_IF_ERROR(dop_rdrr_known(session, "compute kvcache decodeLoop perLayerInputs prefillChunkSubmitMode "
                                                "prefillTokenChunkSize useFlashPrefillAttention useWideTileQ4KPrefill "
                                                "retainQ4KMaterialization speculation"));
    DOP_RETURN_IF_ERROR(dop_rdrr_known(cache, "kvDtype layout maxSeqLen pageSize tiering quantization"));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        dop_json part;
        const char *mode = NULL;
        DOP_RETURN_IF_ERROR(dop_json_sub(cache, parts[i], &part));
        DOP_RETURN_IF_ERROR(dop_json_str_or(&part, "mode", "none", &mode));
        if (strcmp(mode, "none") != 0 && strcmp(mode, "off") != 0)
            return DOP_FAIL_IN(cache->diag, DOP_E_INPUT, cache->path, "%smode \"%.40s\" is not supported; known: %s",
                               part.where, mode, i == 0 ? "none" : "off");
    }
    return DOP_OK;
}

dop_status
dop_rdrr_path(dop_rdrr *r)
{
    dop_json inference, session, compute, defaults, cache;
    dop_type ignored = DOP_TYPE_none;
    DOP_RETURN_IF_ERROR(dop_json_sub(&r->top, "inference", &inference));
    DOP_RETURN_IF_ERROR(dop_json_sub(&inference, "session", &session));
    DOP_RETURN_IF_ERROR(dop_json_sub(&session, "compute", &compute));
    DOP_RETURN_IF_ERROR(dop_json_sub(&compute, "defaults", &defaults));
    DOP_RETURN_IF_ERROR(dop_json_sub(&session, "kvcache", &cache));
    DOP_RETURN_IF_ERROR(check_session(&session, &cache));
    DOP_RETURN_IF_ERROR(read_path_dtype(&defaults, "activationDtype", &r->model->path_act));
    DOP_RETURN_IF_ERROR(read_path_dtype(&defaults, "mathDtype", &ignored));
    DOP_RETURN_IF_ERROR(read_path_dtype(&defaults, "accumDtype", &ignored));
    DOP_RETURN_IF_ERROR(read_path_dtype(&defaults, "outputDtype", &ignored));
    DOP_RETURN_IF_ERROR(read_path_dtype(&cache, "kvDtype", &r->model->path_kv));
    DOP_RETURN_IF_ERROR(read_execution(r, &inference));
    /* Later fields have precedence over earlier ones. */
    DOP_RETURN_IF_ERROR(read_optimizations(r, "runtimeOptimizations"));
    DOP_RETURN_IF_ERROR(read_optimizations(r, "optimizations"));
    DOP_RETURN_IF_ERROR(read_kernel_path(r, &inference, "defaultKernelPath"));
    return read_kernel_path(r, &inference, "kernelPath");
}
