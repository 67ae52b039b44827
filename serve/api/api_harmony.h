/* Parses answers in OpenAI's harmony format, used by gpt-oss: messages with headers,
 * <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>... */
#ifndef DOPPLER_SERVE_API_API_HARMONY_H
#define DOPPLER_SERVE_API_API_HARMONY_H

#include "serve/api/api_internal.h"

/* Parses r->whole, an answer in harmony format, into content, reasoning and calls. */
void dop_reading_channels(dop_reading *r, bool ended);

#endif
