/* UTF-8 according to the Unicode Standard (section 3.9, table 3-7): validation, iteration, encoding. */
#ifndef DOPPLER_BASE_ENCODING_UTF8_H
#define DOPPLER_BASE_ENCODING_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Character at the start of a byte string, or an invalid sequence. */
typedef struct dop_utf8_char {
    uint32_t cp;  /* code point; U+FFFD if not valid */
    uint32_t len; /* bytes of the character, or of the maximal invalid part (at least 1 if n > 0) */
    bool valid;
    bool partial; /* true if invalid only because the string ends too early */
} dop_utf8_char;

dop_utf8_char dop_utf8_next(const char *s, size_t n);
/* Returns the offset of the first invalid byte in s[0..n); n if all are valid. */
size_t dop_utf8_check(const char *s, size_t n);
/* Returns the offset of the character that ends at `end` (0 < end <= length of a valid string). */
size_t dop_utf8_prev(const char *s, size_t end);
/* Encodes a Unicode scalar value as 1 to 4 bytes and returns their number. */
size_t dop_utf8_put(uint32_t cp, char out[4]);

/* True if the code point has the Unicode property White_Space. */
bool dop_utf8_is_space(uint32_t cp);

#endif
