/* Writes answers in the format of OpenAI's Responses API: items, and events that report their progress. */
#ifndef DOPPLER_SERVE_PROTOCOLS_RESPONSES_ANSWER_H
#define DOPPLER_SERVE_PROTOCOLS_RESPONSES_ANSWER_H

#include "serve/protocols/protocol.h"

extern const dop_writer dop_responses_writer;
/* Assigns ids to conversation items that have none. */
void dop_response_name_items(const dop_call *c, json_t *items);
/* Returns the response in its current state. status NULL: the final status. Does not take ownership of its
 * arguments. */
json_t *dop_response_json(const dop_call *c, const dop_response *response, const dop_news *news, const char *status);

#endif
