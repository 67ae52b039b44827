/* Which function answers which path, and the answers that need no job (serve/api/api.h). */
#ifndef DOPPLER_SERVE_ROUTES_H
#define DOPPLER_SERVE_ROUTES_H

#include "serve/api/api.h"

/* The budget of a new request, which ends when *cancelled is set. */
void dop_api_budget(const dop_api *api, const atomic_bool *cancelled, dop_budget *out_budget);
/* Answers what needs neither work nor waiting: most of GET, and paths and methods that do not exist.  False: it is for dop_api_begin. */
bool dop_api_answer_now(const dop_api *api, const dop_api_request *request, dop_answer *out_answer);

/* True if the path takes bodies of multipart/form-data; others are JSON. */
bool dop_api_takes_forms(const char *path);
/* The reason why a server of one model refuses all forms at this path; NULL: it does not. */
const char *dop_api_refuses_forms(const dop_api *api, const char *path);
/* May a POST to this path have no body? */
bool dop_api_takes_nothing(const char *path);
/* Counts an answer of the server. */
void dop_api_count_answer(const dop_api *api, unsigned status);
/* Whoever waits (dop_answer.waits) with this `user` does so no more. */
void dop_api_forget(const dop_api *api, const void *user);
/* Reads a request, which may take as long as its budget allows, and answers it, or gives the call that will answer: *out_call, which
 * the caller ends by dop_call_end. */
void dop_api_begin(const dop_api *api, const dop_api_request *request, dop_answer *out_answer, dop_call **out_call);

#endif
