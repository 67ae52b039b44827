/* Functions that --chat, -i and --render-chat share. */
#ifndef DOPPLER_RUNTIME_CLI_CHAT_H
#define DOPPLER_RUNTIME_CLI_CHAT_H

#include "runtime/cli_generate.h"

#include <jansson.h>

/* Appends the ids of a conversation; flags: DOP_CHAT_*. */
dop_status dop_cli_chat_ids(const dop_chat *chat, const dop_text *text, const json_t *messages, unsigned flags,
                            dop_diag *diag, dop_ids *out_ids);
dop_status dop_chat_add_message(json_t *messages, const char *role, const char *text, size_t len, dop_diag *diag);
/* Adds the format's stop texts, which live as long as the program. */
dop_status dop_chat_add_stops(const dop_chat *chat, dop_texts *stops, dop_diag *diag);

#endif
