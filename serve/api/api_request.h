/* Turns a request's JSON into the jobs that answer it. */
#ifndef DOPPLER_SERVE_API_API_REQUEST_H
#define DOPPLER_SERVE_API_API_REQUEST_H

#include "serve/api/api_internal.h"

/* Makes a call from a request and submits its jobs. NULL: refused, with the reason in the answer. */
dop_call *dop_call_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_call_how how,
                         dop_answer *answer);
/* Counts the tokens of a conversation's prompt. Returns false if the request was refused; the answer has the reason. */
bool dop_call_measure(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                      size_t *out_n);
/* POST /apply-template: answers with the rendered prompt of a conversation. */
void dop_call_render(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer);

#endif
