/* Reads a request's JSON within its budget, and reports members that are ignored. */
#ifndef DOPPLER_SERVE_API_API_READ_H
#define DOPPLER_SERVE_API_API_READ_H

#include "serve/api/api_internal.h"

/* Lists ignored members in the header X-Doppler-Ignored, or refuses the request if it has "strict". Call it after
 * all members are read. */
void dop_reader_report(dop_reader *r);
/* Parses a request's body within its budget. NULL: refused, with the reason in the answer. */
json_t *dop_request_json(const dop_api_request *request, bool list, dop_answer *answer);
/* Returns the rest of a path after "/v1/NAME/" or "/NAME/"; NULL: the path does not begin so. */
const char *dop_path_below(const char *path, const char *name);
/* Copies the decoded value of a query parameter, truncated to fit. Returns false if the query does not have it. */
bool dop_request_parameter(const dop_api_request *request, const char *name, char *out, size_t size);
/* Answers a failure caused by the request: 400, 408 if its time is up, or 503 if memory ran out. */
void dop_reader_fail(dop_reader *r, const char *param, const dop_diag *diag, const dop_budget *budget);

#endif
