/* Families read by the Hugging Face importer (Gemma 4, LFM2, Qwen 3.5). The manifest's fields are rewritten as a config.json. Its
 * tensors, which have the names of a Hugging Face directory, become a set of safetensors. Facts fixed by the family must agree
 * with the manifest. */
#include "frontend/rdrr/family.h"

#include "base/format/safetensors.h"
#include "frontend/families/families.h"
#include "frontend/hf/import.h"
#include "frontend/rdrr/config.h"
#include "frontend/rdrr/manifest.h"
#include "frontend/rdrr/rdrr.h"
#include "frontend/rdrr/shards.h"
#include "ir/interp/interp.h" /* dop_decode_row */

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* ---- config.json -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *arch, *model_type;
} families[] = {{"gemma4", "Gemma4ForCausalLM", "gemma4_text"},
                {"qwen3_5", "Qwen3_5ForCausalLM", "qwen3_5_text"},
                {"lfm2", "Lfm2ForCausalLM", "lfm2"}};

/* Sets a field of an object of config.json and takes the reference to `value`.  Does nothing if key is NULL.  A failed allocation sets
 * r->failed. */
static void
set_config_member(dop_rdrr *r, json_t *object, const char *key, json_t *value)
{
    if (!key)
        json_decref(value);
    else if (json_object_set_new(object, key, value) != 0)
        r->failed = true;
}

/* Copies facts for which both formats have a key. */
static void
copy_facts(dop_rdrr *r, const dop_rdrr_sections *s, json_t *config)
{
    const dop_json *const parts[] = {&s->arch, &s->attention, &s->norm, &s->ffn, &s->output};
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        for (int i = 0; i < DOP_N_FACTS; i++) {
            const char *from = dop_facts_rdrr[i].key;
            const json_t *v = from && dop_facts_hf[i].key ? dop_json_get(parts[p], from) : NULL;
            if (v)
                set_config_member(r, config, dop_facts_hf[i].key, json_deep_copy(v));
        }
}

/* Sets layer_types: the manifest's list, which uses the words of config.json, or a list made from r->sliding. */
static void
set_layer_types(dop_rdrr *r, const dop_rdrr_sections *s, json_t *config)
{
    const json_t *own = dop_json_get(&s->pattern, "layerTypes");
    json_t *list = own ? json_deep_copy(own) : json_array();
    for (uint32_t i = 0; !own && i < r->model->arch.n_layers; i++)
        r->failed |=
            json_array_append_new(list, json_string(r->sliding[i] ? "sliding_attention" : "full_attention")) != 0;
    set_config_member(r, config, "layer_types", list);
}

/* Creates the rope_parameters object of one rotary embedding. */
static dop_status
make_rope_object(dop_rdrr *r, const dop_rdrr_sections *s, bool local, uint32_t head_dim, json_t **out)
{
    dop_rope rope;
    DOP_RETURN_IF_ERROR(dop_rdrr_read_rope(r, &s->rope, local, head_dim, &rope));
    const uint32_t turned = rope.rotated ? rope.rotated : rope.dims;
    const char *type = rope.scaling == DOP_ROPE_PLAIN          ? "default"
                       : rope.scaling == DOP_ROPE_LINEAR       ? "linear"
                       : rope.scaling == DOP_ROPE_PROPORTIONAL ? "proportional"
                                                               : NULL;
    if (!type || rope.interleaved)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s%s is not supported in %s models", s->rope.where,
                           type    ? "ropeInterleaved"
                           : local ? "ropeLocalScalingType"
                                   : "ropeScalingType",
                           r->family);
    *out = json_pack("{s:s, s:f, s:f}", "rope_type", type, "rope_theta", rope.theta, "partial_rotary_factor",
                     fmin(1, (turned + 0.5) / head_dim)); /* the reader rounds down */
    if (*out && rope.scaling == DOP_ROPE_LINEAR)
        set_config_member(r, *out, "factor", json_real(rope.factor));
    return *out ? DOP_OK : DOP_NO_MEMORY(r->diag);
}

