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

#endif
