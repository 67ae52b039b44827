/* --tokenizer FILE: opens a tokenizer file as a text (doppler/text.h) without a plan. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_COMMON_TEXT_FILE_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_COMMON_TEXT_FILE_H

#include <doppler/text.h>

/* Opens a tokenizer, recognized by its content: a Hugging Face folder, tokenizer.json, a SentencePiece model, a
 * tiktoken file, tekken.json or a GGUF file. Fails with DOP_E_INPUT for other, damaged or unsupported files. The caller
 * destroys *out_text. */
dop_status dop_text_of_file(const char *path, dop_diag *diag, dop_text **out_text);

#endif
