/* Vocabularies of ranked byte strings: tiktoken files (per line a token in base64 and its rank) and tekken.json. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_TIKTOKEN_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_TIKTOKEN_H

#include "text/import/tokenizer_files.h"

#include <jansson.h>

/* Parses a tiktoken file. Arguments as in dop_tokenizer_from_json(). */
dop_status dop_tokenizer_from_tiktoken(const char *path, const void *bytes, size_t size,
                                       const dop_tokenizer_facts *facts, dop_diag *diag, dop_tokenizer **out_tok);
/* True if the first line identifies a tiktoken file. */
bool dop_tok_is_tiktoken(const void *bytes, size_t size);
/* Detects Mistral's tekken.json, and creates a tokenizer from it. */
bool dop_tok_is_tekken(const json_t *root);
dop_status dop_tok_tekken(const json_t *root, const char *path, const dop_tokenizer_facts *facts, dop_diag *diag,
                          dop_tokenizer **out_tok);

#endif
