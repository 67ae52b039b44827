/* The text side of a Hugging Face directory: end ids, sampling defaults, tokenizer, chat template. */
#include "compiler/hf/hf.h"

#include "runtime/text/tokenizer.h"

#include <unistd.h>

/* Reads ids from config.json; those of the file itself count before those of its text part. */
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
        st = dop_json_decode_file(&(dop_json_how){.path = path}, hf->diag, &root);
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
        st = DOP_FAIL(hf->diag, DOP_E_NOMEM, "out of host memory");
    dop_buf_finish(&path);
    return st;
}
