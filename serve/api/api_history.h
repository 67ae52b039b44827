/* Converts a client's conversation to the form that the model's template accepts: joins lists of text parts, writes
 * call arguments as objects or texts, adapts ids, and renames the reasoning member. Content without a place in the
 * template is described in words. */
#ifndef DOPPLER_SERVE_API_API_HISTORY_H
#define DOPPLER_SERVE_API_API_HISTORY_H

#include "serve/api/api_internal.h"

/* Returns the messages in the template's form, to be released by the caller. NULL: the request was refused. */
json_t *dop_history_make(const dop_tool_form *form, const json_t *messages, const json_t *tools, dop_reader *reader,
                         dop_request_images *images);

#endif
