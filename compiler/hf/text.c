/* The text side of a Hugging Face directory: end ids, sampling defaults, tokenizer, chat template. */
#include "compiler/hf/hf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ids from config.json: the file itself before its text part. */
static dop_status
config_ids(const dop_hf *hf, const char *key, uint32_t max, int64_t *ids, uint32_t *out_n)
{
    return dop_json_ids(dop_json_has(&hf->top, key) ? &hf->top : &hf->cfg, key, hf->model->arch.vocab, max, ids, out_n);
}

/* transformers samples only when do_sample says so, and then with these defaults. */
static dop_status
read_sampling(dop_hf *hf, const dop_json *gen)
{
    dop_checkpoint *m = hf->model;
    bool sample = false;
    dop_status st = dop_json_bool_or(gen, "do_sample", false, &sample);
    if (st != DOP_OK || !sample)
        return st;
    st = dop_json_f64_or(gen, "temperature", 0, 100, 1, &m->temperature);
    if (st == DOP_OK)
        st = dop_json_u32_or(gen, "top_k", 0, DOP_MAX_VOCAB, 50, &m->top_k);
    if (st == DOP_OK)
        st = dop_json_f64_or(gen, "top_p", 0, 1, 1, &m->top_p);
    if (st == DOP_OK)
        st = dop_json_f64_or(gen, "min_p", 0, 1, 0, &m->min_p);
    return st;
}

static dop_status
read_generation(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    json_t *root = NULL;
    dop_json gen;
    uint32_t n_bos = 0;
    int64_t bos = -1;
    dop_status st = config_ids(hf, "eos_token_id", DOP_MAX_END_IDS, a->end_ids, &a->n_end_ids);
    if (st == DOP_OK)
        st = config_ids(hf, "bos_token_id", 1, &bos, &n_bos);
    const char *path = dop_arena_printf(hf->arena, "%s/generation_config.json", hf->dir);
    if (st == DOP_OK && path && access(path, F_OK) == 0) {
        st = dop_json_read(path, hf->diag, &root);
        if (st == DOP_OK)
            st = dop_json_root(root, path, hf->diag, &gen);
        if (st == DOP_OK && dop_json_has(&gen, "eos_token_id"))
            st = dop_json_ids(&gen, "eos_token_id", a->vocab, DOP_MAX_END_IDS, a->end_ids, &a->n_end_ids);
        if (st == DOP_OK && dop_json_has(&gen, "bos_token_id"))
            st = dop_json_ids(&gen, "bos_token_id", a->vocab, 1, &bos, &n_bos);
        if (st == DOP_OK)
            st = read_sampling(hf, &gen);
    }
    a->bos_id = n_bos ? bos : -1;
    json_decref(root);
    return path ? st : DOP_FAIL(hf->diag, DOP_E_NOMEM, "out of host memory");
}

/* chat_template of a JSON file: text, or a list of named ones of which "default" counts. */
static dop_status
template_of(dop_hf *hf, const char *file)
{
    json_t *root = NULL;
    dop_json j;
    const char *path = dop_arena_printf(hf->arena, "%s/%s", hf->dir, file), *text = NULL;
    if (!path || access(path, F_OK) != 0)
        return path ? DOP_OK : DOP_FAIL(hf->diag, DOP_E_NOMEM, "out of host memory");
    dop_status st = dop_json_read(path, hf->diag, &root);
    if (st == DOP_OK)
        st = dop_json_root(root, path, hf->diag, &j);
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
    if (st == DOP_OK && text && !(hf->model->chat_template = dop_arena_strdup(hf->arena, text)))
        st = DOP_FAIL(hf->diag, DOP_E_NOMEM, "out of host memory");
    json_decref(root);
    return st;
}

/* A file of its own wins over the field of tokenizer_config.json. */
dop_status
dop_hf_chat_template(dop_hf *hf)
{
    dop_map map;
    const char *path = dop_arena_printf(hf->arena, "%s/chat_template.jinja", hf->dir);
    if (!path)
        return DOP_FAIL(hf->diag, DOP_E_NOMEM, "out of host memory");
    if (access(path, F_OK) != 0) {
        dop_status st = template_of(hf, "chat_template.json");
        return st == DOP_OK && !hf->model->chat_template ? template_of(hf, "tokenizer_config.json") : st;
    }
    dop_status st = dop_map_open(path, hf->diag, &map);
    if (st == DOP_OK && map.size > 1 << 20)
        st = DOP_FAIL_IN(hf->diag, DOP_E_INPUT, path, "a chat template of %llu bytes, at most 1 MiB is supported",
                         (unsigned long long)map.size);
    if (st == DOP_OK) {
        char *text = dop_arena_alloc(hf->arena, (size_t)map.size + 1);
        if (!text)
            st = DOP_FAIL(hf->diag, DOP_E_NOMEM, "out of host memory");
        else if (map.size)
            memcpy(text, map.data, (size_t)map.size);
        hf->model->chat_template = text;
    }
    dop_map_close(&map);
    return st;
}

dop_status
dop_hf_text(dop_hf *hf)
{
    dop_status st = read_generation(hf);
    if (st == DOP_OK)
        st = dop_hf_chat_template(hf);
    char *path = dop_arena_printf(hf->arena, "%s/tokenizer.json", hf->dir);
    if (st == DOP_OK && !path)
        st = DOP_FAIL(hf->diag, DOP_E_NOMEM, "out of host memory");
    if (st == DOP_OK && access(path, F_OK) == 0)
        hf->model->tokenizer_json_path = path;
    return st;
}
