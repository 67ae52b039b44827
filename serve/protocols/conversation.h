/* Conversations of other APIs as messages of a chat completion. */
#ifndef DOPPLER_SERVE_PROTOCOLS_CONVERSATION_H
#define DOPPLER_SERVE_PROTOCOLS_CONVERSATION_H

#include "serve/protocols/protocol.h"

/* Appends text to the conversation; between: what separates the text from other text of the same message. */
void dop_conversation_text(dop_conversation *t, const char *role, const char *between, const json_t *text);
/* Appends a picture: a part of a message as chat completions, Responses or Messages have it (dop_request_image). */
void dop_conversation_picture(dop_conversation *t, const char *role, const json_t *part);
void dop_conversation_reasoning(dop_conversation *t, const json_t *text);
/* Appends a call; arguments: an object or a JSON text. */
void dop_conversation_call(dop_conversation *t, const char *id, const char *name, const json_t *arguments);
/* Appends the result of a call, behind texts and pictures of the role "tool" that were appended before. */
void dop_conversation_result(dop_conversation *t, const char *id, const dop_buf *text);
/* Ends the conversation and the reading of a request: gives `request`, a chat completion, with the conversation's messages.  NULL: `r`
 * has refused something or there was no memory, the answer says so, and `request` is freed. */
json_t *dop_conversation_end(dop_conversation *t, dop_reader *r, json_t *request);

/* A request's tool in the form of chat completions: a new reference.  NULL members are left out. */
json_t *dop_tool_description(const json_t *name, const json_t *description, const json_t *parameters,
                             const json_t *strict);
/* Makes the part of the answer's head that names things in a request that have no effect; with "strict" in the request, refuses the
 * request for them. */
void dop_reader_ignore(dop_reader *r, const char *param, const char *const *names, size_t n);
/* Takes over members that chat completions have and the API does not: switches of reasoning, and the shape of the answer.  To be
 * called before members of the API that mean the same. */
void dop_reader_take_chat(dop_reader *r, json_t *out);
/* The value of a JSON text, which is an object; an empty object where it is none (a call that was cut). */
json_t *dop_call_arguments(const json_t *call);

#endif
