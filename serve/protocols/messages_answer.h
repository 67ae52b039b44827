/* Writes answers in the format of Anthropic's Messages API. */
#ifndef DOPPLER_SERVE_PROTOCOLS_MESSAGES_ANSWER_H
#define DOPPLER_SERVE_PROTOCOLS_MESSAGES_ANSWER_H

#include "serve/api/api_internal.h"

extern const dop_writer dop_messages_writer;

void dop_messages_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                        dop_call **out_call);
void dop_messages_count(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                        dop_call **out_call);

#endif
