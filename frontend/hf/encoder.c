/* Encoders: fields of config.json, and the modules of sentence-transformers (modules.json): pooling and dense
 * layers. */
#include "frontend/hf/encoder.h"
#include "frontend/facts/names.h"
#include "frontend/hf/hf.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

dop_status
dop_hf_both_ways(dop_hf *hf, dop_attention *t)
{
    bool causal = true, both = false;
    dop_status st = dop_fact_flag_or(&hf->cfg, DOP_HF(causal), true, &causal);
    /* Gemma 4: "vision", which concerns pictures (vision.c), or "all". */
    const json_t *which = dop_json_get(&hf->cfg, DOP_HF(both_ways)->key);
    if (st == DOP_OK && json_is_string(which))
        both = strcmp(json_string_value(which), "all") == 0;
    else if (st == DOP_OK)
        st = dop_fact_flag_or(&hf->cfg, DOP_HF(both_ways), false, &both);
    if (st == DOP_OK && (both || !causal) && !hf->headless && !hf->classes && !hf->model->arch.encoder.used)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                           "%s%s: a model that gives tokens cannot attend in both directions", hf->cfg.where,
                           both ? "use_bidirectional_attention is true" : "is_causal is false");
    t->both = t->both || both || !causal;
    return st;
}

dop_status
dop_hf_window_of_both(dop_hf *hf, uint32_t *io_window)
{
    const dop_attention *t = &hf->layer.mixers[0].attn;
    dop_status st = DOP_OK;
    if (hf->family->window_rule == DOP_WINDOW_GLOBAL) /* ModernBertConfig: half of local_attention on each side */
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(window_both), *io_window, io_window);
    if (t->both && *io_window)
        *io_window = *io_window / 2 + 1;
    return st;
}

/* Reads the number of classes: the length of id2label, or num_labels; default as in transformers: 2. */
static dop_status
read_classes(const dop_hf *hf, uint32_t *out)
{
    const json_t *labels = dop_json_get(&hf->top, "id2label");
    if (json_is_object(labels) && json_object_size(labels) > 0 && json_object_size(labels) <= DOP_MAX_WIDTH) {
        *out = (uint32_t)json_object_size(labels);
        return DOP_OK;
    }
    return dop_fact_u32_or(&hf->top, DOP_HF(classes), 2, out);
}

/* Sets the dense layers of class scores; decoders have one, "score", on the last row. */
static dop_status
read_class_head(dop_hf *hf)
{
    const dop_class_head *h = hf->family->class_head;
    dop_encoder *e = &hf->model->arch.encoder;
    uint32_t n = 0;
    const char *pool = NULL;
    dop_status st = read_classes(hf, &e->classes);
    if (st == DOP_OK)
        st = dop_json_str_or(&hf->cfg, "classifier_pooling", NULL, &pool);
    if (st == DOP_OK && pool && strcmp(pool, "cls") != 0 && h)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%sclassifier_pooling \"%.40s\" is not supported",
                           hf->cfg.where, pool);
    e->normalized = false;
    e->pool = h ? h->pool : DOP_BY_LAST;
    while (h && n < DOP_MAX_DENSE && h->names[n])
        n++;
    e->n_dense = h ? n : 1;
    for (uint32_t i = 0; i < e->n_dense; i++) {
        const bool last = i + 1 == e->n_dense;
        e->dense[i] = (dop_dense){.width = last ? e->classes : hf->model->arch.hidden,
                                  .bias = h && !(last ? h->no_bias : h->norm != NULL),
                                  .active = !last};
        if (!last && !dop_act_by_name(h->act, &e->dense[i].act))
            return DOP_FAIL(hf->diag, DOP_E_INTERNAL, "family %s: activation %s", hf->family->name, h->act);
        if (!last && h->norm)
            e->dense[i].norm = hf->model->arch.final_norm;
    }
    return st;
}