/* Gemma 4: sets the head sizes and rotary embeddings of full and sliding layers.  A full layer without v_proj uses its keys as values. */
static dop_status
set_gemma4(dop_rdrr *r, const dop_rdrr_sections *s, json_t *config)
{
    const dop_arch *a = &r->model->arch;
    uint32_t head_dim = r->layer.mixers[0].attn.head_dim, kv_heads = r->layer.mixers[0].attn.n_kv_heads, shared = 0;
    const uint32_t local_dim = head_dim;
    bool both = false;
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&s->arch, DOP_RDRR(head_dim_full), head_dim, &head_dim));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&s->arch, DOP_RDRR(kv_heads_full), kv_heads, &kv_heads));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&s->arch, DOP_RDRR(shared_kv_layers), 0, &shared));
    json_t *each = json_object();
    for (uint32_t i = 0; i < a->n_layers; i++) {
        char key[16], name[96];
        snprintf(key, sizeof key, "%u", i);
        snprintf(name, sizeof name, "%slayers.%u.self_attn.v_proj.weight", r->prefix, i);
        if (r->sliding[i])
            continue;
        set_config_member(
            r, each, key,
            json_pack("{s:I, s:I}", "head_dim", (json_int_t)head_dim, "num_key_value_heads", (json_int_t)kv_heads));
        both = both || (i + shared < a->n_layers && !dop_rdrr_find(r, name));
    }
    set_config_member(r, config, "per_layer_config", each);
    set_config_member(r, config, "attention_k_eq_v", json_boolean(both));
    if (!dop_json_has(&s->arch, DOP_RDRR(input_width)->key))
        set_config_member(r, config, DOP_HF(input_width)->key, json_integer(0));
    json_t *full = NULL, *local = NULL;
    set_config_member(r, config, "rope_parameters", json_object());
    json_t *ropes = json_object_get(config, "rope_parameters");
    DOP_RETURN_IF_ERROR(make_rope_object(r, s, false, head_dim, &full));
    set_config_member(r, ropes, "full_attention", full);
    DOP_RETURN_IF_ERROR(make_rope_object(r, s, true, local_dim, &local));
    set_config_member(r, ropes, "sliding_attention", local);
    return DOP_OK;
}

/* Sets the sizes of recurrent layers. The kernel size of a short convolution is taken from the tensor because the manifest does
 * not state it. */
static dop_status
set_recurrent(dop_rdrr *r, const dop_rdrr_sections *s, const dop_hf_recurrent *f, json_t *config)
{
    const struct {
        const char *key;
        const dop_fact_key *fact;
    } sizes[] = {{f->taps.key, DOP_RDRR(scan_taps)},
                 {f->heads.key, DOP_RDRR(scan_heads)},
                 {f->head_dim.key, DOP_RDRR(delta_head_dim)},
                 {f->groups.key, DOP_RDRR(scan_groups)},
                 {f->state_dim.key, DOP_RDRR(scan_state)}};
    const dop_rdrr_tensor *taps = NULL;
    for (uint32_t i = 0; !taps && i < r->model->arch.n_layers; i++) {
        char name[96];
        snprintf(name, sizeof name, "%slayers.%u.conv.conv.weight", r->prefix, i);
        taps = dop_rdrr_find(r, name);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t n = i == 0 && taps && taps->rank == 3 ? (uint32_t)taps->shape[2] : 0;
        if (!n && sizes[i].key)
            DOP_RETURN_IF_ERROR(dop_fact_u32(&s->arch, sizes[i].fact, &n));
        set_config_member(r, config, sizes[i].key, json_integer(n));
    }
    if (f->gate_type && dop_json_has(&s->attention, "outputGateType"))
        set_config_member(r, config, f->gate_type, json_deep_copy(dop_json_get(&s->attention, "outputGateType")));
    if (f->adjusts_ffn) /* the stated width is the actual one */
        set_config_member(r, config, DOP_HF(block_adjusted)->key, json_false());
    return DOP_OK;
}

