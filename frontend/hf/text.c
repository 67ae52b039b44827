/* Text facts of a Hugging Face directory: end ids, sampling defaults, tokenizer, chat template. */
#include "frontend/hf/text.h"

#include "base/os/system.h"
#include "frontend/facts/chat_file.h"
#include "frontend/facts/leftovers.h"
#include "frontend/hf/hf.h"
#include "text/import/tokenizer_hf.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Reads token ids from a field, a number or a list; -1 means none. Skips invalid ids, with a note. */
static dop_status
read_token_ids(const dop_hf *hf, const dop_json *j, const char *key, uint32_t max, int64_t *ids, uint32_t *out_n)
{
    const uint32_t vocab = hf->model->arch.vocab;
    const json_t *v = dop_json_get(j, key);
    char note[256];
    double id;
    DOP_RETURN_IF_ERROR(dop_json_ids(j, key, vocab, max, ids, out_n));
    for (size_t i = 0; i < (json_is_array(v) ? json_array_size(v) : 1); i++)
        if (dop_json_number(json_is_array(v) ? json_array_get(v, i) : v, &id) && id >= vocab) {
            snprintf(note, sizeof note, "%s %.0f of %s is no token, since there are %u", key, id,
                     dop_path_name(j->path), vocab);
            DOP_RETURN_IF_ERROR(dop_checkpoint_note(hf->model, note, hf->diag));
        }
    return DOP_OK;
}

/* Reads token ids from config.json; the outermost object has precedence over text_config. */
static dop_status
read_config_ids(const dop_hf *hf, const char *key, uint32_t max, int64_t *ids, uint32_t *out_n)
{
    return read_token_ids(hf, dop_json_has(&hf->top, key) ? &hf->top : &hf->cfg, key, max, ids, out_n);
}

/* Reads a sampling limit (top_k and others); -1, as in files of other programs, means no limit. */
static dop_status
read_limit_or(const dop_json *j, const char *key, double otherwise, double *out)
{
    double d;
    const bool none = dop_json_number(dop_json_get(j, key), &d) && d == -1;
    *out = otherwise;
    return none ? DOP_OK : dop_json_f64_or(j, key, 0, 1, otherwise, out);
}

/* transformers samples only if do_sample is set, with these defaults. */
static dop_status
read_sampling(dop_hf *hf, const dop_json *gen)
{
    dop_checkpoint *m = hf->model;
    const json_t *top_k = dop_json_get(gen, "top_k");
    bool sample = false;
    DOP_RETURN_IF_ERROR(dop_json_bool_or(gen, "do_sample", false, &sample));
    if (!sample)
        return DOP_OK;
    DOP_RETURN_IF_ERROR(dop_json_f64_or(gen, "temperature", 0, 100, 1, &m->temperature));
    if (!(json_is_integer(top_k) && json_integer_value(top_k) == -1))
        DOP_RETURN_IF_ERROR(dop_json_u32_or(gen, "top_k", 0, DOP_MAX_VOCAB, 50, &m->top_k));
    DOP_RETURN_IF_ERROR(read_limit_or(gen, "top_p", 1, &m->top_p));
    return read_limit_or(gen, "min_p", 0, &m->min_p);
}

static dop_status
read_generation(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    json_t *root = NULL;
    dop_json gen;
    uint32_t n_bos = 0;
    int64_t bos = -1;
    dop_status st = read_config_ids(hf, "eos_token_id", DOP_MAX_END_IDS, a->end_ids, &a->n_end_ids);
    if (st == DOP_OK)
        st = read_config_ids(hf, "bos_token_id", 1, &bos, &n_bos);
    const char *path = dop_arena_printf(hf->arena, "%s/generation_config.json", hf->dir);
    if (st == DOP_OK && path && access(path, F_OK) == 0) {
        st = dop_json_decode_file(&(dop_json_how){.path = path}, hf->diag, &root);
        if (st == DOP_OK)
            st = dop_json_root(root, path, hf->diag, &gen);
        if (st == DOP_OK && dop_json_has(&gen, "eos_token_id"))
            st = read_token_ids(hf, &gen, "eos_token_id", DOP_MAX_END_IDS, a->end_ids, &a->n_end_ids);
        if (st == DOP_OK && dop_json_has(&gen, "bos_token_id"))
            st = read_token_ids(hf, &gen, "bos_token_id", 1, &bos, &n_bos);
        if (st == DOP_OK)
            st = read_sampling(hf, &gen);
    }
    a->bos_id = n_bos ? bos : -1;
    json_decref(root);
    return path ? st : DOP_NO_MEMORY(hf->diag);
}

dop_status
dop_hf_text(dop_hf *hf)
{
    dop_status st = read_generation(hf);
    if (st == DOP_OK)
        st = dop_import_chat_template(hf->dir, hf->model, hf->diag);
    dop_buf path = {0};
    if (st == DOP_OK && dop_tokenizer_find_file(hf->dir, &path))
        hf->model->tokenizer_json_path = dop_arena_strdup(hf->arena, path.data);
    if (st == DOP_OK && (path.failed || (path.size && !access(path.data, F_OK) && !hf->model->tokenizer_json_path)))
        st = DOP_NO_MEMORY(hf->diag);
    dop_buf_finish(&path);
    return st;
}
