/* Answers in OpenAI's harmony format, which gpt-oss writes: messages with headers, <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>... */
#ifndef DOPPLER_SERVE_API_API_HARMONY_H
#define DOPPLER_SERVE_API_API_HARMONY_H

#include "serve/api/api_internal.h"

/* Reads r->whole, an answer with channels (Harmony), into its parts. */
void dop_reading_channels(dop_reading *r, bool ended);

#endif