static dop_status
read_hf_t5(dop_hf *hf)
{
    const char *form = NULL;
    dop_ffn *f = &hf->layer.ffn;
    dop_encoder *e = &hf->model->arch.encoder;
    dop_status st = dop_json_str_or(&hf->cfg, "feed_forward_proj", "relu", &form);
    f->gated = form && strncmp(form, "gated-", 6) == 0;
    if (st == DOP_OK && f->gated && strcmp(form, "gated-gelu") == 0)
        f->act = DOP_ACT_GELU_TANH;
    else if (st == DOP_OK && !dop_act_by_name(f->gated ? form + 6 : form, &f->act))
        st = DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%sfeed_forward_proj \"%.40s\" is not supported",
                         hf->cfg.where, form);
    if (st == DOP_OK)
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(relative_buckets), 32, &e->relative.buckets);
    if (st == DOP_OK)
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(relative_distance), e->relative.most, &e->relative.most);
    return st;
}

/* CLIP: pools the row of the end-of-text token. eos_token_id 2, which old files state regardless of the tokenizer, stands for the
 * largest id (CLIPTextTransformer). Text-image models have an additional projection (CLIPTextModelWithProjection). */
static dop_status
read_clip(dop_hf *hf)
{
    static const char *const projected[] = {"CLIPTextModelWithProjection", "CLIPModel"};
    dop_encoder *e = &hf->model->arch.encoder;
    const char *arch = json_string_value(json_array_get(dop_json_get(&hf->top, "architectures"), 0));
    const uint32_t by_largest = 2;
    uint32_t width = 512;
    bool unnormed = false;
    dop_status st = dop_json_u32_or(&hf->cfg, "eos_token_id", 0, UINT32_MAX - 1, 49407, &e->end_id);
    if (e->end_id == by_largest)
        e->end_id = UINT32_MAX;
    if (st == DOP_OK)
        st = dop_fact_flag_or(&hf->cfg, DOP_HF(no_final_norm), false, &unnormed);
    if (unnormed)
        hf->model->arch.final_norm = (dop_norm){0};
    for (size_t i = 0; i < 2 && arch; i++)
        hf->projected = hf->projected || strcmp(arch, projected[i]) == 0;
    if (st == DOP_OK)
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(projection_width), width, &width);
    if (st == DOP_OK) /* text-image model: text and picture part */
        st = dop_fact_u32_or(&hf->top, DOP_HF(projection_width), width, &width);
    if (hf->projected)
        e->dense[e->n_dense++] = (dop_dense){.width = width};
    return st;
}

/* Checks that the relative position bias extends beyond the distances that have a bucket of their own. */
static dop_status
check_relative(const dop_hf *hf)
{
    const dop_relative *r = &hf->model->arch.encoder.relative;
    if (r->buckets && (r->buckets % 4 || r->most <= r->buckets / 4))
        return DOP_FAIL_IN(
            hf->diag, DOP_E_INPUT, hf->path,
            "%srelative_attention_num_buckets %u for distances up to %u: expected a multiple of 4, below "
            "four times the distance",
            hf->cfg.where, r->buckets, r->most);
    return DOP_OK;
}

/* Fails for unsupported encoder variants: other position embeddings (jina-embeddings-v3), experts (nomic-embed-v2-moe), and
 * unpublished variants of Alibaba's "new" implementation. */
