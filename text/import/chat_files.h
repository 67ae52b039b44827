/* Chat templates of models: files of a model directory, tokenizer_config.json, or GGUF metadata. A model has one
 * template, or several with names.
 *
 * Names are as in transformers: "default" is for conversations, "tool_use" for conversations with tools. Both are
 * merged into one template that selects between them. Other names are ignored. */
#ifndef DOPPLER_TEXT_IMPORT_CHAT_FILES_H
#define DOPPLER_TEXT_IMPORT_CHAT_FILES_H

#include "base/base.h"

struct dop_gguf;

/* Appends the chat template of a Hugging Face directory and a terminating 0 that is not counted. Appends nothing if
 * there is none. The first existing source wins: chat_template.jinja (with additional_chat_templates/NAME.jinja),
 * chat_template.json, tokenizer_config.json. */
dop_status dop_chat_of_dir(const char *dir, dop_diag *diag, dop_buf *out);
/* Appends the chat template of an open GGUF file and a terminating 0 that is not counted. Reads
 * tokenizer.chat_template and tokenizer.chat_template.tool_use. Appends nothing if there is none. */
dop_status dop_chat_of_gguf(const struct dop_gguf *gguf, dop_diag *diag, dop_buf *out);

#endif
