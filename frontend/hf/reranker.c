/* Rerankers that are text models: they answer "yes" or "no" whether a document matches a query. The score is the probability of
 * "yes" among the two. The config.json of Qwen3-Reranker is that of a chat model; only the name or README.md title tells them
 * apart, as in llama.cpp's converter (conversion/qwen.py). */
#include "frontend/hf/reranker.h"
#include "frontend/facts/leftovers.h"
#include "frontend/hf/hf.h"
#include "text/import/tokenizer_hf.h"
#include "text/tokenizer/ids.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Prompt around query and document from the model's README.md, with its default instruction. */
static const char prompt[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. "
    "Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search "
    "query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";

/* True if a text contains the word, ignoring case. */
static bool
contains_word(const char *text, size_t n, const char *word)
{
    const size_t len = strlen(word);
    for (size_t i = 0; i + len <= n; i++)
        if (strncasecmp(text + i, word, len) == 0)
            return true;
    return false;
}

static bool
is_named_reranker(const dop_hf *hf)
{
    enum { BEGINNING = 1 << 16 };
    static const char name[] = "qwen3-reranker", title[] = "# qwen3-reranker";
    char path[1100];
    dop_map map;
    const char *from = json_string_value(dop_json_get(&hf->top, "_name_or_path"));
    if (contains_word(hf->dir, strlen(hf->dir), name) || (from && contains_word(from, strlen(from), name)))
        return true;
    snprintf(path, sizeof path, "%s/README.md", hf->dir);
    if (dop_map_open(path, NULL, &map) != DOP_OK)
        return false;
    const bool titled = contains_word((const char *)map.data, map.size < BEGINNING ? map.size : BEGINNING, title);
    dop_map_close(&map);
    return titled;
}

/* Gets the id of a text that is a single token; false: it is not. */
static bool
get_single_token(const dop_tokenizer *tok, const char *text, uint32_t vocab, uint32_t *out)
{
    dop_ids ids = {0};
    const bool one =
        dop_tokenizer_encode(tok, text, strlen(text), 0, NULL, &ids) == DOP_OK && ids.count == 1 && ids.data[0] < vocab;
    *out = one ? ids.data[0] : 0;
    dop_ids_finish(&ids);
    return one;
}

dop_status
dop_hf_reranker(dop_hf *hf)
{
    dop_tokenizer *tok = NULL;
    uint32_t vocab = 0;
    if (!hf->family->reranks || hf->headless || hf->classes || !is_named_reranker(hf))
        return DOP_OK;
    dop_status st = dop_fact_u32_or(&hf->cfg, DOP_HF(vocab), 0, &vocab);
    if (st == DOP_OK)
        st = dop_tokenizer_from_hf_dir(hf->dir, hf->diag, &tok);
    if (st != DOP_OK)
        return st;
    const bool answers = tok && get_single_token(tok, "no", vocab, &hf->answers[0]) &&
                         get_single_token(tok, "yes", vocab, &hf->answers[1]);
    dop_tokenizer_destroy(tok);
    if (!answers || hf->answers[0] == hf->answers[1])
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                           "a reranker by its name, but \"yes\" and \"no\" are no tokens of its tokenizer");
    hf->classes = true;
    hf->model->pair_prompt = dop_arena_strdup(hf->arena, prompt);
    return hf->model->pair_prompt
               ? dop_checkpoint_note(hf->model,
                                     "a reranker by its name: the model gives the probability that a "
                                     "document goes with a query (doppler-exec --rerank), and no tokens",
                                     hf->diag)
               : DOP_NO_MEMORY(hf->diag);
}
