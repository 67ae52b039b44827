#include "frontend/not_a_model.h"

#include "base/json/json_util.h"
#include "base/os/system.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool
dop_has_file(const char *dir, const char *file)
{
    char path[4096]; /* PATH_MAX of the system */
    int n = snprintf(path, sizeof path, "%s/%s", dir, file);
    return n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0;
}

static bool
ends_in_text(const char *name, const char *with)
{
    const size_t n = strlen(name), len = strlen(with);
    return n >= len && strcmp(name + n - len, with) == 0;
}

/* True for the second or a later file of a split GGUF model, NAME-00002-of-00003.gguf. */
static bool
is_later_part(const char *name)
{
    const size_t n = strlen(name);
    const char *of = n > 20 ? name + n - 14 : NULL; /* "-of-00003.gguf" */
    return of && strncmp(of, "-of-", 4) == 0 && of[-6] == '-' && strncmp(of - 5, "00001", 5) != 0;
}

/* --- folders ------------------------------------------------------------------------------------------------------------------ */

enum { MAX_LISTED = 6 };

/* Files found in a folder without a model, for the message. */
typedef struct finds {
    char *gguf; /* the first GGUF file by name */
    uint32_t n_gguf;
    bool mmproj, pickle, safetensors;
} finds;

static int
is_not_hidden(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static dop_status
list_model_files(const char *dir, dop_arena *arena, dop_diag *diag, finds *f, dop_buf *names)
{
    struct dirent **list = NULL;
    const int n = scandir(dir, &list, is_not_hidden, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name;
        f->pickle |= ends_in_text(name, ".bin") || ends_in_text(name, ".pth") || ends_in_text(name, ".pt") ||
                     ends_in_text(name, ".ckpt");
        f->safetensors |= ends_in_text(name, ".safetensors");
        if (ends_in_text(name, ".gguf") && strstr(name, "mmproj")) {
            f->mmproj = true;
        } else if (ends_in_text(name, ".gguf") && !is_later_part(name)) {
            if (!f->gguf)
                f->gguf = dop_arena_printf(arena, "%s/%s", dir, name);
            if (f->n_gguf < MAX_LISTED)
                dop_buf_printf(names, "%s%.100s", f->n_gguf ? ", " : "", name);
            f->n_gguf++;
        }
        free(list[i]);
    }
    free(list);
    if (f->n_gguf > MAX_LISTED)
        dop_buf_puts(names, ", ...");
    return names->failed || (f->n_gguf && !f->gguf) ? DOP_NO_MEMORY(diag) : DOP_OK;
}

dop_status
dop_find_mmproj(const char *model, dop_arena *arena, dop_diag *diag, char **out_path, uint32_t *out_n)
{
    const char *slash = dop_path_slash(model);
    const char *dir = slash ? dop_arena_printf(arena, "%.*s/", (int)(slash - model), model) : "./";
    struct dirent **list = NULL;
    bool failed = !dir;
    *out_path = NULL;
    *out_n = 0;
    const int n = dir ? scandir(dir, &list, is_not_hidden, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name;
        if (ends_in_text(name, ".gguf") && strstr(name, "mmproj") && (*out_n)++ == 0) {
            *out_path = dop_arena_printf(arena, "%s%s", slash ? dir : "", name);
            failed = !*out_path;
        }
        free(list[i]);
    }
    free(list);
    return failed ? DOP_NO_MEMORY(diag) : DOP_OK;
}

/* Returns the string under `key` of a JSON file in the folder, in the arena; "?": none. */
static const char *
read_folder_string(const char *dir, const char *file, const char *key, dop_arena *arena)
{
    const char *path = dop_arena_printf(arena, "%s/%s", dir, file), *text = NULL;
    json_t *root = NULL;
    if (path && dop_json_decode_file(&(dop_json_how){.path = path}, NULL, &root) == DOP_OK &&
        json_is_string(json_object_get(root, key)))
        text = dop_arena_printf(arena, "%.100s", json_string_value(json_object_get(root, key)));
    json_decref(root);
    return text ? text : "?";
}

dop_status
dop_look_around(const char *dir, dop_arena *arena, dop_diag *diag, char **out_gguf)
{
    finds f = {0};
    dop_buf names = {0};
    *out_gguf = NULL;
    dop_status st = list_model_files(dir, arena, diag, &f, &names);
    if (st != DOP_OK) {
        dop_buf_finish(&names);
        return st;
    }
    if (f.n_gguf > 1)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, dir, "this folder has %u GGUF files, name one of them: %s", f.n_gguf,
                         names.data);
    dop_buf_finish(&names);
    *out_gguf = st == DOP_OK ? f.gguf : NULL;
    if (st != DOP_OK || f.gguf)
        return st;
    if (dop_has_file(dir, "adapter_config.json"))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, dir,
                           "this is a LoRA adapter of %s, not a model: name that model, and this folder with `loras`",
                           read_folder_string(dir, "adapter_config.json", "base_model_name_or_path", arena));
    if (dop_has_file(dir, "model_index.json"))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, dir, "this is a diffusion pipeline (%s), which is not supported",
                           read_folder_string(dir, "model_index.json", "_class_name", arena));
    if (f.mmproj)
        return DOP_FAIL_IN(
            diag, DOP_E_INPUT, dir,
            "only the vision part (mmproj) of a model is here: name the GGUF file of its text part, and this one with "
            "`mmproj`");
    if (dop_has_file(dir, "consolidated.safetensors") || (dop_has_file(dir, "params.json") && f.pickle))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, dir,
                           "this is a model in its maker's own form (params.json): use the one with config.json and "
                           "model.safetensors");
    if (f.pickle && !f.safetensors)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, dir,
                           "weights are here as PyTorch saves them only: use the model's safetensors, or convert it "
                           "(save_pretrained of transformers)");
    return dop_has_file(dir, "config.json")
               ? DOP_OK
               : DOP_FAIL_IN(diag, DOP_E_INPUT, dir, "not a model: no config.json and no manifest.json here");
}

/* --- files -------------------------------------------------------------------------------------------------------------------- */

dop_status
dop_not_a_model(const char *path, dop_file_kind kind, dop_diag *diag)
{
    const char *why = dop_file_refusal(kind), *name = dop_path_name(path);
    if (!why && strcmp(name, "adapter_model.safetensors") == 0)
        why = "this is a LoRA adapter, not a model: name its model, and the adapter with `loras`";
    else if (!why && kind == DOP_FILE_SAFETENSORS)
        why = "these are the weights alone: name the folder, in which config.json is beside them";
    else if (!why && kind == DOP_FILE_PLAN)
        why = "this is a plan already: run it with doppler-exec";
    else if (!why && kind == DOP_FILE_JSON)
        why = "this is a JSON file: name the folder that it is in";
    return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "not a model: %s",
                       why ? why : "expected a GGUF file or a directory with config.json");
}
