/* Translates requests of Anthropic's Messages API to chat completions. */
#ifndef DOPPLER_SERVE_PROTOCOLS_MESSAGES_REQUEST_H
#define DOPPLER_SERVE_PROTOCOLS_MESSAGES_REQUEST_H

#include "serve/api/api_internal.h"

/* Returns the request as a chat completion; NULL: refused. counts: true for POST /v1/messages/count_tokens. */
json_t *dop_messages_translate(dop_reader *r, bool counts);

#endif
