/* Chat templates as models bring them: in files of a folder, in tokenizer_config.json, or in GGUF metadata; one, or
 * several with names.
 *
 * Of several, "default" is the one for conversations and "tool_use" the one for those with tools, as in transformers.
 * Both become one template that chooses between them.  Other names are for callers that ask for them, and are left out. */
#ifndef DOPPLER_TEXT_IMPORT_CHAT_FILES_H
#define DOPPLER_TEXT_IMPORT_CHAT_FILES_H

#include "base/base.h"

struct dop_gguf;

/* Appends the template of a Hugging Face folder, and a 0 that is not counted; nothing where it has none.  What comes first in
 * this list wins: chat_template.jinja with additional_chat_templates/NAME.jinja, chat_template.json, tokenizer_config.json. */
dop_status dop_chat_of_dir(const char *dir, dop_diag *diag, dop_buf *out);
/* Appends the template of an open GGUF file (tokenizer.chat_template and tokenizer.chat_template.tool_use), and a 0 that is not
 * counted; nothing where it has none. */
dop_status dop_chat_of_gguf(const struct dop_gguf *gguf, dop_diag *diag, dop_buf *out);

#endif
