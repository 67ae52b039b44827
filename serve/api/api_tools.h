/* Parses answers while they are generated, into content, reasoning and tool calls. See also: api_form.h for the
 * format of a model's template, api_call.c for one region with calls, api_harmony.c for answers with channels. */
#ifndef DOPPLER_SERVE_API_API_TOOLS_H
#define DOPPLER_SERVE_API_API_TOOLS_H

#include "serve/api/api_internal.h"

/* The terms are copied; the objects they point to must outlive the reading. */
void dop_reading_begin(dop_reading *r, const dop_reading_terms *terms);
/* Parses new text. text [n]: all text so far, which must begin with the text of earlier calls. ended: true if the
 * text is complete. */
void dop_reading_feed(dop_reading *r, const char *text, size_t n, bool ended);
void dop_reading_finish(dop_reading *r);
/* Returns the number of tokens that are reasoning or its marks. text_ends [n]: dop_job_state.text_ends. */
uint32_t dop_reading_thought_tokens(const dop_reading *r, const uint32_t *text_ends, uint32_t n);

#endif
