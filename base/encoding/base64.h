/* Base64 with the alphabet A-Z a-z 0-9 + / (RFC 4648, section 4). */
#ifndef DOPPLER_BASE_ENCODING_BASE64_H
#define DOPPLER_BASE_ENCODING_BASE64_H

#include "base/base.h"

/* Appends the bytes encoded in n characters; padding is optional.  False, with out unchanged, for characters outside the alphabet or an
 * impossible length. */
bool dop_base64_decode(const char *s, size_t n, dop_buf *out);
/* Like dop_base64_decode for client data: ignores white space (RFC 2045) and accepts - and _ of base64url for + and /. */
bool dop_base64_decode_loose(const char *s, size_t n, dop_buf *out);

#endif
