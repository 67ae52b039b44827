/* Reading a request's JSON: within its budget, and with a report of what has no effect. */
#ifndef DOPPLER_SERVE_API_API_READ_H
#define DOPPLER_SERVE_API_API_READ_H

#include "serve/api/api_internal.h"

/* When everything has been read: names the members that have no effect in the header X-Doppler-Ignored of the answer; with "strict"
 * the request is refused for them. */
void dop_reader_report(dop_reader *r);
/* Parses a request's body within its budget; NULL: refused, and the answer says why. */
json_t *dop_request_json(const dop_api_request *request, bool list, dop_answer *answer);
/* What follows "/v1/NAME/" or "/NAME/" in a path; NULL: it is another path. */
const char *dop_path_below(const char *path, const char *name);
/* The value of a name in the request's query, without escapes and cut where it does not fit.  False: the query does not have it. */
bool dop_request_parameter(const dop_api_request *request, const char *name, char *out, size_t size);
/* Answers a failure of something that a request asked for: 400, or 408 where its time is up, or 503 where there is no memory. */
void dop_reader_fail(dop_reader *r, const char *param, const dop_diag *diag, const dop_budget *budget);

#endif
