/* Chat template files in a model directory (Hugging Face, RDRR), next to the tokenizer. */
#ifndef DOPPLER_FRONTEND_FACTS_CHAT_FILE_H
#define DOPPLER_FRONTEND_FACTS_CHAT_FILE_H

#include "frontend/facts/arch.h"

/* Sets m->chat_template from the files of a directory; leaves it NULL if there is none. */
dop_status dop_import_chat_template(const char *dir, dop_checkpoint *m, dop_diag *diag);
/* Sets m->chat_template to `text` if st is DOP_OK, then frees `text`. Returns st or the failure. */
dop_status dop_import_keep_template(dop_checkpoint *m, dop_status st, dop_buf *text, dop_diag *diag);

#endif
