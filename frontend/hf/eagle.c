/* Drafters. dop_sharer: Gemma 4's assistant, whose text_config is that of a Gemma 4 with few layers. dop_eagle: EAGLE-3's
 * original layout (config.json of a one-layer Llama, with more fields), and the layout of "speculators", with the layer's fields
 * in transformer_layer_config. */
#include "frontend/hf/eagle.h"
#include "frontend/facts/arch.h"
#include "frontend/facts/weights.h"
#include "frontend/hf/hf.h"

#include <stdio.h>
#include <string.h>

/* Returns the object that has a field of the drafter: the outermost one of config.json, or its eagle_config. */
static const dop_json *
find_field_holder(const dop_hf *hf, const dop_json *own, const char *key)
{
    return own->object && dop_json_has(own, key) ? own : &hf->top;
}

/* Reads the model streams that the drafter reads. Numbers are layers whose input stream is read. If the first number is 1, they
 * are layers whose result is read: writers of such files disagree, and no drafter reads a stream that early. */
static dop_status
read_hf_streams(const dop_hf *hf, const dop_json *own, dop_eagle *e)
{
    static const char key[] = "eagle_aux_hidden_state_layer_ids";
    const dop_json *j = find_field_holder(hf, own, key);
    const json_t *list = dop_json_get(j, key);
    e->defaults = !list || json_is_null(list) || (json_is_array(list) && json_array_size(list) == 0);
    e->n = 3;
    if (e->defaults)
        return DOP_OK;
    if (!json_is_array(list) || json_array_size(list) > DOP_MAX_JOINED)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s is no list of up to %d layers", j->where, key,
                           DOP_MAX_JOINED);
    e->n = (uint32_t)json_array_size(list);
    for (uint32_t i = 0; i < e->n; i++) {
        double v = -1;
        if (!dop_json_number(json_array_get(list, i), &v) || !(v >= 0 && v <= DOP_MAX_LAYERS) ||
            v != (double)(uint32_t)v)
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s[%u] is no layer", j->where, key, i);
        e->from[i] = (uint32_t)v;
    }
    for (uint32_t i = e->n; e->from[0] == 1 && i-- > 0;)
        e->from[i]++;
    return DOP_OK;
}

static dop_status
read_eagle_norms(dop_hf *hf, const dop_json *own, dop_eagle *e)
{
    const dop_norm norm = {.kind = DOP_NORM_RMS};
    bool each = false, joined = false;
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(find_field_holder(hf, own, DOP_HF(draft_residual_normed)->key),
                                         DOP_HF(draft_residual_normed), hf->cfg.object != hf->top.object,
                                         &e->residual_normed));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(find_field_holder(hf, own, DOP_HF(draft_each_normed)->key),
                                         DOP_HF(draft_each_normed), false, &each));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(find_field_holder(hf, own, DOP_HF(draft_joined_normed)->key),
                                         DOP_HF(draft_joined_normed), false, &joined));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(find_field_holder(hf, own, DOP_HF(draft_result_normed)->key),
                                         DOP_HF(draft_result_normed), false, &hf->model->arch.drafts_normed));
    e->each_norm = each ? norm : e->each_norm;
    e->norm = joined ? norm : e->norm;
    return DOP_OK;
}

dop_status
dop_hf_eagle(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    dop_eagle e = {.vocab = a->vocab};
    dop_json own = {0};
    uint32_t hidden = a->hidden;
    DOP_RETURN_IF_ERROR(dop_json_sub(&hf->top, "eagle_config", &own));
    if (a->n_layers != 1)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "a drafter of %u layers is not supported, only one of 1",
                           a->n_layers);
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->top, DOP_HF(draft_vocab), a->vocab, &e.vocab));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->top, DOP_HF(drafted_hidden), a->hidden, &hidden));
    if (hidden != a->hidden)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                           "a drafter of hidden size %u for models of %u is not supported", a->hidden, hidden);
    if (e.vocab > a->vocab)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "draft_vocab_size %u is more than vocab_size %u", e.vocab,
                           a->vocab);
    DOP_RETURN_IF_ERROR(read_hf_streams(hf, &own, &e));
    DOP_RETURN_IF_ERROR(read_eagle_norms(hf, &own, &e));
    dop_arch_make_drafter(a, &e);
    return DOP_OK;
}

dop_status
dop_hf_reader(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    uint32_t hidden = 0;
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->top, DOP_HF(backbone_hidden), 1536, &hidden));
    if (a->inputs.width)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                           "%shidden_size_per_layer_input is %u: a drafter's layers have no inputs of their own",
                           hf->cfg.where, a->inputs.width);
    dop_arch_make_reader(a, hidden);
    return DOP_OK;
}

void
dop_hf_eagle_tensors(dop_hf *hf, const dop_st_set *set, const char **out_root, const char **out_inside)
{
    static const char *const layers[] = {"midlayer.", "layers.0.", "model.midlayer.", "model.layers.0."};
    dop_eagle *e = &hf->model->arch.layers[0].eagle;
    char name[64];
    *out_inside = layers[0];
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        snprintf(name, sizeof name, "%shidden_norm.weight", layers[i]);
        *out_inside = dop_st_find(set, name) ? layers[i] : *out_inside;
    }
    *out_root = dop_st_find(set, "model.fc.weight") ? "model." : "";
    snprintf(name, sizeof name, "%sembed_tokens.weight", *out_root);
    e->embeds = dop_st_find(set, name);
    e->head = dop_st_find(set, "lm_head.weight");
    e->listed = dop_st_find(set, "d2t") && (e->head || e->vocab < hf->model->arch.vocab);
}

dop_status
dop_hf_eagle_list(dop_hf *hf, const dop_st_set *set, const char *name, dop_weight *w)
{
    const dop_st_tensor *t = dop_st_take(set, name);
    const uint64_t shape[] = {w->cols};
    if (!t)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, set->path, "tensor %s is missing", name);
    const bool wide = dop_st_is(t, "I64");
    DOP_RETURN_IF_ERROR(dop_st_check_shape(t, 1, shape, hf->diag));
    if (!wide && !dop_st_is(t, "I32"))
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, t->file, "tensor %s: dtype %s is not supported; known: I64, I32",
                           t->name, t->dtype);
    return dop_drafter_list(t->data, wide ? 8 : 4, true, hf->model->arch.vocab, t->file, t->name, hf->arena, hf->diag,
                            w);
}
