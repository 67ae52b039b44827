/* --tokenizer FILE: a text (doppler/text.h) of a tokenizer's own file instead of a plan. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_COMMON_TEXT_FILE_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_COMMON_TEXT_FILE_H

#include <doppler/text.h>

/* A tokenizer's own file, recognized by its content: a Hugging Face folder, tokenizer.json, a SentencePiece model, a
 * tiktoken file, tekken.json or a GGUF file.  DOP_E_INPUT: it is none of these, is damaged, or needs something that is not
 * supported, which the message names.  The caller destroys it. */
dop_status dop_text_of_file(const char *path, dop_diag *diag, dop_text **out_text);

#endif
