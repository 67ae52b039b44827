/* Base64 with the alphabet A-Z a-z 0-9 + / (RFC 4648, section 4). */
#ifndef DOPPLER_BASE_ENCODING_BASE64_H
#define DOPPLER_BASE_ENCODING_BASE64_H

#include "base/base.h"

/* Appends the bytes that n characters spell; the padding may be missing.  False, with out as it was, when a character
 * is not of the alphabet or their number is impossible. */
bool dop_base64_decode(const char *s, size_t n, dop_buf *out);
/* As dop_base64_decode, for what clients send: white space between the characters is ignored (RFC 2045), and - and _ of base64url are read as
 * + and /. */
bool dop_base64_decode_loose(const char *s, size_t n, dop_buf *out);

#endif
