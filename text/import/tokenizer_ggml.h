/* Vocabulary of a GGML speech model: ranked byte strings as in tiktoken files, followed by special tokens that the
 * file does not list. Reference: openai/whisper, tokenizer.py. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_GGML_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_GGML_H

#include "text/tokenizer/tokenizer.h"

/* Creates the tokenizer of a GGML speech model from its token list and the implied special tokens. */
dop_status dop_tokenizer_from_ggml(const char *path, dop_diag *diag, dop_tokenizer **out_tok);

#endif
