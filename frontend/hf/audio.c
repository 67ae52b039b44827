/* Encoder of a speech model (Whisper) in a Hugging Face directory: facts in config.json, tensors of model.encoder, and token ids
 * excluded from transcriptions. */
#include "frontend/hf/audio.h"
#include "frontend/hf/vision.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef enum kind { MATRIX, NORM, TABLE, CONV } kind;

/* Tensors of the encoder: canonical name without "v." (vision.h), and name in files; '#' is a layer's number. bias: the tensor
 * has a bias. */
static const struct {
    const char *role;
    kind kind;
    bool bias;
    const char *name;
} tensors[] = {
    {"conv1", CONV, true, "conv1"},
    {"conv2", CONV, true, "conv2"},
    {"pos", TABLE, false, "embed_positions"},
    {"post_norm", NORM, true, "layer_norm"},
    {"L#.norm1", NORM, true, "layers.#.self_attn_layer_norm"},
    {"L#.q", MATRIX, true, "layers.#.self_attn.q_proj"},
    {"L#.k", MATRIX, false, "layers.#.self_attn.k_proj"},
    {"L#.v", MATRIX, true, "layers.#.self_attn.v_proj"},
    {"L#.o", MATRIX, true, "layers.#.self_attn.out_proj"},
    {"L#.norm2", NORM, true, "layers.#.final_layer_norm"},
    {"L#.up", MATRIX, true, "layers.#.fc1"},
    {"L#.down", MATRIX, true, "layers.#.fc2"},
};
enum { TAPS = 3 };

typedef struct reader {
    dop_hf *hf;
    const dop_st_set *set;
    const char *prefix; /* prefix of tensor names */
    dop_vision_model *m;
} reader;

dop_status
dop_hf_cross(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    a->cross.width = a->hidden;
    return dop_fact_u32_or(&hf->cfg, DOP_HF(audio_rows), 1500, &a->cross.rows);
}

static dop_status
read_audio_facts(reader *r)
{
    dop_hf *hf = r->hf;
    dop_vision *v = &r->m->facts;
    const dop_arch *a = &hf->model->arch;
    *v = (dop_vision){.hidden = a->hidden,
                      .n_layers = 6,
                      .heads = 4,
                      .ffn = 4 * a->hidden,
                      .act = a->layers[0].ffn.act,
                      .eps = a->final_norm.eps,
                      .places = DOP_PLACES_ROWS,
                      .n_places = a->cross.rows,
                      .merge = 1,
                      .features = a->hidden,
                      .bins = 80};
    dop_status st = dop_fact_u32_or(&hf->cfg, DOP_HF(audio_bins), v->bins, &v->bins);
    if (st == DOP_OK)
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(audio_layers), v->n_layers, &v->n_layers);
    if (st == DOP_OK)
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(audio_heads), v->heads, &v->heads);
    if (st == DOP_OK)
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(audio_ffn), v->ffn, &v->ffn);
    if (st != DOP_OK)
        return st;
    if (v->n_layers > DOP_VISION_MAX_LAYERS || v->hidden % v->heads)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "an encoder of %u layers and %u heads is not supported",
                           v->n_layers, v->heads);
    v->head_dim = v->hidden / v->heads;
    return DOP_OK;
}

static void
write_audio_name(const char *name, uint32_t number, char *out, size_t size)
{
    const size_t hash = strcspn(name, "#");
    if (name[hash])
        snprintf(out, size, "%.*s%u%s", (int)hash, name, number, name + hash + 1);
    else
        snprintf(out, size, "%s", name);
}

/* Transposes a convolution [outs, columns, taps] to matrix rows [outs, taps * columns], which multiply windows. */
static const uint8_t *
transpose_convolution(dop_arena *arena, const dop_st_tensor *t)
{
    const size_t value = dop_type_of(dop_hf_type(t))->bytes;
    const uint64_t cols = t->shape[1];
    uint8_t *to = dop_arena_alloc(arena, t->bytes);
    for (uint64_t i = 0; to && i < t->shape[0] * cols * TAPS; i++) {
        const uint64_t out = i / (cols * TAPS), tap = i / cols % TAPS, c = i % cols;
        memcpy(to + i * value, t->data + ((out * cols + c) * TAPS + tap) * value, value);
    }
    return to;
}

/* Gets the required shape of tensor i; returns the rank. */
static uint32_t
get_audio_shape(const reader *r, size_t i, uint64_t out[3])
{
    const dop_vision *v = &r->m->facts;
    const bool up = strcmp(tensors[i].role, "L#.up") == 0, down = strcmp(tensors[i].role, "L#.down") == 0;
    out[0] = tensors[i].kind == TABLE ? v->n_places : up ? v->ffn : v->hidden;
    out[1] = down ? v->ffn : strcmp(tensors[i].role, "conv1") == 0 ? v->bins : v->hidden;
    out[2] = TAPS;
    return tensors[i].kind == NORM ? 1 : tensors[i].kind == CONV ? 3 : 2;
}

