/* Tokenizers from the files that models come with: a Hugging Face tokenizer.json, a SentencePiece model, a tiktoken file, a
 * tekken.json, and GGUF metadata.
 *
 * References: Hugging Face `tokenizers` (format and behaviour of tokenizer.json), the GGUF specification
 * (tokenizer.ggml.* keys), llama.cpp (behaviour of vocabularies stored in GGUF), SentencePiece, tiktoken and
 * mistral-common. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_FILES_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_FILES_H

#include "text/tokenizer/tokenizer.h"

struct dop_gguf;
struct json_t;

/* Facts about a model's tokens that other files than tokenizer.json state.  dop_tokenizer_facts_init sets "unknown"
 * everywhere; nothing is owned, all pointers must live until the tokenizer is made. */
typedef struct dop_tokenizer_facts {
    int add_bos;            /* 1, 0, or -1: what the post-processor of tokenizer.json says */
    int add_eos;            /* 1, 0, or -1: what the post-processor of tokenizer.json says */
    int64_t bos_id;         /* -1: unknown */
    const int64_t *eos_ids; /* every id that ends generation */
    size_t eos_count;
    const char *bos_token;       /* by text, used when the id is unknown; NULL: unknown */
    const char *eos_token;       /* what templates call eos_token; NULL: the file's own, or else the first of eos_ids */
    bool no_bos, no_eos;         /* the tokenizer has none, whatever ids the model has */
    const char *chat_template;   /* Jinja text; NULL: none */
    const struct json_t *config; /* tokenizer_config.json, for files that leave to it what tokens and patterns there
                                    are; NULL: none */
} dop_tokenizer_facts;

void dop_tokenizer_facts_init(dop_tokenizer_facts *facts);

/* Parses tokenizer.json or tekken.json (UTF-8 JSON text).  path is for messages only; facts may be NULL.  Anything that
 * would change ids and that is not supported is an error that names the component. */
dop_status dop_tokenizer_from_json(const char *path, const void *bytes, size_t size, const dop_tokenizer_facts *facts,
                                   dop_diag *diag, dop_tokenizer **out_tok);
/* Parses a SentencePiece model (tokenizer.model), Unigram or BPE; arguments as of dop_tokenizer_from_json(). */
dop_status dop_tokenizer_from_sentencepiece(const char *path, const void *bytes, size_t size,
                                            const dop_tokenizer_facts *facts, dop_diag *diag, dop_tokenizer **out_tok);
/* Parses a tiktoken file; arguments as of dop_tokenizer_from_json(). */
dop_status dop_tokenizer_from_tiktoken(const char *path, const void *bytes, size_t size,
                                       const dop_tokenizer_facts *facts, dop_diag *diag, dop_tokenizer **out_tok);
/* Parses merges.txt with the vocab.json beside it; arguments as of dop_tokenizer_from_json(). */
dop_status dop_tokenizer_from_merges(const char *path, const void *bytes, size_t size, const dop_tokenizer_facts *facts,
                                     dop_diag *diag, dop_tokenizer **out_tok);
/* Parses a tokenizer.json, tekken.json, SentencePiece model, tiktoken file or merges.txt; the content tells which. */
dop_status dop_tokenizer_from_bytes(const char *path, const void *bytes, size_t size, const dop_tokenizer_facts *facts,
                                    dop_diag *diag, dop_tokenizer **out_tok);
/* Makes the tokenizer of a model directory from the first that exists of tokenizer.json, tokenizer.model, *.tiktoken,
 * tiktoken.model, tekken.json and merges.txt, with tokenizer_config.json, special_tokens_map.json, generation_config.json, config.json,
 * added_tokens.json and the chat templates for the facts where present. */
dop_status dop_tokenizer_from_hf_dir(const char *dir, dop_diag *diag, dop_tokenizer **out_tok);
/* Appends the path of the file that dop_tokenizer_from_hf_dir() would parse, or of tokenizer.json and returns false where there is
 * none. */
bool dop_tokenizer_find_file(const char *dir, dop_buf *out_path);
/* The prompts in a directory's config_sentence_transformers.json, in the form of a plan's card (plan/prompts.h); to
 * release with json_decref.  NULL: there are none. */
dop_status dop_prompts_of_dir(const char *dir, dop_diag *diag, struct json_t **out_prompts);
/* Makes a tokenizer from the tokenizer.ggml.* metadata of an open GGUF file. */
dop_status dop_tokenizer_from_gguf(const struct dop_gguf *gguf, dop_diag *diag, dop_tokenizer **out_tok);
/* Makes the tokenizer of a GGML file of a model of speech from its list of tokens, and the special tokens behind them. */
dop_status dop_tokenizer_from_ggml(const char *path, dop_diag *diag, dop_tokenizer **out_tok);

#endif
