#include "tools/fetch/hub.h"

#include "base/json/json.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 20000, MOST_SHOWN = 8, MAX_LIST_BYTES = 64 << 20 /* memory for the values of a page */ };

/* --- names -------------------------------------------------------------------------------------------------------------------- */

static bool
is_word(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i]))
            return false;
    return len > 0 && len <= 96 && text[0] != '.' && text[0] != '-';
}

/* True for a branch, tag or commit name: words separated by slashes. */
static bool
is_revision(const char *text, size_t len)
{
    size_t at = 0;
    bool is = len <= 200;
    while (is) {
        const char *slash = memchr(text + at, '/', len - at);
        const size_t n = slash ? (size_t)(slash - text) - at : len - at;
        is = is_word(text + at, n);
        if (!slash)
            break;
        at += n + 1;
    }
    return is;
}

/* True for a relative path without hidden components. */
static bool
is_path(const char *path)
{
    for (const char *at = path; *at;) {
        const size_t len = strcspn(at, "/");
        if (len == 0 || len > 200 || at[0] == '.')
            return false;
        at += len + (at[len] == '/');
        if (at[-1] == '/' && !*at)
            return false;
    }
    char shown[1000];
    snprintf(shown, sizeof shown, "%s", path);
    dop_make_harmless(shown, "");
    return dop_path_is_inside(path) && strcmp(shown, path) == 0; /* false for names that are too long, too */
}

void
dop_hub_name_finish(dop_hub_name *name)
{
    free(name->repo);
    free(name->revision);
    free(name->file);
    *name = (dop_hub_name){.repo = NULL};
}

dop_status
dop_hub_name_parse(const char *text, dop_diag *diag, dop_hub_name *out)
{
    const size_t whole = strcspn(text, ":"), len = strcspn(text, "@:"), user = strcspn(text, "/");
    const char *file = text[whole] ? text + whole + 1 : NULL, *revision = text[len] == '@' ? text + len + 1 : NULL;
    const size_t n_revision = revision ? whole - len - 1 : 0;
    *out = (dop_hub_name){.repo = NULL};
    if (user >= len || !is_word(text, user) || !is_word(text + user + 1, len - user - 1) ||
        (revision && !is_revision(revision, n_revision)) || (file && !is_path(file)))
        return DOP_FAIL(diag, DOP_E_USAGE, "-hf %.200s: expected USER/REPO, USER/REPO:FILE or USER/REPO:Q4_K_M", text);
    out->repo = strndup(text, len);
    out->revision = revision ? strndup(revision, n_revision) : strdup("main");
    out->file = file ? strdup(file) : NULL;
    if (out->repo && out->revision && (out->file || !file))
        return DOP_OK;
    dop_hub_name_finish(out);
    return DOP_NO_MEMORY(diag);
}

/* --- lists of files ------------------------------------------------------------------------------------------------------------- */

void
dop_hub_files_finish(dop_hub_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        free(files->list[i].path);
    free(files->list);
    *files = (dop_hub_files){.list = NULL};
}

static bool
is_hex(const char *text, size_t len)
{
    return text && strlen(text) == len && strspn(text, "0123456789abcdef") == len;
}

static dop_status
add_hub_file(dop_hub_files *files, const json_t *x, dop_diag *diag)
{
    const json_t *lfs = json_object_get(x, "lfs");
    const char *path = json_string_value(json_object_get(x, "path"));
    const char *digest = json_string_value(json_object_get(json_is_object(lfs) ? lfs : x, "oid"));
    const json_t *size = json_object_get(json_is_object(lfs) ? lfs : x, "size");
    if (digest && strncmp(digest, "sha256:", 7) == 0)
        digest += 7;
    if (!path || !is_path(path) || !is_hex(digest, json_is_object(lfs) ? 64 : 40) || json_integer_value(size) < 0)
        return DOP_OK; /* skips hidden files, and those that cannot be verified */
    if (files->n == files->cap) {
        const size_t cap = files->cap ? 2 * files->cap : 64;
        dop_hub_file *list = realloc(files->list, cap * sizeof *list);
        if (!list)
            return DOP_NO_MEMORY(diag);
        files->list = list;
        files->cap = cap;
    }
    dop_hub_file *f = &files->list[files->n];
    *f = (dop_hub_file){.path = strdup(path), .size = (uint64_t)json_integer_value(size)};
    memcpy(f->digest, digest, strlen(digest) + 1);
    if (!f->path)
        return DOP_NO_MEMORY(diag);
    files->n++;
    return DOP_OK;
}

