/* Functions of api_json.c. */
#ifndef DOPPLER_SERVE_API_API_JSON_H
#define DOPPLER_SERVE_API_API_JSON_H

#include "serve/api/api_internal.h"

void dop_answer_finish(dop_answer *answer); /* frees what it owns, and keeps the form of errors; accepts a zeroed one */
/* Adds a header field, whose value is a list of at most about 20 names; of the values only printable ASCII is kept.  The field may
 * be added several times. */
void dop_answer_header(dop_answer *answer, const char *name, const char *const *values, size_t n);

/* The form of errors for requests to this path. */
dop_error_form dop_api_error_form(const char *path);
/* Makes an error, which is the whole answer, an event of a stream that has begun already. */
void dop_answer_error_event(dop_answer *answer);

void dop_answer_error(dop_answer *answer, const dop_api_error *error, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void dop_answer_no_memory(dop_answer *answer);

/* Refuses the request because `param` is wrong. */
void dop_reader_refuse(dop_reader *r, const char *param, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A member that exists and is not null; NULL otherwise. */
const json_t *dop_reader_get(dop_reader *r, const char *name);
/* Forgets that a member was looked for: it has no effect, and dop_reader_report says so. */
void dop_reader_forget(dop_reader *r, const char *name);
double dop_reader_real(dop_reader *r, const char *name, double otherwise, double min, double max);
int64_t dop_reader_whole(dop_reader *r, const char *name, int64_t otherwise, int64_t min, int64_t max);
bool dop_reader_bool(dop_reader *r, const char *name, bool otherwise);
/* A member that is a string of *out_n bytes; NULL: absent. */
const char *dop_reader_text(dop_reader *r, const char *name, size_t *out_n);

/* Makes a JSON value the answer, and takes ownership of it. */
void dop_answer_json(dop_answer *answer, unsigned status, json_t *value);
/* A seed that nobody has chosen. */
uint64_t dop_any_seed(void);
/* Answers that jobs were not accepted. */
void dop_answer_not_submitted(dop_answer *answer, dop_submit result, const dop_diag *diag);
/* Base64: a string with four characters for three bytes (RFC 4648, section 4). */
json_t *dop_json_base64(const void *bytes, size_t n);
/* The bytes from `from` to `to` of r->whole are reasoning. */
void dop_reading_add_thought(dop_reading *r, size_t from, size_t to);
void dop_reading_add_call(dop_reading *r, const char *name, size_t n_name, const char *arguments, size_t n_arguments);
/* How many bytes at the end of a text may be the beginning of this mark. */
size_t dop_partial_mark(const char *text, size_t n, const char *mark);
void dop_answer_failure(dop_answer *answer, const dop_job_state *state);
/* Appends the error for a job that has not ended well to a stream. */
void dop_answer_failed_event(dop_answer *answer, const dop_job_state *state);
/* Appends an event with a name of its own, and takes ownership of the value. */
void dop_answer_event(dop_answer *answer, const char *name, json_t *value);

#endif
