/* JSON (RFC 8259) that others wrote: configurations, tokenizers, headers, requests.
 *
 * What Python reads is read, and means the same: a byte order mark, NUL in strings and in names, the words Infinity,
 * -Infinity and NaN, a name that comes twice (the last value counts), half of a surrogate pair (U+FFFD here), numbers of any
 * size.  Bytes that are not UTF-8, control characters in strings, comments and commas too many are errors.
 *
 * Values are those of Jansson.  Two kinds of numbers have no Jansson value of their own: infinities and NaN always, and, with
 * DOP_JSON_EXACT, integers beyond 64 bits and reals beyond the range of double, whose digits are kept.  They are objects
 * that no text can make, so that type checks refuse them; the functions below know them. */
#ifndef DOPPLER_BASE_JSON_JSON_H
#define DOPPLER_BASE_JSON_JSON_H

#include <jansson.h>

#include "base/base.h"
#include "base/budget.h"

enum { DOP_JSON_MAX_DEPTH = 1000 };

enum {
    /* Numbers beyond int64_t and double keep their digits; without the flag, big integers become reals. */
    DOP_JSON_EXACT = 1,
    DOP_JSON_UNIQUE = 2, /* a name that comes twice in an object is an error */
};

typedef struct dop_json_how {
    const char *path; /* for messages; may be NULL */
    unsigned flags;   /* DOP_JSON_* */
    dop_budget
        *budget; /* NULL: unlimited.  Bytes of the value stay charged; those of a failed reading are given back. */
    /* Set to the offset behind the value, and more text may follow; NULL: only white space may follow the value. */
    size_t *end;
} dop_json_how;

/* Reads one value; `how` may be NULL.  Errors name line and column (in characters).  *out_value is owned by the caller
 * (json_decref, which accepts NULL). */
dop_status dop_json_decode(const void *text, size_t n, const dop_json_how *how, dop_diag *diag, json_t **out_value);
/* Reads the one value that the file how->path contains. */
dop_status dop_json_decode_file(const dop_json_how *how, dop_diag *diag, json_t **out_value);

/* Appends a value as compact JSON, reals with the shortest digits that read back the same (as Python's repr), characters
 * beyond ASCII as they are.  An infinity is written as Python does, which is no JSON. */
void dop_json_encode(dop_buf *out, const json_t *value);
/* A string of n bytes, in which bytes that are not UTF-8 become U+FFFD.  NULL: out of memory. */
json_t *dop_json_text(const char *bytes, size_t n);

/* The value of a number of any kind, and of {"__float__": "Infinity"}, which transformers writes for numbers that JSON lacks; false: v
 * is no number. */
bool dop_json_number(const json_t *v, double *out);
/* Makes the object that stands for a number without a Jansson value, from the number's text; NULL: out of memory. */
json_t *dop_json_kept_number(const char *text, size_t n);
/* The text of a number without a Jansson value: its digits, or "Infinity", "-Infinity", "NaN"; NULL: v is another value. */
const char *dop_json_number_text(const json_t *v);
/* Replaces numbers without a Jansson value, anywhere in v, by the nearest reals.  Returns a new reference, to v itself where nothing
 * needed replacing; NULL: out of memory. */
json_t *dop_json_plain(json_t *v);

#endif
