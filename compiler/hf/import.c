/* Hugging Face directories: config.json and safetensors to facts and weights. */
#include "compiler/hf/hf.h"

#include <string.h>

static dop_status
unknown(const dop_hf *hf, const char *what, const char *name)
{
    dop_buf known = {0};
    dop_family_list(&known);
    dop_status st = DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s \"%.80s\" is not supported; known: %s", what, name,
                                known.data ? known.data : "");
    dop_buf_finish(&known);
    return st;
}

/* The family is what `architectures` names; model_type decides only where that list is absent. */
static dop_status
find_family(dop_hf *hf)
{
    const json_t *list = dop_json_get(&hf->top, "architectures");
    const char *model_type = NULL;
    dop_status st = dop_json_str_or(&hf->cfg, "model_type", NULL, &model_type);
    if (st != DOP_OK)
        return st;
    if (list && (!json_is_array(list) || json_array_size(list) == 0 || !json_is_string(json_array_get(list, 0))))
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "architectures is not a list of names");
    if (!list && !model_type)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "architectures and model_type are both missing");
    if (!list) {
        hf->family = dop_family_by_model_type(model_type);
        return hf->family ? DOP_OK : unknown(hf, "model_type", model_type);
    }
    const char *arch = json_string_value(json_array_get(list, 0));
    hf->family = dop_family_by_arch(arch);
    if (!hf->family)
        return unknown(hf, "architecture", arch);
    /* A model of several parts keeps its name when its text part changes: there the part's own type must fit. */
    if (hf->cfg.object != hf->top.object && model_type && dop_family_by_model_type(model_type) != hf->family)
        return unknown(hf, "text_config.model_type", model_type);
    return DOP_OK;
}

static dop_status
open_config(dop_hf *hf)
{
    dop_status st = dop_json_read(hf->path, hf->diag, &hf->root);
    if (st == DOP_OK)
        st = dop_json_root(hf->root, hf->path, hf->diag, &hf->top);
    if (st == DOP_OK)
        st = dop_json_sub(&hf->top, "text_config", &hf->cfg);
    if (st == DOP_OK && !hf->cfg.object)
        hf->cfg = hf->top;
    return st;
}

/* What the model was published as, "org/name" or "name"; a path of its author's disk is not a name. */
static dop_status
read_name(dop_hf *hf)
{
    const char *name = NULL;
    dop_status st = dop_json_str_or(&hf->top, "_name_or_path", NULL, &name);
    const char *slash = name ? strchr(name, '/') : NULL;
    if (st != DOP_OK || !name || *name == '/' || *name == '.' || (slash && strchr(slash + 1, '/')))
        return st;
    hf->model->name = dop_arena_strdup(hf->arena, slash ? slash + 1 : name);
    return hf->model->name ? DOP_OK : DOP_FAIL(hf->diag, DOP_E_NOMEM, "out of host memory");
}

dop_status
dop_import_hf(const char *dir, dop_diag *diag, dop_checkpoint *m)
{
    dop_hf hf = {.dir = dir, .arena = m->arena, .diag = diag, .model = m};
    hf.path = dop_arena_printf(m->arena, "%s/config.json", dir);
    if (!hf.path)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of host memory");
    dop_status st = open_config(&hf);
    if (st == DOP_OK)
        st = find_family(&hf);
    if (st == DOP_OK)
        st = dop_hf_quant_config(&hf);
    if (st == DOP_OK)
        st = dop_hf_config(&hf);
    if (st == DOP_OK)
        st = dop_hf_text(&hf);
    if (st == DOP_OK)
        st = read_name(&hf);
    if (st == DOP_OK)
        st = dop_arch_check(&m->arch, hf.path, diag);
    if (st == DOP_OK)
        st = dop_hf_weights(&hf);
    json_decref(hf.root);
    return st;
}
