/* Parsers for values in a text that may be incomplete: JSON, Python literals, and literals of templates with their
 * own quotation marks. The text of a value is kept as written, so numbers keep all digits. */
#ifndef DOPPLER_TEXT_CALLS_API_SPAN_H
#define DOPPLER_TEXT_CALLS_API_SPAN_H

#include "base/base.h"

#include "base/json/json.h"

typedef enum dop_span {
    DOP_SPAN_BAD, /* the text is not such a value */
    DOP_SPAN_CUT, /* the text ends before the value is complete */
    DOP_SPAN_GOOD
} dop_span;

/* Returns the offset after white space at `at`. */
size_t dop_span_blank(const char *text, size_t n, size_t at);
/* Skips the JSON value (RFC 8259) at *io_at. Accepts control characters in strings. */
dop_span dop_span_json(const char *text, size_t n, size_t *io_at);
/* Appends the JSON value text[0, n) without white space between tokens. Escapes control characters in strings. */
void dop_span_append(dop_buf *out, const char *text, size_t n);
/* Decodes a JSON string with its quotation marks. Returns NULL if the text is not a string. */
json_t *dop_span_string(const char *text, size_t n);
/* Appends a text as a JSON string. */
void dop_span_quote(dop_buf *out, const char *text, size_t n);

/* One member of a JSON object. */
typedef struct dop_span_member {
    const char *name, *value; /* the name includes its quotation marks */
    size_t n_name, n_value;
} dop_span_member;
/* Iterates over the members of a complete object. *io_at starts at 0. Returns false if there are no more members. */
bool dop_span_next(const char *object, size_t n, size_t *io_at, dop_span_member *out);

/* Parses the literal at *io_at and appends it to `out` as JSON. Supports numbers, words of JSON and Python, strings,
 * lists, tuples and dictionaries. Strings are in ', " or between `quote` marks (may be NULL). Keys of dictionaries
 * may be unquoted. */
dop_span dop_span_literal(const char *text, size_t n, const char *quote, size_t *io_at, dop_buf *out);

#endif
