#include "frontend/facts/leftovers.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static const char *const reasons[DOP_N_EXCUSES] = {
    [DOP_EXCUSE_ROTARY] = "rotary frequencies, which are computed from the rotary base",
    [DOP_EXCUSE_MASK] = "attention masks, which the kernels know",
    [DOP_EXCUSE_VISION] = "of the vision part: only text is compiled",
    [DOP_EXCUSE_AUDIO] = "of the audio part: only text is compiled",
    [DOP_EXCUSE_DRAFT] = "of layers that predict further tokens, which are not compiled",
    [DOP_EXCUSE_TIED] = "output matrix: the embedding is used for it, as the configuration says",
    [DOP_EXCUSE_ACT_EPS] = "bounds near 0 of xIELU activations, which change no value by more than they are",
    [DOP_EXCUSE_SHARED] = "keys and values of layers that take those of another layer",
    [DOP_EXCUSE_ADAPTER] = "of adapters that other layers use with the same shared block, or copies of that block",
    [DOP_EXCUSE_HEAD] = "of heads for other tasks, which vectors and scores of texts do not use",
    [DOP_EXCUSE_LIST] = "of a drafter: a second list of its tokens, copies of what its model has",
    [DOP_EXCUSE_DRAFTER] = "of a drafter: an embedding, where the model's is read, and clusters of tokens",
    [DOP_EXCUSE_CACHE_SCALE] = "scales of a quantized cache or of attention, which the cache here does not use",
    [DOP_EXCUSE_ZERO_BIAS] = "biases that a quantizer wrote, all zero",
};

/* Excused names: patterns of fnmatch(). The first match counts. */
static const struct {
    const char *pattern;
    dop_excuse excuse;
} patterns[] = {
    {"*rotary_emb.inv_freq", DOP_EXCUSE_ROTARY},
    {"*rotary_pos_emb.inv_freq", DOP_EXCUSE_ROTARY},
    {"*rotary_emb.???_cached", DOP_EXCUSE_ROTARY},
    {"*.attn.bias", DOP_EXCUSE_MASK}, /* GPT-2: a triangular mask of ones, not a bias */
    {"*.attn.masked_bias", DOP_EXCUSE_MASK},
    {"*.attention.bias", DOP_EXCUSE_MASK},
    {"*.attention.masked_bias", DOP_EXCUSE_MASK},
    {"*.attn.[kqv]_scale", DOP_EXCUSE_CACHE_SCALE},
    {"*_attn.[kqv]_scale", DOP_EXCUSE_CACHE_SCALE},
    {"*_attn.[kv]_zero_point", DOP_EXCUSE_CACHE_SCALE},
    {"*_attn.kv_scale", DOP_EXCUSE_CACHE_SCALE},
    {"*_attn.prob_output_scale", DOP_EXCUSE_CACHE_SCALE},
    {"*_attn.attn.prob_scale", DOP_EXCUSE_CACHE_SCALE},
    {"*.[kv]_proj.[kv]_scale", DOP_EXCUSE_CACHE_SCALE}, /* scales of caches or matrices that are not quantized */
    {"*.[kqv]_proj.output_scale", DOP_EXCUSE_CACHE_SCALE},
    {"*.mlp.act_fn.eps", DOP_EXCUSE_ACT_EPS},
    {"vision_*", DOP_EXCUSE_VISION},
    {"model.vision_*", DOP_EXCUSE_VISION},
    {"visual.*", DOP_EXCUSE_VISION},
    {"visual_projection.*", DOP_EXCUSE_VISION},
    {"model.visual.*", DOP_EXCUSE_VISION},
    {"multi_modal_projector.*", DOP_EXCUSE_VISION},
    {"model.multi_modal_projector.*", DOP_EXCUSE_VISION},
    {"embed_vision.*", DOP_EXCUSE_VISION},
    {"model.embed_vision.*", DOP_EXCUSE_VISION},
    {"patch_merger.*", DOP_EXCUSE_VISION},
    {"connector.*", DOP_EXCUSE_VISION},
    {"model.connector.*", DOP_EXCUSE_VISION},
    {"image_newline", DOP_EXCUSE_VISION},
    {"model.image_newline", DOP_EXCUSE_VISION},
    {"audio_*", DOP_EXCUSE_AUDIO},
    {"model.audio_*", DOP_EXCUSE_AUDIO},
    {"embed_audio.*", DOP_EXCUSE_AUDIO},
    {"model.embed_audio.*", DOP_EXCUSE_AUDIO},
    {"encoder.*", DOP_EXCUSE_AUDIO},
    {"projector.*", DOP_EXCUSE_AUDIO},
    {"pooler.*", DOP_EXCUSE_HEAD},
    {"*.pooler.*", DOP_EXCUSE_HEAD},
    {"cls.*", DOP_EXCUSE_HEAD},
    {"classifier.*", DOP_EXCUSE_HEAD},
    {"lm_head.*", DOP_EXCUSE_HEAD},
    {"vocab_*", DOP_EXCUSE_HEAD},
    {"head.*", DOP_EXCUSE_HEAD},
    {"decoder.*", DOP_EXCUSE_HEAD},
    {"*.position_ids", DOP_EXCUSE_HEAD},
    {"text_projection.*", DOP_EXCUSE_HEAD},
    {"logit_scale", DOP_EXCUSE_HEAD},
    {"*.gate_up_proj_adapter_list.*", DOP_EXCUSE_ADAPTER},
    {"mtp.*", DOP_EXCUSE_DRAFT},
    {"model.mtp.*", DOP_EXCUSE_DRAFT},
    {"model.mtp_layers.*", DOP_EXCUSE_DRAFT}, /* MiMo */
    {"t2d", DOP_EXCUSE_LIST},
    {"model.t2d", DOP_EXCUSE_LIST},
    {"verifier_norm.weight", DOP_EXCUSE_LIST},
    {"verifier_lm_head.weight", DOP_EXCUSE_LIST},
    {"masked_embedding.*", DOP_EXCUSE_DRAFTER},
    {"model.embed_tokens.weight", DOP_EXCUSE_DRAFTER}, /* a drafter uses its model's embedding */
    {"token_embd.weight", DOP_EXCUSE_DRAFTER},
    {"lm_head.weight", DOP_EXCUSE_TIED},
    {"proj_out.weight", DOP_EXCUSE_TIED},
    {"*.lm_head.weight", DOP_EXCUSE_TIED},
};

