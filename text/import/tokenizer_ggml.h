/* The vocabulary of a GGML file of a model of speech: byte strings by rank as in tiktoken files, behind which stand special tokens that the file does not list.  Reference: openai/whisper, tokenizer.py. */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_GGML_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_GGML_H

#include "text/tokenizer/tokenizer.h"

/* Makes the tokenizer of a GGML file of a model of speech from its list of tokens, and the special tokens behind them. */
dop_status dop_tokenizer_from_ggml(const char *path, dop_diag *diag, dop_tokenizer **out_tok);

#endif