dop_status
dop_hub_files_read(const char *text, size_t len, const char *repo, dop_diag *diag, dop_hub_files *files)
{
    json_t *list = NULL, *x;
    dop_budget budget = DOP_BUDGET_UNLIMITED; /* decoded values need much more memory than their text */
    budget.bytes = MAX_LIST_BYTES;
    const dop_json_how how = {.flags = DOP_JSON_UNIQUE, .budget = &budget};
    dop_status st = dop_json_decode(text, len, &how, NULL, &list);
    if (st == DOP_E_LIMIT)
        DOP_FAIL(diag, st, "-hf %s: a page of the server's list of files takes too much memory", repo);
    else if (st != DOP_OK || !json_is_array(list))
        st = DOP_FAIL(diag, DOP_E_INPUT, "-hf %s: the server's list of files is no JSON list", repo);
    size_t i;
    json_array_foreach(list, i, x)
    {
        const char *type = json_string_value(json_object_get(x, "type"));
        if (st == DOP_OK && type && strcmp(type, "file") == 0)
            st = files->n < MOST_FILES ? add_hub_file(files, x, diag)
                                       : DOP_FAIL(diag, DOP_E_LIMIT, "-hf %s: more than %d files", repo, MOST_FILES);
    }
    json_decref(list);
    return st;
}

/* --- files of a model
 * ---------------------------------------------------------------------------------------------- */

static bool
has_name_ending(const char *name, const char *with)
{
    const size_t n = strlen(name), len = strlen(with);
    return n >= len && strcasecmp(name + n - len, with) == 0;
}

static const dop_hub_file *
find_hub_file(const dop_hub_files *files, const char *path)
{
    for (size_t i = 0; i < files->n; i++)
        if (strcmp(files->list[i].path, path) == 0)
            return &files->list[i];
    return NULL;
}

/* Returns the index of a GGUF file's part number in its name (NAME-00001-of-00003.gguf), or 0 if it is not split. */
static size_t
find_part_number(const char *path)
{
    const size_t n = strlen(path), tail = sizeof "00001-of-00003.gguf" - 1;
    const char *at = n > tail ? path + n - tail : NULL;
    return at && at[-1] == '-' && strncmp(at + 5, "-of-", 4) == 0 && strspn(at, "0123456789") == 5 ? n - tail : 0;
}

/* True if the file can be the model to run: a GGUF text model, or the first of its parts. */
static bool
is_gguf(const char *path)
{
    const size_t at = find_part_number(path);
    return has_name_ending(path, ".gguf") && !strstr(path, "mmproj") && !strstr(path, "imatrix") &&
           (at == 0 || strncmp(path + at, "00001", 5) == 0);
}

/* True if the name contains a tag such as Q4_K_M as a whole word, in any case. Q4_K does not match Q4_K_M. */
static bool
has_tag(const char *path, const char *tag)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t len = strlen(tag);
    for (const char *at = name; *at; at++)
        if (strncasecmp(at, tag, len) == 0 && (at == name || !isalnum((unsigned char)at[-1])) &&
            !isalnum((unsigned char)at[len]) && at[len] != '_')
            return true;
    return false;
}

/* Marks a GGUF file and its other parts. */
static void
mark_gguf_parts(dop_hub_files *files, const dop_hub_file *first)
{
    const size_t at = find_part_number(first->path);
    for (size_t i = 0; i < files->n; i++) {
        dop_hub_file *f = &files->list[i];
        f->wanted = f == first || (at && find_part_number(f->path) == at && strncmp(f->path, first->path, at) == 0 &&
                                   strcmp(f->path + at + 5, first->path + at + 5) == 0);
    }
}

/* Marks the vision part of a GGUF model: the file in its folder with `mmproj` in its name; of several, a 16-bit one
 * or the first. */
static void
mark_vision_part(dop_hub_files *files, const dop_hub_file *model)
{
    static const char *const kinds[] = {"F16", "BF16", ""};
    const char *slash = strrchr(model->path, '/');
    const size_t n = slash ? (size_t)(slash - model->path) + 1 : 0;
    dop_hub_file *found = NULL;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && !found; k++)
        for (size_t i = 0; i < files->n && !found; i++) {
            const char *path = files->list[i].path;
            if (strncmp(path, model->path, n) == 0 && !strchr(path + n, '/') && strstr(path + n, "mmproj") &&
                has_name_ending(path, ".gguf") && (!*kinds[k] || has_tag(path, kinds[k])))
                found = &files->list[i];
        }
    if (found)
        found->wanted = true;
}

