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
    DOP_JSON_EXACT = 1, /* numbers beyond int64_t and double keep their digits; without it such integers become reals */
    DOP_JSON_UNIQUE = 2, /* a name that comes twice in an object is an error */
};

typedef struct dop_json_how {
    const char *path; /* for messages; may be NULL */
    unsigned flags;   /* DOP_JSON_* */
    dop_budget
        *budget; /* NULL: unlimited.  Bytes of the value stay charged; those of a failed reading are given back. */
    size_t *end; /* set to the offset behind the value, which more text may follow; NULL: only white space may */
} dop_json_how;

/* Reads one value; `how` may be NULL.  Errors name line and column (in characters).  *out_value is owned by the caller
 * (json_decref, which accepts NULL). */
dop_status dop_json_decode(const void *text, size_t n, const dop_json_how *how, dop_diag *diag, json_t **out_value);
/* The same for a whole file, whose path is how->path. */
dop_status dop_json_decode_file(const dop_json_how *how, dop_diag *diag, json_t **out_value);

/* Appends a value as compact JSON, reals with the shortest digits that read back the same (as Python's repr), characters
 * beyond ASCII as they are.  An infinity is written as Python does, which is no JSON. */
void dop_json_encode(dop_buf *out, const json_t *value);

/* The value of a number of any kind, and of {"__float__": "Infinity"}, which transformers writes for what JSON has no
 * number for; false: it is none. */
bool dop_json_number(const json_t *v, double *out);
/* The number that a text of digits stands for, as an object of that kind; NULL: out of memory. */
json_t *dop_json_kept_number(const char *text, size_t n);
/* The digits of a number that only they represent, or "Infinity", "-Infinity", "NaN"; NULL: it is another value. */
const char *dop_json_number_text(const json_t *v);
/* The value with the nearest reals in place of such numbers: a new reference, to `v` itself where it has none; NULL: out
 * of memory. */
json_t *dop_json_plain(json_t *v);

#endif
