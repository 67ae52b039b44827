/* Chat template files in a model directory (Hugging Face, RDRR), next to the tokenizer. */
#include "frontend/facts/chat_file.h"
#include "frontend/facts/import.h"
#include "text/import/chat_files.h"

/* Empty text: the model has no template. */
dop_status
dop_import_keep_template(dop_checkpoint *m, dop_status st, dop_buf *text, dop_diag *diag)
{
    if (st == DOP_OK && text->size > 0 && !(m->chat_template = dop_arena_strdup(m->arena, text->data)))
        st = DOP_NO_MEMORY(diag);
    dop_buf_finish(text);
    return st;
}

dop_status
dop_import_chat_template(const char *dir, dop_checkpoint *m, dop_diag *diag)
{
    dop_buf text = {0};
    return dop_import_keep_template(m, dop_chat_of_dir(dir, diag, &text), &text, diag);
}
