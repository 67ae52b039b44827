/* Text facts of GGUF files: end ids, chat template, name and vocabulary. */
#include "frontend/gguf/text.h"
#include "frontend/facts/chat_file.h"
#include "frontend/facts/leftovers.h"
#include "frontend/gguf/gguf_import.h"
#include "text/import/chat_files.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static void
add_end_id(dop_arch *a, uint64_t id)
{
    for (uint32_t i = 0; i < a->n_end_ids; i++)
        if (a->end_ids[i] == (int64_t)id)
            return;
    if (id < a->vocab && a->n_end_ids < DOP_MAX_END_IDS)
        a->end_ids[a->n_end_ids++] = (int64_t)id;
}

/* Adds end ids by the tokens' texts, in addition to the keys: chat models stop at these tokens, but many files state only the end
 * of text. */
static void
add_named_end_ids(const dop_gguf *g, dop_arch *a)
{
    static const char *const ends[] = {"<|eot_id|>",    "<|im_end|>", "<|end|>", "<end_of_turn>",
                                       "<|endoftext|>", "<|eom_id|>", "<EOT>"};
    enum { control = 3 };
    const dop_gguf_kv *tokens = dop_gguf_find(g, "tokenizer.ggml.tokens");
    const dop_gguf_kv *types = dop_gguf_find(g, "tokenizer.ggml.token_type");
    dop_gguf_str s;
    uint64_t at = 0, type = 0;
    for (uint64_t id = 0; dop_gguf_next_string(tokens, &at, &s); id++)
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
            if (s.len == strlen(ends[k]) && memcmp(s.data, ends[k], (size_t)s.len) == 0 &&
                dop_gguf_u64(types, id, &type) && type == control)
                add_end_id(a, id);
}

dop_status
dop_gi_text(dop_gi *gi)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    const dop_gguf *g = &gi->parts[0];
    dop_checkpoint *m = gi->model;
    uint64_t id = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const dop_gguf_kv *kv = dop_gguf_find(g, ends[i]);
        if (kv && !dop_gguf_u64(kv, 0, &id))
            return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not a token id", ends[i]);
        if (kv)
            add_end_id(&m->arch, id);
        if (kv && id >= m->arch.vocab) {
            char note[128];
            snprintf(note, sizeof note, "%s %llu is no token, since there are %u", ends[i], (unsigned long long)id,
                     m->arch.vocab);
            dop_status st = dop_checkpoint_note(m, note, gi->diag);
            if (st != DOP_OK)
                return st;
        }
    }
    add_named_end_ids(g, &m->arch);
    const dop_gguf_kv *bos = dop_gguf_find(g, "tokenizer.ggml.bos_token_id");
    if (bos && !dop_gguf_u64(bos, 0, &id))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "tokenizer.ggml.bos_token_id is not a token id");
    m->arch.bos_id = bos && id < m->arch.vocab ? (int64_t)id : -1;
    dop_gguf_str text;
    dop_buf chat = {0};
    dop_status st = dop_import_keep_template(m, dop_chat_of_gguf(g, gi->diag, &chat), &chat, gi->diag);
    if (st != DOP_OK)
        return st;
    if (dop_gguf_string(dop_gguf_find(g, "general.name"), &text) && text.len < 1000)
        m->name = dop_arena_printf(m->arena, "%.*s", (int)text.len, text.data);
    if (m->arch.encoder.classes && dop_gguf_string(dop_gguf_find(g, "tokenizer.chat_template.rerank"), &text) &&
        text.len < INT_MAX) {
        m->pair_prompt = dop_arena_printf(m->arena, "%.*s", (int)text.len, text.data);
        if (!m->pair_prompt)
            return DOP_NO_MEMORY(gi->diag);
    }
    if (dop_gguf_find(g, "tokenizer.ggml.tokens"))
        m->tokenizer_gguf_path = dop_arena_strdup(m->arena, gi->path);
    return DOP_OK;
}
