/* Chat formatting, shared by --chat, -i and --render-chat. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_CHAT_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLIENT_CLI_CHAT_H

#include "tools/doppler-exec/client/cli_generate.h"

#include <jansson.h>

/* Opens the chat format of --chat-template (a built-in name or a file), otherwise the model's. *out_chat is NULL if
 * there is none. With --system, fails with DOP_E_INPUT if the template rejects system messages, and prints a note if it
 * omits them. */
dop_status dop_cli_chat_open(const dop_cli *cli, const dop_text *text, dop_diag *diag, dop_chat **out_chat);
/* Appends the tokens of a conversation. images: those marked in the messages; NULL: none. */
dop_status dop_cli_chat_ids(const dop_chat *chat, const dop_text *text, const char *system, json_t *messages,
                            const struct dop_cli_images *images, dop_diag *diag, dop_ids *out_ids);
dop_status dop_chat_add_message(json_t *messages, const char *role, const char *text, size_t len, dop_diag *diag);
/* Adds the stop strings of the format. They live as long as the program. */
dop_status dop_chat_add_stops(const dop_chat *chat, dop_texts *stops, dop_diag *diag);

#endif
