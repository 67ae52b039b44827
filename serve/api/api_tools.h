/* Reads answers as they are written: what is content, what is reasoning, and which tools are called.  What a model's template says about all of them: api_form.h; one region with calls: api_call.c; answers with channels: api_harmony.c. */
#ifndef DOPPLER_SERVE_API_API_TOOLS_H
#define DOPPLER_SERVE_API_API_TOOLS_H

#include "serve/api/api_internal.h"

/* Terms are copied; what they point to must outlive the reading. */
void dop_reading_begin(dop_reading *r, const dop_reading_terms *terms);
/* Reads on.  text: everything that has been written so far, [n], which begins with what was fed before.  ended: nothing follows. */
void dop_reading_feed(dop_reading *r, const char *text, size_t n, bool ended);
void dop_reading_finish(dop_reading *r);
/* The tokens of what has been read that are reasoning or its marks.  text_ends: dop_job_state.text_ends, [n]. */
uint32_t dop_reading_thought_tokens(const dop_reading *r, const uint32_t *text_ends, uint32_t n);

#endif
