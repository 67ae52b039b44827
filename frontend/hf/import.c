/* Imports Hugging Face directories: facts and weights from config.json and safetensors. */
#include "frontend/hf/import.h"
#include "frontend/families/families.h"
#include "frontend/hf/config.h"
#include "frontend/hf/hf.h"
#include "frontend/hf/parts.h"
#include "frontend/hf/quant.h"
#include "frontend/hf/reranker.h"
#include "frontend/hf/text.h"
#include "frontend/hf/weights.h"

#include <string.h>

static dop_status
fail_unknown_family(const dop_hf *hf, const char *what, const char *name)
{
    return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                       "%s \"%.80s\" is not supported; dopplerc --list-models has the names that are", what, name);
}

/* True if a model of this architecture gives scores of a whole text. */
static bool
scores_texts(const char *arch)
{
    static const char end[] = "ForSequenceClassification";
    const size_t n = strlen(arch);
    return n > strlen(end) && strcmp(arch + n - strlen(end), end) == 0;
}

/* Sets *out_is if the model is an EAGLE drafter. Its layer is a Llama's, and some files state nothing else. */
static dop_status
find_drafter(dop_hf *hf, bool *out_is)
{
    const json_t *list = dop_json_get(&hf->top, "architectures"),
                 *first = json_is_array(list) ? json_array_get(list, 0) : NULL;
    const char *type = NULL;
    const dop_family *named = first && json_is_string(first) ? dop_family_by_arch(json_string_value(first)) : NULL;
    *out_is = (named && named->flags & DOP_FAM_EAGLE) || dop_json_has(&hf->top, DOP_HF(draft_vocab)->key);
    if (!*out_is)
        return DOP_OK;
    hf->family = dop_family_by_arch("LlamaForCausalLMEagle3");
    dop_status st = dop_json_str_or(&hf->top, "speculators_model_type", "eagle3", &type);
    if (st == DOP_OK && strcmp(type, "eagle3") != 0)
        return fail_unknown_family(hf, "speculators_model_type", type);
    st = st == DOP_OK ? dop_json_str_or(&hf->cfg, "model_type", "llama", &type) : st;
    return st == DOP_OK && strcmp(type, "llama") != 0 && strcmp(type, "eagle3") != 0
               ? fail_unknown_family(hf, "a drafter's layer of model_type", type)
               : st;
}

/* Finds the family named by `architectures`. model_type decides only if the list is absent or names a multimodal model. If both
 * name a family they must agree, because programs differ in the field they use. An unknown model_type is an error: it may be
 * another model under a known architecture's name. */
static dop_status
find_hf_family(dop_hf *hf)
{
    const bool parts = hf->cfg.object != hf->top.object;
    const char *const key = parts ? "text_config.model_type" : "model_type";
    const json_t *list = dop_json_get(&hf->top, "architectures");
    const char *model_type = NULL;
    bool drafter = false;
    dop_status st = find_drafter(hf, &drafter);
    if (st == DOP_OK && !drafter)
        st = dop_json_str_or(&hf->cfg, "model_type", NULL, &model_type);
    if (st != DOP_OK || drafter)
        return st;
    if (list && (!json_is_array(list) || json_array_size(list) == 0 || !json_is_string(json_array_get(list, 0))))
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "architectures is not a list of names");
    if (!list && !model_type)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "architectures and model_type are both missing");
    const dop_family *by_type = model_type ? dop_family_by_model_type(model_type) : NULL;
    const char *arch = list ? json_string_value(json_array_get(list, 0)) : NULL;
    hf->family = arch ? dop_family_by_arch(arch) : by_type;
    if (arch && !hf->family && (hf->family = dop_family_without_head(arch)))
        hf->headless = arch;
    if (arch && parts && model_type && dop_hf_any_text_part(arch))
        hf->family = by_type;
    else if (arch && !hf->family && (hf->family = dop_family_with_classes(arch)) && !scores_texts(arch))
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                           "%.80s gives scores of classes in place of tokens, which is not supported", arch);
    else if (arch && !hf->family)
        return fail_unknown_family(hf, "architecture", arch);
    if (!hf->family || (model_type && !by_type))
        return fail_unknown_family(hf, key, model_type);
    hf->classes = arch && scores_texts(arch);
    if (by_type && !dop_family_has_model_type(hf->family, model_type))
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                           "architectures names %s, which is %s, but %s is \"%s\": one of the two is wrong", arch,
                           hf->family->name, key, model_type);
    return DOP_OK;
}

