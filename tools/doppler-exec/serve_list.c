/* The server's model list: --models DIR|FILE.yaml. */
#include "base/os/system.h"
#include "base/yaml/yaml_util.h"
#include "tools/doppler-exec/on_demand/model_key.h"
#include "tools/doppler-exec/on_demand/models.h"
#include "tools/doppler-exec/serve_host.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OPT(...) DOP_OPTION(dop_cli, __VA_ARGS__)
#define NUM(...) DOP_NUMBER_OPTION(dop_cli, __VA_ARGS__)

/* Options that a file may set for a model: those for compilation. */
static const dop_option options[] = {DOP_CLI_MODEL_OPTIONS};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

void
dop_host_list_finish(dop_host_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        dop_cli *own = &list->models[i].cli;
        dop_texts *const lists[] = {&own->plans, &own->force, &own->avoid, &own->no_fuse, &own->skip};
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
            dop_texts_finish(lists[k]);
        free(own->biases);
        dop_cli_models_finish(own);
    }
    free(list->entries);
    free(list->models);
    dop_arena_finish(&list->texts);
    *list = (dop_host_list){0};
}

/* Replaces the list with a copy that owns its elements. */
static dop_status
copy_texts(dop_texts *texts, dop_diag *diag)
{
    const dop_texts from = *texts;
    *texts = (dop_texts){0};
    for (size_t i = 0; i < from.count; i++)
        DOP_RETURN_IF_ERROR(dop_texts_push(texts, from.items[i], diag));
    return DOP_OK;
}

/* Adds a model without aliases. id and path: in list->texts, NULL if allocation failed. hf: the name to download;
 * NULL: the model is at `path`. */
static dop_status
add_listed_model(const dop_cli *cli, dop_host_list *list, const char *id, const char *path, bool compiled,
                 const char *hf, dop_diag *diag)
{
    dop_models_entry *entries = realloc(list->entries, (list->n + 1) * sizeof *entries);
    list->entries = entries ? entries : list->entries;
    dop_host_model *models = entries ? realloc(list->models, (list->n + 1) * sizeof *models) : NULL;
    list->models = models ? models : list->models;
    if (!models || !id || !path)
        return DOP_NO_MEMORY(diag);
    dop_host_model *x = &models[list->n];
    entries[list->n++] = (dop_models_entry){.id = id, .path = path, .compiled = compiled};
    *x = (dop_host_model){.cli = *cli, .id = id, .path = hf ? NULL : path};
    x->cli.models = NULL;
    x->cli.compiled = NULL;
    x->cli.hf = hf;
    dop_texts *const lists[] = {&x->cli.plans, &x->cli.force, &x->cli.avoid, &x->cli.no_fuse, &x->cli.skip};
    dop_status st = DOP_OK;
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) { /* copies all lists, because each is freed later */
        dop_status one = copy_texts(lists[k], diag);
        st = st == DOP_OK ? one : st;
    }
    return st == DOP_OK && !hf ? dop_texts_push(&x->cli.plans, path, diag) : st;
}

/* --- a folder ------------------------------------------------------------------------------------------------------------------ */

/* Tests if a folder entry is a model or a plan. *out_suffix: length of the ending that is not part of the model's
 * name. */
static bool
is_listed(const char *folder, const struct dirent *one, const dop_cli *cli, size_t *out_suffix, bool *out_compiled)
{
    static const char plan[] = ".plan";
    const size_t n = strlen(one->d_name), k = strlen(plan);
    char path[4096];
    struct stat s;
    bool vision = false;
    if (one->d_name[0] == '.' || snprintf(path, sizeof path, "%s/%s", folder, one->d_name) >= (int)sizeof path ||
        stat(path, &s) != 0)
        return false;
    *out_compiled = true;
    *out_suffix = 0;
    if (S_ISDIR(s.st_mode))
        return dop_is_model_folder(path);
    if (n > k && strcmp(one->d_name + n - k, plan) == 0) {
        *out_suffix = k;
        *out_compiled = false;
        return true;
    }
    *out_suffix = dop_gguf_suffix(one->d_name, &vision);
    if (vision && !cli->quiet)
        dop_say("note", "%s: note: a vision part is not a model: it goes with the model next to it", path);
    return *out_suffix > 0;
}

static int
by_id(const void *a, const void *b)
{
    return strcmp(((const dop_models_entry *)a)->id, ((const dop_models_entry *)b)->id);
}

