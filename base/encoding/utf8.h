/* UTF-8 as the Unicode Standard defines it (section 3.9, table 3-7): checking, stepping, writing. */
#ifndef DOPPLER_BASE_ENCODING_UTF8_H
#define DOPPLER_BASE_ENCODING_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character at the start of a byte string, or what stands there in its place. */
typedef struct dop_utf8_char {
    uint32_t cp;  /* code point, U+FFFD when not valid */
    uint32_t len; /* bytes: the whole character, or the maximal part that cannot be one (at least 1 when n > 0) */
    bool valid;
    bool partial; /* not valid only because the string ends too early */
} dop_utf8_char;

dop_utf8_char dop_utf8_next(const char *s, size_t n);
/* Validates s[0..n): the offset of the first byte that is not part of a valid character; n when all are valid. */
size_t dop_utf8_check(const char *s, size_t n);
/* Steps back: the offset of the character that ends at `end` (0 < end <= length of a valid string). */
size_t dop_utf8_prev(const char *s, size_t end);
/* Encodes a code point, which must be a scalar value, to 1 to 4 bytes and returns their number. */
size_t dop_utf8_put(uint32_t cp, char out[4]);

/* Has a code point Unicode's White_Space property? */
bool dop_utf8_is_space(uint32_t cp);

#endif
