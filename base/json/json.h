/* Parser and writer of untrusted JSON (RFC 8259): configurations, tokenizers, headers, requests.
 *
 * Accepts everything that Python's json module accepts, with equal results: a byte order mark, NUL in strings and names, Infinity,
 * -Infinity and NaN, duplicate names (the last value counts), unpaired surrogates (U+FFFD here), numbers of any size.  Rejects invalid
 * UTF-8, control characters in strings, comments and trailing commas.
 *
 * Values are Jansson values.  Two kinds of numbers have no Jansson value: infinities and NaN, and, with DOP_JSON_EXACT, integers beyond
 * 64 bits and reals beyond double, whose digits are kept.  They are represented by special objects that no JSON text can produce, so
 * type checks reject them; the functions below support them. */
#ifndef DOPPLER_BASE_JSON_JSON_H
#define DOPPLER_BASE_JSON_JSON_H

#include <jansson.h>

#include "base/base.h"
#include "base/budget.h"

enum { DOP_JSON_MAX_DEPTH = 1000 };

enum {
    /* Keeps the digits of numbers beyond int64_t and double; otherwise, big integers become reals. */
    DOP_JSON_EXACT = 1,
    DOP_JSON_UNIQUE = 2, /* rejects duplicate names in an object */
};

typedef struct dop_json_how {
    const char *path;   /* path for messages; may be NULL */
    unsigned flags;     /* DOP_JSON_* */
    dop_budget *budget; /* NULL: unlimited.  Bytes of the value stay charged; a failed parse returns its bytes. */
    /* If not NULL: receives the offset after the value, and more text may follow it.  NULL: only white space may follow. */
    size_t *end;
} dop_json_how;

/* Parses one value; `how` may be NULL.  Errors have line and column (in characters).  Release *out_value with json_decref, which
 * accepts NULL. */
dop_status dop_json_decode(const void *text, size_t n, const dop_json_how *how, dop_diag *diag, json_t **out_value);
/* Parses the file how->path, which must contain one value. */
dop_status dop_json_decode_file(const dop_json_how *how, dop_diag *diag, json_t **out_value);

/* Appends a value as compact JSON.  Reals have the shortest digits that parse back equal (as Python's repr); non-ASCII characters are
 * not escaped.  Infinities and NaN are written as Python does, which is not valid JSON. */
void dop_json_encode(dop_buf *out, const json_t *value);
/* Creates a string of n bytes; invalid UTF-8 becomes U+FFFD.  NULL: out of memory. */
json_t *dop_json_text(const char *bytes, size_t n);

/* Reads a number of any kind, also {"__float__": "Infinity"} as transformers writes it.  False if v is not a number. */
bool dop_json_number(const json_t *v, double *out);
/* Creates the object for a number without a Jansson value, from its text.  NULL: out of memory. */
json_t *dop_json_kept_number(const char *text, size_t n);
/* Returns the text of a number without a Jansson value: its digits, "Infinity", "-Infinity" or "NaN"; NULL for other values. */
const char *dop_json_number_text(const json_t *v);
/* Replaces numbers without a Jansson value, anywhere in v, by the nearest reals.  Returns a new reference (to v if nothing changed);
 * NULL: out of memory. */
json_t *dop_json_plain(json_t *v);

#endif