/* Reads the names in a folder, sorted, as entries without models. */
static dop_status
read_names(const char *path, const dop_cli *cli, dop_diag *diag, dop_host_list *out, dop_models_entry **out_found,
           size_t *out_n)
{
    DIR *folder = opendir(path);
    dop_status st = folder ? DOP_OK : DOP_FAIL_IN(diag, DOP_E_IO, path, "%s", strerror(errno));
    for (const struct dirent *one; st == DOP_OK && (one = readdir(folder)) != NULL;) {
        size_t suffix;
        bool compiled;
        if (!is_listed(path, one, cli, &suffix, &compiled))
            continue;
        dop_models_entry *more = realloc(*out_found, (*out_n + 1) * sizeof *more);
        *out_found = more ? more : *out_found;
        if (!more)
            st = DOP_NO_MEMORY(diag);
        else
            more[(*out_n)++] = (dop_models_entry){
                .id = dop_arena_printf(&out->texts, "%.*s", (int)(strlen(one->d_name) - suffix), one->d_name),
                .path = dop_arena_printf(&out->texts, "%s/%s", path, one->d_name),
                .compiled = compiled};
        if (more && (!more[*out_n - 1].id || !more[*out_n - 1].path))
            st = DOP_NO_MEMORY(diag);
    }
    if (folder)
        closedir(folder);
    if (st == DOP_OK && *out_n > 0)
        qsort(*out_found, *out_n, sizeof **out_found, by_id);
    return st;
}

/* Adds all plans, GGUF files and model folders in a folder under their names. A plan takes precedence over a model
 * with its name, from which it was probably compiled. */
static dop_status
read_model_folder(const char *path, const dop_cli *cli, dop_diag *diag, dop_host_list *out)
{
    dop_models_entry *found = NULL;
    size_t n = 0;
    dop_status st = read_names(path, cli, diag, out, &found, &n);
    for (size_t i = 0; i < n && st == DOP_OK; i++) {
        const dop_models_entry *e = &found[i];
        bool has_plan = false;
        for (size_t k = 0; k < n && e->compiled; k++)
            has_plan = has_plan || (!found[k].compiled && strcmp(found[k].id, e->id) == 0);
        if (!has_plan)
            st = add_listed_model(cli, out, e->id, e->path, e->compiled, NULL, diag);
    }
    free(found);
    if (st == DOP_OK && out->n == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "there is no plan (*.plan) and no model (*.gguf, or a folder with one) in this folder");
    return st;
}

/* --- a file -------------------------------------------------------------------------------------------------------------------- */

static dop_status
read_aliases(const char *path, dop_yaml *y, const yaml_node_t *list, dop_diag *diag, dop_host_list *out)
{
    dop_models_entry *e = &out->entries[out->n - 1];
    if (!list)
        return DOP_OK;
    if (list->type != YAML_SEQUENCE_NODE)
        return DOP_FAIL_NODE(diag, path, list, "aliases are a list of names");
    const size_t n = (size_t)(list->data.sequence.items.top - list->data.sequence.items.start);
    const char **names = dop_arena_alloc(&out->texts, (n + 1) * sizeof *names);
    e->aliases = names;
    for (size_t i = 0; i < n && names; i++) {
        const yaml_node_t *one = yaml_document_get_node(&y->doc, list->data.sequence.items.start[i]);
        const char *name = one ? dop_yaml_text(one) : NULL;
        if (!name || !*name)
            return DOP_FAIL_NODE(diag, path, list, "aliases are a list of names");
        if (!(names[i] = dop_arena_strdup(&out->texts, name)))
            names = NULL;
        else
            e->n_aliases++;
    }
    return names ? DOP_OK : DOP_NO_MEMORY(diag);
}

/* True for a compile option that can differ between models. */
static bool
is_option(const char *name)
{
    static const char *const others[] = {"hf", "parts", "part-memory", "cache-dir", "cache-limit"};
    bool is = false;
    for (size_t i = 0; i < N_OPTIONS && !is; i++)
        is = options[i].name && strcmp(options[i].name, name) == 0;
    for (size_t i = 0; i < sizeof others / sizeof *others && is; i++)
        is = strcmp(others[i], name) != 0;
    return is;
}

/* Resolves a name relative to the list file, in list->texts. Returns NULL if memory is exhausted. */
static const char *
resolve_listed_name(const char *file, const char *name, dop_host_list *out)
{
    const char *slash = dop_path_slash(file);
    return dop_path_is_absolute(name) || !slash
               ? dop_arena_strdup(&out->texts, name)
               : dop_arena_printf(&out->texts, "%.*s/%s", (int)(slash - file), file, name);
}

/* Sets an option of the last model. A value that names a file next to the list refers to that file. */
static dop_status
set_option(const char *path, const yaml_node_t *key, const yaml_node_t *node, dop_diag *diag, dop_host_list *out)
{
    const char *name = dop_yaml_text(key), *value = node ? dop_yaml_text(node) : NULL;
    struct stat s;
    if (!value)
        return DOP_FAIL_NODE(diag, path, key, "%s has a value", name);
    const char *file = resolve_listed_name(path, value, out), *own = dop_arena_strdup(&out->texts, value);
    if (!file || !own)
        return DOP_NO_MEMORY(diag);
    dop_diag why = {0};
    const dop_status st = dop_option_set(options, N_OPTIONS, name, *value && stat(file, &s) == 0 ? file : own, &why,
                                         &out->models[out->n - 1].cli);
    return st == DOP_E_USAGE ? DOP_FAIL_NODE(diag, path, key, "%s", why.message)
           : st != DOP_OK    ? DOP_FAIL(diag, st, "%s", why.message)
                             : DOP_OK;
}