/* Creates r->config. */
static dop_status
make_config(dop_rdrr *r, const dop_rdrr_sections *s)
{
    const dop_arch *a = &r->model->arch;
    const dop_attention *t = &r->layer.mixers[0].attn;
    size_t k = 0;
    while (strcmp(families[k].name, r->family) != 0)
        k++;
    const dop_family *f = dop_family_by_arch(families[k].arch);
    json_t *c = r->config =
        json_pack("{s:[s], s:s}", "architectures", families[k].arch, "model_type", families[k].model_type);
    json_t *ends = json_array();
    if (!c || !ends || !f) {
        json_decref(ends);
        return DOP_NO_MEMORY(r->diag);
    }
    copy_facts(r, s, c);
    set_config_member(r, c, f->keys->layers, json_integer(a->n_layers));
    set_config_member(r, c, f->keys->hidden, json_integer(a->hidden));
    set_config_member(r, c, f->keys->ctx, json_integer(a->ctx_train));
    set_config_member(r, c, f->keys->ffn, json_integer(r->layer.ffn.width));
    set_config_member(r, c, f->keys->heads, json_integer(t->n_heads));
    set_config_member(r, c, f->keys->eps, json_real(a->final_norm.eps));
    set_config_member(r, c, DOP_HF(head_dim)->key, json_integer(t->head_dim));
    set_config_member(r, c, DOP_HF(vocab)->key, json_integer(a->vocab));
    for (uint32_t i = 0; i < a->n_end_ids; i++)
        r->failed |= json_array_append_new(ends, json_integer(a->end_ids[i])) != 0;
    set_config_member(r, c, "eos_token_id", ends);
    set_config_member(r, c, "bos_token_id", json_integer(a->bos_id));
    set_layer_types(r, s, c);
    if (strcmp(r->family, "gemma4") == 0)
        return set_gemma4(r, s, c);
    json_t *rope = NULL;
    DOP_RETURN_IF_ERROR(set_recurrent(r, s, f->recurrent, c));
    DOP_RETURN_IF_ERROR(make_rope_object(r, s, false, t->head_dim, &rope));
    set_config_member(r, c, "rope_parameters", rope);
    return DOP_OK;
}

/* ---- facts that the family fixes -------------------------------------------------------------- */

