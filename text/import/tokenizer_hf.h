/* Tokenizers of model directories: finds the tokenizer file, detects its format from its content, and reads the
 * accompanying JSON files. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_HF_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_HF_H

#include "text/import/tokenizer_files.h"

/* Parses a tokenizer.json, tekken.json, SentencePiece model, tiktoken file or merges.txt. Detects the format from
 * the content. */
dop_status dop_tokenizer_from_bytes(const char *path, const void *bytes, size_t size, const dop_tokenizer_facts *facts,
                                    dop_diag *diag, dop_tokenizer **out_tok);
/* Creates the tokenizer of a model directory from the first existing file of tokenizer.json, tokenizer.model,
 * *.tiktoken, tiktoken.model, tekken.json and merges.txt. Reads additional facts from the chat templates,
 * tokenizer_config.json, special_tokens_map.json, generation_config.json, config.json and added_tokens.json, where
 * present. */
dop_status dop_tokenizer_from_hf_dir(const char *dir, dop_diag *diag, dop_tokenizer **out_tok);
/* Appends the path of the file that dop_tokenizer_from_hf_dir() would parse. Without such a file, appends the path
 * of tokenizer.json and returns false. */
bool dop_tokenizer_find_file(const char *dir, dop_buf *out_path);

#endif
