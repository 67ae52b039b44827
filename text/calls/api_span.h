/* Values within a text that is still being written: JSON, and the literals of Python and of templates that have quotation marks of
 * their own.  A value's text is kept as it was written, so that numbers keep all their digits. */
#ifndef DOPPLER_TEXT_CALLS_API_SPAN_H
#define DOPPLER_TEXT_CALLS_API_SPAN_H

#include "base/base.h"

#include "base/json/json.h"

typedef enum dop_span {
    DOP_SPAN_BAD, /* the text is no such value */
    DOP_SPAN_CUT, /* the text may become such a value, but ends before it does */
    DOP_SPAN_GOOD
} dop_span;

/* Skips white space. */
size_t dop_span_blank(const char *text, size_t n, size_t at);
/* The JSON value (RFC 8259) at io_at, which moves behind it; control characters within strings are tolerated. */
dop_span dop_span_json(const char *text, size_t n, size_t *io_at);
/* Appends the JSON value text[0, n) without white space between its tokens, control characters in strings escaped. */
void dop_span_append(dop_buf *out, const char *text, size_t n);
/* Decodes a JSON string with its quotation marks; NULL: the text is none. */
json_t *dop_span_string(const char *text, size_t n);
/* Appends a string as JSON. */
void dop_span_quote(dop_buf *out, const char *text, size_t n);

/* A member of a JSON object. */
typedef struct dop_span_member {
    const char *name, *value; /* the name with its quotation marks */
    size_t n_name, n_value;
} dop_span_member;
/* Steps through the members of a complete object: *io_at is 0 at first; false: there are no more members. */
bool dop_span_next(const char *object, size_t n, size_t *io_at, dop_span_member *out);

/* A literal at io_at, appended to `out` as JSON: numbers, words of JSON and of Python, strings in ', " or between `quote` marks
 * (NULL: none), lists, tuples, and dictionaries whose keys may stand without quotation marks. */
dop_span dop_span_literal(const char *text, size_t n, const char *quote, size_t *io_at, dop_buf *out);

#endif
