/* Vocabulary of a GGML speech model: ranked byte strings as in tiktoken files, followed by special tokens that the
 * file does not list. Reference: openai/whisper, tokenizer.py. */
#include "text/import/tokenizer_ggml.h"
#include "base/encoding/languages.h"
#include "base/format/ggml.h"
#include "text/import/tokenizer_build.h"
#include "text/import/tokenizer_facts.h"
#include "text/tokenizer/tokenizer_patterns.h"

#include <stdlib.h>
#include <string.h>

static dop_status
add_ggml_special(dop_tok_build *b, uint32_t *io_id, const char *text, dop_diag *diag)
{
    return dop_tok_ranks_special(b, (*io_id)++, text, strlen(text), diag);
}

static dop_status
add_specials(dop_tok_build *b, uint32_t first, uint32_t n_languages, dop_diag *diag)
{
    static const char *const others[] = {"<|translate|>",   "<|transcribe|>", "<|startoflm|>",
                                         "<|startofprev|>", "<|nospeech|>",   "<|notimestamps|>"};
    uint32_t id = first;
    char text[24];
    DOP_RETURN_IF_ERROR(add_ggml_special(b, &id, "<|endoftext|>", diag));
    DOP_RETURN_IF_ERROR(add_ggml_special(b, &id, "<|startoftranscript|>", diag));
    for (uint32_t i = 0; i < n_languages; i++) {
        snprintf(text, sizeof text, "<|%s|>", dop_language_at(i)->code);
        DOP_RETURN_IF_ERROR(add_ggml_special(b, &id, text, diag));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        DOP_RETURN_IF_ERROR(add_ggml_special(b, &id, others[i], diag));
    for (uint32_t i = 0; id < b->tokens; i++) {
        snprintf(text, sizeof text, "<|%u.%02u|>", i * 2 / 100, i * 2 % 100);
        DOP_RETURN_IF_ERROR(add_ggml_special(b, &id, text, diag));
    }
    return DOP_OK;
}

static dop_status
build_ggml_tokenizer(const dop_ggml *g, dop_tok_build *b, dop_diag *diag)
{
    uint32_t first, languages;
    if (!dop_ggml_specials(g, &first, &languages))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, g->path, "a vocabulary of %u tokens has no special tokens",
                           g->sizes.vocab);
    DOP_RETURN_IF_ERROR(dop_tok_build_init(b, g->path, g->sizes.vocab, diag));
    if (!(b->ranks = calloc(b->tokens, sizeof *b->ranks)))
        DOP_RETURN_IF_ERROR(DOP_NO_MEMORY(diag));
    for (uint32_t i = 0; i < first; i++)
        if (g->tokens[i].n > 0)
            /* the last rank of multilingual models is empty */
            DOP_RETURN_IF_ERROR(dop_tok_ranks_token(b, i, i, g->tokens[i].bytes, g->tokens[i].n, diag));
    DOP_RETURN_IF_ERROR(dop_tok_ranks_pattern(b, GPT2, strlen(GPT2), diag));
    DOP_RETURN_IF_ERROR(add_specials(b, first, languages, diag));
    b->eos = first;
    return DOP_OK;
}

dop_status
dop_tokenizer_from_ggml(const char *path, dop_diag *diag, dop_tokenizer **out_tok)
{
    dop_tok_build b = {0};
    dop_arena arena;
    dop_tokenizer_facts none;
    dop_map map;
    dop_ggml g;
    *out_tok = NULL;
    dop_status st = dop_map_open(path, diag, &map);
    if (st != DOP_OK)
        return st;
    dop_arena_init(&arena);
    dop_tokenizer_facts_init(&none);
    st = dop_ggml_parse(path, map.data, map.size, &arena, diag, &g);
    if (st == DOP_OK)
        st = build_ggml_tokenizer(&g, &b, diag);
    if (st == DOP_OK) {
        dop_tok_build_facts(&b, &none);
        st = dop_tok_build_finish(&b, diag, out_tok);
    }
    dop_tok_build_free(&b);
    dop_arena_finish(&arena);
    dop_map_close(&map);
    return st;
}
