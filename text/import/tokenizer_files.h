/* Imports tokenizers from model files: Hugging Face tokenizer.json, SentencePiece models, tiktoken files,
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

/* Facts about a model's tokens from files other than the tokenizer's own. dop_tokenizer_facts_init() sets all to
 * unknown. Owns nothing: the pointers must stay valid until the tokenizer has been created. */
typedef struct dop_tokenizer_facts {
    int add_bos;            /* 1 or 0; -1: as in tokenizer.json's post-processor */
    int add_eos;            /* 1 or 0; -1: as in tokenizer.json's post-processor */
    int64_t bos_id;         /* id of BOS; -1 if unknown */
    const int64_t *eos_ids; /* [eos_count] all ids that end generation */
    size_t eos_count;
    const char *bos_token;       /* BOS by its text, used if the id is unknown; NULL if unknown */
    const char *eos_token;       /* eos_token of templates; NULL: the file's own, otherwise the first of eos_ids */
    bool no_bos, no_eos;         /* true if the tokenizer has no BOS or EOS, even if the model has such an id */
    const char *chat_template;   /* Jinja source; NULL if there is none */
    const struct json_t *config; /* tokenizer_config.json, for vocabulary files without special tokens and split
                                  * patterns; may be NULL */
} dop_tokenizer_facts;

#endif