static dop_status
check_variants(const dop_hf *hf)
{
    const bool learned = hf->family->flags & DOP_FAM_LEARNED_POS, new = dop_json_has(&hf->cfg, "layer_norm_type");
    const char *const fields[][2] = {{"layer_norm_type", "layer_norm"},
                                     {"position_embedding_type", learned ? "absolute" : "rope"}};
    bool scaled = false;
    uint32_t experts = 0;
    dop_status st = DOP_OK;
    for (size_t i = 0; i < 2 && (learned || new) && st == DOP_OK; i++) {
        const char *name = NULL;
        st = dop_json_str_or(&hf->cfg, fields[i][0], fields[i][1], &name);
        if (st == DOP_OK && strcmp(name, fields[i][1]) != 0)
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s is \"%.40s\", expected \"%s\"", hf->cfg.where,
                               fields[i][0], name, fields[i][1]);
    }
    if (st == DOP_OK && new)
        st = dop_json_bool_or(&hf->cfg, "logn_attention_scale", false, &scaled);
    if (st == DOP_OK && scaled)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%slogn_attention_scale is not supported", hf->cfg.where);
    if (st == DOP_OK && (hf->family->flags & DOP_FAM_ENCODER))
        st = dop_json_u32_or(&hf->cfg, "num_experts", 0, UINT16_MAX, 0, &experts);
    return experts ? DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                                 "%snum_experts is %u: encoders with experts are not supported", hf->cfg.where, experts)
                   : st;
}

dop_status
dop_hf_encoder(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    dop_encoder *e = &a->encoder;
    const uint64_t has = hf->family->flags;
    dop_status st = DOP_OK;
    if (hf->headless || hf->classes)
        e->used = true;
    if (!e->used)
        return DOP_OK;
    e->normalized = true;
    if (e->pool == DOP_BY_NONE)
        e->pool = DOP_BY_LAST;
    if (hf->family->types)
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(token_types), hf->family->types, &e->n_types);
    if (has & DOP_FAM_POSITIONS_2) {
        if (a->ctx_train <= 2)
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s is %u, expected at least 3", hf->cfg.where,
                               hf->family->keys->ctx, a->ctx_train);
        a->ctx_train -= 2;
    }
    if (st == DOP_OK && (has & DOP_FAM_T5))
        st = read_hf_t5(hf);
    else if (st == DOP_OK && e->relative.most) /* MPNet */
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(relative_buckets), 32, &e->relative.buckets);
    if (st == DOP_OK && e->pool == DOP_BY_END)
        st = read_clip(hf);
    if (st == DOP_OK)
        st = check_relative(hf);
    if (st == DOP_OK)
        st = check_variants(hf);
    hf->layer.mixers[0].attn.relative = e->relative.buckets > 0;
    if (st == DOP_OK && hf->classes)
        st = read_class_head(hf);
    return st;
}

/* ---- modules of sentence-transformers ---- */

/* Returns the last part of a module's class name: "Pooling" of "sentence_transformers.models.Pooling". */
static const char *
get_module_class(const json_t *module)
{
    const char *type = json_string_value(json_object_get(module, "type")), *dot = type ? strrchr(type, '.') : NULL;
    return dot ? dot + 1 : type ? type : "";
}

static dop_status
open_module(const dop_hf *hf, const char *modules, const json_t *module, json_t **out_root, dop_json *out)
{
    const char *folder = json_string_value(json_object_get(module, "path"));
    if (folder && *folder && !dop_path_is_inside(folder))
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, modules,
                           "the path \"%.100s\" of a module leads out of the model's folder", folder);
    const char *path = dop_arena_printf(hf->arena, "%s/%s/config.json", hf->dir, folder ? folder : "");
    if (!path)
        return DOP_NO_MEMORY(hf->diag);
    DOP_RETURN_IF_ERROR(dop_json_decode_file(&(dop_json_how){.path = path}, hf->diag, out_root));
    return dop_json_root(*out_root, path, hf->diag, out);
}

