/* Encoders and rerankers in GGUF files: bidirectional attention, pooling, and dense layers that give vectors or class scores
 * (llama.cpp: llm_graph_context::build_pooling in src/llama-graph.cpp, conversion/bert.py). */
#include "frontend/gguf/encoder.h"

#include "base/words.h"
#include "frontend/facts/names.h"
#include "frontend/gguf/gguf_import.h"
#include "frontend/gguf/keys.h"
#include "frontend/gguf/open.h"

#include <stdio.h>
#include <string.h>

/* Values of the key pooling_type. */
enum { POOL_NONE, POOL_MEAN, POOL_CLS, POOL_LAST, POOL_RANK };

static const dop_gguf_tensor *
get_encoder_tensor(const dop_gi *gi, const char *name)
{
    return dop_gi_tensor(gi, name, NULL);
}

/* Returns the width of a dense layer from its tensor `name`; excessive sizes are rejected with the other facts. */
static uint32_t
get_product_width(const dop_gi *gi, const char *name)
{
    const dop_gguf_tensor *t = get_encoder_tensor(gi, name);
    return !t ? 0 : t->dims[1] <= DOP_MAX_WIDTH ? (uint32_t)t->dims[1] : DOP_MAX_WIDTH + 1;
}

static dop_status
read_gguf_pooling(const dop_gi *gi, bool *out_stated, uint64_t *out)
{
    char full[96];
    const dop_gguf_kv *kv = dop_gi_find(gi, "pooling_type", full, sizeof full);
    *out = POOL_NONE;
    if (kv && (!dop_gguf_u64(kv, 0, out) || *out > POOL_RANK))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                           "%s is not 0 (none), 1 (mean), 2 (cls), 3 (last) or 4 (rank)", full);
    *out_stated = kv && *out != POOL_NONE;
    return DOP_OK;
}

/* Marks tensors as used that results do not need: a classifier in addition to vectors, an output matrix. */
static void
leave_out(const dop_gi *gi, bool ranks)
{
    static const char *const names[] = {"output.weight",   "cls.weight",        "cls.bias",
                                        "cls.norm.weight", "cls.output.weight", "cls.output.bias"};
    const dop_gguf *part = NULL;
    for (size_t i = 0; i < (ranks ? 1 : sizeof names / sizeof *names); i++)
        (void)dop_gi_take(gi, names[i], &part);
}

/* Sets the dense layers after the final norm: "cls", an activation and "cls.output" for class scores; EmbeddingGemma's "dense_2"
 * and "dense_3" for vectors. */
static dop_status
read_products(const dop_gi *gi, bool ranks)
{
    static const char *const scores[] = {"cls", "cls.output"}, *const vectors[] = {"dense_2", "dense_3"};
    dop_arch *a = &gi->model->arch;
    dop_encoder *e = &a->encoder;
    const bool gelu = gi->family->window_rule == DOP_WINDOW_GLOBAL,
               first = ranks && get_encoder_tensor(gi, "cls.weight"),
               last = get_encoder_tensor(gi, "cls.output.weight");
    for (int i = 0; i < 2; i++) {
        char name[40];
        const char *stem = ranks ? scores[i] : vectors[i];
        snprintf(name, sizeof name, "%s.weight", stem);
        dop_dense d = {.width = get_product_width(gi, name)};
        if (!d.width)
            continue;
        snprintf(name, sizeof name, "%s.bias", stem);
        d.bias = get_encoder_tensor(gi, name) != NULL;
        d.active = first && i == 0 && (last || get_encoder_tensor(gi, "cls.norm.weight"));
        d.act = gelu ? DOP_ACT_GELU : DOP_ACT_TANH;
        if (d.active && get_encoder_tensor(gi, "cls.norm.weight"))
            d.norm = (dop_norm){.kind = DOP_NORM_LAYER, .eps = a->final_norm.eps};
        e->dense[e->n_dense++] = d;
    }
    if (!ranks)
        return DOP_OK;
    if (e->n_dense == 0)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                           "%s.pooling_type is 4 (rank), but there is no tensor cls.weight or cls.output.weight",
                           gi->name);
    e->classes = e->dense[e->n_dense - 1].width;
    return DOP_OK;
}

/* True for Qwen3-Reranker, whose two classes are "yes" and "no" in this order; normally the second class is
 * "relevant". */
static bool
yes_comes_first(const dop_gi *gi)
{
    char full[96];
    dop_gguf_str s;
    uint64_t at = 0;
    const dop_gguf_kv *kv = dop_gi_find(gi, "classifier.output_labels", full, sizeof full);
    return kv && kv->type == DOP_GGUF_ARRAY && kv->count == 2 && dop_gguf_next_string(kv, &at, &s) && s.len == 3 &&
           memcmp(s.data, "yes", 3) == 0;
}