/* True for files of a Hugging Face folder that importers read. Numbered subfolders hold modules that run after the
 * model, such as 1_Pooling. With one_file, other weight files are skipped, as they repeat the weights in other types. */
static bool
is_of_directory(const char *path, bool one_file)
{
    static const char other[] = "additional_chat_templates/";
    static const char *const endings[] = {".json", ".jinja", ".model", ".txt", ".tiktoken"};
    const char *slash = strchr(path, '/'), *name = slash ? slash + 1 : path;
    const bool module = slash && isdigit((unsigned char)*path);
    if (strchr(name, '/') || (slash && !module && strncmp(path, other, sizeof other - 1) != 0))
        return false;
    bool is = strcmp(name, "model.safetensors") == 0 ||
              (!slash && !one_file && strncmp(name, "model", 5) == 0 && has_name_ending(name, ".safetensors"));
    for (size_t i = 0; i < sizeof endings / sizeof *endings && !is; i++)
        is = has_name_ending(name, endings[i]);
    return is;
}

/* Finds the GGUF file with the tag, or the only one without a tag. Returns NULL for none or several. */
static const dop_hub_file *
choose_gguf(const dop_hub_files *files, const char *tag, size_t *out_n, dop_buf *out_names)
{
    const dop_hub_file *found = NULL;
    *out_n = 0;
    for (size_t i = 0; i < files->n; i++) {
        const dop_hub_file *f = &files->list[i];
        if (!is_gguf(f->path) || (tag && !has_tag(f->path, tag)))
            continue;
        found = f;
        if (++*out_n <= MOST_SHOWN)
            dop_buf_printf(out_names, "%s%.100s", *out_n > 1 ? ", " : "", f->path);
    }
    if (*out_n > MOST_SHOWN)
        dop_buf_puts(out_names, ", ...");
    return *out_n == 1 ? found : NULL;
}

dop_status
dop_hub_files_choose(dop_hub_files *files, const dop_hub_name *name, dop_diag *diag, const dop_hub_file **out_gguf)
{
    static const char *const usual[] = {"Q4_K_M", "Q8_0"}; /* tried in this order by default */
    dop_buf names = {0};
    size_t n = 0;
    const dop_hub_file *gguf = NULL;
    const bool directory =
        find_hub_file(files, "config.json") &&
        (find_hub_file(files, "model.safetensors") || find_hub_file(files, "model.safetensors.index.json"));
    *out_gguf = NULL;
    if (name->file && (gguf = find_hub_file(files, name->file)) != NULL && !has_name_ending(gguf->path, ".gguf"))
        return DOP_FAIL(diag, DOP_E_INPUT, "-hf %s:%s: not a GGUF file; without a file the whole model is taken",
                        name->repo, name->file);
    if (!gguf && (name->file || !directory))
        gguf = choose_gguf(files, name->file, &n, &names);
    for (size_t i = 0; i < sizeof usual / sizeof *usual && !gguf && !name->file && !directory; i++) {
        dop_buf ignored = {0};
        size_t n_usual;
        gguf = choose_gguf(files, usual[i], &n_usual, &ignored);
        dop_buf_finish(&ignored);
    }
    dop_status st = DOP_OK;
    if (gguf) {
        mark_gguf_parts(files, gguf);
        mark_vision_part(files, gguf);
        *out_gguf = gguf;
    } else if (directory && !name->file) {
        for (size_t i = 0; i < files->n; i++)
            files->list[i].wanted =
                is_of_directory(files->list[i].path, find_hub_file(files, "model.safetensors") != NULL);
    } else if (n > 1) {
        st = DOP_FAIL(diag, DOP_E_INPUT, "-hf %s: there are %zu GGUF files, name one as %s:FILE: %s", name->repo, n,
                      name->repo, names.data);
    } else if (name->file) {
        names.size = 0;
        (void)choose_gguf(files, NULL, &n, &names);
        st = DOP_FAIL(diag, DOP_E_INPUT, "-hf %s:%s: no such file there; GGUF files: %s", name->repo, name->file,
                      n ? names.data : "none");
    } else {
        st = DOP_FAIL(diag, DOP_E_INPUT,
                      "-hf %s: neither a model with config.json and safetensors nor a GGUF file is there", name->repo);
    }
    dop_buf_finish(&names);
    return st;
}
