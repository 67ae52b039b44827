/* The chat template beside a model's tokenizer, where Hugging Face and RDRR directories have it. */
#include "compiler/import.h"
#include "compiler/json_util.h"

#include <string.h>
#include <unistd.h>

/* chat_template of a JSON file: text, or a list of named ones of which "default" counts. */
static dop_status
template_of(const char *dir, const char *file, dop_checkpoint *m, dop_diag *diag)
{
    json_t *root = NULL;
    dop_json j;
    const char *path = dop_arena_printf(m->arena, "%s/%s", dir, file), *text = NULL;
    if (!path || access(path, F_OK) != 0)
        return path ? DOP_OK : DOP_FAIL(diag, DOP_E_NOMEM, "out of host memory");
    dop_status st = dop_json_decode_file(&(dop_json_how){.path = path}, diag, &root);
    if (st == DOP_OK)
        st = dop_json_root(root, path, diag, &j);
    const json_t *v = st == DOP_OK ? dop_json_get(&j, "chat_template") : NULL;
    if (json_is_array(v)) {
        for (size_t i = 0; i < json_array_size(v); i++) {
            const json_t *name = json_object_get(json_array_get(v, i), "name");
            if (json_is_string(name) && strcmp(json_string_value(name), "default") == 0)
                text = json_string_value(json_object_get(json_array_get(v, i), "template"));
        }
    } else if (st == DOP_OK) {
        st = dop_json_str_or(&j, "chat_template", NULL, &text);
    }
    if (st == DOP_OK && text && !(m->chat_template = dop_arena_strdup(m->arena, text)))
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of host memory");
    json_decref(root);
    return st;
}

/* A file of its own wins over the field of tokenizer_config.json. */
dop_status
dop_import_chat_template(const char *dir, dop_checkpoint *m, dop_diag *diag)
{
    dop_map map;
    const char *path = dop_arena_printf(m->arena, "%s/chat_template.jinja", dir);
    if (!path)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of host memory");
    if (access(path, F_OK) != 0) {
        dop_status st = template_of(dir, "chat_template.json", m, diag);
        return st == DOP_OK && !m->chat_template ? template_of(dir, "tokenizer_config.json", m, diag) : st;
    }
    dop_status st = dop_map_open(path, diag, &map);
    if (st == DOP_OK && map.size > 1 << 20)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "a chat template of %llu bytes, at most 1 MiB is supported",
                         (unsigned long long)map.size);
    if (st == DOP_OK) {
        char *text = dop_arena_alloc(m->arena, (size_t)map.size + 1);
        if (!text)
            st = DOP_FAIL(diag, DOP_E_NOMEM, "out of host memory");
        else if (map.size)
            memcpy(text, map.data, (size_t)map.size);
        m->chat_template = text;
    }
    dop_map_close(&map);
    return st;
}
