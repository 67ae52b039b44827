/* Answers in the form of OpenAI's Responses: items, and events that tell how they grow. */
#ifndef DOPPLER_SERVE_PROTOCOLS_RESPONSES_ANSWER_H
#define DOPPLER_SERVE_PROTOCOLS_RESPONSES_ANSWER_H

#include "serve/protocols/protocol.h"

extern const dop_writer dop_responses_writer;
/* Gives items of a response's conversation that have no id one of their own. */
void dop_response_name_items(const dop_call *c, json_t *items);
/* The response as it stands; status NULL: that of its end.  Takes no ownership. */
json_t *dop_response_json(const dop_call *c, const dop_response *response, const dop_news *news, const char *status);

#endif