/* Fails if a fact in the manifest differs from the family's. */
static dop_status
check_stated_facts(const dop_rdrr *r, const dop_rdrr_sections *s, const dop_arch *of_family)
{
    const dop_layer *said = &r->layer, *y = &of_family->layers[0];
    const dop_attention *t = &said->mixers[0].attn, *u = NULL;
    for (uint32_t i = 0; !u && i < of_family->n_layers; i++)
        u = dop_layer_attention(&of_family->layers[i]);
    if (!u)
        return DOP_OK;
    bool v_norm = false, gate = false;
    DOP_RETURN_IF_ERROR(dop_json_bool_or(&s->attention, "valueNorm", false, &v_norm));
    DOP_RETURN_IF_ERROR(dop_json_bool_or(&s->attention, "attentionOutputGate", false, &gate));
    const bool norms = said->attn_norm.kind == y->attn_norm.kind && said->ffn_norm.kind == y->ffn_norm.kind &&
                       said->post_attn_norm.kind == y->post_attn_norm.kind &&
                       said->post_ffn_norm.kind == y->post_ffn_norm.kind;
    const struct {
        const dop_json *j;
        const char *key;
        double said, has;
    } facts[] = {
        {&s->norm, "rmsNormWeightOffset", r->stated.final_norm.add, of_family->final_norm.add},
        {&s->norm, "preFeedforwardNorm", norms, true},
        {&s->attention, "queryKeyNorm", t->q_norm.kind, u->q_norm.kind},
        {&s->attention, "valueNorm", v_norm, u->v_norm.kind != DOP_NORM_NONE},
        {&s->attention, "attentionOutputGate", gate, u->gate},
        {&s->attention, "queryPreAttnScalar", t->scale, u->scale},
        {&s->attention, "attnLogitSoftcapping", t->softcap, u->softcap},
        {&s->ffn, "activation", said->ffn.act, y->ffn.act},
        {&s->ffn, "gatedActivation", said->ffn.gated, y->ffn.gated},
        {&s->output, "scaleEmbeddings", r->stated.embed_scale, of_family->embed_scale},
        {&s->output, "embeddingScale", r->stated.embed_scale, of_family->embed_scale},
        {&s->output, "logitInputScale", r->stated.logit_scale, of_family->logit_scale},
        {&s->output, "finalLogitSoftcapping", r->stated.logit_softcap, of_family->logit_softcap},
        {&s->pattern, "residualBranchScale", said->residual_scale, y->residual_scale},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (dop_json_has(facts[i].j, facts[i].key) && fabs(facts[i].said - facts[i].has) > 1e-6 * fabs(facts[i].has))
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "%s%s is not what %s models have", facts[i].j->where,
                               facts[i].key, r->family);
    return DOP_OK;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------ */

/* Repacks rows of 4-bit integers with one scale per row as q4_0 blocks. A block is the scale as f16 and 16 bytes; byte i has
 * values i and i + 16. In the source, byte i has values 2i and 2i + 1. */
static const uint8_t *
repack_int4_blocks(dop_rdrr *r, const dop_rdrr_tensor *t, const uint8_t *data, const uint8_t *scales)
{
    enum { BLOCK = 32, BYTES = 2 + BLOCK / 2 };
    const uint64_t per_row = t->shape[1] / BLOCK;
    const uint8_t turn = t->scales->is_signed ? 8 : 0; /* q4_0 stores a value with 8 added */
    uint8_t *out = dop_arena_alloc(r->arena, (size_t)(t->shape[0] * per_row * BYTES));
    for (uint64_t b = 0; out && b < t->shape[0] * per_row; b++) {
        float scale;
        memcpy(&scale, scales + b / per_row * sizeof scale, sizeof scale);
        const uint16_t half = dop_f32_to_f16(scale);
        uint8_t *to = out + b * BYTES;
        memcpy(to, &half, sizeof half);
        for (unsigned i = 0; i < BLOCK / 2; i++) {
            const uint8_t low = data[b * BLOCK / 2 + i / 2] >> i % 2 * 4 & 15;
            const uint8_t high = data[b * BLOCK / 2 + (i + 16) / 2] >> i % 2 * 4 & 15;
            to[2 + i] = (uint8_t)((low ^ turn) | (high ^ turn) << 4);
        }
    }
    return out;
}

/* Converts a tensor that the Hugging Face importer cannot read in place: 4-bit integers to q4_0, blocks that do not run along
 * rows to F32. n: number of values. */
static dop_status
convert_rdrr_tensor(dop_rdrr *r, const dop_rdrr_tensor *t, uint64_t n, const char **out_dtype, const uint8_t **out_data)
{
    const uint8_t *scales = NULL, *data = *out_data;
    if (t->scales) {
        DOP_RETURN_IF_ERROR(dop_rdrr_gather(r, &t->scales->tensor, &scales));
        *out_dtype = dop_type_of(DOP_TYPE_q4_0)->name;
        *out_data = repack_int4_blocks(r, t, data, scales);
    } else {
        float *values = dop_arena_alloc(r->arena, (size_t)n * sizeof *values);
        if (values)
            dop_decode_row(t->type, data, n, values);
        *out_dtype = "F32";
        *out_data = (const uint8_t *)values;
    }
    return *out_data ? DOP_OK : DOP_NO_MEMORY(r->diag);
}

/* Describes a tensor in the form of a Hugging Face directory's. */
static dop_status
describe_rdrr_tensor(dop_rdrr *r, const dop_rdrr_tensor *t, const uint8_t *instead, dop_st_tensor *out)
{
    const dop_type_info *type = t->type != DOP_TYPE_none ? dop_type_of(t->type) : NULL;
    const bool blocks = type && type->block > 1;
    const bool flat = blocks && t->layout == DOP_RDRR_FLAT && (t->rank != 2 || t->shape[1] % type->block != 0);
    uint64_t n = 1;
    if (t->layout == DOP_RDRR_COLUMN)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "tensor %s: layout col is not supported in %s models",
                           t->name, r->family);
    *out = (dop_st_tensor){.name = t->name, .file = r->path, .rank = t->rank, .data = instead, .bytes = t->size};
    for (uint32_t i = 0; i < t->rank; i++) {
        out->shape[i] = t->shape[i];
        n *= t->shape[i];
    }
    out->dtype = t->transformed             ? "of a sourceTransform"
                 : t->type == DOP_TYPE_f32  ? "F32"
                 : t->type == DOP_TYPE_f16  ? "F16"
                 : t->type == DOP_TYPE_bf16 ? "BF16"
                 : blocks                   ? type->name
                                            : t->dtype;
    if (instead && (t->scales || flat))
        out->dtype = "F32";
    if (instead)
        return DOP_OK;
    DOP_RETURN_IF_ERROR(dop_rdrr_gather(r, t, &out->data));
    return t->scales || flat ? convert_rdrr_tensor(r, t, n, &out->dtype, &out->data) : DOP_OK;
}

