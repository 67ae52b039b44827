/* Tokenizers stored in GGUF metadata (tokenizer.ggml.*). */
#ifndef DOPPLER_TEXT_IMPORT_TOKENIZER_GGUF_H
#define DOPPLER_TEXT_IMPORT_TOKENIZER_GGUF_H

#include "base/format/gguf.h"
#include "text/tokenizer/tokenizer.h"

/* Creates a tokenizer from the tokenizer.ggml.* metadata of an open GGUF file. */
dop_status dop_tokenizer_from_gguf(const struct dop_gguf *gguf, dop_diag *diag, dop_tokenizer **out_tok);

#endif
