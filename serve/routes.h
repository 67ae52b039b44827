/* Routes of the server, and the answers that need no job (serve/api/api.h). */
#ifndef DOPPLER_SERVE_ROUTES_H
#define DOPPLER_SERVE_ROUTES_H

#include "serve/api/api.h"

/* Initializes the budget of a new request, which ends when *cancelled is set. */
void dop_api_budget(const dop_api *api, const atomic_bool *cancelled, dop_budget *out_budget);
/* Answers requests that need neither work nor waiting: most GET requests, and unknown paths and methods. Returns
 * false if the request is for dop_api_begin. */
bool dop_api_answer_now(const dop_api *api, const dop_api_request *request, dop_answer *out_answer);

/* True if the path accepts multipart/form-data bodies instead of JSON. */
bool dop_api_takes_forms(const char *path);
/* Returns why a single-model server refuses all forms at this path; NULL: it does not. */
const char *dop_api_refuses_forms(const dop_api *api, const char *path);
/* True if a POST to this path may have no body. */
bool dop_api_takes_nothing(const char *path);
/* Counts an HTTP answer with this status. */
void dop_api_count_answer(const dop_api *api, unsigned status);
/* Cancels the waits (dop_answer.waits) registered with this `user`. */
void dop_api_forget(const dop_api *api, const void *user);
/* Reads a request, within its budget, and answers it or creates the call that will answer it. The caller ends
 * *out_call with dop_call_end. */
void dop_api_begin(const dop_api *api, const dop_api_request *request, dop_answer *out_answer, dop_call **out_call);

#endif
