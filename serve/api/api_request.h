/* From a request's JSON to the jobs that answer it. */
#ifndef DOPPLER_SERVE_API_API_REQUEST_H
#define DOPPLER_SERVE_API_API_REQUEST_H

#include "serve/api/api_internal.h"

dop_call *dop_call_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_call_how how,
                         dop_answer *answer);
/* The number of tokens of a conversation's prompt; false: refused, and the answer says why. */
bool dop_call_measure(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                      size_t *out_n);
/* POST /apply-template: the prompt that a conversation becomes. */
void dop_call_render(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer);

#endif
