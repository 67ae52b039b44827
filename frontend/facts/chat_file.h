/* The chat template in a directory (Hugging Face, RDRR), where it lies beside the tokenizer. */
#ifndef DOPPLER_FRONTEND_FACTS_CHAT_FILE_H
#define DOPPLER_FRONTEND_FACTS_CHAT_FILE_H

#include "frontend/facts/arch.h"

/* Sets m->chat_template from the files of a directory; leaves it NULL when none has one. */
dop_status dop_import_chat_template(const char *dir, dop_checkpoint *m, dop_diag *diag);
/* Sets m->chat_template from a text that was read with status st, and finishes the text. */
dop_status dop_import_keep_template(dop_checkpoint *m, dop_status st, dop_buf *text, dop_diag *diag);

#endif
