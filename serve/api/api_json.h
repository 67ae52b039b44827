/* JSON helpers and answers of the API. */
#ifndef DOPPLER_SERVE_API_API_JSON_H
#define DOPPLER_SERVE_API_API_JSON_H

#include "serve/api/api_internal.h"

void dop_answer_finish(dop_answer *answer); /* frees the members, but keeps the error format; accepts a zeroed answer */
/* Adds a header field with a comma-separated list of at most about 20 names. Only printable ASCII is kept. A field
 * may be added several times. */
void dop_answer_header(dop_answer *answer, const char *name, const char *const *values, size_t n);

/* Returns the error format for requests to this path. */
dop_error_form dop_api_error_form(const char *path);
/* Turns an answer that is a plain error into an event of a stream that has already begun. */
void dop_answer_error_event(dop_answer *answer);

void dop_answer_error(dop_answer *answer, const dop_api_error *error, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void dop_answer_no_memory(dop_answer *answer);

/* Refuses the request because `param` is invalid. */
void dop_reader_refuse(dop_reader *r, const char *param, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Returns a member, or NULL if it is missing or null. */
const json_t *dop_reader_get(dop_reader *r, const char *name);
/* Marks a member as not looked up, so that dop_reader_report reports it as ignored. */
void dop_reader_forget(dop_reader *r, const char *name);
double dop_reader_real(dop_reader *r, const char *name, double otherwise, double min, double max);
int64_t dop_reader_whole(dop_reader *r, const char *name, int64_t otherwise, int64_t min, int64_t max);
bool dop_reader_bool(dop_reader *r, const char *name, bool otherwise);
/* Returns a string member of *out_n bytes; NULL: absent. */
const char *dop_reader_text(dop_reader *r, const char *name, size_t *out_n);

/* Answers with a JSON value and takes ownership of it. */
void dop_answer_json(dop_answer *answer, unsigned status, json_t *value);
/* Returns a random seed. */
uint64_t dop_any_seed(void);
/* Answers with the reason why jobs were not accepted. */
void dop_answer_not_submitted(dop_answer *answer, dop_submit result, const dop_diag *diag);
/* Returns a base64 string (RFC 4648, section 4). */
json_t *dop_json_base64(const void *bytes, size_t n);
/* Marks bytes from `from` to `to` of r->whole as reasoning. */
void dop_reading_add_thought(dop_reading *r, size_t from, size_t to);
void dop_reading_add_call(dop_reading *r, const char *name, size_t n_name, const char *arguments, size_t n_arguments);
/* Returns the number of bytes at the end of the text that may be the beginning of the mark. */
size_t dop_partial_mark(const char *text, size_t n, const char *mark);
void dop_answer_failure(dop_answer *answer, const dop_job_state *state);
/* Appends an error event for a failed job to a stream. */
void dop_answer_failed_event(dop_answer *answer, const dop_job_state *state);
/* Appends a named event and takes ownership of the value. */
void dop_answer_event(dop_answer *answer, const char *name, json_t *value);

#endif
