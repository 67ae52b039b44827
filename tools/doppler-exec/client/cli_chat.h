/* Functions that --chat, -i and --render-chat share. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_CHAT_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_CHAT_H

#include "tools/doppler-exec/client/cli_generate.h"

#include <jansson.h>

/* The chat format of --chat-template (the name of a known one, or a file), or else of the model.  With
 * --system, a template that refuses system messages is DOP_E_INPUT, and one that leaves them out is told of.  *out_chat is
 * NULL where there is no template. */
dop_status dop_cli_chat_open(const dop_cli *cli, const dop_text *text, dop_diag *diag, dop_chat **out_chat);
/* Appends the ids of a conversation.  images: those that the messages have marks for; NULL: none. */
dop_status dop_cli_chat_ids(const dop_chat *chat, const dop_text *text, const char *system, json_t *messages,
                            const struct dop_cli_images *images, dop_diag *diag, dop_ids *out_ids);
dop_status dop_chat_add_message(json_t *messages, const char *role, const char *text, size_t len, dop_diag *diag);
/* Adds the format's stop texts, which live as long as the program. */
dop_status dop_chat_add_stops(const dop_chat *chat, dop_texts *stops, dop_diag *diag);

#endif