/* Sets an option from a YAML value, which is a list for repeatable options. */
static dop_status
set_options(const char *path, dop_yaml *y, const yaml_node_t *key, const yaml_node_t *value, dop_diag *diag,
            dop_host_list *out)
{
    if (!out->entries[out->n - 1].compiled)
        return DOP_FAIL_NODE(diag, path, key, "%s is part of a plan: it is for entries with model or hf",
                             dop_yaml_text(key));
    if (!value || value->type != YAML_SEQUENCE_NODE)
        return set_option(path, key, value, diag, out);
    for (const yaml_node_item_t *i = value->data.sequence.items.start; i < value->data.sequence.items.top; i++)
        DOP_RETURN_IF_ERROR(set_option(path, key, yaml_document_get_node(&y->doc, *i), diag, out));
    return DOP_OK;
}

/* Reads one model: {id, plan | model | hf, aliases, OPTION...}. */
static dop_status
read_entry(const char *path, dop_yaml *y, const yaml_node_t *node, const dop_cli *cli, dop_diag *diag,
           dop_host_list *out)
{
    enum { ID, PLAN, MODEL, HF, ALIASES, KEYS };
    static const char *const keys[KEYS] = {"id", "plan", "model", "hf", "aliases"};
    const char *texts[KEYS] = {0};
    const yaml_node_pair_t *p;
    if (!node || node->type != YAML_MAPPING_NODE)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "a model is a mapping of id, and plan, model or hf");
    for (int k = 0; k < ALIASES; k++) {
        const yaml_node_t *field = dop_yaml_field(&y->doc, node, keys[k]);
        texts[k] = field ? dop_yaml_text(field) : NULL;
        if (field && (!texts[k] || !*texts[k]))
            return DOP_FAIL_NODE(diag, path, field, "%s is a text", keys[k]);
    }
    if (!texts[ID] || !!texts[PLAN] + !!texts[MODEL] + !!texts[HF] != 1)
        return DOP_FAIL_NODE(diag, path, node, "a model has an id and a plan, a model or hf, one of these");
    const char *hf = texts[HF] ? dop_arena_strdup(&out->texts, texts[HF]) : NULL;
    const char *where = texts[HF] ? hf : resolve_listed_name(path, texts[PLAN] ? texts[PLAN] : texts[MODEL], out);
    DOP_RETURN_IF_ERROR(
        add_listed_model(cli, out, dop_arena_strdup(&out->texts, texts[ID]), where, !texts[PLAN], hf, diag));
    DOP_RETURN_IF_ERROR(read_aliases(path, y, dop_yaml_field(&y->doc, node, keys[ALIASES]), diag, out));
    for (p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(&y->doc, p->key);
        const char *text = dop_yaml_text(key);
        bool known = false;
        for (size_t i = 0; i < KEYS && text; i++)
            known |= strcmp(text, keys[i]) == 0;
        if (!known && text && is_option(text))
            DOP_RETURN_IF_ERROR(set_options(path, y, key, yaml_document_get_node(&y->doc, p->value), diag, out));
        else if (!known)
            return DOP_FAIL_NODE(diag, path, key,
                                 "a model has id, plan, model, hf, aliases and options of a compilation, and no \"%s\"",
                                 text ? text : "?");
    }
    return DOP_OK;
}

static dop_status
read_model_list_file(const char *path, const dop_cli *cli, dop_diag *diag, dop_host_list *out)
{
    static const char what[] = "a file of models is a mapping: models, a list";
    dop_yaml y = {0};
    dop_status st = dop_yaml_open(path, YAML_MAPPING_NODE, what, diag, &y);
    if (st != DOP_OK)
        return st;
    const yaml_node_t *list = dop_yaml_field(&y.doc, y.root, "models");
    if (!list || list->type != YAML_SEQUENCE_NODE ||
        y.root->data.mapping.pairs.top - y.root->data.mapping.pairs.start != 1)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, what);
    else if (list->data.sequence.items.start == list->data.sequence.items.top)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "there is no model in it");
    for (const yaml_node_item_t *i = st == DOP_OK ? list->data.sequence.items.start : NULL;
         st == DOP_OK && i < list->data.sequence.items.top; i++)
        st = read_entry(path, &y, yaml_document_get_node(&y.doc, *i), cli, diag, out);
    dop_yaml_close(&y);
    return st;
}

dop_status
dop_host_list_read(const dop_cli *cli, dop_diag *diag, dop_host_list *out_list)
{
    struct stat s;
    const char *path = cli->models;
    *out_list = (dop_host_list){0};
    dop_arena_init(&out_list->texts);
    if (stat(path, &s) != 0)
        return DOP_FAIL_IN(diag, DOP_E_IO, path, "%s", strerror(errno));
    return S_ISDIR(s.st_mode) ? read_model_folder(path, cli, diag, out_list)
                              : read_model_list_file(path, cli, diag, out_list);
}
