/* Requests of Anthropic's Messages as chat completions. */
#ifndef DOPPLER_SERVE_PROTOCOLS_MESSAGES_REQUEST_H
#define DOPPLER_SERVE_PROTOCOLS_MESSAGES_REQUEST_H

#include "serve/api/api_internal.h"

/* The request as one of chat completions; counts: for POST /v1/messages/count_tokens.  NULL: refused. */
json_t *dop_messages_translate(dop_reader *r, bool counts);

#endif
