/* Which models a server has: --models DIR|FILE.yaml. */
#include "base/read/yaml_util.h"
#include "base/system.h"
#include "runtime/program/serve_host.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void
dop_host_list_finish(dop_host_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        dop_models_entry *e = &list->entries[i];
        for (size_t k = 0; k < e->n_aliases; k++)
            free((void *)(uintptr_t)e->aliases[k]);
        free((void *)(uintptr_t)e->aliases);
        free((void *)(uintptr_t)e->id);
        free((void *)(uintptr_t)e->path);
    }
    free(list->entries);
    *list = (dop_host_list){0};
}

/* Adds a model without aliases; NULL: out of memory. */
static dop_models_entry *
add(dop_host_list *list, const char *id, size_t n_id, const char *folder, size_t n_folder, const char *file)
{
    dop_models_entry *more = realloc(list->entries, (list->n + 1) * sizeof *more);
    if (!more)
        return NULL;
    list->entries = more;
    dop_models_entry *e = &more[list->n++];
    dop_buf path = {0};
    const bool relative = *file != '/';
    dop_buf_printf(&path, "%.*s%s%s", relative ? (int)n_folder : 0, folder, relative && n_folder ? "/" : "", file);
    *e = (dop_models_entry){.id = strndup(id, n_id), .path = path.failed ? NULL : strdup(path.data)};
    dop_buf_finish(&path);
    return e->id && e->path ? e : NULL;
}

/* --- a folder ------------------------------------------------------------------------------------------------------------------ */

static int
by_id(const void *a, const void *b)
{
    return strcmp(((const dop_models_entry *)a)->id, ((const dop_models_entry *)b)->id);
}

/* All files *.plan of a folder, each under its name. */
static dop_status
read_folder(const char *path, dop_diag *diag, dop_host_list *out)
{
    static const char suffix[] = ".plan";
    dop_status st = DOP_OK;
    DIR *folder = opendir(path);
    if (!folder)
        return DOP_FAIL_IN(diag, DOP_E_IO, path, "%s", strerror(errno));
    for (const struct dirent *one; st == DOP_OK && (one = readdir(folder)) != NULL;) {
        const size_t n = strlen(one->d_name), k = strlen(suffix);
        if (n > k && one->d_name[0] != '.' && strcmp(one->d_name + n - k, suffix) == 0 &&
            !add(out, one->d_name, n - k, path, strlen(path), one->d_name))
            st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    closedir(folder);
    if (st == DOP_OK && out->n == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "there is no plan (*.plan) in this folder");
    if (st == DOP_OK)
        qsort(out->entries, out->n, sizeof *out->entries, by_id);
    return st;
}

/* --- a file -------------------------------------------------------------------------------------------------------------------- */

static dop_status
read_aliases(const char *path, dop_yaml *y, const yaml_node_t *node, dop_diag *diag, dop_models_entry *e)
{
    const yaml_node_t *list = dop_yaml_field(&y->doc, node, "aliases");
    if (!list)
        return DOP_OK;
    if (list->type != YAML_SEQUENCE_NODE)
        return DOP_FAIL_NODE(diag, path, list, "aliases are a list of names");
    const size_t n = (size_t)(list->data.sequence.items.top - list->data.sequence.items.start);
    const char **names = calloc(n + 1, sizeof *names);
    e->aliases = names;
    for (size_t i = 0; i < n && names; i++) {
        const yaml_node_t *one = yaml_document_get_node(&y->doc, list->data.sequence.items.start[i]);
        const char *name = one ? dop_yaml_text(one) : NULL;
        if (!name || !*name)
            return DOP_FAIL_NODE(diag, path, list, "aliases are a list of names");
        if (!(names[i] = strdup(name)))
            names = NULL;
        else
            e->n_aliases++;
    }
    return names ? DOP_OK : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
}

/* One model: {id, plan, aliases}. */
static dop_status
read_entry(const char *path, dop_yaml *y, const yaml_node_t *node, dop_diag *diag, dop_host_list *out)
{
    static const char *const keys[] = {"id", "plan", "aliases"};
    const char *slash = dop_path_slash(path);
    if (!node || node->type != YAML_MAPPING_NODE)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "a model is a mapping of id, plan and aliases");
    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(&y->doc, p->key);
        const char *text = dop_yaml_text(key);
        bool known = false;
        for (size_t i = 0; i < 3 && text; i++)
            known |= strcmp(text, keys[i]) == 0;
        if (!known)
            return DOP_FAIL_NODE(diag, path, key, "a model has id, plan and aliases, and no \"%s\"", text ? text : "?");
    }
    const yaml_node_t *id_node = dop_yaml_field(&y->doc, node, "id"),
                      *plan_node = dop_yaml_field(&y->doc, node, "plan");
    const char *id = id_node ? dop_yaml_text(id_node) : NULL, *plan = plan_node ? dop_yaml_text(plan_node) : NULL;
    if (!id || !*id || !plan || !*plan)
        return DOP_FAIL_NODE(diag, path, node, "a model has an id and a plan");
    dop_models_entry *e = add(out, id, strlen(id), path, slash ? (size_t)(slash - path) : 0, plan);
    return e ? read_aliases(path, y, node, diag, e) : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
}

static dop_status
read_file(const char *path, dop_diag *diag, dop_host_list *out)
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
        st = read_entry(path, &y, yaml_document_get_node(&y.doc, *i), diag, out);
    dop_yaml_close(&y);
    return st;
}

dop_status
dop_host_list_read(const char *path, dop_diag *diag, dop_host_list *out_list)
{
    struct stat s;
    *out_list = (dop_host_list){0};
    if (stat(path, &s) != 0)
        return DOP_FAIL_IN(diag, DOP_E_IO, path, "%s", strerror(errno));
    const dop_status st = S_ISDIR(s.st_mode) ? read_folder(path, diag, out_list) : read_file(path, diag, out_list);
    if (st != DOP_OK)
        dop_host_list_finish(out_list);
    return st;
}
