/* Vocabularies of byte strings with ranks: tiktoken files (a token in base64 and its rank a line) and tekken.json. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_TIKTOKEN_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_TIKTOKEN_H

#include "text/import/tokenizer_files.h"

#include <jansson.h>

/* Parses a tiktoken file; arguments as of dop_tokenizer_from_json(). */
dop_status dop_tokenizer_from_tiktoken(const char *path, const void *bytes, size_t size,
                                       const dop_tokenizer_facts *facts, dop_diag *diag, dop_tokenizer **out_tok);
/* Whether a file is a tiktoken file, judged by its first line. */
bool dop_tok_is_tiktoken(const void *bytes, size_t size);
/* tokenizer_tiktoken.c: whether a JSON file is Mistral's tekken.json, and the tokenizer of one. */
bool dop_tok_is_tekken(const json_t *root);
dop_status dop_tok_tekken(const json_t *root, const char *path, const dop_tokenizer_facts *facts, dop_diag *diag,
                          dop_tokenizer **out_tok);

#endif
