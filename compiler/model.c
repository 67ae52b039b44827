#include "compiler/import.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The last part of the path; "." and a trailing slash are resolved first, so the same directory has one name. */
static dop_status
base_name(const char *path, dop_arena *arena, dop_diag *diag, char **out)
{
    char *full = realpath(path, NULL);
    if (!full)
        return DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot open: %s", strerror(errno));
    const char *slash = strrchr(full, '/');
    *out = dop_arena_strdup(arena, slash ? slash + 1 : full);
    free(full);
    return *out ? DOP_OK : DOP_FAIL(diag, DOP_E_NOMEM, "out of host memory");
}

static bool
has_file(dop_arena *arena, const char *dir, const char *file)
{
    char *path = dop_arena_printf(arena, "%s/%s", dir, file);
    return path && access(path, F_OK) == 0;
}

static dop_status
load_directory(const char *path, dop_diag *diag, dop_model *m)
{
    /* A converted model may keep its config.json, but not its safetensors. */
    const bool safetensors =
        has_file(m->arena, path, "model.safetensors") || has_file(m->arena, path, "model.safetensors.index.json");
    if (!safetensors && has_file(m->arena, path, "manifest.json"))
        return dop_import_rdrr(path, diag, m);
    if (has_file(m->arena, path, "config.json"))
        return dop_import_hf(path, diag, m);
    return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "not a model: no config.json and no manifest.json here");
}

/* Four bytes tell a GGUF file from everything else. */
static dop_status
load_file(const char *path, dop_diag *diag, dop_model *m)
{
    dop_map map;
    dop_status st = dop_map_open(path, diag, &map);
    const bool gguf = map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0;
    dop_map_close(&map);
    if (st == DOP_OK && gguf)
        return dop_import_gguf(path, diag, m);
    return st == DOP_OK ? DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                                      "not a model: expected a GGUF file or a directory with config.json")
                        : st;
}

dop_status
dop_model_load(const char *path, dop_arena *arena, dop_diag *diag, dop_model *out_model)
{
    struct stat sb;
    *out_model = (dop_model){.arena = arena, .temperature = -1, .top_p = 1};
    if (stat(path, &sb) != 0)
        return DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot open: %s", strerror(errno));
    dop_status st = base_name(path, arena, diag, &out_model->name);
    if (st == DOP_OK && S_ISDIR(sb.st_mode))
        st = load_directory(path, diag, out_model);
    else if (st == DOP_OK)
        st = load_file(path, diag, out_model);
    if (st != DOP_OK)
        dop_model_finish(out_model);
    return st;
}

void
dop_model_finish(dop_model *m)
{
    for (uint32_t i = 0; i < m->weights.n_maps; i++)
        dop_map_close(&m->weights.maps[i]);
    free(m->weights.maps);
    memset(m, 0, sizeof *m);
}
