/* Mixtures of experts in GGUF files: keys "expert_*", and tensors if keys are missing. */
#include "frontend/gguf/experts.h"
#include "frontend/families/families_experts.h"
#include "frontend/gguf/gguf_import.h"
#include "frontend/gguf/keys.h"
#include "frontend/gguf/open.h"

#include <stdio.h>
#include <string.h>

static const dop_gguf_tensor *
get_layer_tensor(const dop_gi *gi, uint32_t layer, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    return dop_gi_tensor(gi, full, NULL);
}

/* Returns the first layer with experts, or the number of layers if there is none. */
static uint32_t
find_first_expert_layer(const dop_gi *gi)
{
    uint32_t i = 0;
    while (i < gi->model->arch.n_layers && !get_layer_tensor(gi, i, "ffn_gate_inp.weight"))
        i++;
    return i;
}

/* Reads expert_gating_func: 1 softmax, 2 sigmoid; 0 or absent: the family's score. A correction implies a sigmoid. DeepSeek-V2,
 * which has softmax scores, ranks a group by its best expert. */
static dop_status
read_score(const dop_gi *gi, dop_experts *x)
{
    char full[96];
    uint64_t v = 0;
    const dop_gguf_kv *kv = dop_gi_find(gi, "expert_gating_func", full, sizeof full);
    if (!kv || (dop_gguf_u64(kv, 0, &v) && v == 0)) {
        if (gi->family->experts->gguf_plain && !x->correction) {
            x->score = DOP_SCORE_SOFTMAX;
            x->normalized = false;
            x->group_best = 1;
        }
        return DOP_OK;
    }
    if (v != 1 && v != 2)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not 1 (softmax) or 2 (sigmoid)", full);
    if (x->score != DOP_SCORE_NEAR)
        x->score = v == 1 ? DOP_SCORE_SOFTMAX : DOP_SCORE_SIGMOID;
    if (v == 1)
        x->group_best = 1;
    return DOP_OK;
}

static dop_status
read_gguf_choice(const dop_gi *gi, dop_experts *x)
{
    const dop_expert_keys *k = gi->family->experts;
    double scale = 0;
    DOP_RETURN_IF_ERROR(read_score(gi, x));
    DOP_RETURN_IF_ERROR(
        dop_gi_flag(gi, DOP_GGUF(expert_normalized), x->normalized || k->gguf_normalized, &x->normalized));
    DOP_RETURN_IF_ERROR(dop_gi_number(gi, DOP_GGUF(expert_scale), 0, &scale));
    if (scale > 0)
        /* 0: not stated */
        x->scale = scale;
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(expert_groups), 0, 1, &x->groups));
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(expert_groups_kept), 0, 1, &x->group_keep));
    if (x->groups <= 1)
        x->group_best = x->group_keep = 1;
    return DOP_OK;
}

/* Reads the width of the shared expert: as stated, or the number of shared experts times the width of one, or the rows of its
 * tensor. */
static dop_status
read_shared(const dop_gi *gi, uint32_t layer, dop_experts *x)
{
    const dop_gguf_tensor *up = get_layer_tensor(gi, layer, "ffn_up_shexp.weight");
    char full[96];
    uint32_t n = 0;
    if (!up)
        return DOP_OK;
    if (dop_gi_find(gi, DOP_GGUF(shared_width)->key, full, sizeof full))
        return dop_gi_size(gi, DOP_GGUF(shared_width), 0, 0, &x->shared_width);
    if (dop_gi_find(gi, DOP_GGUF(shared_experts)->key, full, sizeof full)) {
        dop_status st = dop_gi_size(gi, DOP_GGUF(shared_experts), 0, 0, &n);
        x->shared_width = n * x->width; /* at most 2^32; dop_arch_check() rejects excessive sizes */
        return st;
    }
    x->shared_width = up->dims[1] <= DOP_MAX_WIDTH ? (uint32_t)up->dims[1] : DOP_MAX_WIDTH + 1;
    return DOP_OK;
}

dop_status
dop_gi_experts(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    const dop_expert_keys *k = gi->family->experts;
    const uint32_t first = find_first_expert_layer(gi);
    if (!k || first == a->n_layers)
        return DOP_OK;
    dop_experts x = k->facts;
    dop_status st = dop_gi_size(gi, DOP_GGUF(experts), 0, 0, &x.n);
    if (st == DOP_OK)
        st = dop_gi_size(gi, DOP_GGUF(active_experts), 0, 0, &x.active);
    x.correction =
        get_layer_tensor(gi, first, "exp_probs_b.bias") != NULL || get_layer_tensor(gi, first, "exp_probs_b") != NULL;
    if (st == DOP_OK) /* Mixtral's files state a single width for all parts */
        st = dop_gi_size(gi, DOP_GGUF(expert_width), 0, a->layers[first].ffn.width, &x.width);
    if (st == DOP_OK)
        st = read_gguf_choice(gi, &x);
    if (st == DOP_OK)
        st = read_shared(gi, first, &x);
    for (uint32_t i = first; i < a->n_layers && st == DOP_OK; i++) {
        if (get_layer_tensor(gi, i, "ffn_gate_inp.weight"))
            dop_set_experts(k, a, &x, &a->layers[i]);
    }
    return st;
}