static dop_status
read_hf_pooling(dop_hf *hf, const dop_json *j)
{
    static const struct {
        const char *field, *name;
        dop_pool_kind pool;
    } kinds[] = {{"pooling_mode_cls_token", "cls", DOP_BY_CLS},
                 {"pooling_mode_mean_tokens", "mean", DOP_BY_MEAN},
                 {"pooling_mode_lasttoken", "lasttoken", DOP_BY_LAST},
                 {"pooling_mode_max_tokens", "max", DOP_BY_NONE},
                 {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", DOP_BY_NONE},
                 {"pooling_mode_weightedmean_tokens", "weightedmean", DOP_BY_NONE}};
    dop_encoder *e = &hf->model->arch.encoder;
    const char *mode = NULL;
    uint32_t n = 0;
    bool with_prompt = true;
    dop_status st = dop_json_str_or(j, "pooling_mode", NULL, &mode);
    if (st == DOP_OK)
        st = dop_json_bool_or(j, "include_prompt", true, &with_prompt);
    for (size_t i = 0; st == DOP_OK && i < sizeof kinds / sizeof *kinds; i++) {
        bool on = false;
        st = dop_json_bool_or(j, kinds[i].field, false, &on);
        on = on || (mode && strcmp(mode, kinds[i].name) == 0);
        if (st != DOP_OK || !on)
            continue;
        n++;
        e->pool = kinds[i].pool;
        if (e->pool == DOP_BY_NONE)
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, j->path,
                               "pooling \"%s\" is not supported; known: cls, mean, lasttoken", kinds[i].name);
    }
    if (st == DOP_OK && !with_prompt && e->pool == DOP_BY_MEAN)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, j->path,
                           "include_prompt false (a mean without the tokens of the prompt) is not supported");
    if (st == DOP_OK && n > 1)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, j->path,
                           "vectors of %u kinds of pooling beside each other are not supported", n);
    return st;
}

static dop_status
read_dense(dop_hf *hf, const json_t *module, const dop_json *j)
{
    dop_encoder *e = &hf->model->arch.encoder;
    const char *act = NULL, *folder = json_string_value(json_object_get(module, "path"));
    uint32_t in = 0;
    if (e->n_dense == DOP_MAX_DENSE)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, j->path, "more than %d products are not supported", DOP_MAX_DENSE);
    dop_dense *d = &e->dense[e->n_dense];
    *d = (dop_dense){0};
    dop_status st = dop_json_u32(j, "in_features", 1, DOP_MAX_WIDTH, &in);
    if (st == DOP_OK)
        st = dop_json_u32(j, "out_features", 1, DOP_MAX_WIDTH, &d->width);
    if (st == DOP_OK)
        st = dop_json_bool_or(j, "bias", true, &d->bias);
    if (st == DOP_OK)
        st = dop_json_str_or(j, "activation_function", "torch.nn.modules.activation.Tanh", &act);
    if (st != DOP_OK)
        return st;
    if (in != dop_dense_in(e, hf->model->arch.hidden, e->n_dense))
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, j->path, "in_features is %u, expected %u", in,
                           dop_dense_in(e, hf->model->arch.hidden, e->n_dense));
    const char *dot = strrchr(act, '.'), *name = dot ? dot + 1 : act;
    d->active = strcmp(name, "Identity") != 0;
    d->act = strcmp(name, "Tanh") == 0 ? DOP_ACT_TANH : strcmp(name, "ReLU") == 0 ? DOP_ACT_RELU : DOP_ACT_GELU;
    if (d->active && strcmp(name, "GELU") != 0 && d->act == DOP_ACT_GELU)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, j->path, "activation_function \"%.60s\" is not supported", act);
    /* Products can be applied to the mean instead of each row only without activation and bias, or if a single row is
     * pooled. */
    if (d->active && e->pool == DOP_BY_MEAN)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, j->path,
                           "an activation behind the mean of all tokens is not supported");
    hf->dense_dirs[e->n_dense++] = folder ? dop_arena_printf(hf->arena, "%s/%s", hf->dir, folder) : NULL;
    return hf->dense_dirs[e->n_dense - 1] ? DOP_OK : DOP_NO_MEMORY(hf->diag);
}

