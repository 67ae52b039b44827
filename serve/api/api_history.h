/* Conversations as clients send them become what the model's template takes: texts for lists of parts, calls whose arguments are objects or texts, ids that it accepts, reasoning under the name that it reads, and in words what it has no place for. */
#ifndef DOPPLER_SERVE_API_API_HISTORY_H
#define DOPPLER_SERVE_API_API_HISTORY_H

#include "serve/api/api_internal.h"

/* Messages as the template takes them; NULL: refused.  The caller's to release. */
json_t *dop_history_make(const dop_tool_form *form, const json_t *messages, const json_t *tools, dop_reader *reader,
                         dop_request_images *images);

#endif