static dop_status
read_gguf_t5(dop_gi *gi)
{
    dop_encoder *e = &gi->model->arch.encoder;
    gi->layer.ffn.gated = get_encoder_tensor(gi, "enc.blk.0.ffn_gate.weight") != NULL;
    gi->layer.ffn.act = gi->layer.ffn.gated ? DOP_ACT_GELU_TANH : DOP_ACT_RELU;
    gi->layer.mixers[0].attn.relative = true;
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(relative_buckets), 0, 0, &e->relative.buckets));
    if (e->relative.buckets % 4 || e->relative.most <= e->relative.buckets / 4)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                           "%s.attention.relative_buckets_count %u: expected a multiple of 4 below %u", gi->name,
                           e->relative.buckets, 4 * e->relative.most);
    return DOP_OK;
}

static dop_status
read_activation(dop_gi *gi)
{
    char full[96], name[32];
    dop_gguf_str s;
    const dop_gguf_kv *kv = dop_gi_find(gi, "hidden_act", full, sizeof full);
    if (!kv)
        return DOP_OK;
    const bool text = dop_gguf_string(kv, &s);
    snprintf(name, sizeof name, "%.*s", text && s.len < sizeof name ? (int)s.len : 0, text ? s.data : "");
    return dop_act_by_name(name, &gi->layer.ffn.act)
               ? DOP_OK
               : DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s \"%s\" is not supported", full, name);
}

dop_status
dop_gi_encoder(dop_gi *gi)
{
    static const dop_pool_kind pools[] = {
        [POOL_MEAN] = DOP_BY_MEAN, [POOL_CLS] = DOP_BY_CLS, [POOL_LAST] = DOP_BY_LAST};
    dop_encoder *e = &gi->model->arch.encoder;
    dop_attention *t = &gi->layer.mixers[0].attn;
    const dop_family *f = gi->family;
    bool stated = false, causal = true;
    uint64_t pooling = POOL_NONE;
    dop_status st = dop_gi_flag(gi, DOP_GGUF(causal), true, &causal);
    if (st == DOP_OK)
        st = read_gguf_pooling(gi, &stated, &pooling);
    if (st != DOP_OK)
        return st;
    t->both = t->both || !causal || (f->gguf_encoders && dop_has_word(f->gguf_encoders, gi->name));
    e->used = e->used || stated || t->both || get_encoder_tensor(gi, "cls.output.weight");
    if (!e->used)
        return DOP_OK;
    if (f->recurrent && (t->both || !stated || pooling == POOL_RANK))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                           "%s: layers with states neither attend in both directions nor give scores of classes",
                           gi->name);
    if (f->recurrent) { /* hidden states are computed as by a text model */
        *e = (dop_encoder){0};
        return DOP_OK;
    }
    /* Files of rerankers may omit the pooling type; a classifier then identifies them. */
    const bool ranks =
        pooling == POOL_RANK ||
        (!stated && (get_encoder_tensor(gi, "cls.weight") || get_encoder_tensor(gi, "cls.output.weight")));
    leave_out(gi, ranks);
    e->n_types = get_product_width(gi, "token_types.weight");
    if (e->n_types == DOP_MAX_WIDTH + 1)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "tensor token_types.weight has too many rows");
    if (stated && pooling != POOL_RANK)
        e->pool = pools[pooling];
    else if (e->pool == DOP_BY_NONE)
        e->pool = t->both ? DOP_BY_MEAN : DOP_BY_LAST;
    if (ranks)
        e->pool = !t->both                              ? DOP_BY_LAST
                  : f->window_rule == DOP_WINDOW_GLOBAL ? DOP_BY_MEAN /* default of llama.cpp for all ModernBERT */
                                                        : DOP_BY_CLS;
    st = read_products(gi, ranks);
    if (st == DOP_OK && ranks && e->pool == DOP_BY_MEAN && e->dense[0].active)
        st = DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                         "an activation behind the mean of all tokens is not supported (tensor cls.weight)");
    e->normalized = e->classes == 0;
    gi->swaps = e->classes == 2 && yes_comes_first(gi);
    if (st == DOP_OK)
        st = f->flags & DOP_FAM_T5 ? read_gguf_t5(gi) : read_activation(gi);
    return st;
}

dop_status
dop_gi_swap_classes(const dop_gi *gi, const dop_weight_need *need, dop_weight *w)
{
    static const dop_role products[] = {DOP_W_dense1, DOP_W_dense2, DOP_W_dense3},
                          biases[] = {DOP_W_dense1_bias, DOP_W_dense2_bias, DOP_W_dense3_bias};
    const uint32_t n = gi->model->arch.encoder.n_dense;
    if (!gi->swaps || (need->role != products[n - 1] && need->role != biases[n - 1]))
        return DOP_OK;
    const size_t each =
        need->rank == 2 ? (size_t)w->row_stride : dop_type_of(w->type)->bytes; /* a bias has one value per class */
    uint8_t *copy = dop_arena_alloc(gi->model->arena, 2 * each);
    if (!copy)
        return DOP_NO_MEMORY(gi->diag);
    memcpy(copy, w->data + each, each);
    memcpy(copy + each, w->data, each);
    w->data = copy;
    return DOP_OK;
}
