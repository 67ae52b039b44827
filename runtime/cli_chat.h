/* Functions that --chat, -i and --render-chat share. */
#ifndef DOPPLER_RUNTIME_CLI_CHAT_H
#define DOPPLER_RUNTIME_CLI_CHAT_H

#include "runtime/cli_generate.h"
#include "runtime/text/chat.h"

/* The chat format of a plan (NULL: none) or of a tokenizer. */
dop_status dop_cli_chat(const dop_plan *plan, const dop_tokenizer *tok, dop_diag *diag, dop_chat **out_chat);
dop_status dop_chat_add_message(json_t *messages, const char *role, const char *text, size_t len, dop_diag *diag);
/* Adds the format's stop texts, which live as long as the program. */
dop_status dop_chat_add_stops(const dop_chat *chat, dop_texts *stops, dop_diag *diag);

#endif