static dop_status
open_config(dop_hf *hf)
{
    if (!hf->root)
        DOP_RETURN_IF_ERROR(dop_json_decode_file(&(dop_json_how){.path = hf->path}, hf->diag, &hf->root));
    DOP_RETURN_IF_ERROR(dop_json_root(hf->root, hf->path, hf->diag, &hf->top));
    DOP_RETURN_IF_ERROR(dop_json_sub(&hf->top, "text_config", &hf->cfg));
    if (!hf->cfg.object)
        DOP_RETURN_IF_ERROR(dop_json_sub(&hf->top, "transformer_layer_config", &hf->cfg));
    if (!hf->cfg.object)
        hf->cfg = hf->top;
    return DOP_OK;
}

/* Reads the published name of the model, "org/name" or "name"; a path on its author's disk is ignored. */
static dop_status
read_published_name(dop_hf *hf)
{
    const char *name = NULL;
    dop_status st = dop_json_str_or(&hf->top, "_name_or_path", NULL, &name);
    const char *slash = name ? strchr(name, '/') : NULL;
    if (st != DOP_OK || !name || *name == '/' || *name == '.' || (slash && strchr(slash + 1, '/')))
        return st;
    hf->model->name = dop_arena_strdup(hf->arena, slash ? slash + 1 : name);
    return hf->model->name ? DOP_OK : DOP_NO_MEMORY(hf->diag);
}

dop_status
dop_hf_facts(dop_hf *hf)
{
    if (!hf->path)
        hf->path = hf->root ? hf->dir : dop_arena_printf(hf->arena, "%s/config.json", hf->dir);
    if (!hf->path)
        return DOP_NO_MEMORY(hf->diag);
    DOP_RETURN_IF_ERROR(open_config(hf));
    DOP_RETURN_IF_ERROR(find_hf_family(hf));
    DOP_RETURN_IF_ERROR(dop_hf_reranker(hf));
    DOP_RETURN_IF_ERROR(dop_hf_quant_config(hf));
    DOP_RETURN_IF_ERROR(dop_hf_config(hf));
    DOP_RETURN_IF_ERROR(dop_hf_text(hf));
    DOP_RETURN_IF_ERROR(read_published_name(hf));
    return dop_arch_check(&hf->model->arch, hf->path, hf->diag);
}

dop_status
dop_import_hf(const char *dir, dop_diag *diag, dop_checkpoint *m)
{
    dop_hf hf = {.dir = dir, .arena = m->arena, .diag = diag, .model = m};
    dop_status st = DOP_OK;
    DOP_TRY(dop_hf_facts(&hf));
    DOP_TRY(dop_hf_weights(&hf));
error:
    json_decref(hf.root);
    return st;
}

dop_status
dop_import_hf_parts(const char *dir, const char *path, json_t *config, const dop_st_set *set, dop_diag *diag,
                    dop_checkpoint *m)
{
    dop_hf hf = {.dir = dir,
                 .path = path,
                 .root = json_incref(config),
                 .tensors = set,
                 .arena = m->arena,
                 .diag = diag,
                 .model = m};
    dop_status st = DOP_OK;
    DOP_TRY(dop_hf_facts(&hf));
    DOP_TRY(dop_hf_weights(&hf));
error:
    json_decref(hf.root);
    return st;
}