dop_status
dop_rdrr_import_family(dop_rdrr *r, const uint8_t *instead, dop_checkpoint *m)
{
    dop_st_set set = {.path = r->path};
    char *const tokenizer = m->tokenizer_json_path;
    dop_rdrr_sections s;
    DOP_RETURN_IF_ERROR(dop_rdrr_open_sections(r, &s));
    if (!r->config)
        DOP_RETURN_IF_ERROR(make_config(r, &s));
    if (r->failed)
        return DOP_NO_MEMORY(r->diag);
    set.tensors = dop_arena_alloc(r->arena, ((size_t)r->n_tensors + 1) * sizeof *set.tensors);
    set.taken = dop_arena_alloc(r->arena, (size_t)r->n_tensors + 1);
    if (!set.tensors || !set.taken)
        return DOP_NO_MEMORY(r->diag);
    memset(set.taken, 0, (size_t)r->n_tensors + 1);
    for (; set.n < r->n_tensors; set.n++)
        DOP_RETURN_IF_ERROR(describe_rdrr_tensor(r, &r->tensors[set.n], instead, &set.tensors[set.n]));
    m->arch = (dop_arch){0};
    DOP_RETURN_IF_ERROR(dop_import_hf_parts(r->dir, r->path, r->config, &set, r->diag, m));
    if (tokenizer)
        m->tokenizer_json_path = tokenizer;
    return check_stated_facts(r, &s, &m->arch);
}

dop_status
dop_rdrr_check_family(dop_rdrr *r)
{
    dop_checkpoint m = {.arena = r->arena};
    size_t most = 4096;
    for (uint32_t i = 0; i < r->n_tensors; i++) {
        uint64_t n = 4;
        for (uint32_t k = 0; k < r->tensors[i].rank; k++)
            n = dop_mul_u64(n, r->tensors[i].shape[k], &n) ? n : SIZE_MAX;
        n = n > r->tensors[i].size ? n : r->tensors[i].size;
        most = n > most ? (size_t)n : most;
    }
    uint8_t *zeros = mmap(NULL, most, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) /* errors are then found later, when the shards are read */
        return DOP_OK;
    dop_status st = dop_rdrr_import_family(r, zeros, &m);
    munmap(zeros, most);
    return st;
}