/* Adds the tensor as a weight; rank 1: its bias, or a norm's vector. */
static dop_status
add_audio_weight(const reader *r, const char *role, const char *suffix, uint32_t number, const dop_st_tensor *t,
                 bool conv)
{
    dop_hf *hf = r->hf;
    char name[64], full[72];
    const dop_type blocks = t->rank == 2 && !conv ? dop_hf_block_type(t) : DOP_TYPE_none;
    const dop_type type = blocks != DOP_TYPE_none ? blocks : dop_hf_type(t);
    if (blocks == DOP_TYPE_none && !dop_hf_is_float(t))
        return dop_st_refuse(t, "expected f32, f16 or bf16", hf->diag);
    const uint64_t cols = t->rank > 1 ? t->shape[1] * (conv ? TAPS : 1) : t->shape[0];
    write_audio_name(role, number, name, sizeof name);
    snprintf(full, sizeof full, "v.%s%s", name, suffix);
    dop_weight w = {.name = dop_arena_strdup(hf->arena, full),
                    .type = type,
                    .rank = t->rank > 1 ? 2 : 1,
                    .rows = t->rank > 1 ? (uint32_t)t->shape[0] : 1,
                    .cols = (uint32_t)cols,
                    .data = conv ? transpose_convolution(hf->arena, t) : t->data,
                    .source = t->name};
    (void)dop_type_row_bytes(type, cols, &w.row_stride); /* cannot overflow: the tensor has these bytes */
    if (!w.name || !w.data)
        return DOP_NO_MEMORY(hf->diag);
    return dop_weights_add(&r->m->weights, &w, hf->arena, hf->diag);
}

static dop_status
read_audio_tensor(const reader *r, size_t i, uint32_t number)
{
    char name[96], full[128];
    uint64_t shape[3];
    write_audio_name(tensors[i].name, number, name, sizeof name);
    for (uint32_t bias = 0; bias <= (tensors[i].bias ? 1u : 0u); bias++) {
        snprintf(full, sizeof full, "%s.%s", name, bias ? "bias" : "weight");
        const dop_st_tensor *t = dop_st_take_part(r->set, r->prefix, full);
        if (!t)
            return DOP_FAIL_IN(r->hf->diag, DOP_E_INPUT, r->set->path, "tensor %s%s is missing", r->prefix, full);
        const uint32_t rank = get_audio_shape(r, i, shape);
        dop_status st = dop_st_check_shape(t, bias ? 1 : rank, shape, r->hf->diag);
        if (st == DOP_OK)
            st = add_audio_weight(r, tensors[i].role, bias ? "_bias" : "", number, t, !bias && tensors[i].kind == CONV);
        if (st != DOP_OK)
            return st;
    }
    return DOP_OK;
}

dop_status
dop_hf_audio(dop_hf *hf, const dop_st_set *set, dop_vision_model *m)
{
    reader r = {.hf = hf, .set = set, .prefix = "model.encoder.", .m = m};
    if (!dop_st_find(set, "model.encoder.conv1.weight") && dop_st_find(set, "encoder.conv1.weight"))
        r.prefix = "encoder.";
    DOP_RETURN_IF_ERROR(read_audio_facts(&r));
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const uint32_t n = strncmp(tensors[i].role, "L#", 2) == 0 ? m->facts.n_layers : 1;
        for (uint32_t k = 0; k < n; k++)
            DOP_RETURN_IF_ERROR(read_audio_tensor(&r, i, k));
    }
    return dop_weights_seal(&m->weights, hf->diag);
}

dop_status
dop_hf_suppressed(dop_hf *hf, uint32_t **out_ids)
{
    static const char *const keys[] = {"suppress_tokens", "begin_suppress_tokens"};
    json_t *root = NULL;
    dop_json gen = {0};
    dop_status st = DOP_OK;
    uint32_t n = 2, *ids = NULL;
    const char *path = dop_arena_printf(hf->arena, "%s/generation_config.json", hf->dir);
    if (!path)
        return DOP_NO_MEMORY(hf->diag);
    if (access(path, F_OK) == 0) {
        st = dop_json_decode_file(&(dop_json_how){.path = path}, hf->diag, &root);
        if (st == DOP_OK)
            st = dop_json_root(root, path, hf->diag, &gen);
    }
    const json_t *lists[2] = {NULL, NULL};
    for (uint32_t i = 0; i < 2 && st == DOP_OK; i++) {
        lists[i] = gen.object ? dop_json_get(&gen, keys[i]) : NULL;
        lists[i] = lists[i] ? lists[i] : dop_json_get(&hf->cfg, keys[i]);
        n += (uint32_t)json_array_size(lists[i]);
    }
    if (st == DOP_OK && !(ids = dop_arena_alloc(hf->arena, n * sizeof *ids)))
        st = DOP_NO_MEMORY(hf->diag);
    n = 2;
    for (uint32_t i = 0; i < 2 && st == DOP_OK; i++) {
        ids[i] = 0;
        for (size_t k = 0; k < json_array_size(lists[i]); k++) {
            const json_t *v = json_array_get(lists[i], k);
            const json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
            if (id >= 0 && id < hf->model->arch.vocab) { /* -1 stands for the tokens that a tokenizer would list */
                ids[n++] = (uint32_t)id;
                ids[i]++;
            }
        }
    }
    json_decref(root);
    *out_ids = ids;
    return st;
}