static dop_status
read_sentence_module(dop_hf *hf, const json_t *module, const char *path)
{
    const char *type = get_module_class(module);
    json_t *root = NULL;
    dop_json j = {0};
    dop_status st = DOP_OK;
    if (strcmp(type, "Transformer") == 0)
        return DOP_OK;
    if (strcmp(type, "Normalize") == 0) {
        hf->model->arch.encoder.normalized = true;
        return DOP_OK;
    }
    if (strcmp(type, "Pooling") != 0 && strcmp(type, "Dense") != 0)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, path,
                           "module \"%.60s\" is not supported; known: Transformer, Pooling, Dense, Normalize", type);
    st = open_module(hf, path, module, &root, &j);
    if (st == DOP_OK)
        st = strcmp(type, "Pooling") == 0 ? read_hf_pooling(hf, &j) : read_dense(hf, module, &j);
    json_decref(root);
    return st;
}

static dop_status
read_modules(dop_hf *hf)
{
    const char *path = dop_arena_printf(hf->arena, "%s/modules.json", hf->dir);
    json_t *root = NULL;
    if (!path)
        return DOP_NO_MEMORY(hf->diag);
    if (access(path, F_OK) != 0 || hf->classes)
        return DOP_OK;
    dop_status st = DOP_OK;
    DOP_TRY(dop_json_decode_file(&(dop_json_how){.path = path}, hf->diag, &root));
    if (!json_is_array(root))
        DOP_TRY(DOP_FAIL_IN(hf->diag, DOP_E_INPUT, path, "is not a list of modules"));
    hf->model->arch.encoder.normalized = false;
    for (size_t i = 0; i < json_array_size(root); i++)
        DOP_TRY(read_sentence_module(hf, json_array_get(root, i), path));
error:
    json_decref(root);
    return st;
}

dop_status
dop_hf_settle_encoder(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    bool fits = true;
    if (!a->encoder.used)
        return DOP_OK;
    for (uint32_t i = 0; i < a->n_layers; i++) {
        const dop_layer *y = &a->layers[i];
        fits = fits && y->n_mixers == 1 && y->mixers[0].kind == DOP_MIXER_ATTENTION;
    }
    if (!fits && !hf->classes) { /* layers with states: hidden states are computed as by a text model */
        a->encoder = (dop_encoder){0};
        return DOP_OK;
    }
    if (!fits)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s: scores of classes need attention in every layer",
                           hf->family->name);
    if (hf->family->window_rule == DOP_WINDOW_GLOBAL) /* ModernBertEncoderLayer: the embedding was already normalized */
        a->layers[0].attn_norm = (dop_norm){0};
    return read_modules(hf);
}

const char *
dop_hf_dense_name(const dop_hf *hf, dop_role role, uint32_t *out_dense)
{
    static const struct {
        dop_role role, bias, norm, norm_bias;
    } roles[DOP_MAX_DENSE] = {{DOP_W_dense1, DOP_W_dense1_bias, DOP_W_dense1_norm, DOP_W_dense1_norm_bias},
                              {DOP_W_dense2, DOP_W_dense2_bias, DOP_W_dense2_norm, DOP_W_dense2_norm_bias},
                              {DOP_W_dense3, DOP_W_dense3_bias, DOP_W_dense3_norm, DOP_W_dense3_norm_bias}};
    const dop_class_head *h = hf->family->class_head;
    for (uint32_t i = 0; i < DOP_MAX_DENSE; i++) {
        const bool norm = role == roles[i].norm || role == roles[i].norm_bias;
        const bool bias = role == roles[i].bias || role == roles[i].norm_bias;
        if (role != roles[i].role && !bias && !norm)
            continue;
        const char *name = hf->dense_dirs[i] ? "linear"
                           : norm            ? h->norm
                           : h               ? h->names[i]
                           : hf->projected   ? "text_projection"
                                             : "score";
        *out_dense = i;
        return dop_arena_printf(hf->arena, "%s.%s", name, bias ? "bias" : "weight");
    }
    return NULL;
}
