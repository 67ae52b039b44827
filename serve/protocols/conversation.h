/* Converts conversations of other APIs to messages of a chat completion. */
#ifndef DOPPLER_SERVE_PROTOCOLS_CONVERSATION_H
#define DOPPLER_SERVE_PROTOCOLS_CONVERSATION_H

#include "serve/protocols/protocol.h"

/* Appends text to the conversation. between: separator from earlier text of the same message. */
void dop_conversation_text(dop_conversation *t, const char *role, const char *between, const json_t *text);
/* Appends an image: a message part in the format of chat completions, Responses or Messages (dop_request_image). */
void dop_conversation_picture(dop_conversation *t, const char *role, const json_t *part);
void dop_conversation_reasoning(dop_conversation *t, const json_t *text);
/* Appends a tool call. arguments: an object, or a JSON text. */
void dop_conversation_call(dop_conversation *t, const char *id, const char *name, const json_t *arguments);
/* Appends a tool result, after any texts and images of role "tool" appended before. */
void dop_conversation_result(dop_conversation *t, const char *id, const dop_buf *text);
/* Finishes the conversation and returns `request`, a chat completion, with the conversation's messages. NULL: `r`
 * refused something, or memory ran out; the answer has the reason and `request` is freed. */
json_t *dop_conversation_end(dop_conversation *t, dop_reader *r, json_t *request);

/* Returns a new tool description in the format of chat completions. NULL members are omitted. */
json_t *dop_tool_description(const json_t *name, const json_t *description, const json_t *parameters,
                             const json_t *strict);
/* Lists members of the request that are ignored in the header X-Doppler-Ignored. If the request has "strict",
 * refuses it instead. */
void dop_reader_ignore(dop_reader *r, const char *param, const char *const *names, size_t n);
/* Copies members that only chat completions have: reasoning switches and the answer's constraint. Call it before
 * reading members of the API that mean the same. */
void dop_reader_take_chat(dop_reader *r, json_t *out);
/* Returns the arguments of a call as an object. It is empty if they are not valid JSON (a truncated call). */
json_t *dop_call_arguments(const json_t *call);

#endif