dop_status
dop_checkpoint_note(dop_checkpoint *m, const char *text, dop_diag *diag)
{
    m->note = m->note ? dop_arena_printf(m->arena, "%s; %s", m->note, text) : dop_arena_strdup(m->arena, text);
    return m->note ? DOP_OK : DOP_NO_MEMORY(diag);
}

static bool
find_excuse(const dop_leftovers *l, const char *name, uint32_t rank, dop_excuse *out)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const bool head = patterns[i].excuse == DOP_EXCUSE_HEAD;
        if ((head && !l->model->arch.encoder.used) || fnmatch(patterns[i].pattern, name, 0) != 0)
            continue;
        *out = patterns[i].excuse;
        return !(*out == DOP_EXCUSE_AUDIO && l->model->arch.encoder.used) && !(*out == DOP_EXCUSE_MASK && rank == 1) &&
               !(*out == DOP_EXCUSE_TIED && !l->model->arch.tied);
    }
    return false;
}

/* Returns the layer number in a tensor's name; -1: none. */
static long
get_tensor_layer(const dop_leftovers *l, const char *name)
{
    const char *at = strstr(name, l->layer_prefix);
    char *end = NULL;
    if (!at || (at != name && at[-1] != '.'))
        return -1;
    at += strlen(l->layer_prefix);
    const long n = strtol(at, &end, 10);
    return end != at && *end == '.' && n >= 0 ? n : -1;
}

/* True if a tensor is for keys or values of a layer that uses another layer's. Checkpoints may hold such unused
 * tensors. */
static bool
is_of_shared_layer(const dop_leftovers *l, const char *name, long layer)
{
    static const char *const kinds[] = {"*.k_proj.*", "*.v_proj.*", "*.k_norm.*",     "*.v_norm.*",
                                        "*.attn_k.*", "*.attn_v.*", "*.attn_k_norm.*"};
    if (layer < 0 || layer >= (long)l->model->arch.n_layers)
        return false;
    const dop_attention *t = dop_layer_attention(&l->model->arch.layers[layer]);
    for (size_t i = 0; t && t->shares && i < sizeof kinds / sizeof *kinds; i++)
        if (fnmatch(kinds[i], name, 0) == 0)
            return true;
    return false;
}

dop_status
dop_leftovers_add(dop_leftovers *l, const char *name, uint32_t rank, const char *file)
{
    const uint32_t n = l->model->arch.n_layers;
    const long layer = get_tensor_layer(l, name);
    dop_excuse why = DOP_EXCUSE_DRAFT;
    if (is_of_shared_layer(l, name, layer)) {
        l->excused[DOP_EXCUSE_SHARED]++;
        return DOP_OK;
    }
    if ((layer >= (long)n && layer - (long)n < (long)l->draft_layers) || find_excuse(l, name, rank, &why)) {
        l->excused[why]++;
        return DOP_OK;
    }
    if (l->n_unknown++ > 0)
        return DOP_OK;
    l->file = file;
    l->unknown = dop_arena_strdup(l->model->arena, name);
    return l->unknown ? DOP_OK : DOP_NO_MEMORY(l->diag);
}

static dop_status
fail_unknown_tensors(const dop_leftovers *l)
{
    char more[48] = "";
    const long layer = get_tensor_layer(l, l->unknown);
    if (l->n_unknown > 1)
        snprintf(more, sizeof more, " (and of %u tensors more)", l->n_unknown - 1);
    if (layer >= (long)l->model->arch.n_layers)
        return DOP_FAIL_IN(l->diag, DOP_E_INPUT, l->file, "tensor %s is of layer %ld, but %s is %u", l->unknown, layer,
                           l->layers_key, l->model->arch.n_layers);
    return DOP_FAIL_IN(l->diag, DOP_E_INPUT, l->file,
                       "tensor %s: %s says nothing of it%s, so leaving it out would "
                       "compile another model",
                       l->unknown, l->facts, more);
}

dop_status
dop_leftovers_finish(dop_leftovers *l)
{
    dop_buf text = {0};
    dop_checkpoint *m = l->model;
    if (l->n_unknown)
        return fail_unknown_tensors(l);
    for (int i = 0; i < DOP_N_EXCUSES; i++)
        if (l->excused[i])
            dop_buf_printf(&text, "%s%u %s", text.size ? "; " : "tensors not used: ", l->excused[i], reasons[i]);
    dop_status st = DOP_OK;
    if (text.failed)
        DOP_TRY(DOP_NO_MEMORY(l->diag));
    if (text.size)
        DOP_TRY(dop_checkpoint_note(m, text.data, l->diag));
error:
    dop_buf_finish(&text);
    return st;
}
