/* Translates requests of OpenAI's Responses API to chat completions. */
#ifndef DOPPLER_SERVE_PROTOCOLS_RESPONSES_REQUEST_H
#define DOPPLER_SERVE_PROTOCOLS_RESPONSES_REQUEST_H

#include "serve/protocols/protocol.h"

void dop_response_terms_finish(dop_response_terms *terms); /* accepts a zeroed one */
/* Returns the request as a chat completion; NULL: refused. */
json_t *dop_responses_translate(const dop_api *api, dop_reader *r, dop_response_settle *settle,
                                dop_response_terms *out_terms);
/* Appends items to a conversation. */
void dop_responses_take_items(dop_reader *r, const json_t *items, dop_conversation *turns);

#endif
